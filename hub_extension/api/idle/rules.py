"""Rules for idle workspaces, which administrators of the pool set."""

from __future__ import annotations

from springtide.hub_extension.api.routes import Call, NoQuery, Route, Who
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import IdleRule, RuleScope
from springtide.scheduler.wire import IdleRuleEdit, IdleRules


async def rules(call: Call[NoQuery, None]) -> IdleRules:
    """Return the rules of the pool, of projects and of people."""
    return call.pool.engine.idle_workspaces.rules()


async def set_rule(call: Call[NoQuery, IdleRuleEdit]) -> IdleRules:
    """Set or remove a rule and return all. Raises `Refusal` for a project or person without a name."""
    edit, idle = call.body, call.pool.engine.idle_workspaces
    if bool(edit.name) is (edit.scope == "pool"):
        wanted = "none" if edit.scope == "pool" else f"that of the {edit.scope}"
        raise Refusal(422, "invalid", f"The rule is for the {edit.scope}; its name is {wanted}.", field="name")
    rule = None if edit.rule is None else IdleRule(edit.rule.tell_after, edit.rule.notice)
    await idle.set_rule((RuleScope(edit.scope), edit.name), rule, call.caller.name)
    return idle.rules()


ROUTES = (
    Route("GET", "/idle-rules", "Rules for idle workspaces", Who.ADMINS, rules, answers=IdleRules),
    Route(
        "PATCH",
        "/idle-rules",
        "Set a rule for idle workspaces",
        Who.ADMINS,
        set_rule,
        takes=IdleRuleEdit,
        answers=IdleRules,
    ),
)
