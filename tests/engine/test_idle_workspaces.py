"""Idle workspaces in a running engine: use, notifications, and restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.idle import Decision, Step
from springtide.scheduler.engine.settings import IdleSettings
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.notifications import NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import IdleRule, RuleScope
from springtide.scheduler.telemetry import GpuSample

HOUR = 3_600.0
POOL = (RuleScope.POOL, "")
RULE = IdleRule(tell_after=2 * HOUR, notice=0.5 * HOUR)
BY_MAIL = {EMAIL: frozenset({NotificationEvent.WORKSPACE})}
SETTINGS = EngineSettings(
    idle=IdleSettings(stop_idle_workspaces=True, idle_tell_minutes=120.0, idle_notice_minutes=30.0),
    notifications=NotificationSettings(CHANNELS, WITH_ADDRESS, BY_MAIL),
)


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    """Return a pool in which susan's workspace holds a GPU."""
    found = await make_pool(settings=SETTINGS)
    await found.engine.reserve_workspace("susan", "", 1, ["susan"])
    return found


async def reported(pool: Any, hours: float = 0.0, *, busy: bool = False, idle: float | None = 1e6) -> Decision:
    """Let time pass, then have susan's notebook server report, and return what follows from it."""
    await pool.later(hours * HOUR)
    idle_workspaces = pool.engine.idle_workspaces
    idle_workspaces.report("susan", "", wire.WorkspaceActivity(busy=busy, idle=None if busy else idle))
    found = idle_workspaces.decide("susan", "", ["susan"])
    assert found is not None
    return found


async def told(pool: Any) -> None:
    """Have susan notified, after two hours without use."""
    decision = await reported(pool, 2.0)
    assert decision.step is Step.TELL
    await pool.engine.idle_workspaces.tell("susan", "", decision, RULE)


async def messages(pool: Any) -> list[str]:
    waiting = await pool.engine.outbox.waiting(("susan", EMAIL))
    return [f"{each.notification.title} {each.notification.text}" for each in waiting]


def view(pool: Any) -> wire.WorkspaceIdle:
    found = pool.engine.idle_workspaces.view("susan", "", ["susan"])
    assert found is not None
    return found


async def test_nothing_is_known_and_done_without_a_report(pool: Any) -> None:
    await pool.later(100 * HOUR)
    assert pool.engine.idle_workspaces.decide("susan", "", ["susan"]) is None
    assert not view(pool).known
    assert (await reported(pool)).step is Step.TELL
    await pool.later(HOUR)
    assert pool.engine.idle_workspaces.decide("susan", "", ["susan"]) is None, "a report holds for minutes"


async def test_a_workspace_without_gpus_is_left_alone(pool: Any) -> None:
    await pool.engine.reserve_workspace("joe", "", 0, ["joe"])
    idle = pool.engine.idle_workspaces
    idle.report("joe", "", wire.WorkspaceActivity(idle=1e6))
    assert idle.decide("joe", "", ["joe"]) is None
    assert idle.view("joe", "", ["joe"]) is None


async def test_the_owner_is_told_once_with_how_long_is_left(pool: Any) -> None:
    await told(pool)
    assert (await reported(pool, 0.1)).step is Step.NOTHING
    [message] = await messages(pool)
    assert message.startswith("Your workspace has not used its 1 GPU for 2 h. It is stopped in 30 min unless")
    seen = view(pool)
    assert (seen.told, seen.stops) == (True, pool.clock.now + 0.4 * HOUR)


async def test_an_idle_workspace_is_stopped_after_its_notice_and_the_owner_learns_why(pool: Any) -> None:
    idle = pool.engine.idle_workspaces
    await told(pool)
    assert (await reported(pool, 0.49)).step is Step.NOTHING
    decision = await reported(pool, 0.02)
    assert decision.step is Step.STOP
    assert await idle.stopping("susan", "", decision)
    assert len(await messages(pool)) == 1, "the notification follows the stop"
    await pool.engine.release_workspace("susan", "")
    assert (await messages(pool))[1].startswith(
        "Your workspace was stopped because its 1 GPU had not been used for 2 h 30 min. Saved files"
    )
    [stopped] = idle.stopped("susan")
    assert (stopped.gpus, round(stopped.unused / HOUR, 2)) == (1, 2.51)
    newest = (await pool.engine.audit(None, 1)).items[0]
    assert (newest.who, newest.what, newest.subject) == ("springtide", "workspace.stop", "susan")
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert idle.stopped("susan") == [], "started again"


@pytest.mark.parametrize("use", ["busy", "activity", "hub"])
async def test_use_after_the_notice_saves_the_workspace(pool: Any, use: str) -> None:
    await told(pool)
    idle = pool.engine.idle_workspaces
    if use == "hub":
        idle.see("susan", "", pool.clock.now + 0.45 * HOUR)
    decision = await reported(pool, 0.5, busy=use == "busy", idle=60.0 if use == "activity" else 1e6)
    assert decision.step is Step.FORGET
    await idle.forget("susan", "")
    assert (view(pool).told, view(pool).stops) == (False, None)
    assert (await reported(pool)).step is Step.NOTHING


async def test_measured_use_of_its_gpus_counts_also_after_a_restart(pool: Any) -> None:
    [workspace] = pool.engine.workspaces()

    async def gpu_samples(_: Any) -> list[GpuSample]:
        return [GpuSample(workspace.uuids[0], Reading(utilization=utilization))]

    utilization, pool.executor.measures_gpus, pool.executor.gpu_samples = 0.4, True, gpu_samples
    await pool.later(1.9 * HOUR)
    await pool.engine.usage.sample(int(pool.clock.now) // 10 * 10)
    used = pool.clock.now
    utilization = 0.0
    assert (await reported(pool, 0.2)).step is Step.NOTHING
    await pool.engine.usage.sample(int(pool.clock.now) // 10 * 10)
    assert (await reported(pool)).unused == pytest.approx(pool.clock.now - used, abs=20)
    await pool.restart()
    await pool.engine.usage.recall()
    assert (await reported(pool, 1.7)).step is Step.NOTHING
    assert (await reported(pool, 0.2)).step is Step.TELL


async def test_keep_postpones_by_the_whole_rule_and_is_recorded(pool: Any) -> None:
    await told(pool)
    await pool.later(0.45 * HOUR)
    await pool.engine.idle_workspaces.keep("susan", "", "susan")
    assert (await reported(pool, 1.9)).step is Step.NOTHING
    assert (await reported(pool, 0.1)).step is Step.TELL
    newest = (await pool.engine.audit(None, 1)).items[0]
    assert (newest.who, newest.what, newest.subject) == ("susan", "workspace.keep", "susan")
    with pytest.raises(Refusal, match="joe has no workspace"):
        await pool.engine.idle_workspaces.keep("joe", "", "joe")


async def test_who_keeps_a_workspace_while_it_is_being_stopped_is_told_so(pool: Any) -> None:
    await told(pool)
    idle = pool.engine.idle_workspaces
    decision = await reported(pool, 0.5)
    assert await idle.stopping("susan", "", decision)
    with pytest.raises(Refusal, match="is being stopped now"):
        await idle.keep("susan", "", "susan")
    await idle.not_stopped("susan", "")
    await idle.keep("susan", "", "susan")
    assert not await idle.stopping("susan", "", decision), "kept after it was decided to stop it"


async def test_a_restart_neither_forgets_nor_repeats(pool: Any) -> None:
    await told(pool)
    await pool.restart()
    assert (await reported(pool, 0.3)).step is Step.NOTHING
    decision = await reported(pool, 0.3)
    assert decision.step is Step.STOP
    assert await pool.engine.idle_workspaces.stopping("susan", "", decision)
    await pool.restart()
    await pool.engine.release_workspace("susan", "")
    assert len(await messages(pool)) == 2
    await pool.restart()
    assert len(pool.engine.idle_workspaces.stopped("susan")) == 1
    assert len(await messages(pool)) == 2


async def test_a_workspace_that_its_owner_stops_leaves_nothing(pool: Any) -> None:
    await told(pool)
    await pool.engine.release_workspace("susan", "")
    assert pool.engine.idle_workspaces.stopped("susan") == []
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert (await reported(pool, 1.0)).step is Step.NOTHING


async def test_a_step_of_the_system_clock_shortens_no_notice(pool: Any) -> None:
    await told(pool)
    await pool.set_clock(10 * HOUR)
    assert (await reported(pool)).step is Step.NOTHING
    assert view(pool).stops == pytest.approx(pool.clock.now + 0.5 * HOUR)


async def test_where_nothing_may_be_stopped_owners_are_only_told(make_pool: Any) -> None:
    pool = await make_pool(
        settings=replace(SETTINGS, idle=IdleSettings(idle_tell_minutes=120.0, idle_notice_minutes=30.0))
    )
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    decision = await reported(pool, 2.0)
    idle = pool.engine.idle_workspaces
    await idle.tell("susan", "", decision, idle.rule("susan", ["susan"]))
    assert (view(pool).told, view(pool).stops) == (True, None)
    assert (await reported(pool, 100.0)).step is Step.NOTHING
    [message] = await messages(pool)
    assert message.endswith("Stop it if you do not need it.")


async def test_a_rule_of_an_admin_counts_before_the_settings_and_is_in_the_audit_trail(pool: Any) -> None:
    idle = pool.engine.idle_workspaces
    await idle.set_rule((RuleScope.PROJECT, "susan"), IdleRule(), "admin")
    assert (await reported(pool, 100.0)).step is Step.NOTHING
    await pool.restart()
    rules = pool.engine.idle_workspaces.rules()
    assert rules.pool == wire.IdleRule(tell_after=2 * HOUR, notice=0.5 * HOUR)
    assert [(each.scope, each.name, each.configured) for each in rules.exceptions] == [("project", "susan", False)]
    newest = (await pool.engine.audit(None, 1)).items[0]
    assert (newest.who, newest.what, newest.subject) == ("admin", "idle_rule.change", "project susan")
    await pool.engine.idle_workspaces.set_rule((RuleScope.PROJECT, "susan"), None, "admin")
    assert (await reported(pool)).step is Step.TELL
    with pytest.raises(Refusal, match="no project “nobody”"):
        await pool.engine.idle_workspaces.set_rule((RuleScope.PROJECT, "nobody"), RULE, "admin")


async def test_the_rule_of_a_project_goes_with_the_project(pool: Any) -> None:
    key = (RuleScope.PROJECT, "vision")
    await pool.engine.create_project("vision", wire.ProjectEdit(), "admin", members={})
    await pool.engine.idle_workspaces.set_rule(key, RULE, "admin")
    await pool.engine.delete_project("vision", "admin")
    await pool.engine.create_project("vision", wire.ProjectEdit(), "admin", members={})
    assert pool.engine.idle_workspaces.rules().exceptions == []
