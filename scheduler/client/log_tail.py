"""The last lines of a worker's log, from its pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from springtide.scheduler.wire import LogChunk

FIRST = 1 << 16
"""Number of bytes before the end of the log that are read first."""
FACTOR = 4
"""How many times more are read if these have too few lines."""


def last_lines(read: Callable[[int], LogChunk], lines: int) -> list[LogChunk]:
    """Return the pieces with the last ``lines`` lines of a log; the last one says where to read on.

    ``read`` returns the piece at an offset in bytes, from the end of the log if it is negative.
    """
    distance = FIRST
    while True:
        pieces = _pieces(read, distance)
        found = _cut(pieces, lines, whole=distance >= pieces[-1].next)
        if found is not None:
            return found
        distance *= FACTOR


def _pieces(read: Callable[[int], LogChunk], distance: int) -> list[LogChunk]:
    """Return the last ``distance`` bytes of a log, and not more of one that grows meanwhile."""
    pieces = [read(-distance)]
    until = pieces[0].offset + distance
    while pieces[-1].text and not pieces[-1].ended and pieces[-1].next < until:
        pieces.append(read(pieces[-1].next))
    return pieces


def _cut(pieces: Sequence[LogChunk], lines: int, *, whole: bool) -> list[LogChunk] | None:
    """Return the pieces from the start of the last lines on, None if they have fewer and are not the whole log."""
    last = next((piece.text for piece in reversed(pieces) if piece.text), "")
    breaks = lines + last.endswith("\n")
    if breaks == 0:
        return [_from(pieces[-1], len(pieces[-1].text))]
    for number in range(len(pieces) - 1, -1, -1):
        text = pieces[number].text
        has = text.count("\n")
        if has < breaks:
            breaks -= has
            continue
        at = len(text)
        for _ in range(breaks):
            at = text.rfind("\n", 0, at)
        first, others = _from(pieces[number], at + 1), pieces[number + 1 :]
        return [first, *others] if first.text or not others else list(others)
    return list(pieces) if whole else None


def _from(piece: LogChunk, at: int) -> LogChunk:
    """Return a piece without its first ``at`` characters."""
    text = piece.text[at:]
    return msgspec.structs.replace(piece, text=text, offset=piece.next - len(text.encode()))
