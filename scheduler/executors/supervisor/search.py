"""Searches for checkpoints of an attempt, each in a process of the job's account, which reports what it finds."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any, NoReturn

from .account import become, end_with, forbid_new_privileges
from .checkpoints import newest
from .saved import are_damaged, has_own
from .worker import ANSWERED, IGNORED

SHARE = 20
"""Minimum interval between two searches, as a multiple of their duration."""
SLACK = 1.0
"""How much earlier than the start of the job the clock of its file system may be, in seconds."""
PATIENCE = 10.0
"""Maximum time that an ended attempt waits for its last search, in seconds."""
GONE = "checkpoint-gone"
"""The milestone in the reports by which an earlier checkpoint is no more."""
DAMAGED = "checkpoints-damaged"
"""The milestone in the reports by which no checkpoint of `springtide.training` is whole any more."""

BEGAN_WITHOUT = "began-without"
"""The field in the reports with the sorts of checkpoints of which an attempt found none when it began."""
OWN, FOUND = "own", "found"
"""Checkpoints of `springtide.training`, and those of others that the search recognises."""


class Search:
    """Searches the folders of a job for its newest checkpoint, and appends changes to the job's reports.

    ``plan`` is the part ``search`` of the attempt's spec, None for no search: the folders (``roots``), the paths
    that the job's user named (``named``), the time before which files are not the job's (``since``), the interval
    in seconds (``every``), the folder of `springtide.training` (``own``) and the file of reports (``reports``).
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._plan: dict[str, Any] | None = spec.get("search")
        self._last: list[Any] | None = None
        self._began = 0.0
        self._begins = False
        self.answer: int | None = None
        """The pipe that a search in progress answers on."""
        self.due: float | None = None
        """When to search next, on the monotonic clock; None for not by itself."""

    def start(self, started: float) -> None:
        """Search from now on; the processes of the attempt ``started`` at this time.

        A later attempt reports at once which sorts of checkpoints are missing: its job may have known some.
        """
        if self._plan is not None:
            self._plan = {**self._plan, "since": (self._plan["since"] or started) - SLACK}
            self._begins = self._spec["attempt"] > 1
            self.due = time.monotonic() + (0.0 if self._begins else self._plan["every"])

    def begin_if_due(self) -> int | None:
        """Begin a search if it is due; return the pipe that it answers on, None if there is none."""
        if self._plan is None or self.due is None or time.monotonic() < self.due:
            return None
        self.due = None
        self._began = time.monotonic()
        _, self.answer = self._fork(self._plan, begins=self._begins)
        self._begins = False
        return self.answer

    def finish(self) -> None:
        """Read the answer of the search in progress, and close its pipe."""
        assert self.answer is not None
        assert self._plan is not None
        self._hear(self.answer)
        self.answer = None
        took = time.monotonic() - self._began
        self.due = time.monotonic() + max(self._plan["every"], SHARE * took)

    def search_at_end(self, *, killed: bool) -> None:
        """Search once more, after all processes of the attempt have ended; give up after `PATIENCE`.

        ``killed``: a signal has ended one of them, perhaps while it wrote.
        """
        if self._plan is None:
            return
        pid, answer = self._fork(self._plan, ended=True, killed=killed)
        poll = select.poll()
        poll.register(answer, select.POLLIN)
        if not poll.poll(PATIENCE * 1000):
            os.kill(pid, signal.SIGKILL)
        self._hear(answer)
        os.waitid(os.P_PID, pid, os.WEXITED | (0 if self._ends(pid) else os.WNOHANG))

    def _ends(self, pid: int) -> bool:
        """Return whether a process ends at once; one that waits for a dead file server does not."""
        handle = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            return bool(poll.poll(1000))
        finally:
            os.close(handle)

    def _hear(self, answer: int) -> None:
        os.set_blocking(answer, False)
        with suppress(BlockingIOError, ValueError):
            self._last = json.loads(os.read(answer, 1 << 16))
        os.close(answer)

    def _fork(
        self, plan: dict[str, Any], *, begins: bool = False, ended: bool = False, killed: bool = False
    ) -> tuple[int, int]:
        parent = os.getpid()
        answer, its_answer = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            self._run(plan, its_answer, parent, begins=begins, ended=ended, killed=killed)
        os.close(its_answer)
        return pid, answer

    def _run(
        self, plan: dict[str, Any], answer: int, parent: int, *, begins: bool, ended: bool, killed: bool
    ) -> NoReturn:
        """Search, in the forked child; answer with the checkpoint that is the newest now."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (*ANSWERED, *IGNORED):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(answer, 3)
            os.closerange(4, 4096)
            if self._spec["account"]:
                become(self._spec["account"])
            forbid_new_privileges()
            end_with(parent)
            os.nice(10)
            anything = plan.get("any", False)
            if begins:
                self._report_missing(plan, any_data=anything)
            found = newest(
                plan["roots"], plan["since"], plan["named"], any_data=anything, ended=ended, killed=killed
            )
            present = None if found is None else list(found)
            if present != self._last:
                news = {"milestone": GONE} if found is None else {"found": found._asdict()}
                append(plan["reports"], self._spec["attempt"], news, time.time())
            if ended and are_damaged(plan["own"]):
                append(plan["reports"], self._spec["attempt"], {"milestone": DAMAGED}, time.time())
            os.write(3, json.dumps(present).encode())
        except Exception:  # noqa: BLE001 - the child must end here, whatever happened
            os._exit(1)
        os._exit(0)

    def _report_missing(self, plan: dict[str, Any], *, any_data: bool) -> None:
        """Report the sorts of checkpoints of which there is none. No program has written anything new yet."""
        found = newest(plan["roots"], plan["since"], plan["named"], any_data=any_data, ended=True)
        missing = [*([] if has_own(plan["own"]) else [OWN]), *([FOUND] if found is None else [])]
        if missing:
            append(plan["reports"], self._spec["attempt"], {BEGAN_WITHOUT: missing}, time.time())


def append(path: str, attempt: int, news: dict[str, Any], now: float) -> None:
    """Append news of a job's checkpoints to its reports. Raises `OSError`."""
    line = json.dumps({"at": now, "attempt": attempt, **news}).encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.write(file, b"\n" + line + b"\n")  # the line before may have been cut short
    finally:
        os.close(file)
