"""The agent on a real node, asked by the real service: kubelet, device plugin, and a C library in NVML's place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from clusters.cluster import Cluster
from clusters.control_plane import until
from clusters.device_plugin import device_plugin
from clusters.kube_product import Member, Product, member, product
from clusters.real_node import GPU_RESOURCE, SIMULATED_LABEL, NodeNetwork
from machines.nvml_library import Driver, build

from springtide.scheduler.wire import NodeView, Submission

MINE = {"example.com/tests": "agents"}
GPUS = [f"GPU-{index:08d}" for index in range(4)]
WAITS = """
import os, time
print("mine:", *sorted(os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")), flush=True)
time.sleep(600)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    """Four GPUs in two islands; the first is used by a tenth, each other by a tenth more."""
    folder = tmp_path / "nvml"
    folder.mkdir()
    driver = Driver(folder / "state", build(folder))
    driver.add(4)
    for index in range(4):
        driver[index].linked, driver[index].utilization = 1 << (index ^ 1), 10 * (index + 1)
    return driver


@pytest.fixture
def gpu_node(
    cluster: Cluster, node_network: NodeNetwork, driver: Driver, tmp_path: Path
) -> Iterator[tuple[Product, Member]]:
    """The product on a node whose kubelet gives out these GPUs, with an agent; and a member of a project."""
    with ExitStack() as stack:
        labels = {"springtide.io/environment": "train", SIMULATED_LABEL: None, **MINE}
        node = stack.enter_context(node_network.node("real-gpus", labels=labels))
        stack.enter_context(device_plugin(node.root, GPU_RESOURCE, [GPUS[:2], GPUS[2:]]))
        agents = stack.enter_context(cluster.namespace())
        values = {"agent": _agent(agents, tmp_path / "nvml"), "train": {"nodeSelector": MINE}}
        made = stack.enter_context(product(cluster, {node.name: node}, tmp_path, {"vision": ["susan"]}, values))
        yield made, stack.enter_context(member(made, "susan"))


def _agent(namespace: str, nvml: Path) -> dict[str, Any]:
    return {
        "enabled": True,
        "namespace": {"name": namespace},
        "extraEnv": [
            {"name": "NVML_STATE", "value": "/nvml/state"},
            {"name": "LD_LIBRARY_PATH", "value": "/nvml"},
        ],
        "extraVolumes": [{"name": "nvml", "hostPath": {"path": str(nvml), "type": "Directory"}}],
        "extraVolumeMounts": [{"name": "nvml", "mountPath": "/nvml"}],
    }


def test_islands_use_and_faults_of_a_nodes_gpus_reach_the_pool(
    gpu_node: tuple[Product, Member], driver: Driver
) -> None:
    installed, susan = gpu_node

    def node() -> NodeView:
        [found] = susan.pool.pool().nodes
        return found

    try:
        until(lambda: node().islands == [[0, 1], [2, 3]], "the islands are known", timeout_s=180)
    except TimeoutError as error:
        error.add_note(f"{node()}\n{installed.words()}")
        raise
    assert ([gpu.uuid for gpu in node().gpus], node().simulated) == (GPUS, False)

    argv = ["python3", "-c", WAITS]
    job = susan.pool.submit(Submission(project="vision", name="pair", argv=argv, gpus=2, require="island")).id
    measured = susan.until("its use is measured", job, lambda each: bool(each.usage and each.usage.gpus == 2))
    held = sorted(gpu.uuid for gpu in measured.held)
    assert held in (GPUS[:2], GPUS[2:])
    until(lambda: f"mine: {' '.join(held)}" in susan.pool.log(job).text, "the job prints its GPUs")
    assert measured.usage is not None
    assert measured.usage.utilization == pytest.approx(0.15 if held == GPUS[:2] else 0.35)
    assert not measured.usage.simulated

    driver.raise_xid(GPUS.index(held[0]), 79)
    susan.until("the job has to leave", job, lambda each: each.state in {"pausing", "paused"})
    drain = node().drain
    assert drain is not None
    assert (drain.by, drain.finish) == ("springtide", True)
    assert held[0] in drain.why
    assert drain.why.endswith("It reported the Xid error 79: the GPU has fallen off the bus.")
