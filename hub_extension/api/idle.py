"""Calls about idle workspaces: reports of notebook servers about their use, and the rules for them.

The report of a notebook server decides what to do, so that the decision is as recent as the request. Only if
there is something to do, the service asks the hub for the activity that it has seen.
"""

from __future__ import annotations

import logging

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.routes import Call, Pool, Who, route
from springtide.hub_extension.api.workspaces import ServerQuery
from springtide.scheduler.engine.idle import Decision, Step
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import IdleRule, RuleScope
from springtide.scheduler.wire import IdleRuleEdit, IdleRules, ReportAgain, WorkspaceActivity
from springtide.scheduler.wording import given

log = logging.getLogger("springtide")

ACTS = frozenset({Step.TELL, Step.STOP})


@route("POST", "/workspace-activity", Who.LOGGED_IN)
async def report(call: Call, body: WorkspaceActivity) -> ReportAgain:
    """Record the activity of a notebook server of the caller, and return when it is to report again."""
    user, activity, pool = person(call, "workspaces"), body, call.pool
    server, idle, projects = activity.server, pool.engine.idle_workspaces, sorted(call.caller.groups)
    idle.report(user, server, activity)
    decision = idle.decide(user, server, projects)
    if decision is not None and decision.step in ACTS and await _seen_by_hub(pool, user, server):
        decision = idle.decide(user, server, projects)
    if decision is not None and decision.step is not Step.NOTHING:
        await _carry_out(pool, user, server, projects, decision)
        decision = idle.decide(user, server, projects)
    return ReportAgain(seconds=idle.next_report(decision))


async def _seen_by_hub(pool: Pool, user: str, server: str) -> bool:
    """Take in the activity that the hub knows of; return whether it has the server running."""
    found = next((each for each in await pool.groups.servers(user) if each.name == server), None)
    if found is None or found.state != "running":
        return False
    pool.engine.idle_workspaces.see(user, server, found.last_activity)
    return True


async def _carry_out(pool: Pool, user: str, server: str, projects: list[str], decision: Decision) -> None:
    """Carry out a decision; a failure is tried again at the next report."""
    idle = pool.engine.idle_workspaces
    name = f"{user}'s workspace {given(server)}"
    if decision.step is Step.TELL:
        await idle.tell(user, server, decision, idle.rule(user, projects))
        log.info("%s has not used its GPUs for %.0f s, and its owner is notified", name, decision.unused)
    elif decision.step is Step.FORGET:
        await idle.forget(user, server)
    elif await idle.stopping(user, server, decision):
        log.warning("%s is stopped: it has not used its GPUs for %.0f s", name, decision.unused)
        try:
            await pool.groups.stop_server(user, server, None)
        except Refusal as refusal:
            log.error("%s cannot be stopped: %s", name, refusal.message)  # noqa: TRY400 - the hub's word
            await idle.not_stopped(user, server)


@route("POST", "/workspaces/{user}/keep", Who.LOGGED_IN)
async def keep(call: Call, user: str, query: ServerQuery) -> None:
    """Keep an idle workspace as if it were used now."""
    if not (permissions.owns(call.caller, user) or permissions.may_administer(call.caller)):
        raise Refusal(403, "forbidden", f"The workspace is {user}'s; only {user} and administrators may keep it.")
    await call.pool.engine.idle_workspaces.keep(user, query.server, call.caller.name)


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
    await idle.set_rule((RuleScope(edit.scope), edit.name), rule, call.caller.name, edit.until)
    return idle.rules()
