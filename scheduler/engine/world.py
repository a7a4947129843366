"""What the engine knows, and a draft of what it is about to commit.

The world changes only after a commit; a draft that could not be committed is thrown away.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain

from sortedcontainers import SortedKeyList

from springtide.scheduler import model
from springtide.scheduler.engine.borrowing import Borrowing, filling_order
from springtide.scheduler.engine.lifecycle import Do, Step
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.model import Environment, JobState, Node, Phase, Placement
from springtide.scheduler.store.records import (
    AuditRecord,
    Batch,
    Bundle,
    JobRecord,
    Loaded,
    PersonRecord,
    ProjectRecord,
    WorkspaceRecord,
)

WorkspaceKey = tuple[str, str]
RECENT_KEYS = 10_000
"""Submission keys of ended jobs that are kept at hand."""
_PHASES = {
    JobState.QUEUED: Phase.WAITING,
    JobState.PAUSED: Phase.WAITING,
    JobState.STARTING: Phase.RUNNING,
    JobState.RUNNING: Phase.RUNNING,
    JobState.PAUSING: Phase.PAUSING,
}


def policy_job(job: JobRecord) -> model.Job | None:
    """The job as the planner sees it, None when it has ended."""
    phase = _PHASES.get(job.state)
    if phase is None:
        return None
    spec, standing, live = job.spec, job.standing, job.live
    return model.Job(
        id=spec.id,
        project=spec.project,
        name=spec.name,
        user=spec.user,
        priority=spec.priority,
        preemptible=spec.preemptible,
        workers=spec.workers,
        gpus=spec.gpus,
        min_workers=spec.min_workers,
        submitted=spec.submitted,
        gpu_types=spec.gpu_types,
        require=spec.require,
        prefer=spec.prefer,
        rotate=spec.rotate,
        time_limit=spec.time_limit,
        fastest=spec.fastest,
        phase=Phase.HELD if phase is Phase.WAITING and standing.held else phase,
        placement=live.placement if live is not None else (),
        reserved=standing.reserved,
        started=None if live is None else live.started if live.started is not None else live.created,
        saved=standing.saved,
        served=standing.served,
        not_before=standing.not_before,
        attempts=standing.attempt,
    )


@dataclass(slots=True)
class World:
    """What is committed: unfinished jobs, projects, people, workspaces; and the nodes as last seen.

    ``live`` are the jobs with a live attempt by project, in the order in which they fill its quota. ``unsaved``
    are jobs whose reports are in memory only. ``quarantine`` are attempts that run but are not known, with the
    GPUs they hold.
    """

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    live: dict[str, SortedKeyList] = field(default_factory=dict)
    projects: dict[str, ProjectRecord] = field(default_factory=dict)
    people: dict[str, PersonRecord] = field(default_factory=dict)
    workspaces: dict[WorkspaceKey, WorkspaceRecord] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    per_user: Counter[str] = field(default_factory=Counter)
    old_keys: deque[tuple[str, str]] = field(default_factory=deque)
    unsaved: set[str] = field(default_factory=set)
    nodes: tuple[Node, ...] = ()
    quarantine: dict[AttemptKey, Placement] = field(default_factory=dict)
    next_age: int = 0
    last_job: int = 0
    last_event: int = 0
    last_audit: int = 0
    last_decision: int = 0

    @classmethod
    def of(cls, loaded: Loaded) -> World:
        """The world as the store has it."""
        world = cls(
            projects={record.name: record for record in loaded.projects},
            people={record.name: record for record in loaded.people},
            workspaces={(record.user, record.server): record for record in loaded.workspaces},
            next_age=loaded.next_age,
            last_job=loaded.last_job,
            last_event=loaded.last_event,
            last_audit=loaded.last_audit,
            last_decision=loaded.last_decision,
        )
        for job in loaded.jobs:
            world.keep(job)
        return world

    def keep(self, job: JobRecord) -> None:
        """Replace what is known of a job."""
        before = self.jobs.get(job.id)
        known = before is not None
        if before is not None and before.live is not None:
            self.live[job.spec.project].remove(before)
        if job.live is not None:
            self.live.setdefault(job.spec.project, SortedKeyList(key=filling_order)).add(job)
        if job.spec.key is not None:
            self._keep_key((job.spec.user, job.spec.key), job)
        if job.state.final:
            if known:
                del self.jobs[job.id]
                self.per_user[job.spec.user] -= 1
                if not self.per_user[job.spec.user]:
                    del self.per_user[job.spec.user]
            return
        self.jobs[job.id] = job
        if not known:
            self.per_user[job.spec.user] += 1

    def _keep_key(self, key: tuple[str, str], job: JobRecord) -> None:
        self.keys[key] = job.id
        if job.state.final:
            self.old_keys.append(key)
            if len(self.old_keys) > RECENT_KEYS:
                self.keys.pop(self.old_keys.popleft(), None)

    def train_nodes(self) -> tuple[Node, ...]:
        """Train nodes, GPUs of quarantined attempts counted as taken."""
        return tuple(
            self._without_quarantined(node) for node in self.nodes if node.environment is Environment.TRAIN
        )

    def build_nodes(self) -> tuple[Node, ...]:
        """Build nodes."""
        return tuple(node for node in self.nodes if node.environment is Environment.BUILD)

    def _without_quarantined(self, node: Node) -> Node:
        held = {
            index
            for placement in self.quarantine.values()
            for worker in placement
            if worker.node == node.name
            for index in worker.gpus
        }
        return replace(node, taken=node.taken | held) if held else node

    def policy_projects(self) -> tuple[model.Project, ...]:
        """Projects as the planner sees them."""
        return tuple(record.project for record in self.projects.values())

    def live_jobs(self) -> Iterator[JobRecord]:
        """Jobs with a live attempt."""
        return chain.from_iterable(self.live.values())

    def borrowing(self) -> Borrowing:
        """Who borrows how much."""
        return Borrowing(lambda project: self.live.get(project, ()), lambda name: _quota(self.projects.get(name)))

    def snapshot(self, now: float, settings: model.Settings) -> model.Snapshot:
        """All that a decision depends on."""
        jobs = (policy_job(job) for job in self.jobs.values())
        known = tuple(job for job in jobs if job is not None)
        return model.Snapshot(now, self.train_nodes(), self.policy_projects(), known, settings)


def _quota(record: ProjectRecord | None) -> int | None:
    return 0 if record is None else record.project.quota


@dataclass(slots=True)
class Draft:
    """Changes to the world that are not committed yet. Look things up here while deciding.

    ``hard`` tells that something must be on disk before anybody hears of it; otherwise the draft holds only
    reports, which are written together with the next commit.
    """

    world: World
    now: float
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    new_jobs: dict[str, JobRecord] = field(default_factory=dict)
    new_keys: dict[tuple[str, str], str] = field(default_factory=dict)
    new_per_user: Counter[str] = field(default_factory=Counter)
    bundles: list[Bundle] = field(default_factory=list)
    projects: dict[str, ProjectRecord | None] = field(default_factory=dict)
    people: dict[str, PersonRecord | None] = field(default_factory=dict)
    workspaces: dict[WorkspaceKey, WorkspaceRecord | None] = field(default_factory=dict)
    audit: list[AuditRecord] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    acts: list[Do] = field(default_factory=list)
    seed_age: int | None = None
    hard: bool = False

    # ---------- jobs

    def job(self, job_id: str) -> JobRecord | None:
        """The job as it will be, ended ones only if they end in this draft."""
        return self.jobs.get(job_id) or self.world.jobs.get(job_id)

    def job_of_key(self, user: str, key: str) -> str | None:
        """The job that a key was accepted for, as far as it is at hand: it is unfinished or ended lately."""
        return self.new_keys.get((user, key)) or self.world.keys.get((user, key))

    def next_seq(self) -> int:
        """The number of the next accepted job."""
        return self.world.last_job + len(self.new_jobs) + 1

    def add(self, job: JobRecord, bundle: Bundle | None) -> None:
        """Accept a job."""
        self.hard = True
        self.jobs[job.id] = self.new_jobs[job.id] = job
        self.new_per_user[job.spec.user] += 1
        if job.spec.key is not None:
            self.new_keys[job.spec.user, job.spec.key] = job.id
        if bundle is not None:
            self.bundles.append(bundle)

    def unfinished(self, user: str | None = None) -> int:
        """Unfinished jobs, of one user or in all."""
        if user is None:
            return len(self.world.jobs) + len(self.new_jobs)
        return self.world.per_user[user] + self.new_per_user[user]

    def step(self, step: Step) -> JobRecord:
        """Take what a life-cycle function returned."""
        job, acts = step
        if acts or job is not self.job(job.id):
            self.put(job)
            self.acts.extend(acts)
        return job

    def put(self, job: JobRecord) -> None:
        """Change a job, durably."""
        self.hard = True
        self.jobs[job.id] = job

    def report(self, job: JobRecord) -> None:
        """Change a job by what it reported: not worth a commit of its own."""
        self.jobs[job.id] = job

    def borrowing(self) -> Borrowing:
        """Who will borrow how much."""
        changed: dict[str, list[JobRecord]] = {}
        for job in self.jobs.values():
            if job.live is not None:
                changed.setdefault(job.spec.project, []).append(job)

        def live_in(project: str) -> Iterator[JobRecord]:
            others = (job for job in self.world.live.get(project, ()) if job.id not in self.jobs)
            return merge(others, sorted(changed.get(project, ()), key=filling_order), key=filling_order)

        return Borrowing(live_in, lambda name: _quota(self.project(name)))

    # ---------- projects, people, workspaces

    def project(self, name: str) -> ProjectRecord | None:
        """A project as it will be."""
        return self.projects[name] if name in self.projects else self.world.projects.get(name)

    def all_projects(self) -> dict[str, ProjectRecord]:
        """Every project as it will be, oldest first."""
        found = {**self.world.projects, **self.projects}
        kept = [record for record in found.values() if record is not None]
        return {record.name: record for record in sorted(kept, key=lambda record: record.project.age)}

    def put_project(self, name: str, record: ProjectRecord | None) -> None:
        """Change a project, or drop it."""
        self.hard = True
        self.projects[name] = record

    def next_age(self) -> int:
        """The age of the next project: ages are never used twice."""
        self.seed_age = (self.world.next_age if self.seed_age is None else self.seed_age) + 1
        return self.seed_age - 1

    def all_people(self) -> dict[str, PersonRecord]:
        """Every person with a build quota of her own."""
        found = {**self.world.people, **self.people}
        return {name: record for name, record in found.items() if record is not None}

    def put_person(self, name: str, record: PersonRecord | None) -> None:
        """Give a person a build quota of her own, or take it back."""
        self.hard = True
        self.people[name] = record

    def all_workspaces(self) -> dict[WorkspaceKey, WorkspaceRecord]:
        """Every workspace as it will be."""
        found = {**self.world.workspaces, **self.workspaces}
        return {key: record for key, record in found.items() if record is not None}

    def put_workspace(self, key: WorkspaceKey, record: WorkspaceRecord | None) -> None:
        """Reserve or release a workspace."""
        self.hard = True
        self.workspaces[key] = record

    def note(
        self, who: str, what: str, subject: str, before: Mapping[str, object], after: Mapping[str, object]
    ) -> int:
        """Add to the audit trail; the entry's id."""
        self.hard = True
        number = self.world.last_audit + len(self.audit) + 1
        self.audit.append(AuditRecord(number, self.now, who, what, subject, before, after))
        return number

    # ---------- what becomes of it

    def batch(self) -> Batch:
        """The writes of this draft, and the reports that were not written yet."""
        batch = Batch(
            new_jobs=[], bundles=self.bundles, audit=self.audit, undone=self.undone, next_age=self.seed_age
        )
        for job in self.jobs.values():
            (batch.new_jobs if job.id in self.new_jobs else batch.jobs).append(job)
            _attempts(self.world.jobs.get(job.id), job, batch, unsaved=job.id in self.world.unsaved)
        for job_id in self.world.unsaved - self.jobs.keys():
            job = self.world.jobs[job_id]
            batch.jobs.append(job)
            batch.attempts.extend(job.attempts[-1:])
        for name, project in self.projects.items():
            batch.dropped_projects.append(name) if project is None else batch.projects.append(project)
        for name, person in self.people.items():
            batch.dropped_people.append(name) if person is None else batch.people.append(person)
        for key, workspace in self.workspaces.items():
            batch.dropped_workspaces.append(key) if workspace is None else batch.workspaces.append(workspace)
        return batch

    def merge(self) -> None:
        """Make the world so."""
        world = self.world
        for job in self.jobs.values():
            world.keep(job)
        if self.hard:
            world.unsaved.clear()
        else:
            world.unsaved.update(job_id for job_id in self.jobs if job_id in world.jobs)
        if self.projects:
            world.projects = self.all_projects()
        if self.people:
            world.people = self.all_people()
        if self.workspaces:
            world.workspaces = self.all_workspaces()
        world.next_age = world.next_age if self.seed_age is None else self.seed_age
        world.last_job += len(self.new_jobs)
        world.last_audit += len(self.audit)


def _attempts(before: JobRecord | None, after: JobRecord, batch: Batch, *, unsaved: bool) -> None:
    known = {attempt.number: attempt for attempt in before.attempts[-2:]} if before is not None else {}
    for attempt in after.attempts[-2:]:
        if attempt.number not in known:
            batch.new_attempts.append(attempt)
        elif unsaved or attempt is not known[attempt.number]:
            batch.attempts.append(attempt)
