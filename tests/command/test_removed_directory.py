"""The command in a working directory that was removed: it works, or says what is wrong."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

SHELL = "cd {directory} && rmdir {directory} && exec {command}"


@pytest.mark.parametrize("words", ["submit -- true", "rerun some-job", "up", "doctor", "backup x.sqlite"])
def test_a_command_that_needs_the_directory_says_that_it_was_removed(tmp_path: Path, words: str) -> None:
    done = run_where_nothing_is(tmp_path, words)
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    assert f"The working directory “{tmp_path / 'gone'}” was removed. Change to a directory" in done.stderr


@pytest.mark.parametrize("words", ["--help", "env list", "submit --help"])
def test_a_command_that_does_not_need_it_works(tmp_path: Path, words: str) -> None:
    done = run_where_nothing_is(tmp_path, words)
    assert (done.returncode, done.stderr) == (0, "")


def run_where_nothing_is(root: Path, words: str) -> subprocess.CompletedProcess[str]:
    gone = root / "gone"
    gone.mkdir()
    command = f"{shlex.quote(str(Path(sys.executable).with_name('springtide')))} {words}"
    shell = SHELL.format(directory=shlex.quote(str(gone)), command=command)
    return subprocess.run(
        ["sh", "-c", shell],
        env={**os.environ, "SPRINGTIDE_URL": "http://127.0.0.1:9/services/springtide"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
