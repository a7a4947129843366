"""A limit lowered below what a project holds: borrowed jobs above it are paused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from springtide.scheduler.model import (
    Job,
    JobChanged,
    Move,
    Node,
    Pause,
    Phase,
    Project,
    ProjectsChanged,
    Settings,
    Snapshot,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.sentences import text
from springtide.scheduler.simulate.carry_out import carried_out

NODES = (Node("n0", 8),)


def running(name: str, project: str, first: int, **fields: Any) -> Job:
    gpus = fields.get("gpus", 1)
    workers = fields.get("workers", 1)
    return Job(
        name,
        project,
        name=name,
        phase=Phase.RUNNING,
        started=0.0,
        attempts=1,
        placement=tuple(
            Worker(rank, "n0", tuple(range(first + rank * gpus, first + (rank + 1) * gpus)))
            for rank in range(workers)
        ),
        **fields,
    )


def after_limit(projects: tuple[Project, ...], jobs: tuple[Job, ...], now: float = 100.0, **settings: Any):
    """The planner and its plan once projects have these limits."""
    before = tuple(replace(project, limit=None) for project in projects)
    planner = Planner(Snapshot(0.0, NODES, before, jobs, Settings(**settings)))
    planner.plan(0.0)
    planner.apply(ProjectsChanged(projects))
    return planner, planner.plan(now)


def test_borrowed_jobs_above_a_lowered_limit_are_paused_and_wait_with_that_reason():
    jobs = tuple(running(f"j{at}", "a", at) for at in range(6))
    planner, plan = after_limit((Project("a", quota=2, limit=4),), jobs)

    assert len(plan.decisions) == 2
    assert all(isinstance(each, Pause) and each.beneficiary is None for each in plan.decisions)
    assert text(plan.decisions[0].reason) == "The limit of the project “a” was lowered to 4 GPUs, and it held 6."
    for decision in plan.decisions:
        job = next(job for job in jobs if job.id == decision.job)
        planner.apply(JobChanged(carried_out(job, decision, 100.0)))
    assert planner.plan(100.0).decisions == ()
    assert planner.reason(plan.decisions[0].job, 100.0).code == "over-limit"


def test_jobs_within_the_quota_of_a_child_are_spared_where_others_of_the_parent_borrow():
    projects = (
        Project("d", quota=6, limit=6),
        Project("own", "d", quota=4, age=1),
        Project("borrows", "d", quota=2, age=2),
    )
    jobs = (
        *(running(f"o{at}", "own", at) for at in range(4)),
        *(running(f"b{at}", "borrows", 4 + at) for at in range(4)),
    )
    _, plan = after_limit(projects, jobs)

    assert {each.job[0] for each in plan.decisions} == {"b"}
    assert len(plan.decisions) == 2


def test_an_elastic_job_shrinks_to_the_limit():
    _, plan = after_limit((Project("a", quota=0, limit=3),), (running("e", "a", 0, workers=6, min_workers=1),))

    (move,) = plan.decisions
    assert isinstance(move, Move)
    assert len(move.placement) == 3


def test_a_job_names_the_later_one_that_its_minimum_run_time_spared():
    jobs = (running("old", "a", 0), structs.replace(running("new", "a", 1), started=90.0))
    _, plan = after_limit((Project("a", quota=1, limit=1),), jobs, min_runtime=60.0)

    (pause,) = plan.decisions
    assert (pause.job, text(pause.reason)) == (
        "old",
        (
            "The limit of the project “a” was lowered to 1 GPU, and it held 2. "
            "The job “new” of “a” was not paused instead: it was still within its minimum run time."
        ),
    )


def test_what_cannot_be_paused_stays():
    jobs = (running("firm", "a", 0, gpus=4, preemptible=False), running("other", "a", 4, gpus=2))
    _, plan = after_limit((Project("a", quota=4, limit=2),), jobs)

    assert [each.job for each in plan.decisions] == ["other"]


def test_a_job_keeps_its_minimum_run_time():
    planner, plan = after_limit((Project("a", limit=0),), (running("j", "a", 0),), now=10.0, min_runtime=60.0)

    assert plan.decisions == ()
    assert plan.wake_at == 60.0
    assert [each.job for each in planner.plan(60.0).decisions] == ["j"]
