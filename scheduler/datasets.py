"""Datasets that an administrator declares: directories that jobs and workspaces read, and their volumes; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

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


def volumes(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return a read-only volume for each claim that holds datasets.

    As the volume itself is read-only, no node changes the owner of its files to the group of the pod.
    """
    return [
        {"name": _volume(claim, datasets), "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
        for claim in _claims(datasets)
    ]


def mounts(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return the read-only mount of each dataset, at its place."""
    return [
        {
            "name": _volume(dataset.claim, datasets),
            "mountPath": dataset.place,
            "readOnly": True,
            **({"subPath": dataset.sub_path} if dataset.sub_path else {}),
        }
        for dataset in datasets
    ]


def _claims(datasets: Sequence[Dataset]) -> list[str]:
    return list(dict.fromkeys(dataset.claim for dataset in datasets))


def _volume(claim: str, datasets: Sequence[Dataset]) -> str:
    return f"datasets-{_claims(datasets).index(claim)}"
