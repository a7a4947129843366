"""Reservations: the newest wish of a notebook counts, whatever the service does meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest
from patience import PATIENCE_S

from springtide.scheduler.client import PoolError, Unreachable
from springtide.scheduler.wire import BuildQuota, Problem, Workspace, WorkspaceRequest
from springtide.spawner import reservations
from springtide.spawner.reservations import Reservations, Superseded

SUSAN = ("susan", "")


class Service:
    """A service that holds reservations in memory; it can be away, slow, or refuse."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], int] = {}
        self.away = False
        self.refuses: Problem | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def _answer(self) -> None:
        self.entered.set()
        assert self.gate.wait(PATIENCE_S)
        if self.away:
            raise Unreachable("away")
        if self.refuses is not None:
            raise PoolError(self.refuses)

    def reserve_workspace(self, request: WorkspaceRequest) -> Workspace:
        self._answer()
        self.held[request.user, request.server] = request.gpus
        return Workspace(user=request.user, server=request.server, gpus=request.gpus, uuids=[], labels=[],
                         node="", simulated=True, since=0.0)  # fmt: skip

    def release_workspace(self, user: str, server: str) -> None:
        self._answer()
        self.held.pop((user, server), None)

    def build_quota(self, user: str) -> BuildQuota:
        self._answer()
        return BuildQuota(user=user, quota=1, held=0, free=1, simulated=True, projects=[])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(reservations, "LONGEST_DELAY", 0.01)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def pool(service: Service) -> Reservations:
    return Reservations(service, logging.getLogger("test"))


def nothing() -> None:
    pass


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_reservation_is_made_and_released(pool: Reservations, service: Service) -> None:
    workspace = await pool.reserve(SUSAN, 2, waits=nothing)
    assert workspace.gpus == 2
    assert service.held == {SUSAN: 2}
    await pool.release(SUSAN, patience=PATIENCE_S)
    assert service.held == {}


async def test_a_reservation_waits_for_a_service_that_is_away(pool: Reservations, service: Service) -> None:
    service.away = True
    told = asyncio.Event()
    reserving = asyncio.ensure_future(pool.reserve(SUSAN, 1, waits=told.set))
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    service.away = False
    assert (await asyncio.wait_for(reserving, PATIENCE_S)).gpus == 1


async def test_a_service_that_cannot_say_yet_counts_as_away(pool: Reservations, service: Service) -> None:
    service.refuses = Problem(status=503, code="starting", message="One moment.")
    told = asyncio.Event()
    reserving = asyncio.ensure_future(pool.reserve(SUSAN, 1, waits=told.set))
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    service.refuses = None
    assert (await asyncio.wait_for(reserving, PATIENCE_S)).gpus == 1


async def test_a_refusal_is_final(pool: Reservations, service: Service) -> None:
    service.refuses = Problem(status=409, code="build_quota", message="No.")
    with pytest.raises(PoolError, match="No"):
        await pool.reserve(SUSAN, 1, waits=nothing)


async def test_a_release_goes_on_in_the_background_until_the_service_is_back(
    pool: Reservations, service: Service
) -> None:
    await pool.reserve(SUSAN, 1, waits=nothing)
    service.away = True
    await pool.release(SUSAN, patience=0.05)
    assert service.held == {SUSAN: 1}
    service.away = False
    await until(lambda: not service.held)


async def test_a_notebook_started_again_keeps_its_gpus_from_an_old_release(
    pool: Reservations, service: Service
) -> None:
    await pool.reserve(SUSAN, 1, waits=nothing)
    service.away = True
    await pool.release(SUSAN, patience=0.05)
    service.away = False
    await pool.reserve(SUSAN, 2, waits=nothing)
    await asyncio.sleep(0.1)
    assert service.held == {SUSAN: 2}


async def test_a_start_that_was_cancelled_half_way_leaves_nothing_reserved(
    pool: Reservations, service: Service
) -> None:
    service.gate.clear()
    reserving = asyncio.ensure_future(pool.reserve(SUSAN, 1, waits=nothing))
    await until(service.entered.is_set)
    reserving.cancel()
    await asyncio.wait([reserving])
    releasing = asyncio.ensure_future(pool.release(SUSAN, patience=PATIENCE_S))
    await asyncio.sleep(0.02)
    service.gate.set()
    await asyncio.wait_for(releasing, PATIENCE_S)
    assert service.held == {}


async def test_a_waiting_start_gives_way_to_a_stop(pool: Reservations, service: Service) -> None:
    service.away = True
    told = asyncio.Event()
    reserving = asyncio.ensure_future(pool.reserve(SUSAN, 1, waits=told.set))
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    releasing = asyncio.ensure_future(pool.release(SUSAN, patience=PATIENCE_S))
    await asyncio.sleep(0.02)
    service.away = False
    await asyncio.wait_for(releasing, PATIENCE_S)
    with pytest.raises(Superseded):
        await asyncio.wait_for(reserving, PATIENCE_S)
    assert service.held == {}


async def test_notebooks_do_not_wait_for_each_other(pool: Reservations, service: Service) -> None:
    service.gate.clear()
    first = asyncio.ensure_future(pool.reserve(SUSAN, 1, waits=nothing))
    await until(service.entered.is_set)
    service.entered.clear()
    second = asyncio.ensure_future(pool.reserve(("joe", ""), 1, waits=nothing))
    await until(service.entered.is_set)
    service.gate.set()
    await asyncio.wait_for(asyncio.gather(first, second), PATIENCE_S)
    assert service.held == {SUSAN: 1, ("joe", ""): 1}
