"""The last lines of a log are the same wherever its pieces end."""

from __future__ import annotations

import pytest

from springtide.scheduler.client import log_tail
from springtide.scheduler.client.log_tail import last_lines
from springtide.scheduler.wire import LogChunk

LINES = [f"line {number} \u00e4" for number in range(100)]


def reader(log: bytes, limit: int, begins: int = 0, ends: bool = True):
    """Read pieces of a log of which the first bytes were not kept, and count them."""
    reads: list[int] = []

    def read(offset: int) -> LogChunk:
        reads.append(offset)
        start = max(begins, max(0, len(log) + offset) if offset < 0 else offset)
        data = log[start : start + limit]
        end = start + len(data)
        text = data.decode(errors="replace")
        return LogChunk(text=text, offset=start, next=end, ended=ends and end >= len(log), attempt=2)

    return read, reads


@pytest.mark.parametrize("lines", [0, 1, 2, 99, 100, 1000])
@pytest.mark.parametrize("limit", [7, 64, 10_000])
@pytest.mark.parametrize("end", ["\n", ""])
def test_the_last_lines_are_found_wherever_pieces_end(monkeypatch, lines, limit, end) -> None:
    monkeypatch.setattr(log_tail, "FIRST", 40)
    whole = ("\n".join(LINES) + end).replace("\u00e4", "x")
    read, _ = reader(whole.encode(), limit)
    found = last_lines(read, lines)
    expected = "\n".join(LINES[len(LINES) - lines if lines < len(LINES) else 0 :]) + end if lines else ""
    assert "".join(piece.text for piece in found) == expected.replace("\u00e4", "x")
    assert found[-1].next == len(whole)
    assert found[0].offset == len(whole) - len(expected)


def test_characters_of_several_bytes_are_not_cut(monkeypatch) -> None:
    monkeypatch.setattr(log_tail, "FIRST", 45)
    read, _ = reader("\n".join(LINES).encode(), 10_000)
    assert [piece.text for piece in last_lines(read, 3)] == ["\n".join(LINES[-3:])]


def test_a_log_without_its_start_or_without_anything_has_what_is_there() -> None:
    read, _ = reader(b"lost\nkept\nlast\n", 100, begins=5)
    assert [piece.text for piece in last_lines(read, 50)] == ["kept\nlast\n"]
    read, _ = reader(b"", 100, ends=False)
    assert [piece.text for piece in last_lines(read, 5)] == [""]


def test_the_end_of_a_large_log_is_read_without_its_start() -> None:
    read, reads = reader(b"x" * 99 + b"\n" + b"a line\n" * 1_000_000, 1 << 20)
    assert last_lines(read, 10)[0].text == "a line\n" * 10
    assert reads == [-(1 << 16)]
