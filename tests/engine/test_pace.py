"""Rests between ticks, so that many small ones do not take the event loop's time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from simulation.virtual_time import run

from springtide.scheduler.clock import Clock
from springtide.scheduler.engine.loop.mailbox import Mailbox
from springtide.scheduler.engine.loop.pace import QUIET, URGENT, Pace
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    InventoryChanged,
    LogGrew,
    Observation,
)

KEY = AttemptKey("a", 1)


async def rest(pace: Pace, urgent: asyncio.Event, due: float | None = None) -> float:
    """Return the seconds that a rest took, by the time of the event loop."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await pace.rest(urgent, lambda: due)
    return loop.time() - began


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test on a loop whose time passes only while it waits, however busy the machine is."""

    @functools.wraps(test)
    def alone() -> None:
        run(lambda _: test())

    return alone


class Work:
    """A clock that adds the work of ticks to the time of the event loop."""

    def __init__(self) -> None:
        self.worked = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.worked

    def tick(self, pace: Pace, seconds: float) -> None:
        with pace:
            self.worked += seconds


def arrived() -> asyncio.Event:
    """Return the event of an urgent arrival."""
    event = asyncio.Event()
    event.set()
    return event


@in_virtual_time
async def test_the_first_tick_and_one_after_a_quiet_time_begin_at_once() -> None:
    work = Work()
    pace = Pace(work)
    assert await rest(pace, arrived()) < URGENT.longest
    work.tick(pace, 10)
    work.worked += 1
    assert await rest(pace, asyncio.Event()) < URGENT.longest


@in_virtual_time
async def test_a_tick_that_somebody_waits_for_begins_after_a_short_rest() -> None:
    work = Work()
    pace = Pace(work)
    work.tick(pace, 0.005)
    assert await rest(pace, arrived()) >= 4 * 0.005
    work.tick(pace, 10)
    assert await rest(pace, arrived()) >= URGENT.longest


@in_virtual_time
async def test_a_tick_that_nobody_waits_for_begins_later_and_at_once_when_somebody_does() -> None:
    work = Work()
    pace = Pace(work)
    work.tick(pace, 10)
    assert await rest(pace, asyncio.Event()) >= QUIET.longest
    work.tick(pace, 10)
    urgent = asyncio.Event()
    asyncio.get_running_loop().call_later(URGENT.longest * 1.5, urgent.set)
    assert await rest(pace, urgent) < QUIET.longest


@in_virtual_time
async def test_ticks_in_a_row_that_nobody_waits_for_rest_longer_until_somebody_does() -> None:
    work, nobody = Work(), asyncio.Event()
    pace = Pace(work)
    rests = []
    for _ in range(6):
        work.tick(pace, 0.002)
        rests.append(await rest(pace, nobody))
    assert rests[1] > 1.5 * rests[0]
    assert rests[2] > 1.5 * rests[1]
    assert rests[-1] == pytest.approx(QUIET.longest)
    work.tick(pace, 0.002)
    await rest(pace, arrived())
    work.tick(pace, 0.002)
    assert await rest(pace, nobody) < 1.5 * rests[0]


@in_virtual_time
async def test_a_plan_that_is_due_is_not_waited_for() -> None:
    work = Work()
    pace = Pace(work)
    work.tick(pace, 10)
    assert await rest(pace, asyncio.Event(), due=0.0) < QUIET.longest


@pytest.mark.parametrize(
    ("observation", "waited_for"),
    [
        (AttemptStatus(KEY, AttemptPhase.STARTING), False),
        (AttemptStatus(KEY, AttemptPhase.RUNNING, 1.0), False),
        (AttemptStatus(KEY, AttemptPhase.GONE), True),
        (LogGrew("a", 0, 5), False),
        (InventoryChanged(), True),
    ],
)
async def test_somebody_waits_for_what_frees_gpus_and_for_answers(
    observation: Observation, waited_for: bool
) -> None:
    mailbox = Mailbox(Clock())
    mailbox.post(observation)
    assert mailbox.arrived.is_set()
    assert mailbox.urgent.is_set() is waited_for
    mailbox.drain()
    assert not mailbox.urgent.is_set()
    request = asyncio.create_task(mailbox.request(lambda _: None))
    await asyncio.sleep(0)
    assert mailbox.urgent.is_set()
    request.cancel()


async def test_the_start_of_a_job_that_others_made_room_for_is_waited_for_once() -> None:
    mailbox = Mailbox(Clock())
    mailbox.awaited.add(KEY)
    mailbox.post(AttemptStatus(KEY, AttemptPhase.STARTING))
    assert not mailbox.urgent.is_set()
    mailbox.post(AttemptStatus(KEY, AttemptPhase.RUNNING, 1.0))
    assert mailbox.urgent.is_set()
    mailbox.drain()
    mailbox.post(AttemptStatus(KEY, AttemptPhase.RUNNING, 1.0))
    assert not mailbox.urgent.is_set()
