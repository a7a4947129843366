"""The agents of the pool's nodes, and what they told last."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

from springtide.scheduler.executors.kubernetes.agents.requests import AgentRequests
from springtide.scheduler.executors.kubernetes.agents.slots import assign, described, gpus_of_node
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import PODS, Api, Informer
from springtide.scheduler.model import Node
from springtide.scheduler.telemetry.agent.report import NodeReport, ReportedGpu
from springtide.scheduler.telemetry.sample import GpuSample

log = logging.getLogger(__name__)

PodName: TypeAlias = tuple[str, str]
"""Namespace and name of a pod."""
Place: TypeAlias = tuple[str, tuple[int, ...]]
"""A node of the pool, and slots of it."""


class NodeAgents:
    """Asks the agent of each node, and knows from it which GPUs are behind the slots of the pool's nodes.

    A node is known by the agent's pod, whose node and address the cluster tells: an agent cannot speak for another
    node, and a GPU belongs to the node that told of it first, for as long as that has it.
    """

    def __init__(self, settings: KubernetesSettings, api: Api, port: int) -> None:
        labels = ",".join(f"{name}={value}" for name, value in sorted(settings.agent_labels.items()))
        namespace = settings.agent_namespace or settings.namespace
        self._pods = Informer(api, PODS, namespace, labels=labels, decode_as=Pod)
        self._requests = AgentRequests(port, Path(settings.agent_token_file))
        self._started = AsyncExitStack()
        self._reports: dict[str, NodeReport] = {}
        self._owners: dict[str, str] = {}
        self._disputed: dict[str, list[str]] = {}
        self._answered: set[str] = set()
        self._slots: dict[str, dict[int, str]] = {}
        self._moved: set[str] = set()
        self._new_xids: dict[str, tuple[int, ...]] = {}
        self._next_xid: dict[str, tuple[str, int]] = {}

    async def start(self) -> None:
        """Follow the pods of agents. Raises `ApiError`."""
        await self._started.enter_async_context(self._requests)
        await self._pods.start()
        self._started.push_async_callback(self._pods.stop)

    async def close(self) -> None:
        """Stop following them."""
        await self._started.aclose()

    async def read(self) -> None:
        """Ask all agents. A node whose agent does not answer keeps its GPUs, and has no readings."""
        addresses = {
            pod.spec.node_name: pod.status.pod_ip
            for pod in self._pods.items.values()
            if pod.spec.node_name and pod.status.pod_ip and pod.status.phase == "Running" and not _leaving(pod)
        }
        reports = await self._requests.reports(addresses)
        self._reports = {host: each for host, each in self._reports.items() if host in addresses} | reports
        self._answered = set(reports)
        self._owners = self._owners_now()
        self._new_xids = {gpu: xids for gpu, xids in self._new_xids.items() if gpu in self._owners}
        for host, report in reports.items():
            self._take_in_xids(host, report)

    def _owners_now(self) -> dict[str, str]:
        """Return the machine of each GPU: the one from before as long as it tells of the GPU."""
        claims: dict[str, list[str]] = defaultdict(list)
        for host, report in sorted(self._reports.items()):
            for gpu in report.gpus:
                claims[gpu.uuid].append(host)
        owners = {
            uuid: before if (before := self._owners.get(uuid, "")) in hosts else hosts[0]
            for uuid, hosts in claims.items()
        }
        disputed = {uuid: hosts for uuid, hosts in claims.items() if len(hosts) > 1}
        for uuid, hosts in disputed.items():
            if hosts != self._disputed.get(uuid):
                log.warning("The GPU %s is reported by %s; it counts as one of %s", uuid, hosts, owners[uuid])
        self._disputed = disputed
        return owners

    def _gpus(self, host: str) -> list[ReportedGpu]:
        """Return the GPUs of a machine."""
        return [gpu for gpu in self._reports[host].gpus if self._owners[gpu.uuid] == host]

    def _take_in_xids(self, host: str, report: NodeReport) -> None:
        agent, following = self._next_xid.get(host, ("", 0))
        if agent != report.agent:
            following = 0
        for gpu in self._gpus(host):
            new = tuple(event.xid for event in gpu.xids if event.seq >= following)
            if new:
                self._new_xids[gpu.uuid] = (*self._new_xids.get(gpu.uuid, ()), *new)
        seen = (event.seq + 1 for gpu in report.gpus for event in gpu.xids)
        self._next_xid[host] = report.agent, max(following, *seen, 0)

    def pods(self) -> set[PodName]:
        """Return the pods that have GPUs, as far as agents tell."""
        return {(pod.namespace, pod.name) for report in self._reports.values() for pod in report.pods}

    def assign(self, nodes: Sequence[Node], places: Mapping[PodName, Place]) -> bool:
        """Find out which GPUs are behind the slots of these nodes; return whether that changed.

        ``places`` are the slots of the pods that the pool knows.
        """
        before, self._slots = self._slots, {}
        count = Counter(machine_of(node.name) for node in nodes)
        for node in nodes:
            host = machine_of(node.name)
            if host in self._reports:
                of_node = gpus_of_node(node, count[host] == 1, self._gpus(host))
                self._slots[node.name] = self._slots_of(node, host, of_node, places, before.get(node.name, {}))
        self._moved = {
            gpu
            for name, slots in self._slots.items()
            for slot, gpu in slots.items()
            if before.get(name, {}).get(slot) != gpu
        }
        return before != self._slots

    def _slots_of(
        self,
        node: Node,
        host: str,
        gpus: Sequence[ReportedGpu],
        places: Mapping[PodName, Place],
        before: Mapping[int, str],
    ) -> dict[int, str]:
        held: dict[tuple[int, ...], tuple[str, ...]] = {}
        others: set[str] = set()
        for pod in self._reports[host].pods:
            place = places.get((pod.namespace, pod.name))
            if place is not None and place[0] == node.name:
                held[place[1]] = pod.gpus
            else:
                others.update(pod.gpus)
        return assign(node, [gpu.uuid for gpu in gpus], held, others, before)

    def describe(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return the nodes with their GPUs, islands and sockets, as far as agents told of them."""
        return tuple(
            described(node, self._slots[node.name], self._reports[machine_of(node.name)].gpus)
            if node.name in self._slots and machine_of(node.name) in self._reports
            else node
            for node in nodes
        )

    def samples(self) -> list[GpuSample]:
        """Return the readings of the GPUs whose agents answered, except those whose slot has changed just now.

        It is not known which job held these in the time that the readings are for. Their Xid errors come with the
        next ones.
        """
        shown = {gpu for slots in self._slots.values() for gpu in slots.values()} - self._moved
        return [
            gpu.reading.sample(gpu.uuid, self._new_xids.pop(gpu.uuid, ()))
            for host in sorted(self._answered)
            for gpu in self._gpus(host)
            if gpu.uuid in shown
        ]


def _leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
