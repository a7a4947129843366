"""Calls about jobs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.api.routes import Call, File, NoQuery, Pool, Reply, Route, Who
from springtide.hub_extension.caller import Caller
from springtide.hub_extension.problems import Busy
from springtide.scheduler.engine import JobFilter
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Job, JobPage, LogChunk, Points, Submission

LOG_PIECE = 64 * 1024
LONGEST_LOG_PIECE = 1024 * 1024
LONGEST_WAIT_S = 30
STARTS_WAIT_S = 0.3
"""How long an answer waits for starts that are not known yet; events bring them later."""

Rank = Annotated[int, Meta(ge=0, le=1_000_000)]
Offset = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]


class JobsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs to list. ``state`` may name several, with commas between."""

    state: str = ""
    project: str | None = None
    user: str | None = None
    mine: bool = False
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class LogQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which piece of a log, in bytes; a negative ``offset`` counts from the end. ``wait`` is seconds for more."""

    offset: Offset = 0
    limit: Annotated[int, Meta(ge=1, le=LONGEST_LOG_PIECE)] = LOG_PIECE
    rank: Rank = 0
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 0


class PointsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Reports after a number."""

    after: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


async def submit(call: Call[NoQuery, Submission]) -> Reply:
    """Accept a job: on disk when this answers."""
    caller, pool = call.caller, call.pool
    take(pool.submissions, caller, "You submit faster than this pool takes jobs of one person.")
    project = project_for(pool, caller, call.body.project)
    asked = pool.clock()
    accepted = await pool.engine.submit(call.body, caller.name, project)
    return Reply(accepted, 201 if accepted.submitted >= asked else 200)


def take(buckets: Buckets, caller: Caller, message: str) -> None:
    """Take one of the caller's tokens. Raises `Busy` with the message if there is none."""
    wait = buckets.take(caller.name)
    if wait > 0:
        seconds = max(1, round(wait + 0.5))
        raise Busy("too_fast", message, retry_after=seconds, hint=f"Try again in {seconds} s.")


def project_for(pool: Pool, caller: Caller, named: str | None) -> str:
    """The project to submit for: the one named, or the only one the caller is in."""
    if named is not None and permissions.may_submit(caller, named):
        return named
    has_project = pool.engine.has_project
    own = sorted(filter(has_project, caller.groups))
    yours = f"Yours: {', '.join(own)}." if own else "You are in no project; an administrator can change that."
    if named is None:
        if len(own) == 1:
            return own[0]
        raise Refusal(422, "missing", "The job does not say for which project it is.", field="project", hint=yours)
    if not has_project(named):
        raise Refusal(422, "unknown_project", f"There is no project {named!r}.", field="project", hint=yours)
    raise Refusal(403, "forbidden", f"You are not in project {named!r}.", field="project", hint=yours)


async def jobs(call: Call[JobsQuery, None]) -> JobPage:
    """The jobs that the caller may see, newest first."""
    query, caller = call.query, call.caller
    states = frozenset(filter(None, query.state.split(",")))
    unknown = sorted(states - set(JobState))
    if unknown:
        hint = f"Known are: {', '.join(JobState)}."
        raise Refusal(422, "invalid", f"{unknown[0][:40]!r} is no state of a job.", field="state", hint=hint)
    user = query.user
    if query.mine:
        user = caller.name
    wanted = JobFilter(
        states=states,
        project=query.project,
        user=user,
        viewer=None if caller.admin else "" if caller.service else caller.name,
        viewer_projects=() if caller.admin else tuple(sorted(caller.groups)),
    )
    engine = call.pool.engine
    page = await engine.jobs(wanted, query.cursor, query.limit)
    if await engine.look_ahead(page.items, STARTS_WAIT_S):
        page = await engine.jobs(wanted, query.cursor, query.limit)
    return page


async def _seen(call: Call[object, object]) -> Job:
    """The job of the address; a job the caller may not see is as good as none."""
    job_id = call.path["id"]
    job = await call.pool.engine.find(job_id)
    if not permissions.may_see_job(call.caller, job):
        raise Refusal(404, "not_found", f"There is no job {job_id[:80]!r}.")
    return job


async def _owned(call: Call[object, object]) -> Job:
    job = await _seen(call)
    if not permissions.may_stop_job(call.caller, job):
        message = f"The job is {job.user}'s; only {job.user} and administrators may pause, resume or cancel it."
        raise Refusal(403, "forbidden", message)
    return job


async def job(call: Call[NoQuery, None]) -> Job:
    """One job, with when it is expected to start if it waits."""
    found = await _seen(call)
    if await call.pool.engine.look_ahead([found], STARTS_WAIT_S):
        found = await _seen(call)
    return found


async def pause(call: Call[NoQuery, None]) -> Job:
    """Pause a job at its next checkpoint; it waits until it is resumed."""
    return await call.pool.engine.pause((await _owned(call)).id, call.caller.name)


async def resume(call: Call[NoQuery, None]) -> Job:
    """Let a job that its user paused run again."""
    found = await _owned(call)
    if not permissions.may_resume_job(call.caller, found):
        message = f"You are no longer in project {found.project!r}, on whose account the job runs."
        raise Refusal(403, "forbidden", message)
    return await call.pool.engine.resume(found.id, call.caller.name)


async def cancel(call: Call[NoQuery, None]) -> Job:
    """End a job for good."""
    return await call.pool.engine.cancel((await _owned(call)).id, call.caller.name)


async def log(call: Call[LogQuery, None]) -> LogChunk:
    """A piece of a worker's log."""
    query, found = call.query, await _seen(call)
    return await call.pool.engine.log(found.id, query.rank, query.offset, query.limit, query.wait)


async def points(call: Call[PointsQuery, None]) -> Points:
    """What the job reported, in order."""
    return await call.pool.engine.points((await _seen(call)).id, call.query.after, call.query.limit)


async def output(call: Call[NoQuery, None]) -> File:
    """A file of the job's output directory."""
    name, found = call.path["name"], await _seen(call)
    return File(name.rpartition("/")[2], await call.pool.engine.output(found.id, name))


ROUTES = (
    Route(
        "POST",
        "/jobs",
        "Submit a job",
        Who.LOGGED_IN,
        submit,
        takes=Submission,
        answers=Job,
        status=201,
        also=(200,),
    ),
    Route("GET", "/jobs", "List jobs, newest first", Who.LOGGED_IN, jobs, query=JobsQuery, answers=JobPage),
    Route("GET", "/jobs/{id}", "One job", Who.LOGGED_IN, job, answers=Job),
    Route("POST", "/jobs/{id}/pause", "Pause a job until it is resumed", Who.LOGGED_IN, pause, answers=Job),
    Route("POST", "/jobs/{id}/resume", "Resume a job its user paused", Who.LOGGED_IN, resume, answers=Job),
    Route("POST", "/jobs/{id}/cancel", "End a job for good", Who.LOGGED_IN, cancel, answers=Job),
    Route("GET", "/jobs/{id}/log", "A piece of a log", Who.LOGGED_IN, log, query=LogQuery, answers=LogChunk),
    Route(
        "GET", "/jobs/{id}/points", "What it reported", Who.LOGGED_IN, points, query=PointsQuery, answers=Points
    ),
    Route(
        "GET",
        "/jobs/{id}/output/{name:path}",
        "A file that the job left",
        Who.LOGGED_IN,
        output,
        media="application/octet-stream",
    ),
)
