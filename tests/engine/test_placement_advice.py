"""Advice on placements: for a badly placed running job, and before the next submission."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from browsers.told_sentences import facts_of, sentences_in, truth

from springtide.scheduler import wire
from springtide.scheduler.engine.forecasts.questions import Asker
from springtide.scheduler.model import Spread

worlds = sys.modules["engine_worlds"]
NODES = (
    worlds.node("n0", 4, gpu_type="t4"),
    worlds.node("n1", 4, gpu_type="t4"),
    worlds.node("n2", 4, gpu_type="a100"),
)
PROJECTS = {name: {"quota": {"t4": 2, "a100": 0}} for name in ("susan", "joe")}
STEPS = 100
ROLE = "advice"

NO_CHECKPOINT = ("No checkpoint of it has been seen yet", "More than ", "Have it save checkpoints")


class Runs:
    """Runs jobs that report steps, on one node or, if other jobs leave no room there, on two."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.ended: list[str] = []

    async def start(self, **options: Any) -> wire.Job:
        given = {"user": "susan", "workers": 2, "name": "train", "gpu_types": ["t4"], **options}
        job = await self.pool.submit(given.pop("user"), **given)
        return await self.pool.state(job.id, "running")

    async def report(self, job: wire.Job, step: int, after: float, of: int | None = 2 * STEPS) -> wire.Job:
        await self.pool.later(after)
        self.pool.executor.report(self.pool.key(job.id), step=step, of=of)
        await self.pool.idle()
        return await self.pool.job(job.id)

    async def run(self, seconds: float, **options: Any) -> None:
        """Run a job that makes its last steps at the pace of ``seconds`` for all of them."""
        job = await self.start(**options)
        for step in (0, STEPS, 2 * STEPS):
            await self.report(job, step, seconds / 2 if step else 0.0)
        self.pool.executor.end(self.pool.key(job.id), code=0)
        await self.pool.state(job.id, "succeeded")
        self.ended.append(job.id)

    async def block(self) -> list[wire.Job]:
        """Leave one GPU free on each node."""
        return [await self.start(user="joe", name="block", workers=1, gpus=3, priority="high") for _ in range(2)]

    async def unblock(self, blockers: list[wire.Job]) -> None:
        for each in blockers:
            await self.pool.engine.cancel(each.id, "joe")
            await self.pool.state(each.id, "cancelled")

    async def check(self, job: wire.Job) -> list[str]:
        """Return the sentences about a job but for its checkpoints, each compared with the runs of the jobs."""
        jobs = {each: await self.pool.job(each) for each in [*self.ended, job.id]}
        true = truth(self.pool.engine.pool(), jobs)
        told = sentences_in(job.reason.text)
        claims = [(key, value) for sentence in told for key, value in facts_of(job, sentence)]
        assert [(key, value, true.get(key)) for key, value in claims if true.get(key) != value] == []
        return [sentence for sentence in told if not sentence.startswith(NO_CHECKPOINT)]


@pytest.fixture
async def runs(make_pool) -> Runs:
    return Runs(await make_pool(executor=worlds.MemoryExecutor(NODES), projects=PROJECTS))


async def both_ways(runs: Runs, times: int = 3) -> list[wire.Job]:
    for _ in range(times):
        await runs.run(600)
    blockers = await runs.block()
    for _ in range(times):
        await runs.run(1020)
    return blockers


async def test_a_job_that_sits_badly_is_told_what_that_costs(runs):
    await both_ways(runs)
    job = await runs.start()
    assert {gpu.node for gpu in job.held} == {"n0", "n1"}
    slower = "It runs on 2 nodes: jobs like it were 1.7 times as fast on one node"
    assert await runs.check(job) == [
        "Running on 2 GPUs, all within the quota.",
        f"{slower} (3 runs there against 3 like this).",
    ]
    job = await runs.report(job, 0, 0.0, of=20_000)
    job = await runs.report(job, 1, 3.0)
    job = await runs.report(job, 101, 1000.0, of=20_000)
    told = await runs.check(job)
    assert told[2:] == ["The rest of its work takes about 23 h longer here."]
    shown = [each.role for each in job.reason.sentences if not each.text.startswith(NO_CHECKPOINT)]
    assert shown == ["state", ROLE, ROLE]


async def test_a_job_that_sits_well_or_is_as_fast_is_told_nothing(runs):
    blockers = await both_ways(runs)
    job = await runs.start()
    for step, after in ((0, 0.0), (1, 1.0), (101, 300.0)):
        job = await runs.report(job, step, after)
    assert len(await runs.check(job)) == 1
    runs.pool.executor.end(runs.pool.key(job.id), code=0)
    await runs.pool.state(job.id, "succeeded")
    await runs.unblock(blockers)
    assert len(await runs.check(await runs.start())) == 1


async def test_a_work_that_is_new_is_told_by_those_of_others(runs):
    for at in range(5):
        await runs.run(600, name=f"{'abcde'[at]}-work")
    await runs.block()
    for at in range(5):
        await runs.run(1020, name=f"{'abcde'[at]}-work")
    job = await runs.start(name="new")
    assert await runs.check(job) == [
        "Running on 2 GPUs, all within the quota.",
        "It runs on 2 nodes: other jobs were 1.7 times as fast on one node (5 kinds of jobs).",
    ]


async def test_where_it_was_faster_is_known_after_a_restart(runs):
    await both_ways(runs)
    await runs.pool.restart()
    await runs.pool.idle()
    assert "1.7 times as fast on one node" in (await runs.start()).reason.text


def advice(runs: Runs, **options: Any) -> wire.Advice:
    asker = Asker("susan", "susan", lambda *_: False, {})
    return runs.pool.engine.questions.advise(wire.Wish(**options), asker)


async def test_the_next_job_is_advised_by_what_runs_on_other_numbers_of_gpus_did(runs):
    for _ in range(3):
        await runs.run(600, workers=1, gpus=4)
        await runs.run(660, workers=1, gpus=2)
    told = advice(runs, name="train", gpus=4)
    advised = "With 2 t4 GPUs jobs like it were 0.91 times as fast as with 4 t4 GPUs (3 runs against 3)."
    assert told.text == advised
    assert [(row.gpus, row.placed, row.runs) for row in told.placements] == [
        (4, "on one node", 3),
        (2, "on one node", 3),
    ]
    assert told.placements[0].steps_per_second == pytest.approx(2 * STEPS / 600)
    assert advice(runs, name="train", gpus=2).text == ""
    assert advice(runs, name="other", gpus=4).placements == []
    forecast = await runs.pool.engine.forecast(
        wire.WhatIf(job=wire.Wish(name="train", gpus=4), starts=[]),
        "susan",
        "susan",
        sees=lambda *_: False,
        members={},
    )
    assert forecast.estimate.code == "estimate-now"
    assert forecast.estimate.text.endswith(told.text)


async def test_gpus_that_pay_are_advised_only_with_the_number_of_steps(runs):
    """Of steps alone it is not known whether they do as much with more GPUs."""
    for gpus, seconds in ((4, 300), (2, 600)):
        for _ in range(3):
            job = await runs.start(workers=1, gpus=gpus)
            for step in (0, STEPS, 2 * STEPS):
                await runs.report(job, step, seconds / 2 if step else 0.0, of=None)
            runs.pool.executor.end(runs.pool.key(job.id), code=0)
            await runs.pool.state(job.id, "succeeded")
    told = advice(runs, name="train", gpus=2)
    assert (told.text, len(told.placements)) == ("", 2)


async def test_a_faster_type_is_advised(runs):
    for _ in range(3):
        await runs.run(600, workers=1, gpu_types=["t4"])
        await runs.run(240, workers=1, gpu_types=["a100"])
    told = "On a100 GPUs jobs like it were 2.5 times as fast as on t4 GPUs (3 runs against 3)."
    assert advice(runs, name="train", gpu_types=["t4"]).text == told
    assert advice(runs, name="train").text == told
    assert advice(runs, name="train", gpu_types=["a100", "t4"]).text == ""


async def test_a_faster_spread_is_told_before_and_preferred(runs):
    blockers = await both_ways(runs)
    await runs.unblock(blockers)
    told = advice(runs, name="train", workers=2)
    assert told.text == "On one node jobs like it were 1.7 times as fast as on 2 nodes (3 runs against 3)."
    spec = runs.pool.engine._parts.state.jobs[(await runs.start()).id].spec
    assert spec.fastest == Spread("node", 1)
