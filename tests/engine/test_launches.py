"""The order in which attempts are launched."""

from __future__ import annotations

import asyncio
from typing import Any

from patience import PATIENCE_S

from springtide.scheduler.backoff import no_jitter
from springtide.scheduler.engine.loop.actuator import Actuator, LaunchGate
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.engine.state.lifecycle import Action, Effect
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, ExecutorError


async def admitted(*tickets: Any) -> list[bool | None]:
    await asyncio.sleep(0)
    return [ticket.admitted.result() if ticket.admitted.done() else None for ticket in tickets]


async def test_launches_begin_in_order_and_those_within_quota_first() -> None:
    gate = LaunchGate(1)
    first, second, guaranteed = (gate.request(borrows=borrows) for borrows in (True, True, False))
    assert await admitted(first, second, guaranteed) == [True, None, None]
    gate.leave()
    assert await admitted(second, guaranteed) == [None, True]
    gate.leave()
    assert await admitted(second) == [True]


async def test_a_launch_that_is_withdrawn_takes_no_place() -> None:
    gate = LaunchGate(1)
    first, second, third = (gate.request(borrows=True) for _ in range(3))
    gate.withdraw(second)
    gate.withdraw(first)
    assert await admitted(first, second, third) == [True, False, None]
    gate.leave()
    assert await admitted(third) == [True]


class SlowExecutor:
    """Launches nothing until the test permits it."""

    concurrent_launches = 3

    def __init__(self) -> None:
        self.launched: list[AttemptKey] = []
        self.go_on = asyncio.Event()

    async def launch(self, spec: AttemptKey) -> None:
        self.launched.append(spec)
        await self.go_on.wait()

    async def pause(self, key: AttemptKey) -> None:
        if key not in self.launched:
            raise ExecutorError(f"{key.job} is not known here.")

    async def attempts(self) -> tuple[AttemptStatus, ...]:
        return ()


async def test_an_attempt_that_is_paused_before_its_turn_is_never_launched() -> None:
    executor = SlowExecutor()
    observed: list[Any] = []

    async def spec(key: AttemptKey) -> Any:
        return key

    actuator = Actuator(
        executor,  # type: ignore[arg-type]
        spec,
        observed.append,
        borrows=lambda key: key.job != "guaranteed",
        stats=Stats(),
        clock=lambda: 5.0,
        jitter=no_jitter,
    )
    places = executor.concurrent_launches
    jobs = [f"job-{number}" for number in range(places + 2)]
    for job in (*jobs, "guaranteed"):
        actuator.enqueue(Effect(Action.LAUNCH, job, 1))
    actuator.enqueue(Effect(Action.PAUSE, jobs[-1], 1))
    async with asyncio.timeout(PATIENCE_S):
        while not observed:
            await asyncio.sleep(0)
    (ended,) = observed
    assert (ended.key.job, ended.phase) == (jobs[-1], AttemptPhase.GONE)
    assert len(executor.launched) == places
    executor.go_on.set()
    async with asyncio.timeout(PATIENCE_S):
        await actuator.finished()
    assert [key.job for key in executor.launched] == [*jobs[:places], "guaranteed", jobs[places]]
