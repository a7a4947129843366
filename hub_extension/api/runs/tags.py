"""The call that changes a job's tags."""

from __future__ import annotations

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.jobs import seen
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Job, TagsEdit


@route("PATCH", "/jobs/{id}/tags", Who.LOGGED_IN)
async def edit_tags(call: Call, id: str, body: TagsEdit) -> Job:
    """Change the tags of a job, also of one that has ended."""
    found = await seen(call, id)
    if not permissions.may(call.caller, Action.TAG, found.project, found.user):
        message = f"The job is {found.user}'s; only {found.user} and administrators may change its tags."
        raise Refusal(403, "forbidden", message)
    await call.pool.engine.tags.edit(found.id, body, call.caller.name)
    return await call.pool.engine.job(found.id)
