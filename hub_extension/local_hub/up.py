"""Start of a hub on this machine, with JupyterHub, a proxy in Python and the service, by one command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.auth import Authenticator, DummyAuthenticator
from jupyterhub.services.service import Service
from tornado.httpserver import HTTPServer

from springtide.hub_extension.accounts import account_name
from springtide.hub_extension.local_hub import demo
from springtide.hub_extension.local_hub.orphans import PROXY, STATE_DIR, end_orphans
from springtide.hub_extension.local_hub.single import shared_out
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError, port_is_free
from springtide.hub_extension.web.auth import SERVICE
from springtide.hub_extension.web.hosts import guard
from springtide.hub_extension.web.server import Server
from springtide.scheduler.client import Client
from springtide.scheduler.process_tuning import loading
from springtide.scheduler.store import StoreDamagedError
from springtide.scheduler.store.copying import check_copy
from springtide.scheduler.store.opening import MAX_CHECKED_BYTES
from springtide.scheduler.wire import PoolView

CONFIG = """\
# Written by `springtide up` at every start. Yours goes into a file of its own: springtide up --config FILE
from springtide.hub_extension import configure
from springtide.hub_extension.local_hub.single import give_hosts, prepare, share_out

c = get_config()  # noqa: F821
prepare(c, **{prepared!r})
{theirs}share_out(c, {settings!r}, prepared={shared!r})
give_hosts(c, port={port}, state_dir={state_dir!r})
configure(c, **{settings!r})
"""
LARGEST_LOG = 10_000_000
"""Size from which the hub's log is shortened, in bytes; one older file of that size is kept."""
LOG_CHECKED_EVERY = 10.0
"""Interval between checks of the log's size, in seconds."""
SAID_BY_SERVICE = "springtide: "
START_AGAIN_AFTER = 1.0
"""Delay between the end of the service and its next start, in seconds."""
CHILDREN_APPEAR_WITHIN_S = 2.0
"""Time in which a process that a former hub was starting shows its program, in seconds."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running hub that accepts logins.

    ``password`` and ``password_file`` are None if each user has an individual password. ``users`` are those whom
    the configuration names, ``earlier`` others whom the hub lets in because it has them from before. ``members``
    are those of the ``users`` who are in a project.
    """

    url: str
    state_dir: str
    log: str
    users: tuple[str, ...]
    earlier: tuple[str, ...]
    members: tuple[str, ...]
    admins: tuple[str, ...]
    password: str | None
    accounts: str
    password_file: str | None
    pool: PoolView
    is_story: bool
    """Whether the people of the demonstration have its projects, in which their notebooks play its story."""


Ready: TypeAlias = Callable[[TextIO, Running], None]
Groups: TypeAlias = Mapping[str, set[str]]
"""The names of the members of each group."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line. ``settings`` (``c.Springtide.<name>``) take precedence over all others.

    ``allowed_hosts`` are names of this machine that requests may use in addition to those of the loopback address.
    """

    state_dir: Path
    port: int = 8000
    config: Path | None = None
    verbose: bool = False
    allowed_hosts: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


class Hub(JupyterHub):
    """JupyterHub with a callback when it is ready. Answers under names of ``Springtide.allowed_hosts`` only."""

    ready: Callable[[Hub, Groups], None]
    named: frozenset[str] = frozenset()
    """The people whom the configuration lets in by name; a hub adds those that it has."""
    log_path: Path | None = None
    """File that holds the output of the hub and its children; None on a terminal."""

    async def initialize(self, *arguments: Any, **options: Any) -> None:
        """Read the configuration and prepare all parts. What they are made of stays: it is no garbage."""
        with loading():
            await super().initialize(*arguments, **options)
        StateDir(Path(os.environ[STATE_DIR])).note_addresses(addresses_of(self))

    def init_proxy(self) -> None:
        """Pass the allowed host names to Springtide's proxy; another proxy is not changed."""
        super().init_proxy()
        command = getattr(self.proxy, "command", [])
        if PROXY in command:
            if find_spec("configurable_http_proxy") is None:
                self.exit(
                    f"{SAID_BY_SERVICE}`springtide up` needs configurable-http-proxy, which is not installed: "
                    "pip install 'springtide[proxy]'"
                )
            names = (f"--allowed-host={name}" for name in self._allowed_hosts)
            self.proxy.command = [*command, *names, f"--public-url={address_of(self)}"]

    async def init_users(self) -> None:
        """Note the people of the configuration."""
        self.named = frozenset(self.authenticator.allowed_users)
        await super().init_users()

    def init_tornado_settings(self) -> None:
        """Show people on the login page, as long as they share the password of the state directory."""
        if self._shares_kept_password():
            people = [*users_of(self.authenticator, self.named), *sorted(self.authenticator.admin_users)]
            self.template_vars.setdefault("demonstration", people)
            self.template_vars.setdefault("is_story", is_story(people))
        super().init_tornado_settings()

    def _shares_kept_password(self) -> bool:
        people = self.authenticator
        if not isinstance(people, DummyAuthenticator):
            return False
        return bool(people.password == StateDir(Path(os.environ[STATE_DIR])).password())

    def init_tornado_application(self) -> None:
        """Refuse requests for other host names."""
        super().init_tornado_application()
        guard(self.tornado_application, self._allowed_hosts)

    @property
    def _allowed_hosts(self) -> list[str]:
        return list(self.config.Springtide.get("allowed_hosts", ()))

    async def start(self) -> None:
        """Start the hub and its services, then call ``ready`` in a thread, which does not use the database."""
        await super().start()
        self._kept = [asyncio.ensure_future(keep(s)) for s in self._service_map.values() if s.managed]
        if self.log_path is not None:
            self._kept.append(asyncio.ensure_future(keep_small(self.log_path)))
        groups = {group.name: {user.name for user in group.users} for group in self.db.query(orm.Group)}
        await asyncio.to_thread(self.ready, self, groups)

    async def shutdown_cancel_tasks(self, sig: signal.Signals | None = None) -> None:
        """Stop the hub and its services, even after an error such as that of a missing or full database."""
        try:
            await super().shutdown_cancel_tasks(sig)
        except Exception:
            self.log.exception("The hub stops without a complete shutdown")
            self._stop_event_loop()


def up(options: Options, ready: Ready) -> int:
    """Run the hub until it is stopped, and return the exit code. Calls ``ready`` once users can log in.

    Notebooks and jobs continue to run when the hub stops, and the next hub on the same state directory finds them.
    Raises `StateError` if the state directory, the hub's database or a port cannot be used, if its disk is full,
    or if the hub does not start.
    """
    state = StateDir(options.state_dir)
    try:
        return _up(state, options, ready)
    except OSError as error:
        if said := state.obstacle_of(error):
            raise StateError(said) from error
        raise


def _up(state: StateDir, options: Options, ready: Ready) -> int:
    """Run the hub. Raises `OSError` too, such as of a full disk."""
    with state.locked():
        check_database(state.hub / "jupyterhub.sqlite")
        config = prepare(state, options)
        HTTPServer.configure(Server)
        os.environ[STATE_DIR] = str(state.path)
        log = state.hub / "hub.log"
        written = log.stat().st_size if log.exists() else 0
        with contextlib.nullcontext(sys.stdout) if options.verbose else output_to(log) as terminal:
            came_up = False

            def tell(hub: Hub, groups: Groups) -> None:
                nonlocal came_up
                came_up = True
                ready(terminal, running(hub, groups, state, log))

            Hub.ready = staticmethod(tell)
            Hub.log_path = None if options.verbose else log
            try:
                code = _run(["-f", str(config)])
            finally:
                end_orphans(state.path, (PROXY,))
        if code and not came_up and not options.verbose:
            why = state.obstacle() or last_words(log, written)
            raise StateError(f"The hub did not come up. {why}")
    return code


def check_database(database: Path) -> None:
    """Raise `StateError` if the hub's own database is damaged, in place of the hub's long traceback."""
    if not database.exists() or database.stat().st_size > MAX_CHECKED_BYTES:
        return
    try:
        check_copy(database, versioned=False)
    except StoreDamagedError as error:
        raise StateError(
            f"The hub's database {database} is damaged. Keep a copy of it, and put a backup in its place "
            "(springtide restore FILE); or move it away: users, groups and tokens are then made anew."
        ) from error


async def keep_small(log: Path) -> None:
    """Shorten the log whenever it has grown too large."""
    while True:
        await asyncio.sleep(LOG_CHECKED_EVERY)
        await asyncio.to_thread(shorten, log)


def shorten(log: Path) -> None:
    """Move the content of an overlong log to ``.log.1``, in place of its former content.

    The file itself stays: several processes append to it. Without room for the copy the content is dropped.
    """
    if not log.exists() or log.stat().st_size <= LARGEST_LOG:
        return
    older = log.with_suffix(".log.1")
    older.unlink(missing_ok=True)
    try:
        with (
            os.fdopen(os.open(older, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy,
            log.open("rb") as now,
        ):
            shutil.copyfileobj(now, copy)
    except OSError:
        older.unlink(missing_ok=True)
    os.truncate(log, 0)


async def keep(service: Service) -> None:
    """Restart a service as soon as it has ended; the hub itself checks every 30 seconds only."""
    while True:
        await ended(service.proc.pid)
        await asyncio.sleep(START_AGAIN_AFTER)
        if service.spawner._poll_callback is None:  # noqa: SLF001 - the hub's mark of a stopping service
            return
        await service.spawner.poll_and_notify()
        await asyncio.sleep(0)


async def ended(pid: int) -> None:
    """Wait until a child process has ended, without reaping it: the hub does that."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop.add_reader(handle, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def running(hub: Hub, groups: Groups, state: StateDir, log: Path) -> Running:
    """Return the description of a started hub. Raises `Unreachable` if the service does not answer."""
    people = hub.authenticator
    shared = isinstance(people, DummyAuthenticator)
    with Client(hub.config.BuildQuota.service_url, state.secret("service-token")) as client:
        pool = client.pool()
        projects = {each.name: groups.get(each.name, set()) for each in pool.projects}
        return Running(
            url=address_of(hub),
            state_dir=str(state.path),
            log=str(log),
            users=(users := users_of(people, hub.named)),
            earlier=tuple(sorted(people.allowed_users - {*users, *people.admin_users})) if users else (),
            members=tuple(name for name in users if any(name in each for each in projects.values())),
            admins=tuple(sorted(people.admin_users)),
            password=people.password if shared else None,
            password_file=str(state.password_file) if shared and people.password == state.password() else None,
            accounts=_accounts(hub.config.Springtide.accounts),
            pool=pool,
            is_story=is_story([name for name in users if name in projects.get(name, ())]),
        )


def address_of(hub: JupyterHub) -> str:
    """Return the address at which people open the hub, without a slash at its end."""
    base: str = hub.base_url
    address: str = f"{hub.subdomain_host}{base}" if hub.subdomain_host else hub.proxy.public_url
    return address.rstrip("/")


def addresses_of(hub: JupyterHub) -> dict[str, str]:
    """Return the URLs below which the service, the hub's API and that of its proxy answer on this machine."""
    urls = {SERVICE: hub.config.BuildQuota.service_url, "hub": hub.hub.api_url}
    proxy = getattr(hub.proxy, "api_url", "")
    return {**urls, "proxy": proxy} if proxy else urls


def _accounts(mode: str) -> str:
    """Return a sentence about the accounts that notebooks and jobs run as."""
    if mode == "own":
        return "each person's notebooks and jobs run as an account of her own"
    name = account_name()
    return f"ALL notebooks and jobs run as {name}: whoever logs in acts as {name}"


def users_of(people: Authenticator, named: Iterable[str]) -> tuple[str, ...]:
    """Return the ``named`` people who are no admins, those of the demonstration first.

    None if the authenticator lets in everybody whom it knows.
    """
    if people.allow_all:
        return ()
    return tuple(sorted(set(named) - people.admin_users, key=_in_order_of_the_story))


def is_story(people: Iterable[str]) -> bool:
    """Return whether all people of the demonstration are among them."""
    return set(demo.NAMES) <= set(people)


def _in_order_of_the_story(name: str) -> tuple[bool, int, str]:
    names = demo.NAMES
    return (name not in names, names.index(name) if name in names else 0, name)


def _run(arguments: list[str]) -> int:
    try:
        Hub.launch_instance(arguments)
    except KeyboardInterrupt:
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def prepare(state: StateDir, options: Options) -> Path:
    """Write the hub's configuration file and return its path, once all ports are free.

    Raises `StateError` if a port is in use.
    """
    end_orphans(state.path)
    ports = state.ports([SERVICE, "hub", "proxy"], taken=[options.port])
    _need(state, options.port, "Choose another with --port, or stop the program that uses it.")
    for name in (SERVICE, "hub", "proxy"):
        hint = (
            "Running notebooks know this port, so another is not chosen by itself: stop the program that uses "
            f"it, or remove {state.path / 'ports.json'} and restart the notebooks."
        )
        _need(state, ports[name], hint)
    prepared = {
        "state_dir": str(state.path),
        "port": options.port,
        "hub_port": ports["hub"],
        "proxy_port": ports["proxy"],
        "allowed_hosts": options.allowed_hosts,
    }
    shared = shared_out(options.settings)
    theirs = "" if options.config is None else f"load_subconfig({str(options.config.resolve())!r})  # noqa: F821\n"
    settings = {**options.settings, "state_dir": str(state.path)}
    file = state.hub / "jupyterhub_config.py"
    file.touch(mode=0o600)
    prepared |= shared
    text = CONFIG.format(
        prepared=prepared,
        shared=shared,
        theirs=theirs,
        port=options.port,
        settings=settings,
        state_dir=str(state.path),
    )
    file.write_text(text)
    return file


def _need(state: StateDir, port: int, hint: str) -> None:
    """Wait for a port that a process of a former hub may still use. Raises `StateError` if it stays in use."""
    until = time.monotonic() + CHILDREN_APPEAR_WITHIN_S
    while not port_is_free(port):
        if time.monotonic() >= until:
            raise StateError(f"Port {port} is in use by another program. {hint}")
        time.sleep(0.1)
        end_orphans(state.path)


@contextlib.contextmanager
def output_to(log: Path) -> Iterator[TextIO]:
    """Redirect the output of this process and its children to ``log``, and yield the terminal for messages."""
    shorten(log)
    sys.stdout.flush()
    sys.stderr.flush()
    before = {number: os.dup(number) for number in (0, 1, 2)}
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, replacement in ((0, nothing), (1, file), (2, file)):
        os.dup2(replacement, number)
    os.close(nothing)
    os.close(file)
    try:
        with os.fdopen(os.dup(before[1]), "w") as terminal:
            yield terminal
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # a full disk: the terminal gets the message
                stream.flush()
        for number, descriptor in before.items():
            os.dup2(descriptor, number)
            os.close(descriptor)


def last_words(log: Path, since: int, lines: int = 15) -> str:
    """Return why the hub did not start: the service's message, or else the last ``lines`` of the log.

    ``since`` is the offset in the log at which the start began, in bytes.
    """
    with log.open("rb") as file:
        file.seek(min(since, log.stat().st_size))
        written = file.read().decode(errors="replace").splitlines()
    shown = ["".join(c for c in line if c.isprintable()) for line in written]
    said = [line.removeprefix(SAID_BY_SERVICE) for line in shown if line.startswith(SAID_BY_SERVICE)]
    if said:
        return said[-1]
    return f"The end of {log} may show why:\n\n" + "\n".join(shown[-lines:])
