"""The pool under load, and how fast it starts: ``python benchmarks/bench_load.py [--seconds 300]``.

100 users, 200 open event streams, 1,000 running, 20,000 queued and 100,000 ended jobs, 50 submissions a second and
20 reads a second, while as many jobs end, start and report. The same is measured on an empty pool in the same run,
for comparison on any machine. Takes about two minutes more than ``--seconds``; exits with 1 if a goal is not met.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from load_people import BEYOND, LISTS, POOLS, Load, beyond, streams
from load_pool import ENDED, QUEUED, RATE, RUNNING, STREAMS, USERS, fill, serve_pool
from machine import describe, percentile

GOAL_MS, GOAL_START_S, GOAL_GROWTH = 250.0, 5.0, 0.1
"""99th percentile of all answers, time until the first answer after a restart, and growth of the memory between
the first quarter of the time and its end, as a part of it."""
PLAIN_S = 10.0
"""Time of submissions alone, in seconds."""
WARM_UP_S = 3.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Figures:
    """What was measured of one pool. Times in seconds, memory in MiB.

    ``start_used`` and ``submission_ms`` are processor time; ``cores`` are those that the service had under the
    whole load, ``clients`` those that the people of this process had. ``ticks`` are those of the engine,
    ``blocked`` is the longest time for which the service's event loop did nothing else.
    """

    start: float
    start_used: float
    submission_ms: float = 0.0
    cores: float = 0.0
    clients: float = 0.0
    memory: list[float] = field(default_factory=list)
    refused: int = 0
    retry_after: str | None = None
    load: Load = field(default_factory=lambda: Load(0))
    seconds: float = 0.0
    ticks: int = 0
    blocked: float = 0.0

    @property
    def ticks_per_second(self) -> float:
        return self.ticks / self.seconds

    @property
    def events_per_second(self) -> float:
        return (self.load.events.total() - self.load.events["bytes"]) / self.seconds

    @property
    def mb_per_second(self) -> float:
        return self.load.events["bytes"] / self.seconds / 1e6

    @property
    def growth(self) -> float:
        """Growth of the memory after the first quarter, as a part of it."""
        quarter = self.memory[len(self.memory) // 4]
        return self.memory[-1] / quarter - 1


@dataclass(frozen=True, slots=True)
class Service:
    """The process of a pool; ``start`` and ``start_used`` are until its first answer."""

    port: int
    process: subprocess.Popen[bytes]
    start: float
    start_used: float

    @property
    def used(self) -> float:
        """Processor time so far."""
        return processor_seconds(self.pid)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def state(self) -> tuple[int, float]:
        """Return the engine's ticks so far, and how long its event loop was blocked most since the last time."""
        return await asyncio.to_thread(self._state)

    def _state(self) -> tuple[int, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        ticks, blocked = self.process.stdout.readline().split()
        return int(ticks), float(blocked)


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def service(state: Path) -> Iterator[Service]:
    began = time.perf_counter()
    command = [sys.executable, __file__, "--serve", str(state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            asyncio.run(first_answer(port))
            yield Service(port, process, time.perf_counter() - began, processor_seconds(process.pid))
        finally:
            process.stdin.close()
            process.wait()


async def first_answer(port: int) -> None:
    load = Load(port)
    await load.ask("list", 0, time.perf_counter())
    load.close()
    if load.errors:
        raise RuntimeError(f"The pool answered {dict(load.statuses)}.")


async def measure(served: Service, seconds: float, *, flood: bool) -> Figures:
    """Return the figures of a pool under ``seconds`` of load, and of a burst beyond its rate with ``flood``."""
    figures = Figures(served.start, served.start_used)
    plain = Load(served.port)
    await plain.run(WARM_UP_S, ("submit",))
    before = served.used
    await plain.run(PLAIN_S, ("submit",))
    figures.submission_ms = 1000 * (served.used - before) / (PLAIN_S * RATE)
    plain.close()
    figures.load = load = Load(served.port)
    async with streams(load):
        sampling = asyncio.create_task(_sample(served.pid, figures.memory))
        ticks, _ = await served.state()
        before, own, began = served.used, time.process_time(), time.perf_counter()
        await load.run(seconds)
        figures.seconds = time.perf_counter() - began
        figures.cores = (served.used - before) / figures.seconds
        figures.clients = (time.process_time() - own) / figures.seconds
        until, figures.blocked = await served.state()
        figures.ticks = until - ticks
        sampling.cancel()
        if flood:
            figures.refused, figures.retry_after = await beyond(load)
    load.close()
    return figures


async def _sample(pid: int, memory: list[float]) -> None:
    while True:
        memory.append(resident_mib(pid))
        await asyncio.sleep(1.0)


# ---------- output


def ratio(full: float, empty: float) -> str:
    return f"{full / empty:.1f} times" if empty else "-"


def table(full: Figures, empty: Figures) -> Iterator[str]:
    rows = [
        ("start until the first answer, s", full.start, empty.start),
        ("processor time of the start, s", full.start_used, empty.start_used),
        ("processor time of a submission alone, ms", full.submission_ms, empty.submission_ms),
        ("processor of the service under it all, cores", full.cores, empty.cores),
        ("processor of the clients, cores", full.clients, empty.clients),
        ("50 % of all answers within, ms", full.load.slowest(0.5), empty.load.slowest(0.5)),
        ("99 % of all answers within, ms", full.load.slowest(), empty.load.slowest()),
        ("longest answer, ms", full.load.slowest(1.0), empty.load.slowest(1.0)),
        ("ticks of the engine in a second", full.ticks_per_second, empty.ticks_per_second),
        ("longest time without the event loop, ms", 1000 * full.blocked, 1000 * empty.blocked),
        ("events sent in a second", full.events_per_second, empty.events_per_second),
        ("MB of events in a second", full.mb_per_second, empty.mb_per_second),
    ]
    yield f"  {'':40} {'full pool':>12} {'empty pool':>12}"
    for what, one, other in rows:
        yield f"  {what:40} {one:12,.2f} {other:12,.2f}   {ratio(one, other)}"


def problems(full: Figures, empty: Figures) -> Iterator[str]:
    if full.load.errors or empty.load.errors:
        yield f"{full.load.errors + empty.load.errors} answers were errors: {dict(full.load.statuses)}"
    if full.load.slowest() > GOAL_MS:
        yield f"99 % of the answers came within {full.load.slowest():.0f} ms, not {GOAL_MS:.0f} ms"
    if full.growth > GOAL_GROWTH:
        yield f"the memory grew by {100 * full.growth:.0f} % after the first quarter"
    if not full.refused or full.retry_after is None:
        yield f"{full.refused} of {BEYOND} submissions at once were refused, Retry-After {full.retry_after}"
    if full.start > GOAL_START_S:
        yield f"the first answer came {full.start:.1f} s after the start, not {GOAL_START_S:.0f} s"


def report(full: Figures, empty: Figures) -> bool:
    """Print the figures; return whether the goals are met."""
    print("\n".join(table(full, empty)))
    memory, events = full.memory, full.load.events
    print(f"  {'answers of the full pool, ms':40} {'50 %':>8} {'90 %':>8} {'99 %':>8} {'all':>8}")
    for what, times in full.load.took.items():
        within = "".join(f" {1000 * percentile(times, share):8.0f}" for share in (0.5, 0.9, 0.99, 1.0))
        print(f"  {f'{len(times):,} of {what!r}':40}{within}")
    print(f"  {full.load.errors} errors; {events['refetch']} events 'refetch'")
    quarter = memory[len(memory) // 4]
    print(f"  memory {memory[0]:.0f} MiB, after a quarter {quarter:.0f} MiB, at the end {memory[-1]:.0f} MiB")
    print(f"  {full.refused} of {BEYOND} submissions of one person at once: 429, Retry-After {full.retry_after}")
    found = list(problems(full, empty))
    for problem in found:
        print(f"problem: {problem}")
    sent = f"{len(full.load.took['submit']):,} submissions in {full.seconds:.0f} s, {full.load.errors} errors"
    times = f"99 % within {full.load.slowest():.0f} ms; start {full.start:.1f} s"
    print(f"{'not held' if found else 'held'}: {sent}, {times}")
    return not found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long the load lasts (default: 300)")
    parser.add_argument("--queued", type=int, default=QUEUED, help=f"waiting jobs (default: {QUEUED:,})")
    parser.add_argument("--ended", type=int, default=ENDED, help=f"ended jobs (default: {ENDED:,})")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve_pool(given.serve))
        return 0
    print(describe())
    print(
        f"{USERS} users, {STREAMS} streams, {RUNNING:,} running, {given.queued:,} queued, {given.ended:,} ended;"
    )
    print(f"{RATE} submissions, {LISTS} lists and {POOLS} looks at the pool a second, for {given.seconds:.0f} s:")
    found = []
    for waiting, ended, seconds in ((0, 0, min(30.0, given.seconds)), (given.queued, given.ended, given.seconds)):
        with tempfile.TemporaryDirectory(prefix="springtide-load-") as folder:
            asyncio.run(fill(Path(folder), waiting, ended))
            with service(Path(folder)) as served:
                found.append(asyncio.run(measure(served, seconds, flood=bool(waiting))))
    return 0 if report(found[1], found[0]) else 1


if __name__ == "__main__":
    sys.exit(main())
