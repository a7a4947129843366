"""Calls about people who leave the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from springtide.hub_extension.api import workspaces
from springtide.hub_extension.api.administration import Person, change_lead, take_out
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.engine.requests.departures import Leaver
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Departure, LeaveRequest
from springtide.scheduler.wording import quoted

Members = Mapping[str, Sequence[str]]


@dataclass(slots=True)
class _InHub:
    """What a person has in the hub: projects that she is in and leads, servers, and what stays and why."""

    projects: list[str] = field(default_factory=list)
    leads: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def steps(self) -> list[str]:
        """Return what becomes of it, in sentences."""
        return [
            *(f"The workspace{f' {quoted(server)}' if server else ''} is stopped." for server in self.servers),
            *(f"{quoted(project)} has one member less." for project in self.projects),
            *(f"{quoted(project)} has one lead less." for project in self.leads),
        ]


@route("POST", "/people/{name}/leave", Who.ADMINS)
async def leave(call: Call, name: Person, body: LeaveRequest) -> Departure:
    """Hand over or cancel a person's jobs, stop her workspaces, and take her out of all projects."""
    pool, by = call.pool, call.caller.name
    members = await pool.groups.members(fresh=True)
    leaver = Leaver(name, body.to, members)
    left = pool.engine.preview_departure(leaver, by)
    in_hub = await _in_hub(call, name, members)
    if not body.dry_run:
        for project in in_hub.projects:
            await take_out(call, project, name)
        for project in in_hub.leads:
            await change_lead(call, project, name, leads=False)
        left = await pool.engine.leave(leaver, by)
        for server in in_hub.servers:
            await workspaces.end(pool, call.caller, name, server)
            subject = "/".join(filter(None, (name, server)))
            await pool.engine.record(by, "workspace.stop", subject, {"user": name}, {})
    return Departure(
        steps=[*left.steps, *in_hub.steps()],
        kept=[*left.kept, *in_hub.kept],
        pending=left.pending,
        done=not body.dry_run,
    )


async def _in_hub(call: Call, name: str, members: Members) -> _InHub:
    pool, found = call.pool, _InHub()
    found.servers = [each.name for each in await pool.groups.servers(name)]
    for project, people in sorted(members.items()):
        if name not in people or not pool.engine.has_project(project):
            continue
        try:
            pool.hub.check_change(project, name, removed=True)
        except Refusal as refusal:
            found.kept.append(f"{quoted(name)} stays a member of {quoted(project)}. {refusal.message}")
        else:
            found.projects.append(project)
    for project, leads in sorted(pool.hub.leads(members).items()):
        for lead in leads:
            if lead.name == name and lead.locked:
                found.kept.append(
                    f"{quoted(name)} still leads {quoted(project) if project else 'every project'}. {lead.locked}"
                )
            elif lead.name == name:
                found.leads.append(project)
    return found
