"""All unfinished jobs that are alike are expected to run equally long, as the latest jobs like them did."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler.history.run_times import MIN_SAMPLES, ExpectedRunTimes, Renewal, RunTimes
from springtide.scheduler.model import Job


@pytest.fixture
def expected() -> ExpectedRunTimes:
    return ExpectedRunTimes(RunTimes())


def job(name: str, project: str = "a", **fields: Any) -> Job:
    return Job(name, project, name=name, user=project, **fields)


def waits(expected: ExpectedRunTimes, *jobs: Job) -> None:
    for each in jobs:
        expected.put(each.id, each, expected.of(each))


def follow(expected: ExpectedRunTimes, *jobs: Job) -> list[Renewal]:
    renewals = list(expected.renewals())
    known = {each.id: each for each in jobs}
    for renewal in renewals:
        for job_id in renewal.jobs:
            expected.put(job_id, known[job_id], renewal.seconds)
    assert not list(expected.renewals())
    return renewals


def test_the_first_job_of_its_kind_tells_all_that_wait(expected: ExpectedRunTimes) -> None:
    jobs = [job("t-1"), job("t-2"), job("other"), job("t-3", gpus=2)]
    waits(expected, *jobs)
    expected.learn(job("t-0"), 600.0)

    assert follow(expected, *jobs) == [(("t-1", "t-2"), 600.0)]
    assert expected.of(job("t-9")) == 600.0
    assert expected.of(job("other")) is None


def test_jobs_of_a_general_kind_follow_it_until_a_more_specific_one_is_known(expected: ExpectedRunTimes) -> None:
    known, unknown = job("t-1"), job("other", "b")
    waits(expected, known, unknown)
    expected.learn(job("t-0"), 600.0)
    for number in range(MIN_SAMPLES):
        expected.learn(job("x", f"p{number}"), 60.0)

    assert dict(follow(expected, known, unknown)) == {("t-1",): 600.0, ("other",): 60.0}
    expected.learn(job("other", "b"), 6000.0)
    assert follow(expected, known, unknown) == [(("other",), 6000.0)]


def test_a_job_that_comes_later_expects_the_same_as_those_that_wait(expected: ExpectedRunTimes) -> None:
    first, later = job("t-1"), job("t-2")
    expected.learn(job("t-0"), 600.0)
    waits(expected, first)
    expected.learn(job("t-0"), 700.0)

    assert not follow(expected, first), "650 s are much like 600 s"
    assert expected.of(later) == 600.0


def test_jobs_that_have_ended_are_not_renewed(expected: ExpectedRunTimes) -> None:
    ended, left = job("t-1"), job("t-2")
    waits(expected, ended, left)
    expected.remove(ended.id, ended)
    expected.learn(ended, 600.0)
    assert follow(expected, left) == [(("t-2",), 600.0)]

    expected.remove(left.id, left)
    expected.learn(left, 6000.0)
    assert not follow(expected)
    assert expected.one_like(left) is None
