"""The hub's log stays small while several processes append to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from springtide.hub_extension.local_hub import up


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(up, "LARGEST_LOG", 1000)
    return tmp_path / "hub.log"


@pytest.fixture
def writers(log: Path) -> Iterator[list[int]]:
    """Two descriptors as the hub's and a child's."""
    opened = [os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for _ in range(2)]
    yield opened
    for each in opened:
        os.close(each)


def test_a_log_that_grew_too_large_goes_on_empty_and_the_older_lines_are_kept(
    log: Path, writers: list[int]
) -> None:
    for number in range(200):
        os.write(writers[number % 2], b"line %d\n" % number)
    up.shorten(log)
    os.write(writers[1], b"next\n")
    os.write(writers[0], b"last\n")
    assert log.read_text() == "next\nlast\n"
    assert log.with_suffix(".log.1").read_text().endswith("line 199\n")
    assert log.with_suffix(".log.1").stat().st_mode & 0o777 == 0o600


def test_a_small_log_is_left_alone(log: Path, writers: list[int]) -> None:
    os.write(writers[0], b"few\n")
    up.shorten(log)
    assert log.read_text() == "few\n"
    assert not log.with_suffix(".log.1").exists()


def test_only_one_older_log_is_kept_and_none_where_there_is_no_room(
    log: Path, writers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(writers[0], b"first\n" * 300)
    up.shorten(log)
    os.write(writers[0], b"other\n" * 300)

    def full(*_files: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(up.shutil, "copyfileobj", full)
    up.shorten(log)
    assert log.stat().st_size == 0
    assert [path.name for path in log.parent.iterdir()] == ["hub.log"]
