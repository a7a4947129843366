"""The call that starts a program inside a running job, for its owner alone."""

from __future__ import annotations

import shlex
from typing import Final

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.jobs import seen
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.executors.session import SessionSpec
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Job, SessionOpened, SessionRequest
from springtide.scheduler.wording import given

MAX_RECORDED: Final = 1000
"""Maximum length of a command in the audit trail, in characters."""


@route("POST", "/jobs/{id}/sessions", Who.LOGGED_IN, status=201)
async def open_session(call: Call, id: str, body: SessionRequest) -> SessionOpened:
    """Start a program inside a running job of the caller's own, with its terminal or pipes on a WebSocket."""
    pool, caller = call.pool, call.caller
    job = await seen(call, id)
    check_may_enter(call, job)
    with pool.sessions.reserve(caller.name) as slot:
        attempt = await pool.engine.sessions.attempt(job.id, body.rank)
        command = shlex.join(body.argv)[:MAX_RECORDED] or "(a shell)"
        recorded = {"command": command, "worker": body.rank, "attempt": attempt.attempt}
        about = {"name": job.name}
        await pool.engine.record(caller.name, "job.exec", job.id, about, recorded, project=job.project)
        spec = SessionSpec(body.rank, tuple(body.argv), body.terminal, body.kind)
        session = await pool.engine.sessions.open(attempt, spec)
        return SessionOpened(id=pool.sessions.add(session, caller.name, job.project, slot.pop_all()).id)


def check_may_enter(call: Call, job: Job) -> None:
    """Raise `Refusal` 403 unless the job is the caller's own, and its project still the caller's."""
    if permissions.may(call.caller, Action.ENTER, job.project, job.user):
        return
    if permissions.owns(call.caller, job.user):
        message = f"You are no longer in project {given(job.project)}, on whose account the job runs."
        raise Refusal(403, "forbidden", message)
    message = f"The job is {job.user}'s; others may not open a terminal or run a command in it."
    raise Refusal(403, "forbidden", message)
