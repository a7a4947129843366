"""Every decision can be replayed from the journal, and old entries are deleted."""

from __future__ import annotations

from dataclasses import replace

import engine_worlds as worlds
import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.state import journal
from springtide.scheduler.engine.views import history
from springtide.scheduler.model import Drop, Move, Pause, Plan, Reason, Reserve, Start, Worker
from springtide.scheduler.policy.planner import Planner
from springtide.scheduler.settings import DAY
from springtide.scheduler.store.ledger import EndedFact, FactKind
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import GpuUse


async def busy(pool, members):
    """A few decisions of every kind that comes easily."""
    first = await pool.submit(gpus=4)
    second = await pool.submit(gpus=4)
    await pool.state(second.id, "running")
    owners = await pool.submit("joe", gpus=2)
    await pool.state(owners.id, "running")
    await pool.engine.edit_project("jemma", wire.ProjectEdit(weight=3.0), "admin", members=members)
    other = await pool.submit("jemma", gpus=2, priority="high")
    pool.executor.end(pool.key(owners.id), code=0)
    await pool.state(owners.id, "succeeded")
    for job in (first, second, other):
        await pool.engine.cancel(job.id, "admin")
        await pool.state(job.id, "cancelled")
    await pool.idle()


def replayed(records):
    """Every decision, made again."""
    for number, record in enumerate(records):
        base = next(n for n, one in enumerate(records) if one.id == record.base)
        yield record, journal.replay(records[base : number + 1], Planner)


async def test_every_decision_can_be_replayed_to_the_same_plan(pool, members):
    await busy(pool, members)
    await pool.restart()
    await busy(pool, members)
    records = pool.store.read(reading.decisions, 0, 10_000)
    assert len(records) >= 6
    assert len({record.base for record in records}) == 2
    assert len({record.epoch for record in records}) == 2
    for record, plan in replayed(records):
        assert journal.decode_plan(record.plan) == plan
        assert plan.decisions


async def test_a_base_is_made_again_now_and_then(pool, members, monkeypatch):
    monkeypatch.setattr(journal, "MIN_CHANGES_PER_BASE", 2)
    await busy(pool, members)
    records = pool.store.read(reading.decisions, 0, 10_000)
    assert len({record.base for record in records}) > 1
    for record, plan in replayed(records):
        assert journal.decode_plan(record.plan) == plan


async def test_a_journal_that_was_changed_is_not_believed(pool, members):
    await busy(pool, members)
    records = pool.store.read(reading.decisions, 0, 10_000)
    for wrong in (
        [replace(records[0], snapshot=records[0].snapshot + b" "), *records[1:]],
        [*records[:-1], replace(records[-1], changes=b"[]")],
        [records[0], *records[2:]],
        records[1:],
    ):
        with pytest.raises(ValueError, match=r"digest|missing|not a base"):
            journal.replay(wrong, Planner)


def test_plans_survive_their_writing():
    place = (Worker(0, "a", (1, 2)), Worker(1, "b", (0, 1)))
    why = Reason("x", {"gpus": 2, "names": ("a", "b"), "none": None, "share": 0.5})
    plan = Plan(
        (
            Start("a", place, why),
            Pause("b", "a", why),
            Move("c", place, None, why),
            Reserve("d", place, why),
            Drop("e", why),
        ),
        wake_at=12.5,
    )
    assert journal.decode_plan(journal.encode_plan(plan)) == plan


async def test_old_jobs_are_forgotten_with_all_they_left(make_pool):
    pool = await make_pool(settings=EngineSettings(keep_days=100.0 / DAY, prune_every=3600.0))
    old = await pool.submit(gpus=1, files={"a": b"1"})
    await pool.state(old.id, "running")
    pool.executor.end(pool.key(old.id), code=0)
    await pool.state(old.id, "succeeded")
    pool.clock.now += 1000
    kept = await pool.submit(gpus=1)
    await pool.state(kept.id, "running")
    await pool.restart()
    await pool.until(lambda: pool.executor.removed == [old.id])
    await pool.until(lambda: pool.store.read(reading.job, old.id) is None)
    assert pool.store.read(reading.job, kept.id) is not None


# ---------- the tide chart


async def test_the_tide_chart_tells_who_held_what_when(pool):
    start = pool.clock.now
    job = await pool.submit(gpus=4)
    await pool.state(job.id, "running")
    pool.clock.now += 100
    pool.executor.end(pool.key(job.id), code=0)
    await pool.state(job.id, "succeeded")
    pool.clock.now += 100
    chart = await pool.engine.history(start, start + 200)
    assert [(point.at - start, point.held) for point in chart.points] == [(0, {"susan": 4}), (100, {}), (200, {})]
    assert chart.share_held == 0.25
    assert chart.quotas["susan"] == 2
    assert chart.total == 8


async def test_the_future_is_not_shown(pool):
    now = pool.clock.now
    chart = await pool.engine.history(now + 10, now + 100)
    assert (chart.end, chart.points[-1].held, chart.share_held) == (now, {}, 0.0)


async def test_the_tide_chart_has_the_gpus_of_each_time_and_none_before_there_was_a_pool(pool):
    start = pool.clock.now
    job = await pool.submit(gpus=4)
    await pool.state(job.id, "running")
    await pool.later(100)
    pool.executor.change_nodes(*worlds.EIGHT, worlds.node("more", 8))
    await pool.later(0)
    await pool.later(100)
    chart = await pool.engine.history(start - 200, pool.clock.now)
    assert [(point.at - start, point.total) for point in chart.points] == [(-200, 0), (0, 8), (100, 16), (200, 16)]
    assert chart.total == 16
    assert chart.share_held == pytest.approx(4 * 200 / (8 * 100 + 16 * 100))
    past = await pool.engine.history(start, start + 50)
    assert (past.total, past.share_held) == (8, 0.5)


def gpus(number: int, start: float, end: float) -> EndedFact:
    """Return the fact that the pool had a number of GPUs."""
    return EndedFact(1, FactKind.GPUS, "", "", float(number), start, end)


def test_a_long_chart_is_thinned_out():
    held = [GpuUse("p", 1, 0, float(n), n + 0.5) for n in range(20_000)]
    chart = history.history(held, 0.0, 20_000.0, {}, facts=[gpus(8, 0.0, 20_000.0)])
    assert len(chart.points) <= history.MAX_POINTS + 2
    assert [point.at for point in chart.points] == sorted(point.at for point in chart.points)
    assert chart.share_held == pytest.approx(0.5 / 8)


def test_an_attempt_that_still_runs_counts_until_now():
    chart = history.history([GpuUse("p", 2, 0, 50.0, 100.0)], 0.0, 100.0, {}, facts=[gpus(4, 0.0, 100.0)])
    assert [(point.at, point.held) for point in chart.points] == [(0.0, {}), (50.0, {"p": 2}), (100.0, {"p": 2})]
    assert chart.share_held == 0.25
