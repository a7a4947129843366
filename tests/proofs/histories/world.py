"""A small pool to which anything can happen, watched by the promises' checker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import structs

from springtide.scheduler.model import (
    Amount,
    Change,
    Decision,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    Node,
    NodesChanged,
    Order,
    Pause,
    Phase,
    Project,
    ProjectsChanged,
    Settings,
    SettingsChanged,
    Snapshot,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import Breach, Watch, check_replay
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu
from springtide.scheduler.simulate.carry_out import carried_out

GRACE = 30.0
PATIENCE = 15_000.0
ROUNDS = 50
SHAPES = (
    (1, 1, 1),
    (1, 1, 1),
    (1, 1, 2),
    (1, 1, 4),
    (2, 2, 2),
    (1, 1, 8),
    (4, 1, 1),
    (4, 4, 1),
    (3, 2, 2),
    (2, 1, 4),
)
"""Workers, least workers, and GPUs per worker, before they are made to fit; some are elastic."""

USUAL = (None, 60.0, 900.0, 5_000.0, 20_000.0, 100_000.0)
"""Usual run times of similar jobs in seconds, if they are known."""


class World:
    """A pool, its jobs and its planner. Every number an action takes may be any whole number.

    ``instant`` says whether attempts that are asked to stop are gone at once, or within the grace period.
    """

    def __init__(
        self,
        nodes: tuple[Node, ...],
        projects: tuple[Project, ...],
        settings: Settings,
        *,
        instant: bool,
        planner: Callable[[Snapshot], Planner] = Planner,
    ) -> None:
        self.make_planner = planner
        self.knows_run_times = False
        self.now = 0.0
        self.count = 0
        self.instant = instant
        self.nodes = nodes
        self.projects = projects
        self.settings = settings
        self.jobs: dict[str, Job] = {}
        self.ending: dict[str, tuple[float, Phase | None]] = {}
        self.wake: float | None = None
        self.log: list[str] = []
        self.planner = planner(self.snapshot())
        self.watch = Watch(self.snapshot(), standing=self.planner.standing, patience=PATIENCE)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @property
    def leaves(self) -> list[str]:
        parents = {project.parent for project in self.projects}
        return [project.name for project in self.projects if project.name not in parents]

    def snapshot(self) -> Snapshot:
        return Snapshot(self.now, self.nodes, self.projects, tuple(self.jobs.values()), self.settings)

    # ---------- changes for planner and checker

    def tell(self, change: Change) -> None:
        match change:
            case JobChanged(job):
                self.jobs[job.id] = job
            case JobRemoved(job_id):
                del self.jobs[job_id]
                self.ending.pop(job_id, None)
        self.watch.apply(change)
        self.planner.apply(change)

    def settle(self) -> None:
        for _ in range(ROUNDS):
            plan = self.planner.plan(self.now)
            found = self.watch.count
            self.watch.decided(plan, self.now)
            self.wake = plan.wake_at
            if not plan.decisions or self.watch.count > found:
                break
            for decision in plan.decisions:
                self._carry_out(decision)
        self.watch.settled(self.now)

    def _carry_out(self, decision: Decision) -> None:
        job = self.jobs.get(decision.job)
        if job is None:
            return
        stops = isinstance(decision, Pause | Move)
        if self.instant or not stops:
            self.tell(JobChanged(carried_out(job, decision, self.now)))
            return
        reserved = decision.placement if isinstance(decision, Move) else job.reserved
        self.ending[job.id] = (self.now + GRACE * (0.2 + 0.6 * (len(self.ending) % 2)), Phase.WAITING)
        self.tell(JobChanged(structs.replace(job, phase=Phase.PAUSING, reserved=reserved)))

    def _stop(self, job: Job, then: Phase | None) -> None:
        """End an attempt as its user wishes: the job is held afterwards, or gone."""
        if job.phase is Phase.RUNNING and not self.instant:
            self.ending[job.id] = (self.now + GRACE / 2, then)
            self.tell(JobChanged(structs.replace(job, phase=Phase.PAUSING)))
        elif job.phase is Phase.PAUSING:
            self.ending[job.id] = (self.ending[job.id][0], then)
        else:
            self._gone(job, then)

    def _gone(self, job: Job, then: Phase | None) -> None:
        self.ending.pop(job.id, None)
        if then is None:
            self.tell(JobRemoved(job.id))
            return
        served = job.served_by(self.now)
        reserved = job.reserved if then is Phase.WAITING else ()
        self.tell(
            JobChanged(
                structs.replace(
                    job, phase=then, placement=(), reserved=reserved, started=None, saved=None, served=served
                )
            )
        )

    # ---------- what can happen

    def act(self, name: str, a: int, b: int, *, replay: bool = False) -> None:
        self.log.append(f"{name} {a} {b}")
        getattr(self, name)(a, b)
        if replay:
            self.watch.report(self.replayed())
        self.settle()

    def _pick(self, at: int, *phases: Phase) -> Job | None:
        jobs = [job for job in self.jobs.values() if job.phase in phases]
        return jobs[at % len(jobs)] if jobs else None

    def arrive(self, project: int, shape: int, gpu_types: tuple[str, ...] = ()) -> None:
        """A job comes, and nothing is decided yet."""
        self.submit(project, shape + 1024 * len(SHAPES), gpu_types)

    def cancel_now(self, job_id: str) -> None:
        """A job is cancelled, and nothing is decided yet."""
        self._stop(self.jobs[job_id], None)

    def submit(self, a: int, b: int, gpu_types: tuple[str, ...] = ()) -> None:
        workers, least, gpus = SHAPES[b % len(SHAPES)]
        gpus = min(gpus, max(node.gpus for node in self.nodes))
        priority = (50, 50, 50, 75, 100)[(b // 16) % 5]
        self.count += 1
        job = Job(
            id=f"j{self.count}",
            project=self.leaves[a % len(self.leaves)],
            name=f"j{self.count}",
            priority=priority,
            preemptible=priority < 100,
            workers=workers,
            gpus=gpus,
            min_workers=least,
            submitted=self.now,
            rotate=bool((b // 128) % 4),
            require=self._required((b // 512) % 16),
            time_limit=600.0 * (1 + b % 7) if b % 3 == 0 else None,
            gpu_types=gpu_types or self._accepted(a // 64),
            usual_runtime=USUAL[(a // 8 + b // 64) % len(USUAL)] if self.knows_run_times else None,
            per_gpu=self._asked(a // 16 + b // 32, 1 / gpus if b % 5 == 0 else 0.0),
        )
        self.tell(JobChanged(job))

    def _accepted(self, number: int) -> tuple[str, ...]:
        """One GPU type for half of the jobs of a pool with several, all or some in any order for the others."""
        types = self.settings.gpu_types
        if len(types) < 2 or number % 4 == 0:
            return ()
        first = number // 4 % len(types)
        return types[first:] + types[:first] if number % 4 == 1 else (types[first],)

    def _asked(self, number: int, rdma: float) -> PerGpu:
        """A request per GPU for a part of the jobs, which only some nodes can satisfy."""
        if all(node.per_gpu == UNSPECIFIED for node in self.nodes):
            return UNSPECIFIED
        asked = (PerGpu(6.0, 8.0), PerGpu(2.0, 60.0), PerGpu(6.0, 60.0), PerGpu(4.0, 16.0), *[UNSPECIFIED] * 5)
        return asked[number % 9]._replace(rdma=rdma)

    def _required(self, of_16: int) -> str | None:
        """A rack for one job in sixteen, and an island or a socket for four if nodes have sockets."""
        if of_16 in range(1, 5) and any(node.sockets for node in self.nodes):
            return ("island", "socket")[of_16 % 2]
        return "rack" if of_16 == 0 else None

    def finish(self, a: int, _b: int) -> None:
        if job := self._pick(a, Phase.RUNNING):
            self.tell(JobRemoved(job.id))

    def fail(self, a: int, _b: int) -> None:
        if job := self._pick(a, Phase.RUNNING):
            self._gone(structs.replace(job, not_before=self.now + 60), Phase.WAITING)

    def cancel(self, a: int, _b: int) -> None:
        if job := self._pick(a, Phase.RUNNING, Phase.WAITING, Phase.PAUSING, Phase.HELD):
            self._stop(job, None)

    def hold(self, a: int, _b: int) -> None:
        if job := self._pick(a, Phase.RUNNING, Phase.WAITING):
            self._stop(job, Phase.HELD)

    def resume(self, a: int, _b: int) -> None:
        if job := self._pick(a, Phase.HELD):
            self.tell(JobChanged(structs.replace(job, phase=Phase.WAITING)))

    def save(self, a: int, _b: int) -> None:
        if job := self._pick(a, Phase.RUNNING):
            self.tell(JobChanged(structs.replace(job, saved=self.now)))

    def requota(self, a: int, b: int) -> None:
        self._edit(a, quota=self._amount(a, "quota", b % (self.gpus + 1)))

    def relimit(self, a: int, b: int) -> None:
        self._edit(a, limit=self._amount(a, "limit", None if b % 2 else b % (self.gpus + 1)))

    def reweigh(self, a: int, b: int) -> None:
        self._edit(a, weight=(0.0, 0.5, 1.0, 2.0)[b % 4])

    def _amount(self, at: int, field: str, number: int | None) -> Amount:
        """The number, or on a pool with several GPU types the project's table with this number for one of them."""
        types = self.settings.gpu_types
        if not types:
            return number
        table = getattr(self.projects[at % len(self.projects)], field) or {}
        return {**table, types[at // 8 % len(types)]: number}

    def _edit(self, at: int, **fields: Any) -> None:
        at %= len(self.projects)
        edited = replace(self.projects[at], **fields)
        self.projects = (*self.projects[:at], edited, *self.projects[at + 1 :])
        self.tell(ProjectsChanged(self.projects))

    def lose_node(self, a: int, b: int) -> None:
        """A node goes away: its jobs keep running, or are lost with it."""
        node = self.nodes[a % len(self.nodes)]
        self.nodes = tuple(structs.replace(each, available=each.available and each != node) for each in self.nodes)
        self.tell(NodesChanged(self.nodes))
        if b % 2:
            for job in [job for job in self.jobs.values() if any(w.node == node.name for w in job.placement)]:
                then = self.ending[job.id][1] if job.id in self.ending else Phase.WAITING
                self._gone(job, then)

    def regain_nodes(self, _a: int, _b: int) -> None:
        self.nodes = tuple(structs.replace(node, available=True) for node in self.nodes)
        self.tell(NodesChanged(self.nodes))

    def reorder(self, a: int, _b: int) -> None:
        self.settings = replace(self.settings, order=(Order.FIRST_COME, Order.LEAST_SERVED)[a % 2])
        self.tell(SettingsChanged(self.settings))

    def wait(self, a: int, _b: int) -> None:
        until = self.now + (1.0, 45.0, 400.0, 4000.0)[a % 4]
        while True:
            due = [at for at, _ in self.ending.values()]
            if self.wake is not None and self.wake > self.now:
                due.append(self.wake)
            self.now = min([*due, until])
            for job_id in [job_id for job_id, (at, _) in self.ending.items() if at <= self.now]:
                self._gone(self.jobs[job_id], self.ending[job_id][1])
            if self.now >= until:
                return
            self.settle()

    def replayed(self) -> tuple[Breach, ...]:
        """Whether a planner that starts from the snapshot decides as this one, which got there by changes."""
        snapshot = self.snapshot()
        return check_replay(
            snapshot, self.planner.plan(self.now), lambda again: self.make_planner(again).plan(again.now)
        )
