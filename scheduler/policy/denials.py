"""Remembers for whom no room could be made, so that the same search is not made again and again.

A search for one worker that others may have to give way to found no node: only nodes can make a difference where
something has happened since, or where those run who have to give more than then. A search for jobs to be moved
found none: only the nodes that it looked at, and nodes with free GPUs, can make a difference.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from springtide.scheduler.policy.lines import Where

KEPT = 64
"""Of how many projects denials are kept for each kind of job; they differ in who had to give."""

OTHERS = 8
"""How many other projects' denials are considered where a project has none of its own that covers all."""

MORE_AT_MOST = 8
"""So many projects may have to give more than at a denial; with more, most nodes would have to be looked at."""

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


class Stay(NamedTuple):
    """No job could be moved away from the nodes that were ``candidates``; ``at`` and ``until`` as of a denial."""

    candidates: tuple[int, ...]
    at: int
    until: float


class Denials:
    """The denials of a pool."""

    def __init__(self) -> None:
        self._happened: list[int] = []
        self._forgotten = 0
        self._known: dict[Kind, OrderedDict[str, Denial]] = {}
        self._stays: dict[Where, Stay] = {}

    def happened(self, ranks: Iterable[int]) -> None:
        """Something has happened on these nodes: GPUs were taken or have got free."""
        self._happened.extend(ranks)
        if len(self._happened) > 2 * LOOK_BACK:
            self._forgotten += len(self._happened) - LOOK_BACK
            del self._happened[:-LOOK_BACK]

    def find(
        self, kind: Kind, project: str, slack: Mapping[str, int], now: float
    ) -> tuple[Denial, list[str]] | None:
        """The denial that best covers a search in which projects give so much, and who gives more than then."""
        known = self._known.get(kind)
        if known is None:
            return None
        best: tuple[Denial, list[str]] | None = None
        own = [known[project]] if project in known else []
        for denial in (*own, *islice(reversed(known.values()), OTHERS)):
            if now >= denial.until or denial.at < self._forgotten:
                continue
            more = [name for name, given in slack.items() if given > denial.slack.get(name, 0)]
            if len(more) <= MORE_AT_MOST and (best is None or len(more) < len(best[1])):
                best = (denial, more)
            if not more:
                break
        return best

    def since(self, denial: Denial | Stay) -> int:
        """The nodes where something has happened since."""
        nodes = 0
        for rank in self._happened[denial.at - self._forgotten :]:
            nodes |= 1 << rank
        return nodes

    def stays(self, where: Where, candidates: tuple[int, ...], free: int, changed: int, now: float) -> Stay | None:
        """The denial by which no job can be moved from these nodes to ``free`` ones, some of them ``changed``."""
        known = self._stays.get(where)
        if known is None or known.candidates != candidates or now >= known.until or known.at < self._forgotten:
            return None
        for rank in candidates:
            free |= 1 << rank
        return None if (self.since(known) | changed) & free else known

    def stay(self, where: Where, candidates: tuple[int, ...], until: float) -> None:
        """Note that no job can be moved away from these nodes."""
        self._stays[where] = Stay(candidates, self._forgotten + len(self._happened), until)

    def deny(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Note that a search on behalf of the project was in vain."""
        known = self._known.setdefault(kind, OrderedDict())
        known[project] = Denial(dict(slack), self._forgotten + len(self._happened), until)
        known.move_to_end(project)
        if len(known) > KEPT:
            known.popitem(last=False)
