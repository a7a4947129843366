"""Calls of the hub's spawner: build GPUs for notebooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, structs

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.notebook_watch import Notebook
from springtide.hub_extension.api.routes import Call, Pool, Who, route
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Server
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.engine.requests.grants import usable_by
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import BuildQuota, Workspace, WorkspaceList, WorkspaceRequest, WorkspaceView

log = logging.getLogger("springtide")

ServerName = Annotated[str, Meta(max_length=255)]


class ServerQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the name of a person's notebook server, which is empty for the default one."""

    server: ServerName = ""


class WorkspacesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: whether to list everybody's workspaces, which only admins may."""

    everybody: bool = False


async def _projects(pool: Pool, user: str, *, fresh: bool) -> list[str]:
    """Return the projects that a person is in, according to the hub."""
    members = await pool.groups.members(fresh=fresh)
    return sorted(project for project, people in members.items() if user in people)


@route("POST", "/workspaces", Who.SPAWNER)
async def reserve(call: Call, body: WorkspaceRequest) -> Workspace:
    """Reserve GPUs for a notebook, or return its existing reservation.

    Before a request is refused, GPUs of notebooks that have gone are released.
    """
    pool = call.pool
    notebook = body.user, body.server
    pool.notebooks.reserving(notebook)
    projects = await _projects(pool, body.user, fresh=True)

    async def reserved() -> Workspace:
        wanted = *notebook, body.gpus, projects
        workspace = await pool.engine.reserve_workspace(*wanted, gpu_type=body.gpu_type, runs_on=body.runs_on)
        return structs.replace(workspace, datasets=_datasets(pool, projects))

    try:
        return await reserved()
    except Refusal as refusal:
        if refusal.status != 409 or not await _released(pool, notebook):
            raise
    return await reserved()


def _datasets(pool: Pool, projects: list[str]) -> list[Dataset]:
    """Return the datasets that a person in these projects may use."""
    found = usable_by(projects, pool.engine.project_parents(), pool.engine.settings.datasets)
    return [each for each, _ in found.values()]


async def _released(pool: Pool, starting: Notebook) -> bool:
    """Release GPUs of notebooks that have gone, and return whether there were any.

    The notebook ``starting`` is left out. Returns False if it is not known which have gone.
    """
    try:
        return await pool.notebooks.release_gone(pool.engine, pool.groups, starting) > 0
    except Refusal:
        return False


@route("DELETE", "/workspaces/{user}", Who.SPAWNER)
async def release(call: Call, user: str, query: ServerQuery) -> None:
    """Release a notebook's GPUs, now or once its processes have ended; it is no error if it has none."""
    await call.pool.notebooks.release(call.pool.engine, (user, query.server))


@route("GET", "/workspaces", Who.LOGGED_IN)
async def workspaces(call: Call, query: WorkspacesQuery) -> WorkspaceList:
    """Return the caller's workspaces, or for an admin everybody's, with their GPUs.

    These are those that the hub has, and those that run although the hub does not know them.
    """
    pool, caller = call.pool, call.caller
    if query.everybody and not permissions.may_see_all_workspaces(caller):
        raise Refusal(403, "forbidden", "Only administrators of the pool see everybody's workspaces.")
    reserved = {(each.user, each.server): each for each in pool.engine.workspaces()}
    users = sorted({user for user, _ in reserved} | {caller.name}) if query.everybody else [caller.name]
    types = {node.name: node.gpu_type for node in pool.engine.pool().nodes}
    servers = await asyncio.gather(*map(pool.groups.servers, users))
    projects = {user: await _projects(pool, user, fresh=False) for user in users}
    idle = pool.engine.idle_workspaces
    items = [
        structs.replace(
            _view(user, server, reserved.get((user, server.name)), types),
            idle=idle.view(user, server.name, projects[user]),
        )
        for user, there in zip(users, servers, strict=True)
        for server in there
    ]
    known = {(each.user, each.server) for each in items}
    items += [
        structs.replace(
            _view(user, Server(server, "unknown"), reserved.get((user, server)), types), place=it.place
        )
        for (user, server), it in sorted(pool.notebooks.unknown.items())
        if user in users and (user, server) not in known
    ]
    return WorkspaceList(items=items, stopped=idle.stopped(caller.name))


def _view(user: str, server: Server, reserved: Workspace | None, types: Mapping[str, str]) -> WorkspaceView:
    return WorkspaceView(
        user=user,
        server=server.name,
        state=server.state,
        gpus=0 if reserved is None else reserved.gpus,
        gpu_type="" if reserved is None or not reserved.gpus else types.get(reserved.node, ""),
        labels=[] if reserved is None else reserved.labels,
        simulated=reserved is not None and reserved.simulated,
        since=server.since,
        last_activity=server.last_activity,
        path=server.path,
    )


@route("POST", "/workspaces/{user}/stop", Who.LOGGED_IN)
async def stop(call: Call, user: str, query: ServerQuery) -> None:
    """Stop a workspace with the caller's own permissions on the hub.

    One that the hub does not know is ended by the service.
    """
    if not (permissions.owns(call.caller, user) or permissions.may_administer(call.caller)):
        raise Refusal(403, "forbidden", f"The workspace is {user}'s; only {user} and administrators may stop it.")
    await end(call.pool, call.caller, user, query.server)
    if not permissions.owns(call.caller, user):
        subject = "/".join(filter(None, (user, query.server)))
        await call.pool.engine.record(call.caller.name, "workspace.stop", subject, {"user": user}, {})


async def end(pool: Pool, caller: Caller, user: str, server: str) -> None:
    """Stop a workspace that the caller may stop; see `stop`."""
    if (user, server) in pool.notebooks.unknown:
        log.warning("%s ends %s's notebook %r, which the hub does not know", caller.name, user, server)
        await pool.engine.end_notebook(user, server)
        await pool.notebooks.release_gone(pool.engine, pool.groups)
        return
    await pool.groups.stop_server(user, server, caller.token)


@route("GET", "/build-quota/{user}", Who.SPAWNER_OR_PERSON)
async def build_quota(call: Call, user: str) -> BuildQuota:
    """Return a person's build quota and its use. Raises `Refusal` 403 if the caller may not see it."""
    if not permissions.may_see_build_quota(call.caller, user):
        raise Refusal(403, "forbidden", "Only the person herself and administrators may see a build quota.")
    own = permissions.owns(call.caller, user)
    projects = sorted(call.caller.groups) if own else await _projects(call.pool, user, fresh=False)
    quota = call.pool.engine.build_quota(user, projects)
    return structs.replace(quota, stopped=call.pool.engine.idle_workspaces.stopped(user))
