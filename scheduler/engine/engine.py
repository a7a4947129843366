"""The engine's face: what the API, the pages and the spawner call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from springtide.scheduler import wire
from springtide.scheduler.engine import (
    admin,
    history,
    pool_view,
    quotas,
    requests,
    submit,
    views,
    what_if,
    workspaces,
)
from springtide.scheduler.engine.core import Core
from springtide.scheduler.engine.loop import refusal_of
from springtide.scheduler.engine.world import Draft
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.records import AuditRecord, Bundle, EventRecord, JobQuery

T = TypeVar("T")
Members = Mapping[str, Sequence[str]]
MOST_PER_PAGE = 500
"""Items of a page, whatever was asked for."""
JobFilter = JobQuery
WAITING = frozenset({JobState.QUEUED, JobState.PAUSED})
MEMBERSHIP = frozenset({"member.add", "member.remove"})
"""What happens in the hub and is noted here; whoever notes it can also take it back."""


class Engine(Core):
    """Observes, plans, persists, acts. All methods are called from the event loop it was started in.

    Refusals are `Refusal`; nothing else that is raised is meant for users.
    """

    # ---------- jobs

    async def submit(self, submission: wire.Submission, user: str, project: str) -> wire.Job:
        """Accept a job: it is on disk when this returns. A key that was accepted before answers that job."""
        key = submission.key
        if key is not None and (known := await self.submitted(user, key)) is not None:
            return known
        world = self._know.world
        pool = submit.Pool(
            world.train_nodes(), {record.name: record.project for record in world.projects.values()}, self.settings
        )
        spec = submit.check(submission, user, project, pool, job_id=self._new_id(), now=self._clock())
        spec = replace(spec, fastest=self._know.memory.paces.fastest(spec))
        bundle = await self._bundle(submission.files)

        def accept(draft: Draft) -> Callable[[], wire.Job]:
            job_id = requests.accept(draft, spec, bundle, self.settings)
            return lambda: self.job(job_id)

        accepted = await self._inbox.ask(accept)
        self.stats.submits += 1
        return accepted

    async def submitted(self, user: str, key: str) -> wire.Job | None:
        """The job that a user's key was accepted for."""
        job_id = self._know.world.keys.get((user, key))
        if job_id is not None:
            return self.job(job_id)
        try:
            job = await self._keys.find((user, key))
        except StoreError as error:
            raise refusal_of(error) from error
        return None if job is None else self._know.job(job)

    async def _bundle(self, files: Mapping[str, bytes]) -> Bundle | None:
        if not files:
            return None
        try:
            bundle = await self._read(self._store.save_bundle, files)
        except StoreError as error:
            raise refusal_of(error) from error
        self._files.keep(bundle.digest, files)
        return bundle

    async def pause(self, job_id: str, by: str) -> wire.Job:
        """Pause a job until it is resumed. The same again changes nothing."""
        return await self._control(job_id, "pause", by)

    async def resume(self, job_id: str, by: str) -> wire.Job:
        """Let a job that was paused by a user wait for GPUs again."""
        return await self._control(job_id, "resume", by)

    async def cancel(self, job_id: str, by: str) -> wire.Job:
        """End a job for good. The answer may still be ``pausing``: its processes get a moment to end."""
        return await self._control(job_id, "cancel", by)

    async def _control(self, job_id: str, what: str, by: str) -> wire.Job:
        found = await self._found(job_id)

        def control(draft: Draft) -> Callable[[], wire.Job]:
            requests.control(draft, draft.job(job_id) or self._know.at_hand(job_id) or found, what, by)
            return lambda: self._know.job(self._know.at_hand(job_id) or found)

        return await self._inbox.ask(control)

    async def find(self, job_id: str) -> wire.Job:
        """A job with all that a card shows. Raises `Refusal` (404) for an unknown one."""
        return self._know.job(await self._found(job_id))

    def job(self, job_id: str) -> wire.Job:
        """The same at once, but it blocks to look for a job that ended long ago."""
        job = self._know.find(job_id)
        if job is None:
            raise requests.no_job(job_id)
        return self._know.job(job)

    async def look_ahead(self, jobs: Iterable[wire.Job], patience: float) -> bool:
        """Let somebody who looks at jobs know when those that wait are expected to start.

        Waits up to ``patience`` seconds for starts that nobody has asked for yet; if it did, look again.
        """
        return await self._foresight.look([job.id for job in jobs if job.state in WAITING], patience)

    async def forecast(
        self, question: wire.WhatIf, user: str, project: str | None, *, sees: what_if.Sees, members: Members
    ) -> wire.Forecast:
        """What would be: with a job of the user's in ``project``, with other projects and nodes.

        ``sees`` tells whether the caller sees jobs of a user in a project. Raises `Refusal` for what could not be.
        """
        now, world = self._clock(), self._know.world
        idea = what_if.imagine(question, user, project, world, self.settings, now=now, members=members)
        asked = what_if.asked_for(question, world, sees)
        outlook = await self._foresight.what_if(idea.on(self._know.planning.snapshot(now)), [*asked, *idea.jobs])
        return what_if.told(outlook, idea, world, sees, now)

    async def jobs(self, filter: JobFilter, cursor: str | None, limit: int) -> wire.JobPage:  # noqa: A002
        """Jobs that match, newest first, without their sources."""
        limit = max(1, min(limit, MOST_PER_PAGE))
        found = await self._read(self._store.jobs, filter, _position(cursor), limit + 1)
        world = self._know.world
        items = [self._know.job(world.jobs.get(job.id, job), full=False) for job in found[:limit]]
        return wire.JobPage(items=items, next=str(found[limit - 1].spec.seq) if len(found) > limit else None)

    # ---------- the pool

    def pool(self) -> wire.PoolView:
        """The pool at a glance."""
        return self._know.pool()

    async def history(self, start: float, end: float) -> wire.History:
        """GPUs over time by project."""
        now = self._clock()
        end = min(end, now)
        start = min(start, end)
        world = self._know.world
        held = await self._read(self._store.held, start, end)
        top = {record.name: record.project.quota for record in world.projects.values()}
        return history.history(held, start, end, quotas.total_gpus(world.train_nodes()), top)

    def choices(self, projects: Sequence[str]) -> list[wire.ProjectChoice]:
        """What a person may ask for in each of these projects."""
        return pool_view.choices(self._know.world, self._know.standing(), projects)

    @property
    def simulated(self) -> bool:
        """Whether the pool's GPUs are simulated."""
        return self.pool().simulated

    def has_project(self, name: str) -> bool:
        """Whether there is a project of that name."""
        return name in self._know.world.projects

    def has_quota(self, name: str) -> bool:
        """Whether a project, or one that it is part of, has train GPUs guaranteed."""
        projects = {record.name: record.project for record in self._know.world.projects.values()}
        return any(project.quota != 0 for project in submit.line_up(name, projects))

    def gpu_types(self) -> list[str]:
        """Types of train GPUs."""
        return sorted({node.gpu_type for node in self._know.world.train_nodes() if node.gpu_type})

    # ---------- projects and people

    async def create_project(
        self, name: str, edit: wire.ProjectEdit, by: str, *, members: Members, made_group: bool = False
    ) -> wire.ProjectView:
        """A new project; ``made_group`` notes that the hub's group was made for it."""
        await self._change(
            lambda draft: admin.create_project(draft, name, edit, by, members, made_group=made_group)
        )
        return self._project(name, members)

    async def edit_project(
        self, name: str, edit: wire.ProjectEdit, by: str, *, members: Members
    ) -> wire.ProjectView:
        """Change a project; the pool follows at once."""
        await self._change(lambda draft: admin.edit_project(draft, name, edit, by, members))
        return self._project(name, members)

    async def delete_project(self, name: str, by: str) -> bool:
        """Drop a project without unfinished jobs and projects in it; whether its group had been made for it."""
        return await self._change(lambda draft: admin.delete_project(draft, name, by))

    async def edit_person(self, name: str, edit: wire.PersonEdit, by: str, *, members: Members) -> wire.PersonView:
        """Give a person a build quota of her own, or take it back."""
        await self._change(lambda draft: admin.edit_person(draft, name, edit.build_quota, by, members))
        of = quotas.people_of(members).get(name, [])
        return pool_view.person(self._know.world, name, of)

    def check_members(self, after: Members, before: Members | None = None) -> None:
        """Raises `Refusal` if who is in which project does not add up to the build GPUs.

        With ``before``, a change that makes nothing worse is let through.
        """
        admin.check_members(Draft(self._know.world, self._clock()), before, after)

    def admin(self, members: Members) -> wire.Admin:
        """All that the admin page shows."""
        return pool_view.admin(self._know.world, self._know.standing(), members)

    def _project(self, name: str, members: Members) -> wire.ProjectView:
        views_of = pool_view.project_views(self._know.world, self._know.standing(), members)
        return next(view for view in views_of if view.name == name)

    async def _change(self, change: Callable[[Draft], T]) -> T:
        def apply(draft: Draft) -> Callable[[], T]:
            result = change(draft)
            return lambda: result

        return await self._inbox.ask(apply)

    # ---------- the audit trail

    async def audit(self, cursor: str | None, limit: int) -> wire.AuditPage:
        """The audit trail, newest first."""
        limit = max(1, min(limit, MOST_PER_PAGE))
        found = await self._read(self._store.audit, _position(cursor), limit + 1)
        items = [self._entry(record) for record in found[:limit]]
        return wire.AuditPage(items=items, next=str(found[limit - 1].id) if len(found) > limit else None)

    async def audit_entry(self, audit_id: int) -> wire.AuditEntry:
        """One entry of the audit trail. Raises `Refusal` (404) for an unknown one."""
        return self._entry(await self._audited(audit_id))

    def _entry(self, record: AuditRecord) -> wire.AuditEntry:
        return views.audit(record, undo=record.what in admin.UNDOABLE | MEMBERSHIP and not record.undone)

    async def _audited(self, audit_id: int) -> AuditRecord:
        record = await self._read(self._store.audit_entry, audit_id)
        if record is None:
            raise Refusal(404, "not_found", f"There is no entry {audit_id} in the audit trail.")
        return record

    async def undo(self, audit_id: int, by: str, *, members: Members) -> wire.AuditEntry:
        """Take a change of a project or person back; the new entry."""
        record = await self._audited(audit_id)
        entry = await self._change(lambda draft: admin.undo(draft, record, by, members))
        return self._entry(entry)

    async def record(
        self,
        who: str,
        what: str,
        subject: str,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        *,
        undoes: int | None = None,
    ) -> int:
        """Note in the audit trail what happened elsewhere, and which entry it takes back; the entry's id."""

        def note(draft: Draft) -> int:
            if undoes is not None:
                draft.undone.append(undoes)
            return draft.note(who, what, subject, before, after)

        return await self._change(note)

    # ---------- workspaces

    async def reserve_workspace(
        self, user: str, server: str, gpus: int, projects: Sequence[str]
    ) -> wire.Workspace:
        """Reserve build GPUs for a notebook; the same again for one that has them.

        ``projects`` are the person's. Raises `Refusal` (409) beyond the build quota.
        """
        record = await self._change(lambda draft: workspaces.reserve(draft, user, server, gpus, projects))
        return views.workspace(record, self._know.lens().labels)

    async def release_workspace(self, user: str, server: str, *, since: float | None = None) -> None:
        """Give a notebook's GPUs back; with ``since``, only if they were reserved at that time."""
        await self._change(lambda draft: workspaces.release(draft, user, server, since))

    def workspaces(self) -> list[wire.Workspace]:
        """Every workspace."""
        labels = self._know.lens().labels
        return [views.workspace(record, labels) for record in self._know.world.workspaces.values()]

    def build_quota(self, user: str, projects: Sequence[str]) -> wire.BuildQuota:
        """What a person may still start."""
        return workspaces.build_quota(self._know.world, user, projects)

    # ---------- what jobs leave behind

    async def log(self, job_id: str, rank: int, offset: int, limit: int, wait: float) -> wire.LogChunk:
        """A piece of a worker's log; with ``wait``, up to that many seconds for more if there is none yet."""
        return await self._outputs.log(job_id, rank, offset, limit, wait)

    async def points(self, job_id: str, after: int, limit: int) -> wire.Points:
        """What a job reported, in order."""
        return await self._outputs.points(job_id, after, limit)

    async def output(self, job_id: str, name: str) -> bytes:
        """A file of the job's output folder."""
        return await self._outputs.output(job_id, name)

    # ---------- events

    def subscribe(self, last_event_id: int | None = None) -> AsyncGenerator[wire.Event, None]:
        """The event stream, from after ``last_event_id`` or from now on.

        The first event after those that were kept is the pool as it is. An event of the kind ``refetch`` says
        that something was missed: ask again for what is shown.
        """

        async def read(after: int, limit: int) -> list[EventRecord]:
            return await self._read(self._store.events, after, limit)

        world = self._know.world
        return self._events.stream(last_event_id, lambda: world.last_event, read, self._broadcast.pool_event)


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Refusal(
            422, "invalid", f"{cursor!r} is not a cursor of this list.", field="cursor", hint="Use `next`."
        )
    return int(cursor)
