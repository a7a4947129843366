"""RDMA on a cluster: nodes that offer it as an extended resource, and the pods that ask for it.

The API server and the scheduler are real; the nodes only claim to have network cards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benches.kube_bench import eventually
from clusters.cluster import Cluster
from clusters.cluster_pool import ClusterPool
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExecutorError
from springtide.scheduler.executors.kubernetes.homes import Home
from springtide.scheduler.executors.kubernetes.inventory import Inventory
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.objects import manifests
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Node, Worker
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import JobOptions

GPU, SHARED, VIRTUAL = "nvidia.com/gpu", "rdma/rdma_shared_device_a", "openshift.io/mellanoxnics"
NETWORKS = "k8s.v1.cni.cncf.io/networks"


class Nodes:
    """Fake nodes of a pool, with and without RDMA."""

    def __init__(self, pool: ClusterPool) -> None:
        self._pool = pool

    def add(self, name: str, count: int = 1, **resources: int) -> list[str]:
        """Add nodes with 8 GPUs and these numbers of devices; `shared` and `virtual` are resources for RDMA."""
        bench = self._pool.bench
        labels = {"springtide.io/pool": bench.namespace, "springtide.io/environment": "train"}
        known = {"shared": SHARED, "virtual": VIRTUAL}
        offered = {GPU: 8, **{known[key]: number for key, number in resources.items()}}
        return bench.cluster.add_fake_nodes(
            count, labels=labels, prefix=f"{name}-{bench.namespace}", resources=offered
        )

    async def seen(self, **workers: int) -> None:
        """Wait until the pool has nodes of these names that may have so many workers with RDMA."""
        wanted = {f"{name}-{self._pool.bench.namespace}-0": number for name, number in workers.items()}

        def found() -> dict[str, int]:
            return {node.name: node.rdma_workers for node in self._pool.engine.pool().nodes}

        await eventually(lambda: wanted.items() <= found().items(), f"{wanted} are seen", PATIENCE_S)


@pytest.fixture
async def pool(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[ClusterPool]:
    pool = ClusterPool(cluster, namespace, tmp_path, rdma_resources={SHARED: 1}, rdma_networks="ib0")
    await pool.start(quota=None)
    yield pool
    await pool.stop()
    await pool.bench.api.close()


def requests(pod: dict[str, Any]) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    found: dict[str, str] = container["resources"]["requests"]
    return found


async def test_the_pods_of_a_gang_with_rdma_ask_for_a_device_and_run_where_there_is_one(pool: ClusterPool) -> None:
    nodes = Nodes(pool)
    with_rdma = nodes.add("rdma", 2, shared=63)
    nodes.add("plain", 2)
    await nodes.seen(rdma=8, plain=0)
    gang = await pool.submit(gpus=8, workers=2, rdma=True)
    other = await pool.submit(gpus=8)
    for job in (gang, other):
        await pool.state(job, "running")
    pods = [pool.bench.pod(gang, rank=rank) for rank in range(2)]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == with_rdma
    assert [requests(pod)[SHARED] for pod in pods] == ["1", "1"]
    assert [pod["metadata"]["annotations"][NETWORKS] for pod in pods] == ["ib0", "ib0"]
    alone = pool.bench.pod(other)
    assert SHARED not in requests(alone)
    assert NETWORKS not in alone["metadata"]["annotations"]


async def test_a_gang_waits_until_a_second_node_with_rdma_joins(pool: ClusterPool) -> None:
    nodes = Nodes(pool)
    first, *_ = nodes.add("rdma", 1, shared=8)
    nodes.add("plain", 1)
    await nodes.seen(rdma=8, plain=0)
    full = await pool.submit(gpus=8, rdma=True)
    await pool.state(full, "running")
    waits = await pool.submit(gpus=8, rdma=True)
    await pool.reason(waits, lambda text: "Only 1 of 2 nodes has RDMA." in text)
    (second,) = nodes.add("more", 1, shared=1)
    await pool.state(waits, "running")
    assert [pool.bench.pod(job)["spec"]["nodeName"] for job in (full, waits)] == [first, second]


async def test_as_many_workers_with_rdma_run_on_a_node_as_it_has_devices_for(pool: ClusterPool) -> None:
    nodes = Nodes(pool)
    nodes.add("rdma", 1, shared=2)
    await nodes.seen(rdma=2)
    with pytest.raises(Refusal, match="it for 2 workers on its 8 GPUs"):
        await pool.submit(gpus=2, rdma=True)
    jobs = [await pool.submit(gpus=4, rdma=True) for _ in range(2)]
    for job in jobs:
        await pool.state(job, "running")
    assert [requests(pool.bench.pod(job))[SHARED] for job in jobs] == ["1", "1"]


async def test_what_no_node_has_is_refused_and_told_while_nodes_are_away(pool: ClusterPool) -> None:
    nodes = Nodes(pool)
    nodes.add("plain", 1)
    await nodes.seen(plain=0)
    with pytest.raises(Refusal, match="RDMA was asked for, and no train node has it"):
        await pool.submit(gpus=8, rdma=True)
    names = nodes.add("rdma", 1, shared=8)
    await nodes.seen(rdma=8)
    await pool.state(await pool.submit(gpus=8, rdma=True), "running")
    waits = await pool.submit(gpus=8, rdma=True)
    pool.bench.cluster.request("PATCH", f"/api/v1/nodes/{names[0]}", {"spec": {"unschedulable": True}})
    await pool.reason(waits, lambda text: "needs RDMA, and no node that can be used now has it" in text)


# ---------- what nodes offer


def settings(**more: Any) -> KubernetesSettings:
    return KubernetesSettings("pool", "springtide", Path("/state"), ("i",), jobs_claim="jobs", **more)


def node(**devices: str) -> ClusterNode:
    known = {"gpu": GPU, "shared": SHARED, "virtual": VIRTUAL}
    offered = {known[name]: number for name, number in {"gpu": "8", **devices}.items()}
    return msgspec.convert(
        {
            "metadata": {"name": "gpu-1", "labels": {"springtide.io/environment": "train"}},
            "status": {
                "capacity": offered,
                "allocatable": offered,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        ClusterNode,
    )


def pod(**requests: str) -> Pod:
    container = {
        "resources": {"requests": {{"gpu": GPU, "shared": SHARED}[name]: of for name, of in requests.items()}}
    }
    return msgspec.convert(
        {
            "metadata": {"name": "other", "uid": "other"},
            "spec": {"nodeName": "gpu-1", "containers": [container]},
            "status": {"phase": "Running"},
        },
        Pod,
    )


def workers(of: Inventory) -> int:
    (found,) = of.nodes({}, fresh=True)
    return found.per_gpu.rdma_workers(found.gpus)


@pytest.mark.parametrize(
    ("resources", "devices", "number"),
    [
        ({}, {"shared": "63"}, 0),
        ({SHARED: 1}, {"shared": "63"}, 8),
        ({SHARED: 1}, {"shared": "3"}, 3),
        ({SHARED: 1}, {"shared": "0"}, 0),
        ({SHARED: 1}, {}, 0),
        ({VIRTUAL: 2}, {"virtual": "9"}, 4),
        ({SHARED: 1, VIRTUAL: 4}, {"shared": "63", "virtual": "8"}, 2),
        ({SHARED: 1, VIRTUAL: 4}, {"shared": "63"}, 0),
    ],
)
def test_a_node_has_rdma_for_as_many_workers_as_all_its_devices_do(
    resources: dict[str, int], devices: dict[str, str], number: int
) -> None:
    found = Inventory(settings(rdma_resources=resources))
    found.update_node(None, node(**devices))
    assert workers(found) == number


def test_devices_of_other_pods_without_gpus_are_in_use() -> None:
    found = Inventory(settings(rdma_resources={SHARED: 1}))
    found.update_node(None, node(shared="8"))
    assert found.update_other_pod(None, pod(shared="2"))
    assert workers(found) == 6
    assert found.update_other_pod(pod(shared="2"), None)
    assert workers(found) == 8
    found.update_other_pod(None, pod(shared="9"))
    assert workers(found) == 0, "more than there are"


def test_other_pods_with_gpus_have_the_devices_that_these_come_with() -> None:
    found = Inventory(settings(rdma_resources={SHARED: 1}))
    found.update_node(None, node(shared="8"))
    found.update_other_pod(None, pod(gpu="1", shared="1"))
    (there,) = found.nodes({}, fresh=True)
    assert (len(there.taken), workers(found)) == (1, 8)


def test_nodes_of_the_settings_may_say_for_how_many_workers_they_have_rdma() -> None:
    static = ({"name": "a", "gpus": 4, "rdma": 2},)
    assert workers(Inventory(settings(static_nodes=static, rdma_resources={SHARED: 1}))) == 2
    with pytest.raises(ExecutorError, match="memory and rdma"):
        Inventory(settings(static_nodes=({"name": "a", "gpus": 4, "rdma": "many"},)))


def test_a_node_group_may_say_for_how_many_workers_its_nodes_have_rdma() -> None:
    group = {"name": "a", "gpu_type": "h100", "gpus": 8, "max_nodes": 1, "node_selector": {"a": "b"}}
    (found,) = Inventory(settings(node_groups=({**group, "rdma": 4},))).node_groups()
    assert found.node.per_gpu.rdma == 0.5
    with pytest.raises(ExecutorError, match=r"rdma is 0"):
        Inventory(settings(node_groups=({**group, "rdma": 0},)))


# ---------- pods


def made(settings: KubernetesSettings, *, rdma: bool) -> tuple[dict[str, Any], str]:
    spec = AttemptSpec(
        key=AttemptKey("abc", 3),
        epoch=7,
        name="a job",
        project="vision",
        user="susan",
        grace=20.0,
        placement=(Worker(0, "n1", (0, 1)),),
        workers=1,
        argv=("train",),
        options=JobOptions(rdma=rdma),
    )
    record = LaunchRecords(settings, None).make_record(spec, "i", Home(), [Node("n1", 8, resource=GPU)])
    return manifests.pod(record, 0, settings), record.digest


def test_a_worker_gets_all_resources_that_give_rdma_in_their_number() -> None:
    given = settings(rdma_resources={SHARED: 1, VIRTUAL: 4})
    (container,) = made(given, rdma=True)[0]["spec"]["containers"]
    wanted = {GPU: "2", SHARED: "1", VIRTUAL: "4"}
    assert container["resources"] == {"requests": wanted, "limits": wanted}


def test_pods_with_and_without_rdma_are_not_taken_for_each_other() -> None:
    given = settings(rdma_resources={SHARED: 1})
    assert made(given, rdma=True)[1] != made(given, rdma=False)[1]
    assert NETWORKS not in made(given, rdma=True)[0]["metadata"]["annotations"], "no networks are named"


def test_a_namespace_that_enforces_the_restricted_standard_takes_pods_with_rdma(
    cluster: Cluster, namespace: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    given = replace(settings(rdma_resources={SHARED: 1}, rdma_networks="ib0"), namespace=namespace, run_as=1000)
    pod, _ = made(given, rdma=True)
    taken = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    assert taken["spec"]["containers"][0]["resources"]["limits"][SHARED] == "1"
    pod["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] = ["IPC_LOCK"]
    with pytest.raises(Exception, match="unrestricted capabilities"):
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
