"""The mark of the latest backup in a state directory, by which the service knows its age."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from springtide.scheduler.engine.views.needs_view import Backup

MARK = "backup.json"


class _Mark(msgspec.Struct, frozen=True):
    """Since when backups are watched, and when the latest was made, in seconds since the epoch."""

    since: float
    saved: float | None = None


def note_backup(state: Path, at: float) -> None:
    """Note that a backup was made. A state directory that cannot be written to keeps none."""
    known = _read(state)
    with suppress(OSError):
        _write(state, _Mark(at if known is None else known.since, at))


def latest_backup(state: Path, now: float) -> Backup:
    """Return when the state was saved last. The first call begins the watch of a state that was never saved."""
    known = known_backup(state)
    if known is not None:
        return known
    with suppress(OSError):
        _write(state, _Mark(now))
    return Backup(now, ever=False)


def known_backup(state: Path) -> Backup | None:
    """Return when the state was saved last, or since when that is watched; None before that."""
    mark = _read(state)
    if mark is None:
        return None
    return Backup(mark.since, ever=False) if mark.saved is None else Backup(mark.saved, ever=True)


def _read(state: Path) -> _Mark | None:
    try:
        return msgspec.json.decode((state / MARK).read_bytes(), type=_Mark)
    except (OSError, msgspec.DecodeError):
        return None


def _write(state: Path, mark: _Mark) -> None:
    beside = state / f".{MARK}.{os.getpid()}"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(mark))
    beside.replace(state / MARK)
