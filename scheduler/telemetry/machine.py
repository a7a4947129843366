"""The machine's GPUs as nodes: found by NVML, or simulated and labelled so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from springtide.scheduler.model import Environment, Gpu, Node

BUILD = "build"
TRAIN = "train"
SIMULATED_TYPE = "simulated"
MOST_SIMULATED = 4096
SIMULATED_TRAIN = 8


class TelemetryError(Exception):
    """The machine cannot be divided as asked; the message says what is there and what to change."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the driver tells it, and which others (by place in the list) it has the fastest link to.

    ``socket`` numbers the processor socket (NUMA node) that it is attached to, None where that is not known.
    """

    uuid: str
    name: str
    memory_mib: int
    linked: frozenset[int] = frozenset()
    socket: int | None = None


class Machine(ABC):
    """The GPUs of one machine.

    ``nodes`` are its parts: one build node, and one train node per GPU type, the first of which is ``train``.
    """

    nodes: tuple[Node, ...]

    @abstractmethod
    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Pids of the processes that compute on these GPUs right now, whoever started them. May block."""


class SimulatedMachine(Machine):
    """GPUs that exist by name only: jobs really run, on the processor."""

    def __init__(self, gpus: int, build_gpus: int) -> None:
        devices = [Device(f"SIM-{index:08d}", "Simulated GPU", 0) for index in range(gpus)]
        self.nodes = divide(devices, build_gpus, simulated=True)

    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Nobody computes on what is not there."""
        return dict.fromkeys(uuids, frozenset())


def gpu_type(name: str) -> str:
    """The type by which people ask for a GPU: ``NVIDIA A100-SXM4-80GB`` is ``a100-sxm4-80gb``."""
    words = [word for word in name.lower().split() if word not in ("nvidia", "tesla", "geforce", "quadro")]
    return "-".join(words) or "gpu"


def islands(devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """Groups of devices that the fastest links join; empty if there are no such links."""
    left = set(range(len(devices)))
    found = []
    while left:
        island, reached = set[int](), {min(left)}
        while reached:
            island |= reached
            reached = {other for one in reached for other in devices[one].linked} - island
        left -= island
        found.append(tuple(sorted(island)))
    return tuple(found) if any(len(island) > 1 for island in found) else ()


def sockets(devices: Sequence[Device]) -> tuple[tuple[int, ...], ...]:
    """Groups of devices by processor socket; empty if that is not known of all of them."""
    found: dict[int, list[int]] = {}
    for place, device in enumerate(devices):
        if device.socket is None:
            return ()
        found.setdefault(device.socket, []).append(place)
    return tuple(tuple(found[socket]) for socket in sorted(found))


def divide(devices: Sequence[Device], build_gpus: int, *, simulated: bool) -> tuple[Node, ...]:
    """The build node and the train nodes.

    Build GPUs are taken from the smallest islands and the rarest type, so that train GPUs stay well linked.
    Raises `TelemetryError` if there are not so many.
    """
    if not 0 <= build_gpus <= len(devices):
        raise TelemetryError(
            f"This machine has {len(devices)} {'simulated ' if simulated else ''}GPUs, "
            f"so build_gpus must be from 0 to {len(devices)}, not {build_gpus}."
        )
    island = {place: len(group) for group in islands(devices) for place in group}
    common = Counter(device.name for device in devices)
    taken = sorted(range(len(devices)), key=lambda at: (common[devices[at].name], island.get(at, 1), at))
    build = sorted(taken[:build_gpus])
    train: dict[str, list[int]] = {}
    for place in sorted(taken[build_gpus:]):
        train.setdefault(devices[place].name, []).append(place)
    nodes = [_node(BUILD, Environment.BUILD, devices, build, simulated=simulated)]
    largest_first = sorted(train.values(), key=lambda places: (-len(places), places))
    for number, places in enumerate(largest_first or [[]]):
        name = TRAIN if number == 0 else f"{TRAIN}-{gpu_type(devices[places[0]].name)}"
        nodes.append(_node(name, Environment.TRAIN, devices, places, simulated=simulated))
    return tuple(nodes)


def _node(
    name: str, environment: Environment, devices: Sequence[Device], places: Sequence[int], *, simulated: bool
) -> Node:
    index = {place: index for index, place in enumerate(places)}
    mine = [
        replace(
            devices[place], linked=frozenset(index[other] for other in devices[place].linked if other in index)
        )
        for place in places
    ]
    types = {gpu_type(device.name) for device in mine}
    return Node(
        name,
        len(mine),
        gpu_type=SIMULATED_TYPE if simulated else types.pop() if len(types) == 1 else "",
        environment=environment,
        islands=islands(mine),
        sockets=sockets(mine),
        devices=tuple(
            Gpu(device.uuid, index, device.name, device.memory_mib, simulated) for index, device in enumerate(mine)
        ),
    )


def discover(simulated: int | None = None, build_gpus: int = 0) -> Machine:
    """This machine's GPUs: ``simulated`` slots if that is a number, else what NVML finds, else eight simulated
    train GPUs and ``build_gpus`` for notebooks.

    Raises `TelemetryError` if there are fewer GPUs than ``build_gpus`` or if the number is absurd.
    """
    from springtide.scheduler.telemetry.nvml import NvmlMachine, devices  # noqa: PLC0415 - an extra

    if simulated is None:
        found = devices()
        if found:
            return NvmlMachine(found, build_gpus)
        simulated = SIMULATED_TRAIN + build_gpus
    if not 0 < simulated <= MOST_SIMULATED:
        raise TelemetryError(f"Between 1 and {MOST_SIMULATED} GPUs can be simulated, not {simulated}.")
    return SimulatedMachine(simulated, build_gpus)


def count_gpus() -> int:
    """How many real GPUs NVML finds; 0 where there is no driver."""
    from springtide.scheduler.telemetry.nvml import devices  # noqa: PLC0415 - an extra

    return len(devices())
