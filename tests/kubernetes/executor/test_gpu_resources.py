"""Several extended resources in one pool: names of nodes and types, what pods take, and what is out of order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.kubernetes.inventory import Inventory, static_nodes
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import model_of, pool_names
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.gpu_types import DeclaredTypes, machine_of
from springtide.scheduler.model import Node

READY = [{"type": "Ready", "status": "True"}]
GPU, SLICE, HALF, AMD = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb", "amd.com/gpu"


def settings(**more: Any) -> KubernetesSettings:
    return KubernetesSettings("pool", "springtide", Path("/state"), ("hub/train:1",), jobs_claim="jobs", **more)


def cluster_node(
    name: str, capacity: dict[str, str], labels: dict[str, str], allocatable: dict[str, str] | None = None
) -> ClusterNode:
    status = {"capacity": capacity, "allocatable": capacity if allocatable is None else allocatable}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": {"springtide.io/environment": "train", **labels}},
            "status": {**status, "conditions": READY},
        },
        ClusterNode,
    )


def pod(node: str, uid: str, *requests: dict[str, str]) -> Pod:
    containers = [{"resources": {"requests": each}} for each in requests]
    return msgspec.convert(
        {"metadata": {"name": uid, "uid": uid}, "spec": {"nodeName": node, "containers": containers}}, Pod
    )


def inventory(*nodes: ClusterNode, **more: Any) -> Inventory:
    made = Inventory(settings(**more))
    for node in nodes:
        assert made.update_node(None, node)
    return made


def by_name(of: Inventory) -> dict[str, Node]:
    return {node.name: node for node in of.nodes({}, fresh=True)}


A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}


def test_a_node_with_slices_of_two_sizes_is_a_node_of_the_pool_for_each() -> None:
    nodes = by_name(inventory(cluster_node("gpu-3", {GPU: "4", SLICE: "7", HALF: "2"}, A100)))
    assert {(n.name, n.gpu_type, n.gpus, n.resource) for n in nodes.values()} == {
        ("gpu-3", "a100-sxm4-40gb", 4, GPU),
        ("gpu-3/mig-1g.5gb", "a100-sxm4-40gb-mig-1g.5gb", 7, SLICE),
        ("gpu-3/mig-3g.20gb", "a100-sxm4-40gb-mig-3g.20gb", 2, HALF),
    }
    assert {machine_of(name) for name in nodes} == {"gpu-3"}
    assert len({gpu.uuid for node in nodes.values() for gpu in node.devices}) == 13


def test_a_node_keeps_its_name_when_slices_are_added_to_it() -> None:
    plain = cluster_node("gpu-3", {GPU: "4"}, A100)
    found = inventory(plain)
    sliced = cluster_node("gpu-3", {GPU: "3", SLICE: "7"}, A100)
    assert found.update_node(plain, sliced)
    assert [(name, node.gpus) for name, node in by_name(found).items()] == [("gpu-3", 3), ("gpu-3/mig-1g.5gb", 7)]
    assert not found.update_node(sliced, sliced)
    assert found.update_node(sliced, plain)
    assert list(by_name(found)) == ["gpu-3"]
    assert found.has_seen("gpu-3/mig-1g.5gb")


def test_a_slice_is_one_type_whichever_strategy_presents_it() -> None:
    mixed = cluster_node("a", {SLICE: "7"}, A100)
    single = cluster_node("b", {GPU: "7"}, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"})
    nodes = by_name(inventory(mixed, single))
    assert {node.gpu_type for node in nodes.values()} == {"a100-sxm4-40gb-mig-1g.5gb"}


@pytest.mark.parametrize(
    ("resource", "labels", "model"),
    [
        (AMD, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "AMD_Instinct_MI300X_OAM"),
        (AMD, {"amd.com/gpu.family": "MI300X"}, "MI300X"),
        (AMD, A100, "amd"),
        (GPU, {"amd.com/gpu.family": "MI300X"}, "gpu"),
        (GPU, {"springtide.io/gpu-type": "big", **A100}, "big"),
        (AMD, {"springtide.io/gpu-type": "big"}, "big"),
        (SLICE, {}, "gpu-mig-1g.5gb"),
    ],
)
def test_the_model_comes_from_a_label_of_the_same_vendor(
    resource: str, labels: dict[str, str], model: str
) -> None:
    known = settings()
    assert model_of(resource, labels, known.gpu_type_labels, known.gpu_resources) == model


def test_an_admin_may_declare_products_to_be_one_type() -> None:
    types = DeclaredTypes.of_setting({"a100": ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"]})
    nodes = by_name(
        inventory(
            cluster_node("a", {GPU: "8"}, A100),
            cluster_node("b", {GPU: "8"}, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}),
            types=types,
        )
    )
    assert [node.gpu_type for node in nodes.values()] == ["a100", "a100"]


def test_other_pods_take_gpus_of_the_resource_that_they_ask_for() -> None:
    found = inventory(cluster_node("gpu-3", {GPU: "4", SLICE: "7"}, A100))
    other = pod("gpu-3", "x", {SLICE: "2"}, {SLICE: "1", "cpu": "4"})
    assert found.update_other_pod(None, other)
    assert {name: len(node.taken) for name, node in by_name(found).items()} == {"gpu-3": 0, "gpu-3/mig-1g.5gb": 3}
    assert found.update_other_pod(other, None)
    assert {len(node.taken) for node in by_name(found).values()} == {0}


def test_gpus_out_of_order_are_counted_for_each_resource() -> None:
    found = inventory(cluster_node("gpu-3", {GPU: "4", SLICE: "7"}, A100, {GPU: "4", SLICE: "5"}))
    assert {name: len(node.taken) for name, node in by_name(found).items()} == {"gpu-3": 0, "gpu-3/mig-1g.5gb": 2}


def test_an_empty_resource_is_no_node() -> None:
    assert list(by_name(inventory(cluster_node("a", {GPU: "0", SLICE: "7"}, A100)))) == ["a/mig-1g.5gb"]
    assert not Inventory(settings()).update_node(None, cluster_node("b", {GPU: "0", "cpu": "8"}, {}))


def test_the_second_of_two_vendors_on_one_node_gets_a_name_of_its_own() -> None:
    known = settings().gpu_resources
    assert pool_names("n", (GPU, AMD), known) == {GPU: "n", AMD: "n/gpu"}
    assert pool_names("n", (AMD,), known) == {AMD: "n"}
    assert pool_names("n", (SLICE,), (SLICE,)) == {SLICE: "n"}


def test_static_nodes_may_list_a_resource_each() -> None:
    given = (
        {"name": "a", "gpus": 8},
        {"name": "a", "gpus": 7, "resource": SLICE, "gpu_type": "A100 MIG 1g.5gb"},
        {"name": "b", "gpus": 4, "resource": AMD},
    )
    nodes = static_nodes(settings(static_nodes=given))
    assert [(node.name, node.gpu_type, node.resource) for node in nodes] == [
        ("a", "gpu", GPU),
        ("a/mig-1g.5gb", "a100-mig-1g.5gb", SLICE),
        ("b", "amd", AMD),
    ]
    with pytest.raises(ExecutorError, match="“a” is listed twice"):
        static_nodes(settings(static_nodes=(given[0], given[0])))
