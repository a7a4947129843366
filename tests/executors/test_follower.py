"""The reader of the files of attempts on other machines."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, LogGrew, Observation, Reported
from springtide.scheduler.executors.files import logs, reports, tail
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.tail import Tail
from springtide.scheduler.executors.kubernetes import follower
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
    """Reads as others do, and holds the result of the first read back until released."""

    def __init__(self, places: JobPlaces) -> None:
        super().__init__(KEY, places.attempts / "1", places, [0])
        self.has_read = threading.Event()
        self.released = threading.Event()

    def read_new(self, now: float) -> tuple[list[Observation], bool]:
        result = super().read_new(now)
        self.has_read.set()
        assert self.released.wait(PATIENCE_S)
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


async def test_files_that_were_not_written_to_are_not_opened_again(
    places: JobPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Tail(KEY, places.attempts / "1", places, [0])
    observed, grew = reader.read_new(9.0)
    assert (len(observed), grew) == (2, True)
    with monkeypatch.context() as closed:
        closed.setattr(logs, "attempt_size", None)
        closed.setattr(reports, "read", None)
        assert reader.read_new(9.0) == ([], False)
    with (places.attempts / "1" / "log.0").open("a") as log:
        log.write("more\n")
    assert reader.read_new(9.0) == ([LogGrew("digits", 0, 13)], True)
    with places.reports.open("a") as file:
        file.write(json.dumps({"attempt": 1, "at": 2.0, "step": 6}) + "\n")
    (reported,), grew = reader.read_new(9.0)
    assert isinstance(reported, Reported)
    assert (reported.last.step, grew) == (6, True)


async def test_reports_beyond_one_batch_are_read_without_a_new_write(
    places: JobPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BATCH", 1)
    with places.reports.open("a") as file:
        file.writelines(json.dumps({"attempt": 1, "at": 2.0, "step": step}) + "\n" for step in (6, 7))
    reader = Tail(KEY, places.attempts / "1", places, [0])
    steps = [each.last.step for _ in range(4) for each in reader.read_new(9.0)[0] if isinstance(each, Reported)]
    assert steps == [5, 6, 7]


async def test_many_attempts_that_write_nothing_are_polled_more_rarely(
    places: JobPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "INTERVAL", 0.01)
    monkeypatch.setattr(follower, "LONGEST_INTERVAL", 0.01)
    monkeypatch.setattr(follower, "PAUSE", 0.0)
    monkeypatch.setattr(follower, "MAX_QUIET_POLLS", 0.001)
    polls = 0

    class CountingTail(Tail):
        def read_new(self, now: float) -> tuple[list[Observation], bool]:  # noqa: ARG002 - as its base
            nonlocal polls
            polls += 1
            return [], False

    polling = Follower(lambda _: None, lambda: 9.0)
    polling.follow(KEY, CountingTail(KEY, places.attempts / "1", places, [0]), 1)
    async with asyncio.timeout(PATIENCE_S):
        while not polls:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert polls == 1
    polling.hurry(KEY)
    async with asyncio.timeout(PATIENCE_S):
        while polls < 2:
            await asyncio.sleep(0.01)
    await polling.close()


def test_the_best_of_many_reports_between_two_looks_is_told(places: JobPlaces) -> None:
    lines = [
        {"attempt": 1, "at": 1.0, "step": n, "values": {"loss": abs(n - 40), "acc": n / 100}} for n in range(90)
    ]
    places.reports.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    observed, _ = Tail(KEY, places.attempts / "1", places, [0]).read_new(9.0)
    (told,) = (each for each in observed if isinstance(each, Reported))
    assert told.last.values == {"loss": 49.0, "acc": 0.89}
    assert told.extremes == {"loss": (0.0, 40.0, 49.0, 89.0), "acc": (0.0, 0.0, 0.89, 89.0)}
