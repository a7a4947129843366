"""The connection of this process to the pool: one client, with its refusals as the notebook's own errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from springtide.scheduler import client as pool_client
from springtide.scheduler.client import Client, own_token
from springtide.scheduler.wire import Problem
from springtide.widgets.errors import NotOnHubError, SpringtideError

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_S = 15.0
"""Time for which a cell waits for a restarting service, in seconds."""

NOT_ON_HUB = (
    "There is no pool here: this notebook was not started by a hub with Springtide. Log in to your hub and open "
    "the notebook there, or start a hub of your own on this machine with the command `springtide up`. The code "
    "itself runs without a pool as well."
)

NOT_IN_JOBS = (
    "Jobs of this pool cannot use the pool themselves: its administrator has set no address for it "
    "(Springtide.jobs_url). Submit the next job from a notebook, or ask the administrator."
)


class PoolError(SpringtideError, pool_client.PoolError):
    """The pool refused. ``problem`` has the reason for programs, the message has it for people, with a hint."""

    def __init__(self, problem: Problem) -> None:
        pool_client.PoolError.__init__(self, problem)


class UnreachableError(SpringtideError, pool_client.Unreachable):
    """The pool's service does not answer. Submitted jobs are safe, and running jobs continue."""


class Connection:
    """A client of the pool; safe to share between threads."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def ask(self, call: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return ``call(client, …)``: ``ask(Client.job, "42")``. Raises `PoolError` and `UnreachableError`."""
        try:
            return call(self.client, *args, **kwargs)
        except (pool_client.PoolError, pool_client.Unreachable) as error:
            raise own(error) from None


def own(error: Exception) -> Exception:
    """Return a client's error as the notebook's own, any other error as it is."""
    if isinstance(error, pool_client.PoolError):
        return PoolError(error.problem)
    return UnreachableError(str(error)) if isinstance(error, pool_client.Unreachable) else error


_connections: dict[tuple[str, str], Connection] = {}
_lock = threading.Lock()


def connection() -> Connection:
    """Return this process's connection. Raises `NotOnHubError` if there is no pool."""
    url = os.environ.get("SPRINGTIDE_URL", "")
    if not url:
        raise NotOnHubError(NOT_IN_JOBS if os.environ.get("SPRINGTIDE_JOB_ID") else NOT_ON_HUB)
    token = own_token()
    with _lock:
        if (url, token) not in _connections:
            _connections[url, token] = Connection(Client(url, token, patience=PATIENCE_S))
        return _connections[url, token]
