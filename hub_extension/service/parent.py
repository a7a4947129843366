"""Watch on the hub: the service ends with it, so that the next hub can start its own service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from springtide.hub_extension.local_hub.orphans import HUB_PID


def hub_pid(environment: Mapping[str, str]) -> int | None:
    """Return the pid of the hub, if it has started this process, else None.

    Without `HUB_PID` it is the present parent, which may no longer be the hub.
    """
    if "JUPYTERHUB_SERVICE_NAME" not in environment:
        return None
    pid = environment.get(HUB_PID, "")
    return int(pid) if pid.isdecimal() else os.getppid()


def when_hub_ends(hub: int, gone: Callable[[], None]) -> Callable[[], None]:
    """Call ``gone`` in the running loop once the hub, which started this process, has ended; jobs continue.

    Returns a function that ends the watch. A hub that has ended before is noticed because this process has another
    parent now. A hub that is the first process of the machine or container is not watched, because no process
    outlives it.
    """
    loop = asyncio.get_running_loop()
    if os.getppid() != hub:
        loop.call_soon(gone)
        return lambda: None
    if hub <= 1:
        return lambda: None
    try:
        handle = os.pidfd_open(hub)
    except ProcessLookupError:
        loop.call_soon(gone)
        return lambda: None
    if os.getppid() != hub:
        loop.call_soon(gone)

    def died() -> None:
        loop.remove_reader(handle)
        gone()

    def forget() -> None:
        loop.remove_reader(handle)
        os.close(handle)

    loop.add_reader(handle, died)

    return forget
