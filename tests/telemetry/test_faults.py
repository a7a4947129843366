"""Faults of GPUs: what counts as one, and what becomes of the job on such a GPU of a real machine."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from machines.nvml_library import LOST, Driver
from msgspec.structs import replace
from patience import PATIENCE_S
from stores.new_store import open_store

from springtide.scheduler import wire
from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.model import Reason, Settings
from springtide.scheduler.store.records import JobQuery
from springtide.scheduler.telemetry import GpuSample, discover
from springtide.scheduler.telemetry.faults import HARDWARE_XIDS, FaultRules, fault, remembered

WELL = Reading(ecc_uncorrected=0)
RULES = FaultRules()
UNTIL_PAUSED = """
import os, time
while not os.path.exists(os.environ["SPRINGTIDE_PAUSE_FILE"]):
    time.sleep(0.01)
raise SystemExit(75)
"""


def found(before: Reading | None, after: Reading, *new_xids: int, rules: FaultRules = RULES) -> Reason | None:
    return fault(before, GpuSample("GPU-1", after, new_xids=new_xids), rules)


def code(before: Reading | None, after: Reading, *new_xids: int, rules: FaultRules = RULES) -> str | None:
    reason = found(before, after, *new_xids, rules=rules)
    return None if reason is None else reason.code


# ---------- the rule


def test_a_gpu_that_is_well_has_no_fault() -> None:
    assert code(None, WELL) is None
    assert code(WELL, replace(WELL, utilization=1.0, temperature=90, ecc_corrected=1_000)) is None


@pytest.mark.parametrize("xid", sorted(HARDWARE_XIDS))
def test_xid_errors_of_the_hardware_are_faults_that_are_named(xid: int) -> None:
    reason = found(WELL, replace(WELL, xid=xid), xid)
    assert reason is not None
    assert (reason.code, reason.params["xid"], reason.params["what"]) == ("gpu-xid", xid, HARDWARE_XIDS[xid])


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 68, 94, 109])
def test_xid_errors_that_programs_cause_or_that_tell_of_repairs_are_none(xid: int) -> None:
    assert code(WELL, replace(WELL, xid=xid), xid) is None


def test_an_xid_error_counts_once_and_another_of_the_same_number_again() -> None:
    after = replace(WELL, xid=79)
    assert code(WELL, after, 13, 79) == "gpu-xid"
    assert code(after, after) is None
    assert code(after, after, 79) == "gpu-xid"


def test_new_uncorrected_memory_errors_count_and_known_ones_do_not() -> None:
    two = replace(WELL, ecc_uncorrected=2)
    assert code(WELL, two) == "gpu-ecc"
    assert code(None, two) == "gpu-ecc"
    assert code(two, two) is None
    again = found(two, replace(two, ecc_uncorrected=3))
    assert again is not None
    assert again.params == {"new": 1, "errors": 3}


def test_a_count_that_began_anew_is_compared_with_zero() -> None:
    five = replace(WELL, ecc_uncorrected=5)
    assert code(five, WELL) is None
    assert code(five, replace(WELL, ecc_uncorrected=1)) == "gpu-ecc"


def test_a_count_that_is_not_reported_for_a_while_is_not_forgotten() -> None:
    five = replace(WELL, ecc_uncorrected=5)
    between = remembered(five, Reading(lost=True))
    assert (between.lost, between.ecc_uncorrected) == (True, 5)
    assert code(between, five) is None


def test_a_lost_gpu_is_a_fault_when_it_gets_lost() -> None:
    lost = Reading(lost=True)
    assert code(WELL, lost) == code(None, lost) == "gpu-lost"
    assert code(lost, lost) is None


def test_the_admin_chooses_what_counts() -> None:
    bad = replace(WELL, ecc_uncorrected=2)
    assert code(WELL, bad, 48, 94, rules=FaultRules(drain_faulty_gpus=False)) is None
    assert code(WELL, replace(WELL, lost=True), rules=FaultRules(drain_faulty_gpus=False)) is None
    reason = found(WELL, bad, 48, 94, rules=FaultRules(fault_xids=frozenset({94})))
    assert reason is not None
    assert (reason.params["xid"], reason.params["what"]) == (94, "")
    tolerant = FaultRules(fault_xids=frozenset(), fault_ecc_errors=3)
    assert code(WELL, bad, 48, 94, rules=tolerant) is None
    assert code(bad, replace(bad, ecc_uncorrected=3), rules=tolerant) == "gpu-ecc"
    assert code(WELL, bad, 48, 94, rules=FaultRules(fault_xids=frozenset(), fault_ecc_errors=0)) is None


# ---------- on a machine: real pynvml, executor, processes and store


class Pool:
    """The engine of a machine with four GPUs; its jobs outlive a restart."""

    engine: Engine

    def __init__(self, state: Path) -> None:
        self._state = state

    async def start(self) -> None:
        settings = EngineSettings(policy=Settings(grace=20.0))
        self._store = open_store(self._state)
        executor = LocalExecutor(self._state, discover())
        self.engine = await open_engine(self._store, executor, settings, projects={"vision": {"quota": 4}})
        await self.engine.usage.recall()

    async def stop(self) -> None:
        await self.engine.stop()
        self._store.close()

    async def sample(self) -> None:
        await self.engine.usage.sample(int(time.time()) // 10 * 10)

    async def submit(self, gpus: int) -> str:
        submission = wire.Submission(argv=[sys.executable, "-c", UNTIL_PAUSED], gpus=gpus)
        return (await self.engine.submit(submission, "susan", "vision")).id

    async def until(self, job: str, state: str, attempt: int = 1) -> wire.Job:
        async with asyncio.timeout(PATIENCE_S):
            while ((found := await self.engine.job(job)).state, found.attempt) != (state, attempt):
                await asyncio.sleep(0.02)
        return found

    def drained(self) -> dict[int, wire.DrainView]:
        """Return the drained GPUs by index."""
        (train,) = (node for node in self.engine.pool().nodes if node.name == "train")
        return {cell.index: cell.drain for cell in train.gpus if cell.drain is not None}


@pytest.fixture
async def pool(driver: Driver, tmp_path: Path) -> AsyncIterator[Pool]:
    driver.add(4)
    pool = Pool(tmp_path)
    await pool.start()
    yield pool
    unfinished = JobQuery(states=frozenset({"queued", "paused", "starting", "running", "pausing"}))
    for job in (await pool.engine.jobs(unfinished, None, 10)).items:
        await pool.engine.cancel(job.id, "susan")
        await pool.until(job.id, "cancelled", (await pool.engine.job(job.id)).attempt)
    await pool.stop()


async def test_the_job_of_a_gpu_that_falls_off_the_bus_goes_on_on_others(pool: Pool, driver: Driver) -> None:
    job = await pool.submit(gpus=2)
    held = [gpu.uuid for gpu in (await pool.until(job, "running")).held]
    await pool.sample()
    assert pool.drained() == {}
    bad = int(held[0][-1])
    driver.raise_xid(bad, 79)
    driver.fail(bad, error=LOST)
    await pool.sample()
    moved = await pool.until(job, "running", attempt=2)
    assert held[0] not in [gpu.uuid for gpu in moved.held]
    assert [attempt.state for attempt in moved.attempts] == ["paused", "running"]
    why = moved.attempts[0].ended_why
    assert why is not None
    assert why.text.startswith(
        f"The GPU {bad} of train was drained because of a fault. Its driver cannot reach it"
    )
    assert list(pool.drained()) == [bad]


async def test_a_drain_outlasts_a_restart_and_what_was_known_is_no_new_fault(pool: Pool, driver: Driver) -> None:
    driver[1].ecc_uncorrected = 2
    await pool.sample()
    [(index, drain)] = pool.drained().items()
    assert (index, drain.by, drain.why) == (1, "springtide", "It reported 2 uncorrected ECC errors.")
    await pool.stop()
    await pool.start()
    assert list(pool.drained()) == [1]
    await pool.engine.undrain_node(wire.UndrainRequest(node="train", gpu=1), "admin")
    await pool.sample()
    assert pool.drained() == {}
    await pool.stop()
    driver[1].ecc_uncorrected = 3
    await pool.start()
    await pool.sample()
    assert pool.drained()[1].why == "It reported 1 uncorrected ECC error, 3 since its driver was loaded."
