"""A transaction: changes to the committed state that are being decided and are not committed yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import merge
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.engine.state import known_types, lifecycle
from springtide.scheduler.engine.state.blocks import LaunchStop
from springtide.scheduler.engine.state.borrowing import Borrowing, Bounds, filling_order, holds_the_same
from springtide.scheduler.engine.state.bundle_sizes import BundleSizes, Owner
from springtide.scheduler.engine.state.known_types import KnownTypes, Quantities
from springtide.scheduler.engine.state.lifecycle import Effect, Transition
from springtide.scheduler.engine.state.observed import Drained, ObservedNodes
from springtide.scheduler.engine.state.state import (
    State,
    SubmissionKey,
    WorkspaceKey,
    has_no_place,
    held_without_place,
)
from springtide.scheduler.gpu_types import quota_of
from springtide.scheduler.model import Project, RecentUse, UseKey
from springtide.scheduler.notifications import NotificationChoice
from springtide.scheduler.store.records import (
    POOL,
    AuditRecord,
    Bundle,
    DrainRecord,
    GpuDrainRecord,
    HubUser,
    IdleRecord,
    IdleRule,
    JobRecord,
    PersonRecord,
    ProjectRecord,
    RuleKey,
    SweepParameters,
    WorkspaceRecord,
)

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Transaction:
    """Changes to ``state`` at the time ``now``, with the ``nodes`` as observed.

    Every look-up returns the value after the changes so far. `write_batch` gives what to commit; after the
    commit, ``apply_to_state`` changes the state. A transaction that could not be committed is dropped.

    ``must_commit`` is set by any change that has to be on disk before it is told to anyone. A transaction without
    it holds only progress reports, which are written with the next commit. ``effects`` are for the executor, after
    the commit. ``tagged`` are jobs with other tags, also ended ones. ``counted_trials`` are ids of trials whose
    end is counted by their sweep already, ``superseded`` those of failed ones that get another job.
    ``launch_stops`` are those that begin, ``given`` ids of jobs that another person owns from now on.
    """

    state: State
    nodes: ObservedNodes
    now: float
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    new_jobs: dict[str, JobRecord] = field(default_factory=dict)
    new_keys: dict[SubmissionKey, str] = field(default_factory=dict)
    new_by_user: Counter[str] = field(default_factory=Counter)
    new_bundle_sizes: BundleSizes = field(default_factory=BundleSizes)
    bundles: list[Bundle] = field(default_factory=list)
    projects: dict[str, ProjectRecord | None] = field(default_factory=dict)
    people: dict[str, PersonRecord | None] = field(default_factory=dict)
    workspaces: dict[WorkspaceKey, WorkspaceRecord | None] = field(default_factory=dict)
    drains: dict[str, DrainRecord | None] = field(default_factory=dict)
    gpu_drains: dict[str, GpuDrainRecord | None] = field(default_factory=dict)
    notification_choices: dict[str, NotificationChoice] = field(default_factory=dict)
    default_projects: dict[str, str | None] = field(default_factory=dict)
    idle_rules: dict[RuleKey, IdleRule | None] = field(default_factory=dict)
    idle_records: dict[WorkspaceKey, IdleRecord | None] = field(default_factory=dict)
    recent_use: dict[UseKey, RecentUse] = field(default_factory=dict)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    hub_users: dict[str, HubUser | None] = field(default_factory=dict)
    hub_groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    audit: list[AuditRecord] = field(default_factory=list)
    undone_entries: list[int] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    launch_stops: list[LaunchStop] = field(default_factory=list)
    tagged: dict[str, JobRecord] = field(default_factory=dict)
    shifted: set[str] = field(default_factory=set)
    new_trials: dict[str, list[str]] = field(default_factory=dict)
    counted_trials: set[str] = field(default_factory=set)
    sweep_parameters: list[SweepParameters] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    new_types: KnownTypes | None = None
    clock: ClockAnchor | None = None
    next_project_age: int | None = None
    must_commit: bool = False
    _bounds: Bounds | None = None

    def copy(self) -> Transaction:
        """Return a transaction with the changes so far, in which more can be tried."""
        copied: dict[str, Any] = {
            each.name: value.copy()
            for each in fields(self)
            if isinstance(value := getattr(self, each.name), dict | list | set | BundleSizes)
        }
        copied["new_trials"] = {sweep: trials.copy() for sweep, trials in self.new_trials.items()}
        return replace(self, **copied, _bounds=None)

    # ---------- jobs

    def job(self, job_id: str) -> JobRecord | None:
        """Return an unfinished job, or one that ends in this transaction."""
        return self.jobs.get(job_id) or self.state.jobs.get(job_id)

    def job_of_key(self, user: str, key: str) -> str | None:
        """Return the id of the job that an idempotency key was accepted for.

        Knows the keys of unfinished jobs and of the latest ended ones; the store knows the others.
        """
        return self.new_keys.get((user, key)) or self.state.job_of_key.get((user, key))

    def next_job_number(self) -> int:
        """Return the sequence number of the next accepted job."""
        return self.state.last_job + len(self.new_jobs) + 1

    def add_job(self, job: JobRecord, bundle: Bundle | None) -> None:
        """Accept a new job with its files."""
        self.must_commit = True
        self.jobs[job.id] = self.new_jobs[job.id] = job
        self.new_by_user[job.spec.user] += 1
        self.new_bundle_sizes.add(job.spec)
        if job.spec.key is not None:
            self.new_keys[job.spec.user, job.spec.key] = job.id
        if job.sweep is not None:
            self.new_trials.setdefault(job.sweep, []).append(job.id)
        if bundle is not None:
            self.bundles.append(bundle)

    def trials_of(self, sweep: str) -> list[JobRecord]:
        """Return the unfinished trials of a sweep, in the order in which they were begun."""
        ids = [*self.state.trials.get(sweep, ()), *self.new_trials.get(sweep, ())]
        found = [self.jobs.get(job_id) or self.state.jobs[job_id] for job_id in ids]
        return [job for job in found if not job.state.final]

    def parameters_of(self, sweep: str) -> Sequence[msgspec.Raw] | None:
        """Return the parameters of each trial of a sweep as JSON, None if they are not known beforehand."""
        new = (each.each_trial() for each in self.sweep_parameters if each.sweep == sweep)
        return self.state.parameters.get(sweep) or next(new, None)

    def count_unfinished(self, user: str | None = None) -> int:
        """Return the number of unfinished jobs of one user, or of all users."""
        if user is None:
            return len(self.state.jobs) + len(self.new_jobs)
        return self.state.unfinished_by_user[user] + self.new_by_user[user]

    def bundle_bytes(self, owner: Owner, bundle: Bundle) -> int:
        """Return the bytes of files that an owner's unfinished jobs keep, one more with ``bundle`` among them."""
        both = self.state.bundle_sizes, self.new_bundle_sizes
        kept = sum(sizes.of(owner) for sizes in both)
        return kept if any(sizes.has(owner, bundle.digest) for sizes in both) else kept + len(bundle.content)

    def apply(self, transition: Transition) -> JobRecord:
        """Take the result of a life-cycle function: the job and its effects."""
        job, effects = transition
        if effects or job is not self.job(job.id):
            self.put_job(job)
            self.effects.extend(effects)
        return job

    def put_job(self, job: JobRecord) -> None:
        """Replace a job; the change must be committed."""
        self.must_commit = True
        if self._bounds is not None and not holds_the_same(self.job(job.id), job):
            self._bounds = None
        self.jobs[job.id] = job

    def put_tags(self, job: JobRecord, tags: tuple[str, ...]) -> None:
        """Give a job other tags, which may have ended; nothing else is changed of it."""
        self.must_commit = True
        self.tagged[job.id] = tagged = structs.replace(job, spec=job.spec.with_options(tags=tags))
        if self.job(job.id) is not None:
            self.jobs[job.id] = tagged

    def shift_times(self, anchor: ClockAnchor) -> float:
        """Set the clock's anchor, shift the times of unfinished jobs by the step to it, and return the step."""
        step = self.state.clock_step(anchor, self.now)
        self.must_commit = True
        self.clock = anchor
        for job in self.state.jobs.values() if step else ():
            self.jobs[job.id] = lifecycle.shift_times(job, step)
            self.shifted.add(job.id)
        for key, record in self.state.idle_records.items() if step else ():
            self.idle_records[key] = record.shifted(step)
        for use in self.state.recent_use.values() if step else ():
            self.put_use(structs.replace(use, at=use.at + step))
        return step

    def put_use(self, use: RecentUse) -> None:
        """Replace the recent use of a project; written with the next commit."""
        self.recent_use[use.key] = use

    def put_report(self, job: JobRecord) -> None:
        """Replace a job by one with newer progress; written with the next commit."""
        self.jobs[job.id] = job

    def borrowing(self) -> Borrowing:
        """Return how many GPUs each live job borrows after the changes.

        The transaction keeps what was computed, and not the result, which refers to the transaction.
        """
        if self._bounds is None:
            holding = {
                job.spec.project
                for job in self.jobs.values()
                if not holds_the_same(self.state.jobs.get(job.id), job)
            }
            same_quotas = not self.projects and self.new_types is None
            self._bounds = self.state.borrowing().bounds_except(holding) if same_quotas else {}
        return Borrowing(self._live_in, self._quota, self._bounds)

    def _live_in(self, project: str) -> Iterator[JobRecord]:
        """Return a project's live jobs after the changes, in the order in which they fill its quota."""
        changed = (job for job in self.jobs.values() if job.spec.project == project and job.live is not None)
        others = (job for job in self.state.live_by_project.get(project, ()) if job.id not in self.jobs)
        return merge(others, sorted(changed, key=filling_order), key=filling_order)

    def _quota(self, name: str, gpu_type: str) -> int | None:
        record = self.project(name)
        return 0 if record is None else quota_of(record.project, gpu_type, self.types.train)

    # ---------- GPU types

    @property
    def types(self) -> KnownTypes:
        """The GPU types that the pool knows."""
        return self.state.types if self.new_types is None else self.new_types

    def follow_types(self) -> None:
        """Take in the GPU types of the observed nodes; numbers become tables by type where there are several."""
        before = Quantities(self.types, self.all_projects(), self.all_people())
        after = known_types.updated(before, (*self.nodes.all, *(group.node for group in self.nodes.groups)))
        if after == before:
            return
        self.must_commit = True
        self._bounds = None
        self.new_types = after.types
        changed = {name: record for name, record in after.projects.items() if record != before.projects[name]}
        self.projects.update(changed)
        self.people.update({name: p for name, p in after.people.items() if p != before.people[name]})
        if before.types.train or before.types.build or changed:
            self.add_audit_entry(
                POOL,
                "pool.gpu_types",
                "pool",
                {"train": list(before.types.train), "build": list(before.types.build)},
                {"train": list(after.types.train), "build": list(after.types.build)},
            )

    # ---------- projects, people, workspaces

    def project(self, name: str) -> ProjectRecord | None:
        """Return a project, None if there is none of that name."""
        return self.projects[name] if name in self.projects else self.state.projects.get(name)

    def all_projects(self) -> dict[str, ProjectRecord]:
        """Return every project by name, oldest first."""
        merged = {**self.state.projects, **self.projects}
        kept = [record for record in merged.values() if record is not None]
        return {record.name: record for record in sorted(kept, key=lambda record: record.project.age)}

    def policy_projects(self) -> dict[str, Project]:
        """Return every project as the planner sees it, by name, oldest first."""
        return {name: record.project for name, record in self.all_projects().items()}

    def put_project(self, name: str, record: ProjectRecord | None) -> None:
        """Create or replace a project; None deletes it."""
        self.must_commit = True
        self._bounds = None
        self.projects[name] = record

    def take_project_age(self) -> int:
        """Return an age for a new project. No age is returned twice."""
        age = self.state.next_project_age if self.next_project_age is None else self.next_project_age
        self.next_project_age = age + 1
        return age

    def all_people(self) -> dict[str, PersonRecord]:
        """Return every person with a personal build quota, by name."""
        return _after(self.state.people, self.people)

    def put_person(self, name: str, record: PersonRecord | None) -> None:
        """Set a person's own build quota; None removes it."""
        self.must_commit = True
        self.people[name] = record

    def rename_user(self, old: str, new: str) -> None:
        """Give all that is a person's to another name, which nobody has; her workspaces keep theirs.

        Notebooks that run are known by the name that they were started with.
        """
        self.must_commit = True
        self.renamed.append((old, new))
        for job in [each for each in {**self.state.jobs, **self.jobs}.values() if each.spec.user == old]:
            self.put_job(structs.replace(job, spec=structs.replace(job.spec, user=new)))

    def give_job(self, job: JobRecord, user: str) -> None:
        """Make another person the owner of a job. It no longer answers to its submission key, which was hers."""
        self.given.add(job.id)
        self.put_job(structs.replace(job, spec=structs.replace(job.spec, user=user, key=None)))

    def all_hub_users(self) -> dict[str, HubUser]:
        """Return every known user of JupyterHub, by name."""
        return _after(self.state.hub_users, self.hub_users)

    def put_hub_user(self, name: str, user: HubUser | None) -> None:
        """Set who has a name in JupyterHub; None forgets it."""
        self.must_commit = True
        self.hub_users[name] = user

    def put_hub_group(self, project: str, members: tuple[str, ...]) -> None:
        """Set who is in a project, as seen in JupyterHub."""
        self.must_commit = True
        self.hub_groups[project] = members

    def put_notification_choice(self, choice: NotificationChoice) -> None:
        """Set what a person wants to be told."""
        self.must_commit = True
        self.notification_choices[choice.user] = choice

    def put_default_project(self, user: str, project: str | None) -> None:
        """Set the project of a person's jobs that name none; None removes the choice."""
        self.must_commit = True
        self.default_projects[user] = project

    def all_workspaces(self) -> dict[WorkspaceKey, WorkspaceRecord]:
        """Return every workspace by user and server name."""
        return _after(self.state.workspaces, self.workspaces)

    def put_workspace(self, key: WorkspaceKey, record: WorkspaceRecord | None) -> None:
        """Reserve the GPUs of a workspace; None releases them."""
        self.must_commit = True
        self.workspaces[key] = record

    def idle_record(self, key: WorkspaceKey) -> IdleRecord | None:
        """Return what was told and done about a workspace that is not used."""
        return self.idle_records[key] if key in self.idle_records else self.state.idle_records.get(key)

    def put_idle_record(self, key: WorkspaceKey, record: IdleRecord | None) -> None:
        """Replace what was told and done about a workspace; None removes it."""
        self.must_commit = True
        self.idle_records[key] = record

    def put_idle_rule(self, key: RuleKey, rule: IdleRule | None) -> None:
        """Set a rule for idle workspaces; None removes it."""
        self.must_commit = True
        self.idle_rules[key] = rule

    def all_drains(self) -> dict[str, DrainRecord]:
        """Return every drained node by name."""
        return _after(self.state.drains, self.drains)

    def put_drain(self, node: str, record: DrainRecord | None) -> None:
        """Drain a node; None undrains it."""
        self.must_commit = True
        self.drains[node] = record

    def all_gpu_drains(self) -> dict[str, GpuDrainRecord]:
        """Return every GPU that is drained on its own, by UUID."""
        return _after(self.state.gpu_drains, self.gpu_drains)

    def put_gpu_drain(self, gpu: str, record: GpuDrainRecord | None) -> None:
        """Drain a GPU; None undrains it."""
        self.must_commit = True
        self.gpu_drains[gpu] = record

    def drained(self) -> Drained:
        """Return the drained nodes and GPUs, and the GPUs held by what has no place."""
        return Drained(self.all_drains(), self.all_gpu_drains(), self._held_without_place())

    def _held_without_place(self) -> frozenset[str]:
        kept = {job_id: job for job_id, job in self.state.unmatched.items() if job_id not in self.jobs}
        changed = {job.id: job for job in self.jobs.values() if has_no_place(job)}
        return held_without_place({**kept, **changed}, self.all_workspaces())

    @property
    def closes_otherwise(self) -> bool:
        """Whether other nodes or GPUs take nothing new after this transaction than before."""
        return bool(self.drains or self.gpu_drains) or self._held_without_place() != self.state.drained.held

    def add_audit_entry(
        self, who: str, what: str, subject: str, before: Mapping[str, object], after: Mapping[str, object]
    ) -> int:
        """Append to the audit trail and return the entry's id."""
        self.must_commit = True
        number = self.state.last_audit + len(self.audit) + 1
        self.audit.append(AuditRecord(number, self.now, who, what, subject, before, after))
        return number

    # ---------- after the commit

    def apply_to_state(self) -> None:
        """Apply this transaction to the state. Call it once, after the commit."""
        state = self.state
        for old, new in self.renamed:
            state.rename_user(old, new)
        for job in self.jobs.values():
            state.put_job(job)
        for each in self.sweep_parameters:
            if each.sweep in state.jobs:
                state.parameters[each.sweep] = each.each_trial()
        if self.must_commit:
            state.unsaved.clear()
        else:
            state.unsaved.update(job_id for job_id in self.jobs if job_id in state.jobs)
        if self.projects or self.new_types is not None:
            state.quotas_changed()
        state.recent_use.update(self.recent_use)
        if self.projects:
            state.projects = self.all_projects()
            state.recent_use = {key: use for key, use in state.recent_use.items() if key.project in state.projects}
        if self.people:
            state.people = self.all_people()
        state.notification_choices.update(self.notification_choices)
        if self.default_projects:
            state.default_projects = _after(state.default_projects, self.default_projects)
        if self.idle_rules:
            state.idle_rules = _after(state.idle_rules, self.idle_rules)
        if self.idle_records:
            state.idle_records = _after(state.idle_records, self.idle_records)
        if self.hub_users:
            state.hub_users = self.all_hub_users()
        state.hub_groups.update(self.hub_groups)
        if self.workspaces:
            state.workspaces = self.all_workspaces()
        if self.drains:
            state.drains = self.all_drains()
        if self.gpu_drains:
            state.gpu_drains = self.all_gpu_drains()
        if self.new_types is not None:
            state.types = self.new_types
        if self.clock is not None:
            state.clock = self.clock
        if self.next_project_age is not None:
            state.next_project_age = self.next_project_age
        if self._bounds is not None:
            state.know_bounds(self._bounds)
        state.last_job += len(self.new_jobs)
        state.last_audit += len(self.audit)


def _after(before: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    """Return the entries after changes, of which None removes an entry."""
    return {key: value for key, value in {**before, **changes}.items() if value is not None}
