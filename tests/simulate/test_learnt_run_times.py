"""A simulation learns run times from the jobs that have ended, as the pool does."""

from __future__ import annotations

from springtide.scheduler.history.run_times import LATEST, ExpectedRunTimes, RunTimes
from springtide.scheduler.model import Job, Node, Project, Settings, Snapshot
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate.run import Load, simulate
from springtide.scheduler.simulate.virtual import VirtualPool

NODES = (Node("n", 8),)
PROJECTS = (Project("a", quota=8),)


def test_jobs_that_arrive_know_how_long_those_like_them_took() -> None:
    planner = Planner(Snapshot(0.0, NODES, PROJECTS, (), Settings()))
    pool = VirtualPool(planner, now=0.0, expected=ExpectedRunTimes(RunTimes()))
    for number, (gpus, duration) in enumerate([(8, 600.0), (4, 7200.0), (8, 700.0)]):
        pool.submit(Job(f"j{number}", "a", name=f"j{number}", gpus=gpus, submitted=number * 10_000.0), duration)
    pool.submit(Job("other", "a", name="other", gpus=8, submitted=50_000.0), 5.0)
    pool.run()

    told = {name: course.job.usual_runtime for name, course in pool.courses.items()}
    assert told == {"j0": None, "j1": None, "j2": 600.0, "other": 700.0}


def test_a_job_learns_only_from_what_has_ended_before_it() -> None:
    jobs = tuple((Job(f"j{number}", "a", gpus=8, submitted=float(number)), 1000.0) for number in range(3))
    courses = simulate(Load(NODES, PROJECTS, jobs)).courses
    assert [course.job.usual_runtime for course in courses] == [None, 1000.0, 1000.0]


def test_the_usual_run_time_is_that_of_the_latest_jobs() -> None:
    times, job = RunTimes(), Job("j", "a", name="train")
    for seconds in [10_000.0] * 20 + [60.0] * LATEST:
        times.learn(job, seconds)
    assert times.usual(job) == 60.0
    assert len(times.of_similar_jobs(job)) == 20 + LATEST


def test_a_job_that_never_ran_teaches_nothing() -> None:
    times, job = RunTimes(), Job("j", "a", name="train")
    times.learn(job, 0.0)
    assert times.usual(job) is None


def test_jobs_that_wait_follow_what_is_learnt_so_that_twins_start_in_the_order_of_their_arrival() -> None:
    """Those that arrived before the first of their kind ended do not stand behind those that came later."""
    jobs = [
        Job(f"{when}-{number}", "a", name=f"train-{number}", gpus=8, submitted=submitted)
        for when, submitted in (("early", 0.0), ("late", 700.0))
        for number in range(4)
    ]
    courses = simulate(Load(NODES, PROJECTS, tuple((job, 600.0) for job in jobs))).courses

    started = sorted(courses, key=lambda course: course.first_start or 0.0)
    assert [course.job.id for course in started] == [job.id for job in jobs]
