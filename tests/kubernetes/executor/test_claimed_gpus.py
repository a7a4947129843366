"""GPUs that a driver publishes in ResourceSlices: jobs claim them, on the real API server and kube-scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster, ClusterError
from clusters.dra_driver import A100, API, DraDriver, dra_driver, gpus
from clusters.faulty_api import FaultyApi
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, ExecutorError, ExitKind
from springtide.scheduler.executors.kubernetes import monitor, start_failures
from springtide.scheduler.kube import connect
from springtide.scheduler.model import Node, Worker

KEY = AttemptKey("job", 1)


@pytest.fixture
def driver(cluster: Cluster, namespace: str) -> Iterator[DraDriver]:
    with dra_driver(cluster, namespace) as driver:
        yield driver


@pytest.fixture
async def bench(cluster: Cluster, namespace: str, driver: DraDriver, tmp_path: Path) -> AsyncIterator[KubeBench]:
    """A started executor, and two train nodes with four published H100 and no extended resource."""
    bench = KubeBench(cluster, namespace, tmp_path / "state", device_class=driver.name, device_driver=driver.name)
    for node in add_nodes(bench, 2):
        driver.publish(node, gpus(node, 4))
    await bench.open()
    yield bench
    await bench.shut()


def add_nodes(bench: KubeBench, count: int, environment: str = "train", prefix: str = "train") -> list[str]:
    """Add fake nodes without extended resources."""
    labels = {"springtide.io/pool": bench.namespace, "springtide.io/environment": environment}
    return bench.cluster.add_fake_nodes(count, labels=labels, prefix=f"{prefix}-{bench.namespace}", resources={})


async def seen(bench: KubeBench, holds: Any, what: str) -> dict[str, Node]:
    """Return the nodes of the inventory, once the condition holds for them."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = {node.name: node for node in await bench.executor.inventory()}
                if holds(found):
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}: {found}") from None


def uuids(node: Node, *slots: int) -> list[str]:
    return sorted(gpu.uuid for gpu in node.devices if gpu.index in slots)


def may_claim(bench: KubeBench) -> bool:
    """Return whether the API server would take another claim in the namespace."""
    request = {"name": "any", "exactly": {"deviceClassName": "any", "count": 1}}
    body = {"metadata": {"name": "probe"}, "spec": {"devices": {"requests": [request]}}}
    try:
        bench.cluster.request("POST", f"{API}/namespaces/{bench.namespace}/resourceclaims", body, dryRun="All")
    except ClusterError as refusal:
        if refusal.status != 403:
            raise
        return False
    return True


async def test_a_job_has_the_gpus_that_its_claim_names_until_it_is_paused_and_no_claim_stays(
    bench: KubeBench, driver: DraDriver
) -> None:
    node = bench.train_node
    shown = {each.name: each for each in await bench.executor.inventory()}
    assert [(each.gpus, each.gpu_type) for each in shown.values()] == [(4, "h100-80gb-hbm3")] * 2
    assert {(gpu.name, gpu.memory_mib) for gpu in shown[node].devices} == {("NVIDIA H100 80GB HBM3", 80 << 10)}

    await bench.up(bench.job(gpus=2, slot=2))
    (container,) = bench.pod()["spec"]["containers"]
    assert not any("gpu" in name for name in container["resources"].get("limits", {}))
    (devices,) = driver.devices(bench.namespace).values()
    named = sorted(f"GPU-{node}-{device.removeprefix('gpu-')}" for device in devices)
    found = await seen(bench, lambda nodes: uuids(nodes[node], 2, 3) == named, "the slots stand for its GPUs")
    assert not found[node].taken

    await bench.executor.pause(KEY)
    await bench.phase(KEY, AttemptPhase.GONE)
    await bench.executor.discard(KEY)
    await eventually(lambda: not driver.claims(bench.namespace), "its claim is gone")

    await bench.up(bench.job(gpus=4, attempt=2))
    assert sorted(driver.devices(bench.namespace)["st-job-2-0"]) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    bench.cluster.request("DELETE", bench.path("st-job-2-0"), gracePeriodSeconds="0")
    await eventually(
        lambda: not driver.claims(bench.namespace), "the claim went with the pod that was forced away"
    )


async def test_a_gang_claims_on_two_nodes_and_a_restarted_service_knows_its_gpus(
    bench: KubeBench, driver: DraDriver
) -> None:
    nodes = [f"train-{bench.namespace}-{number}" for number in range(2)]
    placement = (Worker(0, nodes[0], (0, 1, 2)), Worker(1, nodes[1], (1, 2, 3)))
    await bench.up(bench.job(size=2, placement=placement))
    assert [pod["spec"]["nodeName"] for pod in bench.pods()] == nodes
    await bench.restart()
    claimed = driver.devices(bench.namespace)
    for rank, (node, slots) in enumerate([(nodes[0], (0, 1, 2)), (nodes[1], (1, 2, 3))]):
        named = sorted(f"GPU-{node}-{each[4:]}" for each in claimed[f"st-job-1-{rank}"])
        await seen(bench, lambda found, a=node, b=slots, c=named: uuids(found[a], *b) == c, "slots are its GPUs")
    await bench.executor.kill(KEY)
    await bench.phase(KEY, AttemptPhase.GONE)
    await bench.executor.discard(KEY)
    await eventually(lambda: not driver.claims(bench.namespace), "no claim is left")


async def test_a_claim_from_outside_takes_its_gpu_and_is_named(
    bench: KubeBench, driver: DraDriver, cluster: Cluster
) -> None:
    node = bench.train_node
    with cluster.namespace() as team:
        driver.foreign_pod(team, "bert", node)
        found = await seen(bench, lambda nodes: nodes[node].takers, "a GPU of it is taken")
        (slot,) = found[node].takers
        assert found[node].takers == {slot: f"{team}/bert"}
        (devices,) = driver.devices(team).values()
        assert uuids(found[node], slot) == [f"GPU-{node}-{each[4:]}" for each in devices]
        free = tuple(sorted({0, 1, 2, 3} - {slot}))
        await bench.up(bench.job(placement=(Worker(0, node, free),)))
        cluster.request("DELETE", f"/api/v1/namespaces/{team}/pods/bert", gracePeriodSeconds="0")
        await seen(bench, lambda nodes: not nodes[node].taken, "the GPU is free again")


async def test_the_pool_follows_generations_and_waits_for_all_slices_of_one(
    bench: KubeBench, driver: DraDriver
) -> None:
    node = bench.train_node
    driver.publish(node, gpus(node, 3), generation=2, of=2)
    found = await seen(bench, lambda nodes: len(nodes[node].taken) == 4, "an incomplete pool is not used")
    assert set(found[node].takers.values()) == {""}
    driver.publish(node, gpus(node, 2, A100, first=3, memory="40Gi"), generation=2, of=2, part=1)
    second = f"{node}/a100-sxm4-40gb"
    found = await seen(bench, lambda nodes: second in nodes, "the new generation is known")
    assert {name: (each.gpus, each.gpu_type, len(each.taken)) for name, each in found.items() if node in name} == {
        node: (3, "h100-80gb-hbm3", 0),
        second: (2, "a100-sxm4-40gb", 0),
    }
    await bench.up(bench.job(placement=(Worker(0, second, (0, 1)),)))
    assert driver.devices(bench.namespace) == {"st-job-1-0": ["gpu-3", "gpu-4"]}
    driver.withdraw(node, part=1)
    await seen(bench, lambda nodes: len(nodes[node].taken) == 3, "the rest of the pool is not used")
    assert (await bench.status(KEY)).phase is AttemptPhase.RUNNING


async def test_a_node_with_a_device_plugin_counts_each_gpu_once(bench: KubeBench, driver: DraDriver) -> None:
    labels = {"springtide.io/pool": bench.namespace, "springtide.io/environment": "train"}
    (node,) = bench.cluster.add_fake_nodes(1, gpus=4, labels=labels, prefix=f"both-{bench.namespace}")
    driver.publish(node, gpus(node, 4))
    found = await seen(bench, lambda nodes: node in nodes, "the node is known")
    assert [(each.gpus, each.resource) for name, each in found.items() if node in name] == [(4, "nvidia.com/gpu")]
    await bench.up(bench.job(placement=(Worker(0, node, (0,)),)))
    assert "resourceClaims" not in bench.pod()["spec"]


async def test_a_template_that_somebody_deletes_comes_back(bench: KubeBench, driver: DraDriver) -> None:
    path = f"{API}/namespaces/{bench.namespace}/resourceclaimtemplates"
    names = sorted(each["metadata"]["name"] for each in bench.cluster.items(path))
    assert len(names) == 4
    before = bench.cluster.request("GET", f"{path}/{names[0]}")["metadata"]["uid"]
    bench.cluster.request("DELETE", f"{path}/{names[0]}")

    def is_new() -> bool:
        found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in bench.cluster.items(path)}
        return found.get(names[0], before) != before

    await eventually(is_new, "the template is there again")


async def test_a_job_whose_claim_the_cluster_refuses_is_given_up_with_the_words_of_the_cluster(
    bench: KubeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(start_failures, "CLAIM_PATIENCE", 0.5)
    await bench.restart()  # scans as often
    path = f"/api/v1/namespaces/{bench.namespace}/resourcequotas"
    hard = {"count/resourceclaims.resource.k8s.io": "0"}
    bench.cluster.request("POST", path, {"metadata": {"name": "no-claims"}, "spec": {"hard": hard}})
    await eventually(lambda: not may_claim(bench), "the quota holds")
    await bench.executor.launch(bench.job())
    ended = (await bench.phase(KEY, AttemptPhase.GONE)).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert ended.detail.startswith("The cluster made no claim of its GPUs within 0.5 s.")
    assert "exceeded quota: no-claims" in ended.detail


@pytest.mark.parametrize(
    ("status", "says"),
    [(404, "Upgrade it to Kubernetes 1.34 or newer"), (403, "The service may not follow the devices")],
)
async def test_a_cluster_that_shows_no_devices_is_named_with_what_helps(
    cluster: Cluster, namespace: str, tmp_path: Path, status: int, says: str
) -> None:
    async with FaultyApi(cluster, tmp_path / "faulty.kubeconfig") as faults:
        faults.before = lambda request: status if "resourceslices" in request.path else None
        api = connect(faults.kubeconfig)
        bench = KubeBench(cluster, namespace, tmp_path / "state", api, device_class="gpu.nvidia.com")
        with pytest.raises(ExecutorError, match=says):
            await bench.open()
        await bench.shut()


async def test_pods_with_claims_are_bound_by_the_cluster_also_where_others_name_their_node(
    cluster: Cluster, namespace: str, driver: DraDriver, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"device_class": driver.name, "device_driver": driver.name}
    bench = KubeBench(cluster, namespace, tmp_path / "state", bind_directly=True, **own)
    (node,) = add_nodes(bench, 1)
    driver.publish(node, gpus(node, 4))
    await bench.open()
    try:
        await bench.up(bench.job(gpus=2))
        assert len(driver.devices(namespace)["st-job-1-0"]) == 2
    finally:
        await bench.shut()
