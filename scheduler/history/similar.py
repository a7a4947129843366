"""Which jobs are alike: those of one user and project with the same name and size, and more general kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

Kind = tuple[str | int, ...]


class Described(Protocol):
    """What a job tells of itself at its submission."""

    @property
    def user(self) -> str:
        """The person who submitted it."""

    @property
    def project(self) -> str:
        """The project that it counts for."""

    @property
    def name(self) -> str:
        """Its name, as its user chose it."""

    @property
    def workers(self) -> int:
        """Number of its workers."""

    @property
    def gpus(self) -> int:
        """Number of GPUs of each worker."""


def kinds(job: Described) -> Iterator[Kind]:
    """Iterate over the kinds of a job, the most specific one first.

    Digits in names are ignored: ``sweep-7`` and ``sweep-8`` are the same name.
    """
    name, gpus = name_without_digits(job.name), job.workers * job.gpus
    yield ("name and size", job.user, job.project, name, gpus)
    yield ("name", job.user, name)
    yield ("size", job.user, job.project, gpus)
    yield ("project", job.project)
    yield ("any",)


def name_without_digits(name: str) -> str:
    """Return a job's name in lower case with each run of digits replaced by ``#``."""
    return re.sub(r"\d+", "#", name.lower())
