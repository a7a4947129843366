"""Speeds of jobs by placement, and the advice from them for the next similar one."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from msgspec import structs

from springtide.scheduler.engine.placements.comparison import (
    MIN_RUNS,
    best_size,
    times_as_fast,
    usually_times_as_fast,
)
from springtide.scheduler.engine.placements.placements import Placements
from springtide.scheduler.engine.placements.speed import MIN_TIME, RUNS, STEPS, Speed, Topology, Work, speed_of
from springtide.scheduler.engine.placements.statistics import MAX_PLACEMENTS, MAX_RATIOS, MAX_SPEEDS, MAX_WORKS
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.model import JobState, Node, Placement, Reason, Spread, Worker
from springtide.scheduler.store.records import (
    AttemptRecord,
    AttemptState,
    CountedSteps,
    JobRecord,
    JobSpec,
    JobStanding,
)
from springtide.scheduler.wire import JobOptions

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
    options=JobOptions(workers=2),
)
TOGETHER, ACROSS = Spread("island", 1), Spread("rack", 2)


def attempt(placement: Placement, seconds: float, steps: float | None = None, number: int = 1, **more: Any):
    """An attempt that ran for ``seconds`` and counted ``steps`` in them."""
    given: dict[str, Any] = {"state": AttemptState.SUCCEEDED, "started": 100.0, "ended": 100.0 + seconds, **more}
    counted = None if steps is None else CountedSteps(steps, 100.0 + seconds, 0.0, 100.0)
    return AttemptRecord(
        job="j",
        number=number,
        placement=placement,
        created=99.0,
        why=Reason("started"),
        counted=counted,
        **given,
    )


def ran(*attempts: AttemptRecord, spec: JobSpec = SPEC, of: float | None = None) -> JobRecord:
    steps = [each.counted.step for each in attempts if each.counted is not None]
    standing = JobStanding(state=JobState.SUCCEEDED, best_step=max(steps, default=None), of=of)
    return JobRecord(spec, standing, attempts)


def learned(*jobs: JobRecord, times: int = MIN_RUNS, explores: bool = False) -> Placements:
    placements = Placements(ObservedNodes(NODES), explores=explores)
    for job in jobs * times:
        placements.learn(job)
    return placements


def running(placement: Placement, *, counted: CountedSteps | None = None, spec: JobSpec = SPEC) -> JobRecord:
    live = attempt(placement, 0.0, state=AttemptState.RUNNING, ended=None)
    return JobRecord(spec, JobStanding(state=JobState.RUNNING), (structs.replace(live, counted=counted),))


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

    def test_within_a_node_sockets_are_wider_than_islands(self):
        dgx = Node("dgx", 8, islands=((0, 1), (2, 3), (4, 5), (6, 7)), sockets=((0, 1, 2, 3), (4, 5, 6, 7)))
        spreads = [Topology([dgx]).spread((Worker(0, "dgx", gpus),)) for gpus in ((0, 1), (0, 2), (0, 4))]
        assert [spread and spread.level for spread in spreads] == ["island", "socket", "node"]

    def test_where_no_level_holds_all_it_is_the_pool(self):
        nodes = (*NODES, Node("far", 4, labels={"zone": "y"}))
        assert Topology(nodes).spread((Worker(0, "n0", (0,)), Worker(1, "far", (0,)))) == Spread("", 2)

    def test_of_a_node_that_is_gone_nothing_is_known(self):
        assert Topology(NODES[1:]).spread(PAIR) is None


class TestSpeed:
    def counted(self, *reports: tuple[float, float]) -> Speed | None:
        (step, at), *more = reports
        counted = CountedSteps(step, at)
        for step, at in more:
            counted = counted.with_report(step, at)
        return speed_of(
            ran(structs.replace(attempt(PAIR, 900), counted=counted)),
            structs.replace(attempt(PAIR, 900), counted=counted),
        )

    def test_what_precedes_the_second_report_does_not_count(self):
        assert self.counted((0, 0), (1, 500), (101, 600)) == Speed(STEPS, 1.0, None)

    def test_a_last_report_without_a_step_more_does_not_count(self):
        assert self.counted((0, 0), (1, 500), (101, 600), (101, 4000)) == Speed(STEPS, 1.0, None)

    def test_steps_that_begin_anew_are_counted_anew(self):
        assert self.counted((0, 0), (1, 500), (101, 600), (1, 601), (2, 602), (52, 702)) == Speed(STEPS, 0.5, None)

    def test_little_time_tells_nothing_and_nor_does_one_report(self):
        assert self.counted((0, 0), (1, 500), (101, 500 + MIN_TIME - 1)) is None
        assert self.counted((0, 0)) is None

    def test_a_complete_run_counts_where_no_steps_are_reported(self):
        whole = attempt(PAIR, 200)
        assert speed_of(ran(whole), whole) == Speed(RUNS, 0.005, None)
        assert speed_of(ran(structs.replace(whole, number=2)), structs.replace(whole, number=2)) is None
        paused = structs.replace(whole, state=AttemptState.PAUSED)
        assert speed_of(ran(paused), paused) is None

    def test_a_clock_that_is_set_changes_no_speed(self):
        counted = CountedSteps(0, 0).with_report(1, 100).shifted(5000.0).with_report(101, 5200)
        assert speed_of(ran(attempt(PAIR, 1)), structs.replace(attempt(PAIR, 1), counted=counted)) == Speed(
            STEPS, 1.0, None
        )


class TestComparison:
    def test_of_three_runs_each_all_have_to_be_faster(self):
        assert times_as_fast([1.9, 2.0, 2.1], [0.9, 1.0, 1.1]) == 2.0
        assert times_as_fast([1.05, 2.0, 2.1], [0.9, 1.0, 1.1]) is None

    def test_more_runs_bear_an_outlier(self):
        assert times_as_fast([2.0, 2.0, 2.1, 1.9, 2.2, 0.5], [1.0] * 6) == 2.0

    def test_few_runs_or_a_small_difference_tell_nothing(self):
        assert times_as_fast([2.0] * (MIN_RUNS - 1), [1.0] * 9) is None
        assert times_as_fast([1.05] * 9, [1.0] * 9) is None

    def test_equal_runs_are_rarely_told_apart(self):
        draw = random.Random(3)
        told = sum(
            times_as_fast(
                [draw.lognormvariate(0, 0.5) for _ in range(5)], [draw.lognormvariate(0, 0.5) for _ in range(5)]
            )
            is not None
            for _ in range(2_000)
        )
        assert 0 < told <= 0.06 * 2_000

    def test_of_five_works_all_have_to_be_faster_and_of_eight_seven(self):
        assert usually_times_as_fast([1.2, 1.3, 1.4, 1.3, 1.2]) == 1.3
        assert usually_times_as_fast([1.2, 1.3, 1.4, 1.3]) is None
        assert usually_times_as_fast([1.2, 1.3, 1.4, 1.3, 0.9]) is None
        assert usually_times_as_fast([1.3] * 7 + [0.9]) == 1.3
        assert usually_times_as_fast([]) is None

    def test_twice_the_gpus_pay_from_1_41_times_the_speed_on(self):
        gpus = {"two": 2, "four": 4}
        assert best_size({"two": 1.0, "four": 1.4}, gpus) == "two"
        assert best_size({"two": 1.0, "four": 1.42}, gpus) == "four"


class TestFastest:
    def fastest(self, *jobs: JobRecord, times: int = MIN_RUNS, spec: JobSpec = SPEC) -> Spread | None:
        return learned(*jobs, times=times).preferred(structs.replace(spec, name="sweep-8"))

    def test_steps_per_second_are_compared(self):
        assert self.fastest(ran(attempt(PAIR, 600, 100)), ran(attempt(APART, 900, 300))) == ACROSS

    def test_each_attempt_counts_for_itself(self):
        assert self.fastest(ran(attempt(PAIR, 600, 100), attempt(APART, 600, 10, 2))) == TOGETHER

    def test_without_steps_whole_runs_are_compared(self):
        paused = ran(attempt(PAIR, 70, state=AttemptState.PAUSED), attempt(PAIR, 70, number=2))
        assert self.fastest(ran(attempt(PAIR, 900)), ran(attempt(APART, 600)), paused) == ACROSS

    def test_little_is_not_enough_and_nor_is_one_way_alone(self):
        jobs = (ran(attempt(PAIR, 600, 10)), ran(attempt(APART, 600, 100)))
        assert self.fastest(*jobs, times=MIN_RUNS - 1) is None
        assert self.fastest(jobs[0]) is None

    def test_who_is_hardly_faster_is_not_preferred(self):
        assert self.fastest(ran(attempt(PAIR, 600, 100)), ran(attempt(APART, 600, 102))) is None

    def test_half_gangs_tell_nothing_of_whole_ones(self):
        half = ran(attempt(APART[:1], 600, 1000))
        assert self.fastest(ran(attempt(PAIR, 600, 10)), half) is None

    def test_other_kinds_of_jobs_tell_nothing(self):
        jobs = (ran(attempt(PAIR, 600, 10)), ran(attempt(APART, 600, 100)))
        assert self.fastest(*jobs) is not None
        for other in (
            structs.replace(SPEC, user="joe"),
            SPEC.with_options(gpus=2),
            SPEC.with_options(workers=4),
        ):
            assert self.fastest(*jobs, spec=other) is None

    def test_gpu_types_are_not_mixed(self):
        t4 = ran(attempt(PAIR, 600, 100, gpu_type="t4"))
        a100 = ran(attempt(APART, 600, 300, gpu_type="a100"))
        assert self.fastest(t4, a100) is None


class TestExploration:
    SLOW = ran(attempt(APART, 600, 100))
    FAST = ran(attempt(PAIR, 600, 170))

    def test_a_spread_that_was_had_too_rarely_is_tried_until_it_is_known(self):
        placements = learned(self.FAST, explores=True)
        assert placements.preferred(SPEC) is None
        for _ in range(MIN_RUNS - 1):
            placements.learn(self.SLOW)
            assert placements.preferred(SPEC) == ACROSS
        placements.learn(self.SLOW)
        assert placements.preferred(SPEC) == TOGETHER

    def test_nothing_is_tried_unless_that_is_set_nor_before_one_spread_is_known(self):
        usual = learned(self.FAST)
        usual.learn(self.SLOW)
        assert usual.preferred(SPEC) is None
        assert learned(self.SLOW, self.FAST, times=1, explores=True).preferred(SPEC) is None


class TestSlow:
    FAST, SLOW = ran(attempt(PAIR, 600, 170)), ran(attempt(APART, 600, 100))

    def test_a_job_that_sits_as_slower_ones_did_is_slow(self):
        found = learned(self.FAST, self.SLOW, times=4).slow(running(APART))
        assert found is not None
        assert (found.spread, found.faster, found.runs, found.faster_runs) == (ACROSS, TOGETHER, 4, 4)
        assert found.times == pytest.approx(1.7)
        assert found.longer(3600.0) == pytest.approx(3600 * (1 - 1 / 1.7))

    def test_one_that_sits_well_is_not(self):
        assert learned(self.FAST, self.SLOW).slow(running(PAIR)) is None

    def test_one_that_is_itself_as_fast_is_not(self):
        placements = learned(self.FAST, self.SLOW)
        assert placements.slow(running(APART, counted=CountedSteps(100, 700, 0, 600))) is None
        assert placements.slow(running(APART, counted=CountedSteps(16, 700, 0, 600))) is not None

    def test_other_works_tell_it_where_its_own_does_not(self):
        others = [
            ran(*each.attempts, spec=structs.replace(SPEC, user=f"user{at}"))
            for at in range(5)
            for each in (self.FAST, self.SLOW)
        ]
        found = learned(*others, times=1).slow(running(APART))
        assert found is not None
        assert (found.faster, found.works, found.runs) == (TOGETHER, 5, 0)
        assert learned(*others[:8], times=1).slow(running(APART)) is None

    def test_its_own_work_counts_more_than_others(self):
        others = [
            ran(*each.attempts, spec=structs.replace(SPEC, user=f"user{at}"))
            for at in range(5)
            for each in (self.FAST, self.SLOW)
        ]
        own = [ran(attempt(PAIR, 600, 100)), ran(attempt(APART, 600, 101))]
        assert learned(*others, *own).slow(running(APART)) is None

    def test_works_that_are_fast_anywhere_do_not_count_for_their_placement(self):
        """The mean over all works would call two nodes the faster ones, because long steps ran on one node."""
        long = [
            ran(attempt(PAIR, 600, steps), spec=structs.replace(SPEC, user=f"a{steps}")) for steps in range(10, 16)
        ]
        short = [
            ran(attempt(APART, 600, steps), spec=structs.replace(SPEC, user=f"b{steps}"))
            for steps in range(900, 906)
        ]
        assert learned(*long, *short).slow(running(PAIR)) is None


def test_what_is_kept_is_bounded():
    placements = Placements(ObservedNodes(NODES))
    stats = placements.stats
    for at in range(MAX_SPEEDS + 5):
        placements.learn(ran(attempt(PAIR, 600, 10 + at)))
    (speeds,) = stats.of_work(Work("vision", "susan", "sweep-#")).values()
    assert next(iter(speeds.per_second)) == 15 / 600
    assert len(speeds.per_second) == MAX_SPEEDS
    for workers in range(2, MAX_PLACEMENTS + 9):
        placements.learn(ran(attempt(PAIR * workers, 600, 10), spec=SPEC.with_options(workers=workers)))
    assert len(stats.of_work(Work("vision", "susan", "sweep-#"))) == MAX_PLACEMENTS
    for at in range(MAX_WORKS + 5):
        for each in (PAIR, APART):
            placements.learn(ran(attempt(each, 600, 10), spec=structs.replace(SPEC, user=f"user{at}")))
    assert not stats.of_work(Work("vision", "user0", "sweep-#"))
    assert stats.of_work(Work("vision", f"user{MAX_WORKS}", "sweep-#"))
    ((spread, ratios),) = stats.ratios("", TOGETHER)
    assert (spread, len(ratios)) == (ACROSS, MAX_RATIOS)


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

    for _ in range(MIN_RUNS):
        assert await run(900) == {"n0"}
    blockers = [await pool.submit("joe", gpus=3, priority="high") for _ in nodes]
    for blocker in blockers:
        await pool.state(blocker.id, "running")
    for _ in range(MIN_RUNS):
        assert await run(600) == {"n0", "n1"}
    for blocker in blockers:
        await pool.engine.cancel(blocker.id, "joe")
        await pool.state(blocker.id, "cancelled")

    assert await run(600) == {"n0", "n1"}
    await pool.restart()
    await pool.idle()
    assert await run(600) == {"n0", "n1"}
