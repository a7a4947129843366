"""Calls of administrators: projects, people, quotas and nodes, and what takes changes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from springtide.hub_extension.api import workspaces
from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler import wording
from springtide.scheduler.engine import UNDO
from springtide.scheduler.engine.requests.drains import find, still_runs
from springtide.scheduler.refusal import Refusal, unknown_project
from springtide.scheduler.wire import (
    Admin,
    AuditEntry,
    BudgetRequest,
    BudgetView,
    DrainRequest,
    EditPreview,
    FreeRequest,
    FreezeRequest,
    NodeView,
    PersonEdit,
    PersonView,
    ProjectEdit,
    ProjectView,
    Undrained,
    UndrainRequest,
    problem_of,
)
from springtide.scheduler.wire.shapes import ProjectName

Person = Annotated[str, Meta(min_length=1, max_length=255)]
AuditId = Annotated[int, Meta(ge=0, le=1 << 53)]


@route("GET", "/admin", Who.PROJECT_ADMINS)
async def admin(call: Call) -> Admin:
    """Return the projects that the caller administers, the people in them, and the totals of the pool."""
    hub, members = call.pool.hub, await call.pool.groups.members(fresh=True)
    found = replace(
        call.pool.engine.admin(members),
        leads=hub.leads(members),
        locked_members=hub.why_locked(),
        configured_members={name: list(people) for name, people in hub.configured_groups.items()},
    )
    if call.caller.admin:
        return found
    projects = [view for view in found.projects if may(call.caller, Action.CHANGE_MEMBERS, view.name)]
    names = {view.name for view in projects}
    people = [person for person in found.people if names & set(person.projects)]
    on_hold = [job for job in found.on_hold if may(call.caller, Action.HOLD, job.project)]
    leads = {name: found.leads[name] for name in ("", *(view.name for view in projects)) if name in found.leads}
    budgets = [each for each in found.budgets if may(call.caller, Action.REPORT, each.project)]
    return replace(
        found, projects=projects, people=people, on_hold=on_hold, leads=leads, outside=[], budgets=budgets
    )


@route("PUT", "/projects/{name}", Who.ADMINS, status=201)
async def create_project(call: Call, name: ProjectName, body: ProjectEdit) -> ProjectView:
    """Create a project, and the hub's group of the same name unless that exists."""
    groups, token = call.pool.groups, call.caller.token
    missing = name not in await groups.members(fresh=True)
    if missing:
        await groups.create(name, token)
    try:
        return await call.pool.engine.create_project(
            name, body, call.caller.name, members=await groups.members(fresh=True), made_group=missing
        )
    except Refusal:
        if missing:
            await groups.delete(name, token)
        raise


@route("PATCH", "/projects/{name}", Who.PROJECT_ADMINS)
async def edit_project(call: Call, name: ProjectName, body: ProjectEdit) -> ProjectView:
    """Change a project. Raises `Refusal` 403 unless the caller administers the pool, or the project it is in."""
    check_edit(call, name, body)
    members = await call.pool.groups.members(fresh=True)
    return await call.pool.engine.edit_project(name, body, call.caller.name, members=members)


def _check_create(call: Call, name: str, _edit: ProjectEdit) -> None:
    if not call.caller.admin:
        message = f"Only administrators of the pool may create the project {wording.given(name)}."
        raise Refusal(403, "forbidden", message)


class PreviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: ``new`` for a project that is yet to be created."""

    new: bool = False


@route("POST", "/projects/{name}/preview", Who.PROJECT_ADMINS)
async def preview_project(call: Call, name: ProjectName, body: ProjectEdit, query: PreviewQuery) -> EditPreview:
    """Return whether a change of a project, or a new one, would be refused, and why; nothing is changed."""
    try:
        (_check_create if query.new else check_edit)(call, name, body)
    except Refusal as refusal:
        return EditPreview(refused=problem_of(refusal))
    members, by = await call.pool.groups.members(), call.caller.name
    return await call.pool.engine.preview_project(name, body, by, members=members, new=query.new)


def may_edit(call: Call, name: str) -> bool:
    """Return whether the caller may change the numbers of a project: as an admin of the pool, or of one above."""
    above = call.pool.engine.project_parents().get(name)
    as_lead = above is not None and may(call.caller, Action.CHANGE_CHILD, above)
    return as_lead or may(call.caller, Action.CHANGE_PROJECT, name)


def check_edit(call: Call, name: str, edit: ProjectEdit) -> None:
    """Raise `Refusal` 403 unless the caller may change a project so, 404 for one that is not there."""
    if may(call.caller, Action.CHANGE_PROJECT, name):
        return
    views = {view.name: view for view in call.pool.engine.pool().projects}
    if name not in views:
        raise unknown_project(name)
    above = views[name].parent
    if above is None or not may_edit(call, name):
        message = (
            f"Only administrators of the pool, or of a project above {wording.given(name)}, may change "
            "its numbers."
        )
        raise Refusal(403, "forbidden", message, hint="Administrators of a project change the projects inside it.")
    if edit.parent not in {UNSET, above}:
        message = "Only administrators of the pool may move a project."
        raise Refusal(403, "forbidden", message, field="parent")
    for gpu_type, gpus in _by_type(edit.build_quota).items():
        kind = f"{gpu_type} GPU" if gpu_type else "GPU"
        most = views[above].build_by_type.get(gpu_type, 0) if gpu_type else views[above].build_quota
        if gpus > most:
            message = (
                f"The build quota of {wording.given(name)} cannot exceed that of {wording.given(above)}, which "
                f"is {wording.count(most, kind)}."
            )
            raise Refusal(403, "forbidden", message, field="build_quota", hint="Ask an administrator of the pool.")


def _by_type(quantity: int | Mapping[str, int | None] | UnsetType) -> dict[str, int]:
    """Return the numbers of GPUs by type, a plain number under no type; nothing for a field that is left out."""
    if isinstance(quantity, UnsetType):
        return {}
    if isinstance(quantity, int):
        return {"": quantity}
    return {gpu_type: number or 0 for gpu_type, number in quantity.items()}


@route("POST", "/projects/{name}/freeze", Who.PROJECT_ADMINS)
async def freeze(call: Call, name: ProjectName, body: FreezeRequest) -> ProjectView:
    """Freeze a project: none of its jobs starts; those that run are paused, or may finish."""
    _check_freeze(call, name)
    members = await call.pool.groups.members()
    return await call.pool.engine.freeze(name, body, call.caller.name, members=members)


@route("POST", "/projects/{name}/unfreeze", Who.PROJECT_ADMINS)
async def unfreeze(call: Call, name: ProjectName) -> ProjectView:
    """Unfreeze a project: its jobs start again."""
    _check_freeze(call, name)
    return await call.pool.engine.unfreeze(name, call.caller.name, members=await call.pool.groups.members())


def _check_freeze(call: Call, name: str) -> None:
    if not may(call.caller, Action.FREEZE, name):
        message = f"Only administrators of {wording.given(name)} and of the pool may freeze and unfreeze it."
        raise Refusal(403, "forbidden", message)


@route("PUT", "/projects/{name}/budget", Who.ADMINS)
async def set_budget(call: Call, name: ProjectName, body: BudgetRequest) -> BudgetView:
    """Give a project, with those inside it, a budget for each month, or change it; the present month counts."""
    engine = call.pool.engine
    await engine.budgets.set(name, body, call.caller.name)
    return next(each for each in engine.admin({}).budgets if each.project == name)


@route("DELETE", "/projects/{name}/budget", Who.ADMINS)
async def remove_budget(call: Call, name: ProjectName) -> None:
    """Take the budget of a project away."""
    await call.pool.engine.budgets.remove(name, call.caller.name)


@route("DELETE", "/projects/{name}", Who.ADMINS)
async def delete_project(call: Call, name: ProjectName) -> None:
    """Delete a project, and then the hub's group of the same name if it was created for the project."""
    if not await call.pool.engine.delete_project(name, call.caller.name):
        return
    try:
        await call.pool.groups.delete(name, call.caller.token)
    except Refusal as refusal:
        message = f"The project is deleted, but the hub's group of its name is still there. {refusal.message}"
        raise Refusal(refusal.status, refusal.code, message, hint=refusal.hint) from refusal


@route("PUT", "/projects/{name}/members/{user}", Who.PROJECT_ADMINS)
async def add_member(call: Call, name: ProjectName, user: Person) -> None:
    """Add a person to a project. Raises `Refusal` if the build quotas would exceed the build GPUs."""
    await put_in(call, name, user)


@route("PUT", "/projects/{name}/leads/{user}", Who.ADMINS)
async def add_lead(call: Call, name: ProjectName, user: Person) -> None:
    """Let a person lead a project, as a member of the group that a role of the hub is for."""
    await change_lead(call, name, user, leads=True)


@route("DELETE", "/projects/{name}/leads/{user}", Who.ADMINS)
async def remove_lead(call: Call, name: ProjectName, user: Person) -> None:
    """Let a person not lead a project any more."""
    await change_lead(call, name, user, leads=False)


async def change_lead(call: Call, project: str, user: str, *, leads: bool, undoes: int | None = None) -> None:
    """Put a person into the group that leads a project, or take one out, with an entry of the audit trail."""
    pool, who = call.pool, call.caller
    if not pool.engine.has_project(project):
        raise await pool.engine.unknown_project(project)
    group = pool.hub.lead_group(project)
    before = sorted((await pool.groups.members(fresh=True)).get(group, ()))
    if (user in before) is leads:
        return
    pool.hub.check_change(group, user, removed=not leads)
    changed = {"leads": before}, {"leads": sorted(set(before) ^ {user})}
    what = _kind("lead.add" if leads else "lead.remove", undoes)
    with pool.group_changes.making(group):
        await (pool.groups.add if leads else pool.groups.remove)(group, user, who.token)
        await pool.engine.record(who.name, what, project, *changed, project=project, undoes=undoes)


async def put_in(call: Call, project: str, user: str, *, undoes: int | None = None) -> None:
    """Put a person into a project, with an entry of the audit trail. Raises `Refusal` if the caller may not."""
    pool, who = call.pool, call.caller
    before = await _members(call, project)
    if user in before:
        return
    pool.hub.check_change(project, user, removed=False)
    after = sorted({*before, user})
    members = await pool.groups.members()
    pool.engine.check_members(after={**members, project: after}, before=members)
    changed = {"members": before}, {"members": after}
    what = _kind("member.add", undoes)
    with pool.group_changes.making(project):
        await pool.groups.add(project, user, who.token)
        await pool.engine.record(who.name, what, project, *changed, project=project, undoes=undoes)


@route("DELETE", "/projects/{name}/members/{user}", Who.PROJECT_ADMINS)
async def remove_member(call: Call, name: ProjectName, user: Person) -> None:
    """Remove a person from a project; the person's jobs continue to run."""
    await take_out(call, name, user)


async def take_out(call: Call, project: str, user: str, *, undoes: int | None = None) -> None:
    """Take a person out of a project, with an entry of the audit trail."""
    pool, who = call.pool, call.caller
    before = await _members(call, project)
    if user not in before:
        return
    pool.hub.check_change(project, user, removed=True)
    after = sorted(set(before) - {user})
    changed = {"members": before}, {"members": after}
    what = _kind("member.remove", undoes)
    with pool.group_changes.making(project):
        await pool.groups.remove(project, user, who.token)
        await pool.engine.record(who.name, what, project, *changed, project=project, undoes=undoes)


def _kind(what: str, undoes: int | None) -> str:
    """Return the kind of an audit entry; one that takes another back is named after that one."""
    kind, _, done = what.partition(".")
    return what if undoes is None else f"{UNDO}{kind}.{'remove' if done == 'add' else 'add'}"


async def _members(call: Call, project: str) -> list[str]:
    """Return the current members of one of the caller's administered projects.

    Raises `Refusal` for another project, and for a group of the hub that is no project.
    """
    if not may(call.caller, Action.CHANGE_MEMBERS, project):
        message = f"Only administrators of {wording.given(project)} or of the pool may change who is in it."
        raise Refusal(403, "forbidden", message)
    if not call.pool.engine.has_project(project):
        raise await call.pool.engine.unknown_project(project)
    return sorted((await call.pool.groups.members(fresh=True)).get(project, ()))


@route("PATCH", "/people/{name}", Who.ADMINS)
async def edit_person(call: Call, name: Person, body: PersonEdit) -> PersonView:
    """Set or remove a person's individual build quota."""
    members = await call.pool.groups.members(fresh=True)
    return await call.pool.engine.edit_person(name, body, call.caller.name, members=members)


@route("POST", "/people/{name}/preview", Who.ADMINS)
async def preview_person(call: Call, name: Person, body: PersonEdit) -> EditPreview:
    """Return whether a person's individual build quota would be refused, and why; nothing is changed."""
    members = await call.pool.groups.members()
    return call.pool.engine.preview_person(name, body, call.caller.name, members=members)


@route("POST", "/nodes/drain", Who.ADMINS)
async def drain(call: Call, body: DrainRequest) -> NodeView:
    """Drain a node or a GPU: nothing new starts there, and its jobs move elsewhere or finish."""
    entry = await call.pool.engine.drain_node(body, call.caller.name)
    node = next(node for node in call.pool.engine.pool().nodes if node.name == body.node)
    return replace(node, entry=entry)


@route("POST", "/nodes/undrain", Who.ADMINS)
async def undrain(call: Call, body: UndrainRequest) -> Undrained:
    """Let jobs start on a node or GPU again."""
    return Undrained(entry=await call.pool.engine.undrain_node(body, call.caller.name))


@route("POST", "/gpus/free", Who.ADMINS)
async def free_gpus(call: Call, body: FreeRequest) -> None:
    """Free the GPUs of an ended job or notebook without a place in the pool; with ``end``, end it first.

    A notebook that the hub has counts as one that has not ended.
    """
    pool, caller = call.pool, call.caller
    found = find(pool.engine.pool().unmatched, body.holder)
    if found.kind == "notebook":
        if body.end:
            await workspaces.end(pool, caller, found.user, found.name)
            await pool.engine.record_end(found, caller.name)
            return
        if any(server.name == found.name for server in await pool.groups.servers(found.user)):
            raise still_runs(found, "a server that the hub has")
    await pool.engine.free_gpus(body, caller.name)


@route("POST", "/audit/{id}/undo", Who.ADMINS)
async def undo(call: Call, id: AuditId) -> None:
    """Undo a change; changes of membership are undone with the caller's own permissions on the hub."""
    entry = await call.pool.engine.audit_entry(id)
    if entry.what in {"member.add", "member.remove"}:
        await _undo_membership(call, entry)
        return
    if entry.what in {"lead.add", "lead.remove"}:
        await _undo_lead(call, entry)
        return
    groups, token = call.pool.groups, call.caller.token
    members = await groups.members(fresh=True)
    missing = entry.what == "project.delete" and entry.subject not in members
    if missing:
        await groups.create(entry.subject, token)
    try:
        await call.pool.engine.undo(entry.id, call.caller.name, members=members)
    except Refusal:
        if missing:
            await groups.delete(entry.subject, token)
        raise


async def _undo_lead(call: Call, entry: AuditEntry) -> None:
    """Take a change of who leads a project back."""
    person, leads = _changed_person(entry, "leads")
    group = call.pool.hub.lead_group(entry.subject)
    if leads is not (person in (await call.pool.groups.members(fresh=True)).get(group, ())):
        raise _changed_since(f"Who leads {wording.given(entry.subject)}")
    await change_lead(call, entry.subject, person, leads=not leads, undoes=entry.id)


async def _undo_membership(call: Call, entry: AuditEntry) -> None:
    """Remove people whom the change added to a project, or add people whom it removed."""
    person, joined = _changed_person(entry, "members")
    if joined is not (person in await _members(call, entry.subject)):
        raise _changed_since(f"Who is in {wording.given(entry.subject)}")
    await (take_out if joined else put_in)(call, entry.subject, person, undoes=entry.id)


def _changed_person(entry: AuditEntry, field: str) -> tuple[str, bool]:
    """Return whom a change of a group was about, and whether it added the person. Raises `Refusal` if undone."""
    if not entry.undo:
        raise Refusal(409, "undone", "This change was taken back already.")
    was, became = set(entry.before[field]), set(entry.after[field])
    (person,) = was ^ became
    return person, person in became


def _changed_since(what: str) -> Refusal:
    message = f"{what} was changed since, so this change cannot be taken back."
    return Refusal(409, "changed", message, hint="Change it by hand.")
