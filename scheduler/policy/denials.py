"""Remembers for whom nothing could be reclaimed, so that the same search is not made again and again.

A search for one worker found no node. As long as nobody has to give more than then, only nodes where something has
happened since can make a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from springtide.scheduler.policy.lines import Where

KEPT = 8
"""How many denials are kept for each kind of job; they differ in who had to give."""

LOOK_BACK = 512
"""After how many happenings a denial is forgotten: soon most nodes would have to be looked at anyhow."""

Kind = tuple[Where, bool]
"""Where a job fits, and whether it is preemptible."""


class Denial(NamedTuple):
    """``slack`` tells how much each project had to give at most, ``at`` counts what had happened by then.

    Before ``until`` no minimum run time ends that was in the way.
    """

    slack: Mapping[str, int]
    at: int
    until: float


class Denials:
    """The denials of a pool."""

    def __init__(self) -> None:
        self._happened: list[int] = []
        self._forgotten = 0
        self._known: dict[Kind, list[Denial]] = {}

    def happened(self, ranks: Iterable[int]) -> None:
        """Something has happened on these nodes: GPUs were taken or have got free."""
        self._happened.extend(ranks)
        if len(self._happened) > 2 * LOOK_BACK:
            self._forgotten += len(self._happened) - LOOK_BACK
            del self._happened[:-LOOK_BACK]

    def find(self, kind: Kind, slack: Mapping[str, int], now: float) -> Denial | None:
        """A denial that covers a search in which the projects give so much."""
        for denial in reversed(self._known.get(kind, ())):
            covers = all(given <= denial.slack.get(project, 0) for project, given in slack.items())
            if covers and now < denial.until and denial.at >= self._forgotten:
                return denial
        return None

    def since(self, denial: Denial) -> int:
        """The nodes where something has happened since."""
        nodes = 0
        for rank in self._happened[denial.at - self._forgotten :]:
            nodes |= 1 << rank
        return nodes

    def deny(self, kind: Kind, slack: Mapping[str, int], until: float) -> None:
        """Note that a search was in vain."""
        known = self._known.setdefault(kind, [])
        known.append(Denial(dict(slack), self._forgotten + len(self._happened), until))
        if len(known) > KEPT:
            del known[0]
