"""A job that events keep up to date: fetched and newer states."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from jobs.job_options import with_options

from springtide.scheduler.client import Client, Unreachable
from springtide.scheduler.wire import Attempt, Event, Job, JobUsage, Progress
from springtide.widgets.display.live_job import LiveJob


def job(state: str = "running", attempts: tuple[int, ...] = (1,), source: str = "") -> Job:
    runs = [
        Attempt(number=number, state="running", workers=1, gpus=[], created=float(number)) for number in attempts
    ]
    who: dict[str, Any] = {
        "id": "a",
        "name": "n",
        "kind": "command",
        "user": "susan",
        "project": "vision",
        "argv": [],
    }
    size: dict[str, Any] = {
        "priority": 50,
        "preemptible": True,
        "workers": 1,
        "gpus": 1,
        "min_workers": 1,
        "submitted": 0.0,
    }
    return with_options(Job, **who, **size, state=state, attempts=runs, source=source)


def pushed(of: Job) -> Event:
    return Event(kind="job", data=msgspec.to_builtins(of))


class Pool(Client):
    """A pool with one job. ``meanwhile`` is done while its answer is on the way."""

    def __init__(self, answer: Job, meanwhile=lambda: None) -> None:
        self.answer, self.meanwhile, self.asked = answer, meanwhile, 0

    def job(self, job_id: str) -> Job:  # noqa: ARG002 - there is one
        self.asked += 1
        answer = self.answer
        self.meanwhile()
        return answer


def test_a_job_is_fetched_once_and_then_told_by_events() -> None:
    pool = Pool(job("queued", source="print()"))
    live = LiveJob(pool, "a")
    assert live.current().state == "queued"
    assert live.hear(pushed(job("running")))
    assert live.hear(Event(kind="progress", data={"job": "a", "progress": {"step": 3.0}, "saved": 7.0}))
    now = live.current()
    assert (now.state, now.progress, now.saved, now.source) == ("running", Progress(step=3.0), 7.0, "print()")
    assert pool.asked == 1


def test_what_is_not_about_the_job_is_not_heard() -> None:
    live = LiveJob(Pool(job()), "b")
    assert not live.hear(pushed(job()))
    assert not live.hear(Event(kind="progress", data={"job": "a", "progress": {"step": 3.0}}))
    assert not live.hear(Event(kind="log", data={"job": "b", "rank": 0, "size": 3}))


def test_attempts_that_an_event_leaves_out_stay() -> None:
    live = LiveJob(Pool(job(attempts=(1, 2, 3, 4, 5, 6))), "a")
    live.current()
    live.hear(pushed(job(attempts=(3, 4, 5, 6, 7))))
    assert [attempt.number for attempt in live.current().attempts] == [1, 2, 3, 4, 5, 6, 7]


def test_an_event_is_newer_than_an_answer_that_was_asked_for_before_it() -> None:
    pool = Pool(job("running", attempts=(1, 2), source="print()"))
    live = LiveJob(pool, "a")
    pool.meanwhile = lambda: live.hear(pushed(job("succeeded", attempts=(2,))))
    now = live.current()
    assert (now.state, now.source, len(now.attempts)) == ("succeeded", "print()", 2)


def test_after_a_break_the_job_is_fetched_again_until_it_was() -> None:
    pool = Pool(job())
    live = LiveJob(pool, "a")
    live.current()
    live.forget()

    def away() -> None:
        raise Unreachable("away")

    pool.meanwhile = away
    for _ in range(2):
        with pytest.raises(Unreachable):
            live.current()
    pool.meanwhile = lambda: None
    live.current()
    live.current()
    assert pool.asked == 4


def test_the_use_of_its_gpus_is_heard() -> None:
    live = LiveJob(Pool(job()), "a")
    usage = JobUsage(at=5.0, gpus=2, utilization=0.5)
    live.current()
    assert live.hear(Event(kind="usage", data={"job": "a", "usage": msgspec.to_builtins(usage)}))
    assert not live.hear(Event(kind="usage", data={"job": "b", "usage": msgspec.to_builtins(usage)}))
    assert live.current().usage == usage
