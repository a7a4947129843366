"""Every sentence that pages and cards show of a busy pool is true of it, and contradicts no other beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers.told_sentences import Key, facts_of, sentences_in, truth
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.scheduler import sentences, wire
from springtide.scheduler.engine.settings import Retries
from springtide.scheduler.engine.sweeps.controller import trial_name
from springtide.scheduler.engine.sweeps.requests import trial_query
from springtide.scheduler.telemetry import discover

QUOTAS = wire.ProjectEdit(quota={"t4": 2, "a100": 1}, build_quota={"t4": 1})
MACHINE = discover({"t4": 11, "a100": 5}, {"t4": 3, "a100": 1})
STATES = {"queued", "starting", "running", "pausing", "paused", "succeeded", "failed", "cancelled"}
CODES = {
    *("running", "engine-not-launched", "reclaimed", "awaits-pause", "share-used", "over-limit", "beyond-quota"),
    *("sweep", "engine-held", "engine-failed", "engine-succeeded", "engine-cancelled"),
}
"""Reasons that some job of the busy pool has to have: what its sentences are about."""
CASES = {
    "a limit": r"may hold at most 3 t4 GPUs: it holds 1, and the job needs 3\.",
    "a gang": r"Waiting for 4 workers with 2 t4 GPUs each",
    "an elastic job": r"It runs with [12] of at most 3 workers\.",
    "a reservation": r"It has a reservation for 2 GPUs\.",
    "reservations of others": r"Reserved for others: 2 t4 GPUs\.",
    "borrowed GPUs of one type": r"holds \d t4 GPUs: its 2 and \d borrowed\.",
    "borrowed GPUs of the other type": r"holds \d a100 GPUs: its 1 and \d borrowed\.",
    "a quota of one type": r"The quota of “speech” is 2 t4 GPUs",
}
"""What some reason of the busy pool has to say, so that it is among the sentences that are compared with it."""
TOLD_IN_FULL = ("elastic", "ended badly", "lender", "slow to save", "sweep", "tries again")
NONE = "\N{EN DASH}"
LINGER = "trap '' TERM; while [ ! -e {flag} ]; do sleep 0.2; done"


class BusyPool:
    """A service with 12 train GPUs of two types, all of them held, and jobs in all states of three projects."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._done = state / "done"
        self._blocked: Path | None = None
        self.service = Service(state, MACHINE, QUOTAS, Retries(first=3600.0))
        self.jobs: dict[str, wire.Job] = {}
        self.trials: dict[Key, object] = {}
        self.pool: wire.PoolView

    def submit(self, user: str, name: str, *argv: str, until: str = "", **options: object) -> wire.Job:
        options = {"time_limit": 7200, "gpu_types": ["t4"], **options}
        job = self.jobs[name] = self.service.submit(user, *argv, name=name, **options)
        return self.service.until(job.id, lambda job: job.state == until) if until else job

    def fill(self) -> None:
        """Submit jobs until every kind of reason is there, and wait until nothing changes any more."""
        service, engine = self.service, self.service.engine
        self.submit("susan", "ended well", "true", until="succeeded")
        self.submit("susan", "ended badly", "false", until="failed")
        called_off = self.submit("joe", "called off", until="running")
        service.run(engine.cancel(called_off.id, "joe"))
        service.until(called_off.id, lambda job: job.state == "cancelled")
        for name in ("within", "borrower", "lender"):
            self.submit("susan", name, gpus=2, until="running")
        linger = ("sh", "-c", LINGER.format(flag=self._done))
        self.submit("susan", "slow to save", *linger, gpus=2, grace=3000, until="running")
        elastic = self.submit("jemma", "elastic", workers=3, min_workers=1, gpu_types=["a100"])
        service.until(elastic.id, lambda job: len(job.held) == 3)
        sweep = self.submit("susan", "sweep", gpu_types=["a100"], trials=wire.Trials(number=12))
        service.until(sweep.id, lambda job: job.trials is not None and job.trials.running == 1)
        self.submit("joe", "comes back", gpus=2)
        service.until(self.jobs["slow to save"].id, lambda job: job.state == "pausing")
        cannot = self.submit("susan", "cannot begin")
        self._blocked = self._state / "jobs" / cannot.id
        self._blocked.write_text("A file where the job's folder has to be.")
        self.submit("jemma", "firm", priority=100, until="running")
        service.until(
            cannot.id,
            lambda job: job.state == "starting" and getattr(job.reason, "code", "") == "engine-not-launched",
        )
        self.submit("jemma", "firm too", gpus=2, priority=100)
        self.submit("jemma", "above the limit", gpus=4)
        self.submit("jemma", "at the limit", gpus=3)
        self.submit("joe", "gang", gpus=2, workers=4)
        self.submit("joe", "two types", gpus=3, gpu_types=[])
        self.submit("susan", "too wide", gpus=8)
        held = self.submit("susan", "held")
        service.run(engine.pause(held.id, "susan"))
        tries = self.submit("joe", "tries again", "false", gpu_types=["a100"], retries=3)
        service.until(tries.id, lambda job: job.failures == 1)
        service.edit_project("speech", limit={"t4": 3})

    def settle(self) -> None:
        """Read all jobs and the pool, as they are when two looks in a row see the same and no trial starts."""
        before = None
        while (now := self._look()) != before or "starting" in self.trials.values():
            before = now
        self.pool = self.service.engine.pool()

    def _look(self) -> object:
        for name, job in self.jobs.items():
            self.jobs[name] = self.service.run(self.service.engine.job(job.id))
        sweep = self.jobs["sweep"]
        query = trial_query(sweep.id, "trial", "")
        rows = self.service.run(self.service.engine.sweeps.trials(sweep.id, query, None, 100)).items
        self.trials = {("named", trial_name(sweep.name, row.trial), sweep.project): row.state for row in rows}
        jobs = self.jobs.values()
        return self.trials, [(job.state, job.place, job.held, job.reason and job.reason.text) for job in jobs]

    def truth(self) -> dict[Key, object]:
        """Return the facts of the pool, its jobs and the trials of its sweep."""
        return truth(self.pool, self.jobs) | self.trials

    def stop(self) -> None:
        """Let the jobs end that linger or cannot begin, and all others."""
        self._done.touch()
        if self._blocked is not None:
            self._blocked.unlink()
            self.service.until(self.jobs["cannot begin"].id, lambda job: job.state != "starting")
        self.service.stop()


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyPool]:
    busy = BusyPool(tmp_path_factory.mktemp("busy"))
    busy.service.start()
    try:
        busy.fill()
        busy.settle()
        yield busy
    finally:
        busy.stop()


@pytest.fixture(scope="module")
def window(browser: Browser, usual_context: BrowserContext, busy: BusyPool) -> Iterator[Page]:
    windows = Windows(browser, usual_context)
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "admin", "url": busy.service.url}])
    yield page
    windows.close()
    assert not windows.errors


def opened(window: Page, busy: BusyPool, path: str) -> Page:
    window.goto(busy.service.url + path)
    expect(window.locator("#page:not([aria-busy])")).to_be_visible()
    expect(window.get_by_test_id("connection")).to_have_text("Live")
    return window


def check(busy: BusyPool, told: dict[str, str]) -> None:
    """Compare a screen's sentences about jobs, by their ids, with the pool."""
    true = busy.truth()
    jobs = {job.id: job for job in busy.jobs.values()}
    wrong = [
        f"{jobs[job].name}: {sentence} claims {key} is {value}, and it is {true.get(key)}"
        for job, text in told.items()
        for sentence in sentences_in(text)
        for key, value in facts_of(jobs[job], sentence)
        if true.get(key) != value
    ]
    assert not wrong, "\n".join(wrong)


def by_job(rows: Locator, part: str) -> dict[str, str]:
    """Return the text of a part of each row, by the job of the row."""
    texts = rows.evaluate_all(
        "(rows, part) => rows.map((row) => [row.dataset.job,"
        " [...row.querySelectorAll(part)].map((each) => each.textContent)])",
        part,
    )
    return {job: " ".join(words) for job, words in texts}


def test_the_pool_is_busy_in_every_way(busy: BusyPool) -> None:
    assert {job.state for job in busy.jobs.values()} == STATES
    told = {str(job.reason and job.reason.code) for job in busy.jobs.values()}
    assert told >= CODES
    reasons = " ".join(job.reason.text for job in busy.jobs.values() if job.reason)
    assert [case for case, words in CASES.items() if not re.search(words, reasons)] == []
    assert busy.pool.by_type["t4"].train_held == 8
    assert any(job.place == 1 for job in busy.jobs.values())


def test_the_table_of_jobs_tells_what_is_so(window: Page, busy: BusyPool) -> None:
    page = opened(window, busy, "?whose=all&show=all")
    rows = page.get_by_test_id("job-row")
    expect(rows).to_have_count(len(busy.jobs))
    check(busy, by_job(rows, "[data-testid=row-reason]"))
    states = {job: words.lower() for job, words in by_job(rows, "[data-testid=row-state]").items()}
    assert states == {job.id: job.state for job in busy.jobs.values()}
    held = by_job(rows, "[data-label=GPUs]")
    for job in busy.jobs.values():
        if job.held:
            borrowed = sum(gpu.borrowed for gpu in job.held)
            assert held[job.id] == f"{len(job.held)}{f' ({borrowed} borrowed)' if borrowed else ''}"
    for card in page.get_by_test_id("open-card").all():
        card.click()
    cards = page.get_by_test_id("job-card")
    expect(cards).to_have_count(len(busy.jobs))
    headlines = by_job(cards, "[data-testid=job-headline]")
    check(busy, headlines)
    assert not [line for line in headlines.values() if len(line) > sentences.LONGEST_HEADLINE]
    check(busy, by_job(cards, "[data-testid=job-reason]"))
    cells = cards.evaluate_all(
        "(cards) => cards.map((card) => [card.dataset.job,"
        " card.querySelectorAll('[data-testid=held-gpu]').length])"
    )
    true = busy.truth()
    assert dict(cells) == {job: true["held", job] for job, _ in cells}


def test_the_queue_has_every_waiting_job_once_and_in_order(window: Page, busy: BusyPool) -> None:
    page = opened(window, busy, "pool")
    expect(page.get_by_test_id("queue")).to_be_visible()
    rows = page.get_by_test_id("queue-row")
    true = busy.truth()
    waiting = {job.id for job in busy.jobs.values() if true["waits", job.id]}
    reasons = by_job(rows, "[data-label=reason]")
    assert set(reasons) == waiting
    check(busy, reasons)
    expected = by_job(rows, "[data-label=expected]")
    check(busy, {job: words for job, words in expected.items() if words != NONE})
    lines = Counter[tuple[str, str]]()
    jobs = {job.id: job for job in busy.jobs.values()}
    for job, words in by_job(rows, "[data-label=place]").items():
        if words == "reserved":
            assert re.search(r"GPUs? (?:reserved|(?:is|are) being freed)", reasons[job]), reasons[job]
        elif words == NONE:
            assert true["place", job] is None
        else:
            place, _, line = words.partition(" · ")
            assert (int(place), line) == (true["place", job], true["line", job])
            lines[jobs[job].project, words] += 1
    assert max(lines.values()) == 1, lines
    for project in busy.pool.projects:
        head = page.get_by_test_id(f"queue-{project.name}").locator("tr").first
        number = sum(jobs[job].project == project.name for job in waiting)
        expect(head).to_contain_text(f"{number} jobs wait, {project.waiting} more GPUs requested")


def test_the_pool_bar_the_sums_and_the_tables_agree(window: Page, busy: BusyPool) -> None:
    page = opened(window, busy, "pool")
    true = busy.truth()
    section = page.get_by_test_id("section-glance")
    expect(section).to_contain_text("8 of 8 train t4 GPUs held, 4 of 4 train a100 GPUs held, none idle")
    expect(page.get_by_test_id("idle")).to_have_text("No train GPU is idle.")
    cells = Counter(
        (project, held == "borrowed")
        for project, held in page.locator("[data-testid=pool-cell][data-project]").evaluate_all(
            "(cells) => cells.map((cell) => [cell.dataset.project, cell.dataset.held])"
        )
    )
    legend = " ".join(page.locator(".st-legend").first.inner_text().split())
    for project in busy.pool.projects:
        shown = cells[project.name, True] + cells[project.name, False]
        assert cells[project.name, True] == project.borrowed
        assert (
            shown
            == project.held
            == sum(
                len(job.held) or (job.trials.gpus if job.trials else 0)
                for job in busy.jobs.values()
                if job.project == project.name
            )
        )
        assert not shown or re.search(rf"{project.name} {shown}\b", legend)
        for gpu_type in busy.pool.gpu_types:
            row = page.get_by_test_id(f"glance-{project.name}-{gpu_type}")
            for label in ("held", "borrowed", "quota"):
                expect(row.locator(f"[data-label={label}]")).to_have_text(str(true[label, project.name, gpu_type]))
    assert "idle for workspaces 4" in legend
    assert not re.search(r"\bidle \d", legend)
    for row in page.get_by_test_id("holder-row").all():
        words = row.inner_text()
        job = next((job for job in busy.jobs.values() if f"\t{job.name}\t" in words), None)
        if job:
            borrowed = sum(gpu.borrowed for gpu in job.held)
            assert f"{len(job.held)} GPU" in words
            assert (f"{borrowed} borrowed" in words) == bool(borrowed)


def test_the_page_of_a_job_tells_one_story(window: Page, busy: BusyPool) -> None:
    for name in TOLD_IN_FULL:
        job = busy.jobs[name]
        page = opened(window, busy, f"jobs/{job.id}")
        card = page.get_by_test_id("job-card")
        expect(card.get_by_test_id("job-state")).to_have_text(job.state.capitalize())
        check(busy, {job.id: " ".join(card.get_by_test_id("job-headline").all_text_contents())})
        check(busy, {job.id: " ".join(card.get_by_test_id("job-reason").all_text_contents())})
        if job.trials is None:
            attempts = page.get_by_test_id("attempt-row")
            expect(attempts).to_have_count(len(job.attempts))
            events = page.get_by_test_id("events").inner_text()
            for attempt in job.attempts:
                assert f"Attempt {attempt.number} was given {len(attempt.gpus)} GPU" in events
                assert attempt.why is not None
                assert attempt.why.text in " ".join(events.split())
