"""What is known of an attempt from its pods; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Exit, ExitKind
from springtide.scheduler.executors.kubernetes.ends import WorkerEnd, disruption, end_of, started_of
from springtide.scheduler.executors.kubernetes.manifests import Order
from springtide.scheduler.executors.kubernetes.seen import Pod
from springtide.scheduler.model import Placement, Worker

AGAIN = 75
"""The exit code that says: checkpointed, run me again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the service itself decided about an attempt that cannot go on."""

    kind: ExitKind
    detail: str


@dataclass(slots=True)
class Attempt:
    """An attempt: its pods as they were last seen, who of its workers started and ended, and what was asked of it.

    ``order`` is None for one that was found in the cluster. ``asked`` is ``pause`` or ``kill``; ``evicted`` says
    why somebody else deletes one of its pods; ``verdict`` is ours. ``making`` is set while its pods are made,
    ``ending`` once they are to go, ``concluding`` once they are gone; ``told`` is the status that was told last.
    ``since`` and ``troubled`` are when it was launched and since when it is in trouble.
    """

    key: AttemptKey
    size: int
    grace: float
    order: Order | None = None
    asked: str | None = None
    evicted: str = ""
    verdict: Verdict | None = None
    ending: bool = False
    making: bool = False
    concluding: bool = False
    told: AttemptStatus | None = None
    since: float = 0.0
    troubled: float | None = None
    workers: dict[int, Worker] = field(default_factory=dict)
    pods: dict[int, Pod] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    ends: dict[int, WorkerEnd] = field(default_factory=dict)
    status: AttemptStatus = field(init=False)

    def __post_init__(self) -> None:
        if self.order is not None:
            self.workers = {worker.rank: worker for worker in self.order.spec.placement}
        self.status = AttemptStatus(self.key, AttemptPhase.STARTING, placement=self.placement)

    @property
    def placement(self) -> Placement:
        """Where its workers sit, as far as is known."""
        return tuple(self.workers[rank] for rank in sorted(self.workers))

    @property
    def gone(self) -> bool:
        return self.status.phase is AttemptPhase.GONE

    @property
    def exists(self) -> bool:
        """Whether there is, or was, anything of it in the cluster, or it was found that there never can be."""
        return bool(self.pods or self.ends) or self.gone

    @property
    def complete(self) -> bool:
        """Whether nothing more of it is to be made, or somebody is at it."""
        stopped = self.gone or self.ending or self.asked is not None
        return stopped or self.making or self.order is None or len(self.pods) >= self.size

    @property
    def over(self) -> bool:
        """Whether every worker is proven to have ended. One that was not made is not going to be any more."""
        if self.making:
            return False
        return len(self.ends) >= (len(self.pods) if self.asked or self.ending else self.size)

    @property
    def live(self) -> Iterable[tuple[int, Pod]]:
        """The pods that may still run something."""
        return [(rank, pod) for rank, pod in self.pods.items() if rank not in self.ends]

    def see(self, rank: int, pod: Pod, worker: Worker | None) -> None:
        """Take in how a pod is now."""
        self.pods[rank] = pod
        if worker is not None and rank not in self.workers:
            self.workers[rank] = worker
        if rank in self.ends:
            return
        if pod.metadata.deletion_timestamp is not None and not (self.asked or self.ending or self.evicted):
            self.evicted = disruption(pod)
        started = started_of(pod)
        if started is not None:
            self.started.setdefault(rank, started)
        end = end_of(pod)
        if end is not None:
            self.ends[rank] = end

    def end(self, rank: int, end: WorkerEnd) -> None:
        """Take in that a worker has ended whose pod does not tell it."""
        self.ends.setdefault(rank, end)

    @property
    def failed(self) -> WorkerEnd | None:
        """The first end of a worker that is more than being done."""
        bad = [end for end in self.ends.values() if not end.clean]
        return min(bad, key=lambda end: end.at) if bad else None

    def stand(self) -> bool:
        """Bring the status up to what is known, short of its end; whether that changed it."""
        if self.gone or len(self.started) < self.size or self.status.phase is AttemptPhase.RUNNING:
            return False
        started = max(self.started.values())
        self.status = AttemptStatus(self.key, AttemptPhase.RUNNING, started, placement=self.placement)
        return True

    def conclude(self, now: float) -> None:
        """It is over: say how it ended."""
        started = max(self.started.values()) if len(self.started) >= self.size else None
        ended = self._exit(now)
        self.status = AttemptStatus(self.key, AttemptPhase.GONE, started, ended, self.placement)

    def _exit(self, now: float) -> Exit:
        at = max((end.at for end in self.ends.values()), default=now)
        paused = self.asked == "pause"
        killed = self.asked is not None and any(end.killed for end in self.ends.values())
        if self.verdict is not None:
            return Exit(self.verdict.kind, at, paused=paused, detail=self.verdict.detail)
        failed = self.failed
        if failed is None:
            return Exit(ExitKind.EXITED, at, code=0, paused=paused, killed=killed)
        if self.evicted and self.asked is None:
            return Exit(ExitKind.LOST, at, failed.code, failed.signal, detail=self.evicted)
        return Exit(failed.kind, at, failed.code, failed.signal, paused, killed, failed.detail)
