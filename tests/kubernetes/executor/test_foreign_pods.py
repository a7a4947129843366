"""GPUs that pods outside the pool hold, on train and build nodes, and whose they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benches.kube_bench import KubeBench

from springtide.scheduler.executors.kubernetes.inventory import Inventory
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import gpus_of
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Node

WHOLE = "nvidia.com/gpu"
PATIENCE_S = 30.0


def node(environment: str, gpus: int = 4) -> ClusterNode:
    return msgspec.convert(
        {
            "metadata": {"name": environment, "labels": {"springtide.io/environment": environment}},
            "status": {
                "capacity": {WHOLE: str(gpus)},
                "allocatable": {WHOLE: str(gpus)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        ClusterNode,
    )


def pod(name: str, host: str, gpus: int, *, nominated: bool = False, notebook: bool = False) -> Pod:
    container = {"resources": {"requests": {WHOLE: str(gpus)}}}
    labels = {names.WORKSPACE: "true"} if notebook else {}
    meta = {"name": name, "namespace": "team", "uid": name, "labels": labels}
    place = {"status": {"nominatedNodeName": host}} if nominated else {}
    spec = {"containers": [container], **({} if nominated else {"nodeName": host})}
    return msgspec.convert({"metadata": meta, "spec": spec, **place}, Pod)


@pytest.fixture
def inventory() -> Inventory:
    found = Inventory(KubernetesSettings("pool", "springtide", Path("/state"), ("a",), jobs_claim="jobs"))
    for environment in ("train", "build"):
        found.update_node(None, node(environment))
    return found


def seen(inventory: Inventory, environment: str) -> Node:
    return next(each for each in inventory.nodes({}, fresh=True) if each.name == environment)


@pytest.mark.parametrize("environment", ["train", "build"])
def test_pods_of_others_take_gpus_of_every_node_and_are_named(inventory: Inventory, environment: str) -> None:
    assert inventory.update_other_pod(None, pod("bert", environment, 2))
    assert inventory.update_nominated_pod(None, pod("next", environment, 1, nominated=True))
    assert seen(inventory, environment).takers == {3: "team/bert", 2: "team/bert", 1: "team/next"}
    assert seen(inventory, environment).taken == {1, 2, 3}
    assert inventory.update_other_pod(pod("bert", environment, 2), None)
    assert seen(inventory, environment).takers == {3: "team/next"}


def test_notebooks_count_by_their_reservations_not_by_their_pods(inventory: Inventory) -> None:
    notebook = pod("jupyter-susan", "build", 2, notebook=True)
    inventory.update_other_pod(None, notebook)
    assert not seen(inventory, "build").taken
    inventory.update_other_pod(notebook, pod("jupyter-susan", "build", 2))
    assert len(seen(inventory, "build").taken) == 2, "it has lost the label"
    inventory.update_other_pod(pod("jupyter-susan", "build", 2), None)
    assert not seen(inventory, "build").taken


def test_a_broken_gpu_is_taken_by_nobody(inventory: Inventory) -> None:
    broken = msgspec.structs.replace(
        node("build"), status=msgspec.structs.replace(node("build").status, allocatable={WHOLE: "3"})
    )
    inventory.update_node(node("build"), broken)
    inventory.update_other_pod(None, pod("bert", "build", 1))
    assert seen(inventory, "build").takers == {3: "team/bert", 2: ""}


def of_jobs(inventory: Inventory, *slots: int) -> Node:
    return next(each for each in inventory.nodes({"train": slots}, fresh=True) if each.name == "train")


def test_what_jobs_on_a_full_node_give_up_is_that_of_the_pod_they_make_room_for(inventory: Inventory) -> None:
    inventory.update_nominated_pod(None, pod("next", "train", 2, nominated=True))
    assert of_jobs(inventory, 0, 1, 2, 3).taken == {0, 1, 2, 3}
    assert of_jobs(inventory, 1, 2, 3).taken == {0, 1, 2, 3}
    assert inventory.is_overfull("train")
    assert of_jobs(inventory, 2, 3).takers == {0: "team/next", 1: "team/next"}
    assert of_jobs(inventory, 2, 3).taken == {0, 1}
    assert not inventory.is_overfull("train")


def test_a_node_with_fewer_gpus_than_its_jobs_hold_has_room_once_they_fit(inventory: Inventory) -> None:
    inventory.update_node(node("train"), node("train", 2))
    assert of_jobs(inventory, 0, 1, 2, 3).taken == {0, 1}
    assert of_jobs(inventory, 2, 3, 0).taken == {0, 1}
    assert of_jobs(inventory, 2, 3).taken == {0, 1}
    assert not inventory.is_overfull("train")
    assert len(of_jobs(inventory, 2).taken) == 1
    assert of_jobs(inventory, 0, 1).taken == set()


def test_a_node_whose_gpus_break_while_jobs_hold_them_has_room_once_they_fit(inventory: Inventory) -> None:
    broken = msgspec.structs.replace(
        node("train"), status=msgspec.structs.replace(node("train").status, allocatable={WHOLE: "2"})
    )
    inventory.update_node(node("train"), broken)
    assert of_jobs(inventory, 0, 1, 2).taken == {0, 1, 2, 3}
    assert of_jobs(inventory, 0, 1).taken == {2, 3}
    assert len(of_jobs(inventory, 0).taken) == 2


@pytest.mark.parametrize(
    ("init", "containers", "gpus"),
    [
        ([], [1, 2], 3),
        ([("", 4)], [1, 2], 4),
        ([("", 2)], [1, 2], 3),
        ([("Always", 2)], [1], 3),
        ([("Always", 2), ("", 3)], [1], 5),
        ([("", 3), ("Always", 1)], [1], 3),
        ([("", 0)], [0], 0),
    ],
)
def test_a_pod_has_the_gpus_that_the_clusters_scheduler_counts(
    init: list[tuple[str, int]], containers: list[int], gpus: int
) -> None:
    def container(number: int, policy: str = "") -> dict[str, Any]:
        return {"restartPolicy": policy, "resources": {"requests": {WHOLE: str(number)}}}

    spec = {
        "initContainers": [container(number, policy) for policy, number in init],
        "containers": [container(number) for number in containers],
    }
    found = gpus_of(msgspec.convert({"spec": spec}, Pod), [WHOLE])
    assert found == ({WHOLE: gpus} if gpus else {})


async def test_the_pool_offers_no_build_gpu_that_a_pod_of_others_holds(bench: KubeBench) -> None:
    own = {"springtide.io/pool": bench.namespace, "springtide.io/environment": "build"}
    bench.cluster.add_fake_nodes(1, gpus=2, labels=own, prefix=f"own-{bench.namespace}")
    build = f"own-{bench.namespace}-0"
    resources = {"limits": {WHOLE: "1"}}
    spec = {"nodeName": build, "containers": [{"name": "x", "image": "x", "resources": resources}]}
    bench.cluster.request("POST", bench.path(), {"metadata": {"name": "other"}, "spec": spec})
    notebook = {"metadata": {"name": "notebook", "labels": {names.WORKSPACE: "true"}}, "spec": spec}
    bench.cluster.request("POST", bench.path(), notebook)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = {node.name: node for node in await bench.executor.inventory()}
            if build in found and found[build].takers == {1: f"{bench.namespace}/other"}:
                break
            await asyncio.sleep(0.1)


async def test_a_pod_elsewhere_with_the_label_of_the_pool_takes_its_gpus_like_any_other(bench: KubeBench) -> None:
    resources = {"limits": {WHOLE: "2"}}
    spec = {"nodeName": bench.train_node, "containers": [{"name": "x", "image": "x", "resources": resources}]}
    labels = {names.POOL: bench.namespace, names.JOB: "job", names.ATTEMPT: "1", names.RANK: "0"}
    with bench.cluster.namespace() as elsewhere:
        path = f"/api/v1/namespaces/{elsewhere}/pods"
        bench.cluster.request("POST", path, {"metadata": {"name": "namesake", "labels": labels}, "spec": spec})

        async def takers() -> dict[int, str]:
            return dict((await bench.executor.inventory())[0].takers)

        async with asyncio.timeout(PATIENCE_S):
            while await takers() != dict.fromkeys((6, 7), f"{elsewhere}/namesake"):
                await asyncio.sleep(0.05)
        bench.cluster.request("DELETE", f"{path}/namesake", gracePeriodSeconds="0")
        async with asyncio.timeout(PATIENCE_S):
            while await takers():
                await asyncio.sleep(0.05)
