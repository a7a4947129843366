"""The service in a thread (engine, store, executor, API, pages), users without a hub, and their windows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from jupyterhub._data import DATA_FILES_PATH
from jupyterhub.services.auth import HubOAuth
from patience import PATIENCE_S
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize
from stores.new_store import open_store
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, StaticFileHandler

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.service.site import Hub, Site
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Server
from springtide.scheduler import model, wire
from springtide.scheduler.engine import Engine, EngineSettings, JobFilter, open_engine
from springtide.scheduler.engine.settings import IdleSettings, Retries
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.telemetry import Machine, discover

T = TypeVar("T")

PREFIX = "/services/springtide/"
PERSON = "person"
WITHOUT_SHARED_WORKERS = "delete window.SharedWorker"
"""Script of pages that have a stream each: no test can answer requests of a shared worker."""
WIDE: ViewportSize = {"width": 1280, "height": 900}
UNFINISHED = frozenset(state.value for state in model.JobState if not state.final)


class Windows:
    """Browser windows of users; errors of scripts and violations of the content security policy are recorded."""

    def __init__(self, browser: Browser, usual: BrowserContext) -> None:
        self._browser = browser
        self._usual = usual
        self._pages: list[Page] = []
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []

    def open(
        self,
        viewport: ViewportSize = WIDE,
        color_scheme: Literal["light", "dark"] = "light",
        *,
        apart: bool = False,
    ) -> Page:
        """Open a window and return it; with ``apart`` in a context of its own, without others' cookies."""
        context = self._usual
        if apart:
            context = self._browser.new_context(reduced_motion="reduce")
            self._contexts.append(context)
        page = context.new_page()
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        self._pages.append(page)
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._listen)
        return page

    def _listen(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def close(self) -> None:
        """Close all windows and log all users out."""
        for page in self._pages:
            page.close()
        for context in self._contexts:
            context.close()
        self._usual.set_offline(False)
        self._usual.clear_cookies()


class People:
    """Users without a hub: cookie or token is the user's name. Tests with a hub are in ``tests/story``."""

    def __init__(self) -> None:
        self.notebooks: dict[str, list[Server]] = {}
        self.groups = {"vision": ["susan"], "nlp": ["joe"], "speech": ["jemma"]}
        self.administers: dict[str, frozenset[str]] = {}

    async def caller(self, handler: RequestHandler) -> Caller | None:
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        if not name:
            name = handler.get_cookie(PERSON) or ""
            if not name:
                return None
            handler.check_xsrf_cookie()
        groups = frozenset(group for group, names in self.groups.items() if name in names)
        administers = self.administers.get(name, frozenset())
        admin = name == "admin"
        return Caller(name, groups, admin=admin, hub_admin=admin, administers=administers, token=name)

    async def identity(self, user: str) -> str | None:
        return user if any(user in names for names in self.groups.values()) else None

    async def servers(self, user: str) -> tuple[Server, ...]:
        return tuple(self.notebooks.get(user, ()))

    async def stop_server(self, user: str, server: str, _token: str | None) -> None:
        self.notebooks[user] = [each for each in self.notebooks[user] if each.name != server]

    async def members(self, *, fresh: bool = False) -> Mapping[str, tuple[str, ...]]:  # noqa: ARG002 - always fresh
        return {group: tuple(names) for group, names in self.groups.items()}

    async def create(self, name: str, _token: str) -> None:
        self.groups.setdefault(name, [])

    async def delete(self, name: str, _token: str) -> None:
        self.groups.pop(name, None)

    async def add(self, name: str, user: str, _token: str) -> None:
        self.groups.setdefault(name, []).append(user)

    async def remove(self, name: str, user: str, _token: str) -> None:
        self.groups[name].remove(user)


class Service:
    """The service with engine, store, executor and pages in a thread of its own, as browsers see it.

    Each project begins with the quotas of ``projects``.
    """

    def __init__(
        self,
        state: Path,
        machine: Machine | None = None,
        projects: wire.ProjectEdit | None = None,
        retries: Retries | None = None,
        executor: type[LocalExecutor] = LocalExecutor,
        hub: HubConfiguration | None = None,
        keep_days: float = 90.0,
    ) -> None:
        self._hub = hub or HubConfiguration()
        self.state = state
        self._executor = executor
        self._machine = machine or discover(11, 3)
        self._projects = projects or wire.ProjectEdit(quota=2, build_quota=1)
        self._settings = EngineSettings(
            policy=model.Settings(grace=2.0),
            retries=retries or Retries(),
            notifications=Channels().settings,
            idle=IdleSettings(stop_idle_workspaces=True),
            keep_days=keep_days,
        )
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self.people = People()
        self.url = ""
        self.engine: Engine
        self._server: HTTPServer

    def start(self) -> None:
        self._thread.start()
        self.run(self._start())

    def stop(self) -> None:
        self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the service's event loop."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE_S)

    async def _start(self) -> None:
        store = open_store(self.state)
        self._stack.callback(store.close)
        executor = self._executor(self.state, self._machine)
        self.engine = await open_engine(store, executor, self._settings)
        self._stack.push_async_callback(self.engine.stop)
        self._stack.push_async_callback(self._end_jobs)
        known = {project.name for project in self.engine.pool().projects}
        for name in (name for name in self.people.groups if name not in known):
            await self.engine.create_project(name, self._projects, "set-up", members=await self.people.members())
        loop = asyncio.get_running_loop()
        pool = Pool(
            self.engine, self.people, Buckets(1000, 1000, loop.time), 1 << 20, 2.0, "0", time.time, hub=self._hub
        )
        sockets = bind_sockets(0, "127.0.0.1")
        self._server = HTTPServer(self._application(pool))
        self._server.add_sockets(sockets)
        self._stack.push_async_callback(self._server.close_all_connections)
        self._stack.callback(self._server.stop)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{PREFIX}"

    def _application(self, pool: Pool) -> Application:
        oauth = HubOAuth(
            api_token="none",
            api_url="http://127.0.0.1:9/hub/api",
            base_url=PREFIX,
            hub_prefix="/hub/",
            oauth_client_id="service-springtide",
        )
        application = Site(pool, self.people, PREFIX, b"0" * 32, 60.0, Hub(oauth, "/hub/")).application()
        static = Path(DATA_FILES_PATH) / "static"
        application.add_handlers(
            ".*",
            [
                (r"/hub/static/(.*)", StaticFileHandler, {"path": str(static)}),
                (r"/hub/logo()", StaticFileHandler, {"path": str(static / "images" / "jupyterhub-80.png")}),
            ],
        )
        return application

    async def _end_jobs(self) -> None:
        for job in (await self.engine.jobs(JobFilter(states=UNFINISHED), None, 100)).items:
            with suppress(Refusal):
                await self.engine.cancel(job.id, "clean-up")
        deadline = time.monotonic() + PATIENCE_S
        while (await self.engine.jobs(JobFilter(states=UNFINISHED), None, 100)).items:
            assert time.monotonic() < deadline, "jobs do not end"
            await asyncio.sleep(0.05)

    def submit(self, user: str, *argv: str, **fields: Any) -> wire.Job:
        """Submit a job of a user; by default one that runs until it is asked to stop."""
        project = next(group for group, names in self.people.groups.items() if user in names)
        submission = wire.Submission(argv=list(argv) or ["sleep", "600"], **fields)
        return self.run(self.engine.submit(submission, user, project))

    def edit_project(self, name: str, **changes: Any) -> None:
        """Change settings of a project, as an admin."""
        version = next(project.version for project in self.engine.pool().projects if project.name == name)
        edit = wire.ProjectEdit(version=version, **changes)
        self.run(self.engine.edit_project(name, edit, "admin", members=self.run(self.people.members())))

    def until(self, job: str, wanted: Callable[[wire.Job], bool]) -> wire.Job:
        """Return the job as soon as the condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(found := self.run(self.engine.job(job))):
            assert time.monotonic() < deadline, found
            threading.Event().wait(0.05)
        return found

    def end_streams(self) -> None:
        """Close every connection."""
        self.run(self._server.close_all_connections())

    def end_jobs(self) -> None:
        """Cancel the remaining jobs and wait for their end."""
        self.run(self._end_jobs())
