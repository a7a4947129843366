"""The command with an output that takes nothing: a full disk, or a file that is closed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

SCENARIO = """
nodes: [{name: n1, gpus: 1}]
projects: [{name: vision, quota: 1}]
jobs: [{name: a, project: vision, user: susan, duration: 60}]
"""
COMMANDS = ["--help", "--version", "jobs --help", "plan {scenario}", "simulate {scenario}", "image-contents"]


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    ("output", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_an_output_that_takes_nothing_is_said_in_a_sentence(
    tmp_path: Path, words: str, output: str, why: str
) -> None:
    done = in_shell(tmp_path, words, output)
    assert (done.returncode, done.stderr) == (1, f"Error: The standard output cannot be written: {why}.\n")


@pytest.mark.parametrize("output", ["2>/dev/full", "2>&-"])
def test_errors_that_cannot_be_written_leave_the_exit_code(tmp_path: Path, output: str) -> None:
    done = in_shell(tmp_path, "jobs", output)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_closed_output_gets_nothing_of_other_files(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    done = in_shell(tmp_path, f"simulate {{scenario}} --jobs-out {file}", ">&-")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert len(file.read_text().splitlines()) == 2


def in_shell(folder: Path, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    scenario = folder / "pool.yaml"
    scenario.write_text(SCENARIO)
    command = words.format(scenario=shlex.quote(str(scenario)))
    module = f"{shlex.quote(sys.executable)} -m springtide"
    return subprocess.run(
        ["sh", "-c", f"{module} {command} {redirection}"],
        env={**os.environ, "SPRINGTIDE_URL": "http://127.0.0.1:9/services/springtide"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
