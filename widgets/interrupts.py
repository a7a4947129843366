"""Submissions that an interrupt leaves in no doubt: the pool's answer is waited for, and said."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from springtide.scheduler import wire
from springtide.scheduler.wording import given


def answered(send: Callable[[], wire.Job]) -> wire.Job:
    """Return the job that ``send`` makes of a request.

    An interrupt meanwhile is raised after the answer, with the job in words on the standard error, and a second
    one at once. Threads other than the main one get no interrupts.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        return send()
    interrupted = threading.Event()

    def wait(_signal: int, _frame: FrameType | None) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)
        _say("The work is being sent. Interrupt again to stop waiting for the pool's answer.")

    signal.signal(signal.SIGINT, wait)
    try:
        job = send()
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        _say(f"Sent before the interrupt: {given(job.name)}. pool.job({job.id!r}).cancel() cancels it.")
        raise KeyboardInterrupt
    return job


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
