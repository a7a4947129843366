"""What needs administrators: each kind with its sentence and actions, once announced, told and left for a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engine_worlds import EIGHT, node
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.needs import IDLE_FOR, changed, idle_days
from springtide.scheduler.engine.requests.fitting import fitted
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.engine.usage import Stretch
from springtide.scheduler.engine.views.needs_view import Backup, need_of
from springtide.scheduler.executors.base import InventoryChanged
from springtide.scheduler.model import Settings
from springtide.scheduler.notifications import NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import IdleWhileWaiting
from springtide.scheduler.wire import NeedKind

DAY = 86_400.0
TOLD = NotificationSettings(CHANNELS, WITH_ADDRESS, {}, frozenset({"admin"}))
SETTINGS = EngineSettings(policy=Settings(grace=5.0), notifications=TOLD)


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    """A pool whose admin is notified by e-mail."""
    return await make_pool(settings=SETTINGS)


async def needs(pool: Any) -> list[wire.Need]:
    return (await pool.engine.needs.listed()).items


async def ids(pool: Any) -> list[str]:
    return [need.kind.value for need in await needs(pool)]


async def the_need(pool: Any) -> wire.Need:
    found = await needs(pool)
    assert len(found) == 1, [need.said for need in found]
    return found[0]


async def told(pool: Any, user: str = "admin") -> list[str]:
    await pool.idle()
    waiting = await pool.engine.outbox.waiting((user, EMAIL))
    return [f"{each.notification.title} {each.notification.text}" for each in waiting]


async def looked(pool: Any, seconds: float = 0.0) -> None:
    """Let time pass, and have the pool look at what needs administrators."""
    await pool.later(seconds)
    await pool.engine.needs.look()


async def drained(pool: Any, **fields: Any) -> None:
    await pool.engine.drain_node(wire.DrainRequest(node="train", **fields), "admin")


async def test_a_pool_in_order_needs_nobody(pool: Any) -> None:
    assert await needs(pool) == []
    await looked(pool)
    assert await told(pool) == []


async def test_a_gpu_that_is_drained_for_a_day_needs_somebody_until_it_is_undrained(pool: Any) -> None:
    await drained(pool, gpu=3, why="a fan")
    await drained(pool, gpu=4, until=pool.clock() + 9 * DAY)
    await pool.later(DAY - 1)
    assert await needs(pool) == []
    await pool.later(1)
    need = await the_need(pool)
    assert need.said == "The GPU 3 of train is drained by “admin”: a fan."
    assert need.remedy == "Undrain it once it is in order, or drain it until a time."
    assert [action.name for action in need.actions] == ["undrain", "open"]
    assert need.actions[0].calls == [wire.NeedCall(path="nodes/undrain", body={"node": "train", "gpu": 3})]
    await pool.engine.undrain_node(wire.UndrainRequest(node="train", gpu=3), "admin")
    assert await needs(pool) == []


async def test_each_entry_is_announced_once_and_those_that_come_together_in_one_message(pool: Any) -> None:
    await drained(pool, gpu=3)
    await drained(pool, gpu=4, why="it is hot")
    await looked(pool, DAY)
    both = await told(pool)
    assert len(both) == 1
    assert both[0].startswith("In the pool 2 things need an administrator. The GPU 3 of train is drained")
    await looked(pool, 3_600.0)
    await pool.restart()
    await looked(pool, 60.0)
    assert await told(pool) == both
    await drained(pool, gpu=5)
    await looked(pool, DAY)
    assert (await told(pool))[1:] == [
        "The GPU 5 of train is drained by “admin”. See it, with what can be done, on the page Overview."
    ]


async def test_only_administrators_are_told_whoever_chose_the_event(pool: Any) -> None:
    choice = replace(pool.engine.outbox.choice("susan"), events={EMAIL: frozenset(NotificationEvent)})
    await pool.engine.outbox.choose(choice)
    await drained(pool, gpu=3)
    await looked(pool, DAY)
    assert await told(pool, "susan") == []
    assert len(await told(pool)) == 1


async def test_what_was_left_is_apart_for_its_time_and_can_be_shown_again(pool: Any) -> None:
    await drained(pool, gpu=3)
    await pool.later(DAY)
    need = await the_need(pool)
    await pool.engine.needs.leave(need.id, 2.0, "admin")
    listed = await pool.engine.needs.listed()
    assert (listed.items, [each.id for each in listed.left]) == ([], [need.id])
    assert (listed.left[0].left_by, listed.left[0].left_until) == ("admin", pool.clock() + 2 * DAY)
    await pool.engine.needs.take_back(need.id, "admin")
    assert await ids(pool) == ["drain"]
    await pool.engine.needs.leave(need.id, 2.0, "admin")
    await pool.later(2 * DAY)
    assert await ids(pool) == ["drain"]
    audit = (await pool.engine.audit(None, 10)).items
    assert [entry.what for entry in audit[:3]] == ["need.leave", "need.show", "need.leave"]


async def test_what_is_not_there_cannot_be_left_or_told(pool: Any) -> None:
    with pytest.raises(Refusal, match="needs an administrator now") as refused:
        await pool.engine.needs.leave("drain.x", 1.0, "admin")
    assert refused.value.status == 404
    await drained(pool, gpu=3)
    await pool.later(DAY)
    with pytest.raises(Refusal, match="it has no owner"):
        await pool.engine.needs.tell((await the_need(pool)).id, "admin")


async def test_quotas_beyond_the_pool_are_scaled_to_fit_level_by_level(pool: Any) -> None:
    engine = pool.engine
    await engine.edit_project("susan", wire.ProjectEdit(quota=4), "admin", members={})
    for name in ("a", "b"):
        edit = wire.ProjectEdit(quota=2, parent="susan")
        await engine.create_project(name, edit, "admin", members={})
    pool.executor.nodes = (node("train", 4), EIGHT[1])
    pool.executor.tell(InventoryChanged())
    await pool.idle()
    need = await the_need(pool)
    assert need.said == "The quotas of the top projects are 4 GPUs more than the 4 that the pool has."
    assert need.actions[0].calls == [wire.NeedCall(path="quotas/fit", body={"gpu_type": ""})]
    assert await engine.needs.fit("", "admin") == 5
    quotas = {project.name: project.quota for project in engine.pool().projects}
    assert quotas == {"susan": 2, "joe": 1, "jemma": 1, "a": 1, "b": 1}
    assert await needs(pool) == []
    with pytest.raises(Refusal, match="fit into the 4 GPUs of the pool already"):
        await engine.needs.fit("", "admin")
    with pytest.raises(Refusal, match="no train GPUs of the type"):
        await engine.needs.fit("x200", "admin")


@pytest.mark.parametrize(
    ("quotas", "room", "expected"),
    [
        ({"a": 3, "b": 1}, 4, {"a": 3, "b": 1}),
        ({"a": 3, "b": 3, "c": 2}, 4, {"a": 2, "b": 1, "c": 1}),
        ({"a": 5, "b": 0}, 0, {"a": 0, "b": 0}),
        ({"a": 10, "b": 1}, 5, {"a": 5, "b": 0}),
    ],
)
def test_scaled_quotas_add_up_to_the_room(quotas: dict[str, int], room: int, expected: dict[str, int]) -> None:
    assert fitted(quotas, room) == expected


async def test_the_jobs_of_a_leaver_need_somebody(pool: Any) -> None:
    await pool.engine.follow_hub(Seen({"susan": "1", "joe": "2"}, {"susan": ["susan"], "joe": ["joe"]}))
    job = await pool.submit("susan")
    await pool.state(job.id, "running")
    await pool.engine.follow_hub(Seen({"joe": "2"}, {"susan": [], "joe": ["joe"]}))
    need = await the_need(pool)
    assert (need.kind, need.problem) == (NeedKind.LEAVER, False)
    assert "is no longer a user of JupyterHub and has 1 unfinished job." in need.said
    (cancel,) = need.actions[1].calls
    assert cancel.path == f"jobs/{job.id}/cancel"
    await pool.engine.cancel(job.id, "admin")
    await pool.state(job.id, "cancelled")
    assert await needs(pool) == []


async def test_a_change_that_ends_within_a_week_is_an_entry_and_one_that_could_not_return_a_problem(
    pool: Any,
) -> None:
    engine, until = pool.engine, pool.clock() + 8 * DAY
    await engine.edit_project("susan", wire.ProjectEdit(quota=0, until=until), "admin", members={})
    assert await needs(pool) == []
    await pool.later(1.5 * DAY)
    need = await the_need(pool)
    assert (need.kind, need.until, need.project) == (NeedKind.ENDING, until, "susan")
    assert need.said.startswith("The quota of “susan” has another value for a time")
    assert "Then it returns to 2 by itself." in need.said
    await engine.edit_project("joe", wire.ProjectEdit(quota=4), "admin", members={})
    await engine.edit_project("jemma", wire.ProjectEdit(quota=4), "admin", members={})
    await pool.later(7 * DAY)
    stays = await the_need(pool)
    assert (stays.kind, stays.problem) == (NeedKind.STAYS, True)
    assert stays.said.startswith("The quota of “susan” did not return to 2: ")


async def test_a_running_job_that_hardly_uses_its_gpus_is_told_to_its_owner_and_left_for_a_day(pool: Any) -> None:
    choice = pool.engine.outbox.choice("susan")
    await pool.engine.outbox.choose(replace(choice, events={EMAIL: frozenset({NotificationEvent.WORKSPACE})}))
    job = await pool.submit("susan", gpus=2, name="bert")
    await pool.state(job.id, "running")
    now = pool.clock()
    pool.engine.usage._stretches = {job.id: Stretch(now - IDLE_FOR, now, IDLE_FOR, 1.0)}
    need = await the_need(pool)
    assert need.said == "The job “bert” of “susan” hardly uses its 2 GPUs."
    assert (need.since, need.job, need.user, need.project) == (now - IDLE_FOR, job.id, "susan", "susan")
    assert [action.name for action in need.actions] == ["tell", "pause", "cancel", "open"]
    await pool.engine.needs.tell(need.id, "admin")
    assert await told(pool, "susan") == [
        f"{need.said} The administrator “admin” asks you to use them, or to give them back."
    ]
    listed = await pool.engine.needs.listed()
    assert (listed.items, listed.left[0].told_by) == ([], "admin")


async def test_a_workspace_without_use_is_an_entry_unless_a_rule_speaks_for_it(make_pool: Any) -> None:
    pool = await make_pool(settings=SETTINGS)
    engine = pool.engine
    await engine.reserve_workspace("susan", "", 1, ["susan"])
    engine.idle_workspaces.report("susan", "", wire.WorkspaceActivity(idle=0.0))
    await pool.later(IDLE_FOR)
    engine.idle_workspaces.report("susan", "", wire.WorkspaceActivity(idle=IDLE_FOR))
    need = await the_need(pool)
    assert need.said == "The workspace of “susan” does not use its 1 GPU."
    assert need.actions[1].calls[0].path == "workspaces/susan/stop?server="
    spared = replace(SETTINGS, idle=replace(SETTINGS.idle, idle_exempt_people=("susan",)))
    await pool.stop()
    pool.settings = spared
    await pool.start()
    pool.engine.idle_workspaces.report("susan", "", wire.WorkspaceActivity(idle=IDLE_FOR))
    assert await needs(pool) == []


async def test_an_old_backup_and_a_missing_one_need_somebody(make_pool: Any) -> None:
    saved = {"backup": Backup(1_000_000.0, ever=False)}
    pool = await make_pool(settings=SETTINGS, backup=lambda: saved["backup"])
    assert await needs(pool) == []
    await pool.later(DAY + 1)
    assert (await the_need(pool)).said == "There is no backup of this pool yet."
    saved["backup"] = Backup(1_000_000.0, ever=True)
    assert (await the_need(pool)).said == "The latest backup is older than a day."
    saved["backup"] = Backup(pool.clock(), ever=True)
    assert await needs(pool) == []


async def test_use_that_is_not_recorded_is_a_problem(pool: Any) -> None:
    pool.engine.usage.unrecorded = "the disk is full"
    need = await the_need(pool)
    assert (need.said, need.problem) == ("The use of GPUs is not recorded: the disk is full.", True)


def test_what_is_gone_is_forgotten_after_an_hour_and_not_new_before() -> None:
    need = need_of(NeedKind.USAGE, "", {"detail": "x"}, 5.0)
    first = changed({}, [need], 5.0)
    known = {key: record for key, record in first.items() if record is not None}
    assert changed(known, [need], 6.0) == {}
    gone = {key: replace(record, gone=7.0) for key, record in known.items()}
    assert changed(known, [], 7.0) == gone
    assert changed(gone, [], 3_000.0) == {}
    assert changed(gone, [need], 3_000.0) == known
    assert changed(gone, [], 3_608.0) == {need.id: None}


def test_idle_gpus_are_added_up_by_day_and_type_and_dropped_in_the_end() -> None:
    now = 500 * DAY + 60.0
    today, long_ago = int(500 * DAY), int(99 * DAY)
    old = {(long_ago, "t4"): IdleWhileWaiting(long_ago, "t4", 5.0)}
    first = idle_days(old, {"t4": 3, "a100": 0}, 60.0, now)
    assert first == {
        (long_ago, "t4"): None,
        (today, "t4"): IdleWhileWaiting(today, "t4", 180.0),
        (today, "a100"): IdleWhileWaiting(today, "a100", 0.0),
    }
    known = {key: each for key, each in first.items() if each is not None}
    assert idle_days(known, {"t4": 0, "a100": 1}, 60.0, now) == {
        (today, "a100"): IdleWhileWaiting(today, "a100", 60.0)
    }


async def test_gpus_are_idle_while_others_wait_only_as_far_as_these_ask_for_them(pool: Any) -> None:
    await drained(pool)
    await pool.submit("susan", gpus=2)
    await looked(pool, 60.0)
    assert pool.engine.state.idle_while_waiting == {(950_400, ""): IdleWhileWaiting(950_400, "", 0.0)}
    home = await pool.engine.home.home()
    assert (home.numbers[""].idle.now, home.numbers[""].people.now) == (0.0, 1.0)
