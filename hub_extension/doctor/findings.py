"""Findings of the checks of a set-up."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Status(StrEnum):
    """How a check ended, the worst last."""

    OK = "ok"
    NOTE = "note"
    """Works, and could be better or safer."""
    PROBLEM = "problem"
    """Does not work, or not for long."""


class Finding(msgspec.Struct, frozen=True):
    """The result of a check: ``said`` is a sentence, ``remedy`` what to do, empty if there is nothing to do."""

    check: str
    status: Status
    said: str
    remedy: str = ""


def ok(check: str, said: str) -> Finding:
    """Return the finding of a passed check."""
    return Finding(check, Status.OK, said)


def note(check: str, said: str, remedy: str) -> Finding:
    """Return the finding of a possible improvement."""
    return Finding(check, Status.NOTE, said, remedy)


def problem(check: str, said: str, remedy: str) -> Finding:
    """Return the finding of a problem."""
    return Finding(check, Status.PROBLEM, said, remedy)


def wrong(findings: Iterable[Finding]) -> bool:
    """Return whether a finding is a problem."""
    return any(finding.status is Status.PROBLEM for finding in findings)
