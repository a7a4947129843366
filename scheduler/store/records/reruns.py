"""The run that a job repeats, as part of the job's record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptionDifference:
    """An option of a job that differs from the run it repeats, as a person reads it."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RerunRef:
    """Which job is run again, the name that it had, and what differs. It stays when that job is deleted."""

    job: str
    name: str
    changes: tuple[OptionDifference, ...] = ()
