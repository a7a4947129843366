"""Drains of real nodes by the rules of kubectl: jobs save, pods go, and the jobs go on elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from benches.executor_bench import LOCKSTEP, RESUMES
from benches.kube_bench import ContainerBench, KubeBench
from clusters.cluster import Cluster
from clusters.drains import DrainRefusedError, drain
from clusters.real_node import RealNode

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptSpec, ExitKind, Reported
from springtide.scheduler.model import Worker

KEY = AttemptKey("job", 1)
GRACE_S = 60.0


@pytest.fixture(autouse=True)
def _uncordoned(cluster: Cluster, real_node: RealNode) -> Iterator[None]:
    yield
    cluster.request("PATCH", f"/api/v1/nodes/{real_node.name}", {"spec": {"unschedulable": False}})


@pytest.fixture
async def bench(
    cluster: Cluster, namespace: str, real_node: RealNode, real_build_node: RealNode, tmp_path: Path
) -> AsyncIterator[KubeBench]:
    nodes = (real_node, real_build_node)
    bench = ContainerBench(
        cluster, namespace, tmp_path / "state", *nodes, bind_directly=True, shared_memory="runtime"
    )
    await bench.open()
    yield bench
    await bench.shut()


def resuming(bench: KubeBench, node: RealNode, attempt: int = 1) -> AttemptSpec:
    """Return an attempt on one GPU of a node that saves when it is to pause, and ends a little after a resume."""
    placement = (Worker(0, node.name, (0,)),)
    return bench.spec(("python3", "-c", RESUMES), attempt=attempt, placement=placement, grace=GRACE_S)


async def goes_on(bench: KubeBench, node: RealNode) -> None:
    """Start the next attempt on another node: it begins where the first one paused."""
    paused = (await bench.executor.read_reports("job", 0, 100_000))[-1].step
    ended = (await bench.run(resuming(bench, node, attempt=2))).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EXITED, 0)
    assert f"from {paused:g}\n" in await bench.log("job")


async def test_a_drain_has_a_job_save_and_go(
    bench: KubeBench, cluster: Cluster, real_node: RealNode, real_build_node: RealNode
) -> None:
    await bench.executor.launch(resuming(bench, real_node))
    await bench.running(KEY, says=b"from 0\n")
    assert await asyncio.to_thread(drain, cluster, real_node.name) == ["st-job-1-0"]
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EVICTED, 75)
    assert "from outside the pool" in ended.detail
    await bench.executor.discard(KEY)
    await goes_on(bench, real_build_node)


async def test_a_drain_ends_while_the_service_is_away_which_then_knows_that_the_job_saved(
    bench: KubeBench, cluster: Cluster, real_node: RealNode, real_build_node: RealNode
) -> None:
    spec = resuming(bench, real_node)
    await bench.executor.launch(spec)
    await bench.running(KEY, says=b"from 0\n")
    await bench.executor.stop()
    assert await asyncio.to_thread(drain, cluster, real_node.name) == ["st-job-1-0"]
    bench.executor = bench.make()
    await bench.open()
    status = await bench.executor.recall(KEY)
    assert status is not None
    assert (status.phase, status.placement) == (AttemptPhase.GONE, spec.placement)
    assert status.started is not None
    assert status.exit is not None
    assert (status.exit.kind, status.exit.code) == (ExitKind.EVICTED, 75)
    await bench.executor.discard(KEY)
    await goes_on(bench, real_build_node)


async def test_a_drain_of_one_node_pauses_a_gang_on_two_at_one_step_while_the_service_is_away(
    bench: KubeBench, cluster: Cluster, real_node: RealNode, real_build_node: RealNode
) -> None:
    placement = (Worker(0, real_node.name, (0,)), Worker(1, real_build_node.name, (0,)))
    spec = bench.spec(("python3", "-c", LOCKSTEP), size=2, placement=placement, grace=GRACE_S)
    await bench.executor.launch(spec)
    await bench.until(lambda: bench.of_kind(Reported), "some steps")
    await bench.executor.stop()
    assert await asyncio.to_thread(drain, cluster, real_node.name) == ["st-job-1-0"]
    bench.executor = bench.make()
    await bench.open()
    ended = (await bench.phase(KEY, AttemptPhase.GONE)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EVICTED, 75)
    first, second = [int((await bench.log("job", rank)).splitlines()[-1]) for rank in (0, 1)]
    assert first == second > 0


async def test_a_pod_deleted_by_force_keeps_its_gpus_until_its_program_has_ended(
    bench: KubeBench, cluster: Cluster, real_node: RealNode
) -> None:
    await bench.executor.launch(resuming(bench, real_node))
    await bench.running(KEY, says=b"from 0\n")
    cluster.request("DELETE", bench.path("st-job-1-0"), gracePeriodSeconds="0")
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.EVICTED
    assert (bench.state / "jobs/job/attempts/1/exit.0.json").exists()
    assert bench.pods() == []


async def test_a_drain_is_refused_where_shared_memory_is_local_storage_of_the_node(
    cluster: Cluster, namespace: str, real_node: RealNode, tmp_path: Path
) -> None:
    bench = ContainerBench(cluster, namespace, tmp_path / "state", real_node)
    await bench.open()
    await bench.executor.launch(resuming(bench, real_node))
    await bench.running(KEY, says=b"from 0\n")
    words = f"Pods with local storage (use --delete-emptydir-data to override): {namespace}/st-job-1-0"
    with pytest.raises(DrainRefusedError) as refused:
        await asyncio.to_thread(drain, cluster, real_node.name)
    assert str(refused.value) == f"cannot delete {words}"
    await bench.shut()
