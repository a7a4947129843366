"""Calls of the home page of administrators: what needs them, and the pool in numbers."""

from __future__ import annotations

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Home, NeedAbout, NeedLeave, NeedList, QuotasFit, QuotasFitted


@route("GET", "/home", Who.ADMINS)
async def home(call: Call) -> Home:
    """Return the pool in numbers of the last 30 days and of now, and the next seven days."""
    return await call.pool.engine.home.home()


@route("GET", "/needs", Who.ADMINS_OR_DOCTOR)
async def needs(call: Call) -> NeedList:
    """Return what needs an administrator. Raises `Refusal` 403 for others."""
    if not permissions.may_see_needs(call.caller):
        raise Refusal(403, "forbidden", "Only administrators of the pool see what needs them.")
    return await call.pool.engine.needs.listed()


@route("POST", "/needs/leave", Who.ADMINS)
async def leave(call: Call, body: NeedLeave) -> NeedList:
    """Leave an entry as it is for some days. Raises `Refusal` 404 for one that is not there."""
    await call.pool.engine.needs.leave(body.id, body.days, call.caller.name)
    return await call.pool.engine.needs.listed()


@route("POST", "/needs/show", Who.ADMINS)
async def show(call: Call, body: NeedAbout) -> NeedList:
    """Show an entry again that was left as it is. Raises `Refusal` 404 for one that is not there."""
    await call.pool.engine.needs.take_back(body.id, call.caller.name)
    return await call.pool.engine.needs.listed()


@route("POST", "/needs/tell", Who.ADMINS)
async def tell(call: Call, body: NeedAbout) -> NeedList:
    """Notify the owner of unused GPUs, and leave the entry for a day. Raises `Refusal` 404 for an unknown one."""
    await call.pool.engine.needs.tell(body.id, call.caller.name)
    return await call.pool.engine.needs.listed()


@route("POST", "/quotas/fit", Who.ADMINS)
async def fit_quotas(call: Call, body: QuotasFit) -> QuotasFitted:
    """Scale all quotas of a type until they fit into the pool. Raises `Refusal` 409 if they do already."""
    return QuotasFitted(projects=await call.pool.engine.needs.fit(body.gpu_type, call.caller.name))
