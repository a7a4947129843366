"""Expected starts of waiting jobs, as their viewers see them; and what-if forecasts."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import engine_worlds as worlds
import pytest
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.client.descriptions import expectation
from springtide.scheduler.engine.forecasts import cache, missed
from springtide.scheduler.engine.forecasts.accuracy import accuracy
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.forecast import NEVER, Window
from springtide.scheduler.model import Reason
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import pruning
from springtide.scheduler.store.shown_forecasts import ForecastOutcome, ShownForecast

EVERYTHING = PATIENCE_S


def forecast_process() -> int:
    """The process that forecasts, among the children of this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    (found,) = (pid for pid, command in commands.items() if "forecast_worker" in command)
    return found


@pytest.fixture
def look(pool):
    """The start of a waiting job, once it was worked out."""

    async def looked(job_id):
        async with asyncio.timeout(EVERYTHING):
            while True:
                await pool.engine.request_starts([(await pool.job(job_id))], EVERYTHING)
                starts = (await pool.job(job_id)).starts
                if starts is not None and starts.at == pool.clock.now:
                    return starts
                await asyncio.sleep(0.05)

    return looked


@pytest.fixture
def ask(pool, members):
    async def asked(question, user="susan", project=None, sees=lambda _user, _project: True):
        return await pool.engine.forecast(question, user, project or user, sees=sees, members=members)

    return asked


async def test_a_job_that_waits_for_one_with_a_time_limit_starts_by_then(pool, look):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    now = pool.clock.now

    starts = await look(second.id)

    assert starts.latest == now + 1000
    assert now <= starts.earliest <= starts.likely <= starts.latest
    assert starts.why is None


def test_a_start_that_stays_due_at_once_keeps_the_time_at_which_it_was_first_due():
    def due(likely, at):
        return wire.Starts(earliest=likely, likely=likely, latest=likely + 600.0, why=None, at=at)

    first = cache.as_promised(due(1000.0, 1000.0), due(5000.0, 990.0))
    assert first.likely == 1000.0, "an earlier start is no broken promise"
    later = cache.as_promised(due(1030.0, 1030.0), first)
    later = cache.as_promised(due(1090.0, 1090.0), later)
    assert (later.earliest, later.likely, later.latest, later.at) == (1000.0, 1000.0, 1690.0, 1090.0)
    assert expectation(later, 1090.0) == "It was expected to start 1 min ago."
    assert cache.as_promised(due(1100.0, 1090.0), later).likely == 1100.0, "another start is foreseen"
    assert cache.as_promised(due(2000.0, 2000.0), later).likely == 2000.0, "nobody has looked meanwhile"
    assert cache.as_promised(due(1100.0, 1100.0), None).likely == 1100.0
    unknown = cache.unknown_start("working", 1100.0)
    assert cache.as_promised(unknown, later) == unknown
    assert cache.as_promised(due(1100.0, 1100.0), unknown).likely == 1100.0


def test_a_forecast_that_was_missed_is_wider_and_one_missed_often_is_withdrawn() -> None:
    def made(at: float, wait: float = 60.0, longest: float = 240.0) -> wire.Starts:
        return wire.Starts(earliest=at, likely=at + wait, latest=at + longest, why=None, at=at)

    before, found = None, []
    for at in range(0, 2_000, 100):
        start, before = missed.widened(before, made(float(at)))
        found.append(start)
    shown = [start for start in found if start.latest is not None]
    assert [start.latest - start.at for start in shown] == [240, 240, 240, 300, 400, 500, 600, 700, 800], (
        "once it was missed as far away as the first one is old"
    )
    assert found[: len(shown)] == shown, "what was withdrawn stays so"
    assert {start.why.text for start in found[len(shown) :] if start.why} == {
        "When it starts is unknown: it was expected several times and did not start."
    }
    far, _ = missed.widened(before, made(2_000.0, 9_000.0, 9_900.0))
    assert (far.likely, far.latest) == (11_000, 11_900), "it is further away than the first one is old"


async def test_a_job_that_does_not_start_when_it_was_expected_is_expected_no_more(pool, look):
    """Longer jobs come before it again and again, of which no forecast knows."""
    first = await pool.submit("susan", gpus=8, time_limit=300.0, rotate=False)
    await pool.state(first.id, "running")
    waits = await pool.submit("susan", gpus=8, rotate=False)
    await pool.idle()
    begun, found = pool.clock.now, []
    for number in range(9):
        found.append(await look(waits.id))
        await pool.submit("susan", name=f"other {number}", gpus=8, priority="high", time_limit=300.0, rotate=False)
        pool.clock.now += 250
    likely = [start.likely for start in found]
    assert likely[0] == begun + 150
    assert None not in likely[:3]
    assert any(start.latest > start.at + 600 for start in found if start.latest is not None)


def test_while_others_compute_on_the_gpus_no_start_is_called_impossible():
    window = Window(None, None, None, NEVER)
    nodes = ObservedNodes((worlds.node("train", 8, taken=frozenset([3])),))
    starts = cache.starts_of(window, 0.0, 1.0, cache.never_of(cache.never_code(nodes), None))
    assert starts.why.text == "Processes outside the pool use GPUs: when these end cannot be predicted."
    free = ObservedNodes((worlds.node("train", 8),))
    starts = cache.starts_of(window, 0.0, 1.0, cache.never_of(cache.never_code(free), None))
    assert "it never starts" in starts.why.text


def test_a_job_that_waits_for_its_budget_is_not_said_to_never_start():
    spent = {"at": "vision", "budget_of": "vision", "budget_beyond": "no-borrowing"}
    waits = Reason("over-limit", {**spent, "budget_until": "2026-12-01 00:00"})
    starts = cache.starts_of(Window(None, None, None, NEVER), 0.0, 1.0, cache.never_of(NEVER, waits))
    assert starts.why.text == (
        "No start is foreseen before 2026-12-01 00:00, when the next budget of “vision” begins."
    )


async def test_a_job_under_a_drain_that_ends_is_not_said_to_never_start(pool, ask):
    until = pool.clock.now + 3600.0
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    await pool.engine.drain_node(wire.DrainRequest(node="train", until=until), "admin")
    await pool.state(job.id, "paused")
    foreseen = "No start is foreseen before 1970-01-12 14:46 UTC, when the drain of the node train ends."
    assert (await ask(wire.WhatIf(starts=[job.id]))).starts[job.id].why.text == foreseen
    reason = (await pool.job(job.id)).reason
    assert "The node train is drained until 1970-01-12 14:46 UTC, and comes back then." in reason.text
    assert "never" not in reason.text
    assert reason.headline.endswith("the node train is drained until 1970-01-12 14:46 UTC.")

    await pool.engine.drain_node(wire.DrainRequest(node="train"), "admin")
    reason = (await pool.job(job.id)).reason.text
    assert "is drained until" not in reason
    assert "It can start once the node train is undrained." in reason
    assert (await ask(wire.WhatIf(starts=[job.id]))).starts == {}


async def test_only_drains_whose_end_helps_a_job_are_named_with_it(pool, ask):
    until = pool.clock.now + 3600.0
    pool.executor.change_nodes(worlds.node("small", 2), worlds.node("large", 8))
    await pool.idle()
    await pool.engine.drain_node(wire.DrainRequest(node="small", until=until), "admin")
    await pool.engine.drain_node(wire.DrainRequest(node="large"), "admin")
    large, small = await pool.submit("susan", gpus=4), await pool.submit("susan", gpus=1)
    await pool.idle()
    assert "is drained until" not in (await pool.job(large.id)).reason.text
    assert "The node small is drained until" in (await pool.job(small.id)).reason.text

    await pool.engine.drain_node(wire.DrainRequest(node="large", until=until + 60.0), "admin")
    starts = (await ask(wire.WhatIf(starts=[large.id]))).starts[large.id]
    assert starts.why.text.endswith("14:47 UTC, when the drain of the node large ends.")


async def test_while_no_node_can_be_used_nothing_is_called_impossible(pool):
    pool.executor.change_nodes(worlds.node("train", 8, taken=frozenset(range(8))))
    await pool.idle()
    job = await pool.submit("susan", gpus=1)
    await pool.idle()
    assert (await pool.job(job.id)).reason.text == (
        "It needs 1 GPU on one node, and no node can be used now. It can start when a node can be used again."
    )


async def test_nothing_is_claimed_of_a_job_that_nobody_looked_at(pool):
    first = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    assert (await pool.job(second.id)).starts is None


async def test_behind_a_job_of_which_nothing_is_known_no_time_is_told_however_long_it_runs(pool, look):
    first = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    for seconds in (0, 65, 3_590, 100_000):
        pool.clock.now += seconds

        starts = await look(second.id)

        assert (starts.likely, starts.latest) == (None, None)
        assert expectation(starts, pool.clock.now) == (
            "When it starts is unknown: jobs before it have no time limit, and none like them ran so long."
        )
        assert "It could start if the job" in (await pool.job(second.id)).reason.text


async def test_a_pause_that_takes_longer_than_it_may_ends_at_no_time_that_is_told(pool, look):
    pool.executor.ignores_pause = True
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, grace=40.0)
    await pool.state(first.id, "running")
    second = await pool.submit("jemma", gpus=2)
    await pool.state(first.id, "pausing")
    await pool.later(41)
    assert expectation(await look(second.id), pool.clock.now) == "Likely starts any moment."
    await pool.later(20)
    assert expectation(await look(second.id), pool.clock.now) == (
        "It starts once a stopping job has left its GPUs, which is overdue: no time can be given."
    )


async def test_run_times_are_learnt_from_jobs_that_ended(pool, look):
    for _ in range(3):
        job = await pool.submit("susan", gpus=8, name="sweep-1")
        await pool.state(job.id, "running")
        pool.clock.now += 600
        pool.executor.end(pool.key(job.id), code=0)
        await pool.state(job.id, "succeeded")
    running = await pool.submit("susan", gpus=8, name="sweep-2", rotate=False)
    await pool.state(running.id, "running")
    waiting = await pool.submit("susan", gpus=8, name="other")
    now = pool.clock.now

    starts = await look(waiting.id)

    assert starts.likely == now + 600
    assert now < starts.earliest < starts.likely < starts.latest < now + 1200


async def test_a_forecast_and_the_page_go_by_the_same_reports(pool, look):
    for _ in range(3):
        job = await pool.submit("susan", gpus=8, name="sweep-1")
        await pool.state(job.id, "running")
        pool.clock.now += 60
        pool.executor.end(pool.key(job.id), code=0)
        await pool.state(job.id, "succeeded")
    running = await pool.submit("susan", gpus=8, name="sweep-2", rotate=False)
    await pool.state(running.id, "running")
    waiting = await pool.submit("susan", gpus=8, name="other")
    began = pool.clock.now
    pool.clock.now += 100
    pool.executor.report(pool.key(running.id), step=10.0, of=80.0)
    await pool.later(0)

    shown = (await pool.job(running.id)).progress.ends

    assert shown == began + 800
    assert (await look(waiting.id)).likely == shown


async def test_a_job_that_has_only_just_begun_has_no_expected_end(pool):
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    for later, step, ends in ((2.0, 1.0, False), (1.0, 40.0, True)):
        pool.clock.now += later
        pool.executor.report(pool.key(job.id), step=step, of=400.0)
        await pool.later(0)
        assert ((await pool.job(job.id)).progress.ends is not None) == ends


@pytest.mark.parametrize(
    ("limit", "lasts", "limited"), [(None, 100, False), (200.0, 100, False), (25.0, 25, True)]
)
async def test_a_job_ends_at_its_time_limit_if_that_comes_before_its_last_step(pool, look, limit, lasts, limited):
    running = await pool.submit("susan", gpus=8, time_limit=limit, rotate=False)
    await pool.state(running.id, "running")
    waiting = await pool.submit("susan", gpus=8, name="other")
    began = pool.clock.now
    pool.clock.now += 20
    pool.executor.report(pool.key(running.id), step=40.0, of=200.0)
    await pool.later(0)

    progress = (await pool.job(running.id)).progress

    assert (progress.ends, progress.limited) == (began + lasts, limited)
    assert (await look(waiting.id)).likely == progress.ends


async def test_no_start_is_told_for_any_moment_while_what_holds_the_gpus_has_refuted_what_was_learnt(pool, look):
    for _ in range(3):
        job = await pool.submit("susan", gpus=8, name="trial 1")
        await pool.state(job.id, "running")
        pool.clock.now += 3
        pool.executor.end(pool.key(job.id), code=0)
        await pool.state(job.id, "succeeded")
    running = await pool.submit("susan", gpus=8, name="trial 2", rotate=False)
    await pool.state(running.id, "running")
    waiting = await pool.submit("susan", gpus=8, name="other")
    assert (await look(waiting.id)).likely == pool.clock.now + 3
    for seconds, words in (
        (5, "Likely starts in about 2 min"),
        (100, "Likely starts in"),
        (200, "When it starts is"),
    ):
        pool.clock.now += seconds  # each look comes after the start expected before, which has not come

        told = expectation(await look(waiting.id), pool.clock.now)

        assert told.startswith(words), told


async def test_a_job_that_should_have_made_all_its_steps_takes_longer_in_forecasts(pool, look):
    running = await pool.submit("susan", gpus=8, name="trial", rotate=False)
    await pool.state(running.id, "running")
    waiting = await pool.submit("susan", gpus=8, name="other")
    pool.clock.now += 90
    pool.executor.report(pool.key(running.id), step=9.0, of=10.0)
    await pool.later(0)
    pool.clock.now += 210

    assert (await look(waiting.id)).likely == pool.clock.now + 210


async def test_run_times_of_before_a_restart_are_learnt_too(pool, look):
    job = await pool.submit("susan", gpus=8, name="sweep")
    await pool.state(job.id, "running")
    pool.clock.now += 600
    pool.executor.end(pool.key(job.id), code=0)
    await pool.state(job.id, "succeeded")
    await pool.restart()
    running = await pool.submit("susan", gpus=8, name="sweep", rotate=False)
    await pool.state(running.id, "running")
    waiting = await pool.submit("susan", gpus=8, rotate=False)

    assert (await look(waiting.id)).likely == pool.clock.now + 600


async def test_a_job_that_its_user_paused_has_no_start(pool):
    first = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(first.id, "running")
    held = await pool.submit("susan", gpus=8, rotate=False)
    await pool.engine.pause(held.id, "susan")

    assert await pool.engine.request_starts([(await pool.job(held.id))], EVERYTHING) is False
    assert (await pool.job(held.id)).starts is None


async def test_listeners_hear_of_a_start_that_was_worked_out(pool):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    stream = pool.engine.subscribe()
    await anext(stream)

    await pool.engine.request_starts([(await pool.job(second.id))], 0.0)

    async with asyncio.timeout(EVERYTHING):
        async for received in stream:
            told = [event for event in received if event.data.get("id") == second.id and event.data["starts"]]
            if told:
                break
    assert told[0].id is None
    await stream.aclose()


async def test_nobody_waits_for_a_forecast_that_begins_too_late(pool, look, monkeypatch):
    monkeypatch.setattr(cache, "MIN_PAUSE", 2 * EVERYTHING)
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second, third = [await pool.submit("susan", gpus=8, rotate=False) for _ in range(2)]
    await look(second.id)

    async with asyncio.timeout(EVERYTHING / 2):
        page = await pool.engine.jobs(pool_filter(), None, 10, starts=EVERYTHING)

    starts = {job.id: job.starts for job in page.items}
    assert starts[third.id].why.code == "engine-starts-working"
    assert starts[second.id].why is None
    assert starts[first.id] is None


async def test_of_more_jobs_than_can_be_forecast_those_asked_for_last_are(pool, monkeypatch):
    monkeypatch.setattr(cache, "MAX_WANTED_JOBS", 2)
    monkeypatch.setattr(cache, "MIN_PAUSE", 2 * EVERYTHING)
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    waiting = [await pool.submit("susan", gpus=8, rotate=False) for _ in range(4)]

    await pool.engine.request_starts([await pool.job(job.id) for job in waiting], EVERYTHING)

    starts = [(await pool.job(job.id)).starts for job in waiting]
    assert [start.why.code == "engine-starts-working" for start in starts] == [True, True, False, False]


async def test_looking_again_costs_nothing_while_nothing_changes(pool, look):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    await look(second.id)
    await pool.idle()

    before = (await pool.job(second.id)).starts
    await pool.engine.request_starts([(await pool.job(second.id))], EVERYTHING)
    assert (await pool.job(second.id)).starts is before


async def test_a_process_that_died_is_replaced(pool, look):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    await look(second.id)
    os.kill(forecast_process(), signal.SIGKILL)
    pool.clock.now += 2 * cache.FRESH

    assert (await look(second.id)).latest is not None


async def test_no_process_is_left_behind(pool, look):
    first = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    await look(second.id)
    pid = forecast_process()

    await pool.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_start_that_waits_for_a_pause_is_expected_after_it(pool, look):
    pool.executor.ignores_pause = True
    borrower = await pool.submit("susan", gpus=8, grace=120.0)
    await pool.state(borrower.id, "running")
    waiting = await pool.submit("jemma", gpus=2)
    await pool.state(borrower.id, "pausing")
    asked = pool.clock.now

    starts = await look(waiting.id)
    assert (starts.earliest, starts.likely, starts.latest) == (asked, asked + 120, asked + 120)
    assert expectation(starts, asked) == "Likely starts in about 2 min (within 2 min)."
    await pool.later(65)
    assert (await look(waiting.id)).likely == asked + 120


async def test_a_pause_is_expected_to_take_as_long_as_those_before(pool, look):
    borrower = await pool.submit("susan", gpus=8, grace=60.0)
    await pool.state(borrower.id, "running")
    pool.executor.ignores_pause = True
    first = await pool.submit("jemma", gpus=2)
    await pool.state(borrower.id, "pausing")
    await pool.later(20)
    pool.executor.end(pool.key(borrower.id), code=75, paused=True)
    await pool.state(first.id, "running")
    pool.executor.end(pool.key(first.id), code=0)
    await pool.state(borrower.id, "running")

    second = await pool.submit("jemma", gpus=2)
    await pool.later(1)
    await pool.state(borrower.id, "pausing")
    asked = pool.clock.now
    starts = await look(second.id)
    assert (starts.earliest, starts.likely, starts.latest) == (asked + 20, asked + 20, asked + 60)
    await pool.later(30)
    assert (await look(second.id)).likely == asked + 60, "it takes longer than the last one"


async def test_a_start_that_waits_for_a_cancelled_job_is_expected_after_its_end(pool, look, ask):
    first = await pool.submit("susan", gpus=8, grace=40.0)
    await pool.state(first.id, "running")
    pool.executor.ignores_kill = True
    await pool.engine.cancel(first.id, "susan")
    waiting = await pool.submit("susan", gpus=8)

    starts = await look(waiting.id)
    assert starts.likely == pool.clock.now + 40
    assert (await ask(wire.WhatIf(starts=[waiting.id]))).starts[waiting.id] == starts


async def test_a_start_that_was_asked_for_by_a_question_is_the_shown_one(pool, look, ask):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, rotate=False)
    shown = await look(second.id)
    pool.clock.now += 4

    answered = (await ask(wire.WhatIf(starts=[second.id]))).starts[second.id]
    assert (answered.likely, answered.latest) == (shown.likely, shown.latest), "4 s are no news"
    pool.clock.now += 300
    answered = (await ask(wire.WhatIf(starts=[second.id]))).starts[second.id]
    assert answered.likely > shown.likely
    assert (await pool.job(second.id)).starts == answered


# ---------- what if


async def test_a_job_that_fits_would_start_at_once_and_nothing_is_submitted(pool, ask):
    told = await ask(wire.WhatIf(job=wire.Wish(gpus=4)))

    assert told.job.likely == pool.clock.now
    assert told.projects["susan"].held == 4
    assert [(shift.kind, shift.job, shift.gpus) for shift in told.shifts] == [("started", "", 4)]
    assert (await pool.engine.jobs(pool_filter(), None, 10)).items == []


def pool_filter():
    from springtide.scheduler.engine import JobFilter  # noqa: PLC0415

    return JobFilter()


async def test_what_would_be_paused_is_told_without_the_names_of_others(pool, ask):
    borrower = await pool.submit("susan", gpus=8, name="secret")
    await pool.state(borrower.id, "running")

    own = await ask(wire.WhatIf(job=wire.Wish(gpus=2)), "joe", sees=lambda user, _project: user == "joe")
    all_of_it = await ask(wire.WhatIf(job=wire.Wish(gpus=2)), "joe")

    paused = next(shift for shift in own.shifts if shift.kind == "paused")
    assert (paused.user, paused.project) == ("susan", "susan")
    assert (paused.job, paused.name, paused.reason) == ("", "", None)
    paused = next(shift for shift in all_of_it.shifts if shift.kind == "paused")
    assert (paused.job, paused.name) == (borrower.id, "secret")
    assert (await pool.job(borrower.id)).state == "running"


async def test_other_quotas_give_another_start(pool, ask):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    waiting = await pool.submit("jemma", gpus=8)
    await pool.idle()
    edits = {name: wire.ProjectEdit(quota=quota) for name, quota in (("jemma", 8), ("joe", 0), ("susan", 0))}

    as_it_is = await ask(wire.WhatIf(starts=[waiting.id]))
    as_it_might_be = await ask(wire.WhatIf(starts=[waiting.id], projects=edits))

    assert as_it_is.starts[waiting.id].likely > pool.clock.now
    assert as_it_is.projects["jemma"].held == 0
    assert as_it_might_be.starts[waiting.id].likely == pool.clock.now + 5, (
        "its GPUs are given back within the grace"
    )
    assert as_it_might_be.projects["jemma"].held == as_it_might_be.projects["jemma"].quota == 8
    assert [(shift.kind, shift.project) for shift in as_it_might_be.shifts] == [
        ("paused", "susan"),
        ("started", "jemma"),
    ]
    assert (await pool.job(first.id)).state == "running"
    assert [project.quota for project in pool.engine.pool().projects] == [2, 2, 2]


async def test_quotas_that_do_not_add_up_are_refused_in_words(ask):
    with pytest.raises(Refusal) as caught:
        await ask(wire.WhatIf(projects={"susan": wire.ProjectEdit(quota=6)}))
    assert caught.value.field == "projects"
    assert "add up to 10 GPUs; the pool has 8" in caught.value.message


async def test_more_nodes_make_room_for_more(pool, ask):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    more = {"new": wire.NodeEdit(gpus=16)}

    told = await ask(wire.WhatIf(job=wire.Wish(gpus=16), nodes=more))

    assert told.job.likely == pool.clock.now


async def test_a_node_taken_away_pauses_what_runs_there(pool, ask):
    first = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(first.id, "running")

    told = await ask(wire.WhatIf(nodes={"train": wire.NodeEdit(gpus=0), "new": wire.NodeEdit(gpus=4)}))

    assert told.projects["susan"].held == 0
    assert told.projects["susan"].waiting == 0, "no node is left that could run it"


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (wire.WhatIf(job=wire.Wish(gpus=9)), "gpus"),
        (wire.WhatIf(job=wire.Wish.of({"priority": "never"})), "priority"),
        (wire.WhatIf(job=wire.Wish(name="a\x00b")), "name"),
        (wire.WhatIf(nodes={"gone": wire.NodeEdit(gpus=0)}), "nodes"),
        (wire.WhatIf(nodes={"build": wire.NodeEdit(gpus=1)}), "nodes"),
        (wire.WhatIf(nodes={"a\x1bb": wire.NodeEdit(gpus=1)}), "nodes"),
        (wire.WhatIf(projects={"new/one": wire.ProjectEdit()}), "projects"),
        (wire.WhatIf(projects={"susan": wire.ProjectEdit(parent="susan")}), "projects"),
        (wire.WhatIf(starts=["nobody"]), None),
    ],
)
async def test_what_could_not_be_is_refused_naming_the_field(ask, question, field):
    with pytest.raises(Refusal) as caught:
        await ask(question)
    assert caught.value.field == field


async def test_a_line_of_questions_is_only_so_long(pool, ask, monkeypatch):
    monkeypatch.setattr(cache, "MAX_QUESTIONS", 0)
    with pytest.raises(Refusal) as caught:
        await ask(wire.WhatIf(job=wire.Wish()))
    assert caught.value.status == 503


@pytest.mark.parametrize("change", ["pause", "cancel"])
async def test_a_job_that_its_user_stops_is_not_expected_to_go_on(pool, look, change):
    pool.executor.ignores_pause = pool.executor.ignores_kill = True
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, priority="high", grace=cache.FRESH)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8)
    assert (await look(second.id)).likely > pool.clock.now

    await getattr(pool.engine, change)(first.id, "susan")
    await pool.state(first.id, "pausing")
    pool.clock.now += cache.FRESH

    assert (await look(second.id)).likely == pool.clock.now


async def test_forecasts_that_were_shown_are_compared_with_the_starts(pool, look):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, time_limit=100.0, rotate=False)
    starts = await look(second.id)
    assert (await pool.engine.forecast_record.accuracy()).forecasts == 0

    pool.clock.now = starts.latest - 1
    pool.executor.end(pool.key(first.id), code=0)
    await pool.state(second.id, "running")

    told = await pool.engine.forecast_record.accuracy()
    assert (told.forecasts, told.jobs, told.inside, told.early, told.late) == (1, 1, 1, 0, 0)
    assert told.median_error == pytest.approx(starts.latest - 1 - starts.likely, abs=2)
    assert told.mean_width == starts.latest - starts.earliest


async def test_a_start_outside_of_its_window_counts_as_early_or_late():
    def outcome(job, started):
        return ForecastOutcome(ShownForecast(job, 0.0, 100.0, 150.0, 200.0), started)

    told = accuracy([outcome("a", 10.0), outcome("b", 120.0), outcome("b", 201.0), outcome("c", 260.0)], since=0.0)

    assert (told.forecasts, told.jobs, told.inside, told.early, told.late) == (4, 3, 2, 1, 1)
    assert told.mean_error == (140 + 30 + 51 + 110) / 4
    assert told.median_error == (51 + 110) / 2


async def test_the_forecasts_of_a_job_are_deleted_with_it(pool, look):
    first = await pool.submit("susan", gpus=8, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=8, time_limit=100.0, rotate=False)
    await look(second.id)
    pool.executor.end(pool.key(first.id), code=0)
    await pool.state(second.id, "running")
    pool.executor.end(pool.key(second.id), code=0)
    await pool.state(second.id, "succeeded")
    assert (await pool.engine.forecast_record.accuracy()).forecasts == 1

    pool.store.write(pruning.drop_jobs, [second.id])

    assert (await pool.engine.forecast_record.accuracy()).forecasts == 0
