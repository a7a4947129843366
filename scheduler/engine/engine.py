"""The engine as the API, the pages and the spawner call it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, BinaryIO, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.engine import conflicts, messages
from springtide.scheduler.engine.forecasts.questions import Asker
from springtide.scheduler.engine.forks import Source
from springtide.scheduler.engine.parts import EngineParts
from springtide.scheduler.engine.requests import (
    bookings,
    control,
    departures,
    drains,
    editing,
    freezes,
    hub_users,
    paging,
    pool_file,
    project_admin,
    quotas,
    undoing,
    validation,
    workspaces,
)
from springtide.scheduler.engine.requests.acceptance import check_lineage, validate_trials
from springtide.scheduler.engine.requests.control import JobChange
from springtide.scheduler.engine.requests.departures import Leaver, Left
from springtide.scheduler.engine.requests.drains import drain, undrain
from springtide.scheduler.engine.requests.pool_file import Memberships, Outcome, Question
from springtide.scheduler.engine.requests.ranges import check_use
from springtide.scheduler.engine.requests.secret_files import check_files
from springtide.scheduler.engine.requests.trees import check_tree, unknown_tree
from springtide.scheduler.engine.reruns import name_again, reference, repeated
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import store_refusal
from springtide.scheduler.engine.views import history, job_view, pool_view
from springtide.scheduler.engine.views.diagnoses import Sees
from springtide.scheduler.engine.views.pool_view import quota_sums
from springtide.scheduler.executors.base import AttemptKey, ExecutorError, RunningNotebook
from springtide.scheduler.metrics import MAX_METRICS, Goal, Value, values_at
from springtide.scheduler.refusal import Refusal, unknown_project
from springtide.scheduler.runs import (
    Absent,
    Condition,
    NoNumberError,
    Run,
    UnknownNameError,
    absent,
    check_names,
    check_values,
    holds,
    names_of,
    ordered,
)
from springtide.scheduler.store import StoreError, writing
from springtide.scheduler.store.bundles import pack
from springtide.scheduler.store.queries import ledger, reading
from springtide.scheduler.store.records import (
    UNDO,
    AuditQuery,
    AuditRecord,
    Bundle,
    Hold,
    JobQuery,
    JobRecord,
    JobSpec,
)
from springtide.scheduler.store.records.queries import MAX_LOOKED_AT
from springtide.scheduler.store.tables import HubStanding
from springtide.scheduler.wording import count, given, listed, plural

T = TypeVar("T")
Members = Mapping[str, Sequence[str]]
"""Members by project, as the hub's groups say."""
JobFilter = JobQuery
BY_VALUE: Mapping[str, tuple[str, bool]] = {
    "newest": ("submitted", True),
    "latest": ("latest", True),
    "running": ("active", False),
    "name": ("name", False),
    "project": ("project", False),
    "user": ("user", False),
    "gpus": ("gpus", False),
}
"""The value that has the order of a list, by the name of the order, and whether the largest comes first."""
MAX_REPORTS = 100_000
"""Maximum number of a job's reports searched for the values at a step."""
MOST_NAMES = 20
"""Maximum number of names of values that a hint names."""
REPORTS_AT_ONCE = 10_000
"""Number of reports that are read at a time for that."""


def chosen_runs(runs: Sequence[Run], query: JobQuery, now: float) -> list[Run]:
    """Return the runs that the condition of a query holds for, in the order of the query.

    Raises `Refusal` 422 for a name that none of the runs has, and for a text in the place of a number.
    """
    if query.where is not None:
        _check_names("where", names_of(query.where), runs)
        _check_values(query.where, runs, now)
    _check_names("order", [query.by_value] if query.by_value else (), runs)
    kept = [run for run in runs if query.where is None or holds(query.where, run, now)]
    if query.by_value:
        return ordered(kept, query.by_value, now, reverse=query.falling)
    name, falling = BY_VALUE[query.order.removeprefix("-")]
    return ordered(kept, name, now, reverse=falling is not query.order.startswith("-"))


def _check_names(field: str, names: Iterable[str], runs: Sequence[Run]) -> None:
    try:
        check_names(names, runs)
    except UnknownNameError as error:
        name, number = given(error.name, 40), count(len(runs), "job")
        near = "" if error.near is None else f"Did you mean {given(error.near, 40)}? "
        known = ", ".join([*error.known[:MOST_NAMES], *(["…"] if len(error.known) > MOST_NAMES else [])])
        raise Refusal(
            422,
            "unknown_name",
            f"{name} is no column, and no argument or metric of {number} looked at.",
            field=field,
            hint=f"{near}Known are {known}; argument.NAME, last.NAME and best.NAME may be unknown so far.",
        ) from None


def absent_words(query: JobQuery, runs: Sequence[Run]) -> str:
    """Return in sentences which metrics and arguments of a query no run has; empty if there are none of these."""
    names = [*([] if query.where is None else names_of(query.where)), query.by_value or ""]
    full = any(max(len(run.values), len(run.extremes)) >= MAX_METRICS for run in runs)
    return " ".join(_absent_sentences(each, len(runs), full=full) for each in absent(names, runs))


def _absent_sentences(missing: Absent, jobs: int, *, full: bool) -> str:
    """Return what none of the jobs has; of ``full`` ones one may have reported more metrics than are kept."""
    has = "The job looked at does not have" if jobs == 1 else f"None of the {count(jobs, 'job')} looked at has"
    near = "" if missing.near is None else f" Did you mean {given(missing.near, 40)}?"
    known = listed([given(name, 40) for name in missing.known], MOST_NAMES)
    there_are = f"Known {plural(len(missing.known), 'is', 'are')} {known}."
    if not known:
        there_are = f"No {missing.kind} is known of {plural(jobs, 'it', 'them')}."
    beyond = (
        f" Of each job the first {MAX_METRICS:,} metrics are kept." if full and missing.kind == "metric" else ""
    )
    return f"{has} the {missing.kind} {given(missing.name, 40)}.{near} {there_are}{beyond}"


def _check_values(condition: Condition, runs: Sequence[Run], now: float) -> None:
    try:
        check_values(condition, runs, now)
    except NoNumberError as error:
        name, text = given(error.name, 40), given(error.value, 40)
        message = f"{name} is a number in all jobs looked at, and neither smaller nor larger than {text}."
        raise Refusal(422, "invalid", message, field="where", hint=f"Example: {error.name[:40]} > 0.3") from None


class Engine:
    """A running engine: observes, plans, commits, acts. Call its methods from the event loop that opened it.

    ``state`` is the committed state, for functions that read it; `change` is for those that change it.

    Methods raise `Refusal` for what the caller may not or cannot do; no other exception is meant for users.
    """

    def __init__(
        self, parts: EngineParts, *, loop_task: asyncio.Task[None], background_tasks: Sequence[asyncio.Task[None]]
    ) -> None:
        self.settings = parts.settings
        self.stats = parts.stats
        self.job_times = parts.job_times
        self._parts = parts
        self._read_model = parts.read_model
        self.state = parts.state
        self._nodes = parts.nodes
        self._read = parts.store.read
        self.health = parts.store
        self.events = parts.events
        self.usage = parts.usage
        self.reports = parts.reports
        self.monthly_reports = parts.monthly_reports
        self.needs = parts.needs
        self.home = parts.home
        self.past = parts.past
        self.budgets = parts.budgets
        self.change_requests = parts.change_requests
        self.presets = parts.presets
        self.forecast_record = parts.forecast_record
        self.questions = parts.questions
        self.outbox = parts.outbox
        self.idle_workspaces = parts.idle_workspaces
        self.sweeps = parts.sweeps
        self.reruns = parts.reruns
        self.deletions = parts.deletions
        self.forks = parts.forks
        self.tags = parts.tags
        self.sessions = parts.sessions
        self._loop_task = loop_task
        self._background_tasks = background_tasks

    # ---------- life

    async def stop(self) -> None:
        """Finish the current tick and stop. Attempts keep running; the store stays open. Idempotent."""
        if self._loop_task.done() and not self._background_tasks:
            return
        tasks, self._background_tasks = self._background_tasks, ()
        parts = self._parts
        parts.loop.stop()
        await parts.forecasts.stop()
        await parts.past.runs.stop()
        await asyncio.gather(self._loop_task, return_exceptions=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await parts.actuator.stop()
        await parts.populations.stop()
        await parts.start_checks.stop()
        await parts.loop.commit_reports()
        await parts.executor.stop()
        parts.store.shutdown()

    async def wait_closed(self) -> str | None:
        """Wait until the engine has stopped; return why if it stopped by itself."""
        await asyncio.wait([self._loop_task])
        return self._parts.loop.failure

    async def idle(self) -> None:
        """Wait until everything that has arrived is decided and committed, and every effect is carried out.

        Ended jobs are loaded from the store, too. Plans and time limits that are due at a later time do not
        count, nor do forecasts and pruning.
        """
        await self._parts.run_history.loaded()
        loop, actuator, checks = self._parts.loop, self._parts.actuator, self._parts.start_checks
        populations = self._parts.populations
        while not (loop.resting and actuator.idle and checks.idle and populations.idle):
            await populations.finished()
            await checks.finished()
            await actuator.finished()
            await loop.rested()

    # ---------- changes of the state

    async def change(self, change: Callable[[Transaction], T]) -> T:
        """Apply a change in a transaction, and return its result once that is on disk. Raises its `Refusal`."""
        return await self._parts.mailbox.request(change)

    def _try(self, change: Callable[[Transaction], T]) -> T:
        """Return the result that a change would have now. Raises its `Refusal`."""
        transaction = Transaction(self.state, self._nodes, self._parts.clock())
        transaction.follow_types()
        return change(transaction)

    # ---------- jobs

    async def submit(
        self,
        submission: wire.Submission,
        user: str,
        project: str,
        *,
        again: JobSpec | None = None,
        fork: Source | None = None,
        typed: Iterable[str] = (),
        lineage: tuple[str, ...] = (),
        paused_by: str = "",
    ) -> wire.Job:
        """Accept a job, which is on disk when this returns. For a key accepted before, return that job.

        ``again`` is what the job was submitted with that this one repeats, ``fork`` the checkpoint of it from
        which this one continues, ``typed`` the names of arguments given anew. ``lineage`` are the jobs whose
        programs led to this one, the first one first. ``paused_by`` says who has it paused from the start, if
        anybody.
        """
        key = submission.key
        if key is not None and (known := await self.job_of_key(user, key)) is not None:
            return known
        check_lineage(lineage, self.settings)
        parts, nodes, types, projects = self._parts, self._nodes, self.state.types, self.state.projects
        context = validation.ValidationContext(nodes.possible(), projects, self.settings, types, nodes.by_type)
        spec = validation.validate_submission(
            submission, user, project, context, job_id=parts.new_id(), now=parts.clock()
        )
        if spec.options.secrets:
            await asyncio.to_thread(check_files, spec.options.secrets, self.settings.secrets)
        trials, parameters = validate_trials(submission)
        rerun = None
        unnamed = None if submission.name else fork
        if unnamed is not None:
            spec = replace(spec, name=name_again(unnamed.first, unnamed.reference))
        if again is not None:
            repeats = fork is not None and fork.repeats is not None
            at = None if fork is None else fork.reference
            rerun = repeated(again, spec, typed) if repeats else reference(again, spec, at, typed)
        spec = parts.run_history.with_fastest(replace(spec, trials=trials, rerun=rerun, submitters=lineage))
        spec = await self._with_tree(spec, again)
        bundle = await self._bundle(submission.files, spec)
        beginning: AbstractAsyncContextManager[Mapping[str, Any]] = nullcontext({})
        naming: AbstractAsyncContextManager[JobSpec] = nullcontext(spec)
        if fork is not None:
            beginning = parts.forks.copied(fork, spec)
        if unnamed is not None:
            naming = parts.forks.named(unnamed, spec)
        async with beginning as begins, naming as named:
            accepted = await parts.mailbox.request(
                lambda transaction: control.accept_job(
                    transaction, named, bundle, self.settings, parameters, begins=begins, paused_by=paused_by
                )
            )
        self.stats.submits += 1
        return await self.job(accepted)

    def running_spec(self, attempt: AttemptKey) -> JobSpec | None:
        """Return the spec of an attempt's job, None if it does not run or the job is being cancelled."""
        job = self.state.jobs.get(attempt.job)
        if job is None or job.live is None or job.live.number != attempt.attempt:
            return None
        return None if job.standing.stopping == messages.CANCEL else job.spec

    def descendants(self, job_ids: Collection[str]) -> list[str]:
        """Return the unfinished jobs that programs of these jobs have led to, oldest first, without trials."""
        above = set(job_ids)
        found = [
            job.spec
            for job in self.state.jobs.values()
            if not job.state.final and job.spec.trial is None and above.intersection(job.spec.submitters)
        ]
        return [spec.id for spec in sorted(found, key=lambda spec: spec.seq) if spec.id not in above]

    async def job_of_key(self, user: str, key: str) -> wire.Job | None:
        """Return the job that a user's submission key was accepted for, None if there is none."""
        job_id = self.state.job_of_key.get((user, key))
        if job_id is not None:
            return await self.job(job_id)
        try:
            job = await self._parts.keys.job_of((user, key))
        except StoreError as error:
            raise store_refusal(error) from error
        return None if job is None else self._read_model.job(job)

    async def rekey(self, job_id: str, before: str, after: str) -> None:
        """Have a job, also one that has ended, answer to another submission key of its owner, on disk.

        Nothing changes if it does already. Raises `Refusal` (409) if its key is not ``before``, or if another job
        answers to ``after``, and (404) if there is no such job.
        """
        found = await self._parts.jobs.get(job_id)
        other = await self.job_of_key(found.spec.user, after)
        holder = None if other is None else other.id
        await self._apply_to_job(
            job_id, lambda transaction, job: control.rekey(transaction, job, before, after, holder)
        )

    async def tree(self, user: str, digest: str) -> wire.SentTree:
        """Return the project tree that a user has sent, and keep it a while. Raises `Refusal` if there is none."""
        store = self._parts.store
        try:
            size = await store.read(reading.tree_bytes, user, digest)
            if size is not None:
                await store.write(store.store.write, writing.keep_tree, user, digest, self._parts.clock())
        except StoreError as error:
            raise store_refusal(error) from error
        if size is None:
            raise unknown_tree(digest)
        return wire.SentTree(digest=digest, bytes=size)

    async def send_tree(self, user: str, digest: str, packed: bytes) -> wire.SentTree:
        """Keep a packed project tree of a user; it is on disk when this returns. Raises `Refusal` for no tree."""
        await asyncio.to_thread(check_tree, digest, packed)
        store = self._parts.store
        try:
            await store.call(store.store.save_bundle, bundle := Bundle(digest, packed))
            await store.write(store.store.save_tree, user, bundle, self._parts.clock())
        except StoreError as error:
            raise store_refusal(error) from error
        return wire.SentTree(digest=digest, bytes=len(packed))

    async def _with_tree(self, spec: JobSpec, again: JobSpec | None) -> JobSpec:
        """Return the spec with the size of its tree, which its user has sent, or the job that it repeats has."""
        if spec.tree is None or spec.tree.digest is None:
            return spec
        if again is not None and again.tree is not None and again.tree.digest == spec.tree.digest:
            return replace(spec, tree_bytes=again.tree_bytes)
        return replace(spec, tree_bytes=(await self.tree(spec.user, spec.tree.digest)).bytes)

    async def _bundle(self, files: Mapping[str, bytes], spec: JobSpec) -> Bundle | None:
        """Save a job's files. Nothing is written if the job would be refused; raises `Refusal` then."""
        bundle = await asyncio.to_thread(pack, files) if files else None
        transaction = Transaction(self.state, self._nodes, self._parts.clock())
        control.check_room(transaction, control.with_bundle(spec, bundle), self.settings)
        if bundle is None:
            return None
        try:
            await self._parts.store.call(self._parts.store.store.save_bundle, bundle)
        except StoreError as error:
            raise store_refusal(error) from error
        self._parts.launch_specs.cache_bundle(bundle.digest, files)
        return bundle

    async def pause(self, job_id: str, by: str) -> wire.Job:
        """Pause a job until it is resumed. Pausing it again changes nothing."""
        return await self._change_job(job_id, JobChange.PAUSE, by)

    async def resume(self, job_id: str, by: str) -> wire.Job:
        """Let a job that a user paused wait for GPUs again."""
        return await self._change_job(job_id, JobChange.RESUME, by)

    async def cancel(self, job_id: str, by: str, *, now: bool = False) -> wire.Job:
        """End a job for good; ``now`` leaves its program no time to save.

        The returned job may still be ``pausing``, while its processes end.
        """
        return await self._change_job(job_id, JobChange.CANCEL, by, at_once=now)

    async def finish(self, job_id: str, by: str) -> wire.Job:
        """Mark a job that waits after an attempt as finished: it ends as succeeded."""
        return await self._change_job(job_id, JobChange.FINISH, by)

    async def hold(self, job_id: str, by: str, reason: str, *, finish: bool = False) -> wire.Job:
        """Put a job on hold until it is released; one that runs is paused, unless it may ``finish``."""

        def hold(transaction: Transaction, job: JobRecord) -> None:
            control.hold_job(transaction, job, Hold(by, reason, transaction.now), finish=finish)

        return await self._apply_to_job(job_id, hold)

    async def release(self, job_id: str, by: str, user: str | None = None) -> wire.Job:
        """Let a job that is on hold start again, as that of ``user`` if given."""
        return await self._apply_to_job(
            job_id, lambda transaction, job: control.release_job(transaction, job, by, user)
        )

    async def edit(self, job_id: str, edit: wire.JobEdit, by: str) -> wire.Job:
        """Change what a job asks for, or its project, while it does not run."""
        return await self._apply_to_job(
            job_id, lambda transaction, job: editing.edit_job(transaction, job, edit, by, self.settings)
        )

    async def _change_job(self, job_id: str, change: JobChange, by: str, *, at_once: bool = False) -> wire.Job:
        return await self._apply_to_job(
            job_id, lambda transaction, job: control.change_job(transaction, job, change, by, at_once=at_once)
        )

    async def _apply_to_job(self, job_id: str, change: Callable[[Transaction, JobRecord], None]) -> wire.Job:
        jobs = self._parts.jobs
        found = await jobs.get(job_id)

        def apply(transaction: Transaction) -> None:
            change(transaction, transaction.job(job_id) or jobs.in_memory(job_id) or found)

        await self._parts.mailbox.request(apply)
        return await self.job(job_id)

    async def job(self, job_id: str) -> wire.Job:
        """Return a job with all that a card shows. Raises `Refusal` (404) for an unknown one."""
        return self._read_model.job(await self._parts.jobs.get(job_id))

    async def request_starts(self, jobs: Iterable[wire.Job], timeout: float) -> bool:  # noqa: ASYNC109 - no error
        """Request forecasts of the waiting jobs' starts, for `wire.Job.starts`.

        Waits at most ``timeout`` seconds for starts that are unknown; returns whether it waited, so that the jobs
        are worth getting again.
        """
        waiting = [self._read_model.waiting_id(job.id) for job in jobs if job.place is not None]
        return await self._parts.forecasts.request(waiting, timeout)

    async def forecast(
        self, question: wire.WhatIf, user: str, project: str | None, *, sees: Sees, members: Members
    ) -> wire.Forecast:
        """Return the forecast with a job of the user's in ``project``, other projects or other nodes.

        ``sees`` returns whether the caller may see jobs of a user in a project. Raises `Refusal` for changes that
        would be refused.
        """
        return await self._parts.questions.answer(question, Asker(user, project, sees, members))

    async def jobs(
        self,
        filter: JobFilter,  # noqa: A002
        cursor: str | None,
        limit: int,
        *,
        starts: float | None = None,
    ) -> wire.JobPage:
        """Return a page of the matching jobs, in the filter's order, without their sources.

        ``starts`` requests forecasts of the waiting jobs' starts, and is the maximum time to wait for them, in
        seconds.
        """
        if filter.where is not None or filter.by_value:
            return await self._jobs_by_value(filter, cursor, limit, starts=starts)
        after, limit = paging.job_page_bounds(filter.order, cursor, limit)
        found = await self._read(reading.jobs, filter, after, limit + 1)
        if starts is not None:
            waiting = [self._read_model.waiting_id(job.id) for job in found[:limit]]
            await self._parts.forecasts.request(waiting, starts)
        items = [self._read_model.job(self.state.jobs.get(job.id, job), full=False) for job in found[:limit]]
        more = len(found) > limit
        return wire.JobPage(items=items, next=paging.job_cursor(filter.order, found[limit - 1]) if more else None)

    async def _jobs_by_value(
        self, query: JobQuery, cursor: str | None, limit: int, *, starts: float | None
    ) -> wire.JobPage:
        """Return a page of the newest jobs that a condition holds for, in the order of their values."""
        first, limit = paging.page_bounds(cursor, limit)
        runs = await self._read(reading.newest_runs, query, MAX_LOOKED_AT + 1)
        now = self._parts.clock()
        unfinished = self.state.jobs
        looked_at = [unfinished[run.id].run if run.id in unfinished else run for run in runs[:MAX_LOOKED_AT]]
        found = await asyncio.to_thread(chosen_runs, looked_at, query, now)
        ids = [run.id for run in found[first or 0 : (first or 0) + limit]]
        records = await self._read(reading.jobs_by_id, ids)
        if starts is not None:
            await self._parts.forecasts.request([self._read_model.waiting_id(job_id) for job_id in ids], starts)
        end = (first or 0) + limit
        return wire.JobPage(
            items=[self._read_model.job(unfinished.get(job.id, job), full=False) for job in records],
            next=str(end) if end < len(found) else None,
            looked_at=MAX_LOOKED_AT if len(runs) > MAX_LOOKED_AT else None,
            note=absent_words(query, looked_at),
        )

    # ---------- the pool

    def pool(self) -> wire.PoolView:
        """Return every GPU of the pool with its holder, and every project."""
        return self._read_model.pool()

    def idle_gpus(self) -> wire.Idle:
        """Return the idle train GPUs and why they are idle."""
        return self._read_model.idle()

    async def history(self, start: float, end: float) -> wire.History:
        """Return the GPUs held and borrowed by each project over time, as the ledger has them."""
        now = self._parts.clock()
        end = min(end, now)
        start = min(start, end)
        uses = await self._read(ledger.gpu_use, start, end, now)
        facts = await self._read(ledger.facts_between, history.KINDS, start, end, now)
        used = await self.usage.report("project", start, end)
        return history.history(uses, start, end, quota_sums(self.state), facts=facts, measured=used.items)

    def choices(self, projects: Sequence[str]) -> list[wire.ProjectChoice]:
        """Return what a person may ask for in each of these projects."""
        return pool_view.choices(self.state, self._nodes, self._read_model.standing(), projects, self.settings)

    def has_project(self, name: str) -> bool:
        """Return whether there is a project of that name."""
        return name in self.state.projects

    def project_parents(self) -> dict[str, str | None]:
        """Return the project that each project is in, None for those in no other."""
        return {record.name: record.project.parent for record in self.state.projects.values()}

    def has_quota(self, name: str) -> bool:
        """Return whether a project or one of its ancestors has a quota."""
        return any(each.quota != 0 for each in validation.with_ancestors(name, self.state.present_projects()))

    def gpu_types(self) -> list[str]:
        """Return the types of train GPUs, in the pool's order."""
        return [each for each in self.state.types.train if each]

    # ---------- projects and people

    async def create_project(
        self, name: str, edit: wire.ProjectEdit, by: str, *, members: Members, made_group: bool = False
    ) -> wire.ProjectView:
        """Create a project; ``made_group`` records that the hub's group was created for it."""
        check_use(edit, self.settings.images)
        await self.change(
            lambda transaction: project_admin.create_project(
                transaction, name, edit, by, members, made_group=made_group
            )
        )
        return self._project_view(name, members)

    async def edit_project(
        self, name: str, edit: wire.ProjectEdit, by: str, *, members: Members
    ) -> wire.ProjectView:
        """Change a project; the next plan follows it. Notes name the decisions that no longer hold."""
        notes = await self._change_project(name, self._edit(name, edit, by, members), edit.version)
        return replace(self._project_view(name, members), notes=notes)

    async def preview_project(
        self, name: str, edit: wire.ProjectEdit, by: str, *, members: Members, new: bool = False
    ) -> wire.EditPreview:
        """Return what would become of a change of a project, or of a ``new`` one, in the words of its refusal."""

        def create(transaction: Transaction) -> list[str]:
            check_use(edit, self.settings.images)
            project_admin.create_project(transaction, name, edit, by, members)
            return []

        try:
            change = create if new else self._edit(name, edit, by, members)
            notes = await self._change_project(name, change, edit.version, dry_run=True)
        except Refusal as refusal:
            return wire.EditPreview(refused=wire.problem_of(refusal))
        return wire.EditPreview(notes=notes)

    def _edit(
        self, name: str, edit: wire.ProjectEdit, by: str, members: Members
    ) -> Callable[[Transaction], list[str]]:
        check_use(edit, self.settings.images)

        def change(transaction: Transaction) -> list[str]:
            before = project_admin.not_as_decided(transaction, members)
            project_admin.edit_project(transaction, name, edit, by, members)
            return project_admin.new_in(before, project_admin.not_as_decided(transaction, members))

        return change

    async def _change_project(
        self,
        name: str,
        change: Callable[[Transaction], T],
        version: int | UnsetType = UNSET,
        *,
        dry_run: bool = False,
    ) -> T:
        """Apply a change of a project, made on a ``version`` of it; a refusal says who has changed it since.

        In a ``dry_run`` nothing is changed.
        """
        try:
            return self._try(change) if dry_run else await self.change(change)
        except Refusal as refusal:
            known = self.state.projects.get(name)
            later = 0 if known is None or version is UNSET else known.version - version
            raise await conflicts.with_changes_of_project(refusal, self._parts.store, name, later) from refusal

    async def unknown_project(self, name: str) -> Refusal:
        """Return the refusal for a project that is not there, with who has deleted it."""
        return await conflicts.with_changes_of_project(unknown_project(name), self._parts.store, name)

    async def freeze(
        self, project: str, request: wire.FreezeRequest, by: str, *, members: Members
    ) -> wire.ProjectView:
        """Let no job of a project start; those that run are paused, or may finish."""
        await self._change_project(project, lambda transaction: freezes.freeze(transaction, project, request, by))
        return self._project_view(project, members)

    async def unfreeze(self, project: str, by: str, *, members: Members) -> wire.ProjectView:
        """Let the jobs of a project start again."""
        await self._change_project(project, lambda transaction: freezes.unfreeze(transaction, project, by))
        return self._project_view(project, members)

    async def delete_project(self, name: str, by: str) -> bool:
        """Delete a project without unfinished jobs and children; return whether its group was created for it."""
        return await self._change_project(
            name, lambda transaction: project_admin.delete_project(transaction, name, by)
        )

    async def edit_person(self, name: str, edit: wire.PersonEdit, by: str, *, members: Members) -> wire.PersonView:
        """Set or remove a person's own build quota."""
        await self.change(_person_edit(name, edit, by, members))
        return pool_view.person(self.state, name, quotas.projects_by_person(members).get(name, []))

    def preview_person(self, name: str, edit: wire.PersonEdit, by: str, *, members: Members) -> wire.EditPreview:
        """Return what would become of a person's own build quota, in the words of its refusal."""
        try:
            self._try(_person_edit(name, edit, by, members))
        except Refusal as refusal:
            return wire.EditPreview(refused=wire.problem_of(refusal))
        return wire.EditPreview()

    def check_members(self, after: Members, before: Members | None = None) -> None:
        """Raise `Refusal` if the build quotas of all members would exceed the build GPUs.

        With ``before``, a change that does not increase their sum is accepted.
        """
        transaction = Transaction(self.state, self._nodes, self._parts.clock())
        project_admin.check_members(transaction, before, after)

    def admin(self, members: Members) -> wire.Admin:
        """Return all that the admin page shows."""
        return pool_view.admin(self.state, self._nodes, self._read_model.standing(), members)

    # ---------- people who leave

    def preview_departure(self, leaver: Leaver, by: str) -> Left:
        """Return what would become of what a person has. Raises `Refusal` as `leave` does."""
        transaction = Transaction(self.state, self._nodes, self._parts.clock())
        return departures.leave(transaction, self._with_channels(leaver), by)

    async def leave(self, leaver: Leaver, by: str) -> Left:
        """Hand over or cancel the jobs of a person, and give back what she has of her own."""
        asked = self._with_channels(leaver)
        return await self.change(lambda transaction: departures.leave(transaction, asked, by))

    def _with_channels(self, leaver: Leaver) -> Leaver:
        return dataclasses.replace(leaver, channels=self.settings.notifications.channels)

    # ---------- the pool as a file

    def pool_file(self, memberships: Memberships) -> wire.PoolFileView:
        """Return projects, people and rules as a file."""
        transaction = Transaction(self.state, self._nodes, self._parts.clock())
        found = pool_file.present(transaction, memberships)
        return wire.PoolFileView(file=found, version=pool_file.version_of(found), locked=memberships.locked())

    def compare_pool_file(self, question: Question) -> Outcome:
        """Return what a file would change, and why it would be refused."""
        transaction = Transaction(self.state, self._nodes, self._parts.clock())
        return pool_file.compared(transaction, question, self.settings.images)

    async def apply_pool_file(self, question: Question) -> Outcome:
        """Make the pool as a file has it, all but the members of groups. Raises `Refusal`."""
        images = self.settings.images
        return await self.change(lambda transaction: pool_file.apply(transaction, question, images))

    def _project_view(self, name: str, members: Members) -> wire.ProjectView:
        views = pool_view.project_views(self.state, self._nodes, self._read_model.standing(), members)
        return next(view for view in views if view.name == name)

    async def drain_node(self, request: wire.DrainRequest, by: str) -> int | None:
        """Let nothing new start on a node or GPU; jobs there are paused and resume elsewhere, or finish.

        Returns the entry of the audit trail, None if it was drained so already.
        """
        return await self.change(lambda transaction: transaction.entry_of(lambda: drain(transaction, request, by)))

    def bookings(self) -> wire.Bookings:
        """Return the bookings that hold or are to come."""
        made = sorted(self.state.bookings.values(), key=lambda each: (each.start, each.number))
        return wire.Bookings(items=tuple(map(bookings.view, made)))

    async def book(self, request: wire.BookingRequest, by: str) -> wire.NewBooking:
        """Reserve nodes for a maintenance, or GPUs for a project, from a start to an end."""
        return await self.change(lambda transaction: bookings.book(transaction, request, by))

    async def preview_booking(self, request: wire.BookingRequest, by: str, *, sees: Sees) -> wire.BookingPreview:
        """Return what a booking would do; ``sees`` returns whether the caller may see a job. Makes nothing."""
        return await self._parts.questions.booking(request, by, sees)

    async def cancel_booking(self, number: int, by: str) -> wire.CancelledBooking:
        """Take a booking back."""
        return await self.change(lambda transaction: bookings.cancel(transaction, number, by))

    async def undrain_node(self, request: wire.UndrainRequest, by: str) -> int | None:
        """Let jobs start on a node or GPU again; a booking of it that has begun drains it from then on.

        Returns the entry of the audit trail, None if it was not drained.
        """

        def change(transaction: Transaction) -> int | None:
            entry = transaction.entry_of(lambda: undrain(transaction, request, by))
            bookings.follow(transaction)
            return entry

        return await self.change(change)

    async def free_gpus(self, request: wire.FreeRequest, by: str) -> None:
        """Take the word of the admin ``by`` that something without a place has ended: its GPUs are free.

        With ``end`` a job leaves its GPUs, and an attempt that no record knows is ended. Raises `Refusal`: 404 for
        a holder with a place, 409 while its processes live, or for a notebook that is to be ended.
        """
        found = drains.find(self.pool().unmatched, request.holder)
        if found.kind == "notebook":
            await self._free_notebook(found, by)
            return
        key, executor = drains.attempt_of(found), self._parts.executor
        try:
            alive = "" if request.end else await executor.living(key)
            if alive:
                raise drains.still_runs(found, alive)
            if found.kind == "job" and request.end:
                await self.change(lambda transaction: drains.leave(transaction, found, by))
                return
            if request.end:
                await executor.kill(key, now=True)
            else:
                self._parts.mailbox.post(drains.gone(key, by, self._parts.clock()))
            await self.change(lambda transaction: drains.record(transaction, found, by, end=request.end))
        except ExecutorError as error:
            raise Refusal(409, "attempt", str(error)) from error

    async def _free_notebook(self, found: wire.UnmatchedView, by: str) -> None:
        for running in await self.running_notebooks():
            if (running.user, running.server) == (found.user, found.name):
                raise drains.still_runs(found, running.place)
        await self.change(lambda transaction: drains.record(transaction, found, by, end=False))
        await self.release_workspace(found.user, found.name, since=found.since)

    async def record_end(self, found: wire.UnmatchedView, by: str) -> None:
        """Record that an admin has ended something without a place."""
        await self.change(lambda transaction: drains.record(transaction, found, by, end=True))

    # ---------- the audit trail

    async def audit(
        self,
        cursor: str | None,
        limit: int,
        chosen: AuditQuery = AuditQuery(),  # noqa: B008 - frozen
    ) -> wire.AuditPage:
        """Return a page of the chosen entries of the audit trail, newest first."""
        position, limit = paging.page_bounds(cursor, limit)
        found = await self._read(reading.audit, chosen, position, limit + 1)
        items = self._entry_views(found[:limit])
        return wire.AuditPage(items=items, next=str(found[limit - 1].id) if len(found) > limit else None)

    async def audit_entry(self, audit_id: int) -> wire.AuditEntry:
        """Return an entry of the audit trail. Raises `Refusal` (404) for an unknown one."""
        return self._entry_views([await self._audit_record(audit_id)])[0]

    def _entry_views(self, records: Sequence[AuditRecord]) -> list[wire.AuditEntry]:
        now = Transaction(self.state, self._nodes, self._parts.clock())
        return [job_view.audit(each, undo=undoing.hindrance(now, each) is None) for each in records]

    async def _audit_record(self, audit_id: int) -> AuditRecord:
        record = await self._read(reading.audit_entry, audit_id)
        if record is None:
            raise Refusal(404, "not_found", f"There is no entry {audit_id} in the audit trail.")
        return record

    async def undo(self, audit_id: int, by: str, *, members: Members) -> wire.AuditEntry:
        """Undo a change and return the new entry; a booking of an undrained node drains it from then on."""
        record = await self._audit_record(audit_id)
        spending = await self.budgets.spending(*filter(None, [record.project]))
        around = undoing.Around(members, spending, self.settings)

        def change(transaction: Transaction) -> AuditRecord:
            entry = undoing.undo(transaction, record, by, around)
            bookings.follow(transaction)
            return entry

        try:
            entry = await self.change(change)
        except Refusal as refusal:
            raise await conflicts.with_later_changes(refusal, self._parts.store, record) from refusal
        return self._entry_views([entry])[0]

    async def record(
        self,
        who: str,
        what: str,
        subject: str,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        *,
        project: str = "",
        undoes: int | None = None,
    ) -> int:
        """Record a change made elsewhere, that undoes the entry ``undoes`` if given; return the entry's id.

        ``project`` is the one that it concerns, if it concerns one.
        """

        def add(transaction: Transaction) -> int:
            if undoes is not None:
                transaction.undone_entries.append(undoes)
            if what.removeprefix(UNDO) in undoing.MEMBERSHIP:
                hub_users.record_change(transaction, subject, before["members"], after["members"])
            return transaction.add_audit_entry(who, what, subject, before, after, project=project)

        return await self.change(add)

    # ---------- people

    def identity(self, user: str) -> str | None:
        """Return which user of JupyterHub has this name, as far as the pool knows; None if it knows none."""
        known = self.state.hub_users.get(user)
        return None if known is None else known.identity

    def hub_names(self) -> set[str]:
        """Return the names of all users of JupyterHub that the pool knows and that had not left."""
        return {user.name for user in self.state.hub_users.values() if user.standing is not HubStanding.LEFT}

    async def follow_hub(self, seen: hub_users.Seen) -> bool:
        """Let jobs, and what else the pool keeps of people, follow the users and groups of JupyterHub.

        Returns whether a name is no longer that of who had it.
        """
        renamed = await self.change(lambda transaction: hub_users.follow(transaction, seen))
        await self._parts.executor.follow_users(self.state.names_by_identity())
        return renamed

    # ---------- workspaces

    async def reserve_workspace(
        self,
        user: str,
        server: str,
        gpus: int,
        projects: Sequence[str],
        *,
        gpu_type: str = "",
        runs_on: Sequence[str] = (),
    ) -> wire.Workspace:
        """Reserve build GPUs of a type for a workspace; a repeated request returns the same ones.

        ``projects`` are the person's; an empty ``gpu_type`` means any. ``runs_on`` are the UUIDs of GPUs that the
        workspace runs on already. Raises `Refusal` beyond the build quota.
        """
        record = await self.change(
            lambda transaction: workspaces.reserve(
                transaction, user, server, gpus, projects, gpu_type=gpu_type, runs_on=runs_on
            )
        )
        return job_view.workspace(record, self._read_model.view_context().labels)

    async def release_workspace(self, user: str, server: str, *, since: float | None = None) -> None:
        """Release a workspace's GPUs; with ``since``, only if they were reserved at that time."""
        await self.change(lambda transaction: workspaces.release(transaction, user, server, since))

    async def running_notebooks(self) -> Sequence[RunningNotebook]:
        """Return the notebook servers that run, as the executor sees them and whatever the hub knows of them.

        Raises `Refusal` 503 while that is not known.
        """
        try:
            return await self._parts.executor.notebooks()
        except ExecutorError as error:
            raise Refusal(503, "notebooks_unknown", str(error), hint="Try again in a moment.") from error

    async def end_notebook(self, user: str, server: str) -> None:
        """End a notebook server that the hub does not know. Raises `Refusal` 409 if it does not end."""
        try:
            await self._parts.executor.end_notebook(user, server)
        except ExecutorError as error:
            raise Refusal(409, "notebook", str(error)) from error

    async def adopt_workspaces(self) -> Sequence[RunningNotebook]:
        """Record the GPUs of running notebooks that have no reservation of them, as after the loss of the store.

        Returns those whose GPUs have no place for them. Raises `Refusal` 503 while it is not known what runs.
        """
        running = await self.running_notebooks()
        return await self.change(lambda transaction: workspaces.adopt(transaction, running)) if running else ()

    def workspaces(self) -> list[wire.Workspace]:
        """Return every workspace."""
        labels = self._read_model.view_context().labels
        return [job_view.workspace(record, labels) for record in self.state.workspaces.values()]

    def build_quota(self, user: str, projects: Sequence[str]) -> wire.BuildQuota:
        """Return a person's build quota, its use, and the free build GPUs."""
        return workspaces.build_quota(self.state, self._nodes, user, projects)

    # ---------- logs, reports, outputs

    async def log(self, job_id: str, rank: int, offset: int, limit: int, wait: float) -> wire.LogChunk:
        """Return a piece of a worker's log, waiting up to ``wait`` seconds if there is nothing new yet."""
        return await self._parts.outputs.log(job_id, rank, offset, limit, wait)

    async def points(self, job_id: str, after: int, limit: int) -> wire.Points:
        """Return a job's reports with ``seq`` above ``after``, in order."""
        return await self._parts.outputs.points(job_id, after, limit)

    async def metrics(self, job_id: str, step: float | None, goal: Goal | None) -> wire.MetricList:
        """Return the last and the best value of each metric of a job, and those at a step.

        Of a job with more reports than `MAX_REPORTS` the first ones are looked at for the step.
        """
        standing = (await self._parts.jobs.get(job_id)).standing
        at_step: dict[str, Value] = {}
        if step is not None:
            reports: list[wire.Point] = []
            more: wire.Points | None = None
            while len(reports) < MAX_REPORTS and (more is None or more.items):
                more = await self.points(job_id, 0 if more is None else more.next, REPORTS_AT_ONCE)
                reports += more.items
            at_step = await asyncio.to_thread(values_at, [(each.step, each.values) for each in reports], step)
        items = [
            wire.Metric(
                name=name,
                last=standing.values.get(name),
                best=None if each is None else job_view.best_value(name, each, goal),
                at_step=at_step.get(name),
            )
            for name in dict.fromkeys([*standing.values, *at_step])
            for each in [standing.extremes.get(name)]
        ]
        return wire.MetricList(items=items)

    async def output(self, job_id: str, name: str) -> BinaryIO:
        """Open a file of the job's output directory, which the caller closes."""
        return await self._parts.outputs.output(job_id, name)

    async def outputs(self, job_id: str) -> wire.OutputList:
        """Return the files of the job's output directory."""
        return await self._parts.outputs.listed(job_id)

    # ---------- events

    def subscribe(self, last_event_id: int | None = None) -> AsyncGenerator[Sequence[wire.Event], None]:
        """Return the event stream, from after ``last_event_id`` or from now on: each time all events that wait.

        The first event after the recorded ones is the pool. An event of the kind ``refetch`` says that events were
        missed: fetch the displayed data again.
        """
        return self.events.stream(last_event_id)


def _person_edit(name: str, edit: wire.PersonEdit, by: str, members: Members) -> Callable[[Transaction], None]:
    return lambda transaction: project_admin.edit_person(
        transaction, name, edit.build_quota, by, members, until=edit.until
    )
