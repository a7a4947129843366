"""Rules for idle workspaces, which administrators of the pool set."""

from __future__ import annotations

from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import IdleRule, RuleScope
from springtide.scheduler.wire import IdleRuleEdit, IdleRules


@route("GET", "/idle-rules", Who.ADMINS)
async def rules(call: Call) -> IdleRules:
    """Return the rules of the pool, of projects and of people."""
    return call.pool.engine.idle_workspaces.rules()


@route("PATCH", "/idle-rules", Who.ADMINS)
async def set_rule(call: Call, body: IdleRuleEdit) -> IdleRules:
    """Set or remove a rule and return all. Raises `Refusal` for a project or person without a name."""
    edit, idle = body, call.pool.engine.idle_workspaces
    if bool(edit.name) is (edit.scope == "pool"):
        wanted = "none" if edit.scope == "pool" else f"that of the {edit.scope}"
        raise Refusal(422, "invalid", f"The rule is for the {edit.scope}; its name is {wanted}.", field="name")
    rule = None if edit.rule is None else IdleRule(edit.rule.tell_after, edit.rule.notice)
    await idle.set_rule((RuleScope(edit.scope), edit.name), rule, call.caller.name)
    return idle.rules()
