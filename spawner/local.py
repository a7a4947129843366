"""Build notebooks as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from inspect import isawaitable
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets import Integer, Tuple, Unicode, default

from springtide.scheduler.executors.accounts import DEFAULT_UIDS, Account, AccountError, Accounts, home_name
from springtide.scheduler.executors.supervisor.account import become, forbid_new_privileges
from springtide.spawner.processes import identity
from springtide.spawner.quota import BuildQuota, refusal

LAST_LINES = 12
LONGEST_LINE = 400


class LocalNotebook(BuildQuota, LocalProcessSpawner):
    """Base class of both local spawners: an account per user, a log per notebook, and detection of reused pids."""

    accounts_dir = Unicode(
        help="The pool's state directory, which knows the account of each user; empty: as the spawner it is "
        "built on. Set by `configure`."
    ).tag(config=True)
    account_uids = Tuple(
        Integer(), Integer(), default_value=DEFAULT_UIDS, help="First and last uid of the pool's accounts."
    ).tag(config=True)
    log_dir = Unicode(help="Directory for the notebooks' logs; empty: they write where the hub does.").tag(
        config=True
    )

    pid: int
    popen_kwargs: dict[str, Any]

    _identity: str | None = None

    # ---------- start

    async def start(self) -> Any:
        """Start the server, and return its address once it listens.

        Raises the result of `refusal` if the server ends before.
        """
        configured: dict[str, Any] = self.popen_kwargs
        with self._log_path().open("wb") if self.log_dir else nullcontext() as log:
            if log is not None:
                ours = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
                self.popen_kwargs = {**ours, **configured}
            try:
                ip, port = await super().start()
            except subprocess.SubprocessError as error:
                raise refusal(
                    f"The notebook cannot run as its account: {error}", status=500, reason="account"
                ) from error
            finally:
                self.popen_kwargs = configured
        self._identity = self._identity_now()
        await self._until_it_listens(ip, port)
        return ip, port

    async def _until_it_listens(self, ip: str, port: int) -> None:
        while not await listens(ip, port):
            code = self.proc.poll()
            if code is not None:
                raise refusal(self._obituary(code), status=500, reason="exited")
            await asyncio.sleep(0.1)

    def _obituary(self, code: int) -> str:
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        message = f"The notebook server {ended} before it was ready."
        lines = last_lines(self._log_path()) if self.log_dir else []
        return (
            f"{message} Its last words: {' / '.join(lines)}" if lines else f"{message} The hub's log may tell why."
        )

    def _log_path(self) -> Path:
        return Path(self.log_dir) / f"{home_name(self.user.name)}+{home_name(self.name)}.log"

    # ---------- the account

    @property
    def account(self) -> Account | None:
        """Account that the notebook runs as; None if the underlying spawner chooses it.

        Raises the result of `refusal` if the account cannot be provided.
        """
        if not self.accounts_dir:
            return None
        try:
            return Accounts(Path(self.accounts_dir), self.account_uids).of(self.user.name)
        except AccountError as error:
            raise refusal(str(error), status=500, reason="account") from None

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """Return the function that the new process calls first, which changes to the account and its home."""
        account = self.account
        if account is None:
            as_built: Callable[[], None] = super().make_preexec_fn(name)
            return as_built
        return _enter(account)

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Return ``env`` with the variables of the account, such as its home directory."""
        account = self.account
        if account is None:
            as_built: dict[str, str] = super().user_env(env)
            return as_built
        return env | account.environment

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Move the certificates of ``internal_ssl`` to the account, and return their paths.

        Raises the result of `refusal` for an account that has only a number.
        """
        account = self.account
        if account is None:
            moved: Any = super().move_certs(paths)
            as_built: dict[str, str] = await moved if isawaitable(moved) else moved
            return as_built
        if account.numeric:
            message = f"c.JupyterHub.internal_ssl needs an account of this machine for {self.user.name}."
            raise refusal(message, status=500, reason="account")
        to_home: dict[str, str] = await LocalProcessSpawner.move_certs(self, paths)
        return to_home

    def run_as_user(self, command: Sequence[str]) -> None:
        """Run a short program in the user's home with the user's permissions.

        Raises the errors of `subprocess.run`.
        """
        environment: dict[str, str] = {**self.user_env({}), "PATH": os.defpath, "LANG": "C.UTF-8"}
        subprocess.run(
            command,
            env=environment,
            preexec_fn=self.make_preexec_fn(self.user.name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )

    # ---------- the process

    def _identity_now(self) -> str | None:
        try:
            return identity(self.pid)
        except LookupError:
            return None

    async def poll(self) -> int | None:
        """Return the underlying spawner's status; another process with the pid of an ended notebook is ignored."""
        if self.proc is None and self.pid and self._identity and self._identity_now() != self._identity:
            self.pid = 0
        status: int | None = await super().poll()
        return status

    def get_state(self) -> dict[str, Any]:
        """Return the underlying spawner's state and the identity of the process."""
        state = super().get_state()
        return state | {"identity": self._identity} if self._identity else state

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the state of a notebook that outlived the hub, with the identity of its process."""
        super().load_state(state)
        self._identity = state.get("identity")

    def clear_state(self) -> None:
        """Clear the state of a server that has ended or is about to start."""
        super().clear_state()
        self._identity = None


class LocalBuildSpawner(LocalNotebook, LocalProcessSpawner):
    """Spawner of notebooks as processes of their users' own accounts, for a hub that runs as root."""


class SimpleBuildSpawner(LocalNotebook, SimpleLocalProcessSpawner):
    """Spawner of notebooks as processes of the hub's own account, with a home directory per user.

    Users are not isolated from each other: suitable for one person, or for people who trust each other. If the hub
    runs as root and the admin has not chosen shared accounts, each notebook runs as its user's own account.
    """

    @default("home_dir")
    def _default_home_dir(self) -> str:
        return str(self.home_dir_template.format(username=home_name(self.user.name)))


def _enter(account: Account) -> Callable[[], None]:
    record, home, locked = account.record, account.home, account.numeric

    def enter() -> None:
        become(record)
        if locked:
            forbid_new_privileges()
        try:
            os.chdir(home)
        except OSError:
            os.chdir("/")

    return enter


async def listens(ip: str, port: int) -> bool:
    """Return whether a server accepts connections at the address."""
    try:
        _, writer = await asyncio.open_connection(ip, port)
    except OSError:
        return False
    writer.close()
    return True


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log, limited to printable characters; an unreadable log has none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            tail = deque(lines, LAST_LINES)
    except OSError:
        return []
    shown = ("".join(c for c in line if c.isprintable()).strip()[:LONGEST_LINE] for line in tail)
    return [line for line in shown if line]
