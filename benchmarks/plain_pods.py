"""Pods that nothing of ours makes: how fast the control plane of a benchmark fills its nodes, and at what cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cluster import Cluster

from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.kube import PODS, Api, Informer, connect

AT_ONCE = 32


class PlainPods:
    """Creates pods with one GPU each and follows them, as a client without any scheduler would."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._namespace = namespace
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
            node = nodes[number % len(nodes)] if nodes else None
            async with slots:
                await self._api.create(PODS, self._namespace, _pod(f"{name}-{number}", node))

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


def _pod(name: str, node: str | None) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    spec: dict[str, Any] = {
        "containers": [{"name": "job", "image": "bench/train:1", "resources": resources}],
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
    }
    if node is not None:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


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
