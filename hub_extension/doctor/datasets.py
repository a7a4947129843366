"""Checks of the declared datasets of a pool on one machine."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from springtide.hub_extension.doctor.findings import Finding, ok, problem
from springtide.scheduler.datasets.dataset import Dataset
from springtide.scheduler.wording import count

CHECK: Final = "datasets"


def datasets(declared: Mapping[str, Dataset]) -> Iterator[Finding]:
    """Check that each directory is there, and that not every account may change it."""
    found = [each for dataset in declared.values() for each in _directory(dataset)]
    yield from found
    if declared and not found:
        yield ok(CHECK, f"{count(len(declared), 'declared dataset')}: each directory is there.")


def _directory(dataset: Dataset) -> Iterator[Finding]:
    path = Path(dataset.path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        yield problem(
            CHECK,
            f"The dataset {dataset.name} is not found at {path}: {error.strerror}.",
            "Mount it, or correct c.Springtide.datasets.",
        )
        return
    if not stat.S_ISDIR(mode):
        yield problem(
            CHECK,
            f"The dataset {dataset.name} is no directory: {path}.",
            "Correct c.Springtide.datasets.",
        )
    elif mode & stat.S_IWOTH:
        yield problem(
            CHECK, f"Every account may change the dataset {dataset.name} in {path}.", f"chmod o-w {path}"
        )
