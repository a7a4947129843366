"""Calls about checkpoints of jobs, and those that continue a job from one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

from msgspec import Struct

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.jobs import (
    lineage_of,
    parameters_size,
    record_reading,
    seen,
    take,
)
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.presets import naming_preset
from springtide.hub_extension.api.reruns import changes_asked, hold_checkpoints, rerunnable
from springtide.hub_extension.api.routes import Call, Reply, Who, route
from springtide.scheduler.engine.forks import NOT_FOUND, Source
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import CheckpointList, CheckpointsDelete, Fork, Job
from springtide.scheduler.wire.reruns import arguments_of

T = TypeVar("T")
MOST_CHOICES: Final = 20
"""Maximum number of times that a fork chooses the newest checkpoint, if its job removes each during the copy."""


@route("GET", "/jobs/{id}/checkpoints", Who.LOGGED_IN, jobs=True)
async def checkpoints(call: Call, id: str) -> CheckpointList:
    """Return the checkpoints that a job has saved, the newest first."""
    job = await seen(call, id)
    await record_reading(call, job, "job.read_outputs")
    with hold_checkpoints(call):
        return await call.pool.engine.forks.checkpoints(job.id)


@route("POST", "/jobs/{id}/checkpoints/delete", Who.LOGGED_IN, jobs=True)
async def delete_checkpoints(call: Call, id: str, body: CheckpointsDelete) -> CheckpointList:
    """Delete checkpoints of a job, and return the others."""
    job = await seen(call, id)
    if not permissions.may(call.caller, Action.DELETE_CHECKPOINTS, job.project, job.user):
        message = f"The job is {job.user}'s; only {job.user} may delete its checkpoints."
        raise Refusal(403, "forbidden", message)
    with hold_checkpoints(call):
        return await call.pool.engine.forks.delete(job.id, body.names, force=body.force)


@route("POST", "/jobs/{id}/fork", Who.LOGGED_IN, status=201, also=(200,), jobs=True)
async def fork(call: Call, id: str, body: Annotated[Struct, Fork]) -> Reply[Job]:
    """Submit a job that continues from a checkpoint of another one; both are on disk before the answer.

    A request with a ``key`` may be repeated. The caller may fork what the caller may run again.
    """
    caller, pool = call.caller, call.pool
    given: dict[str, Any] = {name: getattr(body, name) for name in ("step", "checkpoint", "key")}
    first = await rerunnable(call, id)
    engine, key = pool.engine, given["key"]
    if key is not None and (known := await engine.job_of_key(caller.name, key)) is not None:
        return Reply(known, 200)
    take(pool.submissions, caller, "You submit faster than this pool takes jobs of one person.")
    changes = await changes_asked(call, body, first)
    sent = False

    async def forked() -> Reply[Job]:
        nonlocal sent
        source = Source(*await engine.forks.source(id, given["step"], given["checkpoint"]))
        submission = await engine.forks.submission(source, body, changes.options)
        if not sent:
            size = sum(map(len, submission.files.values())) + parameters_size(submission)
            take(pool.uploads, caller, "You send files faster than this pool takes them of one person.", size)
        sent = True
        requested_at = pool.clock()
        with naming_preset(changes.preset, changes.filled_in):
            accepted = await engine.submit(
                submission,
                caller.name,
                changes.project,
                again=first,
                typed=arguments_of(body),
                fork=source,
                lineage=lineage_of(caller),
            )
        return Reply(accepted, 201 if accepted.submitted >= requested_at else 200)

    with hold_checkpoints(call):
        if given["step"] is not None or given["checkpoint"] is not None:
            return await forked()
        return await of_newest(id, forked)


async def of_newest(job_id: str, forked: Callable[[], Awaitable[T]]) -> T:
    """Return what ``forked`` does with the newest checkpoint, chosen again if its job removes it meanwhile."""
    for _ in range(MOST_CHOICES):
        try:
            return await forked()
        except Refusal as refusal:
            if refusal.code != NOT_FOUND:
                raise
    raise Refusal(
        409,
        NOT_FOUND,
        f"The job removed each of {MOST_CHOICES} checkpoints before a fork had a copy: it saves very often.",
        hint=f"Pause it first: springtide pause {job_id}. Or have it keep more of them, with keep_last.",
    )
