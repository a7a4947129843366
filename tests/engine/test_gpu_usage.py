"""Measured use of GPUs: its owner, its views, and the hint on a job that uses nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from springtide.scheduler import sentences
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.usage import LONGEST_GAP, UNUSED_AFTER, Stretch, extended, stretch_of
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.telemetry import GpuSample
from springtide.scheduler.telemetry.faults import FaultRules

GIB = 1 << 30


def measured(pool: Any, *samples: GpuSample) -> None:
    """Have the executor report these samples."""

    async def gpu_samples(_):
        return samples

    pool.executor.measures_gpus = True
    pool.executor.gpu_samples = gpu_samples


async def sampled(pool: Any, seconds: float = 10.0) -> None:
    """Let time pass and sample."""
    pool.clock.now += seconds
    await pool.engine.usage.sample(int(pool.clock.now) - 10)


def uuids(job: Any) -> list[str]:
    return [gpu.uuid for gpu in job.held]


async def test_a_gpu_that_is_among_the_samples_twice_costs_no_other_gpu_its_record(pool: Any) -> None:
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    first, second = uuids(await pool.job(job.id))
    measured(
        pool,
        GpuSample(first, Reading(utilization=0.5)),
        GpuSample(second, Reading(utilization=1.0)),
        GpuSample(first, Reading(utilization=0)),
    )
    await sampled(pool)
    now = pool.clock.now
    used = {each.gpu: each.utilization for each in (await pool.engine.usage.report("gpu", now - 60, now)).items}
    assert used == {first: 0.5, second: 1.0}


async def test_what_gpus_report_is_attributed_to_job_workspace_person_and_project(pool: Any) -> None:
    first = await pool.submit(gpus=2, name="digits")
    await pool.state(first.id, "running")
    await pool.engine.reserve_workspace("joe", "lab", 1, ["joe"])
    [workspace] = pool.engine.workspaces()
    held = uuids(await pool.job(first.id))
    idle = "GPU-train-7"
    samples = [
        GpuSample(held[0], Reading(utilization=0.9)),
        GpuSample(held[1], Reading(utilization=0.5)),
        GpuSample("GPU-elsewhere", Reading()),
    ]
    measured(
        pool,
        *samples,
        GpuSample(workspace.uuids[0], Reading(utilization=0.2)),
        GpuSample(idle, Reading(utilization=0.0)),
    )
    await sampled(pool)
    now = pool.clock.now
    by = {
        name: [
            (each.job or each.server, each.user, each.project, each.gpu, each.held, round(each.utilization, 2))
            for each in (await pool.engine.usage.report(name, now - 60, now)).items
        ]
        for name in ("job", "workspace", "person", "project", "gpu")
    }
    assert by["job"] == [(first.id, "susan", "susan", "", 20, 0.7)]
    assert by["workspace"] == [("lab", "joe", "", "", 10, 0.2)]
    assert by["person"] == [("", "susan", "susan", "", 20, 0.7), ("", "joe", "", "", 10, 0.2)]
    assert by["project"] == [("", "", "susan", "", 20, 0.7)]
    assert {gpu for *_, gpu, _, _ in by["gpu"]} == {*held, workspace.uuids[0], idle}


async def test_a_running_job_shows_its_use_and_a_paused_one_none(pool: Any) -> None:
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    first, second = uuids(await pool.job(job.id))
    reading = Reading(utilization=0.9, memory_used=3 * GIB, memory_total=80 * GIB)
    measured(pool, GpuSample(first, reading), GpuSample(second, replace(reading, utilization=0.5)))
    assert (await pool.job(job.id)).usage is None
    await sampled(pool)
    usage = (await pool.job(job.id)).usage
    assert (usage.gpus, usage.utilization, usage.memory_used, usage.memory_total) == (2, 0.7, 6 * GIB, 160 * GIB)
    assert (usage.simulated, usage.unused_for, usage.at) == (False, None, pool.clock.now)
    series = await pool.engine.usage.of_job(job.id, pool.clock.now - 60, pool.clock.now)
    assert [(point.gpus, point.utilization, point.memory_used) for point in series.points] == [(2, 0.7, 6 * GIB)]
    await pool.engine.pause(job.id, "susan")
    await pool.state(job.id, "paused")
    assert (await pool.job(job.id)).usage is None


async def test_what_is_not_reported_is_absent_and_a_lost_gpu_counts_for_nobody(make_pool: Any) -> None:
    pool = await make_pool(settings=EngineSettings(faults=FaultRules(drain_faulty_gpus=False)))
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    first, second = uuids(await pool.job(job.id))
    measured(pool, GpuSample(first, Reading(memory_used=GIB)), GpuSample(second, Reading(lost=True)))
    await sampled(pool)
    usage = (await pool.job(job.id)).usage
    assert (usage.gpus, usage.utilization, usage.memory_used, usage.memory_total) == (1, None, GIB, None)
    readings = {gpu.uuid: gpu for gpu in pool.engine.usage.pool().gpus}
    assert (readings[second].lost, readings[second].user, readings[second].utilization) == (True, "susan", None)
    [only] = (await pool.engine.usage.report("job", pool.clock.now - 60, pool.clock.now)).items
    assert (only.held, only.used, only.utilization) == (10, 0, None)


async def test_a_job_that_holds_gpus_and_does_not_use_them_says_so_until_it_does(pool: Any) -> None:
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    held = uuids(await pool.job(job.id))
    measured(pool, *(GpuSample(uuid, Reading(utilization=0.03)) for uuid in held))
    for _ in range(int(UNUSED_AFTER // 10) - 1):
        await sampled(pool)
    assert "used" not in (await pool.job(job.id)).reason.text
    await sampled(pool)
    assert "Its 2 GPUs have been 3 % used for 10 min." in (await pool.job(job.id)).reason.text
    measured(pool, *(GpuSample(uuid, Reading(utilization=0.8)) for uuid in held))
    await sampled(pool)
    assert "used" not in (await pool.job(job.id)).reason.text


async def test_how_long_gpus_were_not_used_outlives_a_restart(pool: Any) -> None:
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    [held] = uuids(await pool.job(job.id))
    measured(pool, GpuSample(held, Reading(utilization=0.0)))
    for _ in range(60):
        await sampled(pool)
    await pool.restart()
    await pool.engine.usage.recall()
    await sampled(pool)
    assert "Its 1 GPU has been 0 % used for 10 min." in (await pool.job(job.id)).reason.text


async def test_subscribers_hear_of_use_and_of_sentences_that_change(pool: Any) -> None:
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    [held] = uuids(await pool.job(job.id))
    measured(pool, GpuSample(held, Reading(utilization=0.0), simulated=True))
    stream = pool.engine.subscribe()
    await anext(stream)
    await sampled(pool)
    told = {event.kind: event.data for event in await anext(stream)}
    assert told["gpus"]["gpus"][0]["simulated"]
    assert (told["usage"]["job"], told["usage"]["usage"]["utilization"]) == (job.id, 0.0)
    for _ in range(59):
        await sampled(pool)
    told = {event.kind: event.data for event in await anext(stream)}
    assert "0 % used for 10 min" in told["job"]["reason"]["text"]
    await stream.aclose()


async def test_history_tells_what_was_held_and_what_of_that_was_used(pool: Any) -> None:
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    start = pool.clock.now
    assert (await pool.engine.history(start - 60, start)).share_used is None
    measured(pool, *(GpuSample(uuid, Reading(utilization=0.25)) for uuid in uuids(await pool.job(job.id))))
    await sampled(pool)
    history = await pool.engine.history(start, start + 10)
    assert (history.share_held, history.share_used) == (0.25, 0.25)


async def test_an_executor_that_measures_nothing_writes_nothing(pool: Any) -> None:
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    await sampled(pool)
    usage = pool.engine.usage.pool()
    assert (usage.measured, usage.gpus) == (False, [])
    assert (await pool.engine.usage.report("gpu", 0, pool.clock.now)).items == []


def test_a_stretch_ends_when_gpus_are_used_unknown_or_not_measured_for_long() -> None:
    quiet = stretch_of((at, 10, 0.05) for at in range(0, 100, 10))
    assert quiet is not None
    assert (quiet.since, quiet.length, quiet.measured) == (0, 100, 100)
    assert quiet.share == pytest.approx(0.05)
    assert extended(quiet, 100, 10, 0.1) is None
    assert extended(quiet, 100, 10, None) is None
    for start, since in ((90, 0), (100 + LONGEST_GAP, 0), (101 + LONGEST_GAP, 101 + LONGEST_GAP), (-900, -900)):
        longer = extended(quiet, start, 10, 0.0)
        assert longer is not None
        assert longer.since == since
    assert stretch_of([(0, 10, 0.0), (10, 10, 0.9), (20, 10, 0.0)]) == Stretch(20, 30, 10, 0)


def test_the_sentence_names_gpus_use_and_time() -> None:
    reason = messages.running(4, 0, 1, 1, unused=(1200.0, 0.031))
    assert "Its 4 GPUs have been 3 % used for 20 min." in sentences.text(reason)
