"""A job whose volume its node cannot mount, on a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench, eventually, restricted_bench
from clusters.cluster import Cluster
from clusters.real_node import RealNode, volume

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes import monitor, start_failures


@pytest.fixture
async def bench(
    cluster: Cluster, namespace: str, real_node: RealNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubeBench]:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    async with restricted_bench(cluster, namespace, tmp_path / "state", real_node) as bench:
        yield bench


async def test_a_job_does_not_keep_its_gpus_while_its_home_cannot_be_mounted(
    bench: KubeBench, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    with volume(cluster, away, claim=(namespace, "home-susan")):
        path = bench.path("home-susan", "persistentvolumeclaims")
        cluster.request("PATCH", path, {"metadata": {"annotations": {"hub.jupyter.org/username": "susan"}}})
        away.rmdir()
        await eventually(
            lambda: bench.executor._monitor.cluster.home_of("susan").claim == "home-susan", "the home is known"
        )
        spec = bench.spec(("python3", "-c", "print('ran')"))
        await bench.executor.launch(spec)
        await eventually(lambda: fails_to_mount(bench), "its kubelet says so")
        monkeypatch.setattr(start_failures, "PREPARATION_PATIENCE", 0.0)
        ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        assert ended.kind is ExitKind.BLOCKED
        assert f"The node {bench.train_node} did not prepare its pod" in ended.detail
        assert "hostPath type check failed" in ended.detail, "the cluster's own words"
        assert "unbound" not in ended.detail, "what was before it had a node"
        await bench.executor.discard(spec.key)
        await eventually(lambda: not bench.pods(), "nothing of it is left on the node")


def fails_to_mount(bench: KubeBench) -> bool:
    events = bench.cluster.items(bench.path(kind="events"), fieldSelector="reason=FailedMount")
    return any("hostPath type check failed" in event["message"] for event in events)
