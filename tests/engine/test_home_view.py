"""The numbers of the home page: from daily sums, by type and project, with what is lent now."""

from __future__ import annotations

from typing import Any

from springtide.scheduler import wire

DAY = 86_400.0


async def running(pool: Any, user: str, **fields: Any) -> Any:
    job = await pool.submit(user, **fields)
    await pool.state(job.id, "running")
    return job


async def home(pool: Any) -> wire.Home:
    await pool.later(60.0)
    return await pool.engine.home.home()


def of(found: wire.Home, name: str) -> wire.ProjectHome:
    return next(project for project in found.projects if project.name == name)


async def test_days_before_the_pool_are_unknown_and_today_counts_until_now(pool: Any) -> None:
    await running(pool, "susan", gpus=4)
    found = await home(pool)
    numbers = found.numbers[""]
    assert (numbers.gpus, numbers.held.now, numbers.people.now) == (11, 4.0, 1.0)
    assert numbers.held.days[:-1] == [None] * 29
    today = pool.clock() % DAY
    assert numbers.held.days[-1] == 4 * 60.0 / today
    assert numbers.wait_p50.now == 0.0
    assert list(found.numbers) == [""], "the pool has one type"


async def test_a_project_has_the_numbers_of_those_inside_it(pool: Any) -> None:
    await pool.engine.create_project("team", wire.ProjectEdit(parent="susan", quota=1), "admin", members={})
    await pool.submit("susan", gpus=4, project="team")
    await pool.submit("susan", gpus=8, project="team")
    await pool.idle()
    found = await home(pool)
    inside, above = of(found, "team"), of(found, "susan")
    assert above.trend[-1] == inside.trend[-1] > 0
    assert above.longest_wait == inside.longest_wait == 60.0
    assert of(found, "joe").longest_wait is None


async def test_unused_quota_that_others_hold_is_lent_in_proportion(pool: Any) -> None:
    await running(pool, "susan", gpus=6)
    found = await home(pool)
    lent = {project.name: sum(project.lent.values()) for project in found.projects}
    assert lent == {"susan": 0, "joe": 2, "jemma": 2}


async def test_what_was_read_is_good_for_others_and_read_again_later(pool: Any) -> None:
    before = await home(pool)
    await running(pool, "susan", gpus=4)
    pool.clock.now += 10.0
    soon = await pool.engine.home.home()
    assert soon.numbers[""].held.now == 4.0, "what is held now is never old"
    assert soon.numbers[""].held.days == before.numbers[""].held.days
    assert (await home(pool)).numbers[""].held.days[-1] != before.numbers[""].held.days[-1]
