"""The people of `bench_load`: their requests at a steady rate, and their event streams."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from load_pool import BURST, PREFIX, RATE, STREAMS, USERS
from machine import percentile

LISTS, POOLS = 10, 10
"""Lists of one's own jobs, and looks at the pool, in a second."""
SUBMISSION = json.dumps({"argv": ["python", "train.py"], "name": "sent"}).encode()
REQUESTS = {
    "submit": ("POST", "/jobs", SUBMISSION),
    "list": ("GET", "/jobs?limit=50&mine=true", b""),
    "pool": ("GET", "/pool", b""),
}
MIX = ("submit",) * (RATE // 10) + ("list",) * (LISTS // 10) + ("pool",) * (POOLS // 10)
BEYOND = BURST + 100
NAMED = re.compile(rb"event: (\w+)\n")
LONGEST_NAME = 32
"""A line without its end that is longer than this, in bytes, is not the name of an event."""


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

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()

    def _head(self, method: str, path: str, length: int) -> bytes:
        return (
            f"{method} {PREFIX}api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: token user{self._user}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode()

    async def follow(self, seen: Counter[str]) -> None:
        """Count the bytes and the events of a stream by kind, until it is cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        try:
            writer.write(self._head("GET", "/events", 0))
            status, _ = await read_head(reader)
            if status != 200:
                seen[f"status {status}"] += 1
                return
            begun = b""
            while data := await reader.read(1 << 20):
                seen["bytes"] += len(data)
                for kind in NAMED.findall(begun + data):
                    seen[kind.decode()] += 1
                last = data[data.rfind(b"\n") + 1 :]
                begun = last if len(last) < LONGEST_NAME else b""
            seen["ended"] += 1
        finally:
            writer.close()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(":") for line in head[1:] if line)
    return int(head[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


class Load:
    """What is asked, and how it was answered. ``took`` are seconds since it was to be asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.users = [Connection(port, user) for user in range(USERS)]
        self.took: dict[str, list[float]] = {what: [] for what in REQUESTS}
        self.statuses: Counter[int | str] = Counter()
        self.events: Counter[str] = Counter()

    async def ask(self, what: str, user: int, due: float) -> None:
        """Ask for one thing, and note how long the answer took."""
        try:
            status, _, _ = await self.users[user].request(*REQUESTS[what])
        except (OSError, EOFError) as error:
            self.statuses[type(error).__name__] += 1
            return
        self.took[what].append(time.perf_counter() - due)
        self.statuses[status] += 1

    async def run(self, seconds: float, mix: tuple[str, ...] = MIX) -> None:
        """Ask at a steady rate, however slow the answers are."""
        async with asyncio.TaskGroup() as group:
            rate = RATE * len(mix) / mix.count("submit")
            plan, began = itertools.cycle(mix), time.perf_counter()
            for number in range(int(seconds * rate)):
                due = began + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(self.ask(next(plan), number % USERS, due))

    @property
    def errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if isinstance(status, str) or status >= 400)

    def slowest(self, share: float = 0.99) -> float:
        """Return within how many milliseconds this share of all answers came."""
        return 1000 * percentile([one for times in self.took.values() for one in times] or [0.0], share)

    def close(self) -> None:
        for user in self.users:
            user.close()


@asynccontextmanager
async def streams(load: Load) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(load.users[number % USERS].follow(load.events)) for number in range(STREAMS)]
    await asyncio.sleep(2.0)
    load.events.clear()
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def beyond(load: Load) -> tuple[int, str | None]:
    """Return how many of one user's submissions at once are refused with 429, and what to do then."""
    connections = [Connection(load.port, 7) for _ in range(10)]
    answers = await asyncio.gather(*(connections[n % 10].request(*REQUESTS["submit"]) for n in range(BEYOND)))
    for connection in connections:
        connection.close()
    refused = [headers for status, headers, _ in answers if status == 429]
    return len(refused), refused[0].get("retry-after") if refused else None
