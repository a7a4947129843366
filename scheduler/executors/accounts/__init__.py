"""Accounts of this machine that jobs and notebooks run as if the hub runs as root."""

from springtide.scheduler.executors.accounts.account import Account, AccountError, home_name
from springtide.scheduler.executors.accounts.registry import DEFAULT_UIDS, LOWEST_UID, MACHINE, Accounts, SharedUid

__all__ = [
    "DEFAULT_UIDS",
    "LOWEST_UID",
    "MACHINE",
    "Account",
    "AccountError",
    "Accounts",
    "SharedUid",
    "home_name",
]
