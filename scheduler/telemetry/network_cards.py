"""This machine's network cards with RDMA (InfiniBand, RoCE), as the kernel describes them below ``/sys``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from springtide.scheduler.resources.network_cards import PciPlace

ACTIVE = "ACTIVE"
"""State of a linked port."""


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """A card whose link is up. ``name`` is the kernel's, such as ``mlx5_0``.

    ``usable`` says that processes here can open it. In a container the kernel shows the cards of the machine also
    where their device files are not handed in.
    """

    name: str
    place: PciPlace
    usable: bool


def network_cards(root: Path = Path("/")) -> list[NetworkCard]:
    """Return the cards that have an active port, by name, without the virtual functions of others.

    ``root`` is the root of the file system.
    """
    classes, device_files = root / "sys/class", root / "dev/infiniband"
    usable = {
        _text(entry / "ibdev")
        for entry in (classes / "infiniband_verbs").glob("uverbs*")
        if (device_files / entry.name).exists()
    }
    return [
        NetworkCard(card.name, pci_place(card / "device"), card.name in usable)
        for card in sorted((classes / "infiniband").glob("*"))
        if _is_active(card) and not (card / "device/physfn").exists()
    ]


def pci_place(device: Path) -> PciPlace:
    """Return where a device is by its directory below ``/sys``, which may be a link; nothing is known of none."""
    path = device.resolve().parts if device.exists() else ()
    socket = _text(device / "numa_node")
    return PciPlace(path, int(socket) if socket.isdigit() else None)


def _is_active(card: Path) -> bool:
    """Return whether a port of the card has a link; the kernel writes the state as ``4: ACTIVE``."""
    return any(_text(port / "state").endswith(ACTIVE) for port in (card / "ports").glob("*"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
