"""Nodes that close for a time: nothing runs there then, and what leaves in time may run before."""

from __future__ import annotations

import random
from dataclasses import replace
from math import nextafter
from typing import Any

import pytest
from msgspec import structs

from springtide.scheduler import sentences
from springtide.scheduler.model import (
    AmountsAtTime,
    Job,
    JobChanged,
    JobRemoved,
    Node,
    Pause,
    Phase,
    Plan,
    Project,
    Reserve,
    Settings,
    Snapshot,
    Span,
    Start,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.memo import NoMemo
from springtide.scheduler.promises import Watch
from springtide.scheduler.simulate.carry_out import carried_out
from springtide.scheduler.timetable import ENDING, LEAST_STAY, UNKNOWN_RUN_TIME

CLOSES, OPENS = 10_000.0, 13_600.0
SETTINGS = Settings(grace=30.0, min_runtime=0.0)
LEAVES = CLOSES - SETTINGS.grace - ENDING
SHUT = Node("shut", 4, closed=(Span(CLOSES, OPENS),))
OPEN = Node("open", 2)
VISION = Project("vision", quota=8)


def waiting(job_id: str = "w", **options: Any) -> Job:
    """Return a waiting job of 4 GPUs."""
    return structs.replace(Job(job_id, "vision", gpus=4), **options)


def running(job_id: str = "r", **options: Any) -> Job:
    """Return a job that runs on the node that closes."""
    held = Job(job_id, "vision", gpus=4, phase=Phase.RUNNING, placement=(Worker(0, "shut", (0, 1, 2, 3)),))
    return structs.replace(held, started=0.0, attempts=1, **options)


def planner(*jobs: Job, now: float = 0.0, nodes: tuple[Node, ...] = (SHUT, OPEN)) -> Planner:
    """Return a planner of the pool with these jobs."""
    return Planner(Snapshot(now, nodes, (VISION,), jobs, SETTINGS))


def starts(plan: Plan) -> set[str]:
    """Return the jobs that a plan starts."""
    return {decision.job for decision in plan.decisions if isinstance(decision, Start)}


@pytest.mark.parametrize(
    ("job", "latest"),
    [
        (waiting(time_limit=3600.0), LEAVES - 3600),
        (waiting(usual_runtime=600.0), LEAVES - 600),
        (waiting(usual_runtime=6000.0, time_limit=600.0), LEAVES - 600),
        (waiting(time_limit=3600.0, served=4 * 600.0), LEAVES - 3000),
        (waiting(), LEAVES - UNKNOWN_RUN_TIME),
        (waiting(time_limit=9000.0, saved=-50.0), LEAVES - LEAST_STAY),
        (waiting(time_limit=3600.0, preemptible=False, saved=-50.0), LEAVES - 3600),
    ],
    ids=["limit", "usual time", "the shorter", "what is left", "unknown", "saves", "not preemptible"],
)
def test_a_job_starts_on_a_node_as_long_as_it_has_left_before_the_node_closes(job: Job, latest: float) -> None:
    pool = planner(job)
    assert starts(pool.plan(latest)) == {"w"}
    after = pool.plan(latest + 0.5)
    assert not after.decisions
    assert after.wake_at == CLOSES
    assert pool.reason("w", latest + 0.5).code == "node-closes-first"
    assert starts(pool.plan(OPENS)) == {"w"}


def test_a_job_with_next_to_no_run_time_left_does_not_start_when_it_would_have_to_leave() -> None:
    served = 4 * nextafter(500.0, 0.0)
    pool = planner(waiting(usual_runtime=500.0, served=served), nodes=(SHUT,))
    assert starts(pool.plan(LEAVES - 1)) == {"w"}
    assert not pool.plan(LEAVES).decisions


def test_a_job_that_cannot_be_paused_and_may_run_for_ever_waits_until_the_node_opens() -> None:
    pool = planner(waiting(preemptible=False, usual_runtime=60.0))
    assert not pool.plan(0.0).decisions
    assert pool.reason("w", 0.0).params["needs"] is None
    assert starts(pool.plan(OPENS)) == {"w"}


@pytest.mark.parametrize(("gpus", "says"), [(4, "afterwards."), (2, "afterwards, and elsewhere before")])
def test_a_job_that_fits_only_on_nodes_that_close_is_not_sent_elsewhere(gpus: int, says: str) -> None:
    elsewhere = structs.replace(running("r", gpus=2), placement=(Worker(0, "open", (0, 1)),))
    pool = planner(waiting(gpus=gpus, time_limit=50_000.0), elsewhere)
    assert f"It can start there {says}" in sentences.text(pool.reason("w", 0.0))


def test_a_run_time_that_nobody_knows_is_not_given_as_a_number() -> None:
    said = sentences.text(planner(waiting(saved=-50.0)).reason("w", LEAVES - 5))
    assert "How long it runs is unknown; the time left is too short for a pause." in said


def test_a_job_that_has_no_time_there_starts_elsewhere() -> None:
    pool = planner(waiting(gpus=2, time_limit=50_000.0))
    (decision,) = pool.plan(0.0).decisions
    assert isinstance(decision, Start)
    assert [worker.node for worker in decision.placement] == ["open"]


def test_a_job_that_cannot_leave_in_time_holds_up_nobody() -> None:
    pool = planner(waiting("first", time_limit=50_000.0), waiting("second", submitted=1.0, time_limit=600.0))
    assert starts(pool.plan(2.0)) == {"second"}


def test_what_runs_on_a_node_pauses_early_enough_before_it_closes_and_not_sooner() -> None:
    pool = planner(running(preemptible=False))
    before = pool.plan(LEAVES - 1)
    assert not before.decisions
    assert before.wake_at == LEAVES
    (decision,) = pool.plan(LEAVES).decisions
    assert isinstance(decision, Pause)
    assert (decision.job, decision.beneficiary, decision.reason.code) == ("r", None, "node-closes")


def test_a_gpu_of_a_job_that_leaves_goes_to_nobody_before_the_job_has_stopped() -> None:
    spread = (Worker(0, "shut", (0, 1)), Worker(1, "open", (0, 1)))
    gang = running(workers=2, min_workers=2, gpus=2, placement=spread)
    plan = planner(gang, waiting(gpus=2, time_limit=600.0)).plan(LEAVES)
    assert [type(decision) for decision in plan.decisions if not isinstance(decision, Reserve)] == [Pause]


def test_the_clock_may_go_back_and_forth() -> None:
    pool = planner(waiting(time_limit=3600.0))
    assert not pool.plan(LEAVES).decisions
    assert starts(pool.plan(0.0)) == {"w"}
    assert not pool.plan(CLOSES + 1).decisions
    assert starts(pool.plan(1.0)) == {"w"}
    assert starts(pool.plan(OPENS)) == {"w"}
    assert not pool.plan(LEAVES).decisions


def test_a_reservation_on_a_node_that_closes_too_soon_ends() -> None:
    there = (Worker(0, "shut", (0, 1, 2, 3)),)
    pool = planner(running(time_limit=100.0), waiting(reserved=there, time_limit=3600.0))
    assert not pool.plan(0.0).decisions
    (decision,) = pool.plan(LEAVES - 3599.0).decisions
    assert decision.job == "w"
    assert decision.reason.code == "reservation-lost"


def test_a_quota_that_rises_for_a_time_is_a_guarantee_for_that_time() -> None:
    borrows = structs.replace(running(), project="speech")
    speech = Project("speech", quota=0, age=1)
    vision = replace(VISION, quota=0, at_times=(AmountsAtTime(Span(CLOSES, OPENS), 4, None),))
    pool = Planner(Snapshot(0.0, (Node("shut", 4),), (vision, speech), (borrows, waiting()), SETTINGS))
    before = pool.plan(0.0)
    assert [decision for decision in before.decisions if decision.job == "r"] == []
    assert before.wake_at is not None
    assert before.wake_at <= CLOSES
    assert {type(decision) for decision in pool.plan(CLOSES).decisions} == {Pause, Reserve}
    assert pool.standing()["vision"].quota == 4
    pool.plan(OPENS)
    assert pool.standing()["vision"].quota == 0


class Pool:
    """A pool with a planner that remembers and one that does not, watched by the promises."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        spans = [self.random.uniform(1000, 20_000) for _ in range(3)]
        nodes = (
            Node("a", 4, closed=(Span(spans[0], spans[0] + 3000), Span(spans[0] + 9000, spans[0] + 9500))),
            Node("b", 4, closed=(Span(spans[1], spans[1] + 500),)),
            Node("c", 4, gpu_type=self.random.choice(["", "t4"])),
        )
        raised = (AmountsAtTime(Span(spans[2], spans[2] + 4000), {"": 6, "t4": 1}, None),)
        types = {node.gpu_type for node in nodes}
        quota: Any = {"": 3, "t4": 1} if len(types) > 1 else 3
        raised = raised if len(types) > 1 else (AmountsAtTime(raised[0].span, 6, None),)
        projects = (Project("vision", quota=quota, at_times=raised), Project("speech", quota=quota, age=1))
        self.nodes = nodes
        self.snapshot = Snapshot(0.0, nodes, projects, (), replace(SETTINGS, min_runtime=20.0))
        self.planner, self.forgetful = Planner(self.snapshot), Planner(self.snapshot, NoMemo)
        self.watch = Watch(self.snapshot, standing=self.planner.standing)
        self.jobs: dict[str, Job] = {}
        self.ends: dict[str, float] = {}

    def tell(self, job: Job) -> None:
        """Change a job."""
        self.jobs[job.id] = job
        for each in (self.planner, self.forgetful, self.watch):
            each.apply(JobChanged(job))

    def submit(self) -> None:
        """Submit a random job."""
        pick = self.random.choice
        job = Job(
            f"j{len(self.ends)}",
            pick(["vision", "speech"]),
            gpus=pick([1, 2, 4]),
            workers=(workers := pick([1, 1, 2])),
            min_workers=pick([1, workers]),
            preemptible=pick([True, True, True, False]),
            submitted=self.now,
            time_limit=pick([None, 300.0, 2000.0, 8000.0]),
            usual_runtime=pick([None, None, 500.0, 5000.0]),
        )
        self.ends[job.id] = pick([200.0, 1500.0, 6000.0])
        self.tell(job)

    def settle(self) -> None:
        """Plan and carry out until nothing is decided."""
        for _ in range(40):
            plan = self.planner.plan(self.now)
            assert plan == self.forgetful.plan(self.now)
            self.watch.decided(plan, self.now)
            for decision in plan.decisions:
                job = carried_out(self.jobs[decision.job], decision, self.now)
                self.tell(structs.replace(job, saved=self.now) if isinstance(decision, Pause) else job)
            if not plan.decisions:
                self.watch.settled(self.now)
                self.wake_at = plan.wake_at
                return
        raise AssertionError("the pool does not come to rest")

    def nobody_is_in_a_closed_node(self) -> None:
        """Check what a maintenance promises, without the words of the checker."""
        closed = {node.name for node in self.nodes for span in node.closed if span[0] <= self.now < span[1]}
        held = {worker.node for job in self.jobs.values() for worker in job.placement}
        assert not closed & held

    def end_some(self) -> None:
        """End the jobs that are done."""
        for job in list(self.jobs.values()):
            if job.started is not None and self.now >= job.started + self.ends[job.id]:
                del self.jobs[job.id]
                for each in (self.planner, self.forgetful, self.watch):
                    each.apply(JobRemoved(job.id))

    def restart(self) -> None:
        """Build the planners again from what is known."""
        snapshot = replace(self.snapshot, now=self.now, jobs=tuple(self.jobs.values()))
        self.planner, self.forgetful = Planner(snapshot), Planner(snapshot, NoMemo)
        self.watch._standing = self.planner.standing


@pytest.mark.parametrize("seed", range(16))
def test_promises_hold_over_random_histories_of_pools_whose_nodes_close(seed: int) -> None:
    pool = Pool(seed)
    for _ in range(120):
        for _ in range(pool.random.choice([0, 1, 1, 2])):
            pool.submit()
        pool.end_some()
        pool.settle()
        pool.nobody_is_in_a_closed_node()
        if pool.random.random() < 0.05:
            pool.restart()
        step = pool.random.choice([1.0, 60.0, 300.0, 900.0])
        pool.now = min(pool.now + step, pool.wake_at if pool.wake_at is not None else pool.now + step)
    assert [str(breach) for breach in pool.watch.breaches] == []
