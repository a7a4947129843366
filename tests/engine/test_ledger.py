"""The ledger follows who holds which GPUs, and ends with the attempts, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engine_worlds import EIGHT, AttemptKey, MemoryExecutor, node
from jobs.ledger_entries import kept_entries

from springtide.scheduler import wire
from springtide.scheduler.engine.loop import ledger_sums
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.store import ledger_writing
from springtide.scheduler.store.ledger import EndedFact, FactKind
from springtide.scheduler.store.queries import ledger

T0 = 1_000_000.0


def entries(pool: Any, job_id: str = "") -> list[Any]:
    """Return the entries of a job, or of workspaces, those of what is held until now among them."""
    return [each for each in pool.store.read(kept_entries, pool.clock()) if each.job == job_id]


def spans(pool: Any, job_id: str) -> list[tuple[float, float, int, int]]:
    """Return begin and end of each entry, its GPUs and those that are borrowed."""
    return [(each.start - T0, each.end - T0, each.gpus, each.borrowed) for each in entries(pool, job_id)]


def facts(pool: Any) -> list[EndedFact]:
    """Return the facts of the pool, those of now until now."""
    whole = ledger.Intervals(86_400, (0, int(2 * T0)))
    return pool.store.read(ledger.accounts, whole, (), now=pool.clock()).facts


async def running(pool: Any, user: str = "susan", **fields: Any) -> AttemptKey:
    """Submit a job, and return its attempt once it runs."""
    job = await pool.submit(user, **fields)
    await pool.state(job.id, "running")
    return AttemptKey(job.id, 1)


async def ended(pool: Any, key: AttemptKey, **how: Any) -> None:
    pool.executor.end(key, **{"code": 0, **how})
    await pool.idle()


async def quota(pool: Any, project: str, number: int) -> None:
    await pool.engine.edit_project(project, wire.ProjectEdit(quota=number), "admin", members={})


async def test_a_job_is_entered_from_its_start_to_its_end(pool: Any) -> None:
    pool.executor.slow_start = True
    job = await pool.submit(gpus=2)
    await pool.until(lambda: AttemptKey(job.id, 1) in pool.executor.world)
    pool.clock.now += 5.0
    pool.executor.run(AttemptKey(job.id, 1))
    await pool.later(95.0)
    assert spans(pool, job.id) == [(0.0, 100.0, 2, 0)]
    await ended(pool, AttemptKey(job.id, 1))
    await pool.later(50.0)
    (entry,) = entries(pool, job.id)
    assert spans(pool, job.id) == [(0.0, 100.0, 2, 0)]
    assert (entry.user, entry.project, entry.kind, entry.nodes) == ("susan", "susan", "training", {"train": 2})
    assert (entry.wait, entry.ended, entry.lost) == (5.0, "succeeded", 0.0)


async def test_an_entry_ends_when_a_quota_changes_what_is_borrowed(pool: Any) -> None:
    key = await running(pool, gpus=4)
    await pool.later(10.0)
    await quota(pool, "susan", 4)
    await pool.later(20.0)
    await quota(pool, "susan", 3)
    await pool.later(30.0)
    await ended(pool, key)
    assert spans(pool, key.job) == [(0.0, 10.0, 4, 2), (10.0, 30.0, 4, 0), (30.0, 60.0, 4, 1)]


async def test_the_end_of_another_job_changes_what_is_borrowed(pool: Any) -> None:
    first = await running(pool, gpus=2)
    await pool.later(10.0)
    second = await running(pool, gpus=2)
    await pool.later(20.0)
    await ended(pool, first)
    await pool.later(30.0)
    assert spans(pool, second.job) == [(10.0, 30.0, 2, 2), (30.0, 60.0, 2, 0)]


def borrowed(job: wire.Job) -> list[tuple[float, float | None, int]]:
    """Return when the last attempt borrowed, from its start, and how many GPUs."""
    (attempt,) = job.attempts
    return [(each.start - T0, None if each.end is None else each.end - T0, each.gpus) for each in attempt.borrowed]


async def test_an_attempt_says_when_it_borrowed_as_the_ledger_has_it(pool: Any) -> None:
    first, second = await running(pool, gpus=1), await running(pool, gpus=1)
    third = await running(pool, gpus=2)
    await pool.later(10.0)
    assert borrowed(await pool.job(third.job)) == [(0.0, None, 2)]
    await ended(pool, first)
    await pool.later(20.0)
    assert borrowed(await pool.job(third.job)) == [(0.0, 10.0, 2), (10.0, None, 1)]
    await ended(pool, second)
    await pool.later(80.0)
    await ended(pool, third)
    after = await pool.job(third.job)
    assert borrowed(after) == [(0.0, 10.0, 2), (10.0, 30.0, 1)]
    assert spans(pool, third.job) == [(0.0, 10.0, 2, 2), (10.0, 30.0, 2, 1), (30.0, 110.0, 2, 0)]
    await pool.restart()
    assert borrowed(await pool.job(third.job)) == borrowed(after)


async def test_an_attempt_that_was_paused_keeps_when_it_borrowed(pool: Any) -> None:
    key = await running(pool, gpus=4)
    await pool.later(10.0)
    await quota(pool, "susan", 4)
    await pool.later(60.0)
    await pool.engine.pause(key.job, "susan")
    await pool.state(key.job, "paused")
    await pool.engine.resume(key.job, "susan")
    await pool.state(key.job, "running", attempt=2)
    one, two = (await pool.job(key.job)).attempts
    assert [(each.start - T0, each.end - T0, each.gpus) for each in one.borrowed] == [(0.0, 10.0, 2)]
    assert two.borrowed == []


async def test_each_attempt_has_entries_and_says_how_it_ended(pool: Any) -> None:
    key = await running(pool, gpus=1)
    await pool.later(10.0)
    pool.executor.report(key, step=1, saved=True)
    await pool.later(30.0)
    pool.executor.end(key, kind=ExitKind.LOST)
    await pool.later(100.0)
    await pool.state(key.job, "running", attempt=2)
    await pool.later(10.0)
    await ended(pool, AttemptKey(key.job, 2))
    first, second = entries(pool, key.job)
    assert (first.ended, first.lost, first.wait) == ("lost", 30.0, 0.0)
    assert (second.ended, second.lost, second.wait) == ("succeeded", 0.0, None)


async def test_work_is_lost_by_a_pause_without_a_checkpoint_alone(pool: Any) -> None:
    saves, loses = await running(pool, gpus=1), await running(pool, gpus=1)
    await pool.later(40.0)
    await pool.engine.pause(saves.job, "susan")
    await pool.state(saves.job, "paused")
    pool.executor.pause_exit = 1
    await pool.engine.pause(loses.job, "susan")
    await pool.state(loses.job, "paused")
    assert [(each.ended, each.lost) for each in entries(pool, saves.job)] == [("paused", 0.0)]
    assert [(each.ended, each.lost) for each in entries(pool, loses.job)] == [("paused", 40.0)]


async def test_what_ended_while_the_service_was_away_ends_when_it_did(pool: Any) -> None:
    key = await running(pool, gpus=4)
    await pool.later(10.0)
    await pool.stop()
    pool.clock.now += 10.0
    pool.executor.end(key, code=0)
    pool.clock.now += 500.0
    await pool.start()
    await pool.idle()
    assert spans(pool, key.job) == [(0.0, 20.0, 4, 2)]


async def test_what_changed_after_the_end_of_an_attempt_is_not_of_it(pool: Any) -> None:
    key = await running(pool, gpus=4)
    await pool.later(50.0)
    await quota(pool, "susan", 4)
    await pool.later(50.0)
    await ended(pool, key, ran=30.0)
    assert spans(pool, key.job) == [(0.0, 30.0, 4, 2)]


@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
async def test_a_step_of_the_clock_adds_no_hour_to_the_ledger_or_the_history(pool: Any, step: float) -> None:
    key = await running(pool, gpus=4)
    await pool.later(10.0)
    await quota(pool, "susan", 4)
    await pool.later(10.0)
    await pool.set_clock(step)
    await pool.later(10.0)
    await ended(pool, key)
    assert spans(pool, key.job) == [(step, step + 10.0, 4, 2), (step + 10.0, step + 30.0, 4, 0)]
    (use,) = pool.store.read(ledger.gpu_use, 0.0, T0 + step + 10.0, pool.clock())
    assert (use.start - T0, use.end - T0) == (step, step + 10.0)


async def test_workspaces_are_entered_and_those_without_gpus_are_not(pool: Any) -> None:
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    await pool.engine.reserve_workspace("joe", "", 0, ["joe"])
    await pool.later(40.0)
    await pool.engine.release_workspace("susan", "")
    await pool.later(10.0)
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    await pool.later(5.0)
    found = [(each.user, each.kind, each.project, each.start - T0, each.end - T0) for each in entries(pool)]
    assert found == [("susan", "workspace", "", 0.0, 40.0), ("susan", "workspace", "", 50.0, 55.0)]


async def test_jobs_without_gpus_are_not_entered(pool: Any) -> None:
    key = await running(pool, gpus=0)
    await pool.later(10.0)
    assert entries(pool, key.job) == []


async def test_a_gang_is_one_entry_with_its_nodes(make_pool: Any, tmp_path: Any) -> None:
    pool = await make_pool(path=tmp_path)
    pool.executor.change_nodes(node("a", 2), node("b", 2), EIGHT[1])
    await pool.idle()
    key = await running(pool, gpus=2, workers=2)
    await pool.later(10.0)
    (entry,) = entries(pool, key.job)
    assert (entry.nodes, entry.gpus, entry.borrowed) == ({"a": 2, "b": 2}, 4, 2)


async def test_a_new_price_counts_from_the_restart(make_pool: Any) -> None:
    pool = await make_pool(executor=MemoryExecutor((node("train", 8, gpu_type="t4"),)))
    key = await running(pool, gpus=1)
    await pool.later(10.0)
    pool.settings = replace(pool.settings, gpu_hour_prices={"NVIDIA T4": 2.5})
    await pool.restart()
    await pool.later(20.0)
    assert [(each.price, each.end - each.start) for each in entries(pool, key.job)] == [(None, 10.0), (2.5, 20.0)]


async def test_another_owner_is_charged_from_then_on_and_another_name_from_the_start(pool: Any) -> None:
    first = {"susan": "2026-01-01T10:00:00.000001Z", "joe": "2026-01-02T10:00:00.000001Z"}
    await pool.engine.follow_hub(Seen(first, {"susan": ["susan"]}))
    past, key = await running(pool, gpus=1), await running(pool, gpus=1)
    await pool.later(10.0)
    await ended(pool, past)
    renamed = {"sue": first["susan"], "joe": first["joe"]}
    await pool.engine.follow_hub(Seen(renamed, {"susan": ["sue"]}))
    await pool.later(10.0)
    for job_id in (past.job, key.job):
        assert [each.user for each in entries(pool, job_id)] == ["sue"], job_id


async def test_facts_of_the_pool_last_until_they_change(pool: Any) -> None:
    await pool.later(100.0)
    await quota(pool, "susan", 3)
    await pool.later(50.0)
    pool.executor.change_nodes(node("train", 6), EIGHT[1])
    await pool.later(10.0)
    await pool.engine.create_project("vision", wire.ProjectEdit(quota=0, limit=4), "admin", members={})
    await pool.engine.delete_project("vision", "admin")
    await pool.restart()
    await pool.later(40.0)
    found = facts(pool)
    of = {
        key: [(each.start - T0, each.end - T0, each.value) for each in found if (each.kind, each.project) == key]
        for key in (
            (FactKind.QUOTA, "susan"),
            (FactKind.QUOTA, "joe"),
            (FactKind.GPUS, ""),
            (FactKind.LIMIT, "joe"),
        )
    }
    assert of[FactKind.QUOTA, "susan"] == [(0.0, 100.0, 2.0), (100.0, 200.0, 3.0)]
    assert of[FactKind.QUOTA, "joe"] == [(0.0, 200.0, 2.0)]
    assert of[FactKind.LIMIT, "joe"] == [(0.0, 200.0, None)]
    assert of[FactKind.GPUS, ""] == [(0.0, 160.0, 8.0), (160.0, 200.0, 6.0)]


async def test_what_runs_in_a_store_without_a_ledger_is_entered_from_its_start(pool: Any) -> None:
    key = await running(pool, gpus=4)
    await pool.later(10.0)
    with pool.store._writer.begin() as connection:
        connection.exec_driver_sql("DELETE FROM holdings")
    await pool.restart()
    await pool.later(10.0)
    assert spans(pool, key.job) == [(0.0, 20.0, 4, 2)]


async def test_a_department_has_the_part_of_its_quota_that_no_team_has(pool: Any) -> None:
    await pool.engine.create_project("lab", wire.ProjectEdit(quota=2), "admin", members={})
    await pool.later(10.0)
    await pool.engine.create_project("team", wire.ProjectEdit(quota=1, parent="lab"), "admin", members={})
    await pool.later(10.0)
    await pool.engine.delete_project("team", "admin")
    own = [each for each in facts(pool) if each.kind is FactKind.OWN_QUOTA]
    assert [(each.project, each.start - T0, each.end - T0, each.value) for each in own] == [
        ("lab", 10.0, 20.0, 1.0)
    ]


async def test_entries_are_added_to_the_sums_after_the_commit(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_sums, "COLLECT", 0.0)
    key = await running(pool, gpus=2)
    await pool.later(10.0)
    await ended(pool, key)
    await pool.until(lambda: not pool.store.read(ledger_writing.has_entries))
    with pool.store._writer.connect() as connection:
        held = connection.exec_driver_sql("SELECT SUM(held) FROM ledger_sums WHERE step = 86400").scalar()
    assert held == 20.0
