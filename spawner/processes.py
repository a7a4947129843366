"""Identity of processes beyond their pid, which the kernel reuses."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def identity(pid: int, proc: Path = PROC) -> str | None:
    """Return the identity of a live process among all with the same pid over time; None if there is none.

    Raises `LookupError` on systems without ``/proc``.
    """
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError as error:
        raise LookupError(f"{proc} does not distinguish processes here") from error
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else f"{boot}:{pid}:{fields[18]}"
