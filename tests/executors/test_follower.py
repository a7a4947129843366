"""The reader of the files of attempts on other machines."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from springtide.scheduler.executors.base import AttemptKey, LogGrew, Observation, Reported
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.tail import Tail
from springtide.scheduler.executors.kubernetes.follower import Follower

KEY = AttemptKey("digits", 1)


@pytest.fixture
def places(tmp_path: Path) -> JobPlaces:
    """A job whose only attempt has written a log and a report."""
    places = JobPlaces(tmp_path)
    (places.attempts / "1").mkdir(parents=True)
    (places.attempts / "1" / "log.0").write_text("trained\n")
    places.reports.write_text(json.dumps({"attempt": 1, "at": 1.0, "step": 5, "values": {"loss": 0.1}}) + "\n")
    return places


class SlowTail(Tail):
    """Reads as others do, and holds the result of the first read back until it is told."""

    def __init__(self, places: JobPlaces) -> None:
        super().__init__(KEY, places.attempts / "1", places, [0])
        self.has_read = threading.Event()
        self.released = threading.Event()

    def read_new(self, now: float) -> tuple[list[Observation], bool]:
        result = super().read_new(now)
        self.has_read.set()
        assert self.released.wait(60)
        return result


async def test_what_a_poll_has_read_while_the_attempt_ends_is_told_once(places: JobPlaces) -> None:
    told: list[Observation] = []
    follower = Follower(told.append, lambda: 9.0)
    tail = SlowTail(places)
    follower.follow(KEY, tail, 1)
    assert await asyncio.to_thread(tail.has_read.wait, 60)
    finished = asyncio.create_task(follower.finish(KEY, tail, 1))
    await asyncio.sleep(0)
    tail.released.set()
    await finished
    await follower.close()
    assert [type(each) for each in told] == [LogGrew, Reported]


async def test_nothing_is_told_of_an_attempt_that_was_discarded_while_it_was_polled(places: JobPlaces) -> None:
    told: list[Observation] = []
    follower = Follower(told.append, lambda: 9.0)
    tail = SlowTail(places)
    follower.follow(KEY, tail, 1)
    assert await asyncio.to_thread(tail.has_read.wait, 60)
    follower.unfollow(KEY)
    tail.released.set()
    later = AttemptKey("later", 1)
    await follower.finish(later, Tail(later, places.attempts / "1", places, [0]), 1)
    await follower.close()
    of_log, of_progress = told
    assert of_log == LogGrew("later", 0, 8)
    assert isinstance(of_progress, Reported)
    assert of_progress.key == later
