"""A declared dataset, and its directory in jobs and workspaces; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from springtide.scheduler.declared import Declared

VARIABLE: Final = "SPRINGTIDE_DATASETS"
"""Variable of jobs and workspaces with the directories of their datasets by name, as JSON."""
MOUNTS: Final = "/datasets"
"""Directory of pods in which datasets are mounted, each by its name."""


@dataclass(frozen=True, slots=True)
class Dataset(Declared):
    """A dataset and its storage.

    On one machine it is the directory ``path``; on a cluster the directory ``sub_path`` of the volume claim
    ``claim``, the whole volume if that is empty. Without ``path`` and ``claim`` it no longer exists.
    """

    name: str
    path: str = ""
    claim: str = ""
    sub_path: str = ""
    projects: tuple[str, ...] | None = None

    @property
    def place(self) -> str:
        """The directory in which programs find it."""
        return self.path or f"{MOUNTS}/{self.name}"

    @property
    def is_there(self) -> bool:
        """Whether the dataset exists."""
        return bool(self.path or self.claim)


def variable(datasets: Iterable[Dataset]) -> dict[str, str]:
    """Return the environment variable with the directories of the datasets."""
    return {VARIABLE: json.dumps({dataset.name: dataset.place for dataset in datasets}, ensure_ascii=False)}
