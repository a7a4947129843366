"""The state of processes, and a process that takes long to end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from springtide.scheduler.executors.local.running import environment

SLEEPS = ("-S", "-c", "import time; time.sleep(600)")
_LINGERS = """
import ctypes, json, os, subprocess, sys, time
if ctypes.CDLL(None, use_errno=True).unshare(0x20000000):  # CLONE_NEWPID
    sys.exit(os.strerror(ctypes.get_errno()))
environment = {**os.environ, **json.loads(sys.argv[1])}
first = subprocess.Popen([sys.executable, *sys.argv[2:]], env=environment, stdout=subprocess.DEVNULL)
if os.fork() == 0:
    time.sleep(600)
print(first.pid, flush=True)
sys.stdin.read()
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
"""The first process of a PID namespace ends after all others there, and the second one is not waited for yet."""


@contextmanager
def lingering(variables: dict[str, str], *arguments: str) -> Iterator[int]:
    """Start a Python with these variables that, once killed, has not ended before the block ends; yield its pid.

    Like one whose GPUs the driver is closing, it has no environment left then. Only root can start it.
    """
    command = [sys.executable, "-S", "-c", _LINGERS, json.dumps(variables), *(arguments or SLEEPS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        yield int(parent.stdout.readline())
        parent.stdin.close()


def is_ending(pid: int) -> bool:
    """Return whether a killed process has lost its memory and has not ended."""
    return alive(pid) and not environment(pid)


def alive(pid: int) -> bool:
    """Return whether a process is running; an ended process that its parent has not waited for is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
