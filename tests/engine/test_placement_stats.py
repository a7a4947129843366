"""How fast jobs ran where, and what is made of it for the next one of their kind."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from springtide.scheduler.engine.forecasts.placement_stats import MIN_RUN_TIME, MIN_SAMPLES, PlacementStats
from springtide.scheduler.engine.forecasts.topology import Topology
from springtide.scheduler.model import JobState, Node, Placement, Reason, Spread, Worker
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord, JobSpec, JobStanding

worlds = sys.modules["engine_worlds"]
NODES = tuple(
    Node(f"n{at}", 4, labels={"rack": f"r{at // 2}", "zone": "z"}, islands=((0, 1), (2, 3))) for at in range(4)
)
PAIR = (Worker(0, "n0", (0,)), Worker(1, "n0", (1,)))
APART = (Worker(0, "n0", (0,)), Worker(1, "n1", (0,)))
SPEC = JobSpec(
    id="j",
    seq=1,
    user="susan",
    project="vision",
    submitted=0.0,
    name="sweep-7",
    kind="command",
    argv=(),
    workers=2,
)


def attempt(placement: Placement, seconds: float, number: int = 1, before: float | None = None, **more: Any):
    given: dict[str, Any] = {"state": AttemptState.SUCCEEDED, "started": 100.0, "ended": 100.0 + seconds, **more}
    return AttemptRecord(
        job="j",
        number=number,
        placement=placement,
        created=99.0,
        why=Reason("started"),
        step_before=before,
        **given,
    )


def ran(*attempts: AttemptRecord, steps: float | None = None, spec: JobSpec = SPEC) -> JobRecord:
    return JobRecord(spec, JobStanding(state=JobState.SUCCEEDED, best_step=steps), attempts)


@pytest.fixture
def fastest():
    """What is known of the next job of the kind after these have ended, each as often as is enough."""

    def after(*jobs: JobRecord, times: int = MIN_SAMPLES, spec: JobSpec = SPEC) -> Spread | None:
        placement_stats = PlacementStats()
        for job in jobs * times:
            placement_stats.learn(job, Topology(NODES))
        return placement_stats.fastest(replace(spec, name="sweep-8"))

    return after


class TestSpread:
    @pytest.mark.parametrize(
        ("nodes", "spread"),
        [
            ([("n0", (0,)), ("n0", (1,))], Spread("island", 1)),
            ([("n0", (0,)), ("n0", (2,))], Spread("node", 1)),
            ([("n0", (0,)), ("n1", (1,))], Spread("rack", 2)),
            ([("n0", (0,)), ("n2", (1,)), ("n2", (0,))], Spread("zone", 2)),
        ],
    )
    def test_it_is_the_tightest_level_and_the_number_of_nodes(self, nodes, spread):
        workers = tuple(Worker(rank, node, gpus) for rank, (node, gpus) in enumerate(nodes))
        assert Topology(NODES).spread(workers) == spread

    def test_where_no_level_holds_all_it_is_the_pool(self):
        nodes = (*NODES, Node("far", 4, labels={"zone": "y"}))
        assert Topology(nodes).spread((Worker(0, "n0", (0,)), Worker(1, "far", (0,)))) == Spread("", 2)

    def test_of_a_node_that_is_gone_nothing_is_known(self):
        assert Topology(NODES[1:]).spread(PAIR) is None


class TestPaces:
    def test_seconds_per_step_are_compared(self, fastest):
        slow = ran(attempt(PAIR, 600), steps=100)
        fast = ran(attempt(APART, 900), steps=300)
        assert fastest(slow, fast) == Spread("rack", 2)

    def test_each_attempt_counts_for_the_steps_that_it_made(self, fastest):
        moved = ran(attempt(PAIR, 600), attempt(APART, 600, 2, before=100), steps=110)
        assert fastest(moved) == Spread("island", 1)

    def test_without_steps_whole_runs_are_compared(self, fastest):
        paused = ran(attempt(PAIR, 70, state=AttemptState.PAUSED), attempt(PAIR, 70, 2))
        assert fastest(ran(attempt(PAIR, 900)), ran(attempt(APART, 600)), paused) == Spread("rack", 2)

    def test_little_is_not_enough_and_nor_is_one_way_alone(self, fastest):
        jobs = (ran(attempt(PAIR, 600), steps=10), ran(attempt(APART, 600), steps=100))
        assert fastest(*jobs, times=MIN_SAMPLES - 1) is None
        assert fastest(jobs[0]) is None

    def test_who_is_hardly_faster_is_not_preferred(self, fastest):
        assert fastest(ran(attempt(PAIR, 600), steps=100), ran(attempt(APART, 600), steps=102)) is None

    def test_short_attempts_and_half_gangs_tell_nothing(self, fastest):
        short = ran(attempt(APART, MIN_RUN_TIME - 1), steps=1000)
        half = ran(attempt(APART[:1], 600), steps=1000)
        assert fastest(ran(attempt(PAIR, 600), steps=10), short, half) is None

    def test_other_kinds_of_jobs_tell_nothing(self, fastest):
        jobs = (ran(attempt(PAIR, 600), steps=10), ran(attempt(APART, 600), steps=100))
        assert fastest(*jobs) is not None
        for other in (replace(SPEC, user="joe"), replace(SPEC, gpus=2), replace(SPEC, workers=4)):
            assert fastest(*jobs, spec=other) is None


async def test_the_next_job_sits_where_those_like_it_ran_fastest_even_after_a_restart(make_pool):
    nodes = (worlds.node("n0", 4, labels={"rack": "r"}), worlds.node("n1", 4, labels={"rack": "r"}))
    pool = await make_pool(executor=worlds.MemoryExecutor(nodes))

    async def run(seconds: float) -> set[str]:
        job = await pool.submit("susan", workers=2, name="sweep")
        shown = await pool.state(job.id, "running")
        pool.clock.now += seconds
        pool.executor.end(pool.key(job.id), code=0)
        await pool.state(job.id, "succeeded")
        return {gpu.node for gpu in shown.attempts[-1].gpus}

    for _ in range(MIN_SAMPLES):
        assert await run(900) == {"n0"}
    blockers = [await pool.submit("joe", gpus=3, priority="high") for _ in nodes]
    for blocker in blockers:
        await pool.state(blocker.id, "running")
    for _ in range(MIN_SAMPLES):
        assert await run(600) == {"n0", "n1"}
    for blocker in blockers:
        await pool.engine.cancel(blocker.id, "joe")
        await pool.state(blocker.id, "cancelled")

    assert await run(600) == {"n0", "n1"}
    await pool.restart()
    await pool.idle()
    assert await run(600) == {"n0", "n1"}
