"""A job remembers its last turn, so that it goes behind the others that wait for one."""

from __future__ import annotations

import pytest

from springtide.scheduler.engine.state.state import policy_job
from springtide.scheduler.policy.phases.reservations import RESERVE_AFTER

PROJECTS = {"susan": {"quota": 0}, "joe": {"quota": 0}, "jemma": {"quota": 2}}


def last_turn(pool, job) -> float | None:
    return policy_job(pool.engine._parts.state.jobs[job.id]).last_turn


@pytest.fixture
async def pool(make_pool):
    return await make_pool(projects=PROJECTS)


@pytest.fixture
async def paused(pool):
    """Return a job that is larger than the share of its project, and was paused in its turn for an owner."""
    holder = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(holder.id, "running")
    wide = await pool.submit("joe", gpus=8)
    await pool.idle()
    await pool.later(RESERVE_AFTER + 1)
    await pool.state(wide.id, "running")
    await pool.later(31)
    owner = await pool.submit("jemma", gpus=2)
    await pool.state(owner.id, "running")
    await pool.state(wide.id, "paused")
    return wide


async def test_it_is_the_time_at_which_the_job_started_in_its_turn(pool, paused):
    assert last_turn(pool, paused) == paused.submitted + RESERVE_AFTER + 1


async def test_it_is_known_after_a_restart(pool, paused):
    before = last_turn(pool, paused)
    await pool.restart()
    await pool.idle()

    assert last_turn(pool, paused) == before


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_a_step_of_the_clock_shifts_it(pool, paused, step):
    before = last_turn(pool, paused)
    await pool.set_clock(step)
    await pool.idle()

    assert last_turn(pool, paused) == before + step
