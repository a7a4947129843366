"""Pages over a year of data: ``python benchmarks/bench_year_pages.py``.

The year is that of ``bench_report.py``, up to now, in a service with real pages and simulated GPUs: 300,000 ended
jobs of 120 people in 40 projects with their attempts and sums, 20,000 entries of the audit trail, and 300 jobs
that wait. It is kept in the cache and made anew each month; ``--state`` names a folder of its own. A page has come
when the answers to all its calls are drawn in a real browser, *What if* when it shows how far the calculation is
that it begins over the last 30 days. Each row has the wall time, the processor time of the service, the wall time
as a multiple of the baseline, the time of a print, and the slowest call: the fastest of ``--repeat``. The baseline
is the page *Notifications*, which shows nothing of the year.
"""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import bench_report
import click
from kept_years import kept_year
from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from bench_pages import end
from browsers.browser import running_browser
from playwright.sync_api import Browser, Page, Request
from pools.pages_service import PERSON, PREFIX, WIDE, WITHOUT_SHARED_WORKERS, Service

from springtide.scheduler.model import JobState, Reason, Worker
from springtide.scheduler.store.ledger import LedgerEntry
from springtide.scheduler.store.records import (
    AttemptRecord,
    AttemptState,
    AuditRecord,
    JobRecord,
    JobSpec,
    JobStanding,
    WriteBatch,
)
from springtide.scheduler.telemetry import discover
from springtide.scheduler.wire import JobOptions, ProjectEdit

DAY = 86_400.0
WAITING = 300
AUDIT = 20_000
BATCH = 5_000
MOST_S = 2.0
QUIET_MS = 300
"""The time without a call after which a page has come; it does not count."""
LONGEST_MS = 120_000
JOB = 200_000
"""The number of the job whose page is opened."""
DRAWN = """
    const look = () => (window.drawn = Date.now());
    new MutationObserver(look).observe(document, { subtree: true, childList: true });
"""
ADMIN, BUSY = "admin", "person-003"
YEAR = "report?period=own&start={first}&end={last}&by="
PAGES = {
    "baseline: notifications": (ADMIN, "notifications"),
    "home, with calendar": (ADMIN, "home"),
    "jobs of all": (ADMIN, "jobs?whose=all"),
    "ended jobs of a project": (ADMIN, "jobs?whose=all&project=project-07&state=succeeded"),
    "My jobs, of many": (BUSY, "jobs"),
    "my ended jobs": (BUSY, "jobs?state=succeeded"),
    "a job": (BUSY, "jobs/{job}"),
    "pool": (ADMIN, "pool"),
    "people, quotas, audit": (ADMIN, "admin"),
    "what-if": (ADMIN, "what-if"),
    "report of a month": (ADMIN, "report"),
    "report of a year": (ADMIN, YEAR + "project"),
    "report, project and month": (ADMIN, YEAR + "project,month"),
    "report, project and day": (ADMIN, YEAR + "project,day"),
    "report, person and day": (ADMIN, YEAR + "person,day"),
    "report of a person": (BUSY, YEAR + "project,day"),
}


class Cost(NamedTuple):
    """The cost of a page, in seconds: until it has come, of the service's processor, and of its slowest call."""

    wall: float
    cpu: float
    call: float
    path: str


def people() -> dict[str, list[str]]:
    """Return the members of projects: each person of the year is in two."""
    groups: dict[str, list[str]] = {f"project-{number:02}": [] for number in range(bench_report.PROJECTS)}
    for person in range(bench_report.PEOPLE):
        for project in (person, person + 1):
            groups[f"project-{project % bench_report.PROJECTS:02}"].append(f"person-{person:03}")
    return groups


def fill(state: Path, number: int, now: float) -> None:
    """Write the year up to ``now``: its ledger, its jobs with their attempts, and its audit trail."""
    state.mkdir(parents=True, exist_ok=True)
    store = bench_report.opened(state)
    made = bench_report.fill(store, number, now - bench_report.YEAR)
    for first in range(0, number, BATCH):
        part = made[first : first + BATCH]
        store.commit(
            WriteBatch(
                new_jobs=[_job(entry) for entry in part],
                new_attempts=[_attempt(entry) for entry in part],
            )
        )
    rng = random.Random(38)
    waiting = [
        _waiting(number + at, now - rng.random() * DAY, rng.randrange(bench_report.PEOPLE))
        for at in range(1, WAITING + 1)
    ]
    store.commit(WriteBatch(new_jobs=waiting, audit=list(_audit(now, rng))))
    store.close()


def _job(entry: LedgerEntry) -> JobRecord:
    spec = _spec(entry.id, entry.user, entry.project, entry.start - (entry.wait or 0.0), entry.gpus)
    standing = JobStanding(
        state=JobState.SUCCEEDED, attempt=1, started=entry.start, ended=entry.end, ran=entry.end - entry.start
    )
    return JobRecord(spec, standing)


def _spec(number: int, user: str, project: str, submitted: float, gpus: int) -> JobSpec:
    return JobSpec(
        id=f"job{number:08}",
        seq=number,
        user=user,
        project=project,
        submitted=submitted,
        name=f"sweep {number % 5_000}",
        kind="command",
        argv=("python", "train.py", f"--seed={number}"),
        source="",
        options=JobOptions(gpus=gpus),
    )


def _attempt(entry: LedgerEntry) -> AttemptRecord:
    node = next(iter(entry.nodes))
    return AttemptRecord(
        job=f"job{entry.id:08}",
        number=1,
        placement=(Worker(0, node, tuple(range(entry.gpus))),),
        created=entry.start,
        why=Reason("guaranteed"),
        state=AttemptState.SUCCEEDED,
        seen=True,
        started=entry.start,
        ended=entry.end,
        exit_code=0,
        gpu_type=entry.gpu_type,
    )


def _waiting(number: int, submitted: float, person: int) -> JobRecord:
    spec = _spec(number, f"person-{person:03}", f"project-{person % bench_report.PROJECTS:02}", submitted, 1)
    return JobRecord(spec, JobStanding(state=JobState.QUEUED, held=True, by=spec.user))


def _audit(now: float, rng: random.Random) -> Iterator[AuditRecord]:
    """Yield entries over the year: quotas that were changed, and holds of jobs."""
    for number in range(1, AUDIT + 1):
        at, project = now - bench_report.YEAR * (1 - number / AUDIT), f"project-{rng.randrange(40):02}"
        if rng.random() < 0.5:
            before, after = {"quota": rng.randrange(8)}, {"quota": rng.randrange(8)}
            yield AuditRecord(number, at, ADMIN, "project.edit", project, before, after, project=project)
        else:
            job = f"job{rng.randrange(300_000):08}"
            yield AuditRecord(number, at, ADMIN, "job.hold", job, {}, {"why": "A demo."}, project=project)


class Calls:
    """The calls of a page to the API: how many are under way, and how long each took."""

    def __init__(self, page: Page) -> None:
        self.took: defaultdict[str, float] = defaultdict(float)
        self.ended = 0.0
        self._begun: dict[Request, float] = {}
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)

    def _begin(self, request: Request) -> None:
        if f"{PREFIX}api/" in request.url and "/events" not in request.url:
            self._begun[request] = time.time()

    def _end(self, request: Request) -> None:
        begun = self._begun.pop(request, None)
        if begun is not None:
            self.ended = time.time()
            address = urlsplit(request.url)
            name = f"{address.path.partition('api/v1/')[2]}?{address.query}"[:60]
            self.took[name] = max(self.took[name], self.ended - begun)

    def settle(self, page: Page) -> None:
        """Wait until no call is under way, and none has been for `QUIET_MS`."""
        page.wait_for_timeout(QUIET_MS)
        while self._begun or time.time() - self.ended < QUIET_MS / 1000:
            page.wait_for_timeout(20)


def measured(page: Page, work: Callable[[], object]) -> Cost:
    """Return what it costs until a page has come after some work."""
    calls = Calls(page)
    wall, cpu = time.time(), time.process_time()
    work()
    done = time.time()
    calls.settle(page)
    drawn = page.evaluate("new Promise((done) => requestAnimationFrame(() => done(window.drawn)))")
    spent = time.process_time() - cpu
    path, call = max(calls.took.items(), key=lambda item: item[1], default=("", 0.0))
    return Cost(max(drawn / 1000, calls.ended, done) - wall, spent, call, path)


def cost(service: Service, browser: Browser, who: str, address: str) -> list[Cost]:
    """Return what it costs to open a page in a new window, and to print it."""
    context = browser.new_context(viewport=WIDE)
    try:
        context.add_init_script(WITHOUT_SHARED_WORKERS)
        context.add_init_script(DRAWN)
        context.add_cookies([{"name": PERSON, "value": who, "url": service.url}])
        page = context.new_page()
        page.set_default_timeout(LONGEST_MS)
        return [measured(page, partial(page.goto, service.url + address)), measured(page, page.pdf)]
    finally:
        context.close()


def tell(service: Service, repeat: int, only: str) -> None:
    """Print a row for each page whose name has a word."""
    today = datetime.now(UTC).date()
    names = {"first": today - timedelta(days=364), "last": today, "job": f"job{JOB:08}"}
    baseline, slow = 0.0, []
    print(f"{'page':28} {'s':>6} {'CPU s':>6} {'x base':>6} {'print':>6}  slowest call")
    with running_browser() as browser:
        for name, (who, address) in PAGES.items():
            if baseline and only not in name:
                continue
            runs = [cost(service, browser, who, address.format(**names)) for _ in range(repeat)]
            opened, printed = (min(each) for each in zip(*runs, strict=True))
            baseline = baseline or opened.wall
            if opened.wall > MOST_S:
                slow.append(name)
            print(
                f"{name:28} {opened.wall:6.2f} {opened.cpu:6.2f} {opened.wall / baseline:6.1f} {printed.wall:6.2f}"
                f"  {opened.call:.2f} {opened.path}",
                flush=True,
            )
    print(f"slower than {MOST_S:.0f} s: {', '.join(slow) or 'none'}")


@click.command()
@click.option("--jobs", default=300_000, show_default=True, help="Number of jobs in the year.")
@click.option("--repeat", default=3, show_default=True, help="Times that each page is opened; the fastest counts.")
@click.option("--only", default="", help="A word of the names of pages; others are left out.")
@click.option("--state", "kept", type=click.Path(path_type=Path), help="A folder that keeps the year.")
def main(jobs: int, repeat: int, only: str, kept: Path | None) -> None:
    """Print what each page costs over a year."""
    print(describe())
    sources = [__file__, bench_report.__file__]
    recipe = jobs, f"{datetime.now(UTC):%Y-%m}"  # so that the year ends in this month
    state = kept or kept_year("year-pages", recipe, sources, lambda made: fill(made, jobs, time.time()))
    if not (state / bench_report.FILE).exists():
        fill(state, jobs, time.time())
    service = Service(
        state, discover({"t4": 100, "a100": 100}, 8), ProjectEdit(quota={"t4": 2, "a100": 2}), keep_days=400
    )
    service.people.groups = people()
    began = time.process_time()
    service.start()
    try:
        print(f"{jobs:,} jobs; started in {time.process_time() - began:.1f} s of processor time")
        tell(service, repeat, only)
    finally:
        end(service)
        service.stop()


if __name__ == "__main__":
    main()
