"""The network cards of a machine nearest to a GPU: by PCIe switch, else by processor socket; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Final, Literal, NamedTuple, TypeAlias

Within: TypeAlias = Literal["switch", "socket"]
SWITCH: Final = "switch"
SOCKET: Final = "socket"

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


class PciPlace(NamedTuple):
    """The place of a device: the directories on the kernel's path to it, and its processor socket if known.

    The path has the bridges that lead to the device; all devices behind a PCIe switch share those of the switch.
    """

    path: tuple[str, ...] = ()
    socket: int | None = None

    def shared_bridges(self, other: PciPlace) -> int:
        """Return the number of PCI bridges that both devices are behind."""
        pairs = zip(self.path[:-1], other.path[:-1], strict=False)
        common = takewhile(lambda pair: pair[0] == pair[1], pairs)
        return sum(_ADDRESS.fullmatch(directory) is not None for directory, _ in common)


class NearestCards(NamedTuple):
    """The names of the network cards nearest to a GPU, and the shared part: `SWITCH` or `SOCKET`."""

    within: Within
    names: tuple[str, ...]


def nearest_cards(gpu: PciPlace, cards: Iterable[tuple[str, PciPlace]]) -> NearestCards | None:
    """Return the cards behind most of the PCI bridges of a GPU, else those of its socket.

    None if no card is near, or if nothing is known.
    """
    bridges = {name: gpu.shared_bridges(place) for name, place in cards}
    most = max(bridges.values(), default=0)
    if most:
        return NearestCards(SWITCH, tuple(sorted(name for name, shared in bridges.items() if shared == most)))
    same = sorted(name for name, place in cards if place.socket == gpu.socket is not None)
    return NearestCards(SOCKET, tuple(same)) if same else None
