"""Blocks that keep jobs from starting, and the launch stops that follow from them; pure.

A block that has kept three different jobs from starting stops the start of all jobs that it concerns: they are
withheld, so that they neither burn attempts nor count as demand, until one of them could be started or the
executor says that it would start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from springtide.scheduler.engine import messages
from springtide.scheduler.model import Block, BlockScope
from springtide.scheduler.store.records import AttemptState, JobRecord
from springtide.scheduler.workload import Line

STOPS_AFTER = 3
"""Number of different jobs that a block has to keep from starting before others are not tried."""


@dataclass(frozen=True, slots=True)
class LaunchStop:
    """Launching stopped because of ``block``, at a time in seconds since the epoch, in the words ``detail``."""

    block: Block
    at: float
    detail: str


@dataclass(slots=True)
class Blocks:
    """The jobs that each block has kept from starting, and those that are withheld because of it.

    ``offered`` are jobs that may be started nevertheless, by id, with the number of attempts that they had then.
    They are not stored, because after a restart the same is found out again.
    """

    offered: dict[Block, dict[str, int]] = field(default_factory=dict)
    _kept: dict[Block, dict[str, None]] = field(default_factory=dict)
    _withheld: dict[Block, dict[str, None]] = field(default_factory=dict)

    def replace(self, before: JobRecord | None, after: JobRecord) -> None:
        """Take in a changed job."""
        for index, of in ((self._kept, kept_by), (self._withheld, withheld_by)):
            was, now = None if before is None else of(before), of(after)
            if was is not None and was != now:
                index[was].pop(after.id, None)
                if not index[was]:
                    del index[was]
            if now is not None:
                index.setdefault(now, {})[after.id] = None

    def all(self) -> set[Block]:
        """Return the blocks that keep a job, or because of which one is withheld."""
        return {*self._kept, *self._withheld}

    def kept(self, block: Block) -> list[str]:
        """Return the ids of the jobs kept from starting by a block, without those started since."""
        return list(self._kept.get(block, ()))

    def withheld(self, block: Block) -> list[str]:
        """Return the ids of the jobs withheld because of a block."""
        return list(self._withheld.get(block, ()))

    def stopped(self) -> Iterator[Block]:
        """Yield the blocks because of which launching has stopped."""
        return (block for block, kept in self._kept.items() if len(kept) >= STOPS_AFTER)

    def is_offered(self, block: Block, job: JobRecord) -> bool:
        """Return whether the job may be started nevertheless, and has not been since it may."""
        return self.offered.get(block, {}).get(job.id) == job.standing.attempt


def kept_by(job: JobRecord) -> Block | None:
    """Return what kept the job from starting when that was last tried; None if nothing did."""
    return None if job.state.final else job.standing.block


def withheld_by(job: JobRecord) -> Block | None:
    """Return because of what the job is withheld, None if it is not."""
    return None if job.standing.withheld is None else job.standing.withheld.block


def concerns(block: Block, job: JobRecord) -> bool:
    """Return whether a block would keep this job from starting too."""
    match block.scope:
        case BlockScope.IMAGE:
            return job.spec.options.image == block.name
        case BlockScope.USER:
            return job.spec.user == block.name
        case BlockScope.POOL:
            return True


def waits(job: JobRecord) -> bool:
    """Return whether the job waits to be started."""
    return job.line is not Line.NONE and job.live is None and not job.state.final


def words_of(kept: Iterable[JobRecord]) -> str:
    """Return what cluster or machine said last, of jobs that a block keeps.

    The reason of a job has that, unless a user has paused it since; then its last attempt has, if it had one.
    """
    said: list[tuple[float, str]] = []
    for job in kept:
        why, last = job.standing.reason, job.attempts[-1] if job.attempts else None
        if why is not None and why.code == messages.BLOCKED:
            said.append((job.standing.not_before, str(why.params.get("detail") or "")))
        elif last is not None and last.state is AttemptState.BLOCKED:
            said.append((last.ended or 0.0, last.detail))
    return max(said, default=(0.0, ""))[1]
