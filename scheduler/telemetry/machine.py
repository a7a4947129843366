"""A machine's GPUs, divided into a build node and train nodes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.model import Environment, Gpu, Node
from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.telemetry.processor import Use, used_below
from springtide.scheduler.telemetry.sample import Computing, GpuSample
from springtide.scheduler.wording import given, plural

BUILD = "build"
TRAIN = "train"
SIMULATED = "Simulated GPU"
"""Model of simulated GPUs without a declared type."""


GpuCount: TypeAlias = int | Mapping[str, int]
"""A number of GPUs, or a number for each model or type."""


class TelemetryError(Exception):
    """The machine cannot be divided as requested; the message says what it has and what to change."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the driver describes it.

    ``linked`` are the devices that it has the fastest link to, as indexes of the driver's list. ``socket`` is the
    number of its processor socket (NUMA node), None if that is unknown. ``cards`` are the nearest network cards.
    """

    uuid: str
    name: str
    memory_mib: int
    linked: frozenset[int] = frozenset()
    socket: int | None = None
    cards: NearestCards | None = None


class Machine(ABC):
    """The GPUs of one machine.

    ``nodes`` are build nodes and train nodes, one of each for each GPU type; the first are called ``build`` and
    ``train``.
    """

    nodes: tuple[Node, ...]

    @abstractmethod
    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Return the pids of all processes that compute on these GPUs now. May block."""

    @abstractmethod
    def samples(self, computing: Sequence[Computing]) -> Sequence[GpuSample]:
        """Return what the GPUs report now; of simulated ones, those that the attempts ``computing`` hold.

        May block. Called by one thread at a time.
        """


class SimulatedMachine(Machine):
    """GPUs that do not exist: jobs run on the processor. ``gpus`` is their number, or a number for each model.

    The utilization of a simulated GPU is that of a processor core by the processes of its worker.
    """

    def __init__(
        self,
        gpus: GpuCount,
        build_gpus: GpuCount,
        types: DeclaredTypes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        by_model = {SIMULATED: gpus} if isinstance(gpus, int) else gpus
        models = [model for model, count in by_model.items() for _ in range(count)]
        devices = [Device(f"SIM-{index:08d}", model, 0) for index, model in enumerate(models)]
        self.nodes = divide(devices, build_gpus, types, simulated=True)
        self._clock = clock
        self._before: Mapping[int, tuple[float, Use]] = {}

    def samples(self, computing: Sequence[Computing]) -> Sequence[GpuSample]:
        """Return the use of the attempts' GPUs: the processor time since the last call, and memory."""
        now = self._clock()
        used = used_below([each.pid for each in computing]) if computing else {}
        found = [
            sample
            for each in computing
            if each.pid in used
            for sample in _simulated(each, now, used[each.pid], self._before.get(each.pid))
        ]
        self._before = {pid: (now, use) for pid, use in used.items()}
        return found

    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Return no processes."""
        return dict.fromkeys(uuids, frozenset())


def _simulated(each: Computing, now: float, use: Use, before: tuple[float, Use] | None) -> list[GpuSample]:
    """Return the samples of the simulated GPUs of an attempt, which share its use among them."""
    share = None
    if before is not None and now > before[0]:
        share = (use.seconds - before[1].seconds) / (now - before[0]) / max(1, each.workers)
    reading = Reading(
        utilization=None if share is None else min(1.0, max(0.0, share)),
        memory_used=use.resident // len(each.uuids),
    )
    return [GpuSample(uuid, reading, simulated=True) for uuid in each.uuids]


def islands(devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of devices that the fastest links connect; none if there are no such links."""
    remaining = set(range(len(devices)))
    groups = []
    while remaining:
        island, reached = set[int](), {min(remaining)}
        while reached:
            island |= reached
            reached = {other for one in reached for other in devices[one].linked} - island
        remaining -= island
        groups.append(tuple(sorted(island)))
    return tuple(groups) if any(len(island) > 1 for island in groups) else ()


def sockets(devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of devices by processor socket; none if a socket is unknown."""
    groups: dict[int, list[int]] = {}
    for index, device in enumerate(devices):
        if device.socket is None:
            return ()
        groups.setdefault(device.socket, []).append(index)
    return tuple(tuple(groups[socket]) for socket in sorted(groups))


def divide(
    devices: Sequence[Device], build_gpus: GpuCount, types: DeclaredTypes | None = None, *, simulated: bool
) -> tuple[Node, ...]:
    """Return the build nodes and the train nodes.

    ``build_gpus`` is the number of build GPUs, or a number for each type. A plain number is taken from the rarest
    type first; all are taken from the smallest islands, so that train GPUs stay well linked. Raises
    `TelemetryError` if ``build_gpus`` is out of range.
    """
    types = types or DeclaredTypes()
    type_of = [types.of(device.name) for device in devices]
    build = set(_build_indexes(devices, type_of, build_gpus, types, "simulated " if simulated else ""))
    train = [index for index in range(len(devices)) if index not in build]
    return (
        *_nodes(BUILD, Environment.BUILD, devices, sorted(build), type_of, simulated=simulated),
        *_nodes(TRAIN, Environment.TRAIN, devices, train, type_of, simulated=simulated),
    )


def _build_indexes(
    devices: Sequence[Device], type_of: Sequence[str], wanted: GpuCount, types: DeclaredTypes, kind: str
) -> list[int]:
    """Return the indexes of the build GPUs. Raises `TelemetryError` if there are too few GPUs."""
    count = Counter(type_of)
    island_size = {index: len(group) for group in islands(devices) for index in group}
    preferred = sorted(
        range(len(devices)), key=lambda index: (count[type_of[index]], island_size.get(index, 1), index)
    )
    if isinstance(wanted, int):
        if not 0 <= wanted <= len(devices):
            raise TelemetryError(
                f"This machine has {len(devices)} {kind}{plural(len(devices), 'GPU')}, so build_gpus must be from "
                f"0 to {len(devices)}, not {wanted}."
            )
        return preferred[:wanted]
    found = []
    for name, number in wanted.items():
        of_type = [index for index in preferred if type_of[index] == types.of(name)]
        if not 0 <= number <= len(of_type):
            raise TelemetryError(
                f"This machine has {len(of_type)} {kind}{plural(len(of_type), 'GPU')} of the type "
                f"{types.of(name)}, so build_gpus for {given(name)} must be from 0 to {len(of_type)}, not "
                f"{number}."
            )
        found += of_type[:number]
    return found


def _nodes(
    prefix: str,
    environment: Environment,
    devices: Sequence[Device],
    indexes: Sequence[int],
    type_of: Sequence[str],
    *,
    simulated: bool,
) -> list[Node]:
    """Return one node for each type of these devices, the largest first; an empty node if there are none."""
    by_type: dict[str, list[int]] = {}
    for index in indexes:
        by_type.setdefault(type_of[index], []).append(index)
    largest_first = sorted(by_type.items(), key=lambda item: (-len(item[1]), item[1]))
    return [
        _node(
            prefix if number == 0 else f"{prefix}-{gpu_type}",
            gpu_type,
            environment,
            devices,
            of_type,
            simulated=simulated,
        )
        for number, (gpu_type, of_type) in enumerate(largest_first or [("", [])])
    ]


def _node(
    name: str,
    gpu_type: str,
    environment: Environment,
    devices: Sequence[Device],
    indexes: Sequence[int],
    *,
    simulated: bool,
) -> Node:
    """Return the node of the devices with these indexes; links to devices outside of it are left out."""
    slot = {index: slot for slot, index in enumerate(indexes)}
    on_node = [
        replace(devices[index], linked=frozenset(slot[other] for other in devices[index].linked if other in slot))
        for index in indexes
    ]
    return Node(
        name,
        len(on_node),
        gpu_type=gpu_type,
        environment=environment,
        islands=islands(on_node),
        sockets=sockets(on_node),
        devices=tuple(
            Gpu(device.uuid, slot, device.name, device.memory_mib, simulated, device.cards)
            for slot, device in enumerate(on_node)
        ),
    )
