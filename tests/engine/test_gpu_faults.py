"""GPUs with a fault: drained by the pool itself, their jobs moved, and their administrators notified."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import EngineSettings, Retries
from springtide.scheduler.executors.base import InventoryChanged
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.model import Settings
from springtide.scheduler.notifications import (
    NotificationChoice,
    NotificationEvent,
    NotificationSettings,
)
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.telemetry import GpuSample

TOLD = NotificationSettings(CHANNELS, WITH_ADDRESS, fault_recipients=frozenset({"admin"}))
SETTINGS = EngineSettings(policy=Settings(grace=5.0), retries=Retries(first=1.0), notifications=TOLD)


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    return await make_pool(settings=SETTINGS)


async def read(pool: Any, *samples: GpuSample) -> None:
    """Have the GPUs report these samples, and let the engine act on them."""

    async def gpu_samples(_: Any) -> tuple[GpuSample, ...]:
        return samples

    pool.executor.measures_gpus = True
    pool.executor.gpu_samples = gpu_samples
    pool.clock.now += 10.0
    await pool.engine.usage.sample(int(pool.clock.now) - 10)
    await pool.idle()


def drained(pool: Any) -> dict[str, wire.DrainView]:
    return {cell.uuid: cell.drain for node in pool.engine.pool().nodes for cell in node.gpus if cell.drain}


async def mails(pool: Any, user: str) -> list[str]:
    waiting = await pool.engine.outbox.waiting((user, EMAIL))
    return [f"{each.notification.title} {each.notification.text}" for each in waiting]


async def test_a_gpu_with_an_error_is_drained_its_job_goes_on_elsewhere_and_the_admin_is_told(pool: Any) -> None:
    job = await pool.submit(gpus=2)
    held = [gpu.uuid for gpu in (await pool.state(job.id, "running")).held]
    await read(pool, *(GpuSample(uuid, Reading(ecc_uncorrected=0)) for uuid in held))
    assert drained(pool) == {}
    bad = GpuSample(held[1], Reading(ecc_uncorrected=0, xid=48), new_xids=(48,))
    await read(pool, GpuSample(held[0], Reading(ecc_uncorrected=0)), bad)
    found = await pool.job(job.id)
    assert (found.state, [attempt.state for attempt in found.attempts]) == ("running", ["paused", "running"])
    assert held[1] not in [gpu.uuid for gpu in found.held]
    [(gpu, drain)] = drained(pool).items()
    why = "It reported the Xid error 48: a double-bit ECC error."
    assert (gpu, drain.by, drain.since, drain.why) == (held[1], "springtide", pool.clock.now, why)
    index = int(gpu.rpartition("-")[2])
    [told] = await mails(pool, "admin")
    assert told.startswith(
        f"The GPU {index} of train has a fault and was drained. {why} Nothing new starts on it;"
    )
    assert await mails(pool, "susan") == []
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (entry.who, entry.what, entry.subject) == ("springtide", "gpu.drain", f"GPU {index} of train ({gpu})")


async def test_the_same_error_is_told_once_and_does_not_drain_a_gpu_again_that_was_given_back(pool: Any) -> None:
    bad = GpuSample("GPU-train-3", Reading(ecc_uncorrected=1))
    await read(pool, bad)
    await read(pool, bad)
    assert len(await mails(pool, "admin")) == 1
    await pool.engine.undrain_node(wire.UndrainRequest(node="train", gpu=3), "admin")
    await read(pool, bad)
    assert drained(pool) == {}
    await read(pool, GpuSample("GPU-train-3", Reading(ecc_uncorrected=2)))
    assert list(drained(pool)) == ["GPU-train-3"]


async def test_who_is_told_of_faults_is_everybodys_own_choice(pool: Any) -> None:
    fault = frozenset({NotificationEvent.FAULT})
    await pool.engine.outbox.choose(NotificationChoice("joe", {EMAIL: fault}))
    await pool.engine.outbox.choose(NotificationChoice("admin", {EMAIL: frozenset()}))
    await read(pool, GpuSample("GPU-train-0", Reading(lost=True)), GpuSample("GPU-build-0", Reading(lost=True)))
    told = await mails(pool, "joe")
    assert [line.partition(" has")[0] for line in told] == ["The GPU 0 of train", "The GPU 0 of build"]
    assert "Its driver cannot reach it any more." in told[0]
    assert await mails(pool, "admin") == []


async def test_a_fault_that_could_not_be_acted_on_is_not_forgotten(pool: Any, monkeypatch: Any) -> None:
    async def away(_change: Any) -> None:
        raise Refusal(503, "store", "The store is full.")

    faults = pool.engine.usage._faults
    with monkeypatch.context() as patch:
        patch.setattr(faults, "_change", away)
        await read(pool, GpuSample("GPU-train-2", Reading(xid=79), new_xids=(79,)))
    assert drained(pool) == {}
    await read(pool, GpuSample("GPU-train-2", Reading(xid=79)))
    assert list(drained(pool)) == ["GPU-train-2"]


async def test_a_fault_of_a_gpu_that_the_pool_does_not_have_changes_nothing(pool: Any) -> None:
    await read(pool, GpuSample("GPU-elsewhere", Reading(lost=True)))
    assert drained(pool) == {}
    assert await mails(pool, "admin") == []


async def test_where_nodes_give_out_their_gpus_the_node_is_drained_and_other_jobs_there_run_on(pool: Any) -> None:
    pool.executor.nodes = tuple(replace(node, resource="nvidia.com/gpu") for node in pool.executor.nodes)
    pool.executor.tell(InventoryChanged())
    await pool.idle()
    first, second = await pool.submit(gpus=2), await pool.submit(gpus=2)
    bad = (await pool.state(first.id, "running")).held[0]
    await pool.state(second.id, "running")
    await read(pool, GpuSample(bad.uuid, Reading(ecc_uncorrected=0)))
    await read(pool, GpuSample(bad.uuid, Reading(ecc_uncorrected=2)))
    await pool.state(first.id, "paused")
    assert (await pool.job(second.id)).state == "running"
    [drain] = [node.drain for node in pool.engine.pool().nodes if node.name == bad.node]
    fault = "It reported 2 uncorrected ECC errors."
    why = f"Its GPU {bad.index}, {bad.uuid}, has a fault. {fault}"
    assert (drain.by, drain.finish, drain.why) == ("springtide", True, why)
    assert drained(pool) == {}
    [told] = await mails(pool, "admin")
    begin = f"The node train was drained. {why} Nothing new starts on it;"
    assert told.startswith(begin)
    await read(pool, GpuSample(bad.uuid, Reading(ecc_uncorrected=3)))
    assert len(await mails(pool, "admin")) == 1
