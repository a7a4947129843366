"""Environments that a page of the notebook server makes for the server's user, and how far each is."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Literal

import msgspec

from springtide.scheduler.user_environments import UserEnvironmentError, check_request, user_environments
from springtide.scheduler.wire import Problem
from springtide.widgets.server_extension.pool_gate import GateError

LONGEST_LINE = 200


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An environment to make: its name, and the packages to install into it."""

    name: str
    packages: list[str] = []


class Progress(msgspec.Struct, frozen=True):
    """How far an environment is: the last line of its making, its kernel, or the problem."""

    name: str
    state: Literal["making", "ready", "failed"]
    line: str = ""
    kernel: str = ""
    problem: str = ""


class Workshop:
    """Makes environments in threads, and knows how far each is."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._known: dict[str, Progress] = {}
        self._lock = threading.Lock()

    def begin(self, body: bytes) -> Progress:
        """Begin to make the environment that the body names; return at once. Raises `GateError`."""
        try:
            wanted = msgspec.json.decode(body, type=Wanted)
            check_request(wanted.name, wanted.packages)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _invalid(f"The request is not readable: {error}.") from None
        except UserEnvironmentError as error:
            raise _invalid(str(error)) from None
        with self._lock:
            known = self._known.get(wanted.name)
            if known is not None and known.state == "making":
                return known
            begun = self._known[wanted.name] = Progress(wanted.name, "making")
        threading.Thread(target=self._make, args=(wanted,), name=f"environment {wanted.name}", daemon=True).start()
        return begun

    def progress(self, name: str) -> Progress:
        """Return how far an environment is. Raises `GateError` 404 for one that this server was not asked for."""
        found = self._known.get(name)
        if found is None:
            message = "This notebook server makes no environment of that name."
            raise GateError(Problem(status=404, code="not_found", message=message))
        return found

    def _make(self, wanted: Wanted) -> None:
        def show(line: str) -> None:
            self._known[wanted.name] = Progress(wanted.name, "making", line[:LONGEST_LINE])

        try:
            made = user_environments(self._environ, show).create(wanted.name, wanted.packages)
        except (UserEnvironmentError, OSError) as error:
            self._known[wanted.name] = Progress(wanted.name, "failed", problem=str(error))
        else:
            self._known[wanted.name] = Progress(wanted.name, "ready", kernel=made.kernel)


def _invalid(message: str) -> GateError:
    return GateError(Problem(status=422, code="invalid", message=message))
