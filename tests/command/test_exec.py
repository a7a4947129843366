"""``springtide exec`` against a real hub: its terminal, its signals, its pipes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hubs.hub_people import Hub
from patience import PATIENCE_S
from programs.terminal import OURS, Run

pytestmark = pytest.mark.xdist_group("hub-command")


@pytest.fixture
def environment(hub: Hub, tokens: Callable[[str], str]) -> dict[str, str]:
    """The environment of a terminal of susan's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    address = {"SPRINGTIDE_URL": f"{hub.url}/services/springtide", "JUPYTERHUB_API_TOKEN": tokens("susan")}
    return {**kept, **address, "TERM": "xterm"}


@pytest.fixture
def job(run: Run) -> Any:
    """A running job of susan's."""
    job = run("submit", "--json", "--", "sleep", "600").json["id"]
    deadline = time.monotonic() + PATIENCE_S
    while run("show", job, "--json").json["state"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield job
    run("cancel", job)


def command(environment: dict[str, str], *words: str, **more: Any) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "springtide", "exec", *words]
    return subprocess.Popen(argv, env=environment, **more)


class Terminal:
    """A terminal in which the command runs."""

    def __init__(self, environment: dict[str, str], *words: str) -> None:
        self.ours, its = pty.openpty()
        self.resize(100, 30)
        self.before = termios.tcgetattr(its)
        self.its = its
        environment = {**environment, "COLUMNS": "80", "LINES": "24"}
        self.process = command(environment, *words, stdin=its, stdout=its, stderr=its, start_new_session=True)
        self.seen = b""
        self.before_match = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self.ours, text)

    def until(self, text: bytes) -> None:
        """Read until a text appears, and forget what came up to it."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            if time.monotonic() >= deadline:
                pytest.fail(f"{text!r} did not appear in {self.seen!r}")
            if select.select([self.ours], [], [], 0.1)[0]:
                self.seen += os.read(self.ours, 1 << 16)
        self.before_match, _, self.seen = self.seen.partition(text)

    def end(self) -> int:
        """Return the exit code of the command; check that its terminal is as before."""
        code = self.process.wait(PATIENCE_S)
        assert termios.tcgetattr(self.its) == self.before
        os.close(self.its)
        os.close(self.ours)
        return code


def test_a_terminal_in_a_job_resizes_interrupts_and_returns_the_exit_code(
    environment: dict[str, str], job: str
) -> None:
    terminal = Terminal(environment, job)
    terminal.type(b"stty size; echo $TERM rea''dy\n")
    terminal.until(b"30 100\r\n")
    terminal.until(b"xterm ready")
    terminal.resize(120, 40)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    terminal.type(b'until [ "$(stty size)" = "40 120" ]; do sleep 0.1; done; stty size\n')
    terminal.until(b"40 120\r\n")
    terminal.type(b"echo be''gins; sleep 600\n")
    terminal.until(b"begins\r\n")
    time.sleep(0.3)
    terminal.type(b"\x03")
    terminal.type(b"echo af''ter\n")
    terminal.until(b"after\r\n")
    terminal.type(b"exit 5\n")
    terminal.until("You have left the job “sleep”, which still runs.".encode())
    assert terminal.end() == 5


def test_a_terminal_of_a_job_that_ends_says_so_once(environment: dict[str, str], run: Run, job: str) -> None:
    terminal = Terminal(environment, job)
    terminal.type(b"echo rea''dy\n")
    terminal.until(b"ready\r\n")
    run("cancel", job)
    terminal.until("The job “sleep” has ended: cancelled.\r\n".encode())
    assert terminal.before_match.endswith(b"\r\n")
    assert b"attempt" not in terminal.before_match
    assert terminal.end() in {129, 137, 255}


def test_what_was_being_typed_when_its_job_ended_does_not_close_a_terminal_that_stays(
    environment: dict[str, str], run: Run, job: str
) -> None:
    terminal = Terminal(environment, "--stay", job)
    terminal.type(b"echo rea''dy\n")
    terminal.until(b"ready\r\n")
    terminal.type(b"echo half a comm")
    terminal.until(b"echo half a comm")
    run("cancel", job)
    terminal.until(b"Press Enter to close this terminal ")
    terminal.type(b"\n")
    terminal.until(b"Nothing was run. Press Enter to close this terminal ")
    terminal.type(b"and another\n")
    terminal.until(b"Nothing was run. Press Enter to close this terminal ")
    terminal.type(b"\n")
    assert terminal.end() in {129, 137, 255}


def test_a_command_in_a_pipe_has_bytes_and_separate_errors(environment: dict[str, str], job: str) -> None:
    text = "cat; printf two >&2; exit 3"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = command(environment, job, "--", "sh", "-c", text, **pipes)
    much = bytes(range(256)) * 4096
    out, err = process.communicate(much, timeout=PATIENCE_S)
    assert (out, err, process.returncode) == (much, b"two", 3)


def test_a_reader_that_leaves_and_an_input_that_nobody_reads_end_the_command(
    environment: dict[str, str], job: str
) -> None:
    argv = f"{sys.executable} -m springtide exec {job}"
    text = f"{argv} -- yes | head -c 3; {argv} -- sh -c 'exit 4' < /dev/zero; echo $?"
    done = subprocess.run(
        ["sh", "-c", text], env=environment, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout == b"y\ny4\n", done.stderr
    assert done.stderr == b""


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_command_without_a_terminal_ends_in_the_job(
    environment: dict[str, str], job: str, directory: Path
) -> None:
    process = command(environment, job, "--", "sh", "-c", "echo $$; exec sleep 600", stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    process.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_no_running_job_of_ones_own_is_refused_in_words(run: Run, job: str) -> None:
    refused = run("exec", job, "--", "true", user="joe")
    assert (refused.code, "There is no job" in refused.err or "nobody else" in refused.err) == (1, True), refused
    unknown = run("exec", "no-such-job", "--", "true")
    assert (unknown.code, "There is no job" in unknown.err) == (1, True), unknown
    none = run("exec", job, "--", "no-such-program")
    assert (none.code, "There is no program “no-such-program”" in none.err) == (127, True), none
    closed = run("exec", job, "--", "/etc/passwd")
    assert (closed.code, "cannot be run: Permission denied" in closed.err) == (126, True), closed
    rank = run("exec", job, "--rank", "3", "--", "true")
    assert (rank.code, "rank" in rank.err) == (2, True), rank


def test_where_a_job_is_now_is_shown_for_all_workers_or_one(run: Run, job: str) -> None:
    shown = run("stack", job)
    assert (shown.code, "sleep 600 (waiting)" in shown.out) == (0, True), shown
    assert [each["rank"] for each in run("stack", job, "--json").json["workers"]] == [0]
    for words in ([], ["--json"]):
        missing = run("stack", job, "--rank", "1", *words)
        assert (missing.code, "The job has no worker 1; it has 1." in missing.err) == (2, True), missing
    assert run("stack", "no-such-job").code == 1
