"""Watch on the parent process: the service ends with its hub, so that the next hub can start its own service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def when_parent_dies(gone: Callable[[], None]) -> Callable[[], None]:
    """Call ``gone`` in the running loop once the process that started this one has ended; jobs are not affected.

    Returns a function that ends the watch. A parent that is the first process of the machine or container is not
    watched, because no process outlives it.
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
