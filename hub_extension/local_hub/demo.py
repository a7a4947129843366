"""Default demonstration of `springtide up`: three people with a project each, who share the machine's GPUs.

All of it is configuration; a file given with ``--config`` may change any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from springtide.scheduler.telemetry import GpuCount


@dataclass(frozen=True, slots=True)
class Person:
    """A user who can log in, and the user's own project with its quota and build quota, in GPUs.

    The quota is a number for each type if the machine has train GPUs of several types.
    """

    name: str
    project: str
    quota: GpuCount
    build_quota: int


NAMES = ("susan", "joe", "jemma")
ADMIN = "admin"
BUILD_GPUS = 3
"""Maximum number of GPUs for build notebooks: one for each person."""
SIMULATED_GPUS = 11
"""Number of simulated build and train GPUs together, on a machine without GPUs."""


def build_gpus(gpus: int) -> int:
    """Return how many of the machine's GPUs are for build notebooks: three of eleven, none of a single one."""
    return min(BUILD_GPUS, round(gpus * BUILD_GPUS / SIMULATED_GPUS))


def people(train: Mapping[str, int], build: int) -> tuple[Person, ...]:
    """Return the people of a machine with these train GPUs of each type, and ``build`` GPUs for build notebooks.

    The train GPUs are shared out equally as quotas. GPUs too few for all are the quotas of the first people.
    """
    return tuple(
        Person(name, name, quota=_quota(train, place), build_quota=int(place < build))
        for place, name in enumerate(NAMES)
    )


def _quota(train: Mapping[str, int], place: int) -> GpuCount:
    shares = {gpu_type: divmod(gpus, len(NAMES)) for gpu_type, gpus in train.items()}
    quota = {gpu_type: equal or int(place < rest) for gpu_type, (equal, rest) in shares.items()}
    return sum(quota.values()) if len(quota) < 2 else quota


def projects(people: Iterable[Person]) -> list[dict[str, object]]:
    """Return the projects, for ``c.Springtide.projects``."""
    return [{"name": p.project, "quota": p.quota, "build_quota": p.build_quota} for p in people]


def groups() -> dict[str, dict[str, list[str]]]:
    """Return the members of each project, for ``c.JupyterHub.load_groups``."""
    return {name: {"users": [name]} for name in NAMES}
