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
from jupyterhub.utils import isoformat
from sqlalchemy.exc import SQLAlchemyError
from traitlets import Integer, Tuple, Unicode, default

from springtide.scheduler.executors import notebooks
from springtide.scheduler.executors.accounts import (
    DEFAULT_UIDS,
    MACHINE,
    Account,
    AccountError,
    Accounts,
    home_name,
)
from springtide.scheduler.executors.supervisor.account import become, forbid_new_privileges
from springtide.scheduler.wire import Workspace
from springtide.scheduler.wording import listed
from springtide.spawner.processes import identity
from springtide.spawner.quota import BuildQuota, refusal

LAST_LINES = 12
LONGEST_LINE = 400


class LocalNotebook(BuildQuota, LocalProcessSpawner):
    """Base class of both local spawners: an account per user, a log per notebook, and checks of the processes.

    A server whose start was interrupted by the end of the hub is found again in the process table, and the
    leftovers of a server end with it.
    """

    accounts_dir = Unicode(
        help="The pool's state directory, which has the account of each user; empty: as the spawner it is "
        "built on. Set by `configure`."
    ).tag(config=True)
    account_uids = Tuple(
        Integer(), Integer(), default_value=DEFAULT_UIDS, help="First and last uid of the pool's accounts."
    ).tag(config=True)
    uid_registry = Unicode(
        str(MACHINE), help="The file in which all pools of this machine record their uids. Set by `configure`."
    ).tag(config=True)
    log_dir = Unicode(help="Directory for the notebooks' logs; empty: they write where the hub does.").tag(
        config=True
    )

    pid: int
    popen_kwargs: dict[str, Any]

    _identity: str | None = None
    _address: tuple[str, int] | None = None
    _may_be_unknown: bool = True

    # ---------- start

    async def start(self) -> Any:
        """Start the server, and return its address once it listens.

        The hub's database knows the process before the wait, so that the next hub finds the server. Raises the
        result of `refusal` if the server ends before it listens.
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
        self._address = ip, port
        self._store_state()
        await self._until_it_listens(ip, port)
        return ip, port

    def _store_state(self) -> None:
        """Store the state in the hub's database now; the hub does that when the start is complete."""
        try:
            self.orm_spawner.state = self.get_state()
            self.db.commit()
        except SQLAlchemyError as error:
            self.db.rollback()
            self.log.error("The state of %s cannot be stored: %s", self._log_name, error)  # noqa: TRY400

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
            f"{message} Its last words: {' / '.join(lines)}" if lines else f"{message} The hub's log may show why."
        )

    def _log_path(self) -> Path:
        return Path(self.log_dir) / f"{home_name(self.user.name)}+{home_name(self.name)}.log"

    # ---------- the account

    @property
    def _accounts(self) -> Accounts:
        return Accounts(Path(self.accounts_dir), self.account_uids, Path(self.uid_registry))

    @property
    def account(self) -> Account | None:
        """Account that the notebook runs as; None if the underlying spawner chooses it.

        Raises the result of `refusal` if the account cannot be provided.
        """
        if not self.accounts_dir:
            return None
        try:
            return self._accounts.of(self.user.name, isoformat(self.user.created))
        except AccountError as error:
            raise refusal(str(error), status=500, reason="account") from None

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """Return the function that the new process calls first, which changes to the account and its home."""
        account = self.account
        enter: Callable[[], None] = super().make_preexec_fn(name) if account is None else _enter(account)
        if not self.state_dir:
            return enter
        state_dir, hub = Path(self.state_dir), os.getpid()

        def before_exec() -> None:
            notebooks.before_exec(state_dir, hub)
            enter()

        return before_exec

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
        """Return the underlying spawner's status.

        Another process with the pid of an ended notebook is ignored. A running server without a process in the
        hub's state, because the hub ended while it started, is taken over. Once the server was known, a process
        that is found is no server, but one that the server has left behind.
        """
        if self.proc is None and not self._reserving and not self._is_known():
            self.pid = 0
            if self._may_be_unknown and not self._identity:
                await self._take_over()
            self._may_be_unknown = False
        status: int | None = await super().poll()
        return status

    def _is_known(self) -> bool:
        """Return whether the process in the state runs; one without an identity is assumed to be the server."""
        return bool(self.pid) and (not self._identity or self._identity_now() == self._identity)

    async def _take_over(self) -> None:
        """Look for the server among the processes of this machine, and keep the newest of its starts."""
        found = notebooks.of_server(await self._notebooks(), self.user.name, self.name)
        if not found:
            return
        mark, leader = found[-1].mark, found[-1].leader
        self.log.warning("%s was found again as process %d", self._log_name, leader.pid)
        self.pid = leader.pid
        self._identity = self._identity_now()
        self._address = self.ip or "127.0.0.1", mark.port
        if self._workspace is None:
            self._workspace = Workspace(
                user=mark.user,
                server=mark.server,
                gpus=len(mark.gpus),
                uuids=list(mark.gpus),
                labels=[],
                node="",
                simulated=False,
                since=0.0,
                gpu_type=mark.gpu_type,
            )
            self._confirmed = False
        self._store_state()

    async def _notebooks(self) -> tuple[notebooks.Notebook, ...]:
        if not self.state_dir:
            return ()
        return await asyncio.to_thread(notebooks.running, Path(self.state_dir), self._uids_of())

    async def _end_processes(self) -> tuple[notebooks.Process, ...]:
        """End all processes of this server, and return those that do not end."""
        if not self.state_dir:
            return ()
        mine = self.user.name, self.name
        return await asyncio.to_thread(notebooks.end, Path(self.state_dir), *mine, self._uids_of())

    def _uids_of(self) -> notebooks.UidsOf:
        if not self.accounts_dir:
            return lambda _: ()
        return self._accounts.uids_of

    async def end_earlier(self) -> None:
        """End an earlier server of this name, which a lost database of the hub, or a failed stop, has left.

        Raises the result of `refusal` if it does not end.
        """
        try:
            left = await self._end_processes()
        except notebooks.NotebooksUnknownError as error:
            raise refusal(str(error), status=500, reason="earlier") from error
        if left:
            raise refusal(
                f"An earlier notebook server of this name still runs (process {pids_of(left)}) and does not end. "
                "Tell an admin of this hub.",
                status=500,
                reason="earlier",
            )

    async def end_leftovers(self) -> None:
        """End the processes that the stopped server has left behind, such as programs of its terminals."""
        try:
            left = await self._end_processes()
        except notebooks.NotebooksUnknownError as error:
            self.log.error("What %s has left behind is not known: %s", self._log_name, error)  # noqa: TRY400
            return
        if left:
            self.log.error(
                "%s has left processes that do not end, and their GPUs stay reserved: %s",
                self._log_name,
                pids_of(left),
            )

    async def get_url(self) -> str:
        """Return the address of the server, also of one that the hub did not see start."""
        if self._address is None:
            as_stored: str = await super().get_url()
            return as_stored
        ip, port = self._address
        protocol = "https" if self.internal_ssl else "http"
        return f"{protocol}://{f'[{ip}]' if ':' in ip else ip}:{port}{self.server.base_url}"

    def get_state(self) -> dict[str, Any]:
        """Return the underlying spawner's state, the identity of the process, and its address."""
        state: dict[str, Any] = super().get_state()
        if self._identity:
            state["identity"] = self._identity
        if self._address:
            state["address"] = list(self._address)
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the state of a running notebook after a restart of the hub, with the identity of its process."""
        super().load_state(state)
        self._identity = state.get("identity")
        self._address = tuple(state["address"]) if "address" in state else None

    def clear_state(self) -> None:
        """Clear the state after the end of a server or before its start."""
        super().clear_state()
        self._identity = None
        self._address = None


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


def pids_of(processes: Sequence[notebooks.Process]) -> str:
    """Return the pids of processes for a message."""
    return listed([str(process.pid) for process in processes])


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
