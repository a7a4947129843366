"""The state of an attempt, derived from its pods; pure."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from springtide.scheduler.executors.base import (
    NEVER_STARTED,
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    Exit,
    ExitKind,
)
from springtide.scheduler.executors.kubernetes.ends import WorkerEnd, disruption, end_of, started_of
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.objects.manifests import LaunchRecord
from springtide.scheduler.executors.supervisor.attempt import KILL_AFTER
from springtide.scheduler.executors.supervisor.records import KILL, PAUSE, REQUESTS
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.model import Block, HomeAccess, Placement, Worker


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the executor gave up an attempt.

    ``node`` is the node on which the cluster would not place a pod, ``block`` an obstacle to other attempts as
    well. ``unprepared``: the cluster has a pod and does not prepare it; only events say why.
    """

    kind: ExitKind
    detail: str
    node: str = ""
    block: Block | None = None
    unprepared: bool = False


@dataclass(slots=True)
class Attempt:
    """An attempt: its pods as they were last seen, the starts and ends of its workers, and the requests for it.

    ``record`` is None for an attempt that was found in the cluster. ``requested`` is the strongest of `REQUESTS`;
    ``eviction`` says why something else deletes one of its pods; ``verdict`` is the executor's own. ``creating``
    is set while its pods are created, ``ending`` once they are to be deleted, ``concluding`` once all have ended;
    ``reported`` is the status that was reported last. ``launched_at`` and ``failing_since`` are on the event
    loop's clock. ``home`` is how its pods have their user's home. ``vanished`` are the workers whose pods are gone
    from the cluster, with the time on that clock from which they have ended for certain if their node responds.
    """

    key: AttemptKey
    size: int
    grace: float
    record: LaunchRecord | None = None
    requested: str | None = None
    eviction: str = ""
    verdict: Verdict | None = None
    ending: bool = False
    creating: bool = False
    concluding: bool = False
    reported: AttemptStatus | None = None
    launched_at: float = 0.0
    failing_since: float | None = None
    workers: dict[int, Worker] = field(default_factory=dict)
    pods: dict[int, Pod] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    ends: dict[int, WorkerEnd] = field(default_factory=dict)
    vanished: dict[int, float] = field(default_factory=dict)
    home: HomeAccess = HomeAccess.USUAL
    status: AttemptStatus = field(init=False)

    def __post_init__(self) -> None:
        if self.record is not None:
            self.workers = {worker.rank: worker for worker in self.record.spec.placement}
            self.home = self.record.access
        self.status = AttemptStatus(self.key, AttemptPhase.STARTING, placement=self.placement, home=self.home)

    @property
    def placement(self) -> Placement:
        """The placement of its workers, as far as it is known."""
        return tuple(self.workers[rank] for rank in sorted(self.workers))

    @property
    def gone(self) -> bool:
        """Whether all its pods are proven to have ended."""
        return self.status.phase is AttemptPhase.GONE

    def request(self, request: str) -> str:
        """Take in a request; return the strongest one so far."""
        if self.requested is None or REQUESTS.index(request) < REQUESTS.index(self.requested):
            self.requested = request
        return self.requested

    @property
    def time_to_end(self) -> float:
        """How long its workers may take to end after the request, in seconds."""
        return max(1.0, self.grace) if self.requested in (PAUSE, KILL) else KILL_AFTER

    @property
    def exists(self) -> bool:
        """Whether a pod of it exists or existed, or it was refused before any was created."""
        return bool(self.pods or self.ends or self.vanished) or self.gone

    @property
    def missing(self) -> list[int]:
        """The positions in the placement of the workers that never had a pod."""
        had = self.pods.keys() | self.ends.keys() | self.vanished.keys()
        placed = () if self.record is None else self.record.spec.placement
        return [index for index, worker in enumerate(placed) if worker.rank not in had]

    @property
    def needs_pods(self) -> bool:
        """Whether pods are missing that nothing creates yet."""
        stopped = self.gone or self.ending or self.requested is not None
        return not stopped and not self.creating and bool(self.missing)

    @property
    def all_ended(self) -> bool:
        """Whether every worker is proven to have ended; missing pods are no longer created."""
        if self.creating or (self.pods.keys() | self.vanished.keys()) - self.ends.keys():
            return False
        return self.requested is not None or self.ending or len(self.ends) >= self.size

    @property
    def live_pods(self) -> Iterable[tuple[int, Pod]]:
        """The pods that may still run something, with the ranks of their workers."""
        return [(rank, pod) for rank, pod in self.pods.items() if rank not in self.ends]

    @property
    def ended_pods(self) -> Iterable[tuple[int, Pod]]:
        """The pods in the cluster that run nothing any more, with the ranks of their workers."""
        ended = self.ends.keys() - self.vanished.keys()
        return [(rank, pod) for rank, pod in self.pods.items() if rank in ended]

    def live_workers_on(self, host: str) -> list[int]:
        """Return the ranks of the workers that may still run something on a node of the cluster."""
        alive = (self.pods.keys() | self.vanished.keys()) - self.ends.keys()
        return sorted(rank for rank in alive if self.host_of(rank) == host)

    def host_of(self, rank: int) -> str:
        """Return the node of a worker in the cluster, empty if it has none or that is not known."""
        pod, worker = self.pods.get(rank), self.workers.get(rank)
        if pod is not None:
            return pod.spec.node_name
        return machine_of(worker.node) if worker is not None and worker.gpus else ""

    @property
    def failed(self) -> WorkerEnd | None:
        """The end of the first failed worker."""
        failures = [end for end in self.ends.values() if not end.succeeded]
        return min(failures, key=lambda end: end.at) if failures else None

    @property
    def refused_by(self) -> set[str]:
        """The cluster's nodes that refused one of its pods."""
        nodes = {end.refused_by for end in self.ends.values()}
        return (nodes if self.verdict is None else {*nodes, self.verdict.node}) - {""}

    @property
    def is_lost(self) -> bool:
        """Whether one of its workers has ended with its node."""
        return any(end.kind is ExitKind.LOST for end in self.ends.values())

    @property
    def checkpointed(self) -> bool:
        """Whether its first failed worker saved a checkpoint and asked to be run again."""
        failed = self.failed
        return failed is not None and failed.code == os.EX_TEMPFAIL

    @classmethod
    def ended(cls, status: AttemptStatus) -> Attempt:
        """Return an attempt with a recorded end and without objects in the cluster."""
        attempt = cls(status.key, len(status.placement), grace=0.0, ending=True)
        attempt.workers = {worker.rank: worker for worker in status.placement}
        attempt.status = status
        return attempt

    def observe_pod(self, rank: int, pod: Pod, worker: Worker | None) -> None:
        """Record the present state of a worker's pod; ``worker`` is its placement if that is known."""
        self.pods[rank] = pod
        if worker is not None and rank not in self.workers:
            self.workers[rank] = worker
        if rank in self.ends:
            return
        if pod.metadata.deletion_timestamp is not None and not (self.requested or self.ending or self.eviction):
            self.eviction = disruption(pod)
        started = started_of(pod)
        if started is not None:
            self.started.setdefault(rank, started)
        end = end_of(pod)
        if end is not None:
            self.ends[rank] = end

    def record_end(self, rank: int, end: WorkerEnd) -> None:
        """Record the end of a worker whose pod does not show it."""
        self.ends.setdefault(rank, end)

    def update_phase(self) -> bool:
        """Set the status to running once all workers have started; return whether that changed it."""
        if self.gone or len(self.started) < self.size or self.status.phase is AttemptPhase.RUNNING:
            return False
        started = max(self.started.values())
        self.status = AttemptStatus(
            self.key, AttemptPhase.RUNNING, started, placement=self.placement, home=self.home
        )
        return True

    def conclude(self, now: float, *, complete: bool, returned: bool | None) -> None:
        """Set the status to gone, with the exit that follows from the ends of the workers.

        ``complete``: the job reported its work as complete; ``returned``: whether its function has returned.
        A kubelet may report a start after the end for a container that ended at once: the start is moved to the
        end. A refused attempt has not started, although the supervisors in its pods have.
        """
        ended = replace(self._exit(now), complete=complete, returned=returned)
        ran = len(self.started) >= self.size and ended.kind not in NEVER_STARTED
        started = min(max(self.started.values()), ended.at) if ran else None
        self.status = AttemptStatus(self.key, AttemptPhase.GONE, started, ended, self.placement, self.home)

    def _exit(self, now: float) -> Exit:
        ends = sorted(self.ends.values(), key=lambda end: end.at)
        at = max((end.at for end in ends), default=now)
        paused = self.requested == PAUSE
        killed = self.requested is not None and any(end.killed for end in ends)
        if self.verdict is not None:
            verdict = self.verdict
            return Exit(verdict.kind, at, paused=paused, detail=verdict.detail, block=verdict.block)
        failed = self.failed
        notified = any(end.paused is not False for end in ends)
        if failed is None and not notified:
            return Exit(ExitKind.EXITED, at, code=0)
        evicted = self.eviction if self.requested is None else ""
        if evicted and failed is not None and failed.kind is ExitKind.LOST:
            return Exit(ExitKind.LOST, at, detail=evicted)
        if evicted or (failed is not None and failed.kind is ExitKind.EVICTED):
            worst = next((end for end in ends if (end.code, end.signal) != (0, None)), None)
            code, number = (0, None) if worst is None else (worst.code, worst.signal)
            detail = evicted or (failed.detail if failed is not None else "")
            return Exit(ExitKind.EVICTED, at, code, number, paused, killed, detail)
        if failed is None:
            paused = paused or any(end.paused for end in ends)
            return Exit(ExitKind.EXITED, at, code=0, paused=paused, killed=killed)
        return Exit(failed.kind, at, failed.code, failed.signal, paused, killed, failed.detail)
