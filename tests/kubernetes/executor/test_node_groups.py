"""A cluster that can grow: pods that wait for nodes of a group, and jobs that start when these have come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from benches.kube_bench import IMAGE, KubeBench, eventually
from clusters.cluster import Cluster
from clusters.cluster_pool import ClusterPool
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.engine import node_groups
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.refusal import Refusal

GROUP = {
    "name": "big",
    "gpu_type": "h100",
    "gpus": 8,
    "max_nodes": 2,
    "node_selector": {"example.com/pool": "big"},
    "tolerations": [{"key": "example.com/big", "operator": "Exists", "effect": "NoSchedule"}],
}
JOINED = {"example.com/pool": "big", "springtide.io/gpu-type": "h100"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_groups, "INTERVAL", 0.1)
    monkeypatch.setattr(node_groups, "WINDOW", 0.5)


class GrowingPool(ClusterPool):
    """An engine on a cluster with a node group; nodes come when a test adds them."""

    def __init__(self, cluster: Cluster, namespace: str, path: Path, **options: Any) -> None:
        super().__init__(
            cluster, namespace, path, **{"node_groups": (GROUP,), "placeholder_image": IMAGE, **options}
        )

    def placeholders(self) -> list[dict[str, Any]]:
        pods = self.bench.pods()
        return [pod for pod in pods if "springtide.io/placeholder" in pod["metadata"]["labels"]]

    async def asked(self, number: int) -> list[dict[str, Any]]:
        """Wait until so many pods wait for nodes; return them."""
        await eventually(lambda: len(self.placeholders()) == number, f"{number} pods wait for nodes", PATIENCE_S)
        return self.placeholders()

    def join(self, number: int = 1, **labels: str) -> list[str]:
        """Let nodes of the group join, as an autoscaler does."""
        return self.bench.add_nodes(number, **{**JOINED, **labels})


@pytest.fixture
async def pool(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[GrowingPool]:
    pool = GrowingPool(cluster, namespace, tmp_path)
    await pool.start()
    yield pool
    await pool.stop()
    await pool.bench.api.close()


async def test_a_job_that_fits_no_node_leaves_a_pending_pod_of_the_right_shape(pool: GrowingPool) -> None:
    job = await pool.submit(gpus=8)
    (pod,) = await pool.asked(1)
    spec = pod["spec"]
    assert pod["status"]["phase"] == "Pending"
    assert "nodeName" not in spec
    assert spec["nodeSelector"] == {
        "springtide.io/environment": "train",
        "springtide.io/pool": pool.bench.namespace,
        "example.com/pool": "big",
    }
    assert GROUP["tolerations"][0] in spec["tolerations"]  # type: ignore[index]
    assert [each["resources"]["requests"] for each in spec["containers"]] == [{"nvidia.com/gpu": "8"}]
    text = await pool.reason(job, lambda text: "was requested" in text)
    assert text.startswith(
        "No node that is there has room for 8 GPUs on one node now. A node of the group big was"
    )
    assert "the group has none of at most 2" in text
    assert (await pool.engine.job(job)).starts is None
    (group,) = pool.engine.pool().node_groups
    assert (group.name, group.nodes, group.asked, group.most) == ("big", 0, 1, 2)


async def test_when_the_node_joins_the_pod_goes_and_the_job_runs_there(pool: GrowingPool) -> None:
    job = await pool.submit(gpus=8)
    await pool.asked(1)
    (node,) = pool.join()
    await pool.state(job, "running")
    await pool.asked(0)
    pod = pool.bench.pod(job)
    assert pod["spec"]["nodeName"] == node
    annotations = pod["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"


async def test_a_cancelled_job_takes_its_request_back(pool: GrowingPool) -> None:
    job = await pool.submit(gpus=1)
    await pool.asked(1)
    await pool.engine.cancel(job, "susan")
    await pool.asked(0)


async def test_no_more_nodes_are_asked_for_than_the_group_may_have(pool: GrowingPool) -> None:
    jobs = [await pool.submit(gpus=8) for _ in range(3)]
    await pool.asked(2)
    text = await pool.reason(jobs[2], lambda text: "as allowed" in text)
    assert "The node group big has or awaits as many nodes as allowed." in text
    pool.join(2)
    for job in jobs[:2]:
        await pool.state(job, "running")
    await pool.asked(0)
    assert (await pool.engine.job(jobs[2])).state == "queued"


async def test_small_jobs_share_the_node_that_is_asked_for(pool: GrowingPool) -> None:
    for _ in range(8):
        await pool.submit(gpus=1)
    await pool.asked(1)
    await pool.submit(gpus=1)
    await pool.asked(2)


async def test_a_restart_of_the_service_asks_for_nothing_twice(pool: GrowingPool) -> None:
    job = await pool.submit(gpus=8)
    (before,) = await pool.asked(1)
    await pool.stop()
    await pool.start()
    text = await pool.reason(job, lambda text: "was requested" in text)
    (after,) = pool.placeholders()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "A node of the group big was requested" in text


async def test_no_node_is_asked_for_beyond_the_limit_of_a_project(pool: GrowingPool) -> None:
    edit = wire.ProjectEdit(limit=8)
    await pool.engine.edit_project("vision", edit, "admin", members={})
    first, second = [await pool.submit(gpus=8) for _ in range(2)]
    await pool.asked(1)
    pool.join()
    await pool.state(first, "running")
    text = await pool.reason(second, lambda text: "at most" in text)
    assert "The project “vision” may hold at most 8" in text
    await pool.asked(0)


async def test_a_job_larger_than_any_node_that_may_come_is_refused(pool: GrowingPool) -> None:
    with pytest.raises(Refusal, match="You asked for 9 GPUs per worker, but the largest train node has 8"):
        await pool.submit(gpus=9)
    with pytest.raises(Refusal, match="the pool has room for 2"):
        await pool.submit(gpus=8, workers=3)
    assert pool.engine.choices(["vision"])[0].max_gpus == 8


async def test_a_node_that_does_not_come_is_called_late(
    pool: GrowingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_groups, "LATE", 0.0)
    job = await pool.submit(gpus=8)
    text = await pool.reason(job, lambda text: "This takes unusually long" in text)
    assert "an administrator of the cluster can find the cause" in text


async def test_why_a_node_cannot_be_asked_for_is_told(pool: GrowingPool) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    pool.bench.cluster.request("POST", pool.bench.path(kind="resourcequotas"), quota)
    await eventually(
        lambda: (
            pool.bench.cluster.request("GET", pool.bench.path("none", "resourcequotas"))
            .get("status", {})
            .get("used")
        ),
        "the quota is counted",
    )
    job = await pool.submit(gpus=8)
    text = await pool.reason(job, lambda text: "The cluster refuses" in text)
    assert "exceeded quota" in text


async def test_the_gpus_of_a_bound_placeholder_count_as_taken_until_it_is_gone(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    bench = KubeBench(cluster, namespace, tmp_path / "state", node_groups=(GROUP,), placeholder_image=IMAGE)
    await bench.open()
    try:
        await bench.executor.request_nodes({"big": 1})
        bench.add_nodes(1, **JOINED)
        await _taken(bench, 8)
        assert [request.since for request in (await bench.executor.request_nodes(None)).values()] == [()]
        await bench.executor.request_nodes({"big": 0})
        await _taken(bench, 0)
        assert [(node.group, node.gpus) for node in await bench.executor.inventory()] == [("big", 8)]
    finally:
        await bench.shut()


async def _taken(bench: KubeBench, number: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while [len(node.taken) for node in await bench.executor.inventory()] != [number]:
            await asyncio.sleep(0.05)


async def test_placeholders_belong_to_what_the_pod_of_the_service_belongs_to(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    owner = cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    bench = KubeBench(cluster, namespace, tmp_path / "state", node_groups=(GROUP,), service_pod="service")
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "service",
        "image": IMAGE,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    service = {
        "metadata": {"name": "service", "ownerReferences": [{**reference, "controller": True}]},
        "spec": {"containers": [container], "securityContext": security},
    }
    cluster.request("POST", bench.path(), service)
    await bench.open()
    try:
        await bench.executor.request_nodes({"big": 1})
        (pod,) = [each for each in bench.pods() if each["metadata"]["name"] != "service"]
        assert pod["metadata"]["ownerReferences"] == [{**reference, "controller": False}]
        cluster.request("DELETE", bench.path("owner", "configmaps"))
        await eventually(
            lambda: not [each for each in bench.pods() if each["metadata"]["name"] != "service"], "it goes"
        )
    finally:
        await bench.shut()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (({**GROUP, "nodes": 3},), r"is not a node group \(nodes\). Expected name"),
        (({"name": "big"},), r"is not a node group \(no gpu_type, no gpus, no max_nodes, no node_selector\)"),
        (({**GROUP, "max_nodes": 0},), r"node_groups: .big. is not a node group \(max_nodes is 0\)"),
        (({**GROUP, "node_selector": {}},), r"\(node_selector is \{\}\)"),
        (({**GROUP, "resource": "nvidia.com/mig-*"},), r"\(resource is .*mig-"),
        (({**GROUP, "memory": "much"},), "is not an amount of memory"),
        ((GROUP, GROUP), "is listed twice"),
        ((GROUP, {**GROUP, "name": "other"}), "a node of .big. would be one of .other., too"),
    ],
)
async def test_a_group_that_cannot_be_is_refused_at_the_start(
    cluster: Cluster, namespace: str, tmp_path: Path, groups: Any, words: str
) -> None:
    bench = KubeBench(cluster, namespace, tmp_path / "state", node_groups=groups)
    with pytest.raises(ExecutorError, match=words):
        await bench.open()
    await bench.shut()
