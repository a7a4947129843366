"""Calls about requests for changes that others decide."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from springtide.hub_extension.api.administration import check_edit, may_edit, put_in
from springtide.hub_extension.api.jobs import seen
from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.permissions import Action, may, owns
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.engine.requests.change_requests import granted_of, unknown_request
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import (
    ChangeApproval,
    ChangeRefusal,
    ChangeRequests,
    ChangeRequestView,
    JobWanted,
    MembershipWanted,
    NewChangeRequest,
    ProjectWanted,
    WantedChange,
)
from springtide.scheduler.wording import given

PENDING = "pending"
Number = Annotated[int, Meta(ge=1, le=1 << 53)]


@route("GET", "/requests", Who.LOGGED_IN)
async def requests(call: Call) -> ChangeRequests:
    """Return the caller's requests, and those that the caller may decide; pending ones first."""
    views = call.pool.engine.change_requests.listed(await call.pool.groups.members())
    found = [_with_obstacle(call, replace(view, may_decide=_may_decide(call, view))) for view in views]
    return ChangeRequests(items=[view for view in found if view.may_decide or owns(call.caller, view.user)])


@route("POST", "/requests", Who.LOGGED_IN, status=201)
async def ask(call: Call, body: NewChangeRequest) -> ChangeRequestView:
    """Ask for a change that others decide: quota of a project, build GPUs, a membership, or limits of a job."""
    user = person(call, "requests")
    await _check_asks(call, body.wanted)
    members = await call.pool.groups.members(fresh=True)
    return await _one(call, await call.pool.engine.change_requests.make(body, user, members))


@route("DELETE", "/requests/{number}", Who.LOGGED_IN)
async def withdraw(call: Call, number: Number) -> None:
    """Take a request of the caller's own back."""
    await call.pool.engine.change_requests.withdraw(number, person(call, "requests"))


@route("POST", "/requests/{number}/approve", Who.PROJECT_ADMINS)
async def approve(call: Call, number: Number, body: ChangeApproval) -> ChangeRequestView:
    """Make the change of a request, or grant other values, with the permissions that the change itself takes."""
    asked, pool = await _to_decide(call, number), call.pool
    granted = granted_of(pool.engine.change_requests.pending(number), body)
    if isinstance(granted, ProjectWanted):
        check_edit(call, granted.project, granted.edit)
    elif isinstance(granted, MembershipWanted):
        await put_in(call, granted.project, asked.user)
    members = await pool.groups.members(fresh=True)
    await pool.engine.change_requests.approve(number, body, call.caller.name, members)
    return await _one(call, number)


@route("POST", "/requests/{number}/refuse", Who.PROJECT_ADMINS)
async def refuse(call: Call, number: Number, body: ChangeRefusal) -> ChangeRequestView:
    """Refuse a request, with a reason for the person who asked."""
    await _to_decide(call, number)
    await call.pool.engine.change_requests.refuse(number, body, call.caller.name)
    return await _one(call, number)


async def _check_asks(call: Call, wanted: WantedChange) -> None:
    """Raise `Refusal` for a change of a project that the caller is not in, or of another person's job."""
    if isinstance(wanted, ProjectWanted):
        if not may(call.caller, Action.ASK, wanted.project):
            message = f"Only members of {given(wanted.project)} may ask for more of it."
            hint = f"Ask for membership first: `springtide request join {wanted.project}`."
            raise Refusal(403, "forbidden", message, hint=hint)
    elif isinstance(wanted, JobWanted):
        job = await seen(call, wanted.job)
        if not may(call.caller, Action.EDIT, job.project, job.user):
            message = f"Only {job.user} and administrators of {given(job.project)} may ask for more for the job."
            raise Refusal(403, "forbidden", message)


async def _to_decide(call: Call, number: int) -> ChangeRequestView:
    """Return a request that the caller may decide. Raises `Refusal`: 404 for one that the caller does not see."""
    view = await _one(call, number)
    if not view.may_decide:
        message = f"Request {number} is decided by those who may make its change."
        raise Refusal(403, "forbidden", message, hint="You may withdraw it.")
    return view


async def _one(call: Call, number: int) -> ChangeRequestView:
    found = next((view for view in (await requests(call)).items if view.number == number), None)
    if found is None:
        raise unknown_request(number)
    return found


def _with_obstacle(call: Call, view: ChangeRequestView) -> ChangeRequestView:
    """Return a request with its obstacle in the hub, unless it has one in the pool."""
    if view.state != PENDING or view.obstacle or not isinstance(view.wanted, MembershipWanted):
        return view
    try:
        call.pool.hub.check_change(view.wanted.project, view.user, removed=False)
    except Refusal as refusal:
        return replace(view, obstacle=f"{refusal.message} {refusal.hint}".strip())
    return view


def _may_decide(call: Call, view: ChangeRequestView) -> bool:
    """Return whether the caller may make the change of a request."""
    caller, wanted = call.caller, view.wanted
    if isinstance(wanted, MembershipWanted):
        return may(caller, Action.CHANGE_MEMBERS, wanted.project)
    if isinstance(wanted, ProjectWanted | JobWanted):
        return may_edit(call, view.project)
    return may(caller, Action.CHANGE_PERSON, "")
