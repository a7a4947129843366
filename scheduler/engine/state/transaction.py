"""A transaction: changes to the committed state that are being decided and are not committed yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import merge
from typing import Any

import msgspec
from msgspec import structs

from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import known_types, lifecycle
from springtide.scheduler.engine.state.blocks import LaunchStop
from springtide.scheduler.engine.state.booked import present
from springtide.scheduler.engine.state.borrowing import Borrowing, Bounds, filling_order, holds_the_same
from springtide.scheduler.engine.state.bundle_sizes import BundleSizes, Owner
from springtide.scheduler.engine.state.known_types import KnownTypes, Quantities
from springtide.scheduler.engine.state.lifecycle import Effect, Transition
from springtide.scheduler.engine.state.observed import Drained, ObservedNodes, drained_by
from springtide.scheduler.engine.state.restraints import planned_projects
from springtide.scheduler.engine.state.state import (
    State,
    SubmissionKey,
    has_no_place,
    held_without_place,
)
from springtide.scheduler.gpu_types import quota_of
from springtide.scheduler.model import Project
from springtide.scheduler.refusal import unknown_job
from springtide.scheduler.store.keyed import Overlays
from springtide.scheduler.store.ledger import EndedFact, LedgerEntry
from springtide.scheduler.store.records import AuditRecord, Bundle, JobRecord, JobSpec, SweepParameters
from springtide.scheduler.store.tables import POOL, TABLES, DeletedJob, EndingKind, Tables


@dataclass(slots=True)
class Transaction(Tables):
    """Changes to ``state`` at the time ``now``, with the ``nodes`` as observed.

    Every look-up returns the value after the changes so far. `write_batch` gives what to commit; after the
    commit, ``apply_to_state`` changes the state. A transaction that could not be committed is dropped.

    ``records`` are those of keyed state after the changes, an overlay for each table. ``effects`` are for the
    executor, after the commit. ``marked`` are jobs with other tags or marks. ``counted_trials`` are ids of
    trials whose end is counted by their sweep already, ``superseded`` those of failed ones that get another job.
    ``rekeyed`` are jobs that answer to another submission key, with the former and the new one.
    ``launch_stops`` are those that begin, ``respecified`` ids of jobs with another owner, project or other
    options, ``deleted`` ended jobs to forget by id, ``deleted_ids`` the ids of them and of their trials.
    ``entries`` and ``ended_facts`` are for the ledger.
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
    records: Overlays = field(init=False)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    rekeyed: list[tuple[JobRecord, SubmissionKey, SubmissionKey]] = field(default_factory=list)
    respecified: set[str] = field(default_factory=set)
    audit: list[AuditRecord] = field(default_factory=list)
    undone_entries: list[int] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    launch_stops: list[LaunchStop] = field(default_factory=list)
    deleted: dict[str, JobRecord] = field(default_factory=dict)
    deleted_ids: list[str] = field(default_factory=list)
    marked: dict[str, JobRecord] = field(default_factory=dict)
    shifted: set[str] = field(default_factory=set)
    new_trials: dict[str, list[str]] = field(default_factory=dict)
    counted_trials: set[str] = field(default_factory=set)
    sweep_parameters: list[SweepParameters] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    entries: list[LedgerEntry] = field(default_factory=list)
    ended_facts: list[EndedFact] = field(default_factory=list)
    new_types: KnownTypes | None = None
    clock: ClockAnchor | None = None
    next_project_age: int | None = None
    _must_commit: bool = False
    _bounds: Bounds | None = None
    _bounds_version: int = 0
    """Version of projects and bookings for which the bounds are computed."""

    def __post_init__(self) -> None:
        self.records = Overlays(self.state.records)

    def copy(self) -> Transaction:
        """Return a transaction with the changes so far, in which more can be tried."""
        copied: dict[str, Any] = {
            each.name: value.copy()
            for each in fields(self)
            if each.init and isinstance(value := getattr(self, each.name), dict | list | set | BundleSizes)
        }
        copied["new_trials"] = {sweep: trials.copy() for sweep, trials in self.new_trials.items()}
        copy = replace(self, **copied, _bounds=None)
        copy.records = self.records.copy()
        return copy

    @property
    def must_commit(self) -> bool:
        """Whether the transaction changes something that has to be on disk before anyone learns of it.

        Progress reports do not call for a commit; the next one writes them.
        """
        return self._must_commit or any(each.table.urgent for each in self.records.changed())

    def require_commit(self) -> None:
        """Have the changes committed before anything is answered."""
        self._must_commit = True

    # ---------- jobs

    def job(self, job_id: str) -> JobRecord | None:
        """Return an unfinished job, or one that ends in this transaction."""
        return self.jobs.get(job_id) or self.state.jobs.get(job_id)

    def job_of_key(self, user: str, key: str) -> str | None:
        """Return the id of the job with an idempotency key.

        Knows the keys of unfinished jobs and of the latest ended ones; the store knows the others.
        """
        return self.new_keys.get((user, key)) or self.state.job_of_key.get((user, key))

    def next_job_number(self) -> int:
        """Return the sequence number of the next accepted job."""
        return self.state.last_job + len(self.new_jobs) + 1

    def add_job(self, job: JobRecord, bundle: Bundle | None) -> None:
        """Accept a new job with its files."""
        self._must_commit = True
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

    def stored_bytes(self, owner: Owner, more: Mapping[str, int]) -> int:
        """Return the bytes of files that an owner's unfinished jobs keep, one with ``more`` among them.

        These are sizes by digest.
        """
        both = self.state.bundle_sizes, self.new_bundle_sizes
        kept = sum(sizes.of(owner) for sizes in both)
        new = (size for digest, size in more.items() if not any(sizes.has(owner, digest) for sizes in both))
        return kept + sum(new)

    def apply(self, transition: Transition) -> JobRecord:
        """Take the result of a life-cycle function: the job and its effects."""
        job, effects = transition
        if effects or job is not self.job(job.id):
            self.put_job(job)
            self.effects.extend(effects)
        return job

    def put_job(self, job: JobRecord) -> None:
        """Replace a job; the change must be committed."""
        self._must_commit = True
        if self._bounds is not None and not holds_the_same(self.job(job.id), job):
            self._bounds = None
        self.jobs[job.id] = job

    def delete_job(self, job: JobRecord, ids: Sequence[str]) -> None:
        """Forget an ended job; ``ids`` are those of it and of what belongs to it."""
        self._must_commit = True
        self.deleted[job.id] = job
        self.deleted_ids += ids
        ended = self.now if job.standing.ended is None else job.standing.ended
        self.deleted_jobs.put(DeletedJob(job.id, self.now, ended, tuple(ids)))
        for each in ids:
            self.marked.pop(each, None)

    def put_marks(self, job: JobRecord, spec: JobSpec) -> None:
        """Give a job the tags, marks and key of a spec; it may have ended, and nothing else of it changes.

        Raises `Refusal` if it was deleted.
        """
        if job.id in self.deleted_jobs:
            raise unknown_job(job.id)
        self._must_commit = True
        self.marked[job.id] = marked = structs.replace(job, spec=spec)
        if self.job(job.id) is not None:
            self.jobs[job.id] = marked

    def rekey(self, job: JobRecord, key: str) -> None:
        """Have a job answer to another submission key of its owner instead of its own; it may have ended.

        Raises `Refusal` if it was deleted.
        """
        spec = structs.replace(job.spec, key=key)
        self.put_marks(job, spec)
        self.new_keys[spec.user, key] = job.id
        self.rekeyed.append((job, (spec.user, job.spec.key or ""), (spec.user, key)))

    def shift_times(self, anchor: ClockAnchor) -> float:
        """Set the clock's anchor, shift the times of unfinished jobs by the step to it, and return the step."""
        step = self.state.clock_step(anchor, self.now)
        self._must_commit = True
        self.clock = anchor
        for job in self.state.jobs.values() if step else ():
            self.jobs[job.id] = lifecycle.shift_times(job, step)
            self.shifted.add(job.id)
        for record in self.state.idle_records.values() if step else ():
            self.idle_records.put(record.shifted(step))
        for use in self.state.recent_use.values() if step else ():
            self.recent_use.put(structs.replace(use, at=use.at + step))
        for holding in self.state.holdings.values() if step else ():
            self.holdings.put(holding.shifted(step))
        for fact in self.state.pool_facts.values() if step else ():
            self.pool_facts.put(fact.shifted(step))
        return step

    def put_report(self, job: JobRecord) -> None:
        """Replace a job by one with newer progress; written with the next commit."""
        self.jobs[job.id] = job

    def borrowing(self) -> Borrowing:
        """Return how many GPUs each live job borrows after the changes.

        The transaction keeps the bounds, and not the result, which refers to the transaction.
        """
        bounds = self._known_bounds
        if bounds is None:
            holding = {
                job.spec.project
                for job in self.jobs.values()
                if not holds_the_same(self.state.jobs.get(job.id), job)
            }
            bounds = {} if self.changes_quotas else self.state.borrowing().bounds_except(holding)
            self._bounds, self._bounds_version = bounds, self._quotas_version
        return Borrowing(self.live_in, self._quota, bounds)

    @property
    def _known_bounds(self) -> Bounds | None:
        """The bounds that were computed, unless quotas have changed since."""
        return self._bounds if self._bounds_version == self._quotas_version else None

    @property
    def _quotas_version(self) -> int:
        return self.projects.version + self.bookings.version

    def live_in(self, project: str) -> Iterator[JobRecord]:
        """Return a project's live jobs after the changes, in the order in which they fill its quota."""
        changed = (job for job in self.jobs.values() if job.spec.project == project and job.live is not None)
        others = (job for job in self.state.live_by_project.get(project, ()) if job.id not in self.jobs)
        return merge(others, sorted(changed, key=filling_order), key=filling_order)

    def _quota(self, name: str, gpu_type: str) -> int | None:
        record, types = self.projects.get(name), self.types.train
        if record is None:
            return 0
        return quota_of(present(record.project, self.bookings.values(), types), gpu_type, types)

    # ---------- GPU types

    @property
    def types(self) -> KnownTypes:
        """The GPU types that the pool knows."""
        return self.state.types if self.new_types is None else self.new_types

    def follow_types(self) -> None:
        """Take in the GPU types of the observed nodes; numbers become tables by type if there are several."""
        before = Quantities(self.types, self.projects, self.people)
        after = known_types.updated(before, (*self.nodes.all, *(group.node for group in self.nodes.groups)))
        if after == before:
            return
        self._must_commit = True
        self._bounds = None
        self.new_types = after.types
        changed = [record for name, record in after.projects.items() if record != self.projects[name]]
        for record in changed:
            self.projects.put(record)
        for person in after.people.values():
            if person != self.people[person.name]:
                self.people.put(person)
        if before.types.train or before.types.build or changed:
            self.add_audit_entry(
                POOL,
                "pool.gpu_types",
                "pool",
                {"train": list(before.types.train), "build": list(before.types.build)},
                {"train": list(after.types.train), "build": list(after.types.build)},
            )

    # ---------- keyed state

    def policy_projects(self) -> dict[str, Project]:
        """Return every project as admins have set it, by name, oldest first."""
        return {name: record.project for name, record in self.projects.items()}

    def present_projects(self) -> dict[str, Project]:
        """Return every project with the quota that it has by the bookings that have begun, oldest first."""
        bookings, types = tuple(self.bookings.values()), self.types.train
        return {name: present(project, bookings, types) for name, project in self.policy_projects().items()}

    @property
    def changes_quotas(self) -> bool:
        """Whether quotas may be others after this transaction than before, by type."""
        return bool(self.projects.changes or self.bookings.changes) or self.new_types is not None

    def planned_projects(self) -> dict[str, Project]:
        """Return every project as the planner sees it, oldest first, with bookings and spent budgets."""
        bookings = tuple(self.bookings.values())
        return planned_projects(self.projects.values(), self.budgets, bookings, self.types.train)

    @property
    def plans_otherwise(self) -> bool:
        """Whether the planner sees other projects after this transaction than before."""
        changed = bool(self.projects.changes or self.budgets.changes or self.bookings.changes)
        other_types = self.new_types is not None and bool(self.budgets or self.bookings)
        return (changed or other_types) and self.planned_projects() != self.state.planned_projects()

    def take_project_age(self) -> int:
        """Return an age for a new project. No age is returned twice."""
        age = self.state.next_project_age if self.next_project_age is None else self.next_project_age
        self.next_project_age = age + 1
        return age

    def forget_use_of_deleted_projects(self) -> None:
        """Remove the recent use of projects that this transaction has deleted."""
        if self.projects.changes:
            for use in self.recent_use.values():
                if use.project not in self.projects:
                    self.recent_use.remove(use.key)

    def rename_user(self, old: str, new: str) -> None:
        """Move everything a person owns to another name, which is free; her workspaces keep theirs.

        Running notebooks are known by the name that they were started with.
        """
        self._must_commit = True
        self.renamed.append((old, new))
        for table in TABLES:
            if table.by_person:
                self.records[table].rename(old, new)
        if (ending := self.endings.get((EndingKind.PERSON, old))) is not None:
            self.endings.remove(ending.key)
            self.endings.put(replace(ending, subject=new))
        for job in [each for each in {**self.state.jobs, **self.jobs}.values() if each.spec.user == old]:
            self.put_job(structs.replace(job, spec=structs.replace(job.spec, user=new)))
        for request in [each for each in self.change_requests.values() if each.user == old]:
            self.change_requests.put(replace(request, user=new))
        for holding in list(self.holdings.values()):
            if holding.job and (renamed := holding.renamed(old, new)) is not holding:
                self.holdings.put(renamed)

    def give_job(self, job: JobRecord, user: str, by: str) -> None:
        """Make another person the owner of a job, for the person ``by``.

        It no longer answers to its submission key, which was the former owner's.
        """
        why = messages.did("give", by, before=job.spec.user, user=user)
        given = job.with_standing(former=job.standing.former or job.spec.user).with_act(self.now, why)
        self.respecify(given, structs.replace(job.spec, user=user, key=None))

    def respecify(self, job: JobRecord, spec: JobSpec) -> JobRecord:
        """Replace the spec of a job without a live attempt, and return the job."""
        self.respecified.add(job.id)
        self.put_job(changed := structs.replace(job, spec=spec))
        return changed

    def drained(self) -> Drained:
        """Return the drained nodes and GPUs, and the GPUs held by holders without a place."""
        return drained_by(self.drains, self.gpu_drains, self.bookings, self._held_without_place())

    def _held_without_place(self) -> frozenset[str]:
        kept = {job_id: job for job_id, job in self.state.unmatched.items() if job_id not in self.jobs}
        changed = {job.id: job for job in self.jobs.values() if has_no_place(job)}
        return held_without_place({**kept, **changed}, self.workspaces)

    @property
    def closes_otherwise(self) -> bool:
        """Whether other nodes or GPUs take nothing new after this transaction than before."""
        return (
            bool(self.drains.changes or self.gpu_drains.changes or self.bookings.changes)
            or self._held_without_place() != self.state.drained.held
        )

    def entry_of(self, change: Callable[[], None]) -> int | None:
        """Make a change, and return the last entry that it adds to the audit trail; None if it adds none."""
        entries = len(self.audit)
        change()
        return self.audit[-1].id if len(self.audit) > entries else None

    def add_audit_entry(
        self,
        who: str,
        what: str,
        subject: str,
        before: Mapping[str, object],
        after: Mapping[str, object],
        *,
        project: str = "",
        other_project: str = "",
    ) -> int:
        """Append to the audit trail, and to those of the projects that are concerned; return the entry's id."""
        self._must_commit = True
        number = self.state.last_audit + len(self.audit) + 1
        entry = AuditRecord(
            number,
            self.now,
            who,
            what,
            subject,
            dict(before),
            dict(after),
            project=project,
            other_project=other_project,
        )
        self.audit.append(entry)
        return number

    # ---------- after the commit

    def apply_to_state(self) -> None:
        """Apply this transaction to the state. Call it once, after the commit."""
        state = self.state
        for old, new in self.renamed:
            state.rename_user(old, new)
        for job, before, after in self.rekeyed:
            state.rekey(job, before, after)
        for job in self.jobs.values():
            state.put_job(job)
        for job in self.deleted.values():
            state.forget_key(job)
        for each in self.sweep_parameters:
            if each.sweep in state.jobs:
                state.parameters[each.sweep] = each.each_trial()
        if self.must_commit:
            state.unsaved.clear()
        else:
            state.unsaved.update(job_id for job_id in self.jobs if job_id in state.jobs)
        if self.changes_quotas:
            state.quotas_changed()
        for overlay in self.records.changed():
            state.records[overlay.table] = overlay.after()
        if self.new_types is not None:
            state.types = self.new_types
        if self.clock is not None:
            state.clock = self.clock
        if self.next_project_age is not None:
            state.next_project_age = self.next_project_age
        if self._known_bounds is not None:
            state.know_bounds(self._known_bounds)
        state.last_job += len(self.new_jobs)
        state.last_entry += len(self.entries)
        state.last_fact += len(self.ended_facts)
        state.last_audit += len(self.audit)
