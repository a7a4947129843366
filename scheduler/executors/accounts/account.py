"""An account of this machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

LONGEST_NAME = 100


class AccountError(Exception):
    """There is no account that a job or notebook may run as; the message names the reason and the way out."""


@dataclass(frozen=True, slots=True)
class Account:
    """Rights and home of one user, looked up once so that nothing is looked up with these rights.

    ``numeric`` tells an account of the pool's own range, which is in no passwd file. ``view`` maps directories
    that the account may not enter to the places below them that it needs.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    numeric: bool
    view: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def record(self) -> dict[str, Any]:
        """What `springtide.scheduler.executors.supervisor.account.become` needs."""
        view = [[closed, list(places)] for closed, places in self.view]
        return {"name": self.name, "uid": self.uid, "gid": self.gid, "groups": list(self.groups), "view": view}

    @property
    def owner(self) -> tuple[int, int]:
        """Owner and group of the files made for it."""
        return self.uid, self.gid

    @property
    def environment(self) -> dict[str, str]:
        """What its processes learn of it from their environment."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def home_name(user: str) -> str:
    """Return the name of the directory for a user or server: different for different names, and never a path."""
    quoted = quote(user, safe="@ ").replace("~", "%7E")
    if set(quoted) == {"."}:
        quoted = quoted.replace(".", "%2E")
    return quoted if len(quoted) <= LONGEST_NAME else f"~{hashlib.sha256(user.encode()).hexdigest()}"
