from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from patience import PATIENCE_S
from stores.new_store import open_store
from tornado.netutil import bind_sockets
from tornado.web import RequestHandler

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.hub_extension.api.limits import Buckets, Slots
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.service.runtime import serve
from springtide.hub_extension.service.site import Site
from springtide.hub_extension.tracking.tracker import Tracker
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Server
from springtide.scheduler import model, wire
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.engine.settings import IdleSettings
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.telemetry import discover

PREFIX = "/services/springtide/"


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Takes back how a service that ran in this process set up its log."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    yield
    logging.root.setLevel(level)
    for handler in set(logging.root.handlers) - set(handlers):
        if type(handler) is logging.StreamHandler:
            logging.root.removeHandler(handler)


@dataclass
class People:
    """Who is who, in place of a hub: a token is a person's name. The tests with a hub are in test_hub.py."""

    callers: dict[str, Caller]
    groups: dict[str, list[str]] = field(default_factory=dict)
    hub_refuses: bool = False
    notebooks: dict[str, set[str]] = field(default_factory=dict)
    last_activity: float = 200.0
    asked: Counter[str] = field(default_factory=Counter)
    """How often the service has asked who each one is."""

    async def caller(self, handler: RequestHandler) -> Caller | None:
        token = handler.request.headers.get("Authorization", "").removeprefix("token ")
        self.asked[token] += 1
        return self.callers.get(token)

    def join(self, name: str, project: str) -> None:
        """Put a person into a project, as the hub's administrator does."""
        self.groups[project].append(name)
        self.callers[name] = replace(self.callers[name], groups=self.callers[name].groups | {project})

    def leave(self, name: str, project: str) -> None:
        self.groups[project].remove(name)
        self.callers[name] = replace(self.callers[name], groups=self.callers[name].groups - {project})

    def revoke(self, name: str) -> None:
        del self.callers[name]

    async def members(self, *, fresh: bool = False) -> Mapping[str, tuple[str, ...]]:  # noqa: ARG002
        return {group: tuple(users) for group, users in self.groups.items()}

    async def identity(self, user: str) -> str | None:
        return user if user in self.callers or any(user in names for names in self.groups.values()) else None

    async def servers(self, user: str) -> tuple[Server, ...]:
        return tuple(
            Server(name, "running", f"/user/{user}/{name}", since=100.0, last_activity=self.last_activity)
            for name in sorted(self.notebooks.get(user, ()))
        )

    async def stop_server(self, user: str, server: str, _token: str | None) -> None:
        self.notebooks.get(user, set()).discard(server)

    async def create(self, name: str, token: str) -> None:
        self._check(token)
        self.groups.setdefault(name, [])

    async def delete(self, name: str, token: str) -> None:
        self._check(token)
        self.groups.pop(name, None)

    async def add(self, name: str, user: str, token: str) -> None:
        self._check(token)
        self.groups.setdefault(name, []).append(user)

    async def remove(self, name: str, user: str, token: str) -> None:
        self._check(token)
        self.groups[name].remove(user)

    def _check(self, token: str) -> None:
        if self.hub_refuses or not self.callers[token].administers_some:
            raise Refusal(403, "hub_refused", "The hub does not let this token change groups.")


@dataclass
class Running:
    """The service's application on a port, with a real engine, store and executor."""

    url: str
    people: People
    pool: Pool
    stack: AsyncExitStack
    credentials: Credentials

    def as_(self, name: str | None, **headers: str) -> httpx.AsyncClient:
        """A client with a person's token."""
        auth = {} if name is None else {"Authorization": f"token {name}"}
        client = httpx.AsyncClient(
            base_url=f"{self.url}api/v1",
            headers={**auth, **headers},
            timeout=PATIENCE_S,
            trust_env=False,
            verify=False,
        )
        self.stack.push_async_callback(client.aclose)
        return client

    async def submit(self, user: str, /, *argv: str, **fields: Any) -> dict[str, Any]:
        """A job of ``user``; by default one that runs until it is cancelled."""
        body = {"argv": list(argv) or ["sleep", "600"], **fields}
        answer = await self.as_(user).post("/jobs", json=body)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    async def until(self, name: str, job: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job, as soon as it is as wanted."""
        client = self.as_(name)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = (await client.get(f"/jobs/{job}")).json()
            if wanted(found):
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.02)


LEADS = HubConfiguration(
    configured_roles=(
        {
            "name": "vision-admin",
            "scopes": ["custom:springtide:project-admin!group=vision", "groups!group=vision"],
            "groups": ["vision-leads"],
        },
    )
)
PROJECTS = {"vision": (2, ["susan", "joe"]), "speech": (2, ["jemma"])}


def callers() -> dict[str, Caller]:
    found = {
        "admin": Caller("admin", admin=True, token="admin"),
        "bot": Caller("bot", service=True, token="bot"),
        "springtide": Caller("springtide", service=True, spawner=True),
    }
    for project, (_, names) in PROJECTS.items():
        found |= {name: Caller(name, frozenset({project}), token=name) for name in names}
    return found


class Start:
    """Starts services; all are stopped, and their jobs ended, when the test is over."""

    def __init__(self, root: Path, stack: AsyncExitStack) -> None:
        self._root = root
        self._stack = stack
        self._number = 0

    async def __call__(
        self,
        *,
        max_body: int = 4 << 20,
        rate: float = 1000.0,
        burst: int = 1000,
        rate_clock: Callable[[], float] | None = None,
        recheck: float = 0.1,
        most: int = 300,
        streams: int = 20,
        channels: Channels | None = None,
        trackers: Sequence[Tracker] = (),
        datasets: Sequence[Dataset] = (),
        secrets: Sequence[NamedSecret] = (),
        noted_variables: tuple[str, ...] = (),
        hub: HubConfiguration = LEADS,
    ) -> Running:
        self._number += 1
        state = self._root / f"pool{self._number}"
        state.mkdir()
        store = open_store(state)
        self._stack.callback(store.close)
        sockets = bind_sockets(0, "127.0.0.1")
        port = sockets[0].getsockname()[1]
        credentials = Credentials(f"http://127.0.0.1:{port}{PREFIX.rstrip('/')}", b"job secret")
        executor = LocalExecutor(state, discover(6, 2), credentials=credentials)
        channels = channels or Channels()
        settings = EngineSettings(
            policy=model.Settings(grace=1.0),
            queue_cap_per_user=most,
            notifications=channels.settings,
            idle=IdleSettings(stop_idle_workspaces=True),
            datasets={each.name: each for each in datasets},
            secrets={each.name: each for each in secrets},
            noted_variables=noted_variables,
        )
        engine = await open_engine(store, executor, settings)
        self._stack.push_async_callback(engine.stop)
        self._stack.push_async_callback(_end_jobs, engine)
        people = People(callers(), {name: list(names) for name, (_, names) in PROJECTS.items()})
        for name, (quota, _) in PROJECTS.items():
            edit = wire.ProjectEdit(quota=quota, build_quota=0 if name == "vision" else 1)
            await engine.create_project(name, edit, "test", members={})
        loop = asyncio.get_running_loop()
        pool = Pool(
            engine,
            people,
            Buckets(rate, burst, rate_clock or loop.time),
            max_body,
            1.0,
            "0",
            time.time,
            streams=Slots(streams),
            channels=channels,
            trackers=trackers,
            hub=hub,
        )
        self._stack.push_async_callback(pool.sessions.close_all)
        site = Site(pool, people, PREFIX, b"secret", recheck, credentials=credentials)
        server = serve(site, sockets)
        self._stack.push_async_callback(server.close_all_connections)
        self._stack.callback(server.stop)
        return Running(f"http://127.0.0.1:{port}{PREFIX}", people, pool, self._stack, credentials)


async def _end_jobs(engine: Engine) -> None:
    page = await engine.jobs(_unfinished(), None, 500)
    for job in page.items:
        with suppress(Refusal):
            await engine.cancel(job.id, "test")
    deadline = time.monotonic() + PATIENCE_S
    while (await engine.jobs(_unfinished(), None, 500)).items:
        assert time.monotonic() < deadline, "jobs do not end"
        await asyncio.sleep(0.02)


def _unfinished() -> Any:
    from springtide.scheduler.engine import JobFilter  # noqa: PLC0415

    return JobFilter(states=frozenset(state.value for state in model.JobState if not state.final))


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:
        yield Start(tmp_path, stack)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Start]:
    """Starts services for all tests of a file."""
    async with AsyncExitStack() as stack:
        yield Start(tmp_path_factory.mktemp("pools"), stack)


@pytest.fixture
async def running(start: Start) -> Running:
    return await start()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(started: Start) -> Running:
    """The service of those tests of a file that change nothing in it."""
    return await started()


def sse(lines: list[str]) -> dict[str, Any]:
    """One event of a stream from its lines."""
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
    return {**fields, "data": json.loads(fields["data"])} if "data" in fields else fields
