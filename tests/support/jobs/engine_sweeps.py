"""Sweeps on the pool of the engine's tests: submit one, look at it, end its attempts."""

from __future__ import annotations

from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine import JobFilter
from springtide.scheduler.engine.sweeps.requests import trial_query
from springtide.scheduler.executors.base import TrialReport


async def sweep(pool, number=20, user="susan", **fields: Any):
    trials = {name: fields.pop(name) for name in list(fields) if name in wire.Trials.__struct_fields__}
    return await pool.submit(user, trials=wire.Trials(number=number, **trials), **fields)


async def counts(pool, sweep_id) -> wire.TrialCounts:
    await pool.idle()
    found = (await pool.job(sweep_id)).trials
    unfinished = found.queued + found.running + found.paused
    assert unfinished + found.succeeded + found.pruned + found.failed + found.cancelled == found.number
    return found


async def rows(pool, sweep_id, order="trial", states="", cursor=None, limit=1000) -> wire.TrialPage:
    return await pool.engine.sweeps.trials(sweep_id, trial_query(sweep_id, order, states), cursor, limit)


async def jobs_of(pool, sweep_id) -> list[wire.Job]:
    page = await pool.engine.jobs(JobFilter(sweep=sweep_id), None, 500)
    return sorted(page.items, key=lambda job: job.trial)


def live(pool) -> list:
    return sorted(pool.executor.live())


async def end_all(pool, code=0, value=None):
    """End every attempt that runs; the value of a trial follows from its number."""
    await pool.idle()
    for key in live(pool):
        trial = pool.executor.specs[key].trial
        if value is not None and trial is not None:
            pool.executor.report(key, trial=TrialReport({"x": trial}, value(trial), memo=f"of {trial}"))
        pool.executor.end(key, code=code)
    await pool.idle()
