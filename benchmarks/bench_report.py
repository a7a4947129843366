"""Time of reports over a year: 200 GPUs of two types, 40 projects, 300,000 jobs.

    python benchmarks/bench_report.py
    python benchmarks/bench_report.py --jobs 600000 --repeat 5

The store is made anew, in memory-backed storage if there is some: its entries, and their sums by the code of
the service. Each report is made from it by the function that the service runs for ``GET /report``, and takes the
best time of ``--repeat``, in seconds of one core. The baseline is a scan of the same entries without sums: what a
report by project would take that computed from the jobs.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import click
from machine import describe
from sqlalchemy import select

from springtide.scheduler.engine import reports
from springtide.scheduler.store import Store, ledger_writing, schema
from springtide.scheduler.store.ledger import EndedFact, FactKind, LedgerEntry
from springtide.scheduler.store.records import WriteBatch
from springtide.scheduler.wire import ReportBy

FIRST, LAST = date(2026, 1, 1), date(2026, 12, 31)
YEAR = 365 * 86_400.0
GPUS = 200
PROJECTS = 40
PEOPLE = 120
TYPES = ("t4", "a100")
KINDS = ("training", "trial", "test_run")
BATCH = 20_000
MEMORY = Path("/dev/shm")
REPORTS = (
    ("project",),
    ("person",),
    ("project", "person", "type", "month"),
    ("kind", "week"),
    ("project", "day"),
    ("project", "type", "week"),
    ("person", "day"),
    ("month",),
    (),
)
EVERYTHING = reports.Sight(use=lambda _user, _project: True, quota=lambda _project: True)


def entries(number: int, rng: random.Random) -> Iterator[LedgerEntry]:
    """Yield the entries of as many jobs, which hold the GPUs for most of the year."""
    start = datetime(FIRST.year, 1, 1, tzinfo=UTC).timestamp()
    length = 0.8 * YEAR * GPUS / number
    for job in range(1, number + 1):
        began = start + rng.random() * (YEAR - 86_400)
        person = rng.randrange(PEOPLE)
        gpus = rng.choice((1, 1, 1, 2, 4))
        yield LedgerEntry(
            id=job,
            job=f"job{job:08}",
            attempt=1,
            user=f"person-{person:03}",
            server="",
            project=f"project-{(person + rng.randrange(2)) % PROJECTS:02}",
            kind=rng.choice(KINDS),
            gpu_type=rng.choice(TYPES),
            nodes={f"node-{job % 25:02}": gpus},
            gpus=gpus,
            borrowed=rng.choice((0, 0, gpus)),
            price=1.5,
            start=began,
            end=began + rng.expovariate(gpus / length),
            wait=rng.expovariate(1 / 600),
            ended="succeeded",
        )


def fill(store: Store, number: int) -> None:
    """Write the year, and sum it up as the service does."""
    facts = [replace(each, id=number) for number, each in enumerate(quotas(), 1)]
    store.commit(WriteBatch(ended_facts=facts))
    batch: list[LedgerEntry] = []
    for entry in entries(number, random.Random(36)):
        batch.append(entry)
        if len(batch) == BATCH:
            store.commit(WriteBatch(entries=batch))
            batch = []
    if batch:
        store.commit(WriteBatch(entries=batch))
    while store.read(ledger_writing.has_entries):
        store.write(ledger_writing.add_entries)


def quotas() -> Iterator[EndedFact]:
    """Yield the quotas of projects, which change each month."""
    rng = random.Random(37)
    months = [datetime(FIRST.year + each // 12, each % 12 + 1, 1, tzinfo=UTC).timestamp() for each in range(13)]
    for start, end in pairwise(months):
        for project in range(PROJECTS):
            for gpu_type in TYPES:
                quota = float(rng.choice((0, 2, 2, 4)))
                yield EndedFact(0, FactKind.QUOTA, f"project-{project:02}", gpu_type, quota, start, end)


def scan(store: Store) -> float:
    """Return the GPU-seconds of the project that held most, from the entries alone."""
    table, held = schema.ledger, defaultdict[str, float](float)
    for row in store.read(
        lambda connection: connection.execute(
            select(table.c.project, table.c.gpus, table.c.start, table.c.end, table.c.wait)
        ).all()
    ):
        held[row.project] += row.gpus * (row.end - row.start)
    return max(held.values())


def best(work: Callable[[], object], repeat: int) -> float:
    """Return the best time of a function, in seconds of the one core that it uses."""
    times = []
    for _ in range(repeat):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


@click.command()
@click.option("--jobs", default=300_000, show_default=True, help="Number of jobs in the year.")
@click.option("--repeat", default=3, show_default=True, help="Runs of each report; the fastest counts.")
def main(jobs: int, repeat: int) -> None:
    """Print the time of each report over a year."""
    click.echo(describe())
    now = datetime(LAST.year, LAST.month, LAST.day, tzinfo=UTC).timestamp() + 86_400
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        path = Path(directory) / "year.sqlite"
        store = Store.open(f"sqlite:///{path}", Path(directory))
        began = time.perf_counter()
        fill(store, jobs)
        took = time.perf_counter() - began
        click.echo(f"{jobs:,} jobs; {path.stat().st_size / 2**20:,.0f} MiB; made in {took:.0f} s")
        click.echo(f"{'baseline: scan of all entries':44} {best(lambda: scan(store), repeat):6.2f} s")
        for names in REPORTS:
            by, found = [ReportBy(name) for name in names], []

            def make(by: list[ReportBy] = by, found: list[int] = found) -> None:
                made = store.read(reports.made, by, (FIRST, LAST), now, EVERYTHING)
                found.append(len(made.rows))

            took = best(make, repeat)
            click.echo(f"{'by ' + (', '.join(names) or 'nothing'):44} {took:6.2f} s  {found[0]:6,} rows")
        month = (date(2026, 6, 1), date(2026, 6, 1) + timedelta(days=30))
        hours = [ReportBy.PROJECT, ReportBy.HOUR]
        took = best(lambda: store.read(reports.made, hours, month, now, EVERYTHING), repeat)
        click.echo(f"{'by project, hour (31 days)':44} {took:6.2f} s")
        store.close()


if __name__ == "__main__":
    main()
