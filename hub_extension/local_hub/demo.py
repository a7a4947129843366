"""Default demonstration of `springtide up`: three people, three projects, eleven GPUs.

All of it is configuration; a file given with ``--config`` may change any of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """A user who can log in, and the user's own project with its quota and build quota, in GPUs."""

    name: str
    project: str
    quota: int
    build_quota: int


PEOPLE = (
    Person("susan", "susan", quota=2, build_quota=1),
    Person("joe", "joe", quota=2, build_quota=1),
    Person("jemma", "jemma", quota=2, build_quota=1),
)
ADMIN = "admin"
BUILD_GPUS = 3
SIMULATED_GPUS = 11
"""Number of simulated build and train GPUs together, on a machine without GPUs."""


def projects() -> list[dict[str, str | int]]:
    """Return the projects, for ``c.Springtide.projects``."""
    return [{"name": p.project, "quota": p.quota, "build_quota": p.build_quota} for p in PEOPLE]


def groups() -> dict[str, dict[str, list[str]]]:
    """Return the members of each project, for ``c.JupyterHub.load_groups``."""
    return {person.project: {"users": [person.name]} for person in PEOPLE}
