"""Changes with an end: the value before returns by itself, over restarts and steps of the clock."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import AuditQuery
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import IdleRule, RuleScope

HOUR = 3600.0


async def edited(pool, name: str, hours: float | None = None, **fields: Any) -> wire.ProjectView:
    until = None if hours is None else pool.clock.now + hours * HOUR
    return await pool.engine.edit_project(name, wire.ProjectEdit(**fields, until=until), "admin", members={})


def project(pool, name: str = "susan") -> wire.ProjectView:
    return next(view for view in pool.engine.pool().projects if view.name == name)


async def trail(pool, what: str, number: int = 1) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    page = await pool.engine.audit(None, number, AuditQuery(what=what))
    return [(each.who, each.before, each.after) for each in page.items]


async def test_a_quota_for_a_time_returns_and_both_are_in_the_trail(pool):
    until = pool.clock.now + HOUR
    view = await edited(pool, "susan", 1, quota=4)
    assert view.endings == {"quota": wire.EndingView(until=until, by="admin", before=2)}
    assert await trail(pool, "project") == [("admin", {"quota": 2}, {"quota": 4, "until": until})]
    await pool.later(HOUR - 1)
    assert project(pool).quota == 4
    await pool.later(1)
    assert (project(pool).quota, project(pool).endings) == (2, {})
    assert await trail(pool, "project") == [("springtide", {"quota": 4}, {"quota": 2})]


async def test_a_change_says_which_value_cannot_return_any_more(pool):
    for name in ("speech", "robots"):
        edit = wire.ProjectEdit(quota=1, parent="susan")
        await pool.engine.create_project(name, edit, "admin", members={})
    assert (await edited(pool, "speech", 1, quota=0)).notes == []
    assert (await edited(pool, "robots", weight=2)).notes == []
    [note] = (await edited(pool, "robots", quota=2)).notes
    assert note.startswith("The quota of “speech” cannot return to 1 at ")
    assert "the quota of “susan” is 2" in note
    assert note.endswith("It stays as it is until that fits.")
    assert (await edited(pool, "robots", weight=3)).notes == []
    assert (await edited(pool, "speech", quota=0)).notes == []


async def test_it_returns_at_a_start_that_comes_after_its_time(pool):
    await edited(pool, "susan", 1, quota=4, limit=6)
    await pool.stop()
    pool.clock.now += 2 * HOUR
    await pool.start()
    await pool.idle()
    assert (project(pool).quota, project(pool).limit) == (2, None)


async def test_ends_are_times_of_the_clock_and_do_not_follow_its_steps(pool):
    await edited(pool, "susan", 1, quota=4)
    await pool.set_clock(HOUR / 2)
    await pool.later(HOUR / 2 - 1)
    assert project(pool).quota == 4
    await pool.set_clock(-HOUR)
    await pool.later(HOUR)
    assert project(pool).quota == 4
    await pool.set_clock(1)
    await pool.idle()
    assert project(pool).quota == 2


async def test_an_edit_meanwhile_makes_a_plain_rule_of_that_field_alone(pool):
    await edited(pool, "susan", 1, quota=3, weight=3)
    view = await edited(pool, "susan", quota=4)
    assert list(view.endings) == ["weight"]
    await edited(pool, "joe", 1, quota=1)
    await edited(pool, "joe", quota=1)
    await pool.later(HOUR)
    assert (project(pool).quota, project(pool).weight) == (4, 1)
    assert project(pool, "joe").quota == 1


async def test_a_second_change_for_a_time_leads_back_to_the_value_before_both(pool):
    await edited(pool, "susan", 1, quota=4)
    await edited(pool, "susan", 3, quota=3)
    await pool.later(2 * HOUR)
    assert project(pool).quota == 3
    await pool.later(HOUR)
    assert project(pool).quota == 2


async def test_another_end_alone_is_an_entry(pool):
    await edited(pool, "susan", 1, quota=4)
    later = pool.clock.now + 2 * HOUR
    await edited(pool, "susan", 2, quota=4)
    ends = {"quota": {"until": later - HOUR, "before": 2}}
    was, now = {"quota": 4, "until": later - HOUR, "endings": ends}, {"quota": 4, "until": later}
    assert await trail(pool, "project") == [("admin", was, now)]
    newest = (await pool.engine.audit(None, 1, AuditQuery(what="project"))).items[0]
    await pool.engine.undo(newest.id, "admin", members={})
    assert project(pool).endings["quota"] == wire.EndingView(until=later - HOUR, by="admin", before=2)
    await edited(pool, "susan", quota=4)
    was, now = {"quota": 4, "until": later - HOUR, "endings": ends}, {"quota": 4, "until": None}
    assert await trail(pool, "project") == [("admin", was, now)]


async def test_an_edit_of_an_old_version_is_refused_with_who_changed_numbers_not_their_ends(pool):
    version = project(pool).version
    await edited(pool, "susan", 1, quota=4)
    later = wire.ProjectEdit(quota=4, until=pool.clock.now + 2 * HOUR)
    await pool.engine.edit_project("susan", later, "bob", members={})
    with pytest.raises(Refusal, match="“admin” changed it at ") as refused:
        await edited(pool, "susan", quota=5, version=version)
    assert "bob" not in refused.value.message


async def test_a_change_that_is_taken_back_does_not_end_any_more(pool):
    await edited(pool, "susan", 1, quota=4)
    entry = (await pool.engine.audit(None, 1)).items[0]
    await pool.engine.undo(entry.id, "admin", members={})
    assert (project(pool).quota, project(pool).endings) == (2, {})


async def test_values_that_make_room_for_each_other_return_together(pool):
    await edited(pool, "jemma", 1, quota=0)
    await edited(pool, "susan", 1, quota=4)
    await edited(pool, "joe", quota=4)
    await edited(pool, "joe", quota=2)
    await edited(pool, "joe", quota=4)
    await pool.later(HOUR)
    assert (project(pool, "jemma").quota, project(pool).quota) == (2, 2)


async def test_a_value_that_does_not_fit_any_more_says_why_and_returns_once_it_does(pool):
    await edited(pool, "susan", 1, quota=0)
    await edited(pool, "joe", quota=6)
    await pool.later(HOUR)
    view = project(pool)
    assert view.quota == 0
    assert "would add up to 10 GPUs; the pool has 8 train GPUs" in view.endings["quota"].refused
    await pool.later(HOUR)
    [(who, before, after)] = await trail(pool, "ending")
    assert (who, before, list(after)) == ("springtide", {"quota": 2}, ["refused"])
    assert len(await trail(pool, "ending", 10)) == 1

    await edited(pool, "joe", quota=4)
    await pool.later(60.0)
    assert (project(pool).quota, project(pool).endings) == (2, {})


async def test_drains_end(pool):
    until = pool.clock.now + HOUR
    await pool.engine.drain_node(wire.DrainRequest(node="train", why="a fan", until=until), "admin")
    await pool.engine.drain_node(wire.DrainRequest(node="build", gpu=1, until=until), "admin")
    job = await pool.submit("susan", gpus=1)
    node = next(node for node in pool.engine.pool().nodes if node.name == "train")
    assert node.drain.until == until
    await pool.later(HOUR)
    await pool.state(job.id, "running")
    assert not any(cell.drain for node in pool.engine.pool().nodes for cell in node.gpus)
    [(first, _, _)] = await trail(pool, "gpu.undrain")
    [(second, _, _)] = await trail(pool, "node.undrain")
    assert first == second == "springtide"


async def test_a_drain_without_an_end_replaces_one_with_an_end(pool):
    until = pool.clock.now + HOUR
    await pool.engine.drain_node(wire.DrainRequest(node="train", until=until), "admin")
    await pool.engine.drain_node(wire.DrainRequest(node="train"), "admin")
    await pool.later(2 * HOUR)
    node = next(node for node in pool.engine.pool().nodes if node.name == "train")
    assert (node.drain.by, node.drain.until) == ("admin", None)


@pytest.mark.parametrize("what", ["node", "gpu", "project"])
async def test_what_one_admin_closes_for_good_no_other_ends_by_an_earlier_end(pool, what):
    async def close(by: str, hours: float | None) -> None:
        until = None if hours is None else pool.clock.now + hours * HOUR
        if what == "project":
            await pool.engine.freeze("susan", wire.FreezeRequest(until=until), by, members={})
        else:
            gpu = 1 if what == "gpu" else None
            await pool.engine.drain_node(wire.DrainRequest(node="train", gpu=gpu, until=until), by)

    await close("ada", None)
    closed = {"node": "drained “train”", "gpu": "drained GPU 1 of “train”", "project": "frozen “susan”"}
    with pytest.raises(Refusal, match=f"“ada” has {closed[what]} with no end") as refused:
        await close("bob", 1)
    assert (refused.value.status, refused.value.field) == (409, "until")
    await close("ada", 2)
    with pytest.raises(Refusal, match="would end that too early"):
        await close("bob", 1)
    await close("bob", 3)


async def test_build_quotas_of_people_and_idle_rules_end(pool):
    until = pool.clock.now + HOUR
    members = {name: [name] for name in ("susan", "joe", "jemma")}
    await pool.engine.edit_person("joe", wire.PersonEdit(build_quota=0, until=until), "admin", members=members)
    rules = pool.engine.idle_workspaces
    person, whole = (RuleScope.PERSON, "joe"), (RuleScope.POOL, "")
    await rules.set_rule(whole, IdleRule(600.0, None), "admin")
    await rules.set_rule(whole, IdleRule(60.0, 60.0), "admin", until)
    await rules.set_rule(person, IdleRule(None, None), "admin", until)
    shown = rules.rules()
    assert (shown.until, shown.exceptions[0].until) == (until, until)
    assert pool.engine.admin(members).people[1].ending.until == until
    await pool.restart()
    await pool.later(HOUR)
    shown = pool.engine.idle_workspaces.rules()
    assert (shown.pool.tell_after, shown.until, shown.exceptions) == (600.0, None, [])
    joe = next(each for each in pool.engine.admin(members).people if each.name == "joe")
    assert (joe.own_build_quota, joe.ending) == (None, None)


@pytest.mark.parametrize(("seconds", "message"), [(0, "has passed already"), (1e10, "more than ten years away")])
async def test_an_end_that_is_none_is_refused_and_changes_nothing(pool, seconds: float, message: str):
    until = pool.clock.now + seconds
    with pytest.raises(Refusal, match=message):
        await edited(pool, "susan", seconds / HOUR, quota=4)
    with pytest.raises(Refusal, match=message):
        await pool.engine.drain_node(wire.DrainRequest(node="train", until=until), "admin")
    with pytest.raises(Refusal, match=message):
        await pool.engine.idle_workspaces.set_rule((RuleScope.POOL, ""), IdleRule(), "admin", until)
    assert (project(pool).quota, project(pool).endings) == (2, {})
    assert all(node.drain is None for node in pool.engine.pool().nodes)
