"""The uid ranges of the pools of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from springtide.scheduler.executors.accounts.account import AccountError

BLOCK: Final = 256
"""Number of uids that a pool gets at a time."""


class UidRanges:
    """The ranges of uids that the pools of this machine have, in a file that all of them share.

    A pool is known by its state directory, links resolved. It gets uids in blocks that no other pool has, and
    keeps them over restarts and reboots. The block is chosen at random: a pool that has not recorded its uids here
    yet, because it is of an earlier version and has not been started since, is unlikely to have them.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def claim(self, pool: Path, uids: Collection[int]) -> None:
        """Record that a pool has given these uids, even if another one has them.

        Raises `AccountError` if the file cannot be used.
        """
        with self._locked():
            known = self._read()
            mine = known.get(str(pool), [])
            missing = sorted(uid for uid in uids if not _within(uid, mine))
            if missing or str(pool) not in known:
                self._write({**known, str(pool): _joined([*mine, *((uid, uid) for uid in missing)])})

    def candidates(self, pool: Path, allowed: range, given: Collection[int]) -> Iterator[int]:
        """Yield uids for the next user of a pool: first from its own blocks, then from a new one.

        Each is above all ``given`` ones of its block, and no other pool has it. Raises `AccountError` if there are
        none left, or if the file cannot be used.
        """
        alone = self._alone(pool)
        for first, last in _blocks_with(alone, allowed):
            used = max((uid for uid in given if first <= uid <= last), default=first - 1)
            yield from (uid for uid in range(used + 1, last + 1) if _within(uid, alone))
        while True:
            first, last = self._extend(pool, allowed)
            yield from range(first, last + 1)

    def others(self, pool: Path) -> tuple[Path, ...]:
        """Return the state directories of the other pools. Raises `AccountError` if the file cannot be used."""
        with self._locked():
            return tuple(Path(other) for other in sorted(self._read()) if other != str(pool))

    def _alone(self, pool: Path) -> list[tuple[int, int]]:
        """Return the pool's ranges without an overlap with another pool's."""
        with self._locked():
            known = self._present(pool)
        others = [uid_range for other, ranges in known.items() if other != str(pool) for uid_range in ranges]
        return [
            uid_range
            for uid_range in known.get(str(pool), [])
            if not any(_overlap(uid_range, other) for other in others)
        ]

    def _extend(self, pool: Path, allowed: range) -> tuple[int, int]:
        """Give a block of free uids to a pool, and return it."""
        with self._locked():
            known = self._read()
            free = _free_blocks(known, allowed)
            if not free:  # then those of pools whose state directories are gone
                known = self._present(pool)
                free = _free_blocks(known, allowed)
            if not free:
                raise AccountError(
                    f"All uids of the pools' accounts, {allowed.start} to {allowed[-1]}, are given ({self.file} "
                    "says to which pool). Set a larger range with c.Springtide.account_uids."
                )
            block = secrets.choice(free)
            self._write({**known, str(pool): _joined([*known.get(str(pool), []), block])})
            return block

    def _present(self, pool: Path) -> dict[str, list[tuple[int, int]]]:
        """Return the ranges of this pool, and of the others whose state directories are there."""
        return {
            directory: of
            for directory, of in self._read().items()
            if directory == str(pool) or Path(directory).is_dir()
        }

    # ---------- the file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            lock = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AccountError(self._unusable(error.strerror or str(error))) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> dict[str, list[tuple[int, int]]]:
        try:
            known: dict[str, list[tuple[int, int]]] = {}
            for pool, of in json.loads(self.file.read_text()).items():
                ranges = known.setdefault(str(Path(pool).resolve()), [])
                ranges += [(int(first), int(last)) for first, last in of]
            return {pool: _joined(ranges) for pool, ranges in known.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise AccountError(self._unusable(str(error))) from error

    def _write(self, known: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        try:
            replace_durably(self.file, json.dumps(known, indent=1))
        except OSError as error:
            raise AccountError(self._unusable(error.strerror or str(error))) from error

    def _unusable(self, why: str) -> str:
        return (
            f"{self.file}, in which all pools of this machine record the uids of their accounts, cannot be used: "
            f"{why}. Set c.Springtide.uid_registry to a file that outlives a reboot, the same for all pools."
        )


def replace_durably(file: Path, text: str) -> None:
    """Put a file on disk as a whole, for its owner only. Raises `OSError`."""
    beside = file.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _free_blocks(known: Mapping[str, Sequence[tuple[int, int]]], allowed: range) -> list[tuple[int, int]]:
    taken = [uid_range for ranges in known.values() for uid_range in ranges]
    return [block for block in _blocks(allowed) if not any(_overlap(block, other) for other in taken)]


def _blocks(allowed: range) -> list[tuple[int, int]]:
    return [_block(start, allowed) for start in range(allowed.start, allowed.stop, BLOCK)]


def _blocks_with(ranges: Iterable[tuple[int, int]], allowed: range) -> list[tuple[int, int]]:
    """Return the blocks that have some of these uids."""
    inside = [(max(first, allowed.start), min(last, allowed[-1])) for first, last in ranges]
    starts = {
        start
        for first, last in inside
        for start in range(first - (first - allowed.start) % BLOCK, last + 1, BLOCK)
    }
    return [_block(start, allowed) for start in sorted(starts)]


def _block(start: int, allowed: range) -> tuple[int, int]:
    return start, min(start + BLOCK, allowed.stop) - 1


def _within(uid: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= uid <= last for first, last in ranges)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, adjoining ones as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
