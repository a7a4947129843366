"""What is left of a process."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process does anything any more; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
