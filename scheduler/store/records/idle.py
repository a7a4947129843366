"""Idle workspaces: the rules, and what was told and done about workspaces whose GPUs nobody used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class IdleRule:
    """What happens to a workspace whose GPUs are not used: durations in seconds, None for never.

    Its owner is told after ``tell_after`` without use, and it is stopped ``notice`` later.
    """

    tell_after: float | None = None
    notice: float | None = None


class RuleScope(StrEnum):
    """For whom a rule is: everybody, the members of a project and of those inside it, or one person."""

    POOL = "pool"
    PROJECT = "project"
    PERSON = "person"


RuleKey: TypeAlias = tuple[RuleScope, str]
"""Scope of a rule, and the name of the project or person; the name is empty for the pool."""


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """What was told and done about the workspace whose GPUs were reserved at ``reserved``.

    Times are in seconds since the epoch: ``told`` is when its owner was told that its GPUs are not used, ``stops``
    until when the owner was told that it stays, ``kept`` when its owner asked to keep it, ``stopping`` when the
    hub was asked to stop it, ``stopped`` when it was gone. ``gpus`` is the number of its GPUs, ``unused`` the time
    without use when ``told`` or ``stopping`` was set, in seconds.
    """

    user: str
    server: str
    reserved: float
    gpus: int
    told: float | None = None
    stops: float | None = None
    kept: float | None = None
    stopping: float | None = None
    stopped: float | None = None
    unused: float = 0.0

    def shifted(self, step: float) -> IdleRecord:
        """Return the record after the system clock was set by ``step`` seconds."""
        told, stops, kept, stopping, stopped = (
            None if at is None else at + step
            for at in (self.told, self.stops, self.kept, self.stopping, self.stopped)
        )
        return replace(self, told=told, stops=stops, kept=kept, stopping=stopping, stopped=stopped)
