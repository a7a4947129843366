"""The processes of notebook servers that are ended."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from machines.processes import is_ending, lingering

from springtide.scheduler.executors import notebooks


@pytest.mark.root
def test_a_server_has_ended_only_when_what_was_killed_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "KILLED_WITHIN_S", 0.5)
    mark = notebooks.Mark(pool=str(tmp_path), user="susan", server="", start="first")
    with lingering({notebooks.VARIABLE: msgspec.json.encode(mark).decode()}) as pid:
        left = notebooks.end(tmp_path, "susan", "", grace=0.1)
        assert is_ending(pid)
        assert [process.pid for process in left] == [pid]
    assert notebooks.end(tmp_path, "susan", "") == ()
