"""Nodes that the cluster closes: not ready, cordoned, or about to be removed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from benches.kube_bench import KubeBench, eventually
from jobs.supervisor_records import leave_exit
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, ExitKind
from springtide.scheduler.executors.kubernetes import monitor
from springtide.scheduler.executors.kubernetes.inventory import LEAVING, closure_of, pool_nodes
from springtide.scheduler.executors.kubernetes.objects.api_types import (
    ClusterNode,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Taint,
)
from springtide.scheduler.executors.kubernetes.objects.manifests import KILL_MARGIN
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Closure, Node

KEY = AttemptKey("job", 1)
AT = datetime(2026, 11, 26, 12, 3, tzinfo=UTC)


def node(ready: str = "True", *taints: str, unschedulable: bool = False) -> ClusterNode:
    condition = NodeCondition("Ready", ready, AT)
    return ClusterNode(
        ObjectMeta("n", labels={"springtide.io/environment": "train"}),
        NodeSpec(unschedulable, tuple(Taint(key, "PreferNoSchedule") for key in taints)),
        NodeStatus({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, (condition,)),
    )


@pytest.mark.parametrize(
    ("found", "closure"),
    [
        (node(), (None, None)),
        (node("False"), (Closure.NOT_READY, AT.timestamp())),
        (node("Unknown", LEAVING[0], unschedulable=True), (Closure.NOT_READY, AT.timestamp())),
        *((node("True", taint, unschedulable=True), (Closure.LEAVING, None)) for taint in LEAVING),
        (node(unschedulable=True), (Closure.CORDONED, None)),
        (node("True", "example.com/other"), (None, None)),
    ],
)
def test_why_a_node_is_closed(
    tmp_path: Any, found: ClusterNode, closure: tuple[Closure | None, float | None]
) -> None:
    settings = KubernetesSettings("pool", "pool", tmp_path, ())
    (made,) = pool_nodes(found, settings)
    assert (made.closure, made.closed_since) == closure == closure_of(found)
    assert made.available is (closure[0] is None)


async def closed(bench: KubeBench, closure: Closure | None) -> Node:
    """Wait until the inventory says why the node is closed."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := (await bench.executor.inventory())[0]).closure is not closure:
            await asyncio.sleep(0.05)
    return found


async def test_a_node_that_falls_silent_is_not_ready_and_keeps_its_jobs(bench: KubeBench) -> None:
    running = await bench.up(bench.job())
    bench.cluster.lose_node(bench.train_node)
    found = await closed(bench, Closure.NOT_READY)
    assert found.closed_since is not None
    assert await bench.executor.attempts() == (running,)
    bench.cluster.return_node(bench.train_node)
    assert (await closed(bench, None)).available


async def test_a_cordoned_node_keeps_its_jobs(bench: KubeBench) -> None:
    running = await bench.up(bench.job())
    bench.cluster.request("PATCH", f"/api/v1/nodes/{bench.train_node}", {"spec": {"unschedulable": True}})
    assert not (await closed(bench, Closure.CORDONED)).available
    assert await bench.executor.attempts() == (running,)


@pytest.mark.parametrize("away", [False, True])
async def test_jobs_save_when_the_removal_of_their_node_is_announced(bench: KubeBench, away: bool) -> None:
    await bench.up(bench.job(size=2))
    for rank in (0, 1):
        bench.note(rank=rank, stop_code="75")
    if away:
        await bench.executor.stop()
    taint = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
    bench.cluster.request("PATCH", f"/api/v1/nodes/{bench.train_node}", {"spec": {"taints": [taint]}})
    if away:
        bench.executor = bench.make()
        await bench.open()
    ended = (await bench.phase(KEY, AttemptPhase.GONE)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EVICTED, 75)
    assert ended.detail == (
        f"Its node {bench.train_node} is about to be removed (cloud.google.com/impending-node-termination)."
    )
    assert (bench.state / "jobs/job/attempts/1/pause").exists()
    assert not (await closed(bench, Closure.LEAVING)).available


async def test_a_worker_without_a_pod_waits_for_its_node_to_respond(
    bench: KubeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that was deleted by force may still run on a node that the cluster does not reach."""
    monkeypatch.setattr(monitor, "VANISHED_PATIENCE", -KILL_MARGIN)  # the grace period alone, which is none
    await bench.up(bench.job(grace=0.0))
    bench.cluster.lose_node(bench.train_node)
    await closed(bench, Closure.NOT_READY)
    bench.cluster.request("DELETE", bench.path("st-job-1-0"), gracePeriodSeconds="0")
    await eventually(lambda: not bench.pods(), "the pod is gone")
    await asyncio.sleep(1.0)
    (status,) = await bench.executor.attempts()
    assert status.phase is AttemptPhase.RUNNING
    leave_exit(bench, KEY, code=75, paused=True)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EVICTED, 75)
