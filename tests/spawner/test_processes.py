"""A pid alone names no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from springtide.scheduler.executors.accounts import home_name
from springtide.spawner.local import last_lines
from springtide.spawner.processes import identity


def stat(pid: int, state: str, started: int) -> str:
    return f"{pid} (a (strange) name) {state} " + " ".join(["0"] * 18) + f" {started} 0 0"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot-1\n")
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text(stat(7, "S", 100))
    return tmp_path


def test_a_process_keeps_its_identity(proc: Path) -> None:
    before = identity(7, proc)
    (proc / "7/stat").write_text(stat(7, "R", 100))
    assert before is not None
    assert identity(7, proc) == before


def test_another_process_with_the_same_pid_is_another(proc: Path) -> None:
    before = identity(7, proc)
    (proc / "7/stat").write_text(stat(7, "S", 101))
    assert identity(7, proc) != before


def test_the_same_pid_and_time_after_a_reboot_is_another(proc: Path) -> None:
    before = identity(7, proc)
    (proc / "sys/kernel/random/boot_id").write_text("boot-2\n")
    assert identity(7, proc) != before


def test_a_dead_process_that_nobody_has_collected_is_none(proc: Path) -> None:
    (proc / "7/stat").write_text(stat(7, "Z", 100))
    assert identity(7, proc) is None


def test_a_pid_that_nobody_has_is_none(proc: Path) -> None:
    assert identity(8, proc) is None


def test_without_proc_nothing_is_claimed(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        identity(7, tmp_path)


def test_real_processes_differ() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as one,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other,
    ):
        assert identity(one.pid) == identity(one.pid)
        assert None is not identity(one.pid) != identity(other.pid)
        one.kill()
        other.kill()


def test_names_of_files_never_meet_and_never_lead_away() -> None:
    names = [
        "a",
        "A",
        "a-b",
        "a_b",
        "a b",
        "a/b",
        "a%2Fb",
        "..",
        ".",
        "",
        "~",
        "ä",
        "a" * 99,
        "a" * 300,
        "b" * 300,
        "x+y",
    ]
    files = [f"{home_name(user)}+{home_name(server)}" for user in names for server in names]
    assert len(set(files)) == len(files)
    assert all("/" not in file and len(file.encode()) < 255 for file in files)
    assert all(home_name(name) not in {".", ".."} for name in names)


def test_last_words_are_printable(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" * 50 + b"\x1b[31mred\x1b[0m \xff \xe2\x80\xae evil\n" + b"x" * 10_000 + b"\n")
    lines = last_lines(log)
    assert lines[0] == "first"
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)
    assert max(len(line) for line in lines) <= 400


def test_a_log_that_is_not_there_has_no_last_words(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none") == []
