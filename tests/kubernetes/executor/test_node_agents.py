"""Agents of nodes, asked by the executor: servers at the addresses of pods, with the reports that a test gives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.kube_bench import KubeBench
from clusters.cluster import Cluster
from clusters.control_plane import until
from patience import PATIENCE_S
from servers.ports import free_port

from springtide.scheduler.executors.base import InventoryChanged
from springtide.scheduler.executors.kubernetes import agents as requests
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.model import Node
from springtide.scheduler.telemetry.agent.report import NodeReport, PodGpus, ReportedGpu, XidEvent
from springtide.scheduler.telemetry.agent.server import make_server
from springtide.scheduler.telemetry.sample import GpuSample

WHOLE = "nvidia.com/gpu"
LABELS = {"app": "agent"}


class Agent:
    """The agent of a node with 8 GPUs in two islands; a test changes what it reports."""

    def __init__(self, name: str, address: str) -> None:
        self.address = address
        self.id = "0" * 16
        self.uuids = [f"GPU-{name}-{number}" for number in range(8)]
        self.pods: list[PodGpus] = []
        self.readings: dict[str, Reading] = {}
        self.xids: dict[str, tuple[XidEvent, ...]] = {}

    def report(self) -> NodeReport:
        gpus = [
            ReportedGpu(
                uuid,
                "NVIDIA H100",
                80,
                tuple(other for other in range(8) if other // 4 == at // 4 and other != at),
                at // 4,
                WHOLE,
                self.readings.get(uuid, Reading(utilization=0.5)),
                self.xids.get(uuid, ()),
            )
            for at, uuid in enumerate(self.uuids)
        ]
        return NodeReport(self.id, tuple(gpus), tuple(self.pods))


class AgentsBench:
    """An executor that asks agents, and nodes with agents."""

    def __init__(self, bench: KubeBench, port: int, token: Path) -> None:
        self.bench, self._port, self._token = bench, port, token
        self._stack = ExitStack()
        self._count = 0

    async def add(self, node: str) -> Agent:
        """Run an agent on a node: its pod, and its server at an address of its own."""
        self._count += 1
        agent = Agent(node, f"127.9.{self._port % 250}.{self._count}")
        self._stack.enter_context(serving(agent, self._port, self._token))
        await asyncio.to_thread(self._create_pod, node, agent.address)
        return agent

    def _create_pod(self, node: str, address: str) -> None:
        bench = self.bench
        spec = {"nodeName": node, "containers": [{"name": "agent", "image": "agent"}]}
        body = {"metadata": {"name": f"agent-{node}", "labels": LABELS}, "spec": spec}
        bench.cluster.request("POST", bench.path(), body)
        path = bench.path(f"agent-{node}")
        until(
            lambda: bench.cluster.request("GET", path)["status"].get("phase") == "Running", "the agent's pod runs"
        )
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        bench.cluster.request("PATCH", f"{path}/status", {"status": status})

    async def samples(self, **workspaces: Any) -> dict[str, GpuSample]:
        found = await self.bench.executor.gpu_samples(workspaces.get("workspaces", {}))
        return {each.uuid: each for each in found}

    async def nodes(self) -> dict[str, Node]:
        return {node.name: node for node in await self.bench.executor.inventory()}

    async def known(self, *agents: Agent) -> None:
        """Ask until these agents have answered twice, so that their GPUs are where they were."""

        async def told() -> bool:
            await self.samples()
            uuids = (await self.samples()).keys()
            return all(uuid in uuids for agent in agents for uuid in agent.uuids)

        async with asyncio.timeout(PATIENCE_S):
            while not await told():
                await asyncio.sleep(0.1)

    def close(self) -> None:
        self._stack.close()


@contextmanager
def serving(agent: Agent, port: int, token: Path) -> Iterator[None]:
    server = make_server((agent.address, port), agent.report, token)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
async def agents(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentsBench]:
    monkeypatch.setattr(requests, "TIMEOUT_S", PATIENCE_S)
    token, port = tmp_path / "token", free_port()
    token.write_text("t" * 64)
    bench = KubeBench(
        cluster,
        namespace,
        tmp_path / "state",
        agent_port=port,
        agent_labels=LABELS,
        agent_token_file=str(token),
    )
    bench.add_nodes(2)
    found = AgentsBench(bench, port, token)
    await bench.open()
    yield found
    await bench.shut()
    found.close()


async def test_a_node_shows_the_gpus_islands_and_sockets_that_its_agent_tells(agents: AgentsBench) -> None:
    name = agents.bench.train_node
    assert (await agents.nodes())[name].devices[0].uuid == f"{name}/0"
    agent = await agents.add(name)
    await agents.known(agent)
    node = (await agents.nodes())[name]
    assert [gpu.uuid for gpu in node.devices] == agent.uuids
    assert node.islands == node.sockets == ((0, 1, 2, 3), (4, 5, 6, 7))
    await agents.bench.until(lambda: agents.bench.of_kind(InventoryChanged), "the change of the inventory")
    others = [each for each in (await agents.nodes()).values() if each.name != name]
    assert [(each.islands, each.devices[0].uuid) for each in others] == [((), f"{others[0].name}/0")]


async def test_the_slots_of_a_job_stand_for_the_gpus_that_the_kubelet_gave_its_pod(agents: AgentsBench) -> None:
    agent = await agents.add(agents.bench.train_node)
    await agents.known(agent)
    await agents.bench.up(agents.bench.job(gpus=2))
    agent.pods = [PodGpus(agents.bench.namespace, "st-job-1-0", (agent.uuids[6], agent.uuids[3]))]
    moved = await agents.samples()
    node = (await agents.nodes())[agents.bench.train_node]
    assert [gpu.uuid for gpu in node.devices[:2]] == [agent.uuids[3], agent.uuids[6]]
    assert node.islands[0] == tuple(sorted(node.islands[0]))
    assert {0, 1} & set(node.islands[0]) in ({0}, {1})  # one of them in each island
    assert {agent.uuids[3], agent.uuids[6]} & moved.keys() == set()  # nobody knows who held them until now
    assert (await agents.samples())[agent.uuids[3]].reading.utilization == 0.5


async def test_a_notebooks_gpus_are_those_of_its_pod(agents: AgentsBench) -> None:
    bench = agents.bench
    [build] = bench.add_nodes(1, "build")
    agent = await agents.add(build)
    await agents.known(agent)
    metadata = {
        "name": "jupyter-susan",
        "labels": {"springtide.io/workspace": "yes"},
        "annotations": {"hub.jupyter.org/username": "susan", "hub.jupyter.org/servername": ""},
    }
    limits = {"resources": {"limits": {WHOLE: "1"}}}
    spec = {"nodeName": build, "containers": [{"name": "notebook", "image": "n", **limits}]}
    await asyncio.to_thread(bench.cluster.request, "POST", bench.path(), {"metadata": metadata, "spec": spec})
    agent.pods = [PodGpus(bench.namespace, "jupyter-susan", (agent.uuids[5],))]
    places = {("susan", ""): (build, (2,))}

    async with asyncio.timeout(PATIENCE_S):
        while (await agents.nodes())[build].devices[2].uuid != agent.uuids[5]:
            await agents.samples(workspaces=places)


async def test_xid_errors_are_new_once_also_after_an_answer_that_was_lost(agents: AgentsBench) -> None:
    agent = await agents.add(agents.bench.train_node)
    await agents.known(agent)
    gpu = agent.uuids[1]

    async def new() -> tuple[int, ...]:
        return (await agents.samples())[gpu].new_xids

    agent.xids = {gpu: (XidEvent(0, 31), XidEvent(1, 79))}
    assert [await new(), await new()] == [(31, 79), ()]
    agent.xids = {gpu: (XidEvent(1, 79), XidEvent(2, 48))}
    assert [await new(), await new()] == [(48,), ()]
    agent.id, agent.xids = "1" * 16, {gpu: (XidEvent(0, 62),)}  # it was started again
    assert [await new(), await new()] == [(62,), ()]


async def test_a_node_speaks_for_its_own_gpus_and_pods_only(agents: AgentsBench) -> None:
    first, second = sorted(await agents.nodes())
    honest, liar = await agents.add(first), await agents.add(second)
    await agents.known(honest, liar)
    await agents.bench.up(agents.bench.job(gpus=2))
    honest.pods = [PodGpus(agents.bench.namespace, "st-job-1-0", tuple(honest.uuids[:2]))]
    liar.uuids = [*honest.uuids[:4], *liar.uuids[4:]]
    liar.readings = dict.fromkeys(liar.uuids, Reading(lost=True))
    liar.pods = [PodGpus(agents.bench.namespace, "st-job-1-0", tuple(liar.uuids[4:6]))]
    await agents.samples()
    found = await agents.samples()
    nodes = await agents.nodes()
    assert [gpu.uuid for gpu in nodes[first].devices] == honest.uuids
    assert {uuid for uuid, each in found.items() if each.reading.lost} == set(liar.uuids[4:])
    assert set(honest.uuids) <= found.keys()


async def test_an_agent_that_is_away_or_talks_nonsense_keeps_its_gpus_without_readings(
    agents: AgentsBench, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = sorted(await agents.nodes())
    here, broken = await agents.add(first), await agents.add(second)
    await agents.known(here, broken)
    caplog.clear()
    uuid = broken.uuids[0]
    broken.uuids = broken.uuids * 40
    assert (await agents.samples()).keys() == set(here.uuids)
    assert (await agents.nodes())[second].devices[0].uuid == uuid
    assert sum(second in record.getMessage() for record in caplog.records) == 1
    await agents.samples()
    assert sum(second in record.getMessage() for record in caplog.records) == 1


async def test_without_the_token_agents_tell_nothing(agents: AgentsBench, tmp_path: Path) -> None:
    agent = await agents.add(agents.bench.train_node)
    await agents.known(agent)
    (tmp_path / "token").write_text("")
    assert await agents.samples() == {}
    (tmp_path / "token").write_text("t" * 64)
    await agents.known(agent)


async def test_a_restarted_executor_knows_the_topology_before_it_plans(agents: AgentsBench) -> None:
    agent = await agents.add(agents.bench.train_node)
    await agents.known(agent)
    await agents.bench.restart()
    assert (await agents.nodes())[agents.bench.train_node].islands == ((0, 1, 2, 3), (4, 5, 6, 7))
