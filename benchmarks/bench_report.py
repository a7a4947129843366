"""Time of reports over a year: 200 GPUs of two types, 40 projects, 300,000 jobs.

    python benchmarks/bench_report.py
    python benchmarks/bench_report.py --jobs 600000 --repeat 5
    python benchmarks/bench_report.py --store /tmp/year      # a year that is elsewhere, or is made there

The store has the entries of the year, and their sums by the code of the service; it is made once and kept in the
cache. Each report by one or two columns, and some by more, is made from it by the function that the service runs
for ``GET /report``, and takes the best time of ``--repeat``, in seconds of one core; so do the formats of the
largest one. The baseline is a scan of the same entries without sums: what a report by project would take that
computed from the jobs. Each row ends with how many times as long it took.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import click
import msgspec
from kept_years import kept_year
from machine import describe
from sqlalchemy import select

from springtide.scheduler.engine import reports
from springtide.scheduler.store import Store, ledger_writing, schema
from springtide.scheduler.store.ledger import EndedFact, FactKind, LedgerEntry
from springtide.scheduler.store.records import WriteBatch
from springtide.scheduler.wire import Report, ReportBy
from springtide.scheduler.wire.report_parquet import report_parquet
from springtide.scheduler.wire.reports import report_csv

FIRST, LAST = date(2026, 1, 1), date(2026, 12, 31)
BEGIN = datetime(FIRST.year, 1, 1, tzinfo=UTC).timestamp()
YEAR = 365 * 86_400.0
GPUS = 200
PROJECTS = 40
PEOPLE = 120
TYPES = ("t4", "a100")
KINDS = ("training", "trial", "test_run")
BATCH = 20_000
FILE = "springtide.sqlite"
COLUMNS = tuple(by for by in ReportBy if by is not ReportBy.HOUR)
REPORTS: tuple[tuple[ReportBy, ...], ...] = (
    (),
    *((by,) for by in COLUMNS),
    *combinations(COLUMNS, 2),
    (ReportBy.PROJECT, ReportBy.TYPE, ReportBy.WEEK),
    (ReportBy.PROJECT, ReportBy.PERSON, ReportBy.TYPE, ReportBy.KIND, ReportBy.MONTH),
    (ReportBy.HOUR,),
    *((by, ReportBy.HOUR) for by in (ReportBy.PROJECT, ReportBy.PERSON, ReportBy.TYPE, ReportBy.KIND)),
)
MONTH = date(2026, 6, 1), date(2026, 7, 1)
"""The days of reports by hour, which have at most 31."""
LARGEST = ReportBy.PERSON, ReportBy.DAY
FORMATS: dict[str, Callable[[Report], object]] = {
    "JSON": msgspec.json.encode,
    "CSV": report_csv,
    "Parquet": report_parquet,
}
EVERYTHING = reports.Sight(use=lambda _user, _project: True, quota=lambda _project: True)


def entries(number: int, rng: random.Random) -> list[LedgerEntry]:
    """Return the entries of as many jobs, which hold the GPUs for most of the year, in the order of their ends."""
    found = sorted((_entry(job, number, rng) for job in range(number)), key=lambda entry: entry.end)
    return [replace(entry, id=at) for at, entry in enumerate(found, 1)]


def _entry(job: int, number: int, rng: random.Random) -> LedgerEntry:
    began = BEGIN + rng.random() * (YEAR - 86_400)
    person = rng.randrange(PEOPLE)
    gpus = rng.choice((1, 1, 1, 2, 4))
    return LedgerEntry(
        id=0,
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
        end=began + rng.expovariate(gpus * number / (0.8 * YEAR * GPUS)),
        wait=rng.expovariate(1 / 600),
        ended="succeeded",
    )


def fill(store: Store, number: int, begin: float = BEGIN) -> list[LedgerEntry]:
    """Write a year from ``begin`` on, sum it up as the service does, and return its entries."""
    later = begin - BEGIN
    facts = [
        replace(each, id=number, start=each.start + later, end=each.end + later)
        for number, each in enumerate(quotas(), 1)
    ]
    store.commit(WriteBatch(ended_facts=facts))
    made = [
        replace(each, start=each.start + later, end=each.end + later)
        for each in entries(number, random.Random(36))
    ]
    for first in range(0, number, BATCH):
        store.commit(WriteBatch(entries=made[first : first + BATCH]))
    while store.read(ledger_writing.has_entries):
        store.write(ledger_writing.add_entries)
    return made


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
@click.option("--store", "kept", type=click.Path(path_type=Path), help="A folder that keeps the year.")
def main(jobs: int, repeat: int, kept: Path | None) -> None:
    """Print the time of each report over a year."""
    click.echo(describe())
    folder = kept or kept_year("year-reports", jobs, [__file__], lambda made: make(made, jobs))
    if not (folder / FILE).exists():
        make(folder, jobs)
    store = opened(folder)
    click.echo(f"{jobs:,} jobs; {(folder / FILE).stat().st_size / 2**20:,.0f} MiB")
    baseline = best(lambda: scan(store), repeat)
    click.echo(f"{'baseline: scan of all entries':44} {baseline:6.2f} s")
    tell_reports(store, repeat, baseline)
    store.close()


def make(folder: Path, jobs: int) -> None:
    """Make the store of a year in a folder, with as many jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    store = opened(folder)
    fill(store, jobs)
    store.close()


def opened(folder: Path) -> Store:
    """Return the open store of a folder; the caller closes it."""
    return Store.open(f"sqlite:///{folder / FILE}", folder)


def tell_reports(store: Store, repeat: int, baseline: float) -> None:
    """Print the time of each report, of the slowest, and of the formats of the largest; times in seconds."""
    now = datetime(LAST.year, LAST.month, LAST.day, tzinfo=UTC).timestamp() + 86_400

    def made(by: tuple[ReportBy, ...]) -> Report:
        days = MONTH if ReportBy.HOUR in by else (FIRST, LAST)
        return store.read(reports.made, by, days, now, EVERYTHING)

    def keep(by: tuple[ReportBy, ...], found: list[Report]) -> None:
        found.append(made(by))

    slowest = 0.0, ""
    for by in REPORTS:
        found: list[Report] = []
        took = best(partial(keep, by, found), repeat)
        name = f"by {', '.join(by) or 'nothing'}"
        slowest = max(slowest, (took, name))
        click.echo(f"{name:44} {took:6.2f} s  {took / baseline:5.2f} x baseline  {len(found[0].rows):6,} rows")
    click.echo(f"{'slowest: ' + slowest[1]:44} {slowest[0]:6.2f} s")
    largest = made(LARGEST)
    for name, written in FORMATS.items():
        took = best(partial(written, largest), repeat)
        click.echo(f"{name + ' of ' + ', '.join(LARGEST):44} {took:6.2f} s")


if __name__ == "__main__":
    main()
