"""The agents of the pool's nodes: their newest reports, and the GPUs behind numbered slots."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx
from msgspec.structs import replace

from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.slots import PodPlaces, assign
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import PODS, Api, Informer
from springtide.scheduler.model import Gpu, Node
from springtide.scheduler.resources.device_claims import is_claimed
from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.telemetry.agent.report import MOST_BYTES, NodeReport, ReportedGpu, ReportError, decode
from springtide.scheduler.telemetry.agent.server import REPORT_PATH, TokenError, read_token
from springtide.scheduler.telemetry.machine import Device, islands, sockets
from springtide.scheduler.telemetry.sample import GpuSample

log = logging.getLogger(__name__)


CONCURRENT: Final = 64
"""Maximum number of agents that are asked at a time."""
TIMEOUT_S: Final = 4.0
"""Time in which an agent has to answer completely, in seconds."""


def gpus_of_node(node: Node, only_node: bool, gpus: Sequence[ReportedGpu]) -> list[ReportedGpu]:
    """Return the GPUs of the machine with the resource of ``node``; of claimed GPUs those that it names.

    A GPU with an unknown resource belongs to the only node of its machine. None are returned if there are more
    than the node has slots, as for GPUs shared by time: then they cannot be assigned to slots.
    """
    if is_claimed(node.resource):
        known = {slot.uuid for slot in node.devices}
        return [gpu for gpu in gpus if gpu.uuid in known]
    found = [gpu for gpu in gpus if gpu.resource == node.resource or (only_node and not gpu.resource)]
    return found if len(found) <= node.gpus else []


def claimed_slots(node: Node, gpus: Sequence[ReportedGpu]) -> dict[int, str]:
    """Return the reported GPUs behind the slots of a node whose GPUs are claimed: the claims have said which."""
    reported = {gpu.uuid for gpu in gpus}
    return {slot.index: slot.uuid for slot in node.devices if slot.uuid in reported}


def described(node: Node, slots: Mapping[int, str], gpus: Sequence[ReportedGpu]) -> Node:
    """Return the node with the GPUs behind its slots; with islands and sockets if all of them are known.

    ``gpus`` are all GPUs of its machine.
    """
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    reported = {slot: by_uuid[uuid] for slot, uuid in slots.items() if uuid in by_uuid}
    if not reported:
        return node
    devices = tuple(
        Gpu(gpu.uuid, slot.index, gpu.name or slot.name, gpu.memory_mib, cards=_nearest(gpu))
        if (gpu := reported.get(slot.index))
        else slot
        for slot in node.devices
    )
    if len(reported) < node.gpus:
        return replace(node, devices=devices)
    place = {uuid: slot for slot, uuid in slots.items()}
    all_slots = [
        Device(
            gpu.uuid,
            gpu.name,
            gpu.memory_mib,
            frozenset(place[gpus[other].uuid] for other in gpu.linked if gpus[other].uuid in place),
            gpu.socket,
        )
        for gpu in (reported[slot] for slot in range(node.gpus))
    ]
    found = sockets(all_slots)
    return replace(node, devices=devices, islands=islands(all_slots), sockets=found if len(found) > 1 else ())


def _nearest(gpu: ReportedGpu) -> NearestCards | None:
    return None if gpu.cards is None else NearestCards(gpu.cards.within, gpu.cards.names)


class AgentRequests:
    """Asks agents at their addresses, with the token of a file. What goes wrong is logged once for each node."""

    def __init__(self, port: int, token_file: Path) -> None:
        self._port = port
        self._token_file = token_file
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(limits=limits, timeout=TIMEOUT_S, trust_env=False)
        self._gate = asyncio.Semaphore(CONCURRENT)
        self._wrong: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, NodeReport]:
        """Return the reports of the agents at these addresses, both by node, without those that do not answer."""
        try:
            token = read_token(self._token_file)
        except TokenError as error:
            self._note("", str(error))
            return {}
        self._note("", "")
        found = await asyncio.gather(*(self._report(node, address, token) for node, address in addresses.items()))
        self._wrong = {node: why for node, why in self._wrong.items() if node in addresses or not node}
        return {node: report for node, report in zip(addresses, found, strict=True) if report is not None}

    async def _report(self, node: str, address: str, token: str) -> NodeReport | None:
        try:
            async with self._gate, asyncio.timeout(TIMEOUT_S):
                report = decode(await self._read(address, token))
        except TimeoutError:
            self._note(node, f"It does not answer within {TIMEOUT_S:g} s.")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._note(node, f"It cannot be asked: {error or type(error).__name__}")
        except ReportError as error:
            self._note(node, str(error))
        else:
            self._note(node, report.problem)
            return report
        return None

    async def _read(self, address: str, token: str) -> bytes:
        """Return the answer of an agent, cut off beyond the maximum size of a report."""
        host = f"[{address}]" if ":" in address else address
        headers = {"Authorization": f"Bearer {token}"}
        url, data = f"http://{host}:{self._port}{REPORT_PATH}", bytearray()
        async with self._client.stream("GET", url, headers=headers) as answer:
            answer.raise_for_status()
            async for piece in answer.aiter_raw():
                data += piece
                if len(data) > MOST_BYTES:
                    break
        return bytes(data)

    def _note(self, node: str, why: str) -> None:
        """Log a problem with the agent of a node, when it begins and when it ends."""
        if self._wrong.get(node, "") == why:
            return
        self._wrong[node] = why
        name = f"The agent of the node {node}" if node else "Agents"
        log.warning("%s: %s", name, why) if why else log.info("%s: answers again", name)


class NodeAgents:
    """Asks the agent of each node for its GPUs, and assigns them to the slots of the pool's nodes.

    The cluster has the node and the address of each agent's pod, so an agent cannot report for another node. A GPU
    belongs to the first node that reported it, as long as that node reports it.
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
        """Return the machine of each GPU: the previous one as long as it reports the GPU."""
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

    def assign(self, nodes: Sequence[Node], places: PodPlaces) -> bool:
        """Assign GPUs to the slots of these nodes; return whether the assignment changed.

        ``places`` are the slots of the pool's known pods.
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
        places: PodPlaces,
        before: Mapping[int, str],
    ) -> dict[int, str]:
        if is_claimed(node.resource):
            return claimed_slots(node, gpus)
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
        """Return the nodes with their GPUs, islands and sockets, as far as agents have reported them."""
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
            GpuSample(gpu.uuid, gpu.reading, new_xids=self._new_xids.pop(gpu.uuid, ()))
            for host in sorted(self._answered)
            for gpu in self._gpus(host)
            if gpu.uuid in shown
        ]


def _leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
