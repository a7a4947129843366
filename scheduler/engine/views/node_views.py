"""Views of the nodes with who holds each GPU, made anew only if something has changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.engine.state.borrowing import Borrowing, Bound
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.places import GpuKey, GpuPlaces
from springtide.scheduler.engine.state.state import State, has_no_place
from springtide.scheduler.engine.views.shown_state import shown_state
from springtide.scheduler.model import Environment, Node, Placement
from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import DrainRecord, GpuDrainRecord

FOREIGN = "foreign"
"""The kind of holders outside the pool."""


class GpuLabels:
    """Labels of the GPUs of ``nodes``: ``train 3`` on the only train node, ``dgx-1 3`` if there are several.

    ``places`` has the place of each GPU; one without a place is labelled by its UUID.
    """

    def __init__(self, nodes: Sequence[Node], places: GpuPlaces) -> None:
        self.nodes = nodes
        self._places = places
        self._by_name = {node.name: node for node in nodes}
        train = (node for node in nodes if node.environment is Environment.TRAIN and node.gpus)
        self._train_types = {node.gpu_type for node in train}
        counts = {
            environment: sum(1 for node in nodes if node.environment is environment) for environment in Environment
        }
        self._prefix = {
            node.name: node.environment.value if counts[node.environment] == 1 else node.name for node in nodes
        }

    def shown_type(self, gpu_type: str) -> str:
        """Return a GPU type; empty if the train nodes have no other."""
        return gpu_type if len(self._train_types) > 1 else ""

    def node(self, name: str) -> Node | None:
        """Return a node, None if it is not there any more."""
        return self._by_name.get(name)

    def label(self, node: str, index: int) -> str:
        """Return the display label of a GPU."""
        return f"{self._prefix.get(node, node)} {index}"

    def label_of(self, gpu: str) -> str:
        """Return the display label of the GPU with this identity."""
        place = self._places.of(gpu)
        return gpu if place is None else self.label(*place)

    def uuid(self, node: str, index: int) -> str:
        """Return the UUID of a GPU; ``node/index`` if the node does not report one."""
        known = self._by_name.get(node)
        for gpu in known.devices if known is not None else ():
            if gpu.index == index:
                return gpu.uuid
        return f"{node}/{index}"

    def simulated(self, node: str) -> bool:
        """Return whether the node's GPUs are simulated."""
        known = self._by_name.get(node)
        return known is not None and any(gpu.simulated for gpu in known.devices)

    def refs(self, placement: Placement, borrowed: int = 0) -> list[wire.GpuRef]:
        """Return the GPUs of a placement; the last ``borrowed`` of them are marked as borrowed."""
        flat = [ref for each in placement for ref in self.of_worker(each.node, each.gpus, each.uuids)]
        first_borrowed = len(flat) - borrowed
        return [
            replace(ref, borrowed=True) if position >= first_borrowed else ref for position, ref in enumerate(flat)
        ]

    def of_worker(self, node: str, gpus: Sequence[int], uuids: Sequence[str]) -> list[wire.GpuRef]:
        """Return GPUs of one holder: where they are now, or under their UUIDs where they were."""
        if not uuids:
            return [
                wire.GpuRef(node=node, index=index, uuid=self.uuid(node, index), label=self.label(node, index))
                for index in gpus
            ]
        found = []
        for gpu, index in zip(uuids, gpus, strict=True):
            place = self._places.of(gpu)
            name, at = place or (node, index)
            uuid = gpu if place is None else self.uuid(name, at)
            found.append(wire.GpuRef(node=name, index=at, uuid=uuid, label=self.label_of(gpu)))
        return found


@dataclass(frozen=True, slots=True)
class _Holding:
    """The holders of a job's GPUs, as they follow from its record and from where its project's quota ends."""

    job: JobRecord
    bound: Bound | None
    holders: tuple[tuple[GpuKey, wire.Holder], ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The view of a node, and what it was made of."""

    node: Node
    holders: Mapping[int, wire.Holder]
    reserved: Mapping[int, str]
    drain: DrainRecord | None
    gpu_drains: Mapping[str, GpuDrainRecord]
    view: wire.NodeView


class NodeViews:
    """The views of a pool's nodes. An unchanged node keeps its view, so that readers can compare identities."""

    def __init__(self) -> None:
        self._holdings: dict[str, _Holding] = {}
        self._seen: dict[str, _Seen] = {}

    def update(self, state: State, nodes: ObservedNodes, borrowing: Borrowing) -> list[wire.NodeView]:
        """Return the views of all nodes, in their order."""
        holders = self._holders(state, nodes, borrowing)
        reserved: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for (name, index), project in reservations(state).items():
            reserved[name][index] = project
        seen = {}
        for node in nodes.all:
            known = self._seen.get(node.name)
            held, awaited = holders.get(node.name, {}), reserved.get(node.name, {})
            drain = state.drains.get(node.name)
            of_gpus = _drained_gpus(node, state.gpu_drains)
            made_of = (held, awaited, drain, of_gpus)
            if (
                known is None
                or known.node is not node
                or (known.holders, known.reserved, known.drain, known.gpu_drains) != made_of
            ):
                known = _Seen(node, *made_of, _view(node, *made_of))
            seen[node.name] = known
        self._seen = seen
        return [each.view for each in seen.values()]

    def _holders(
        self, state: State, nodes: ObservedNodes, borrowing: Borrowing
    ) -> Mapping[str, dict[int, wire.Holder]]:
        """Return the holder of each GPU that is held, by node and index."""
        found: defaultdict[str, dict[int, wire.Holder]] = defaultdict(dict)
        keys = nodes.places.keys
        for node in (*nodes.train(), *nodes.build(beside=state.workspaces.values())):
            for index in node.taken:
                found[node.name][index] = wire.Holder(kind=FOREIGN, name=node.takers.get(index, ""))
        holdings = {}
        for project, jobs in state.live_by_project.items():
            for job in jobs:
                bound = borrowing.bound(project, job.attempts[-1].gpu_type)
                known = self._holdings.get(job.spec.id)
                if known is None or known.job is not job or known.bound != bound or has_no_place(job):
                    known = _Holding(job, bound, _held_by(job, borrowing.of(job), nodes.places))
                holdings[job.spec.id] = known
                for (name, index), holder in known.holders:
                    found[name][index] = holder
        self._holdings = holdings
        for record in state.workspaces.values():
            holder = wire.Holder(kind="workspace", user=record.user, name=record.server, state="running")
            for name, index in keys(record.node, record.gpus, record.uuids):
                found[name][index] = holder
        return found


def free_as(node: Node, *, drained: bool) -> str:
    """Return what a GPU of a node is that nothing holds; ``drained`` if the node or this GPU is."""
    if drained:
        return wire.DRAINED
    return wire.IDLE if node.available else wire.AWAY


def reservations(state: State) -> dict[GpuKey, str]:
    """Return, for each reserved GPU, the project of its job."""
    return {
        (worker.node, index): job.spec.project
        for job in state.reserved.values()
        for worker in job.standing.reserved
        for index in worker.gpus
    }


def occupied(state: State, nodes: ObservedNodes) -> frozenset[GpuKey]:
    """Return the GPUs that a job, a workspace or something outside the pool holds."""
    taken = (
        (node.name, index)
        for node in (*nodes.train(), *nodes.build(beside=state.workspaces.values()))
        for index in node.taken
    )
    keys = nodes.places.keys
    by_jobs = (
        place
        for job in state.live_jobs()
        for worker in job.attempts[-1].placement
        for place in keys(worker.node, worker.gpus, worker.uuids)
    )
    by_workspaces = (
        place for record in state.workspaces.values() for place in keys(record.node, record.gpus, record.uuids)
    )
    return frozenset((*taken, *by_jobs, *by_workspaces))


def _held_by(job: JobRecord, borrowed: int, places: GpuPlaces) -> tuple[tuple[GpuKey, wire.Holder], ...]:
    """Return a job's GPUs, the last ``borrowed`` of them marked as borrowed."""
    placement = job.attempts[-1].placement
    held = [place for each in placement for place in places.keys(each.node, each.gpus, each.uuids)]
    own = len(held) - borrowed
    return tuple((key, _holder(job, borrowed=position >= own)) for position, key in enumerate(held))


def _holder(job: JobRecord, *, borrowed: bool) -> wire.Holder:
    return wire.Holder(
        kind="job",
        user=job.spec.user,
        project=job.spec.project,
        job=job.id,
        sweep=job.sweep or "",
        name=job.spec.name,
        state=job.state.value,
        shown=shown_state(job),
        borrowed=borrowed,
    )


def _drained_gpus(node: Node, drains: Mapping[str, GpuDrainRecord]) -> Mapping[str, GpuDrainRecord]:
    """Return the drained GPUs of a node by UUID."""
    return {gpu.uuid: drains[gpu.uuid] for gpu in node.devices if gpu.uuid in drains} if drains else {}


def _drain_view(record: DrainRecord | GpuDrainRecord | None) -> wire.DrainView | None:
    if record is None:
        return None
    return wire.DrainView(
        by=record.by,
        since=record.since,
        why=record.why,
        finish=record.finish,
        until=record.until,
        booking=record.booking if isinstance(record, DrainRecord) else None,
    )


def _view(
    node: Node,
    holders: Mapping[int, wire.Holder],
    reserved: Mapping[int, str],
    drain: DrainRecord | None,
    gpu_drains: Mapping[str, GpuDrainRecord],
) -> wire.NodeView:
    uuids = {gpu.index: gpu.uuid for gpu in node.devices}
    free = Counter(
        free_as(node, drained=drain is not None or uuids.get(index) in gpu_drains)
        for index in range(node.gpus)
        if index not in holders
    )
    return wire.NodeView(
        name=node.name,
        environment=node.environment.value,
        gpu_type=node.gpu_type,
        available=node.available and drain is None,
        simulated=any(gpu.simulated for gpu in node.devices),
        labels=dict(node.labels),
        limits=node.limits,
        cpus_per_gpu=round(node.per_gpu.cpus, 3),
        memory_per_gpu=int(node.per_gpu.memory),
        rdma_workers=node.per_gpu.rdma_workers(node.gpus) if node.environment is Environment.TRAIN else 0,
        drain=_drain_view(drain),
        closure=node.closure or "",
        closed_since=node.closed_since,
        free={what: number for what in wire.FREE if (number := free[what])},
        drains_gpus=not node.resource,
        islands=list(map(list, node.islands)),
        sockets=list(map(list, node.sockets)),
        cards=_cards(node),
        gpus=[
            wire.GpuCell(
                index=index,
                uuid=uuids.get(index, f"{node.name}/{index}"),
                holder=holders.get(index),
                reserved_for=reserved.get(index, ""),
                drain=_drain_view(gpu_drains.get(uuids.get(index, ""))),
            )
            for index in range(node.gpus)
        ],
    )


def _cards(node: Node) -> list[wire.CardsView]:
    """Return the network cards near the GPUs of a node, with the GPUs that have the same ones together."""
    near: dict[NearestCards, list[int]] = {}
    for gpu in node.devices:
        if gpu.cards is not None:
            near.setdefault(gpu.cards, []).append(gpu.index)
    return [
        wire.CardsView(names=list(cards.names), gpus=gpus, within=cards.within) for cards, gpus in near.items()
    ]
