"""Jobs that are submitted and cancelled again and again do not keep pausing a borrower."""

from __future__ import annotations

from springtide.scheduler.model import (
    Job,
    JobChanged,
    JobRemoved,
    Node,
    Pause,
    Phase,
    Project,
    Settings,
    Snapshot,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate.carry_out import carried_out

MIN_RUNTIME = 300.0
PROJECTS = (Project("owner", quota=2, age=0), Project("borrower", quota=0, age=1))


class Pool:
    """Two GPUs that the borrower has and the owner claims; decisions take effect at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: dict[str, Job] = {}
        self.pauses: list[float] = []
        self.planner = Planner(
            Snapshot(0.0, (Node("n0", 2),), PROJECTS, (), Settings(min_runtime=MIN_RUNTIME, grace=30.0))
        )

    def submit(self, name: str, project: str) -> None:
        self.tell(Job(name, project, gpus=2, submitted=self.now))
        self.settle()

    def cancel(self, name: str) -> None:
        del self.jobs[name]
        self.planner.apply(JobRemoved(name))
        self.settle()

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (wake := self.settle()) is not None and wake <= end:
            self.now = wake
        self.now = end
        self.settle()

    def tell(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.planner.apply(JobChanged(job))

    def settle(self) -> float | None:
        while (plan := self.planner.plan(self.now)).decisions:
            for decision in plan.decisions:
                self.pauses += [self.now] if isinstance(decision, Pause) else []
                self.tell(carried_out(self.jobs[decision.job], decision, self.now))
        return plan.wake_at


def test_requests_that_are_withdrawn_at_once_pause_the_borrower_ever_more_rarely():
    pool = Pool()
    pool.submit("long", "borrower")
    for at in range(200):
        pool.wait(60.0)
        pool.submit(f"short{at}", "owner")
        if f"short{at}" in pool.jobs:
            pool.cancel(f"short{at}")

    gaps = [later - earlier for earlier, later in zip(pool.pauses, pool.pauses[1:], strict=False)]
    assert pool.jobs["long"].phase is Phase.RUNNING
    assert gaps == sorted(gaps)
    assert len(pool.pauses) <= 6


def test_a_job_that_stays_starts_within_one_minimum_run_time_however_often_the_borrower_was_paused():
    pool = Pool()
    pool.submit("long", "borrower")
    for at in range(20):
        pool.wait(1000.0)
        pool.submit(f"short{at}", "owner")
        pool.wait(MIN_RUNTIME)
        assert pool.jobs[f"short{at}"].phase is Phase.RUNNING
        pool.cancel(f"short{at}")


def resumed(attempts: int) -> Planner:
    """A job that was started at 100 s for this time, and one that claims its GPUs."""
    held = (Worker(0, "n0", (0, 1)),)
    long = Job("long", "borrower", gpus=2, phase=Phase.RUNNING, placement=held, started=100.0, attempts=attempts)
    short = Job("short", "owner", gpus=2, submitted=100.0)
    return Planner(Snapshot(100.0, (Node("n0", 2),), PROJECTS, (long, short), Settings(min_runtime=0.0)))


def paused(planner: Planner, now: float) -> list[str]:
    return [each.job for each in planner.plan(now).decisions if isinstance(each, Pause)]


def test_a_job_that_was_resumed_runs_for_a_second_before_it_makes_way_again():
    planner = resumed(attempts=2)

    assert planner.plan(100.0).wake_at == 101.0
    assert paused(planner, 100.0) == []
    assert paused(planner, 101.0) == ["long"]


def test_a_job_in_its_first_attempt_makes_way_at_once_without_minimum_run_time():
    assert paused(resumed(attempts=1), 100.0) == ["long"]
