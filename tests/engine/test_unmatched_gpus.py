"""What runs on GPUs without a place keeps them out of the pool, is shown, and is settled by an admin's word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from machines.numbered_machine import NumberedMachine, given_twice, gpus_by_process
from pools.restarted_pool import UUIDS, RestartedPool

from springtide.scheduler import wire
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.notebooks import VARIABLE
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[RestartedPool]:
    one = RestartedPool(tmp_path)
    yield one
    await one.close()


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that bears the mark of Susan's notebook on the first GPU."""
    mark = {"pool": str(tmp_path), "user": "susan", "server": "lab", "start": "1", "gpus": UUIDS[:1]}
    env = {**os.environ, VARIABLE: json.dumps(mark)}
    with subprocess.Popen(["sleep", "600"], env=env) as process:
        yield process
        process.kill()


def shown(pool: RestartedPool) -> list[wire.UnmatchedView]:
    found: list[wire.UnmatchedView] = pool.engine.pool().unmatched
    return found


async def free(pool: Any, holder: str, *, end: bool = False) -> None:
    await pool.engine.free_gpus(wire.FreeRequest(holder=holder, end=end), "admin")


async def audit(pool: Any) -> list[tuple[str, str, str]]:
    return [(each.who, each.what, each.subject) for each in (await pool.engine.audit(None, 10)).items]


async def test_nothing_is_shown_while_everything_has_its_place(pool: RestartedPool) -> None:
    await pool.start(NumberedMachine(UUIDS[:4], 1))
    await pool.running(await pool.submit())
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    await pool.restart(NumberedMachine(reversed(UUIDS[:4]), {"NVIDIA A100": 1}))
    jobs = [each for each in shown(pool) if each.kind == "job"]
    assert jobs == []
    with pytest.raises(Refusal, match="Nothing called") as refused:
        await free(pool, "none.1")
    assert refused.value.status == 404


async def test_a_job_of_which_a_gpu_fell_off_the_bus_is_shown_and_leaves_when_an_admin_says_so(
    pool: RestartedPool,
) -> None:
    await pool.start(NumberedMachine(UUIDS[:4], 0))
    job = await pool.submit(gpus=2, name="train")
    held = (await pool.running(job))[f"{job}.1"]
    await pool.restart(NumberedMachine(UUIDS[1:4], 0))
    other = await pool.submit(gpus=2)
    await pool.running(other)
    [one] = shown(pool)
    assert (one.kind, one.holder, one.gpus, one.missing) == ("job", f"{job}.1", held, UUIDS[:1])
    assert one.why == (
        "The job “train” of “susan” runs on GPU-aaaaaaaa and GPU-bbbbbbbb, of which GPU-aaaaaaaa is not among the "
        "GPUs of the pool any more."
    )
    with pytest.raises(Refusal, match=r"has not ended.*process.*of this machine") as refused:
        await free(pool, one.holder)
    assert refused.value.status == 409
    assert given_twice(gpus_by_process(pool.path).values()) == set()
    await free(pool, one.holder, end=True)
    await pool.until(job, "paused")
    assert shown(pool) == []
    paused = await pool.until(job, "paused")
    assert "Moved by “admin” off GPUs that no longer belong to the pool." in paused.reason.text
    assert (await audit(pool))[0] == ("admin", "gpu.end_holder", f"{job}.1")
    await pool.engine.cancel(other, "susan")
    again = await pool.running(job, attempt=2)
    assert set(again[f"{job}.2"]) <= set(UUIDS[1:4])


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (NumberedMachine(UUIDS[:4], 1), "of which GPU-aaaaaaaa is a build GPU now."),
        (NumberedMachine(UUIDS[:4], 4), "which are build GPUs now."),
        (NumberedMachine(UUIDS[:4], 0, models={UUIDS[0]: "V100"}), "which are of 2 types now."),
        (
            NumberedMachine(
                UUIDS[:4],
                0,
                models={UUIDS[1]: "NVIDIA V100"},
                types=DeclaredTypes.of_setting({"old": ["NVIDIA V100"]}),
            ),
            "which are of 2 types now.",
        ),
    ],
    ids=["one-build", "all-build", "other-model", "declared"],
)
async def test_a_job_on_gpus_that_are_divided_otherwise_is_shown_until_it_ends(
    pool: RestartedPool, after: NumberedMachine, words: str
) -> None:
    await pool.start(NumberedMachine(UUIDS[:4], 0))
    job = await pool.submit(gpus=2)
    await pool.running(job)
    await pool.restart(after)
    [one] = shown(pool)
    assert one.why.endswith(words)
    assert one.missing == []
    await pool.engine.cancel(job, "susan")
    await pool.until(job, "cancelled")
    assert shown(pool) == []


async def test_a_notebook_on_what_is_a_train_gpu_now_keeps_it_until_its_process_has_ended(
    pool: RestartedPool, notebook: subprocess.Popen[bytes]
) -> None:
    await pool.start(NumberedMachine(UUIDS[:2], 1))
    assert (await pool.engine.reserve_workspace("susan", "lab", 1, ["susan"])).uuids == UUIDS[:1]
    await pool.restart(NumberedMachine(UUIDS[:2], 0))
    jobs = [await pool.submit() for _ in range(2)]
    await pool.running(jobs[0])
    [one] = shown(pool)
    assert (one.kind, one.holder, one.gpus) == ("notebook", "susan/lab", UUIDS[:1])
    assert one.why == "The notebook “lab” of “susan” runs on GPU-aaaaaaaa, which is a train GPU now."
    with pytest.raises(Refusal, match=f"has not ended.*process {notebook.pid}"):
        await free(pool, "susan/lab")
    assert sorted((await pool.settled()).values()) == [[UUIDS[1]]]
    notebook.send_signal(signal.SIGKILL)
    notebook.wait()
    await free(pool, "susan/lab")
    assert shown(pool) == []
    assert (await audit(pool))[0] == ("admin", "gpu.free", "susan/lab")
    await pool.running(*jobs)


async def test_attempts_that_no_record_knows_are_shown_and_ended_by_an_admin(pool: RestartedPool) -> None:
    await pool.start(NumberedMachine(UUIDS[:4], 0))
    job = await pool.submit(gpus=2)
    held = (await pool.running(job))[f"{job}.1"]
    await pool.engine.stop()
    pool.store.close()
    for file in (*pool.path.glob("springtide.sqlite*"), pool.path / "jobs" / ".epoch"):
        file.unlink()
    await pool.start(NumberedMachine(reversed(UUIDS[:4]), 0))
    others = [await pool.submit(gpus=2) for _ in range(2)]
    await pool.running(others[0])
    assert given_twice((await pool.settled()).values()) == set()
    [one] = shown(pool)
    assert (one.kind, one.holder, one.gpus) == ("attempt", f"{job}.1", held)
    assert one.why.endswith("but no record knows it.")
    with pytest.raises(Refusal, match="has not ended"):
        await free(pool, one.holder)
    await free(pool, one.holder, end=True)
    await pool.running(*others)
    assert shown(pool) == []
    assert f"{job}.1" not in gpus_by_process(pool.path)
    assert ("admin", "gpu.end_holder", f"{job}.1") in await audit(pool)


async def test_a_notebook_that_the_store_has_lost_keeps_a_gpu_that_is_for_jobs_now(
    pool: RestartedPool, notebook: subprocess.Popen[bytes]
) -> None:
    await pool.start(NumberedMachine(UUIDS[:2], 0))
    [found] = await pool.engine.adopt_workspaces()
    assert (found.user, found.server) == ("susan", "lab")
    jobs = [await pool.submit() for _ in range(2)]
    await pool.running(jobs[0])
    assert sorted((await pool.settled()).values()) == [[UUIDS[1]]]
    assert [each.holder for each in shown(pool)] == ["susan/lab"]
    notebook.kill()


async def test_a_notebook_keeps_what_it_runs_on_if_a_restored_store_says_otherwise(
    pool: RestartedPool, notebook: subprocess.Popen[bytes]
) -> None:
    await pool.start(NumberedMachine([UUIDS[1], UUIDS[0]], 2))
    assert (await pool.engine.reserve_workspace("susan", "lab", 1, ["susan"])).uuids == [UUIDS[1]]
    assert await pool.engine.adopt_workspaces() == []
    assert [each.uuids for each in pool.engine.workspaces()] == [UUIDS[:1]]
    assert shown(pool) == []
    notebook.kill()


async def test_a_place_that_a_node_of_a_cluster_has_no_more_is_shown_and_left(
    tmp_path: Path, make_pool: Callable[..., Any]
) -> None:
    """There a node itself chooses the GPUs of a pod, and the pool counts places."""
    pool = await make_pool(path=tmp_path / "cluster")
    pool.executor.change_nodes(Node("one", 4, resource="nvidia.com/gpu"))
    await pool.until(lambda: len(pool.engine.pool().nodes[0].gpus) == 4)
    job = await pool.submit(gpus=4)
    await pool.state(job.id, "running")
    pool.executor.change_nodes(Node("one", 3, resource="nvidia.com/gpu"))
    await pool.until(lambda: pool.engine.pool().unmatched)
    [one] = pool.engine.pool().unmatched
    assert (one.holder, one.missing) == (f"{job.id}.1", ["one/3"])
    assert one.gpus == ["one/0", "one/1", "one/2", "one/3"]
    with pytest.raises(Refusal, match="has not ended"):
        await free(pool, one.holder)
    await free(pool, one.holder, end=True)
    await pool.state(job.id, "paused")
    assert pool.engine.pool().unmatched == []


async def test_what_the_executor_has_lost_sight_of_gives_its_gpus_back_by_an_admins_word(
    tmp_path: Path, make_pool: Callable[..., Any]
) -> None:
    pool = await make_pool(path=tmp_path / "cluster")
    pool.executor.change_nodes(Node("one", 4, resource="nvidia.com/gpu"))
    await pool.until(lambda: len(pool.engine.pool().nodes[0].gpus) == 4)
    jobs = [await pool.submit(gpus=2) for _ in range(2)]
    for job in jobs:
        await pool.state(job.id, "running")
    pool.executor.change_nodes(Node("one", 3, resource="nvidia.com/gpu"))
    await pool.until(lambda: pool.engine.pool().unmatched)
    [one] = pool.engine.pool().unmatched
    key = AttemptKey(one.job, 1)
    del pool.executor.world[key]
    await free(pool, one.holder)
    await pool.until(lambda: pool.engine.pool().unmatched == [])
    lost = (await pool.job(one.job)).reason.text
    assert "Nothing of it was left, and “admin” said that its GPUs are free." in lost
    assert ("admin", "gpu.free", one.holder) in await audit(pool)
    await pool.engine.cancel(next(job.id for job in jobs if job.id != one.job), "susan")
    assert (await pool.state(one.job, "running")).attempt == 2
