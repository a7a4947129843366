"""Blocking calls in threads: their results, their order, and when a second thread helps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from springtide.scheduler.executors.files import reader
from springtide.scheduler.executors.files.reader import BatchedCalls


@pytest.fixture
def calls() -> Iterator[BatchedCalls]:
    found = BatchedCalls(2, "test")
    yield found
    found.close()


class Gate:
    """A call that returns on demand; ``entered`` is set when it has begun."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        self.opened.wait()
        return threading.current_thread().name

    async def begun(self) -> None:
        await asyncio.to_thread(self.entered.wait)


async def test_each_caller_gets_its_own_result_or_error(calls: BatchedCalls) -> None:
    def fail() -> None:
        raise OSError("no room")

    results = await asyncio.gather(
        calls.call(lambda: 1), calls.call(fail), calls.call(lambda: 3), return_exceptions=True
    )
    assert results[0] == 1
    assert isinstance(results[1], OSError)
    assert results[2] == 3


async def test_calls_that_come_while_a_thread_works_are_its_next_batch_in_order(calls: BatchedCalls) -> None:
    gate = Gate()
    order: list[int] = []
    first = asyncio.create_task(calls.call(gate))
    await gate.begun()
    later = [asyncio.create_task(calls.call(partial(order.append, number))) for number in range(5)]
    await asyncio.sleep(0)
    assert order == []
    gate.opened.set()
    await asyncio.gather(first, *later)
    assert order == [0, 1, 2, 3, 4]


async def test_a_slow_batch_holds_up_no_later_call(calls: BatchedCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PATIENCE", -1.0)
    gate = Gate()
    first = asyncio.create_task(calls.call(gate))
    await gate.begun()
    other = await calls.call(lambda: threading.current_thread().name)
    gate.opened.set()
    assert await first != other


async def test_a_call_that_is_given_up_while_it_waits_is_not_made(calls: BatchedCalls) -> None:
    gate, made = Gate(), []
    first = asyncio.create_task(calls.call(gate))
    await gate.begun()
    given_up = asyncio.create_task(calls.call(lambda: made.append("given up")))
    kept = asyncio.create_task(calls.call(lambda: made.append("kept")))
    await asyncio.sleep(0)
    given_up.cancel()
    gate.opened.set()
    await asyncio.gather(first, kept)
    assert made == ["kept"]


async def test_a_call_after_the_end_is_refused() -> None:
    calls = BatchedCalls(1, "test")
    calls.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        await calls.call(lambda: None)
