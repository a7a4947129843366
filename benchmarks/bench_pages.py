"""The page of jobs with 10,000 of them: ``python benchmarks/bench_pages.py``.

A click is a request for a page of the list and its answer, over HTTP on this machine: to sort, filter, search
or turn the page. A change is a job that its user pauses while it waits: from its commit in the service to its
row in a real browser. The baseline is the smallest answer of the same service, who one is; each row ends with
how many times as long it took.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
from machine import describe, percentile

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from browsers.browser import running_browser
from pools.pages_service import PERSON, Service

from springtide.scheduler.engine import JobFilter
from springtide.scheduler.model import FINAL, JobState
from springtide.scheduler.store import Store
from springtide.scheduler.store.records import JobRecord, JobSpec, JobStanding, WriteBatch
from springtide.scheduler.wire import JobOptions

JOBS = 10_000
WAITING = 2_000
ROUNDS = 20
CHANGES = 15
PEOPLE = [("susan", "vision"), ("joe", "nlp"), ("jemma", "speech")]
MOST_CLICK_MS = 100.0
MOST_CHANGE_MS = 300.0
LONGEST_CHANGE_MS = 30_000
CLICKS: dict[str, dict[str, str | float]] = {
    "first page": {"order": "running", "state": "queued,starting,running,pausing,cancelling,ending,paused"},
    "all jobs": {"order": "running"},
    "newest": {"order": "newest"},
    "by name": {"order": "name"},
    "by GPUs": {"order": "-gpus"},
    "by person": {"order": "user", "state": "succeeded,failed,cancelled"},
    "search": {"order": "running", "search": "sweep 77"},
    "project, last day": {"order": "running", "project": "nlp", "since": time.time() - 86_400},
    "mine": {"order": "running", "mine": "1"},
}


def fill(store: Store) -> None:
    """Write the jobs: the first ones have ended, the last ones wait."""
    now = time.time()
    records = []
    for number in range(1, JOBS + 1):
        user, project = PEOPLE[number % len(PEOPLE)]
        spec = JobSpec(
            id=f"bench{number:07}",
            seq=number,
            user=user,
            project=project,
            submitted=now - 10 * (JOBS - number),
            name=f"sweep {number}",
            kind="function",
            argv=("python", "-c", "import time; time.sleep(3600)"),
            source="def train(lr):\n    ...\n" * 40,
            options=JobOptions(gpus=1 + number % 4),
        )
        ended = number <= JOBS - WAITING
        state = JobState.SUCCEEDED if ended else JobState.QUEUED
        records.append(JobRecord(spec, JobStanding(state=state, ended=spec.submitted + 5 if ended else None)))
    for first in range(0, JOBS, 1_000):
        store.commit(WriteBatch(new_jobs=records[first : first + 1_000]))


def tell(name: str, times: list[float], baseline: float) -> float:
    """Print a row, times in milliseconds, and return the 95th percentile."""
    median, most = statistics.median(times), percentile(times, 0.95)
    print(f"{name:<20} median {median:6.1f} ms   95 % {most:6.1f} ms   {median / baseline:5.1f} x baseline")
    return most


def judge(what: str, most: float, allowed: float) -> None:
    """Print whether a 95th percentile is within its limit, both in milliseconds."""
    print(f"{what}: 95 % in {most:.0f} ms, {'within' if most <= allowed else 'NOT within'} {allowed:.0f} ms")


def clicks(service: Service) -> float:
    """Print how long answers to clicks take, and to a turn of the page after each; return the baseline in ms."""
    with httpx.Client(cookies={PERSON: "admin"}, trust_env=False) as client:
        page = client.get(service.url, headers={"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})
        headers = {"X-XSRFToken": page.text.partition('data-xsrf="')[2].partition('"')[0]}

        def ask(path: str, params: Mapping[str, str | float]) -> tuple[float, httpx.Response]:
            began = time.perf_counter()
            answer = client.get(f"{service.url}api/v1/{path}", params=params, headers=headers)
            took = time.perf_counter() - began
            return 1000 * took, answer.raise_for_status()

        def click(params: Mapping[str, str | float]) -> tuple[float, str | None]:
            took, answer = ask("jobs", params)
            return took, answer.json()["next"]

        smallest = [ask("me", {})[0] for _ in range(ROUNDS)]
        baseline = statistics.median(smallest)
        tell("baseline", smallest, baseline)
        slowest = 0.0
        for name, chosen in CLICKS.items():
            params = {**chosen, "limit": 50, "starts": 0}
            cursor = click(params)[1]
            times = [click(params)[0] for _ in range(ROUNDS)]
            if cursor:
                times += [click({**params, "cursor": cursor})[0] for _ in range(ROUNDS)]
            slowest = max(slowest, tell(name, times, baseline))
    judge("slowest click", slowest, MOST_CLICK_MS)
    return baseline


def changes(service: Service, baseline: float) -> None:
    """Print how long it takes from a change in the service to the screen."""
    with running_browser() as browser:
        page = browser.new_page()
        page.context.add_cookies([{"name": PERSON, "value": "admin", "url": service.url}])
        page.goto(f"{service.url}?whose=all")
        page.locator("[data-connection=live]").wait_for()
        jobs = page.get_by_test_id("job-row").evaluate_all("(rows) => rows.map((row) => row.dataset.job)")
        chosen = [job for job in jobs if service.run(service.engine.job(job)).state == "queued"][:CHANGES]
        times = []
        for job in chosen:
            page.evaluate(
                """([job, longest]) => { window.seen = new Promise((done, fail) => {
                    const row = document.querySelector(`[data-testid=job-row][data-job=${job}]`);
                    const reason = row.querySelector("[data-testid=row-reason]");
                    const look = () => reason.textContent.includes("paused by") && done(Date.now());
                    const all = { subtree: true, childList: true, characterData: true };
                    new MutationObserver(look).observe(row, all);
                    setTimeout(() => fail(new Error(`not seen: ${reason.textContent}`)), longest);
                }); }""",
                [job, LONGEST_CHANGE_MS],
            )
            service.run(service.engine.pause(job, "admin"))
            committed = time.time()
            times.append(page.evaluate("window.seen") - 1000 * committed)
    judge("change on screen", tell("change on screen", times, baseline), MOST_CHANGE_MS)


def end(service: Service) -> None:
    """Cancel all jobs, many at a time."""
    unfinished = JobFilter(states=frozenset(set(JobState) - FINAL))

    async def cancel() -> bool:
        found = (await service.engine.jobs(unfinished, None, 500)).items
        cancelled = (service.engine.cancel(job.id, "benchmark") for job in found)
        await asyncio.gather(*cancelled, return_exceptions=True)
        return bool(found)

    while service.run(cancel()):
        time.sleep(0.1)


def main() -> None:
    """Run both measurements and print them."""
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        store = Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state)
        fill(store)
        store.close()
        service = Service(state)
        service.start()
        try:
            print(f"{JOBS:,} jobs, {WAITING:,} of them wait; 50 rows a page")
            changes(service, clicks(service))
        finally:
            end(service)
            service.stop()


if __name__ == "__main__":
    main()
