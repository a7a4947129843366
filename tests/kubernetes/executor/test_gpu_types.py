"""A pool of several GPU types on a cluster: two products, MIG slices and GPUs of another vendor."""

from __future__ import annotations

import asyncio

from benches.kube_bench import KubeBench
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, InventoryChanged
from springtide.scheduler.model import Node, Worker

SLICE, HALF = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"


def add_nodes(bench: KubeBench) -> dict[str, str]:
    """Add a node of each kind; return their names by kind."""
    own = {"springtide.io/pool": bench.namespace, "springtide.io/environment": "train"}
    kinds: dict[str, tuple[dict[str, str], dict[str, int]]] = {
        "a100": ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, {"nvidia.com/gpu": 8}),
        "t4": ({"nvidia.com/gpu.product": "Tesla-T4"}, {"nvidia.com/gpu": 4}),
        "mig": ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, {SLICE: 7, HALF: 2, "nvidia.com/gpu": 0}),
        "amd": ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, {"amd.com/gpu": 8}),
    }
    for kind, (labels, resources) in kinds.items():
        prefix = f"{kind}-{bench.namespace}"
        bench.cluster.add_fake_nodes(1, labels=own | labels, prefix=prefix, resources=resources)
    return {kind: f"{kind}-{bench.namespace}-0" for kind in kinds}


async def inventory(bench: KubeBench, count: int) -> dict[str, Node]:
    async with asyncio.timeout(PATIENCE_S):
        while len(found := {node.name: node for node in await bench.executor.inventory()}) < count:
            await asyncio.sleep(0.1)
    return found


async def test_each_pod_asks_for_the_resource_of_its_gpus_and_runs_on_their_node(bench: KubeBench) -> None:
    names = await asyncio.to_thread(add_nodes, bench)
    await bench.until(lambda: len(bench.of_kind(InventoryChanged)), "news of the inventory")
    nodes = await inventory(bench, 6)
    mig = names["mig"]
    assert {name: (node.gpu_type, node.gpus) for name, node in nodes.items() if name != bench.train_node} == {
        names["a100"]: ("a100-sxm4-40gb", 8),
        names["t4"]: ("t4", 4),
        f"{mig}/mig-1g.5gb": ("a100-sxm4-40gb-mig-1g.5gb", 7),
        f"{mig}/mig-3g.20gb": ("a100-sxm4-40gb-mig-3g.20gb", 2),
        names["amd"]: ("instinct-mi300x-oam", 8),
    }
    wanted = {
        "whole": (Worker(0, names["a100"], (0, 1)), names["a100"], {"nvidia.com/gpu": "2"}),
        "slice": (Worker(0, f"{mig}/mig-1g.5gb", (6,)), mig, {SLICE: "1"}),
        "half": (Worker(0, f"{mig}/mig-3g.20gb", (0, 1)), mig, {HALF: "2"}),
        "amd": (Worker(0, names["amd"], (7,)), names["amd"], {"amd.com/gpu": "1"}),
    }
    for job, (worker, host, limits) in wanted.items():
        status = await bench.up(bench.job(job, placement=(worker,)))
        assert status.placement == (worker,)
        made = bench.pod(job)["spec"]
        assert (made["nodeName"], made["containers"][0]["resources"]["limits"]) == (host, limits)
    assert all(not node.taken for node in (await inventory(bench, 6)).values())


async def test_a_lost_node_takes_the_jobs_on_all_its_resources_with_it(bench: KubeBench) -> None:
    mig = (await asyncio.to_thread(add_nodes, bench))["mig"]
    await inventory(bench, 6)
    for job, size in (("slice", "mig-1g.5gb"), ("half", "mig-3g.20gb")):
        await bench.up(bench.job(job, placement=(Worker(0, f"{mig}/{size}", (0,)),)))
    bench.cluster.remove_nodes([mig])
    for job in ("slice", "half"):
        ended = (await bench.gone(AttemptKey(job, 1))).exit
        assert ended is not None
        assert mig in ended.detail
