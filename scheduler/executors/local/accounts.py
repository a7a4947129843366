"""Whose rights a job runs with."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Any

from springtide.scheduler.executors.base import ExecutorError


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this machine, looked up once so that nothing is looked up with its rights."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def record(self) -> dict[str, Any]:
        """What the supervisor needs to become it."""
        return {"name": self.name, "uid": self.uid, "gid": self.gid, "groups": list(self.groups)}

    @property
    def owner(self) -> tuple[int, int]:
        """Owner and group of the files made for it."""
        return self.uid, self.gid


def own_account(user: str) -> Account:
    """The account that is named like the user. Raises `ExecutorError` if there is none or it is root."""
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise ExecutorError(f"There is no account {user!r} on this machine for the job to run as.") from None
    if entry.pw_uid == 0:
        raise ExecutorError(f"Jobs do not run as {user!r}: it has all rights on this machine.")
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(groups), entry.pw_dir, entry.pw_shell)
