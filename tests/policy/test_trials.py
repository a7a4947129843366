"""Trials of a sweep wait in line with all the service that their sweep has had."""

from __future__ import annotations

import pytest

from springtide.scheduler.model import Job, Node, Phase, Project, Settings, Snapshot, Start, Worker
from springtide.scheduler.policy.planner import Planner

HOUR = 3600.0


def planner(*jobs: Job, gpus: int = 1) -> Planner:
    node = Node("n", gpus)
    return Planner(Snapshot(10 * HOUR, (node,), (Project("p", quota=gpus),), jobs, Settings(min_runtime=0.0)))


def started(*jobs: Job, gpus: int = 1) -> list[str]:
    decisions = planner(*jobs, gpus=gpus).plan(10 * HOUR).decisions
    return [decision.job for decision in decisions if isinstance(decision, Start)]


def test_a_trial_goes_after_a_newer_job_of_a_colleague_who_had_less() -> None:
    trial = Job("trial", "p", submitted=1.0, sweep_served=100 * HOUR)
    assert started(trial, Job("colleague", "p", submitted=2.0)) == ["colleague"]
    assert started(Job("trial", "p", submitted=1.0), Job("colleague", "p", submitted=2.0)) == ["trial"]


def test_a_waiting_trial_does_not_rotate_out_a_job_that_had_less_than_its_sweep() -> None:
    holds = Job("runs", "p", phase=Phase.RUNNING, placement=(Worker(0, "n", (0,)),), started=0.0)
    trial = Job("trial", "p", submitted=9.5 * HOUR, sweep_served=100 * HOUR)
    assert planner(holds, trial).plan(10 * HOUR).decisions == ()
    fresh = Job("fresh", "p", submitted=9 * HOUR)
    assert planner(holds, fresh).plan(10 * HOUR).decisions != ()


@pytest.mark.parametrize("limit", [None, 5 * HOUR])
def test_the_service_of_a_sweep_uses_up_no_time_limit(limit: float | None) -> None:
    trial = Job("trial", "p", time_limit=limit, sweep_served=100 * HOUR)
    assert trial.latest_end(0.0) == Job("other", "p", time_limit=limit).latest_end(0.0)
    assert started(trial) == ["trial"]
