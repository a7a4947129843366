"""The report of a month: announced once when it has ended, to whoever chose it, with what each may see."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from engine_worlds import MemoryExecutor, node
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.engine.settings import EngineSettings, Retries
from springtide.scheduler.model import Reason, Settings
from springtide.scheduler.notifications import (
    DeliveryState,
    NotificationChoice,
    NotificationEvent,
    NotificationSettings,
)

HOUR = 3_600.0
CHOSEN = frozenset({NotificationEvent.REPORT})
SETTINGS = EngineSettings(
    policy=Settings(grace=5.0),
    retries=Retries(first=1.0),
    notifications=NotificationSettings(CHANNELS, WITH_ADDRESS, fault_recipients=frozenset({"admin", "silent"})),
)
PROJECTS = {"lab": {"quota": 4}, "susan": {"quota": 2, "parent": "lab"}, "joe": {"quota": 2}}
JANUARY = ("There is a report of January 1970.", "1970-01")


def at(month: int, day: int, hour: int = 0) -> float:
    return datetime(1970, month, day, hour, tzinfo=UTC).timestamp()


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    return await reporting(make_pool)


async def reporting(make_pool: Any, **more: Any) -> Any:
    """A pool on 12 January 1970 whose admin and leads have chosen the report, and susan, who leads nothing."""
    executor = MemoryExecutor((node("train", 8, gpu_type="t4"),))
    pool = await make_pool(executor=executor, settings=replace(SETTINGS, **more), projects=PROJECTS)
    await pool.engine.follow_hub(Seen({}, {}, {"lab": ["lena"], "joe": ["jim"]}))
    for user in ("admin", "lena", "jim", "susan"):
        await pool.engine.outbox.choose(NotificationChoice(user, {EMAIL: CHOSEN}))
    return pool


async def held(pool: Any) -> None:
    """An hour of a GPU of susan's."""
    job = (await pool.submit("susan", gpus=1)).id
    await pool.state(job, "running")
    key = pool.key(job)
    await pool.later(HOUR)
    pool.executor.end(key, code=0)
    await pool.state(key.job, "succeeded")


async def arrives(pool: Any, moment: float) -> None:
    """Let the clock show a moment, and the pool look whether a month has ended."""
    pool.clock.now = moment
    await pool.later(0.0)
    await pool.engine.monthly_reports.follow()
    await pool.idle()


async def told(pool: Any, user: str) -> list[tuple[str, str]]:
    waiting = await pool.engine.outbox.waiting((user, EMAIL))
    return [(each.notification.title, each.notification.month) for each in waiting]


async def test_who_chose_it_is_told_once_over_restarts_and_a_clock_that_jumps(pool: Any) -> None:
    await held(pool)
    await arrives(pool, at(1, 31, 23))
    await arrives(pool, at(2, 1, 1))
    assert await told(pool, "admin") == [], "the use of the last hour is measured soon after it"
    await arrives(pool, at(2, 1, 3))
    for moment in (at(2, 1, 4), at(1, 31, 12), at(2, 1, 3), at(2, 20)):
        await arrives(pool, moment)
        await pool.restart()
        await arrives(pool, moment)
    assert await told(pool, "admin") == await told(pool, "lena") == await told(pool, "jim") == [JANUARY]
    assert await told(pool, "susan") == await told(pool, "silent") == []


async def test_a_service_that_was_away_on_the_first_tells_it_when_it_is_back(pool: Any) -> None:
    await held(pool)
    await pool.stop()
    pool.clock.now = at(2, 9)
    await pool.start()
    await arrives(pool, at(2, 9, 1))
    assert await told(pool, "admin") == [JANUARY]


async def test_months_that_ended_while_the_service_was_away_are_told_once_each_when_it_is_back(pool: Any) -> None:
    await arrives(pool, at(1, 2))
    await held(pool)
    await arrives(pool, at(2, 1, 3))
    await arrives(pool, at(2, 20))
    await held(pool)
    await pool.stop()
    pool.clock.now = at(5, 9)
    await pool.start()
    for moment in (at(5, 9, 1), at(5, 9, 2), at(5, 20)):
        await arrives(pool, moment)
    assert [month for _, month in await told(pool, "admin")] == ["1970-01", "1970-02", "1970-03", "1970-04"]


async def test_a_clock_that_was_years_ahead_keeps_no_later_report_back(pool: Any) -> None:
    await held(pool)
    await arrives(pool, at(1, 20))
    ahead = datetime(1975, 6, 9, tzinfo=UTC).timestamp()
    for moment in (ahead, at(1, 20, 1), at(2, 1, 3)):
        await arrives(pool, moment)
    assert [month for _, month in await told(pool, "admin")] == ["1975-05", "1970-01"]


async def test_notifications_are_as_old_as_what_they_tell_however_often_they_were_tried(pool: Any) -> None:
    await held(pool)
    await arrives(pool, at(2, 1, 3))
    await arrives(pool, at(3, 1, 3))
    outbox = pool.engine.outbox
    await outbox.settle(await outbox.waiting(("admin", EMAIL)), DeliveryState.WAITING, Reason("delivery-login"))
    waiting = await outbox.waiting(("admin", EMAIL))
    young = await outbox.made_after(at(2, 20), waiting)
    assert [each.notification.month for each in waiting] == ["1970-01", "1970-02"]
    assert [each.notification.month for each in young] == ["1970-02"]


async def test_a_month_in_which_nothing_was_recorded_is_passed_over(pool: Any) -> None:
    await arrives(pool, at(1, 20))
    assert await told(pool, "admin") == []
    assert await pool.engine.monthly_reports.of_person("susan", "1970-01") is None


@pytest.mark.parametrize(("zone", "due"), [("Asia/Tokyo", at(2, 1, 2)), ("America/Los_Angeles", at(2, 1, 10))])
async def test_it_comes_on_the_first_of_the_pools_time_zone_once_the_day_has_ended_in_utc(
    make_pool: Any, zone: str, due: float
) -> None:
    pool = await reporting(make_pool, time_zone=zone)
    await held(pool)
    await arrives(pool, due - 60.0)
    assert await told(pool, "admin") == []
    await arrives(pool, due + 60.0)
    assert await told(pool, "admin") == [JANUARY]


async def test_each_sees_the_projects_that_she_leads_and_admins_see_all(pool: Any) -> None:
    await held(pool)
    budget = wire.BudgetRequest(amount=1.2, unit="gpu-hours", beyond="tell")
    await pool.engine.budgets.set("susan", budget, "admin")
    await arrives(pool, at(2, 1, 3))

    async def seen(user: str) -> tuple[set[str], float, list[str]]:
        by_project, by_day = await pool.engine.monthly_reports.of_person(user, "1970-01")
        assert (by_project.start, by_project.end, by_day.by) == ("1970-01-01", "1970-01-31", ["day"])
        return (
            {row.by["project"] for row in by_project.rows},
            round(by_day.total.gpu_hours_held, 2),
            by_project.notable,
        )

    spent = "“susan” spent 83 % of its budget: 1 of 1.20 GPU-hours."
    assert await seen("admin") == (
        {"lab", "susan", "joe"},
        1.0,
        ["1 project with a quota held nothing: “joe”.", spent],
    )
    assert await seen("lena") == (
        {"lab", "susan"},
        1.0,
        [spent],
    )
    assert await seen("jim") == ({"joe"}, 0.0, ["1 project with a quota held nothing: “joe”."])
