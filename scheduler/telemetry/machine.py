"""A machine's GPUs, divided into a build node and train nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from springtide.scheduler.model import Environment, Gpu, Node

BUILD = "build"
TRAIN = "train"
SIMULATED_TYPE = "simulated"


class TelemetryError(Exception):
    """The machine cannot be divided as requested; the message says what it has and what to change."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the driver describes it.

    ``linked`` are the devices that it has the fastest link to, as indexes of the driver's list. ``socket`` is the
    number of its processor socket (NUMA node), None if that is unknown.
    """

    uuid: str
    name: str
    memory_mib: int
    linked: frozenset[int] = frozenset()
    socket: int | None = None


class Machine(ABC):
    """The GPUs of one machine.

    ``nodes`` are one build node, and one train node per GPU type, the first of which is called ``train``.
    """

    nodes: tuple[Node, ...]

    @abstractmethod
    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Return the pids of all processes that compute on these GPUs now. May block."""


class SimulatedMachine(Machine):
    """GPUs that do not exist: jobs run on the processor."""

    def __init__(self, gpus: int, build_gpus: int) -> None:
        devices = [Device(f"SIM-{index:08d}", "Simulated GPU", 0) for index in range(gpus)]
        self.nodes = divide(devices, build_gpus, simulated=True)

    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Return no processes."""
        return dict.fromkeys(uuids, frozenset())


def gpu_type(name: str) -> str:
    """Return the type by which users request a GPU: ``a100-sxm4-80gb`` for ``NVIDIA A100-SXM4-80GB``."""
    words = [word for word in name.lower().split() if word not in ("nvidia", "tesla", "geforce", "quadro")]
    return "-".join(words) or "gpu"


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


def divide(devices: Sequence[Device], build_gpus: int, *, simulated: bool) -> tuple[Node, ...]:
    """Return the build node and the train nodes.

    Build GPUs are taken from the rarest type and the smallest islands, so that train GPUs stay well linked.
    Raises `TelemetryError` if ``build_gpus`` is out of range.
    """
    if not 0 <= build_gpus <= len(devices):
        raise TelemetryError(
            f"This machine has {len(devices)} {'simulated ' if simulated else ''}GPUs, "
            f"so build_gpus must be from 0 to {len(devices)}, not {build_gpus}."
        )
    island_size = {index: len(group) for group in islands(devices) for index in group}
    count = Counter(device.name for device in devices)
    build_first = sorted(
        range(len(devices)), key=lambda index: (count[devices[index].name], island_size.get(index, 1), index)
    )
    build = sorted(build_first[:build_gpus])
    train: dict[str, list[int]] = {}
    for index in sorted(build_first[build_gpus:]):
        train.setdefault(devices[index].name, []).append(index)
    nodes = [_node(BUILD, Environment.BUILD, devices, build, simulated=simulated)]
    largest_first = sorted(train.values(), key=lambda indexes: (-len(indexes), indexes))
    for number, indexes in enumerate(largest_first or [[]]):
        name = TRAIN if number == 0 else f"{TRAIN}-{gpu_type(devices[indexes[0]].name)}"
        nodes.append(_node(name, Environment.TRAIN, devices, indexes, simulated=simulated))
    return tuple(nodes)


def _node(
    name: str, environment: Environment, devices: Sequence[Device], indexes: Sequence[int], *, simulated: bool
) -> Node:
    """Return the node of the devices with these indexes; links to devices outside of it are left out."""
    slot = {index: slot for slot, index in enumerate(indexes)}
    on_node = [
        replace(devices[index], linked=frozenset(slot[other] for other in devices[index].linked if other in slot))
        for index in indexes
    ]
    types = {gpu_type(device.name) for device in on_node}
    return Node(
        name,
        len(on_node),
        gpu_type=SIMULATED_TYPE if simulated else types.pop() if len(types) == 1 else "",
        environment=environment,
        islands=islands(on_node),
        sockets=sockets(on_node),
        devices=tuple(
            Gpu(device.uuid, slot, device.name, device.memory_mib, simulated)
            for slot, device in enumerate(on_node)
        ),
    )
