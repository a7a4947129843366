"""The datasets of this process, as the pool names them in the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Mapping

VARIABLE = "SPRINGTIDE_DATASETS"


class DatasetError(LookupError):
    """This process has no dataset of that name; the message says how to get it."""


def find(name: str, environment: Mapping[str, str], *, in_pool: bool) -> Path:
    """Return the directory of a dataset. ``in_pool`` is true in a process of a pool's job.

    Raises `DatasetError` for a dataset that is not among those of `VARIABLE`.
    """
    there = _read(environment.get(VARIABLE, "{}"))
    if name in there:
        return Path(there[name])
    own = ", ".join(sorted(there)) or "none"
    if in_pool:
        raise DatasetError(
            f'This job has no dataset "{name}"; it has: {own}. Name it when you submit the job: '
            f'datasets=["{name}"], or --dataset {name} in a terminal.'
        )
    raise DatasetError(
        f'There is no dataset "{name}" here; there are: {own}. A workspace has those of its owner\'s projects. '
        f'Elsewhere set {VARIABLE}, such as {{"{name}": "/data/{name}"}}.'
    )


def _read(text: str) -> Mapping[str, str]:
    """Return the directories by name. Raises `DatasetError` for text that is not written as the pool does."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(path, str) for path in found.values()):
        raise DatasetError(f'{VARIABLE} is not an object of JSON such as {{"imagenet": "/data/imagenet"}}.')
    return found
