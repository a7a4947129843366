"""Distributions of waits, run times and lost work."""

from __future__ import annotations

from typing import Any

from engine_worlds import AttemptKey

from springtide.scheduler.engine.job_times import BOUNDS, Distribution, cumulative


def test_a_value_counts_in_its_class_and_in_all_above() -> None:
    found = Distribution()
    for value in (0.5, 60.0, 61.0, 1e9):
        found.add(value)
    classes = dict(cumulative(found.counts))
    assert (classes["1.0"], classes["60.0"], classes["300.0"], classes["+Inf"]) == (1, 2, 3, 4)
    assert (len(classes), found.total) == (len(BOUNDS) + 1, 0.5 + 60.0 + 61.0 + 1e9)


async def test_first_starts_ends_and_pauses_of_jobs_are_counted_once(pool: Any) -> None:
    pool.executor.slow_start = True
    pool.executor.pause_exit = 1
    job = await pool.submit(gpus=2)
    await pool.until(lambda: AttemptKey(job.id, 1) in pool.executor.world)
    pool.clock.now += 30.0
    pool.executor.run(AttemptKey(job.id, 1))
    await pool.later(100.0)
    await pool.engine.pause(job.id, "susan")
    await pool.state(job.id, "paused")
    await pool.engine.resume(job.id, "susan")
    await pool.until(lambda: AttemptKey(job.id, 2) in pool.executor.world)
    pool.executor.run(AttemptKey(job.id, 2))
    await pool.later(10.0)
    pool.executor.end(AttemptKey(job.id, 2), code=0)
    await pool.idle()
    times = pool.engine.job_times
    waits, runs, lost = (by_project["susan"] for by_project in (times.waits, times.runs, times.lost))
    assert (sum(waits.counts), waits.total) == (1, 30.0)
    assert (sum(runs.counts), runs.total) == (2, 110.0)
    assert (sum(lost.counts), lost.total) == (1, 200.0)
