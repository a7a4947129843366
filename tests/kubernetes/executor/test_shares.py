"""The cores and the memory that come with each GPU of a cluster's node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.kubernetes.inventory import Inventory
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

GIB = 1 << 30
NODE: dict[str, Any] = {
    "metadata": {"name": "gpu-1", "labels": {"springtide.io/environment": "train"}},
    "status": {
        "capacity": {"nvidia.com/gpu": "8", "cpu": "64", "memory": "528482304Ki"},
        "allocatable": {"nvidia.com/gpu": "8", "cpu": "63770m", "memory": f"{500 * 1024 * 1024}Ki"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def inventory(**more: Any) -> Inventory:
    return Inventory(KubernetesSettings("pool", "springtide", Path("/state"), ("i",), jobs_claim="jobs", **more))


def node(**status: Any) -> ClusterNode:
    return msgspec.convert({**NODE, "status": {**NODE["status"], **status}}, ClusterNode)


def pod(uid: str, phase: str = "Running", host: str = "gpu-1", **requests: str) -> Pod:
    containers = [
        {"resources": {"requests": {name.replace("gpu", "nvidia.com/gpu"): of}}} for name, of in requests.items()
    ]
    return msgspec.convert(
        {
            "metadata": {"name": uid, "uid": uid},
            "spec": {"nodeName": host, "containers": containers},
            "status": {"phase": phase},
        },
        Pod,
    )


def per_gpu(of: Inventory) -> PerGpu:
    [found] = of.nodes({}, fresh=True)
    train = of.train_node("gpu-1")
    assert train is not None
    assert train.per_gpu == found.per_gpu
    return found.per_gpu


def test_each_gpu_comes_with_an_equal_part_of_what_the_node_offers_to_pods() -> None:
    pool = inventory()
    assert pool.update_node(None, node())
    assert per_gpu(pool) == PerGpu(7.9, 62.5 * GIB)


def test_pods_that_hold_no_gpus_take_from_all_gpus_until_they_end() -> None:
    pool = inventory()
    pool.update_node(None, node())
    assert pool.update_other_pod(None, pod("daemon", cpu="6", memory="9Gi"))
    assert per_gpu(pool) == PerGpu(7.2, 61.25 * GIB)
    assert not pool.update_other_pod(None, pod("small", cpu="10m", memory="16Mi")), "less than a step"
    assert pool.update_other_pod(pod("daemon", cpu="6", memory="9Gi"), pod("daemon", "Succeeded", cpu="6"))
    assert not pool.update_other_pod(pod("daemon", "Succeeded", cpu="6"), None)
    assert per_gpu(pool) == PerGpu(7.9, 62.25 * GIB)
    pool.update_other_pod(pod("small", cpu="10m", memory="16Mi"), None)
    assert per_gpu(pool) == PerGpu(7.9, 62.5 * GIB)


def test_pods_with_gpus_have_what_these_come_with() -> None:
    pool = inventory()
    pool.update_node(None, node())
    assert pool.update_other_pod(None, pod("other", cpu="8", gpu="1")), "a slot is taken"
    assert per_gpu(pool) == PerGpu(7.9, 62.5 * GIB)


def test_pods_that_were_there_before_their_node_was_known_count() -> None:
    pool = inventory()
    assert not pool.update_other_pod(None, pod("early", cpu="31770m"))
    pool.update_node(None, node())
    assert per_gpu(pool).cpus == 4.0


def test_a_node_that_offers_less_is_another_node() -> None:
    pool = inventory()
    pool.update_node(None, node())
    allocatable = {**NODE["status"]["allocatable"], "cpu": "32"}
    assert pool.update_node(node(), node(allocatable=allocatable))
    assert per_gpu(pool).cpus == 4.0
    assert pool.update_node(node(allocatable=allocatable), node(allocatable={"nvidia.com/gpu": "8"}))
    assert per_gpu(pool) == UNSPECIFIED, "nothing is known"


def test_something_is_left_for_a_gpu_also_of_a_full_node() -> None:
    pool = inventory()
    pool.update_node(None, node())
    pool.update_other_pod(None, pod("all", cpu="90", memory="900Gi"))
    assert per_gpu(pool) == PerGpu(0.1, 256 << 20)


CPU_NODE = {"cpu": "2", "memory": "7Gi"}


def host(name: str, spec: Any = None, **allocatable: str) -> ClusterNode:
    """A node without GPUs."""
    status = {"allocatable": allocatable, "conditions": NODE["status"]["conditions"]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec or {}, "status": status}, ClusterNode)


def test_a_job_without_gpus_has_by_default_no_more_than_one_gpu_comes_with() -> None:
    pool = inventory(cpu_per_gpu=16, memory_per_gpu=64)
    assert pool.part_without_gpus() == UNSPECIFIED, "no node is known"
    pool.update_node(None, node())
    assert pool.part_without_gpus() == PerGpu(7.9, 62.5 * GIB)


def test_a_job_without_gpus_has_by_default_no_more_than_the_roomiest_node_that_takes_it() -> None:
    pool = inventory(cpu_per_gpu=4, memory_per_gpu=16)
    pool.update_node(None, host("small", **CPU_NODE))
    assert pool.part_without_gpus() == PerGpu(2.0, 7 * GIB)
    taint = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
    for spec in (taint, {"unschedulable": True}):
        pool.update_node(None, host("closed", spec, cpu="64", memory="512Gi"))
        assert pool.part_without_gpus() == PerGpu(2.0, 7 * GIB)
    pool.update_other_pod(None, pod("dns", host="small", cpu="500m"))
    assert pool.part_without_gpus() == PerGpu(1.5, 7 * GIB)
    pool.update_node(None, host("large", cpu="64", memory="512Gi"))
    assert pool.part_without_gpus() == PerGpu(64.0, 512 * GIB)


def test_nodes_of_the_settings_may_say_what_a_job_without_gpus_has_by_default() -> None:
    small = {"name": "a", "gpus": 4, "cpus": 10, "memory": "64Gi"}
    assert inventory(cpu_per_gpu=4, static_nodes=(small,)).part_without_gpus() == PerGpu(2.5, 16 * GIB)
    assert inventory(static_nodes=({"name": "a", "gpus": 4},)).part_without_gpus() == UNSPECIFIED


def test_nodes_of_the_settings_may_say_what_they_have() -> None:
    [found] = inventory(static_nodes=({"name": "a", "gpus": 4, "cpus": 10, "memory": "64Gi"},)).nodes(
        {}, fresh=True
    )
    assert found.per_gpu == PerGpu(2.5, 16 * GIB)
    with pytest.raises(ExecutorError, match="is not an amount of memory such as 16Gi"):
        inventory(static_nodes=({"name": "a", "gpus": 4, "memory": "much"},))
