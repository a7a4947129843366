"""This machine's network cards with RDMA (InfiniBand, RoCE), as the kernel describes them below ``/sys``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ACTIVE = "ACTIVE"
"""State of a port that has a link."""


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """A card whose link is up and that processes can open. ``name`` is the kernel's, such as ``mlx5_0``."""

    name: str


def network_cards(root: Path = Path("/")) -> list[NetworkCard]:
    """Return the cards that have an active port and a device file for processes, by name.

    In a container the kernel shows the cards of the machine also where their device files are not handed in.
    """
    classes, device_files = root / "sys/class", root / "dev/infiniband"
    can_open = {
        _text(entry / "ibdev")
        for entry in (classes / "infiniband_verbs").glob("uverbs*")
        if (device_files / entry.name).exists()
    }
    found = sorted((classes / "infiniband").glob("*"))
    return [NetworkCard(card.name) for card in found if card.name in can_open and _is_active(card)]


def _is_active(card: Path) -> bool:
    """Return whether a port of the card has a link; the kernel writes the state as ``4: ACTIVE``."""
    return any(_text(port / "state").endswith(ACTIVE) for port in (card / "ports").glob("*"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
