"""Calls about the caller: who it is, what it may ask for, and its default project."""

from __future__ import annotations

from msgspec import UNSET

from springtide.hub_extension.api.choices import check_may_submit, default_of, usable, usable_secrets
from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.engine import default_projects
from springtide.scheduler.model import PRIORITIES, Environment
from springtide.scheduler.wire import Me, MeEdit


@route("GET", "/me", Who.LOGGED_IN, jobs=True)
async def me(call: Call) -> Me:
    """Return the caller's identity and the choices of the form for jobs."""
    caller, pool = call.caller, call.pool
    view = pool.engine.pool()
    mine = [project.name for project in view.projects if may(caller, Action.SUBMIT, project.name)]
    quota = pool.engine.build_quota(caller.name, sorted(caller.groups))
    return Me(
        name=caller.name,
        admin=caller.admin,
        service=caller.service,
        projects=pool.engine.choices(mine),
        priorities=dict(PRIORITIES),
        gpu_types=sorted({node.gpu_type for node in view.nodes if node.environment == Environment.TRAIN} - {""}),
        simulated=view.simulated,
        build_quota=quota.quota,
        build_held=quota.held,
        max_body=pool.max_body,
        grace=pool.grace,
        version=pool.version,
        images=list(pool.engine.settings.images or ()),
        datasets=[each.name for each in usable(pool, caller)],
        secrets=usable_secrets(pool, caller),
        default_project=default_of(pool, caller),
        presets=pool.engine.presets.usable(mine),
        noted_variables=list(pool.engine.settings.noted_variables),
    )


@route("PATCH", "/me", Who.LOGGED_IN)
async def edit_me(call: Call, body: MeEdit) -> Me:
    """Change the caller's default project. Raises `Refusal` for one that the caller may not submit for."""
    user, chosen, pool = person(call, "a default project"), body.default_project, call.pool
    if chosen is not UNSET:
        if chosen is not None:
            check_may_submit(pool, call.caller, chosen, field="default_project")
        await pool.engine.change(lambda transaction: default_projects.choose(transaction, user, chosen))
    return await me(call)
