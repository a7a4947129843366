"""The pool under load: ``python benchmarks/bench_load.py [--seconds 300]``.

100 users, 200 open event streams, 1,000 running and 20,000 queued jobs, 50 submissions a second and 20 reads a
second, while jobs end, start and report. Engine, store on disk, API and streams are real, in a process of their
own; what runs is held in memory, so that the pool is measured and not a thousand processes.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from machine import describe, percentile
from tornado.netutil import bind_sockets

from springtide.hub_extension.api.limits import Buckets, Slots
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.service.runtime import serve
from springtide.hub_extension.service.site import Site
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Groups
from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, open_engine
from springtide.scheduler.model import Environment, Gpu, Node, Settings
from springtide.scheduler.store import Store

WORLDS = Path(__file__).parents[1] / "tests" / "engine" / "worlds.py"
PREFIX = "/services/springtide/"
USERS, PROJECTS, STREAMS = 100, 10, 200
NODES, GPUS = 125, 8
QUEUED = 20_000
SUBMISSIONS, READS = 50, 20
"""Per second."""
ENDS = 10
"""Jobs that end in a second."""
REPORTS = 50
"""Reports of progress in a second."""
GOAL_MS = 250.0


def project_of(user: int) -> str:
    return f"project{user % PROJECTS}"


class People:
    """The hub: a token is its user's name."""

    async def caller(self, handler: Any) -> Caller | None:
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        if not name.startswith("user"):
            return None
        return Caller(name, frozenset({project_of(int(name[4:]))}), token=name)

    async def servers(self, _user: str) -> frozenset[str]:
        return frozenset()

    async def members(self, **_fresh: bool) -> dict[str, list[str]]:
        return {project_of(user): [f"user{user}"] for user in range(PROJECTS)}


def worlds() -> ModuleType:
    """Return the module with the executor in memory."""
    spec = importlib.util.spec_from_file_location("engine_worlds", WORLDS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def nodes() -> Iterator[Node]:
    for number in range(NODES):
        name = f"node{number:03d}"
        devices = tuple(Gpu(f"{name}-{index}", index, simulated=True) for index in range(GPUS))
        yield Node(name, GPUS, "gpu", Environment.TRAIN, devices=devices)


async def serve_pool(state: Path) -> None:
    """Print the address of a filled pool, and serve until the standard input is closed."""
    async with AsyncExitStack() as stack:
        store = Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state)
        stack.callback(store.close)
        executor = worlds().MemoryExecutor(tuple(nodes()), time.time)
        settings = EngineSettings(
            policy=Settings(grace=10.0, min_runtime=30.0), max_unfinished=10**6, max_unfinished_per_user=10**6
        )
        engine = await open_engine(store, executor, settings)
        stack.push_async_callback(engine.stop)
        for number in range(PROJECTS):
            edit = wire.ProjectEdit(quota=NODES * GPUS // PROJECTS)
            await engine.create_project(f"project{number}", edit, "bench", members={})
        for first in range(0, QUEUED + NODES * GPUS, 250):
            await asyncio.gather(*(_submit(engine, number) for number in range(first, first + 250)))
        await engine.idle()
        buckets = Buckets(20.0, 500, asyncio.get_running_loop().time)
        pool = Pool(
            engine, cast("Groups", People()), buckets, 4 << 20, 10.0, "0", time.time, streams=Slots(STREAMS)
        )
        sockets = bind_sockets(0, "127.0.0.1")
        port = sockets[0].getsockname()[1]
        server = serve(Site(pool, cast("Any", People()), PREFIX, b"secret", 30.0), sockets)
        stack.callback(server.stop)
        living = asyncio.create_task(_live(executor))
        stack.callback(living.cancel)
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def _submit(engine: Any, number: int) -> None:
    user = number % USERS
    submission = wire.Submission(argv=["python", "train.py"], gpus=1, name=f"job{number % 40}")
    await engine.submit(submission, f"user{user}", project_of(user))


async def _live(executor: Any) -> None:
    """Have jobs report, and the oldest ones end."""
    for tick in itertools.count(1):
        await asyncio.sleep(0.1)
        live = sorted(executor.live(), key=lambda key: executor.world[key].started or 0.0)
        for key in live[: ENDS // 10]:
            executor.end(key, code=0)
            await executor.discard(key)
        for key in live[-REPORTS // 10 :]:
            executor.report(key, step=tick, of=1000, loss=1.0 / tick)


class Connection:
    """One keep-alive connection of a user; requests wait for each other."""

    def __init__(self, port: int, user: int) -> None:
        self._port = port
        self._user = user
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer."""
        async with self._lock:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(self._head(method, path, len(body)) + body)
            status, headers = await read_head(reader)
            return status, headers, await reader.readexactly(int(headers.get("content-length", 0)))

    def _head(self, method: str, path: str, length: int) -> bytes:
        return (
            f"{method} {PREFIX}api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: token user{self._user}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode()

    async def follow(self, seen: Counter[str]) -> None:
        """Count the events of a stream by kind, until it is cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        try:
            writer.write(self._head("GET", "/events", 0))
            status, _ = await read_head(reader)
            if status != 200:
                seen[f"status {status}"] += 1
                return
            while line := await reader.readline():
                if line.startswith(b"event: "):
                    seen[line[7:].strip().decode()] += 1
            seen["ended"] += 1
        finally:
            writer.close()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(":") for line in head[1:] if line)
    return int(head[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


class Load:
    """What is asked, and how it was answered."""

    def __init__(self, port: int) -> None:
        self.users = [Connection(port, user) for user in range(USERS)]
        self.took: dict[str, list[float]] = {"submit": [], "list": [], "pool": []}
        self.statuses: Counter[int] = Counter()
        self.events: Counter[str] = Counter()

    async def ask(self, what: str, user: int) -> None:
        """Ask for one thing, and note how long the answer took."""
        body = json.dumps({"argv": ["python", "train.py"], "name": "sent"}).encode()
        method, path, sent = {
            "submit": ("POST", "/jobs", body),
            "list": ("GET", "/jobs?limit=50&mine=true", b""),
            "pool": ("GET", "/pool", b""),
        }[what]
        began = time.perf_counter()
        status, _, _ = await self.users[user].request(method, path, sent)
        self.took[what].append(time.perf_counter() - began)
        self.statuses[status] += 1

    async def run(self, seconds: float) -> None:
        """Ask at a steady rate, however slow the answers are."""
        async with asyncio.TaskGroup() as group:
            plan = itertools.cycle(["submit"] * (SUBMISSIONS // 10) + ["list"] + ["pool"])
            rate = SUBMISSIONS + READS // 2 + READS // 2
            began = time.perf_counter()
            for number in range(int(seconds * rate)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                group.create_task(self.ask(next(plan), number % USERS))


@asynccontextmanager
async def streams(load: Load) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(load.users[number % USERS].follow(load.events)) for number in range(STREAMS)]
    await asyncio.sleep(2.0)
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def beyond(load: Load) -> tuple[int, str | None]:
    """Return how many of one user's 600 submissions at once are refused with 429, and what to do then."""
    body = json.dumps({"argv": ["true"]}).encode()
    connections = [Connection(load.users[0]._port, 7) for _ in range(10)]  # noqa: SLF001 - of this file
    answers = await asyncio.gather(*(connections[n % 10].request("POST", "/jobs", body) for n in range(600)))
    refused = [headers for status, headers, _ in answers if status == 429]
    return len(refused), refused[0].get("retry-after") if refused else None


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def measure(port: int, pid: int, seconds: float) -> bool:
    """Print the figures; return whether the goals are met."""
    load = Load(port)
    async with streams(load):
        before, busy, began = resident_mib(pid), processor_seconds(pid), time.perf_counter()
        await load.run(seconds)
        took, after = time.perf_counter() - began, resident_mib(pid)
        used = (processor_seconds(pid) - busy) / took
        refused, retry_after = await beyond(load)
    for what, times in load.took.items():
        half, most, longest = (1000 * percentile(times, share) for share in (0.5, 0.99, 1.0))
        print(
            f"  {what:7} {len(times):6} answers; 50 % {half:.1f} ms, 99 % {most:.1f} ms, longest {longest:.1f} ms"
        )
    everything = [one for times in load.took.values() for one in times]
    worst = percentile(everything, 0.99) * 1000
    errors = sum(count for status, count in load.statuses.items() if status >= 400)
    sent = sum(load.events.values())
    print(f"  all answers: 99 % within {worst:.1f} ms (goal {GOAL_MS:.0f} ms); {errors} errors")
    print(
        f"  events sent {sent} ({sent / took:.0f}/s), refetch {100 * load.events['refetch'] / max(1, sent):.2f} %"
    )
    print(f"  memory {before:.0f} -> {after:.0f} MiB; {used:.2f} cores")
    print(f"  beyond the rate: {refused} of 600 at once answered 429, Retry-After {retry_after}")
    return worst < GOAL_MS and errors == 0 and refused > 0 and retry_after is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve_pool(given.serve))
        return 0
    print(describe())
    print(f"{USERS} users, {STREAMS} streams, {NODES * GPUS} running, {QUEUED} queued,")
    print(f"{SUBMISSIONS} submissions and {READS} reads a second, for {given.seconds:.0f} s:")
    with tempfile.TemporaryDirectory(prefix="springtide-load-") as folder:
        command = [sys.executable, __file__, "--serve", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
            assert service.stdin is not None
            assert service.stdout is not None
            try:
                port = int(service.stdout.readline())
                met = asyncio.run(measure(port, service.pid, given.seconds))
            finally:
                service.stdin.close()
                service.wait()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
