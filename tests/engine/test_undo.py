"""Undo of what administrators change: what was before returns once, while nobody has changed it since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import engine_worlds as worlds
import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine.idle import IdleRule
from springtide.scheduler.model import Environment
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import AuditQuery
from springtide.scheduler.store.tables import RuleScope

HOUR = 3_600.0
Change = Callable[[Any, str], Awaitable[Any]]


@pytest.fixture
async def desk(pool: Any) -> Any:
    """A pool whose administrator has set a budget, a freeze, drains, a rule and own build GPUs already."""
    pool.executor.change_nodes(
        *(worlds.node(name, 4) for name in ("one", "two")), worlds.node("build", 3, Environment.BUILD)
    )
    await pool.idle()
    for change in (budget(10), frozen("Late."), drained("A fan."), gpu_drained("Hot."), rule(2), person(0)):
        await change(pool, "root")
    return pool


def budget(amount: float, project: str = "susan") -> Change:
    request = wire.BudgetRequest(amount=amount, unit="gpu-hours", beyond="tell")
    return lambda pool, by: pool.engine.budgets.set(project, request, by)


def no_budget(pool: Any, by: str) -> Any:
    return pool.engine.budgets.remove("susan", by)


def frozen(why: str, project: str = "joe", **more: Any) -> Change:
    request = wire.FreezeRequest(why=why, **more)
    return lambda pool, by: pool.engine.freeze(project, request, by, members={})


def thawed(pool: Any, by: str) -> Any:
    return pool.engine.unfreeze("joe", by, members={})


def drained(why: str, node: str = "one", **more: Any) -> Change:
    return lambda pool, by: pool.engine.drain_node(wire.DrainRequest(node=node, why=why, **more), by)


def gpu_drained(why: str, gpu: int = 1) -> Change:
    return drained(why, "two", gpu=gpu)


def undrained(node: str, gpu: int | None = None) -> Change:
    return lambda pool, by: pool.engine.undrain_node(wire.UndrainRequest(node=node, gpu=gpu), by)


def rule(hours: float | None, project: str = "susan") -> Change:
    of = None if hours is None else IdleRule(tell_after=hours * HOUR)
    return lambda pool, by: pool.engine.idle_workspaces.set_rule((RuleScope.PROJECT, project), of, by)


def person(gpus: int | None, until: float | None = None) -> Change:
    async def change(pool: Any, by: str) -> None:
        end = None if until is None else pool.clock.now + until
        edit = wire.PersonEdit(build_quota=gpus, until=end)
        await pool.engine.edit_person("joe", edit, by, members={"joe": ["joe"]})

    return change


def on_desk(pool: Any) -> dict[str, Any]:
    """Return what the changes of this module are about, without who has set it."""
    state = pool.engine.state
    return {
        "budgets": {each.project: (each.amount, each.beyond, each.unit) for each in state.budgets.values()},
        "freezes": {each.project: (each.why, each.finish, each.until) for each in state.freezes.values()},
        "drains": {each.node: (each.why, each.finish, each.until) for each in state.drains.values()},
        "gpus": {each.gpu: (each.why, each.finish, each.until) for each in state.gpu_drains.values()},
        "rules": {each.name: each.rule for each in state.idle_rules.values()},
        "people": {each.name: each.build_quota for each in state.people.values()},
        "ends": {each.key: each.until for each in state.endings.values()},
    }


async def newest(pool: Any, what: str | None = None) -> wire.AuditEntry:
    return (await pool.engine.audit(None, 1, AuditQuery(what=what))).items[0]


async def undone(pool: Any, entry: wire.AuditEntry) -> wire.AuditEntry:
    return await pool.engine.undo(entry.id, "root", members={"joe": ["joe"]})


CHANGES = {
    "a budget is set": budget(5, "joe"),
    "a budget is changed": budget(20),
    "a budget is removed": no_budget,
    "a project is frozen": frozen("Spent.", "susan"),
    "a freeze is changed": frozen("Later.", finish=True),
    "a project is unfrozen": thawed,
    "a node is drained": drained("A disk.", "two", finish=True),
    "a drain is changed": drained("A disk.", finish=True),
    "a node is undrained": undrained("one"),
    "a GPU is drained": gpu_drained("Errors.", 2),
    "the drain of a GPU is changed": gpu_drained("Errors."),
    "a GPU is undrained": undrained("two", 1),
    "a project is frozen for a time": frozen("Spent.", "susan", until=2_000_000.0),
    "a node is drained for a time": drained("A disk.", "two", until=2_000_000.0),
    "a rule is set": rule(1, "joe"),
    "a rule is changed": rule(4),
    "a rule is removed": rule(None),
    "a build quota is changed": person(1),
    "a build quota is changed for a time": person(1, HOUR),
    "a build quota is removed": person(None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_was_before_returns_with_an_entry_of_its_own_and_only_once(desk: Any, change: Change) -> None:
    before = on_desk(desk)
    await change(desk, "admin")
    assert on_desk(desk) != before
    entry = await newest(desk)
    assert (entry.who, entry.undo) == ("admin", True)
    back = await undone(desk, entry)
    assert on_desk(desk) == before
    assert (back.who, back.what, back.subject, back.undo) == ("root", f"undo.{entry.what}", entry.subject, False)
    was = {name: value for name, value in back.before.items() if name != "endings"}
    assert (was, back.after) == (entry.after, entry.before)
    assert not (await desk.engine.audit_entry(entry.id)).undo
    with pytest.raises(Refusal, match="taken back already"):
        await undone(desk, entry)


OVERTAKEN = {
    "budget": (budget(20), budget(30), "“mia” changed it at ", ": amount 20 → 30."),
    "removed budget": (budget(20), no_budget, "“mia” changed it at ", ""),
    "freeze": (frozen("Later."), frozen("Never."), "“mia” froze it at ", "why Later. → Never."),
    "unfrozen": (frozen("Later."), thawed, "“mia” unfroze it at ", ""),
    "drain": (drained("A disk."), drained("A cable."), "“mia” drained it at ", "why A disk. → A cable."),
    "undrained GPU": (gpu_drained("Errors."), undrained("two", 1), "“mia” undrained it at ", ""),
    "rule": (rule(4), rule(6), "“mia” changed it at ", "tell after 4 h → 6 h."),
    "build quota": (person(1), person(2), "“mia” changed it at ", "build quota 1 → 2."),
}


@pytest.mark.parametrize(("change", "later", "who", "values"), OVERTAKEN.values(), ids=OVERTAKEN)
async def test_it_is_refused_and_not_offered_once_somebody_has_changed_it_since_and_says_who_and_what(
    desk: Any, change: Change, later: Change, who: str, values: str
) -> None:
    await change(desk, "admin")
    entry = await newest(desk)
    await later(desk, "mia")
    there = on_desk(desk)
    assert not (await desk.engine.audit_entry(entry.id)).undo
    with pytest.raises(Refusal, match="was changed since, so this change cannot be taken back") as refused:
        await undone(desk, entry)
    assert refused.value.status == 409
    assert who in refused.value.message
    assert values in refused.value.message
    assert "admin" not in refused.value.message, "only the change after it"
    assert on_desk(desk) == there


def project(name: str = "susan", until: float | None = None, **fields: Any) -> Change:
    async def change(pool: Any, by: str) -> None:
        end = None if until is None else pool.clock.now + until
        await pool.engine.edit_project(name, wire.ProjectEdit(**fields, until=end), by, members={})

    return change


def rule_until(hours: float, until: float) -> Change:
    key, of = (RuleScope.PROJECT, "susan"), IdleRule(tell_after=hours * HOUR)
    return lambda pool, by: pool.engine.idle_workspaces.set_rule(key, of, by, until=pool.clock.now + until)


def returns(pool: Any) -> dict[Any, Any]:
    """Return when changes end and what returns then, and the present values of projects."""
    state = pool.engine.state
    ends = {each.key: (each.until, each.before) for each in state.endings.values()}
    projects = {each.name: each.project for each in state.projects.values()}
    return {**on_desk(pool), "ends": ends, "projects": projects}


FOR_A_TIME = {
    "a quota that another one replaces": (project(quota=3, until=HOUR), project(quota=4)),
    "a quota that stays now": (project(quota=3, until=HOUR), project(quota=3)),
    "a quota that ends later now": (project(quota=3, until=HOUR), project(quota=4, until=2 * HOUR)),
    "a limit that is what it was again": (project(limit=4, until=HOUR), project(limit=None)),
    "one of two numbers": (project(quota=3, limit=6, until=HOUR), project(quota=4, weight=2)),
    "a number that is given again": (project(quota=3, until=HOUR), project(quota=3, weight=2)),
    "own build GPUs": (person(2, HOUR), person(1)),
    "a rule": (rule_until(4, HOUR), rule(6)),
}


@pytest.mark.parametrize(("before", "change"), FOR_A_TIME.values(), ids=FOR_A_TIME)
async def test_a_value_for_a_time_returns_with_its_end_and_what_follows_it(
    desk: Any, before: Change, change: Change
) -> None:
    await before(desk, "root")
    there = returns(desk)
    await change(desk, "admin")
    assert returns(desk) != there
    entry = await newest(desk)
    back = await undone(desk, entry)
    assert returns(desk) == there
    assert back.after.get("until") == entry.before.get("until")


async def test_a_number_that_would_have_ended_meanwhile_is_what_would_have_followed(desk: Any) -> None:
    await project(quota=3, until=HOUR)(desk, "root")
    await project(limit=6, until=3 * HOUR)(desk, "root")
    await project(quota=4, limit=5)(desk, "admin")
    entry = await newest(desk)
    await desk.later(2 * HOUR)
    await undone(desk, entry)
    now = desk.engine.state.projects["susan"].project
    assert (now.quota, now.limit) == (2, 6)
    await desk.later(HOUR)
    assert desk.engine.state.projects["susan"].project.limit is None


async def test_what_would_have_ended_meanwhile_does_not_come_back(desk: Any) -> None:
    end = desk.clock.now + HOUR
    await frozen("For an hour.", "susan", until=end)(desk, "admin")
    await desk.engine.unfreeze("susan", "admin", members={})
    entry = await newest(desk)
    assert entry.undo
    await desk.later(2 * HOUR)
    assert not (await desk.engine.audit_entry(entry.id)).undo
    with pytest.raises(Refusal, match="The earlier values would have ended at 1970"):
        await undone(desk, entry)


async def test_the_jobs_of_a_project_are_paused_and_resumed_by_undo(pool: Any) -> None:
    job = await pool.submit("susan", gpus=2)
    await pool.state(job.id, "running")
    await frozen("Late.", "susan")(pool, "admin")
    freeze = await newest(pool)
    await pool.state(job.id, "paused")
    await undone(pool, freeze)
    await pool.state(job.id, "running", attempt=2)
    await frozen("Late.", "susan")(pool, "admin")
    await pool.engine.unfreeze("susan", "admin", members={})
    await undone(pool, await newest(pool))
    assert (await pool.state(job.id, "paused")).hold.by == "root"


async def test_a_drain_of_an_admin_over_a_booking_leaves_the_booking_when_it_is_taken_back(desk: Any) -> None:
    now = desk.clock.now
    request = wire.BookingRequest(nodes=("two",), start=now, end=now + HOUR, why="Firmware.")
    made = await desk.engine.book(request, "root")
    by_booking = await newest(desk, "node")
    assert not by_booking.undo
    with pytest.raises(Refusal, match=f"Booking {made.booking.number} drains “two” while it holds"):
        await undone(desk, by_booking)
    await drained("A disk.", "two", until=None)(desk, "admin")
    await undone(desk, await newest(desk, "node.drain"))
    drain = desk.engine.state.drains["two"]
    assert (drain.booking, drain.why) == (made.booking.number, "Firmware.")


async def test_a_deleted_project_returns_with_its_budget_freeze_rule_and_presets(desk: Any) -> None:
    await desk.engine.create_project("lab", wire.ProjectEdit(quota=1), "root", members={})
    for change in (budget(7, "lab"), frozen("Holidays.", "lab"), rule(3, "lab"), project("lab", HOUR, quota=0)):
        await change(desk, "root")
    before = returns(desk)
    await desk.engine.delete_project("lab", "admin")
    assert "lab" not in {**on_desk(desk)["budgets"], **on_desk(desk)["freezes"], **on_desk(desk)["rules"]}
    back = await undone(desk, await newest(desk))
    assert back.what == "undo.project.delete"
    assert {**returns(desk), "projects": None} == {**before, "projects": None}


async def test_what_was_done_to_a_project_that_is_deleted_since_is_not_taken_back(desk: Any) -> None:
    await desk.engine.create_project("lab", wire.ProjectEdit(quota=1), "root", members={})
    await frozen("Holidays.", "lab")(desk, "admin")
    await desk.engine.unfreeze("lab", "admin", members={})
    entry = await newest(desk)
    await desk.engine.delete_project("lab", "mia")
    assert not (await desk.engine.audit_entry(entry.id)).undo
    with pytest.raises(Refusal, match="There is no project “lab”"):
        await undone(desk, entry)


async def test_holds_releases_and_edits_of_jobs_are_taken_back_until_they_end(pool: Any) -> None:
    busy = await pool.submit("susan", gpus=8, priority=90, rotate=False)
    await pool.state(busy.id, "running")
    job = await pool.submit("susan", gpus=8, name="waits")
    await pool.engine.edit(job.id, wire.JobEdit(priority=70, project="susan"), "admin")
    await undone(pool, await newest(pool))
    assert (await pool.job(job.id)).options.priority == job.options.priority
    await pool.engine.hold(job.id, "admin", "Wait for the data.")
    hold = await newest(pool)
    await undone(pool, hold)
    assert (await pool.job(job.id)).hold is None
    await pool.engine.hold(job.id, "admin", "Wait for the data.")
    await pool.engine.release(job.id, "admin")
    assert not (await pool.engine.audit_entry(hold.id)).undo
    release = await newest(pool)
    await undone(pool, release)
    assert (await pool.job(job.id)).hold.reason == "Wait for the data."
    await pool.engine.release(job.id, "admin")
    last = await newest(pool)
    await pool.engine.cancel(job.id, "susan")
    assert not (await pool.engine.audit_entry(last.id)).undo
    with pytest.raises(Refusal, match="has ended, so this cannot be taken back"):
        await undone(pool, last)


async def test_the_past_knows_undone_freezes_and_drains_as_what_they_did(desk: Any) -> None:
    await undone(desk, await newest(desk, "project.freeze"))
    await undone(desk, await newest(desk, "node.drain"))
    await undrained("two", 1)(desk, "admin")
    await undone(desk, await newest(desk, "gpu.undrain"))
    records = [await desk.engine._audit_record(entry.id) for entry in (await desk.engine.audit(None, 4)).items]
    assert [each.effect for each in records] == ["gpu.drain", "gpu.undrain", "node.undrain", "project.unfreeze"]
