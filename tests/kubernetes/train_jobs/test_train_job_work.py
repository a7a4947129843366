"""Work that is done once for many wishes, again after a failure, and for a bounded number of things at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from patience import PATIENCE_S

from springtide.hub_extension.train_jobs import work as module
from springtide.hub_extension.train_jobs.work import Work
from springtide.scheduler.kube import ApiError
from springtide.scheduler.refusal import Refusal


class Desk:
    """Counts what was done; each piece of work waits for `go` if `held`."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.busy: Counter[str] = Counter()
        self.most = 0
        self.errors: list[Any] = []
        self.go = asyncio.Event()
        self.go.set()

    async def do(self, key: str) -> None:
        self.busy[key] += 1
        self.most = max(self.most, self.busy.total())
        assert self.busy[key] == 1
        await self.go.wait()
        self.busy[key] -= 1
        self.done[key] += 1
        if self.errors:
            raise self.errors.pop(0)

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture
async def desk():
    return Desk()


@pytest.fixture
async def work(desk):
    one = Work(desk.do, str, workers=3)
    one.start()
    yield one
    desk.go.set()
    await one.stop()


async def test_many_wishes_before_its_turn_are_one_piece_of_work(desk, work):
    for _ in range(100):
        work.add("a")
    work.add("b")
    await desk.until(lambda: desk.done == {"a": 1, "b": 1})


async def test_a_wish_while_it_is_done_has_it_done_once_more(desk, work):
    desk.go.clear()
    work.add("a")
    await desk.until(lambda: desk.busy["a"] == 1)
    for _ in range(100):
        work.add("a")
    desk.go.set()
    await desk.until(lambda: desk.done["a"] == 2)
    await asyncio.sleep(0)
    assert desk.done["a"] == 2


async def test_only_so_many_things_at_a_time(desk, work):
    desk.go.clear()
    for number in range(20):
        work.add(str(number))
    await desk.until(lambda: desk.busy.total() == 3)
    desk.go.set()
    await desk.until(lambda: desk.done.total() == 20)
    assert desk.most == 3


@pytest.mark.parametrize(
    "error",
    [
        ApiError(0, "Unreachable", "away"),
        ApiError(409, "Conflict", "other"),
        Refusal(503, "x", "y"),
        KeyError("bug"),
    ],
    ids=repr,
)
async def test_what_did_not_work_is_done_again(desk, work, error, monkeypatch):
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.001)
    desk.errors = [error, error, error]
    work.add("a")
    await desk.until(lambda: desk.done["a"] == 4)


async def test_later_is_forgotten_when_it_is_done_sooner(desk, work):
    work.add_later("a", 3600)
    work.add("a")
    await desk.until(lambda: desk.done["a"] == 1)
    work.add_later("b", 0.001)
    await desk.until(lambda: desk.done["b"] == 1)
    assert desk.done["a"] == 1


async def test_stopping_finishes_what_is_being_done_and_leaves_the_rest(desk, work):
    desk.go.clear()
    for number in range(10):
        work.add(str(number))
    await desk.until(lambda: desk.busy.total() == 3)
    stopping = asyncio.ensure_future(work.stop())
    await asyncio.sleep(0)
    desk.go.set()
    await stopping
    assert desk.done.total() == 3
