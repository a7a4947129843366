"""Calls about the rules for an identity provider's groups: what they do, and what others would do."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.hub_extension.api.routes import Call, Who, route
from springtide.hub_extension.group_rules import preview, problem_of
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import GroupRule, GroupRulesPreview, GroupRulesView


@route("GET", "/group-rules", Who.ADMINS)
async def group_rules(call: Call) -> GroupRulesView:
    """Return the rules for groups, and what they do with the groups that the hub knows."""
    return await _with(call, call.pool.hub.rules())


@route("POST", "/group-rules/preview", Who.ADMINS)
async def preview_group_rules(call: Call, body: GroupRulesPreview) -> GroupRulesView:
    """Return what other rules for groups would do; nothing changes."""
    for at, rule in enumerate(body.rules):
        problem = problem_of(rule)
        if problem:
            raise Refusal(422, "invalid", problem, field=f"rules[{at}]")
    return await _with(call, body.rules)


async def _with(call: Call, rules: Sequence[GroupRule]) -> GroupRulesView:
    pool = call.pool
    return preview(
        rules,
        pool.hub.rules(),
        await pool.groups.members(fresh=True),
        pool.engine.project_parents(),
        managed=pool.hub.managed_groups,
    )
