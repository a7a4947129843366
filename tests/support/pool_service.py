"""The pool's service as a process for tests: all parts are real, except that a token is its user's name.

``python pool_service.py STATE_DIR PORT [IMAGE...]`` prints its address and serves until its standard input is
closed; then it ends all jobs and exits. Port 0 is any. Jobs may request the images named, and lab/torch
images are declared to have msgspec alone. Its store is SQLite in
the state directory, unless ``POOL_DATABASE`` has another URL. ``POOL_PROJECTS`` may name other projects, as JSON
like `PROJECTS`; the pool has as many simulated train GPUs as their quotas add up to, or the GPUs of the machine
if ``POOL_GPUS`` is ``real``. ``POOL_DIES`` names a function as ``MODULE:NAME``: at its call the process kills
itself, with ``:after`` behind that once it has returned.
"""

import asyncio
import functools
import importlib
import inspect
import json
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, cast

from tornado.netutil import bind_sockets
from tornado.web import RequestHandler

from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.service.runtime import serve
from springtide.hub_extension.service.site import Site
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Groups, Server
from springtide.scheduler import model, wire
from springtide.scheduler.engine import EngineSettings, JobFilter, open_engine
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store
from springtide.scheduler.telemetry import discover

PREFIX = "/services/springtide/"
BUILD = 2
MAX_BODY = 4 << 20
PROJECTS = {"vision": (2, ("susan", "joe", "anna")), "speech": (2, ("jemma", "anna"))}
PROJECTS = json.loads(os.environ.get("POOL_PROJECTS", "null")) or PROJECTS
"""Quota and members of each project."""
TRAIN = sum(quota for quota, _ in PROJECTS.values())
UNFINISHED = JobFilter(states=frozenset(state.value for state in model.JobState if not state.final))


class People:
    async def caller(self, handler: RequestHandler) -> Caller | None:
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        groups = frozenset(project for project, (_, names) in PROJECTS.items() if name in names)
        return Caller(name, groups, token=name) if groups or name == "stranger" else None

    async def identity(self, user: str) -> str | None:
        return user if any(user in names for _, names in PROJECTS.values()) else None

    async def servers(self, user: str) -> tuple[Server, ...]:  # noqa: ARG002 - no user has a notebook
        return ()

    async def stop_server(self, user: str, server: str, token: str | None) -> None:
        """Do nothing: no user has a notebook."""

    async def members(self, **_fresh: bool):
        return {project: tuple(names) for project, (_, names) in PROJECTS.items()}


async def main(state, port: int, *images: str):
    async with AsyncExitStack() as stack:
        database = os.environ.get("POOL_DATABASE", f"sqlite:///{state / 'springtide.sqlite'}")
        store = Store.open(database, state)
        stack.callback(store.close)
        policy = model.Settings(grace=10.0, min_runtime=0.0)
        contents = {"lab/torch:*": wire.ImageContents(python="3.11", modules=["msgspec"])} if images else {}
        settings = EngineSettings(
            policy=policy,
            images=images or None,
            image_contents=contents,
            notifications=Channels().settings,
        )
        sockets = bind_sockets(port, "127.0.0.1")
        address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{PREFIX}"
        credentials = Credentials(address.rstrip("/"), b"job secret")
        machine = discover() if os.environ.get("POOL_GPUS") == "real" else discover(BUILD + TRAIN, BUILD)
        executor = LocalExecutor(state, machine, credentials=credentials)
        engine = await open_engine(store, executor, settings)
        stack.push_async_callback(engine.stop)
        stack.push_async_callback(end_jobs, engine)
        for name, (quota, _) in PROJECTS.items():
            if not engine.has_project(name):
                await engine.create_project(name, wire.ProjectEdit(quota=quota, build_quota=0), "test", members={})
        buckets = Buckets(1000.0, 1000, asyncio.get_running_loop().time)
        pool = Pool(engine, cast("Groups", People()), buckets, MAX_BODY, 10.0, "0", time.time)
        server = serve(Site(pool, People(), PREFIX, b"secret", 60.0, credentials=credentials), sockets)
        stack.callback(server.stop)
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


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


async def end_jobs(engine):
    while unfinished := (await engine.jobs(UNFINISHED, None, 500)).items:
        for job in unfinished:
            with suppress(Refusal):
                await engine.cancel(job.id, "test")
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    if "POOL_DIES" in os.environ:
        die_at(*os.environ["POOL_DIES"].split(":"))
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
