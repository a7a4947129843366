"""The committed state of the pool in memory: unfinished jobs and keyed state, as in the store."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs
from sortedcontainers import SortedKeyList

from springtide.scheduler import model
from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.blocks import Blocks
from springtide.scheduler.engine.state.booked import present
from springtide.scheduler.engine.state.borrowing import Borrowing, Bounds, filling_order, holds_the_same
from springtide.scheduler.engine.state.bundle_sizes import BundleSizes, owners
from springtide.scheduler.engine.state.known_types import KnownTypes
from springtide.scheduler.engine.state.line_without_gpus import LineWithoutGpus
from springtide.scheduler.engine.state.observed import Drained, ObservedNodes, drained_by
from springtide.scheduler.engine.state.places import bare, identities, identities_of, is_unmatched
from springtide.scheduler.engine.state.restraints import planned_projects
from springtide.scheduler.gpu_types import DeclaredTypes, quota_of
from springtide.scheduler.model import Environment, JobState, Phase
from springtide.scheduler.store.keyed import Table
from springtide.scheduler.store.records import JobRecord, Loaded
from springtide.scheduler.store.tables import TABLES, Tables, WorkspaceKey, WorkspaceRecord
from springtide.scheduler.workload import Line

SubmissionKey = tuple[str, str]
"""User and idempotency key of a submission."""
MAX_ENDED_KEYS = 10_000
"""Maximum number of idempotency keys of ended jobs in memory."""
_PHASES = {
    JobState.QUEUED: Phase.WAITING,
    JobState.PAUSED: Phase.WAITING,
    JobState.STARTING: Phase.RUNNING,
    JobState.RUNNING: Phase.RUNNING,
    JobState.PAUSING: Phase.PAUSING,
}


def policy_job(job: JobRecord) -> model.Job | None:
    """Return the job as the planner sees it, None if it has ended or no GPUs are planned for it."""
    phase = _PHASES.get(job.state)
    if phase is None or job.line is not Line.GPUS:
        return None
    spec, standing, live = job.spec, job.standing, job.live
    return spec.options.planned(
        id=spec.id,
        project=spec.project,
        name=spec.name,
        user=spec.user,
        submitted=spec.submitted,
        fastest=spec.fastest,
        usual_runtime=standing.usual_runtime,
        phase=Phase.HELD if phase is Phase.WAITING and job.is_idle else phase,
        placement=bare(live.placement) if live is not None else (),
        reserved=bare(standing.reserved),
        started=None if live is None else live.started if live.started is not None else live.created,
        saved=standing.saved,
        served=standing.served,
        sweep_served=standing.sweep_served,
        not_before=standing.not_before,
        attempts=standing.attempt,
        turn=standing.turn and (live is not None or bool(standing.reserved)),
        last_turn=standing.last_turn,
    )


@dataclass(slots=True)
class State(Tables):
    """Committed state: unfinished jobs, keyed state, and the highest number of each journal.

    Changes only when a `Transaction` is applied after its commit. ``live_by_project`` holds the jobs with a live
    attempt, in the order in which they fill the project's quota, ``reserved`` those for which GPUs are reserved.
    ``trials`` are the ids of the unfinished trials by sweep, ``parameters`` those of all trials of an unfinished
    sweep, each as JSON, if they are known beforehand.
    ``without_gpus`` are the lines of the jobs without GPUs, ``blocks`` what keeps jobs from starting.
    ``unmatched`` holds the jobs whose live attempt has no place in the present inventory.
    ``types`` are the pool's GPU types. ``unsaved`` are ids of jobs whose latest reports are in memory only.
    ``records`` are those of keyed state by table; a transaction replaces the mapping of a changed table.
    ``clock`` is the anchor of the system clock that all times refer to. ``prices`` are those of a GPU-hour by GPU
    type, in the ``currency``.
    """

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    live_by_project: dict[str, SortedKeyList] = field(default_factory=dict)
    reserved: dict[str, JobRecord] = field(default_factory=dict)
    unmatched: dict[str, JobRecord] = field(default_factory=dict)
    trials: dict[str, dict[str, None]] = field(default_factory=dict)
    parameters: dict[str, Sequence[msgspec.Raw]] = field(default_factory=dict)
    records: dict[Table[Any, Any], Mapping[Any, Any]] = field(
        default_factory=lambda: {table: {} for table in TABLES}
    )
    job_of_key: dict[SubmissionKey, str] = field(default_factory=dict)
    ended_keys: deque[SubmissionKey] = field(default_factory=deque)
    unfinished_by_user: Counter[str] = field(default_factory=Counter)
    waiting_by_project: dict[str, Counter[str]] = field(default_factory=dict)
    """Jobs that wait, of each project: how many by the id of the job, or of the sweep whose trials they are."""
    without_gpus: LineWithoutGpus = field(default_factory=LineWithoutGpus)
    blocks: Blocks = field(default_factory=Blocks)
    bundle_sizes: BundleSizes = field(default_factory=BundleSizes)
    unsaved: set[str] = field(default_factory=set)
    types: KnownTypes = field(default_factory=KnownTypes)
    clock: ClockAnchor | None = None
    next_project_age: int = 0
    last_job: int = 0
    last_event: int = 0
    last_audit: int = 0
    last_decision: int = 0
    last_entry: int = 0
    last_fact: int = 0
    prices: Mapping[str, float] = field(default_factory=dict)
    currency: str = ""
    _borrowing: Borrowing | None = None

    @classmethod
    def from_store(
        cls,
        loaded: Loaded,
        declared: DeclaredTypes = DeclaredTypes(),  # noqa: B008 - frozen
        prices: Mapping[str, float] = MappingProxyType({}),
        currency: str = "",
    ) -> State:
        """Return the state that the store holds; jobs name the GPU types that are ``declared`` now.

        ``prices`` are those of a GPU-hour by GPU type, in the ``currency``.
        """
        known = {environment: loaded.gpu_types.get(environment, ()) for environment in Environment}
        state = cls(
            types=KnownTypes(known[Environment.TRAIN], known[Environment.BUILD], declared),
            records=dict(loaded.records),
            clock=loaded.clock,
            next_project_age=loaded.next_age,
            last_job=loaded.last_job,
            last_event=loaded.last_event,
            last_audit=loaded.last_audit,
            last_decision=loaded.last_decision,
            last_entry=loaded.last_entry,
            last_fact=loaded.last_fact,
            prices={declared.of(gpu_type): price for gpu_type, price in prices.items()},
            currency=currency,
            parameters={each.sweep: each.each_trial() for each in loaded.sweep_parameters},
        )
        for job in loaded.jobs:
            before = job.spec.options.gpu_types
            now = tuple(dict.fromkeys(map(declared.of, before)))
            state.put_job(
                job if now == before else structs.replace(job, spec=job.spec.with_options(gpu_types=now))
            )
        return state

    def put_job(self, job: JobRecord) -> None:
        """Insert or replace a job and update the indexes. A job that has ended is removed."""
        before = self.jobs.get(job.id)
        self._count_waiting(before, -1)
        self._count_waiting(job, 1)
        self.without_gpus.replace(before, job)
        self.blocks.replace(before, job)
        if before is not None and before.live is not None:
            self.live_by_project[job.spec.project].remove(before)
        if job.live is not None:
            self.live_by_project.setdefault(job.spec.project, SortedKeyList(key=filling_order)).add(job)
        if self._borrowing is not None and not holds_the_same(before, job):
            self._borrowing.forget(job.spec.project)
        if job.standing.reserved and not job.state.final:
            self.reserved[job.id] = job
        else:
            self.reserved.pop(job.id, None)
        if has_no_place(job):
            self.unmatched[job.id] = job
        else:
            self.unmatched.pop(job.id, None)
        if job.spec.key is not None:
            self._index_key((job.spec.user, job.spec.key), job)
        if before is not None and (job.state.final or set(owners(before.spec)) != set(owners(job.spec))):
            del self.jobs[job.id]
            self.bundle_sizes.remove(before.spec)
            self._count_unfinished(before, -1)
            before = None
        if not job.state.final:
            self.jobs[job.id] = job
            if before is None:
                self.bundle_sizes.add(job.spec)
                self._count_unfinished(job, 1)
        if job.state.final:
            self.parameters.pop(job.id, None)
        if job.sweep is not None:
            self._index_trial(job.sweep, job)

    def _index_trial(self, sweep: str, job: JobRecord) -> None:
        if not job.state.final:
            self.trials.setdefault(sweep, {})[job.id] = None
        elif sweep in self.trials:
            self.trials[sweep].pop(job.id, None)
            if not self.trials[sweep]:
                del self.trials[sweep]

    def trials_of(self, sweep: str) -> list[JobRecord]:
        """Return the unfinished trials of a sweep, in the order in which they were begun."""
        return [self.jobs[job_id] for job_id in self.trials.get(sweep, ())]

    def _count_unfinished(self, job: JobRecord, number: int) -> None:
        _count(self.unfinished_by_user, job.spec.user, number)

    def _count_waiting(self, job: JobRecord | None, number: int) -> None:
        if job is None or job.line is Line.NONE or job.state.final or job.state.holds_gpus or job.awaits_person:
            return
        _count(self.waiting_by_project.setdefault(job.spec.project, Counter()), job.sweep or job.id, number)

    def _index_key(self, key: SubmissionKey, job: JobRecord) -> None:
        self.job_of_key[key] = job.id
        if job.state.final:
            self.ended_keys.append(key)
            if len(self.ended_keys) > MAX_ENDED_KEYS:
                self.job_of_key.pop(self.ended_keys.popleft(), None)

    def forget_key(self, job: JobRecord) -> None:
        """Forget which job the submission key of a deleted one was accepted for."""
        if job.spec.key is not None and self.job_of_key.get((job.spec.user, job.spec.key)) == job.id:
            del self.job_of_key[job.spec.user, job.spec.key]

    def rekey(self, job: JobRecord, before: SubmissionKey, after: SubmissionKey) -> None:
        """Have a job answer to another submission key."""
        if self.job_of_key.get(before) == job.id:
            del self.job_of_key[before]
        self._index_key(after, job)

    def rename_user(self, old: str, new: str) -> None:
        """Give the submission keys of a person to another name."""
        for user, key in [each for each in self.job_of_key if each[0] == old]:
            self.job_of_key[new, key] = self.job_of_key.pop((user, key))
        self.ended_keys = deque((new if user == old else user, key) for user, key in self.ended_keys)

    def names_by_identity(self) -> dict[str, str]:
        """Return under which name the pool knows each user of JupyterHub, by her identity."""
        return {user.identity: user.name for user in self.hub_users.values()}

    def policy_projects(self) -> dict[str, model.Project]:
        """Return the projects as admins have set them, by name."""
        return {record.name: record.project for record in self.projects.values()}

    def present_projects(self) -> dict[str, model.Project]:
        """Return the projects with the quotas that they have by the bookings that have begun, by name."""
        bookings, types = tuple(self.bookings.values()), self.types.train
        return {name: present(project, bookings, types) for name, project in self.policy_projects().items()}

    def planned_projects(self) -> dict[str, model.Project]:
        """Return the projects as the planner sees them, by name, with bookings and spent budgets."""
        bookings = tuple(self.bookings.values())
        return planned_projects(self.projects.values(), self.budgets, bookings, self.types.train)

    @property
    def drained(self) -> Drained:
        """The drained nodes and GPUs, and the GPUs held by holders without a place."""
        return drained_by(
            self.drains, self.gpu_drains, self.bookings, held_without_place(self.unmatched, self.workspaces)
        )

    def workspace_places(self) -> dict[WorkspaceKey, tuple[str, tuple[int, ...]]]:
        """Return node and GPUs of each workspace, by user and server."""
        return {key: (record.node, record.gpus) for key, record in self.workspaces.items()}

    def live_jobs(self) -> Iterator[JobRecord]:
        """Iterate over the jobs with a live attempt."""
        return chain.from_iterable(self.live_by_project.values())

    def quota(self, project: str, gpu_type: str) -> int | None:
        """Return a project's quota of a GPU type, None if it is unlimited; 0 for an unknown project."""
        record, types = self.projects.get(project), self.types.train
        if record is None:
            return 0
        return quota_of(present(record.project, self.bookings.values(), types), gpu_type, types)

    def borrowing(self) -> Borrowing:
        """Return how many GPUs each live job borrows."""
        if self._borrowing is None:
            self._borrowing = self._borrowing_with({})
        return self._borrowing

    def know_bounds(self, computed: Bounds) -> None:
        """Take over where the quotas end, as computed of the same live jobs and quotas."""
        self._borrowing = self._borrowing_with(computed)

    def _borrowing_with(self, bounds: Bounds) -> Borrowing:
        return Borrowing(lambda project: self.live_by_project.get(project, ()), self.quota, bounds)

    def quotas_changed(self) -> None:
        """Compute again how much is borrowed, because projects or types have changed."""
        self._borrowing = None

    def clock_step(self, anchor: ClockAnchor, now: float) -> float:
        """Return by how many seconds the system clock was set since the times of this state were written.

        Over a boot of the machine only a clock that is behind the latest of these times shows that it was set, by
        so much at least.
        """
        if self.clock is None:
            return 0.0
        if self.clock.boot == anchor.boot:
            return self.clock.step_to(anchor)
        return min(0.0, now - max(map(lifecycle.latest_time, self.jobs.values()), default=now))

    def snapshot(self, nodes: ObservedNodes, now: float, settings: model.Settings) -> model.Snapshot:
        """Return all that a decision depends on."""
        jobs = tuple(job for record in self.jobs.values() if (job := policy_job(record)) is not None)
        settings = replace(settings, gpu_types=self.types.train)
        projects = tuple(self.planned_projects().values())
        use = tuple(self.recent_use.values())
        return model.Snapshot(now, nodes.train(self.drained), projects, jobs, settings, use)


def has_no_place(job: JobRecord) -> bool:
    """Return whether the live attempt of a job has no place in the present inventory."""
    return job.live is not None and any(is_unmatched(worker.node) for worker in job.live.placement)


def held_without_place(
    jobs: Mapping[str, JobRecord], workspaces: Mapping[WorkspaceKey, WorkspaceRecord]
) -> frozenset[str]:
    """Return the identities of the GPUs held by jobs or workspaces without a place."""
    by_jobs = (gpu for job in jobs.values() for gpu in identities_of(job.attempts[-1].placement))
    by_workspaces = (
        gpu
        for record in workspaces.values()
        if is_unmatched(record.node)
        for gpu in identities(record.node, record.gpus, record.uuids)
    )
    return frozenset((*by_jobs, *by_workspaces))


def _count(counts: Counter[str], name: str, number: int) -> None:
    counts[name] += number
    if not counts[name]:
        del counts[name]
