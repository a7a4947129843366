"""The hub that started this process: a service leaves with it, so that the next hub can start its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def when_parent_dies(gone: Callable[[], None]) -> Callable[[], None]:
    """Call ``gone`` in the running loop once the process that started this one has ended; jobs are not its.

    Answers a function that forgets about it. A parent that is the machine's (or container's) first process is
    not watched: nothing outlives it.
    """
    parent = os.getppid()
    if parent <= 1:
        return lambda: None
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(parent)
    except ProcessLookupError:
        loop.call_soon(gone)
        return lambda: None
    if os.getppid() != parent:
        loop.call_soon(gone)

    def died() -> None:
        loop.remove_reader(handle)
        gone()

    def forget() -> None:
        loop.remove_reader(handle)
        os.close(handle)

    loop.add_reader(handle, died)

    return forget
