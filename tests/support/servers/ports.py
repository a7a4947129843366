"""Ports of the loopback address for servers that tests start.

Between the choice of a port and the start of its server another server could take it: a worker of pytest chooses
among ports that no other worker of the run chooses, and none twice.
"""

from __future__ import annotations

import os

from springtide.hub_extension.local_hub import state_dir
from springtide.hub_extension.local_hub.state_dir import HIGHEST_PORT, LOWEST_PORT

_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_given: set[int] = set()


def free_ports(number: int) -> list[int]:
    """Return ports that are not in use and that no outgoing connection takes meanwhile."""
    others = (port for port in range(LOWEST_PORT, HIGHEST_PORT + 1) if port % _WORKERS != _WORKER)
    found = state_dir.free_ports(number, avoid={*others, *_given})
    _given.update(found)
    return found


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]
