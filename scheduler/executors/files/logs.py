"""A job's log as one stream of bytes over all its attempts, from the files its supervisors wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from springtide.scheduler.executors.base import LogPiece
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.plain import open_plain


@dataclass(frozen=True, slots=True)
class Segment:
    """An open file of one attempt's log; ``start`` is its offset in the log of that attempt."""

    file: int
    start: int
    size: int


def _cuts(directory: Path, rank: int) -> list[int]:
    """Return the offsets of the files cut off the log."""
    prefix = f"log.{rank}."
    try:
        names = os.listdir(directory)  # noqa: PTH208 - a path of each is not needed
    except FileNotFoundError:
        return []
    return sorted(
        int(name[len(prefix) :]) for name in names if name.startswith(prefix) and name[len(prefix) :].isdecimal()
    )


@contextmanager
def segments(directory: Path, rank: int) -> Iterator[list[Segment]]:
    """Open the files of an attempt's log, oldest first, as they were at one moment."""
    found: list[Segment] = []
    try:
        while True:
            cuts = _cuts(directory, rank)
            start = 0
            for name, begins in [*((f"log.{rank}.{cut}", cut) for cut in cuts), (f"log.{rank}", None)]:
                file = open_plain(directory, (name,))
                if file is not None:
                    size = os.fstat(file).st_size
                    found.append(Segment(file, start if begins is None else begins, size))
                    start = found[-1].start + size
            if cuts == _cuts(directory, rank):
                break
            while found:
                os.close(found.pop().file)
        yield found
    finally:
        for segment in found:
            os.close(segment.file)


def attempt_size(directory: Path, rank: int) -> int:
    """Return the number of bytes that the worker printed in this attempt."""
    with segments(directory, rank) as found:
        return found[-1].start + found[-1].size if found else 0


def read_log(places: JobPlaces, rank: int, offset: int, limit: int) -> LogPiece:
    """Return up to ``limit`` bytes of one attempt, from ``offset`` or from the next byte that was kept."""
    numbers = places.numbers()
    sizes = [attempt_size(places.attempts / str(number), rank) for number in numbers]
    total = sum(sizes)
    wanted = max(0, total + offset) if offset < 0 else offset
    begin = 0
    for number, size in zip(numbers, sizes, strict=True):
        if begin <= wanted < begin + size:
            piece = _read(places.attempts / str(number), rank, wanted - begin, limit)
            if piece is not None:
                data, start = piece
                return LogPiece(data, begin + start, max(total, begin + start + len(data)), number)
            wanted = begin + size
        begin += size
    return LogPiece(b"", min(wanted, total), total, numbers[-1] if numbers else 0)


def _read(directory: Path, rank: int, offset: int, limit: int) -> tuple[bytes, int] | None:
    with segments(directory, rank) as found:
        for segment in found:
            start, end = max(offset, segment.start), segment.start + segment.size
            if start < end:
                return os.pread(segment.file, min(limit, end - start), start - segment.start), start
    return None
