"""The contract of all executors, for the Kubernetes executor with real pods on a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cluster import Cluster
from executor_contract import ExecutorContract
from kube_bench import KubeBench
from node_images import image
from real_node import GROUP, OWNER, RealNode

GPUS = 4
OURS = {"springtide.io/contract": "yes"}


class RealBench(KubeBench):
    """A real node in the pool, whose pods run the notebook image."""

    def __init__(self, cluster: Cluster, namespace: str, state: Path, node: RealNode) -> None:
        self._node = node
        super().__init__(
            cluster,
            namespace,
            state,
            images=(image("notebook"),),
            image_pull_policy="Never",
            node_selector=OURS,
            run_as=OWNER,
            fs_group=GROUP,
        )

    @property
    def train_node(self) -> str:
        return self._node.name

    @property
    def python(self) -> str:
        return "python3"


class TestKubernetesExecutor(ExecutorContract):
    @pytest.fixture
    async def bench(
        self, cluster: Cluster, namespace: str, tmp_path: Path, real_node: RealNode
    ) -> AsyncIterator[RealBench]:
        bench = RealBench(cluster, namespace, tmp_path / "state", real_node)
        real_node.set_gpus(GPUS)
        real_node.label(OURS)
        bench.add_nodes(1, "build", **OURS)
        await bench.open()
        yield bench
        await bench.close()
        await bench.api.close()
