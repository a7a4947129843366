"""The contract of all executors, for the Kubernetes executor with real pods on a real node.

Its tests run at once, each in a namespace of its own: they mostly wait for the kubelet, which looks at its
containers once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from benches.executor_contract import ExecutorContract
from benches.kube_bench import KubeBench
from clusters.cluster import Cluster
from clusters.node_images import image
from clusters.real_node import GROUP, OWNER, RealNode

AT_ONCE = 6
GPUS_OF_ONE = 4
OURS = "springtide.io/contract"


def _cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tests of the contract with their arguments, one for each set of parameters."""
    for name, test in vars(ExecutorContract).items():
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        assert len(marks) <= 1, f"{name} has several sets of parameters"
        if not marks:
            yield name, {}
        for mark in marks:
            names, values = mark.args
            for number, each in enumerate(values):
                one = isinstance(names, str)
                yield f"{name}-{number}", {names: each} if one else dict(zip(names, each, strict=True))


CONTRACT = dict(_cases())
"""Arguments of each test of the contract, by its name, with a number where it has parameters."""


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
            node_selector={OURS: "yes"},
            run_as=OWNER,
            fs_group=GROUP,
        )

    @property
    def train_node(self) -> str:
        return self._node.name

    @property
    def python(self) -> str:
        return "python3"


class Contract:
    """The tests of the contract, which run in a thread of their own, ``AT_ONCE`` at a time."""

    def __init__(self, cluster: Cluster, node: RealNode, directory: Path) -> None:
        self._cluster = cluster
        self._node = node
        self._directory = directory
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()

    def begin(self, name: str) -> Future[None]:
        """Begin a test; the result is its outcome."""
        return asyncio.run_coroutine_threadsafe(self._run(name), self._loop)

    def close(self) -> None:
        """End the tests that still run."""
        asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self, name: str) -> None:
        with ExitStack() as stack:
            async with self._turns:
                namespace = await asyncio.to_thread(stack.enter_context, self._cluster.namespace())
                try:
                    await self._keep(name, namespace)
                finally:
                    await asyncio.to_thread(stack.close)

    async def _keep(self, name: str, namespace: str) -> None:
        bench = RealBench(self._cluster, namespace, self._directory / name, self._node)
        await bench.open()
        try:
            await getattr(ExecutorContract(), name.partition("-")[0])(bench, **CONTRACT[name])
        finally:
            await bench.close()
            await bench.api.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, cluster: Cluster, real_node: RealNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """The outcome of each test of the contract that is to run."""
    items = [item for item in request.session.items if item.path == request.path]
    wanted = [str(item.callspec.params["name"]) for item in items if isinstance(item, pytest.Function)]
    real_node.set_gpus(AT_ONCE * GPUS_OF_ONE)
    real_node.label({OURS: "yes"})
    labels = {OURS: "yes", "springtide.io/environment": "build"}
    build_nodes = cluster.add_fake_nodes(1, labels=labels, prefix="contract-build")
    for name in build_nodes:  # a fake node runs no program: a pod without GPUs must not choose it
        cluster.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    contract = Contract(cluster, real_node, tmp_path_factory.mktemp("contract"))
    try:
        yield {name: contract.begin(name) for name in wanted}
    finally:
        contract.close()
        cluster.remove_nodes(build_nodes)
        real_node.label({OURS: None})


@pytest.mark.parametrize("name", CONTRACT)
def test_the_kubernetes_executor_keeps_the_contract(outcomes: dict[str, Future[None]], name: str) -> None:
    outcomes[name].result()
