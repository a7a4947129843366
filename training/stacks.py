"""Stacks of all threads of this process on request, also while it hangs in a library.

The pool's program `springtide.scheduler.executors.supervisor.stack` finds the file in memory by its name, which
has the number of the signal, sends the signal, and reads the file. A forked child answers in the same way.
"""

from __future__ import annotations

import faulthandler
import fcntl
import json
import os
import signal
from collections.abc import Mapping

NAME = "springtide-stack-{}"
"""Name of the file in memory that stacks are written to, with the number of the signal."""
CELLS = "springtide-cells"
"""Name of the file in memory that says how tracebacks call notebook code."""

_registered = False
_cells = -1


def answer_requests() -> None:
    """Write the stacks of all threads to a file in memory at a signal that nothing else uses; do so once."""
    global _registered  # noqa: PLW0603 - a process registers once
    if _registered or not hasattr(os, "memfd_create"):
        return
    number = signal.SIGRTMAX - 7
    try:
        if signal.getsignal(number) != signal.SIG_DFL:
            return
        file = os.memfd_create(NAME.format(int(number)), os.MFD_CLOEXEC)
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        faulthandler.register(number, file=file, all_threads=True)
    except (OSError, RuntimeError, ValueError):
        return
    _registered = True


def name_cells(labels: Mapping[str, str]) -> None:
    """Keep how tracebacks call notebook code, such as ``In [8]``, by the names under which stacks have it."""
    global _cells  # noqa: PLW0603 - a process has one such file
    if not hasattr(os, "memfd_create"):
        return
    try:
        if _cells < 0:
            _cells = os.memfd_create(CELLS, os.MFD_CLOEXEC)
        os.ftruncate(_cells, 0)
        os.pwrite(_cells, json.dumps(dict(labels)).encode(), 0)
    except OSError:
        return
