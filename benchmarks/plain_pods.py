"""Pods that only a client creates: how fast the control plane of a benchmark fills its nodes, and at what cost."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from clusters.cluster import Cluster

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec
from springtide.scheduler.executors.kubernetes.homes import Home
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.objects import manifests
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import PODS, Api, Informer, connect
from springtide.scheduler.model import Node, Worker

AT_ONCE = 32

PodBody: TypeAlias = dict[str, Any]


class PlainPods:
    """Creates pods with one GPU each and follows them, as a client without any scheduler would.

    ``body`` returns a new pod without name and node.
    """

    def __init__(self, cluster: Cluster, namespace: str, body: Callable[[], PodBody]) -> None:
        self._namespace = namespace
        self._body = body
        self._api: Api = connect(cluster.kubeconfig)
        self._running: set[str] = set()
        self._changed = asyncio.Event()
        self._informer = Informer(self._api, PODS, namespace, decode_as=Pod, on_change=self._pod_changed)

    async def start(self) -> None:
        await self._informer.start()

    async def close(self) -> None:
        await self._informer.stop()
        await self._api.close()

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is not None:
            runs = after is not None and after.status.phase == "Running"
            (self._running.add if runs else self._running.discard)(pod.metadata.name)
            self._changed.set()

    async def fill(self, name: str, count: int, nodes: Sequence[str] = ()) -> None:
        """Create pods and wait until all run; those for ``nodes`` name them, in turn."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def create(number: int) -> None:
            pod = self._body()
            pod["metadata"]["name"] = f"{name}-{number}"
            if nodes:
                pod["spec"]["nodeName"] = nodes[number % len(nodes)]
            async with slots:
                await self._api.create(PODS, self._namespace, pod)

        await asyncio.gather(*(create(number) for number in range(count)))
        await self._until(count)

    async def remove(self) -> None:
        """Delete all pods, and wait until they are gone."""
        names = [pod.metadata.name for pod in self._informer.items.values()]
        slots = asyncio.Semaphore(AT_ONCE)

        async def delete(name: str) -> None:
            async with slots:
                await self._api.delete(PODS, self._namespace, name, grace=0)

        await asyncio.gather(*map(delete, names))
        await self._until(0)

    async def _until(self, count: int) -> None:
        while len(self._running) != count:
            self._changed.clear()
            await self._changed.wait()


def smallest_pod() -> PodBody:
    """Return the smallest pod with a GPU that does nothing."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "containers": [{"name": "job", "image": "bench/train:1", "resources": resources}],
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec}


def pod_of_job(settings: KubernetesSettings) -> Callable[[], PodBody]:
    """Return a maker of the pods of a job with one GPU."""
    records = LaunchRecords(settings, None)
    records.prepare_volume()
    key, worker = AttemptKey("vplain0000000", 1), Worker(0, "fake-0", (0,))
    node = Node(worker.node, 1, resource=settings.gpu_resources[0])
    spec = AttemptSpec(key, 1, "train", "borrower", "borrower", ("train",), (worker,), 1, 2.0)
    pod = manifests.pod(records.make_record(spec, settings.images[0], Home(), [node]), 0, settings)
    del pod["spec"]["affinity"]
    return lambda: copy.deepcopy(pod)


def stages(pods: Sequence[dict[str, Any]]) -> str:
    """Return when the last pod was created, bound and running, in whole seconds after the first was created.

    A pod that was created on its node was bound by that.
    """
    created = [_moment(pod["metadata"]["creationTimestamp"]) for pod in pods]
    bound = [_since(pod, "PodScheduled") or made for pod, made in zip(pods, created, strict=True)]
    running = [_since(pod, "Ready") or made for pod, made in zip(pods, created, strict=True)]
    first = min(created)
    return ", ".join(
        f"{what} {max(times) - first:.0f} s"
        for what, times in (("created", created), ("bound", bound), ("running", running))
    )


def _since(pod: dict[str, Any], kind: str) -> float | None:
    times = [each["lastTransitionTime"] for each in pod["status"].get("conditions", ()) if each["type"] == kind]
    return _moment(times[0]) if times else None


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
