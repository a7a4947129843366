"""What runs keeps its GPUs, whatever these are numbered after a restart: by the environments of real processes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from machines.numbered_machine import NumberedMachine, given_twice
from pools.restarted_pool import UUIDS, RestartedPool

from springtide.scheduler import wire
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.refusal import Refusal


@pytest.fixture
async def pool(tmp_path):
    one = RestartedPool(tmp_path)
    yield one
    await one.close()


def cells(pool: RestartedPool) -> dict[str, tuple[str, str]]:
    """Return the node and the job on each GPU, by UUID, as the page of the pool has them."""
    return {
        cell.uuid: (node.name, "" if cell.holder is None else cell.holder.job)
        for node in pool.engine.pool().nodes
        for cell in node.gpus
    }


@pytest.mark.parametrize(
    "after",
    [
        NumberedMachine(reversed(UUIDS), 4),
        NumberedMachine([*UUIDS[4:], *UUIDS[:4]], 4),
        NumberedMachine(UUIDS, 2),
        NumberedMachine(UUIDS, 6),
        NumberedMachine(UUIDS[1:], 4),
        NumberedMachine(UUIDS[:5] + UUIDS[6:], 3),
        NumberedMachine(["GPU-new00000", *UUIDS], 4),
        NumberedMachine(UUIDS, {"V100": 2}, models=dict.fromkeys(UUIDS[2:6], "V100")),
        NumberedMachine(UUIDS, 4, types=DeclaredTypes.of_setting({"cheap": ["NVIDIA A100"]})),
    ],
    ids=[
        "reversed",
        "swapped",
        "fewer-build",
        "more-build",
        "first-lost",
        "one-lost",
        "one-more",
        "other",
        "declared",
    ],
)
async def test_no_gpu_is_given_twice_after_a_restart_that_numbers_gpus_otherwise(pool, after):
    await pool.start(NumberedMachine(UUIDS, 4))
    jobs = [await pool.submit() for _ in range(4)]
    before = await pool.running(*jobs)
    assert sorted(gpu for gpus in before.values() for gpu in gpus) == UUIDS[4:]
    await pool.restart(after)
    more = [await pool.submit() for _ in range(4)]
    held = await pool.settled()
    assert {job: held[job] for job in before} == before
    assert given_twice(held.values()) == set()
    train = {gpu.uuid for node in after.nodes if node.environment == "train" for gpu in node.devices}
    started = {job: gpus for job, gpus in held.items() if job not in before}
    assert {gpu for gpus in started.values() for gpu in gpus} == train - set(UUIDS[4:])
    shown = cells(pool)
    assert {gpu: shown[gpu][1] for job in before for gpu in before[job] if gpu in shown} == {
        gpu: job.partition(".")[0] for job in before for gpu in before[job] if gpu in shown
    }
    assert len(more) == 4


async def test_a_notebook_never_gets_the_gpu_of_a_job_that_is_a_build_gpu_now(pool):
    await pool.start(NumberedMachine(UUIDS[:4], 1))
    jobs = [await pool.submit() for _ in range(3)]
    held = await pool.running(*jobs)
    await pool.restart(NumberedMachine(UUIDS[:4], 3))
    workspace = await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert workspace.uuids == UUIDS[:1]
    with pytest.raises(Refusal, match="0 build GPUs are free"):
        await pool.engine.reserve_workspace("susan", "second", 1, ["susan"])
    first = next(job for job in jobs if held[f"{job}.1"] == [UUIDS[1]])
    await pool.engine.cancel(first, "susan")
    await pool.until(first, "cancelled")
    second = await pool.engine.reserve_workspace("susan", "second", 1, ["susan"])
    assert second.uuids == [UUIDS[1]]


async def test_a_job_never_gets_the_gpu_of_a_notebook_that_is_a_train_gpu_now(pool):
    await pool.start(NumberedMachine(UUIDS[:4], 3))
    kept = await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    moved = await pool.engine.reserve_workspace("susan", "other", 1, ["susan"])
    assert (kept.uuids, moved.uuids) == (UUIDS[:1], [UUIDS[1]])
    await pool.restart(NumberedMachine(UUIDS[:4], 1))
    jobs = [await pool.submit() for _ in range(3)]
    held = await pool.settled()
    assert sorted(held.values()) == [[UUIDS[2]], [UUIDS[3]]]
    assert [each.uuids for each in pool.engine.workspaces()] == [kept.uuids, moved.uuids]
    await pool.engine.release_workspace("susan", "other")
    await pool.running(*jobs)
    assert sorted((await pool.settled()).values()) == [[UUIDS[1]], [UUIDS[2]], [UUIDS[3]]]


async def test_the_spawner_says_on_which_gpus_a_notebook_runs(pool):
    await pool.start(NumberedMachine(UUIDS[:4], 2))
    found = await pool.engine.reserve_workspace("susan", "", 1, ["susan"], runs_on=[UUIDS[1]])
    assert (found.uuids, found.labels) == ([UUIDS[1]], ["build 1"])
    other = await pool.engine.reserve_workspace("susan", "other", 1, ["susan"])
    assert other.uuids == UUIDS[:1]
    runs = await pool.engine.reserve_workspace("susan", "third", 1, ["susan"], runs_on=[UUIDS[3]])
    assert (runs.uuids, runs.labels) == ([UUIDS[3]], ["train 1"])
    jobs = [await pool.submit() for _ in range(2)]
    await pool.until(jobs[0], "running")
    assert sorted((await pool.settled()).values()) == [[UUIDS[2]]]


async def test_a_paused_job_of_gpus_without_a_place_starts_again_on_train_gpus(pool):
    await pool.start(NumberedMachine(UUIDS[:4], 1))
    job = await pool.submit(gpus=2)
    held = await pool.running(job)
    assert held[f"{job}.1"] == UUIDS[1:3]
    await pool.restart(NumberedMachine(UUIDS[:4], 2))
    await pool.engine.pause(job, "admin")
    await pool.until(job, "paused")
    await pool.engine.resume(job, "admin")
    held = await pool.running(job, attempt=2)
    assert held[f"{job}.2"] == UUIDS[2:4]


async def test_a_gang_that_spans_gpus_of_two_types_now_keeps_both(pool):
    await pool.start(NumberedMachine(UUIDS[:4], 0))
    job = await pool.submit(gpus=1, workers=2)
    held = await pool.running(job)
    assert len(held[f"{job}.1"]) == 1
    models = {UUIDS[0]: "V100", UUIDS[2]: "V100"}
    await pool.restart(NumberedMachine(UUIDS[:4], 0, models=models))
    waiting = [await pool.submit() for _ in range(2)]
    await pool.until(waiting[0], "running")
    held = await pool.settled()
    others = {gpu for attempt, gpus in held.items() if not attempt.startswith(job) for gpu in gpus}
    assert others <= set(UUIDS[2:4])
    shown = cells(pool)
    assert [shown[gpu][1] for gpu in UUIDS[:2]] == [job, job]


async def test_a_drained_gpu_stays_drained_whatever_its_number_is(pool):
    await pool.start(NumberedMachine(UUIDS[:3], 0))
    await pool.engine.drain_node(wire.DrainRequest(node="train", gpu=0), "admin")
    await pool.restart(NumberedMachine(reversed(UUIDS[:3]), 0))
    jobs = [await pool.submit() for _ in range(3)]
    await pool.until(jobs[0], "running")
    assert sorted((await pool.settled()).values()) == [[UUIDS[1]], [UUIDS[2]]]


async def test_attempts_of_an_earlier_version_are_matched_by_what_their_supervisors_know(pool):
    """Earlier versions stored places alone: what runs says which GPUs these were."""
    await pool.start(NumberedMachine(UUIDS[:4], 0))
    jobs = [await pool.submit() for _ in range(2)]
    before = await pool.running(*jobs)
    await pool.engine.stop()
    pool.store.close()
    forget_uuids(pool.path)
    await pool.start(NumberedMachine(reversed(UUIDS[:4]), 0))
    await pool.submit()
    await pool.submit()
    held = await pool.settled()
    assert {job: held[job] for job in before} == before
    assert given_twice(held.values()) == set()
    assert len(held) == 4


def forget_uuids(path: Path) -> None:
    """Make the store and the supervisors' specs what earlier versions wrote."""
    with sqlite3.connect(path / "springtide.sqlite") as connection:
        rows = connection.execute("SELECT job, number, body FROM attempts").fetchall()
        for job, number, body in rows:
            record = json.loads(body)
            for worker in record["placement"]:
                del worker["uuids"]
            written = json.dumps(record), job, number
            connection.execute("UPDATE attempts SET body = ? WHERE job = ? AND number = ?", written)
    for spec in path.glob("jobs/*/attempts/*/spec.json"):
        record = json.loads(spec.read_text())
        for worker in record["workers"]:
            del worker["uuids"]
        spec.write_text(json.dumps(record))
