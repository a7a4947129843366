"""The running service: composes its parts, starts them in order, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from ssl import SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from jupyterhub.services.auth import HubOAuth
from jupyterhub.utils import make_ssl_context
from tornado.netutil import bind_sockets

from springtide.hub_extension.accounts import shared_notice
from springtide.hub_extension.api.limits import Buckets, Slots
from springtide.hub_extension.api.open_sessions import Sessions
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.backup.mark import latest_backup
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError
from springtide.hub_extension.notifications.deliverer import Deliverer
from springtide.hub_extension.service.hub_users import HubUserWatch
from springtide.hub_extension.service.metrics import Scrapers
from springtide.hub_extension.service.setup import Setup
from springtide.hub_extension.service.site import Hub, Site
from springtide.hub_extension.tracking.forwarder import Forwarder
from springtide.hub_extension.tracking.tracker import Tracker
from springtide.hub_extension.tracking.trackers import open_trackers
from springtide.hub_extension.web.auth import HubAuthenticator
from springtide.hub_extension.web.group_changes import GroupChanges
from springtide.hub_extension.web.hub import HubGroups
from springtide.hub_extension.web.server import Server
from springtide.scheduler import process_tuning
from springtide.scheduler.clock import Clock
from springtide.scheduler.engine import ConfigurationError, Engine, open_engine
from springtide.scheduler.engine.views.needs_view import Backup
from springtide.scheduler.executors.accounts import AccountError, Accounts
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError
from springtide.scheduler.telemetry import TelemetryError, discover
from springtide.scheduler.wording import listed

if TYPE_CHECKING:
    from springtide.hub_extension.cluster.backend import Cluster

log = logging.getLogger("springtide")

SMALL_BODY: Final = 64 * 1024
BODY_S: Final = 300.0
TRY_AGAIN_S: Final = 0.2
BAD_INPUT: Final = 2


class StartError(Exception):
    """The service cannot start or continue; ``code`` is the exit code of the process."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Runtime:
    """The service as an async context manager: entering starts it, leaving stops it; jobs continue to run.

    ``clock`` returns seconds since the epoch. Entering raises `StartError` with a one-sentence message.
    """

    def __init__(self, setup: Setup, clock: Callable[[], float]) -> None:
        self._setup = setup
        self._clock = clock
        self._stack = AsyncExitStack()
        self._elected: tuple[asyncio.Task[None], ...] = ()
        self._scrapers: Scrapers | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException as error:
            await self._stack.aclose()
            if isinstance(error, ConfigurationError | TelemetryError):
                raise StartError(str(error), BAD_INPUT) from error
            if isinstance(error, StateError | StoreError | ExecutorError):
                raise StartError(str(error)) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def serve_until(self, leave: asyncio.Event) -> None:
        """Serve until ``leave`` is set. Raises `StartError` if the service cannot continue."""
        host, port = self._setup.settings.ip, self._setup.settings.port
        log.info("The pool's service answers on %s:%d under %s", host, port, self._setup.prefix)
        left = asyncio.ensure_future(leave.wait())
        closed = asyncio.ensure_future(self._closed())
        try:
            await asyncio.wait({left, closed}, return_when=asyncio.FIRST_COMPLETED)
            if closed.done() and (why := closed.result()) is not None:
                raise StartError(why)
        finally:
            left.cancel()
            closed.cancel()
        log.info("Leaving; jobs continue")

    async def _closed(self) -> str | None:
        """Wait until this service cannot continue, and return the reason."""
        engine = asyncio.ensure_future(self._pool_engine.wait_closed())
        try:
            await asyncio.wait({engine, *self._elected}, return_when=asyncio.FIRST_COMPLETED)
            lost = next((str(task.exception()) for task in self._elected if task.done()), None)
            return engine.result() if lost is None else lost
        finally:
            engine.cancel()

    async def _start(self) -> None:
        setup, settings = self._setup, self._setup.settings
        oauth = hub_oauth(setup)
        state = StateDir(setup.state_dir)
        cookie_secret = state.secret("cookie-secret").encode()
        credentials = None
        if setup.jobs_url is not None:
            credentials = Credentials(setup.jobs_url, state.secret("job-secret").encode())
        sockets = await self._listen()
        self._pool_engine = engine = await self._engine(credentials)
        await _adopt_workspaces(engine)

        def forget_rights() -> None:
            oauth.cache.clear()
            hub_users.look_soon()

        groups = HubGroups(
            oauth.api_url,
            oauth.api_token,
            tls=_tls(oauth),
            full_disk=engine.health.full_disk,
            changed=forget_rights,
            managed=settings.hub.managed_groups,
        )
        changes = GroupChanges()
        hub_users = HubUserWatch(
            engine, groups, forget=oauth.cache.clear, leads=settings.hub.leads, changes=changes
        )
        pool = Pool(
            engine=engine,
            groups=groups,
            submissions=Buckets(settings.submit_rate, settings.submit_burst, asyncio.get_running_loop().time),
            max_body=settings.max_body,
            grace=setup.engine.policy.grace,
            version=version("springtide"),
            clock=self._clock,
            streams=Slots(settings.streams_per_user),
            channels=setup.channels,
            trackers=self._trackers(engine),
            sessions=Sessions(settings.sessions_per_user, settings.session_idle),
            hub=settings.hub,
            group_changes=changes,
        )
        self._stack.push_async_callback(pool.sessions.close_all)
        deliverer = Deliverer(engine.outbox, engine.monthly_reports, setup.channels, self._clock)
        self._stack.push_async_callback(deliverer.stop)
        site = Site(
            pool=pool,
            authenticator=HubAuthenticator(
                oauth,
                os.environ.get("JUPYTERHUB_SERVICE_NAME", "springtide"),
                hub_users.confirm,
                groups.knows,
                groups.failing,
            ),
            prefix=setup.prefix,
            cookie_secret=cookie_secret,
            recheck=settings.auth_cache,
            hub=Hub(oauth, oauth.hub_prefix, oauth.hub_host),
            allowed_hosts=settings.allowed_hosts,
            credentials=credentials,
            scrapers=self._scrapers,
        )
        server = serve(site, sockets)
        self._stack.push_async_callback(_close, server)
        looking = asyncio.create_task(pool.notebooks.run(engine, pool.groups), name="workspaces of the hub")
        self._stack.callback(looking.cancel)
        following = asyncio.create_task(hub_users.run(), name="users of the hub")
        self._stack.callback(following.cancel)

    def _trackers(self, engine: Engine) -> tuple[Tracker, ...]:
        """Return the trackers, to which reports are forwarded from now on."""
        trackers = open_trackers(self._setup.settings.tracking)
        for tracker in trackers:
            self._stack.push_async_callback(tracker.close)
            task = asyncio.create_task(Forwarder(engine, tracker).run(), name=tracker.name)
            self._stack.push_async_callback(_ended, task)
        return trackers

    async def _listen(self) -> list[socket.socket]:
        """Return sockets that listen on the address; wait up to ``takeover_wait`` seconds while it is in use.

        Raises `StartError` if the service cannot listen on the address.
        """
        host, port = self._setup.settings.ip, self._setup.settings.port
        deadline = asyncio.get_running_loop().time() + self._setup.settings.takeover_wait
        while True:
            try:
                sockets = bind_sockets(port, host)
            except OSError as error:
                if error.errno == errno.EADDRINUSE and asyncio.get_running_loop().time() < deadline:
                    await asyncio.sleep(TRY_AGAIN_S)
                    continue
                reason = os.strerror(error.errno) if error.errno else str(error)
                raise StartError(f"{host}:{port} cannot be listened on: {reason}. Set Springtide.port.") from error
            for one in sockets:
                self._stack.callback(one.close)
            return sockets

    async def _engine(self, credentials: Credentials | None) -> Engine:
        setup = self._setup
        cluster = await self._cluster()
        store = await asyncio.to_thread(
            Store.open, setup.database_url, setup.state_dir, lock_wait=setup.settings.takeover_wait
        )
        self._stack.callback(store.close)
        executor = await self._local_executor(credentials) if cluster is None else cluster.executor(credentials)
        process_tuning.return_when_freed()
        with process_tuning.loading():
            engine = await open_engine(
                store,
                executor,
                setup.engine,
                projects=setup.projects,
                clock=Clock(self._clock),
                backup=self._latest_backup if setup.engine.backup_hours else lambda: None,
            )
        self._stack.enter_context(process_tuning.short_collections(time.monotonic))
        self._stack.enter_context(process_tuning.short_interval())
        self._stack.push_async_callback(engine.stop)
        if cluster is not None and setup.settings.train_jobs:
            chosen = setup.settings
            intake = cluster.train_jobs(
                engine,
                chosen.train_jobs,
                policy=chosen.springtide_job_policy,
                earlier_policy=chosen.train_job_policy,
            )
            await self._stack.enter_async_context(intake)
        return engine

    def _latest_backup(self) -> Backup:
        return latest_backup(self._setup.state_dir, self._clock())

    async def _local_executor(self, credentials: Credentials | None) -> Executor:
        setup, settings = self._setup, self._setup.settings
        machine = await asyncio.to_thread(
            discover, settings.simulated_gpus, settings.build_gpus, setup.engine.types
        )
        if setup.accounts is None:
            log.warning("%s", shared_notice())
        else:
            await asyncio.to_thread(_warn_of_shared_uids, setup.accounts)
        return LocalExecutor(
            setup.state_dir,
            machine,
            accounts=setup.accounts,
            limits=setup.limits,
            log_cap=settings.log_cap,
            packages=settings.packages,
            credentials=credentials,
        )

    async def _cluster(self) -> Cluster | None:
        """Return the cluster once this service holds the lease of the pool; None if jobs run on this machine.

        Raises `StartError` if a library that is needed for clusters is not installed.
        """
        settings = self._setup.cluster
        if settings is None:
            return None
        try:
            from springtide.hub_extension.cluster.backend import Cluster  # noqa: PLC0415 - the extra may be missing
        except ModuleNotFoundError as error:
            needs = f"Springtide.executor = 'kubernetes' needs {error.name}, which is not installed"
            raise StartError(f"{needs}: pip install 'springtide[hub,kubernetes]'", BAD_INPUT) from error

        cluster = await self._stack.enter_async_context(Cluster(settings))
        self._scrapers = cluster.scrapers()
        self._elected = (asyncio.create_task(cluster.elected(), name="the pool's lease"),)
        self._stack.callback(self._elected[0].cancel)
        return cluster


def _warn_of_shared_uids(accounts: Accounts) -> None:
    try:
        shared = accounts.shared_uids()
    except AccountError as error:
        log.warning("%s", error)
        return
    for account in shared:
        log.error(
            "%s has the uid %d, which %s has in the pool %s: `springtide doctor` shows how to fix it",
            account.user,
            account.uid,
            account.other_user,
            account.pool,
        )


async def _adopt_workspaces(engine: Engine) -> None:
    """Record the GPUs of running notebooks before any job gets them: the store may have been lost."""
    try:
        unmatched = await engine.adopt_workspaces()
    except Refusal as refusal:
        log.warning("Notebooks without a reservation are not looked for: %s", refusal.message)
        return
    for notebook in unmatched:
        log.error(
            "%s's notebook %r (%s) runs on %s, where it has no place: nothing else starts there until it ends",
            notebook.user,
            notebook.server,
            notebook.place,
            listed(notebook.uuids),
        )


def serve(site: Site, sockets: list[socket.socket]) -> Server:
    """Serve the site on listening sockets, which belong to the server from then on.

    The maximum size of a body is `SMALL_BODY` unless a handler sets another.
    """
    server = Server(site.application(), xheaders=True, max_body_size=SMALL_BODY, body_timeout=BODY_S)
    server.add_sockets(sockets)
    return server


def hub_oauth(setup: Setup) -> HubOAuth:
    """Return the OAuth client of the hub, from the environment. Raises `StartError` if a variable is missing."""
    for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_CLIENT_ID"):
        if not os.environ.get(name):
            raise StartError(
                f"{name} is not set: a JupyterHub starts this service. Use `springtide up`, or `configure(c)` in "
                "the hub's configuration.",
                BAD_INPUT,
            )
    return HubOAuth(base_url=setup.prefix, cache_max_age=setup.settings.auth_cache)


def _tls(oauth: HubOAuth) -> SSLContext | None:
    """Return the TLS context of connections to the hub; None unless the hub uses ``internal_ssl``."""
    if not oauth.certfile and not oauth.keyfile:
        return None
    context: SSLContext = make_ssl_context(oauth.keyfile, oauth.certfile, cafile=oauth.client_ca)
    return context


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _close(server: Server) -> None:
    server.stop()
    await server.close_all_connections()
