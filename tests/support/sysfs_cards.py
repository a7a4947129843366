"""A made-up tree of files in a folder, as the kernel shows network cards with RDMA: no such hardware is needed."""

from __future__ import annotations

from pathlib import Path


def add_card(root: Path, name: str, number: int, *, states: tuple[str, ...] = ("4: ACTIVE",)) -> None:
    """Add a card with ports in these states, and its device file, below ``root`` in place of ``/``."""
    ports = root / "sys/class/infiniband" / name / "ports"
    for port, state in enumerate(states, 1):
        (ports / str(port)).mkdir(parents=True)
        (ports / str(port) / "state").write_text(f"{state}\n")
    verbs = root / "sys/class/infiniband_verbs" / f"uverbs{number}"
    verbs.mkdir(parents=True)
    (verbs / "ibdev").write_text(f"{name}\n")
    (verbs.parent / "abi_version").write_text("6\n")
    device = root / "dev/infiniband" / verbs.name
    device.parent.mkdir(parents=True, exist_ok=True)
    device.touch()
