"""What is said of a job that needs more than its project may hold at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from springtide.scheduler.model import Job, JobChanged, Node, Phase, Project, ProjectsChanged, Snapshot, Worker
from springtide.scheduler.policy import Planner
from springtide.scheduler.sentences import text

SUSAN = Project("susan", quota=2, age=0)
JOE = Project("joe", quota=2, age=1)


def holding(name, *gpus: int):
    return Job(name, "susan", name=name, phase=Phase.RUNNING, placement=(Worker(0, "dgx", gpus),), gpus=len(gpus))


@pytest.fixture
def planner():
    running = (holding("s1", 0, 1, 2, 3), holding("s2", 4, 5, 6, 7))
    large = Job("large", "joe", name="large", gpus=6)
    return Planner(Snapshot(0.0, (Node("dgx", 8),), (SUSAN, JOE), (*running, large)))


def test_it_is_told_what_the_project_may_hold_and_the_quota_that_would_do(planner):
    assert not planner.plan(0.0).decisions
    assert text(planner.reason("large", 0.0)) == (
        "Waiting for 6 GPUs on one node: none is free. The project joe holds none of its 2 GPUs."
        " Its fair share is 4 GPUs right now, because of what others ask for."
        " It can start once other projects ask for less, or with a quota of 6 or more."
    )


def test_it_is_true_of_the_quota(planner):
    planner.apply(ProjectsChanged((SUSAN, replace(JOE, quota=6))))

    assert "Reserve" in {type(each).__name__ for each in planner.plan(0.0).decisions}


def test_no_quota_is_named_that_could_not_be_kept(planner):
    planner.apply(ProjectsChanged((replace(SUSAN, quota=4), JOE)))

    assert text(planner.reason("large", 0.0)).endswith("It can start once other projects ask for less.")


def test_what_fits_the_share_is_told_whose_end_would_help(planner):
    planner.apply(JobChanged(Job("small", "joe", name="small", gpus=3)))

    assert "may hold" not in text(planner.reason("small", 0.0))
