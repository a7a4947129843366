"""The running service: its parts put together, started in order, and taken down in reverse."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from jupyterhub.services.auth import HubOAuth
from jupyterhub.utils import make_ssl_context
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.api.workspaces import release_gone
from springtide.hub_extension.auth import HubAuthenticator
from springtide.hub_extension.hub import HubGroups
from springtide.hub_extension.parent import when_parent_dies
from springtide.hub_extension.site import Hub, Site
from springtide.hub_extension.state_dir import StateDir, StateError
from springtide.scheduler import model
from springtide.scheduler.engine import ConfigurationError, Engine, EngineSettings
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError
from springtide.scheduler.telemetry import TelemetryError, discover

if TYPE_CHECKING:
    from springtide.hub_extension.cluster import Cluster

log = logging.getLogger("springtide")

SMALL_BODY: Final = 64 * 1024
IDLE_CONNECTION_S: Final = 300.0
BODY_S: Final = 300.0
TRY_AGAIN_S: Final = 0.2
LONGEST_WAIT_S: Final = 60.0
BAD_INPUT: Final = 2


class StartError(Exception):
    """The service cannot start or go on; ``code`` is the process's exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Setup:
    """What the service is made of. Sizes are bytes, durations seconds, ``prefix`` has slashes at both ends.

    Jobs run on this machine unless there is a ``cluster``; ``train_jobs`` are its namespaces whose TrainJobs are
    submitted, ``*`` being all.
    """

    state_dir: Path
    database_url: str
    address: tuple[str, int]
    prefix: str
    simulated_gpus: int | None
    build_gpus: int
    projects: Mapping[str, Mapping[str, Any]]
    order: model.Order
    min_runtime: float
    grace: float
    own_accounts: bool
    max_body: int
    log_cap: int
    submit_rate: float
    submit_burst: int
    queue_cap: int
    queue_cap_per_user: int
    keep: float
    auth_cache: int
    takeover_wait: float
    version: str
    cluster: KubernetesSettings | None = None
    train_jobs: tuple[str, ...] = ()

    @property
    def engine_settings(self) -> EngineSettings:
        """The engine's part of it."""
        policy = model.Settings(order=self.order, min_runtime=self.min_runtime, grace=self.grace)
        return EngineSettings(
            policy=policy,
            images=None if self.cluster is None else self.cluster.images,
            keep_jobs=self.keep,
            max_unfinished=self.queue_cap,
            max_unfinished_per_user=self.queue_cap_per_user,
        )


class Runtime:
    """The service as an async context: entering starts all of it, leaving stops it; jobs go on.

    ``clock`` tells seconds since the epoch. Entering raises `StartError` with one plain sentence.
    """

    def __init__(self, setup: Setup, clock: Callable[[], float]) -> None:
        self._setup = setup
        self._clock = clock
        self._stack = AsyncExitStack()
        self._elected: tuple[asyncio.Task[None], ...] = ()

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
        """Serve until ``leave`` is set, or until the hub that started this is gone."""
        if "JUPYTERHUB_SERVICE_NAME" in os.environ:
            self._stack.callback(when_parent_dies(leave.set))
        host, port = self._setup.address
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
        log.info("Leaving; jobs go on")

    async def _closed(self) -> str | None:
        """Wait until this service cannot go on; why."""
        engine = asyncio.ensure_future(self._pool_engine.wait_closed())
        try:
            await asyncio.wait({engine, *self._elected}, return_when=asyncio.FIRST_COMPLETED)
            lost = next((str(task.exception()) for task in self._elected if task.done()), None)
            return engine.result() if lost is None else lost
        finally:
            engine.cancel()

    async def _start(self) -> None:
        setup = self._setup
        oauth = hub_oauth(setup)
        state = StateDir(setup.state_dir)
        cookie_secret = state.secret("cookie-secret").encode()
        sockets = await self._listen()
        self._pool_engine = engine = await self._engine()
        pool = Pool(
            engine=engine,
            groups=HubGroups(oauth.api_url, oauth.api_token, tls=_tls(oauth)),
            submissions=Buckets(setup.submit_rate, setup.submit_burst, asyncio.get_running_loop().time),
            max_body=setup.max_body,
            grace=setup.grace,
            version=setup.version,
            clock=self._clock,
        )
        site = Site(
            pool=pool,
            authenticator=HubAuthenticator(oauth, os.environ.get("JUPYTERHUB_SERVICE_NAME", "springtide")),
            prefix=setup.prefix,
            cookie_secret=cookie_secret,
            recheck=setup.auth_cache,
            hub=Hub(oauth, oauth.hub_prefix),
        )
        server = serve(site, sockets)
        self._stack.push_async_callback(_close, server)
        looking = asyncio.create_task(_release_gone(pool), name="workspaces of the hub")
        self._stack.callback(looking.cancel)

    async def _listen(self) -> list[socket.socket]:
        """Sockets on the address, as soon as a former service has left it."""
        host, port = self._setup.address
        deadline = asyncio.get_running_loop().time() + self._setup.takeover_wait
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

    async def _engine(self) -> Engine:
        setup = self._setup
        cluster = await self._cluster()
        store = await asyncio.to_thread(
            Store.open, setup.database_url, setup.state_dir, lock_wait=setup.takeover_wait
        )
        self._stack.callback(store.close)
        executor = await self._local_executor() if cluster is None else cluster.executor()
        engine = Engine(store, executor, setup.engine_settings, projects=setup.projects, clock=self._clock)
        await engine.start()
        self._stack.push_async_callback(engine.stop)
        if cluster is not None and setup.train_jobs:
            await self._stack.enter_async_context(cluster.train_jobs(engine, setup.train_jobs))
        return engine

    async def _local_executor(self) -> Executor:
        setup = self._setup
        machine = await asyncio.to_thread(discover, setup.simulated_gpus, setup.build_gpus)
        accounts: Literal["own", "service"] = "own" if setup.own_accounts else "service"
        return LocalExecutor(setup.state_dir, machine, accounts=accounts, log_cap=setup.log_cap)

    async def _cluster(self) -> Cluster | None:
        """The cluster, as soon as no other service of the pool is at work on it; None on one machine."""
        settings = self._setup.cluster
        if settings is None:
            return None
        try:
            from springtide.hub_extension.cluster import Cluster  # noqa: PLC0415 - the extra may be missing
        except ModuleNotFoundError as error:
            needs = f"Springtide.executor = 'kubernetes' needs {error.name}, which is not installed"
            raise StartError(f"{needs}: pip install 'springtide[hub,kubernetes]'", BAD_INPUT) from error

        cluster = await self._stack.enter_async_context(Cluster(settings))
        self._elected = (asyncio.create_task(cluster.elected(), name="the pool's lease"),)
        self._stack.callback(self._elected[0].cancel)
        return cluster


async def _release_gone(pool: Pool) -> None:
    """Once, as soon as the hub answers: it may have stopped notebooks while this service was away."""
    wait = TRY_AGAIN_S
    while True:
        try:
            await release_gone(pool)
        except Refusal as refusal:
            log.info("The hub's notebooks are not known yet: %s", refusal.message)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)
        else:
            return


def serve(site: Site, sockets: list[socket.socket]) -> HTTPServer:
    """Answer on sockets that listen. Bodies are small unless a handler says otherwise."""
    server = HTTPServer(
        site.application(),
        xheaders=True,
        max_body_size=SMALL_BODY,
        idle_connection_timeout=IDLE_CONNECTION_S,
        body_timeout=BODY_S,
    )
    server.add_sockets(sockets)
    return server


def hub_oauth(setup: Setup) -> HubOAuth:
    """The hub as this service knows it from its environment. Raises `StartError` if it has none."""
    for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_CLIENT_ID"):
        if not os.environ.get(name):
            raise StartError(
                f"{name} is not set: a JupyterHub starts this service. Use `springtide up`, or `configure(c)` in "
                "the hub's configuration.",
                BAD_INPUT,
            )
    return HubOAuth(base_url=setup.prefix, cache_max_age=setup.auth_cache)


def _tls(oauth: HubOAuth) -> SSLContext | None:
    """What connections to the hub need where it uses certificates of its own."""
    if not oauth.certfile and not oauth.keyfile:
        return None
    context: SSLContext = make_ssl_context(oauth.keyfile, oauth.certfile, cafile=oauth.client_ca)
    return context


async def _close(server: HTTPServer) -> None:
    server.stop()
    await server.close_all_connections()
