"""The kinds of objects of a cluster that are train jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from springtide.scheduler.kube import SPRINGTIDE_JOBS, TRAIN_JOBS, Resource


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects by its name in manifests, and its resource."""

    name: str
    resource: Resource


SPRINGTIDE_JOB: Final = Kind("SpringtideJob", SPRINGTIDE_JOBS)
TRAIN_JOB: Final = Kind("TrainJob", TRAIN_JOBS)
"""The earlier kind, whose objects become SpringtideJobs (`conversion`)."""
KINDS: Final = {kind.name: kind for kind in (SPRINGTIDE_JOB, TRAIN_JOB)}


def kind_of(found: Mapping[str, Any]) -> Kind:
    """Return the kind of an object."""
    return KINDS[found["kind"]]
