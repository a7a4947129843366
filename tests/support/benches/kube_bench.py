"""An executor on a cluster's fake nodes, for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benches.executor_bench import Bench
from clusters.cluster import Cluster
from clusters.node_images import image
from clusters.real_node import RealNode, volume
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptSpec, AttemptStatus
from springtide.scheduler.executors.kubernetes.executor import KubernetesExecutor
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import Api, connect
from springtide.scheduler.model import Worker

IMAGE = "registry.test/train:1"


class KubeBench(Bench):
    """The bench with fake nodes of the namespace; ``options`` are those of `KubernetesSettings`.

    Each node has 8 GPUs.
    """

    executor: KubernetesExecutor
    names_gpus = False

    def __init__(
        self, cluster: Cluster, namespace: str, state: Path, api: Api | None = None, **options: Any
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.state = state
        self.api = api or connect(cluster.kubeconfig)
        given: dict[str, Any] = {
            "images": (IMAGE,),
            "jobs_host_path": str(state),
            "node_selector": {"springtide.io/pool": namespace},
            "run_as": os.geteuid() or 1000,
        }
        self.settings = KubernetesSettings(
            namespace=namespace, pool=namespace, state_dir=state, **(given | options)
        )
        super().__init__()

    def make(self) -> KubernetesExecutor:
        return KubernetesExecutor(self.settings, self.api)

    @property
    def train_node(self) -> str:
        return f"train-{self.namespace}-0"

    def add_nodes(self, count: int, environment: str = "train", **labels: str) -> list[str]:
        """Add fake nodes to the pool of this namespace."""
        given = {"springtide.io/pool": self.namespace, "springtide.io/environment": environment, **labels}
        return self.cluster.add_fake_nodes(count, labels=given, prefix=f"{environment}-{self.namespace}")

    async def shut(self) -> None:
        """Stop the executor; the removal of the namespace ends the running pods."""
        await self.executor.stop()
        await self.api.close()

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until the condition holds for the observations; a failure shows the cluster's pods."""
        try:
            return await super().until(condition, what)
        except AssertionError as failure:
            pods = [
                (each["metadata"]["name"], each["metadata"].get("deletionTimestamp"), each["status"].get("phase"))
                for each in await asyncio.to_thread(self.pods)
            ]
            logs = [daemon.tail() for daemon in self.cluster.daemons() if daemon.name == "kwok"]
            raise AssertionError("\n".join([str(failure), f"pods: {pods}", *logs])) from None

    # ---------- attempts

    def job(self, job: str = "job", *, gpus: int = 1, size: int = 1, slot: int = 0, **more: Any) -> AttemptSpec:
        """Return an attempt on the first node, from a slot on; a gang has one worker on each slot."""
        node = self.train_node
        placement = tuple(
            Worker(rank, node, tuple(range(slot + rank * gpus, slot + (rank + 1) * gpus))) for rank in range(size)
        )
        return self.spec(("train", "--now"), job=job, size=size, **{"placement": placement, **more})

    async def phase(self, key: AttemptKey, phase: AttemptPhase) -> AttemptStatus:
        """Wait until an attempt has reached a phase."""
        known = await self.status(key)
        if known is not None and known.phase is phase:
            return known
        found: AttemptStatus = await self.until(
            lambda: next(
                (each for each in self.of_kind(AttemptStatus) if each.key == key and each.phase is phase), None
            ),
            f"{key} to be {phase}",
        )
        return found

    async def up(self, spec: AttemptSpec) -> AttemptStatus:
        """Launch an attempt and wait until it runs."""
        await self.executor.launch(spec)
        return await self.phase(spec.key, AttemptPhase.RUNNING)

    # ---------- the cluster, from an admin's view

    def path(self, name: str = "", kind: str = "pods") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def pods(self) -> list[dict[str, Any]]:
        """Return all pods of the namespace, by name."""
        return sorted(self.cluster.items(self.path()), key=lambda pod: str(pod["metadata"]["name"]))

    def pod(self, job: str = "job", attempt: int = 1, rank: int = 0) -> dict[str, Any]:
        """Return the pod of one worker."""
        found: dict[str, Any] = self.cluster.request("GET", self.path(f"st-{job}-{attempt}-{rank}"))
        return found

    def note(self, job: str = "job", rank: int = 0, **notes: str) -> None:
        """Annotate the pod with how the fake node is to end it."""
        annotations = {f"springtide.io/fake-{name.replace('_', '-')}": value for name, value in notes.items()}
        body = {"metadata": {"annotations": annotations}}
        self.cluster.request("PATCH", self.path(f"st-{job}-1-{rank}"), body)

    def end_pod(self, code: int, job: str = "job", rank: int = 0) -> None:
        """End a worker with an exit code."""
        self.cluster.end_pod(self.namespace, f"st-{job}-1-{rank}", code)


class ContainerBench(KubeBench):
    """The bench on real nodes with the notebook image; waits as long as containers take on a busy machine.

    Each node has 2 GPUs.
    """

    patience = 120.0

    def __init__(self, cluster: Cluster, namespace: str, state: Path, *nodes: RealNode, **options: Any) -> None:
        self.nodes = nodes
        given = {"images": (image("notebook"),), "node_selector": {}}
        static = tuple({"name": node.name, "gpus": 2} for node in nodes)
        super().__init__(cluster, namespace, state, static_nodes=static, **(given | options))

    @property
    def train_node(self) -> str:
        return self.nodes[0].name


@asynccontextmanager
async def restricted_bench(
    cluster: Cluster, namespace: str, state: Path, node: RealNode, **options: Any
) -> AsyncIterator[KubeBench]:
    """Yield a started executor in a namespace that accepts restricted pods only; its files are on a claim."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    bench = ContainerBench(cluster, namespace, state, node, jobs_claim="jobs", jobs_host_path=None, **options)
    with volume(cluster, state, claim=(namespace, "jobs")):
        await bench.open()
        yield bench
        await bench.shut()


async def eventually(holds: Callable[[], Any], what: str, patience: float = PATIENCE_S) -> Any:
    """Wait until the condition holds."""
    try:
        async with asyncio.timeout(patience):
            while not (value := await asyncio.to_thread(holds)):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}") from None
    return value
