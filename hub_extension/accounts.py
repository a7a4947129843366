"""The accounts that jobs and notebooks of one machine run as: the choice and its messages."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from typing import Literal

from springtide.scheduler.executors.accounts import AccountError

Mode = Literal["own", "shared"]


def whose_accounts(chosen: str | None, *, root: bool) -> Mode:
    """Return the accounts that jobs and notebooks run as, given the setting ``accounts``.

    Raises `AccountError` if that is not possible, or is unsafe and the admin has not written it.
    """
    if chosen == "shared":
        return "shared"
    if root:
        return "own"
    name = account_name()
    if chosen == "own":
        raise AccountError(
            f"c.Springtide.accounts = 'own' needs a hub that runs as root; this one runs as {name}. Run it as "
            "root, or write c.Springtide.accounts = 'shared' if all users trust each other."
        )
    raise AccountError(
        f"This hub does not run as root, so every job would run as its account {name}: whoever can log in could "
        "read the hub's secrets and the files of all other users. Run the hub as root, so that each user has an "
        "account of her own; or, if all users trust each other, write c.Springtide.accounts = 'shared' before "
        "configure(c)."
    )


def shared_notice() -> str:
    """Return the sentence for log, page and terminal if all run as this process's account."""
    name = account_name()
    return (
        f"All notebooks and jobs here run as the account {name}: whoever logs in acts as {name} and "
        "can read the files, secrets and jobs of everybody else. All users must trust each other."
    )


def account_name() -> str:
    """Return the name of this process's account, its uid if it has none."""
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())
