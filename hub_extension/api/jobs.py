"""Calls about jobs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.choices import own_projects, project_for, unknown_project
from springtide.hub_extension.api.deleted_jobs import explained
from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.presets import brought, naming_preset, with_preset
from springtide.hub_extension.api.routes import Call, File, Pool, Reply, Who, route
from springtide.hub_extension.tracking.tracker import NotTakenError, Tracker, TrackerDownError
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.problems import Busy, problem_of
from springtide.scheduler.engine import JobFilter
from springtide.scheduler.engine.sweeps.requests import trial_query
from springtide.scheduler.model import SHOWN_STATES
from springtide.scheduler.refusal import Refusal, unknown_job
from springtide.scheduler.runs import (
    ARGUMENT,
    BEST,
    FIELDS,
    LAST,
    MAX_CONDITION,
    NAME,
    Condition,
    ConditionError,
    parse,
)
from springtide.scheduler.store import ORDERS
from springtide.scheduler.time_zones import MAX_ZONE
from springtide.scheduler.wire import (
    LONGEST_LOG_PIECE,
    MAX_COMPARED,
    MAX_JOBS_PAGE,
    MAX_TRIALS_PAGE,
    Comparison,
    Deletion,
    HoldRequest,
    Job,
    JobActed,
    JobEdit,
    JobPage,
    JobsActed,
    JobsAction,
    JobStack,
    LogChunk,
    MarksEdit,
    MetricList,
    OutputList,
    Points,
    ReleaseRequest,
    Submission,
    Tag,
    TagsEdit,
    TrackerLink,
    TrackerLinks,
    TrialPage,
    TrialsEdit,
    UsageSeries,
)
from springtide.scheduler.wire.run_table import csv_of
from springtide.scheduler.wording import given, is_printable

logger = logging.getLogger("springtide")

READING_S = 3600
"""Time in which a person's readings of a job's log, or of its files, are one entry of the audit trail, in s."""
LOG_PIECE = 64 * 1024
LONGEST_WAIT_S = 30
BUSY_RETRY_S = 2
"""Value of ``Retry-After`` for a submission beyond those that the pool takes at once, in seconds."""
STARTS_WAIT_S = 0.3
"""Maximum time that an answer waits for unknown expected starts, in seconds; later ones are sent as events."""
TRACKERS_WAIT_S = 3.0
"""Maximum time that an answer waits for trackers, in seconds."""

MAX_EXPORTED = 5_000
"""Maximum number of jobs in one table of CSV."""

Rank = Annotated[int, Meta(ge=0, le=1_000_000)]
Offset = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]


class JobsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: which jobs to list. ``state`` may name several states, separated by commas.

    ``search`` are words that the name, the user, the project, the id or a tag contains, or that are the name of an
    argument that is set, such as ``--amp``; ``since`` is the earliest time of submission, ``tag`` one of the tags.
    Trials are listed only with the ``sweep`` that they are trials of.
    ``where`` is a condition on arguments, metrics and other values, such as ``lr > 0.1 and val_loss < 0.3``;
    its dates are in the time ``zone``, such as ``Europe/Berlin`` or ``+02:00``, by default in that of the service.
    ``order`` is one of `ORDERS`, or the name of a value as conditions have it, reversed with a minus before it.
    Archived jobs are left out unless ``archived`` says otherwise. ``starts`` is the maximum time to wait for
    expected starts that are not known yet, in seconds.
    """

    state: str = ""
    project: str | None = None
    user: str | None = None
    mine: bool = False
    search: Annotated[str, Meta(max_length=200)] = ""
    since: Annotated[float, Meta(ge=0, le=1e11)] | None = None
    tag: Tag | None = None
    sweep: str | None = None
    where: Annotated[str, Meta(max_length=MAX_CONDITION)] = ""
    zone: Annotated[str, Meta(max_length=MAX_ZONE)] = ""
    archived: Literal["no", "yes", "all"] = "no"
    pinned: bool | None = None
    order: Annotated[str, Meta(max_length=200)] = "newest"
    starts: Annotated[float, Meta(ge=0, le=STARTS_WAIT_S)] = STARTS_WAIT_S
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_JOBS_PAGE)] = 50


class LogQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: which part of a log, in bytes; a negative ``offset`` counts from the end.

    ``wait`` is the maximum time to wait for new content, in seconds.
    """

    offset: Offset = 0
    limit: Annotated[int, Meta(ge=1, le=LONGEST_LOG_PIECE)] = LOG_PIECE
    rank: Rank = 0
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 0


class PointsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the reports after a number."""

    after: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


@route("POST", "/jobs", Who.LOGGED_IN, status=201, also=(200,), jobs=True)
async def submit(call: Call, body: Submission) -> Reply[Job]:
    """Accept a job; it is stored on disk before the answer."""
    caller, pool = call.caller, call.pool
    with hold_intake(pool):
        take(pool.submissions, caller, "You submit faster than this pool takes jobs of one person.")
        project = await project_for(pool, caller, body.project)
        asked, body = body, with_preset(pool, body, project)
        size = sum(map(len, body.files.values())) + parameters_size(body)
        take(pool.uploads, caller, "You send files faster than this pool takes them of one person.", size)
        requested_at = pool.clock()
        with naming_preset(asked.preset, brought(pool, asked, body, project)):
            accepted = await pool.engine.submit(body, caller.name, project, lineage=lineage_of(caller))
        return Reply(accepted, 201 if accepted.submitted >= requested_at else 200)


def lineage_of(caller: Caller) -> tuple[str, ...]:
    """Return the ids of the jobs that led to what the caller submits; empty unless a program of a job calls."""
    return () if caller.job is None else caller.job.lineage


def hold_intake(pool: Pool) -> AbstractContextManager[None]:
    """Count a submission among those that are being accepted at this moment. Raises `Busy` beyond the maximum."""
    return pool.intake.hold("", _too_many_at_once)


def parameters_size(body: Submission) -> int:
    """Return the size of the trial parameters of a sweep, in bytes."""
    parameters = None if body.trials is None else body.trials.parameters
    return 0 if parameters is None else len(msgspec.json.encode(parameters))


def _too_many_at_once() -> Refusal:
    return Busy(
        "pool_busy",
        "More jobs are being submitted at this moment than the pool takes at once. Nothing was accepted.",
        retry_after=BUSY_RETRY_S,
        hint=f"Try again in {BUSY_RETRY_S} s.",
    )


def take(buckets: Buckets, caller: Caller, message: str, number: float = 1) -> None:
    """Take ``number`` of the caller's tokens. Raises `Busy` with the message if fewer are available."""
    wait = buckets.take(caller.name, number)
    if wait > 0:
        seconds = max(1, round(wait + 0.5))
        raise Busy("too_fast", message, retry_after=seconds, hint=f"Try again in {seconds} s.")


@route("GET", "/jobs.csv", Who.LOGGED_IN, jobs=True)
async def jobs_as_csv(call: Call, query: JobsQuery) -> File:
    """Return all jobs of a list as CSV, at most `MAX_EXPORTED`, with their arguments and metrics."""
    found: list[Job] = []
    cursor: str | None = None
    while len(found) < MAX_EXPORTED:
        asked = msgspec.structs.replace(query, cursor=cursor, limit=MAX_JOBS_PAGE, starts=0)
        page = await jobs(call, asked)
        found += page.items
        cursor = page.next
        if cursor is None:
            break
    return File.of_text("jobs.csv", await asyncio.to_thread(csv_of, found[:MAX_EXPORTED], call.pool.clock()))


@route("GET", "/jobs", Who.LOGGED_IN, jobs=True)
async def jobs(call: Call, query: JobsQuery) -> JobPage:
    """Return a page of the jobs visible to the caller, newest first by default."""
    caller = call.caller
    states = frozenset(filter(None, query.state.split(",")))
    unknown = sorted(states - set(SHOWN_STATES))
    if unknown:
        hint = f"Known are: {', '.join(SHOWN_STATES)}."
        raise Refusal(422, "invalid", f"{given(unknown[0], 40)} is no state of a job.", field="state", hint=hint)
    order = query.order.removeprefix("-")
    by_value = order not in ORDERS
    if by_value and not (NAME.fullmatch(order) or order.startswith((ARGUMENT, LAST, BEST))):
        known = ", ".join(dict.fromkeys([*ORDERS, *FIELDS]))
        hint = f"Known are: {known}, and names of arguments and metrics; a minus before one reverses it."
        raise Refusal(422, "invalid", f"{given(query.order, 40)} is no order of jobs.", field="order", hint=hint)
    if not is_printable(query.search):
        message = f"{given(query.search, 40)} has characters that no name has."
        raise Refusal(422, "invalid", message, field="search", hint="Search for letters, digits and signs.")
    visible = permissions.visible_projects(caller)
    wanted = JobFilter(
        states=states,
        project=query.project,
        user=caller.name if query.mine else query.user,
        search=query.search,
        since=query.since,
        tag=query.tag,
        sweep=query.sweep,
        order="newest" if by_value else query.order,
        pinned=query.pinned,
        archived=None if query.archived == "all" else query.archived == "yes",
        where=_condition(query.where, query.zone),
        by_value=order if by_value else "",
        falling=by_value and query.order.startswith("-"),
        viewer=None if visible is None else "" if caller.service or caller.job is not None else caller.name,
        viewer_projects=tuple(sorted(visible or ())),
    )
    engine = call.pool.engine
    page = await engine.jobs(wanted, query.cursor, query.limit, starts=query.starts)
    if query.project is not None and not page.items and not engine.has_project(query.project):
        raise unknown_project(query.project, own_projects(call.pool, caller))
    return page


def _condition(text: str, zone: str) -> Condition | None:
    """Return the condition of a list. Raises `Refusal` that names the mistake and its place."""
    try:
        return parse(text, zone) if text.strip() else None
    except ConditionError as error:
        raise Refusal(422, "invalid", error.message, field="where", hint=error.hint) from None


async def seen(call: Call, job_id: str) -> Job:
    """Return a job. Raises `Refusal` 404 if there is none that the caller may see."""
    return await job_seen_by(call.pool, call.caller, job_id)


async def job_seen_by(pool: Pool, caller: Caller, job_id: str) -> Job:
    """Return a job. Raises `Refusal` 404 if there is none that the caller may see.

    It says by whom and when a job was deleted to those who could see that.
    """
    try:
        job = await pool.engine.job(job_id)
    except Refusal as refusal:
        raise await explained(refusal, pool, caller, job_id) from None
    if not permissions.may_see_job(caller, job):
        raise unknown_job(job_id)
    return job


async def _owned(call: Call, job_id: str) -> Job:
    job = await seen(call, job_id)
    if not permissions.may(call.caller, Action.STOP, job.project, job.user):
        message = (
            f"The job is {job.user}'s; only {job.user} and administrators of {given(job.project)} may pause, "
            "resume, cancel or finish it."
        )
        raise Refusal(403, "forbidden", message)
    return job


async def _record(call: Call, job: Job, what: str) -> None:
    """Record in the audit trail what the caller did with another person's job."""
    if not permissions.owns(call.caller, job.user):
        before = {"user": job.user, "name": job.name}
        await call.pool.engine.record(call.caller.name, what, job.id, before, {}, project=job.project)


async def record_reading(call: Call, job: Job, what: str) -> None:
    """Record that a person outside the project reads a job's files or log, at most once in `READING_S`."""
    caller, now = call.caller, call.pool.clock()
    if permissions.owns(caller, job.user) or (job.project in caller.groups and not caller.service):
        return
    key = (caller.name, job.id, what)
    last = call.pool.readings.get(key)
    if last is None or now - last >= READING_S:
        call.pool.readings.put(key, now)
        await _record(call, job, what)


@route("GET", "/jobs/{id}", Who.LOGGED_IN, jobs=True)
async def job(call: Call, id: str) -> Job:
    """Return one job, with its expected start if it waits."""
    job = await seen(call, id)
    if await call.pool.engine.request_starts([job], STARTS_WAIT_S):
        job = await seen(call, id)
    return job


@route("POST", "/jobs/{id}/pause", Who.LOGGED_IN, jobs=True)
async def pause(call: Call, id: str) -> Job:
    """Pause a job at its next checkpoint, until it is resumed."""
    return await call.pool.engine.pause((await _owned(call, id)).id, call.caller.name)


@route("POST", "/jobs/{id}/resume", Who.LOGGED_IN, jobs=True)
async def resume(call: Call, id: str) -> Job:
    """Resume a job that was paused by a user."""
    job = await _owned(call, id)
    if not permissions.may(call.caller, Action.RESUME, job.project, job.user):
        message = f"You are no longer in project {given(job.project)}, on whose account the job runs."
        raise Refusal(403, "forbidden", message)
    return await call.pool.engine.resume(job.id, call.caller.name)


@route("POST", "/jobs/{id}/cancel", Who.LOGGED_IN, jobs=True)
async def cancel(call: Call, id: str) -> Job:
    """Cancel a job permanently. It has its grace period to end, then it is killed."""
    return await call.pool.engine.cancel((await _owned(call, id)).id, call.caller.name)


@route("POST", "/jobs/{id}/end", Who.LOGGED_IN, jobs=True)
async def end(call: Call, id: str) -> Job:
    """Cancel a job permanently, without time to save; one that is being cancelled is killed at once."""
    return await call.pool.engine.cancel((await _owned(call, id)).id, call.caller.name, now=True)


@route("POST", "/jobs/{id}/finish", Who.LOGGED_IN, jobs=True)
async def finish(call: Call, id: str) -> Job:
    """Mark a job that waits after an attempt as finished: it ends as succeeded."""
    return await call.pool.engine.finish((await _owned(call, id)).id, call.caller.name)


@route("POST", "/jobs/{id}/hold", Who.PROJECT_ADMINS)
async def hold(call: Call, id: str, body: HoldRequest) -> Job:
    """Put a job on hold: it does not start until it is released; one that runs is paused, or may finish."""
    job = await _administered(call, id)
    return await call.pool.engine.hold(job.id, call.caller.name, body.reason, finish=body.finish)


@route("POST", "/jobs/{id}/release", Who.PROJECT_ADMINS)
async def release(call: Call, id: str, body: ReleaseRequest) -> Job:
    """Release a job that is on hold, also to another member of its project. Raises `Refusal` 422 for others."""
    job, user = await _administered(call, id), body.user
    if user is not None and user not in (await call.pool.groups.members(fresh=True)).get(job.project, ()):
        message = f"{given(user)} is not a member of {given(job.project)}, on whose account the job runs."
        raise Refusal(422, "invalid", message, field="user", hint="Add this person to the project first.")
    return await call.pool.engine.release(job.id, call.caller.name, user)


@route("POST", "/jobs/{id}/edit", Who.LOGGED_IN)
async def edit(call: Call, id: str, body: JobEdit) -> Job:
    """Change priority, time limit or workers of a job while it does not run, or move it to another project."""
    job = await seen(call, id)
    if not permissions.may(call.caller, Action.EDIT, job.project, job.user):
        message = f"Only {job.user} and administrators of {given(job.project)} and of the pool may edit the job."
        raise Refusal(403, "forbidden", message)
    if body.project not in {UNSET, job.project}:
        await _check_move(call, job, str(body.project))
    return await call.pool.engine.edit(job.id, body, call.caller.name)


async def _check_move(call: Call, job: Job, project: str) -> None:
    """Raise `Refusal` for a project to which the caller may not move the job, or whose member its owner is not."""
    engine = call.pool.engine
    if not engine.has_project(project):
        raise unknown_project(project, own_projects(call.pool, call.caller))
    if not permissions.may(call.caller, Action.EDIT, project, job.user):
        message = (
            f"Only members of {given(project)} may move jobs of their own there, and its administrators others."
        )
        raise Refusal(403, "forbidden", message, field="project")
    if job.user not in (await call.pool.groups.members(fresh=True)).get(project, ()):
        message = f"{given(job.user)}, whose job it is, is not a member of {given(project)}."
        raise Refusal(422, "invalid", message, field="project", hint="Add this person to the project first.")


async def _administered(call: Call, job_id: str) -> Job:
    """Return a job that the caller may hold and release. Raises `Refusal` 403 for another one."""
    job = await seen(call, job_id)
    if not permissions.may(call.caller, Action.HOLD, job.project):
        message = f"Only administrators of {given(job.project)} and of the pool may hold and release its jobs."
        raise Refusal(403, "forbidden", message)
    return job


class TrialsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: which trials of a sweep to list, in which order. ``state`` may name several states."""

    sort: str = "trial"
    state: str = ""
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_TRIALS_PAGE)] = 100


@route("GET", "/jobs/{id}/trials", Who.LOGGED_IN, jobs=True)
async def trials(call: Call, id: str, query: TrialsQuery) -> TrialPage:
    """Return a page of the trials of a sweep, also of those that have not begun."""
    sweep = (await seen(call, id)).id
    wanted = trial_query(sweep, query.sort, query.state)
    return await call.pool.engine.sweeps.trials(sweep, wanted, query.cursor, query.limit)


@route("POST", "/jobs/{id}/retry", Who.LOGGED_IN, jobs=True)
async def retry(call: Call, id: str) -> Job:
    """Put the failed trials of a sweep in again."""
    job = await _owned(call, id)
    await call.pool.engine.sweeps.retry(job.id)
    await _record(call, job, "job.retry")
    return await call.pool.engine.job(job.id)


@route("PATCH", "/jobs/{id}/trials", Who.LOGGED_IN, jobs=True)
async def edit_trials(call: Call, id: str, body: TrialsEdit) -> Job:
    """Change the number or the bounds of a sweep's trials."""
    job = await _owned(call, id)
    await call.pool.engine.sweeps.edit(job.id, body)
    await _record(call, job, "job.edit_trials")
    return await call.pool.engine.job(job.id)


@route("PATCH", "/jobs/{id}", Who.LOGGED_IN, jobs=True)
async def mark(call: Call, id: str, body: MarksEdit) -> Job:
    """Change the note of a job, or pin or archive it; it may have ended."""
    job = await _taggable(call, id, "note and marks")
    await call.pool.engine.tags.mark(job.id, body, call.caller.name)
    return await call.pool.engine.job(job.id)


async def _taggable(call: Call, job_id: str, what: str = "tags") -> Job:
    job = await seen(call, job_id)
    if not permissions.may(call.caller, Action.TAG, job.project, job.user):
        message = f"The job is {job.user}'s; only {job.user} and administrators may change its {what}."
        raise Refusal(403, "forbidden", message)
    return job


class DeleteQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: with ``dry_run`` nothing is deleted, and the answer has the size of the files."""

    dry_run: bool = False


@route("DELETE", "/jobs/{id}", Who.LOGGED_IN)
async def delete(call: Call, id: str, query: DeleteQuery) -> Deletion:
    """Delete a job that has ended, with its files; or only measure these."""
    if not query.dry_run:
        return await _deleted(call, id)
    with call.pool.checkpoints.hold(call.caller.name, _busy):
        return await _measured(call, id)


async def _deleted(call: Call, job_id: str) -> Deletion:
    return await call.pool.engine.deletions.delete((await _deletable(call, job_id)).id, call.caller.name)


async def _measured(call: Call, job_id: str) -> Deletion:
    return await call.pool.engine.deletions.measure((await _deletable(call, job_id)).id)


async def _deletable(call: Call, job_id: str) -> Job:
    job = await seen(call, job_id)
    if call.caller.job is not None:
        raise Refusal(403, "forbidden", "A program of a job deletes no jobs.", hint="Delete it from a notebook.")
    if not permissions.may(call.caller, Action.DELETE, job.project, job.user):
        message = (
            f"The job is {job.user}'s; only {job.user} and administrators of {given(job.project)} may delete it."
        )
        raise Refusal(403, "forbidden", message)
    return job


def _busy() -> Refusal:
    return Busy(
        "too_many",
        "Other requests of yours about the files of jobs are being answered. Nothing was done.",
        retry_after=BUSY_RETRY_S,
        hint="Try again when they have finished.",
    )


ENDED = 409
"""Status of the refusal of an action on a job that has ended, or is not in the state for it."""
MARKS = {
    "archive": MarksEdit(archived=True),
    "unarchive": MarksEdit(archived=False),
    "pin": MarksEdit(pinned=True),
    "unpin": MarksEdit(pinned=False),
}
INTERVENTIONS = frozenset({"hold", "release", "edit"})
"""Actions that are for people alone, not for programs of jobs."""
ACTIONS = {"pause": pause, "resume": resume, "cancel": cancel, "end": end, "finish": finish}


async def _acted(call: Call, job_id: str, body: JobsAction) -> Job:
    if body.action in MARKS:
        return await mark(call, job_id, MARKS[body.action])
    if body.action == "tag":
        return await edit_tags(call, job_id, body.tags)
    if body.action in INTERVENTIONS and call.caller.job is not None:
        raise Refusal(403, "forbidden", "A program of a job neither holds, releases nor edits jobs.")
    if body.action == "edit":
        return await edit(call, job_id, body.edit)
    if body.action == "hold":
        if body.hold is None:
            raise Refusal(422, "invalid", "A hold needs a reason.", field="hold", hint='"hold": {"reason": "…"}')
        return await hold(call, job_id, body.hold)
    if body.action == "release":
        return await release(call, job_id, ReleaseRequest())
    return await ACTIONS[body.action](call, job_id)


@route("POST", "/jobs/actions", Who.LOGGED_IN, jobs=True)
async def act_on_many(call: Call, body: JobsAction) -> JobsActed:
    """Act on several jobs, each by itself: a refusal does not stop the others.

    With ``children`` it is also done to the unfinished jobs that programs of these have submitted, as far as the
    caller may see these.
    """

    async def act(job_id: str) -> JobActed:
        try:
            if body.action == "delete":
                return JobActed(id=job_id, deletion=await (_measured if body.dry_run else _deleted)(call, job_id))
            return JobActed(id=job_id, job=await _acted(call, job_id, body))
        except Refusal as refusal:
            why = await explained(refusal, call.pool, call.caller, job_id)
            return JobActed(id=job_id, problem=problem_of(why, ""))

    if body.action == "delete" and body.dry_run:
        with call.pool.checkpoints.hold(call.caller.name, _busy):
            return JobsActed(results=[await act(job_id) for job_id in dict.fromkeys(body.jobs)])
    results = await asyncio.gather(*map(act, dict.fromkeys(body.jobs)))
    if body.children:
        acted = [result.id for result in results if result.problem is None or result.problem.status == ENDED]
        results += await asyncio.gather(*map(act, call.pool.engine.descendants(acted)))
    return JobsActed(results=list(results))


@route("GET", "/jobs/{id}/log", Who.LOGGED_IN, jobs=True)
async def log(call: Call, id: str, query: LogQuery) -> LogChunk:
    """Return a part of a worker's log."""
    job = await seen(call, id)
    await record_reading(call, job, "job.read_log")
    return await call.pool.engine.log(job.id, query.rank, query.offset, query.limit, query.wait)


@route("POST", "/jobs/{id}/stack", Who.LOGGED_IN)
async def stack(call: Call, id: str) -> JobStack:
    """Return where the processes of all workers of a running job are now: the stacks of their threads."""
    job = await seen(call, id)
    take(call.pool.stacks, call.caller, "You ask for stacks faster than this pool reads them for one person.")
    await record_reading(call, job, "job.read_stack")
    return await call.pool.engine.sessions.stack(job.id)


@route("GET", "/jobs/{id}/points", Who.LOGGED_IN, jobs=True)
async def points(call: Call, id: str, query: PointsQuery) -> Points:
    """Return the job's reports in order."""
    return await call.pool.engine.points((await seen(call, id)).id, query.after, query.limit)


class MetricsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: ``step`` asks for the values at a step, ``goal`` says which values are the best.

    Without a goal the name of each metric says that: the largest accuracy, the smallest loss.
    """

    step: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    goal: Literal["min", "max"] | None = None


@route("GET", "/jobs/{id}/metrics", Who.LOGGED_IN, jobs=True)
async def metrics(call: Call, id: str, query: MetricsQuery) -> MetricList:
    """Return the last and the best value of each metric of a job, and those at a step."""
    return await call.pool.engine.metrics((await seen(call, id)).id, query.step, query.goal)


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: a time span, in seconds since the epoch; from the job's first start to now by default."""

    start: Annotated[float, Meta(ge=0, le=1e11)] | None = None
    end: Annotated[float, Meta(ge=0, le=1e11)] | None = None


@route("GET", "/jobs/{id}/usage", Who.LOGGED_IN, jobs=True)
async def usage(call: Call, id: str, query: UsageQuery) -> UsageSeries:
    """Return the measured use of the job's GPUs over time. Raises `Refusal` 422 for an invalid time span."""
    job = await seen(call, id)
    start = (job.started or job.submitted) if query.start is None else query.start
    end = (job.ended or call.pool.clock()) if query.end is None else query.end
    if query.end is not None and not start < end:
        raise Refusal(
            422, "invalid", "The span ends before it starts.", field="end", hint="end must be after start."
        )
    return await call.pool.engine.usage.of_job(job.id, start, end)


@route("GET", "/jobs/{id}/output", Who.LOGGED_IN, jobs=True)
async def outputs(call: Call, id: str) -> OutputList:
    """Return the files that the job left so far."""
    job = await seen(call, id)
    await record_reading(call, job, "job.read_outputs")
    return await call.pool.engine.outputs(job.id)


@route("GET", "/jobs/{id}/output/{name:path}", Who.LOGGED_IN, jobs=True)
async def output(call: Call, id: str, name: str) -> File:
    """Return a file of the job's output directory."""
    job = await seen(call, id)
    await record_reading(call, job, "job.read_outputs")
    return File(name.rpartition("/")[2], await call.pool.engine.output(job.id, name))


@route("PATCH", "/jobs/{id}/tags", Who.LOGGED_IN, jobs=True)
async def edit_tags(call: Call, id: str, body: TagsEdit) -> Job:
    """Change the tags of a job, also of one that has ended."""
    job = await _taggable(call, id)
    await call.pool.engine.tags.edit(job.id, body, call.caller.name)
    return await call.pool.engine.job(job.id)


class CompareQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the ids of the jobs to compare, with commas between."""

    jobs: Annotated[str, Meta(min_length=1, max_length=130 * MAX_COMPARED)]


@route("GET", "/comparison", Who.LOGGED_IN, jobs=True)
async def compare(call: Call, query: CompareQuery) -> Comparison:
    """Return jobs side by side, with their differences.

    Raises `Refusal` for too few or too many, and for one the caller may not see.
    """
    ids = list(dict.fromkeys(filter(None, query.jobs.split(","))))
    if not 2 <= len(ids) <= MAX_COMPARED:
        message = f"{len(ids)} job{'' if len(ids) == 1 else 's'} cannot be compared."
        raise Refusal(422, "invalid", message, field="jobs", hint=f"Name 2 to {MAX_COMPARED} different jobs.")
    return await call.pool.engine.reruns.compared([await seen(call, job_id) for job_id in ids])


@route("GET", "/jobs/{id}/tracking", Who.LOGGED_IN, jobs=True)
async def tracking(call: Call, id: str) -> TrackerLinks:
    """Return the addresses of a job in trackers, such as MLflow and TensorBoard, that know it and answer."""
    job = await seen(call, id)
    return TrackerLinks(items=await asyncio.gather(*(_link(tracker, job) for tracker in call.pool.trackers)))


async def _link(tracker: Tracker, job: Job) -> TrackerLink:
    address = None
    try:
        async with asyncio.timeout(TRACKERS_WAIT_S):
            address = await tracker.address(job)
    except (TrackerDownError, NotTakenError, TimeoutError) as error:
        logger.info("%s does not answer about job %s: %s", tracker.name, job.id, error)
    return TrackerLink(name=tracker.name, url=address)
