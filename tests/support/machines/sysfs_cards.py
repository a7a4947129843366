"""A made-up tree of files in a folder, as the kernel shows PCI devices and network cards; it needs no hardware."""

from __future__ import annotations

from pathlib import Path


def add_device(root: Path, path: str, socket: int = -1) -> Path:
    """Add a PCI device, whose bridges are the directories of ``path``, below ``root`` in place of ``/``."""
    device = root / "sys/devices" / path
    device.mkdir(parents=True)
    (device / "numa_node").write_text(f"{socket}\n")
    listed = root / "sys/bus/pci/devices" / device.name
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(device)
    return device


def add_card(
    root: Path,
    name: str,
    number: int,
    *,
    states: tuple[str, ...] = ("4: ACTIVE",),
    path: str = "",
    socket: int = -1,
) -> Path:
    """Add a network card with ports in these states, and its device file; return the directory of its device."""
    device = add_device(root, path or f"pci0000:f0/0000:f0:{number:02x}.0", socket)
    card = root / "sys/class/infiniband" / name
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    for port, state in enumerate(states, 1):
        (card / "ports" / str(port)).mkdir(parents=True)
        (card / "ports" / str(port) / "state").write_text(f"{state}\n")
    verbs = root / "sys/class/infiniband_verbs" / f"uverbs{number}"
    verbs.mkdir(parents=True)
    (verbs / "ibdev").write_text(f"{name}\n")
    (verbs.parent / "abi_version").write_text("6\n")
    file = root / "dev/infiniband" / verbs.name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return device
