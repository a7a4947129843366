"""Pods that others delete while the service watches or is away, on fake nodes: ends are known by the volume."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster
from clusters.drains import drain
from jobs.supervisor_records import leave_exit, leave_start
from patience import PATIENCE_S

from springtide.scheduler import model, wire
from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, ExitKind
from springtide.scheduler.executors.kubernetes import monitor
from springtide.scheduler.executors.kubernetes.objects.manifests import KILL_MARGIN
from springtide.scheduler.store import Store

KEY = AttemptKey("job", 1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(monitor, "VANISHED_PATIENCE", -KILL_MARGIN)  # the grace period alone


async def deleted_while_away(bench: KubeBench, *ranks: int) -> None:
    """Stop the executor, delete the pods of these workers, and start another one."""
    await bench.executor.stop()
    for rank in ranks:
        bench.cluster.request("DELETE", bench.path(f"st-job-1-{rank}"))
    left = {pod["metadata"]["name"] for pod in bench.pods()} - {f"st-job-1-{rank}" for rank in ranks}
    await eventually(lambda: {pod["metadata"]["name"] for pod in bench.pods()} == left, "the pods are gone")
    bench.executor = bench.make()
    await bench.open()


async def recalled(bench: KubeBench) -> AttemptStatus:
    """Return the status of the attempt, of which no pod is there any more."""
    assert await bench.executor.attempts() == ()
    status = await bench.executor.recall(KEY)
    assert status is not None
    return status


async def test_a_job_that_paused_while_the_service_was_away_is_known_to_have_paused(bench: KubeBench) -> None:
    spec = bench.job()
    await bench.up(spec)
    leave_exit(bench, KEY, code=75, paused=True)
    await deleted_while_away(bench, 0)
    status = await recalled(bench)
    assert (status.phase, status.started, status.placement) == (AttemptPhase.GONE, 1.0, spec.placement)
    assert status.exit is not None
    assert (status.exit.kind, status.exit.code, status.exit.at) == (ExitKind.EVICTED, 75, 2.0)
    assert status.exit.detail == "Its pod was deleted from outside the pool."
    await bench.executor.discard(KEY)
    assert await bench.executor.attempts() == ()
    again = await bench.executor.recall(KEY)
    assert again == status


@pytest.mark.parametrize("code", [0, 3])
async def test_an_end_before_the_deletion_is_the_end_of_the_job(bench: KubeBench, code: int) -> None:
    await bench.up(bench.job())
    leave_exit(bench, KEY, code=code)
    await deleted_while_away(bench, 0)
    ended = (await recalled(bench)).exit
    assert ended is not None
    assert (ended.kind, ended.code, ended.paused) == (ExitKind.EXITED, code, False)


async def test_a_pause_that_the_pool_asked_for_is_one_though_the_pod_is_gone(bench: KubeBench) -> None:
    await bench.up(bench.job())
    await bench.executor.pause(KEY)
    leave_exit(bench, KEY, code=75, paused=True)
    await eventually(lambda: not bench.pods(), "the pod is gone")
    await bench.restart()
    ended = (await recalled(bench)).exit
    assert ended is not None
    assert (ended.kind, ended.code, ended.paused) == (ExitKind.EXITED, 75, True)


async def test_a_worker_without_pod_and_end_keeps_its_gpus_until_its_node_must_have_ended_it(
    bench: KubeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "VANISHED_PATIENCE", 600.0)
    await bench.up(bench.job(grace=1.0))
    leave_start(bench, KEY)
    await deleted_while_away(bench, 0)
    assert (await recalled(bench)).phase is AttemptPhase.RUNNING
    leave_exit(bench, KEY, code=75, paused=True)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EVICTED, 75)


async def test_a_worker_whose_node_is_removed_with_its_pod_is_lost(bench: KubeBench) -> None:
    await bench.up(bench.job())
    leave_start(bench, KEY)
    await bench.executor.stop()
    bench.cluster.remove_nodes([bench.train_node])
    pod = bench.path("st-job-1-0")
    bench.cluster.request("DELETE", pod, gracePeriodSeconds="0")  # as the cluster does, but not after a minute
    await eventually(lambda: not bench.pods(), "the cluster has deleted the pod")
    bench.executor = bench.make()
    await bench.open()
    await recalled(bench)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.LOST


async def test_the_rest_of_a_gang_pauses_when_a_worker_was_evicted_meanwhile(bench: KubeBench) -> None:
    """No pod is made again for a worker that has run."""
    await bench.up(bench.job(size=2))
    leave_exit(bench, KEY, 1, code=75, paused=True)
    await deleted_while_away(bench, 1)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.EVICTED
    assert (bench.state / "jobs/job/attempts/1/pause").exists()
    await eventually(lambda: not bench.pods(), "both pods are gone")


async def test_an_attempt_that_never_began_is_not_recalled(bench: KubeBench) -> None:
    await bench.up(bench.job())
    await deleted_while_away(bench, 0)
    assert await bench.executor.recall(KEY) is None


@pytest.mark.parametrize("what", ["nonsense", "link", "pipe", "directory", "too late", "another kind"])
async def test_what_a_job_writes_in_place_of_its_end_is_not_believed(bench: KubeBench, what: str) -> None:
    await bench.up(bench.job(grace=1.0))
    leave_exit(bench, KEY, code=0, kind="evicted" if what == "another kind" else "exited", at=4e9)
    record = bench.state / "jobs/job/attempts/1/exit.0.json"
    if what not in ("too late", "another kind"):
        record.unlink()
    if what == "nonsense":
        record.write_bytes(b"{" * 100_000)
    elif what == "link":
        record.symlink_to(Path("/etc/passwd"))
    elif what == "pipe":
        os.mkfifo(record)
    elif what == "directory":
        record.mkdir()
    await deleted_while_away(bench, 0)
    await recalled(bench)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.at < 4e9
    expected = ExitKind.EXITED if what == "too late" else ExitKind.EVICTED
    assert ended.kind is expected


async def test_a_job_that_was_drained_while_the_service_was_away_goes_on_on_another_node(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    bench = KubeBench(cluster, namespace, tmp_path / "state")
    bench.add_nodes(2)
    state = tmp_path / "store"
    state.mkdir()
    settings = EngineSettings(policy=model.Settings(grace=2.0))

    async def opened() -> tuple[Store, Engine]:
        store = Store.open(f"sqlite:///{state}/springtide.sqlite", state)
        return store, await open_engine(store, bench.make(), settings, projects={"vision": {"quota": 8}})

    async def until_running(attempt: int) -> wire.Job:
        async with asyncio.timeout(PATIENCE_S):
            while (view := await engine.job(job)).state != "running" or view.attempt != attempt:
                await asyncio.sleep(0.1)
        return view

    store, engine = await opened()
    try:
        job = (await engine.submit(wire.Submission(argv=["train"]), "susan", "vision")).id
        first = (await until_running(1)).held[0].node
        await engine.stop()
        store.close()
        leave_exit(bench, AttemptKey(job, 1), code=75, paused=True)
        await asyncio.to_thread(drain, cluster, first, emptied=True)
        store, engine = await opened()
        view = await until_running(2)
        assert view.held[0].node not in ("", first)
        ended = view.attempts[0]
        assert (ended.state, ended.exit_code) == ("paused", 75)
        assert ended.ended_why is not None
        assert "Its pod was deleted from outside the pool." in ended.ended_why.text
    finally:
        await engine.stop()
        store.close()
        await bench.api.close()
