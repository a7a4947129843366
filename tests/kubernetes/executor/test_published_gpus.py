"""GPUs published in ResourceSlices: which count, whose they are, and what stands behind the slots of a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from clusters.dra_driver import A100, H100, Device, gpus, pool_slice

from springtide.scheduler.executors.kubernetes.devices.published import PublishedGpus, newest
from springtide.scheduler.executors.kubernetes.devices.templates import claim_template, expression, resource_of
from springtide.scheduler.executors.kubernetes.inventory import Inventory
from springtide.scheduler.executors.kubernetes.objects.api_types import (
    ClusterNode,
    Pod,
    ResourceClaim,
    ResourceSlice,
)
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Node
from springtide.scheduler.resources.device_claims import is_claimed, template_name

DRIVER = "gpu.nvidia.com"
PLACES = {("pool", "st-a-1-0"): ("dgx", (0, 1))}


def settings(**more: Any) -> KubernetesSettings:
    given: dict[str, Any] = {"jobs_claim": "jobs", "device_class": DRIVER, **more}
    return KubernetesSettings("pool", "springtide", Path("/state"), ("hub/train:1",), **given)


def cluster_node(capacity: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> ClusterNode:
    status = {
        "capacity": capacity or {},
        "allocatable": {"cpu": "64", **(capacity or {})},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    meta = {"name": "dgx", "labels": {"springtide.io/environment": "train", **(labels or {})}}
    return msgspec.convert({"metadata": meta, "status": status}, ClusterNode)


def published(devices: list[Device], **more: Any) -> ResourceSlice:
    return msgspec.convert(pool_slice(DRIVER, "dgx", devices, **more), ResourceSlice)


def claim(
    name: str,
    devices: list[str],
    pod: str = "",
    namespace: str = "team",
    *,
    own: bool = False,
    admin: bool = False,
) -> ResourceClaim:
    labels = {"springtide.io/pool": "springtide"} if own else {}
    results = [{"driver": DRIVER, "pool": "dgx", "device": each, "adminAccess": admin} for each in devices]
    uses = [{"resource": "pods", "name": pod, "uid": f"uid-of-{pod}"}] if pod else []
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "labels": labels},
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": uses},
        },
        ResourceClaim,
    )


def inventory(*slices: ResourceSlice, node: ClusterNode | None = None, **more: Any) -> Inventory:
    found = Inventory(settings(**more))
    for each in slices:
        found.update_slice(None, each)
    found.update_node(None, node or cluster_node())
    return found


def seen(of: Inventory, held: tuple[int, ...] = (), places: Any = None) -> Node:
    (node,) = of.nodes({"dgx": held}, fresh=True, places=places or {})
    return node


def numbers(node: Node) -> list[str]:
    """Return the numbers that the driver gave the GPUs behind the slots."""
    return [gpu.uuid.rpartition("-")[2] for gpu in node.devices]


def test_whole_gpus_of_a_node_count_with_uuid_model_and_memory() -> None:
    node = seen(inventory(published(gpus("dgx", 11))))
    assert (node.name, node.gpus, node.gpu_type) == ("dgx", 11, "h100-80gb-hbm3")
    assert is_claimed(node.resource)
    assert numbers(node) == [str(number) for number in range(11)], "10 comes after 9"
    assert {(gpu.name, gpu.memory_mib) for gpu in node.devices} == {(H100, 80 << 10)}
    assert not node.taken


@pytest.mark.parametrize(
    "odd",
    [
        {"attributes": {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}},
        {"attributes": {f"{DRIVER}/type": {"string": "vfio"}}},
        {"consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]},
        {"allowMultipleAllocations": True},
    ],
)
def test_parts_of_gpus_and_gpus_that_may_be_parted_are_left_out(odd: dict[str, Any]) -> None:
    assert seen(inventory(published([*gpus("dgx", 2), {"name": "odd", **odd}]))).gpus == 2


def test_devices_that_several_nodes_reach_are_left_out() -> None:
    everywhere = pool_slice(DRIVER, "", gpus("dgx", 2), pool="fabric")
    found = PublishedGpus()
    assert found.update(None, msgspec.convert(everywhere, ResourceSlice)) == set()
    assert found.of("") == found.of("dgx") == ()


def test_a_driver_without_these_attributes_is_understood() -> None:
    bare: list[Device] = [{"name": f"card{number}"} for number in range(2)]
    node = seen(inventory(published(bare)))
    assert [(gpu.uuid, gpu.memory_mib) for gpu in node.devices] == [("dgx:card0", 0), ("dgx:card1", 0)]
    assert node.gpu_type == "gpu"
    labelled = cluster_node(labels={"nvidia.com/gpu.product": "NVIDIA-L4"})
    assert seen(inventory(published(bare), node=labelled)).gpu_type == "l4"


def test_the_label_of_an_admin_comes_before_the_model_of_the_driver() -> None:
    vendors = {"nvidia.com/gpu.product": "NVIDIA-H100"}
    own = cluster_node(labels={"springtide.io/gpu-type": "big", **vendors})
    assert seen(inventory(published(gpus("dgx", 2)), node=own)).gpu_type == "big"
    usual = cluster_node(labels=vendors)
    assert seen(inventory(published(gpus("dgx", 2)), node=usual)).gpu_type == "h100-80gb-hbm3"


def test_two_models_on_a_node_are_two_nodes_of_the_pool() -> None:
    found = inventory(published([*gpus("dgx", 2), *gpus("dgx", 3, A100, first=2)]))
    nodes = {node.name: (node.gpus, node.gpu_type, numbers(node)) for node in found.nodes({}, fresh=True)}
    assert nodes == {
        "dgx": (2, "h100-80gb-hbm3", ["0", "1"]),
        "dgx/a100-sxm4-40gb": (3, "a100-sxm4-40gb", ["2", "3", "4"]),
    }
    assert found.claim_templates() == [
        ("productName", A100, 1),
        ("productName", A100, 2),
        ("productName", A100, 3),
        *(("productName", H100, number) for number in (1, 2)),
    ]


def test_models_of_one_type_on_a_node_are_nodes_of_different_names() -> None:
    models = ["NVIDIA L4", "NVIDIA-L4", "Tesla L4"]
    devices = [gpu for number, model in enumerate(models) for gpu in gpus("dgx", 1, model, first=number)]
    found = inventory(published(devices))
    nodes = found.nodes({}, fresh=True)
    assert len({node.name for node in nodes}) == 3
    assert {node.gpu_type for node in nodes} == {"l4"}
    assert found.update_node(cluster_node(), None)
    assert found.nodes({}, fresh=True) == ()


def test_a_node_with_extended_resources_counts_those_alone() -> None:
    plugged = cluster_node({"nvidia.com/gpu": "2"})
    found = inventory(published(gpus("dgx", 4)), node=plugged)
    assert (seen(found).gpus, seen(found).resource) == (2, "nvidia.com/gpu")
    assert found.claim_templates() == []
    assert found.update_node(plugged, cluster_node({"nvidia.com/gpu": "0"})), "its device plugin has gone"
    assert seen(found).gpus == 4


def test_the_newest_generation_counts_once_all_its_slices_are_there() -> None:
    first = published(gpus("dgx", 4), generation=1)
    new = [published(gpus("dgx", 2, first=2 * part), generation=2, of=2, part=part) for part in range(2)]
    assert newest([]) is None
    assert newest([first]) == (first,)
    assert newest([first, new[0]]) is None
    assert newest([first, *new]) == tuple(new)
    assert newest([new[0], published(gpus("dgx", 2), generation=2, of=2, part=1)]) is None, "the same names twice"
    assert newest([new[0], published(gpus("dgx", 2, first=2), generation=2, of=3, part=1)]) is None


def test_until_a_pool_is_complete_again_its_gpus_are_there_and_taken_by_nobody() -> None:
    found, first = inventory(), published(gpus("dgx", 4), generation=1)
    assert found.update_slice(None, first)
    second = published(gpus("dgx", 2), generation=2, of=2)
    assert found.update_slice(first, second)
    assert seen(found).takers == dict.fromkeys(range(4), "")
    assert found.update_slice(None, published(gpus("dgx", 1, first=2), generation=2, of=2, part=1))
    assert (seen(found).gpus, seen(found).takers) == (3, {})
    assert found.update_slice(second, None)
    assert seen(found).takers == dict.fromkeys(range(3), "")
    assert found.update_node(cluster_node(), None)
    assert found.nodes({}, fresh=True) == ()


@pytest.mark.parametrize(("effect", "taken"), [("NoSchedule", 1), ("NoExecute", 1), ("PreferNoSchedule", 0)])
def test_a_tainted_gpu_is_taken_by_nobody_unless_a_job_has_it(effect: str, taken: int) -> None:
    tainted = gpus("dgx", 1, first=3, taints=[{"key": "xid", "effect": effect}])
    found = inventory(published([*gpus("dgx", 3), *tainted]))
    node = seen(found, held=(0,), places={})
    assert list(node.takers.values()) == [""] * taken
    assert [gpu.uuid for gpu in node.devices if gpu.index in node.taken] == ["GPU-dgx-3"] * taken
    found.update_claim(None, claim("c", ["gpu-3", "gpu-0"], "st-a-1-0", "pool", own=True))
    node = seen(found, held=(0, 1), places=PLACES)
    assert not node.taken
    assert set(numbers(node)[:2]) == {"0", "3"}


def test_the_slots_of_pods_stand_for_the_gpus_of_their_claims_and_others_take_theirs() -> None:
    found = inventory(published(gpus("dgx", 4)))
    assert found.update_claim(None, claim("own", ["gpu-3", "gpu-2"], "st-a-1-0", "pool", own=True))
    assert found.update_claim(None, claim("b", ["gpu-0"], "bert"))
    assert not found.update_claim(None, claim("watched", ["gpu-1"], "monitor", admin=True))
    node = seen(found, held=(0, 1), places=PLACES)
    assert node.takers == {3: "team/bert"}
    assert numbers(node) == ["2", "3", "1", "0"]
    assert seen(found, held=(0, 1), places=PLACES) == node, "slots keep their GPUs"

    assert found.update_claim(None, claim("kept", ["gpu-1"]))
    assert seen(found, held=(0, 1), places=PLACES).takers == {3: "team/bert", 2: "team/kept"}
    assert found.update_claim(claim("b", ["gpu-0"], "bert"), None)
    assert seen(found, held=(0, 1), places=PLACES).takers == {2: "team/kept"}


def test_a_gpu_that_another_claim_has_by_now_stays_with_it() -> None:
    found = inventory(published(gpus("dgx", 2)))
    first, second = claim("a", ["gpu-0"], "one"), claim("b", ["gpu-0"], "two")
    found.update_claim(None, first)
    found.update_claim(None, second)
    found.update_claim(first, None)
    assert list(seen(found).takers.values()) == ["team/two"]


def test_a_claim_of_another_namespace_with_the_label_of_the_pool_is_foreign() -> None:
    found = inventory(published(gpus("dgx", 2)), notebook_namespace="hub")
    found.update_claim(None, claim("a", ["gpu-0"], "sly", own=True))
    found.update_claim(None, claim("b", ["gpu-1"], "jupyter-susan", "hub", own=True))
    assert list(seen(found).takers.values()) == ["team/sly"]


def test_a_gpu_of_others_moves_to_a_slot_without_a_job_that_starts() -> None:
    found = inventory(published(gpus("dgx", 4)))
    seen(found)
    found.update_claim(None, claim("b", ["gpu-0"], "bert"))
    node = seen(found, held=(0, 1), places=PLACES)
    assert node.takers == {3: "team/bert"}
    assert numbers(node)[3] == "0"


def test_pods_with_claims_leave_the_cores_of_other_gpus_alone() -> None:
    found = inventory(published(gpus("dgx", 4)))
    container = {"resources": {"requests": {"cpu": "32"}}}
    spec = {"nodeName": "dgx", "containers": [container]}
    plain = msgspec.convert({"metadata": {"name": "x", "uid": "x"}, "spec": spec}, Pod)
    claiming = msgspec.convert(
        {"metadata": {"name": "y", "uid": "y"}, "spec": {**spec, "resourceClaims": [{"name": "gpu"}]}}, Pod
    )
    before = seen(found).per_gpu
    assert not found.update_other_pod(None, claiming)
    assert seen(found).per_gpu == before
    assert found.update_other_pod(None, plain)
    assert seen(found).per_gpu.cpus < before.cpus


def test_a_template_asks_for_gpus_of_one_model_and_its_name_says_all_that_it_holds() -> None:
    known = settings()
    made = claim_template("productName", H100, 4, known, "hub")
    resource = resource_of("productName", H100, known)
    assert made["metadata"]["name"] == template_name(resource, 4)
    assert resource.startswith("springtide-h100-80gb-hbm3-")
    (request,) = made["spec"]["spec"]["devices"]["requests"]
    assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == (DRIVER, 4)
    assert made["spec"]["metadata"]["labels"]["springtide.io/pool"] == "springtide"
    others = [
        resource_of("model", H100, known),
        resource_of("productName", A100, known),
        resource_of("productName", H100, settings(device_class="other")),
        resource_of("", "", known),
    ]
    assert len({resource, *others}) == 5


def test_a_model_with_quotes_stays_a_text_in_the_expression() -> None:
    assert r'.productName == "a\" || true || \""' in expression("productName", 'a" || true || "', DRIVER)
