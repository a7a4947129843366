"""The pool's service for tests in a process of their own. All is real, except that a token is its user's name."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from tornado.netutil import bind_sockets
from tornado.web import RequestHandler

from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.cluster.backend import Cluster
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.service.runtime import serve
from springtide.hub_extension.service.site import Site
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Groups, Server
from springtide.scheduler import model, wire
from springtide.scheduler.engine import EngineSettings, JobFilter, open_engine
from springtide.scheduler.executors.base import Executor
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store
from springtide.scheduler.telemetry import discover

PREFIX = "/services/springtide/"
BUILD = 2
MAX_BODY = 4 << 20
PROJECTS = {"vision": (2, ("susan", "joe", "anna")), "speech": (2, ("jemma", "anna"))}
"""Quota and members of each project, unless others are given."""
UNFINISHED = JobFilter(states=frozenset(state.value for state in model.JobState if not state.final))


class People:
    def __init__(self, projects: Mapping[str, tuple[int, Sequence[str]]]) -> None:
        self._names = {project: tuple(names) for project, (_, names) in projects.items()}

    async def caller(self, handler: RequestHandler) -> Caller | None:
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        if name == "admin":
            return Caller(name, admin=True, token=name)
        groups = frozenset(project for project, names in self._names.items() if name in names)
        return Caller(name, groups, token=name) if groups or name == "stranger" else None

    async def identity(self, user: str) -> str | None:
        return user if any(user in names for names in self._names.values()) else None

    async def servers(self, user: str) -> tuple[Server, ...]:  # noqa: ARG002 - no user has a notebook
        return ()

    async def stop_server(self, user: str, server: str, token: str | None) -> None:
        """Do nothing: no user has a notebook."""

    async def members(self, **_fresh: bool):
        return self._names


@dataclass(frozen=True, slots=True)
class Given:
    """A pool on a state directory and a port, where 0 is any. Jobs may request the images named.

    lab/torch images are declared to have msgspec alone. The store is SQLite in the state directory, unless
    ``database`` is another URL. The pool has as many simulated train GPUs as the quotas of its projects add up to,
    or the GPUs of the machine if they are ``real``. With a ``cluster``, that of ``KUBECONFIG``, jobs are pods, and
    the SpringtideJobs of the namespaces ``train_jobs`` are taken in.
    """

    state: Path
    port: int
    images: tuple[str, ...]
    database: str | None
    projects: Mapping[str, tuple[int, Sequence[str]]] | None
    real: bool
    cluster: KubernetesSettings | None = None
    train_jobs: tuple[str, ...] = ()


def run(given: Given, test: Connection, dies: str) -> None:
    """Send the address to the test, and serve until its end of the connection is closed; then end all jobs.

    SIGTERM ends the service and leaves the jobs as they are.
    ``dies`` names a function as ``MODULE:NAME``: at its call the process kills itself, with ``:after`` behind that
    once it has returned.
    """
    if dies:
        die_at(*dies.split(":"))
    asyncio.run(_serve(given, test))


async def _serve(given: Given, test: Connection) -> None:
    projects = given.projects or PROJECTS
    people = People(projects)
    leaves = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaves.set)
    async with AsyncExitStack() as stack:
        cluster = None
        if given.cluster is not None:
            cluster = await stack.enter_async_context(Cluster(given.cluster))
        store = Store.open(given.database or f"sqlite:///{given.state / 'springtide.sqlite'}", given.state)
        stack.callback(store.close)
        policy = model.Settings(grace=10.0, min_runtime=0.0)
        contents = {"lab/torch:*": wire.ImageContents(python="3.11", modules=["msgspec"])} if given.images else {}
        settings = EngineSettings(
            policy=policy,
            images=(given.images if given.cluster is None else given.cluster.images) or None,
            image_contents=contents,
            notifications=Channels().settings,
        )
        sockets = bind_sockets(given.port, "127.0.0.1")
        address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{PREFIX}"
        credentials = Credentials(address.rstrip("/"), b"job secret")
        executor = cluster.executor(credentials) if cluster is not None else _local(given, credentials)
        engine = await open_engine(store, executor, settings)
        stack.push_async_callback(engine.stop)
        stack.push_async_callback(end_jobs, engine, leaves)
        for name, (quota, _) in projects.items():
            if not engine.has_project(name):
                await engine.create_project(name, wire.ProjectEdit(quota=quota, build_quota=0), "test", members={})
        buckets = Buckets(1000.0, 1000, asyncio.get_running_loop().time)
        pool = Pool(engine, cast("Groups", people), buckets, MAX_BODY, 10.0, "0", time.time)
        server = serve(Site(pool, people, PREFIX, b"secret", 60.0, credentials=credentials), sockets)
        stack.callback(server.stop)
        if cluster is not None and given.train_jobs:
            intake = cluster.train_jobs(engine, given.train_jobs, policy="", earlier_policy="")
            await stack.enter_async_context(intake)
        test.send(address)
        await _until_closed(test, leaves, cluster)


def _local(given: Given, credentials: Credentials) -> Executor:
    train = sum(quota for quota, _ in (given.projects or PROJECTS).values())
    machine = discover() if given.real else discover(BUILD + train, BUILD)
    return LocalExecutor(given.state, machine, credentials=credentials)


async def _until_closed(test: Connection, leaves: asyncio.Event, cluster: Cluster | None) -> None:
    """Wait until the test closes its end of the connection, or the service leaves.

    Kill this process if it loses the pool's lease.
    """
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(test.fileno(), closed.set)
    waits = [asyncio.create_task(event.wait()) for event in (closed, leaves)]
    if cluster is not None:
        waits.append(asyncio.create_task(cluster.elected()))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if not (closed.is_set() or leaves.is_set()):
        print(waits[-1].exception(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    for wait in waits:
        wait.cancel()
    loop.remove_reader(test.fileno())


def die_at(module: str, name: str, when: str = "before") -> None:
    """Have this process killed where it calls a function or method."""
    *owners, last = name.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    known = getattr(owner, last)

    def die():
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    @functools.wraps(known)
    def dies(*arguments: Any, **options: Any):
        if when == "before":
            die()
        result = known(*arguments, **options)
        if not inspect.isawaitable(result):
            die()

        async def wait():
            await result
            die()

        return wait()

    setattr(owner, last, dies)


async def end_jobs(engine, leaves: asyncio.Event):
    while not leaves.is_set() and (unfinished := (await engine.jobs(UNFINISHED, None, 500)).items):
        for job in unfinished:
            with suppress(Refusal):
                await engine.cancel(job.id, "test")
        await asyncio.sleep(0.05)
