"""A sweep that a notebook sends: its card in JupyterLab is live and does what its buttons say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from benches.lab_bench import PANEL, Desk, Lab, card, expect_state
from browsers.axe import violations
from playwright.sync_api import expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client, PoolError

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

CELL = """
def train(rate):
    import time
    from springtide.training import current_job
    for step in range(3):
        current_job().report(step=step + 1, of=3, loss=rate / (step + 1))
    if rate == 0.3:
        raise ValueError("no such rate")
    if rate == 0.4:
        time.sleep(600)
    return rate

from springtide.widgets import pool
pool.sweep(train, {"rate": [0.1, 0.2, 0.3, 0.4]}, metric="loss", name="rates")
"""


@pytest.fixture
def susan(service: ServiceProcess) -> Iterator[Client]:
    """Susan; her sweeps are ended afterwards."""
    with Client(service.url, "susan") as susan:
        yield susan
        for job in susan.all_jobs(mine=True, state="queued,starting,running,pausing,cancelling,ending,paused"):
            with suppress(PoolError):
                susan.cancel(job.id)


def test_the_card_of_a_sweep_shows_its_trials_live_pauses_resumes_retries_and_ends_it(
    lab: Lab, desk: Desk, susan: Client
) -> None:
    lab.write("sweep.ipynb", (CELL, None))
    tab = desk("sweep.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.keyboard.press("Shift+Enter")
    sweep = card(tab)
    expect(sweep.get_by_test_id("sweep-standing")).to_contain_text("3 of 4 trials, best 0.1 (trial 0: rate=0.1)")
    rows = sweep.get_by_test_id("trial-row")
    expect(rows).to_have_count(4)
    expect(sweep.locator("[data-trial='2']")).to_have_attribute("data-state", "failed")
    expect(sweep.locator("[data-trial='3']")).to_have_attribute("data-state", "running")
    expect(sweep.get_by_test_id("sweep-scatter")).to_be_visible()
    sweep.get_by_test_id("trial-error").click()
    whole = sweep.get_by_test_id("trial-unfolded")
    expect(whole.get_by_test_id("trial-error-whole")).to_have_text("ValueError: no such rate (In [1], line 7).")
    expect(whole.get_by_test_id("trial-log")).to_contain_text('raise ValueError("no such rate")')
    assert violations(tab, "[data-testid=job-card]") == []
    sweep.get_by_test_id("trial-error").click()
    expect(whole).to_have_count(0)
    sweep.get_by_test_id("trials-search").fill("rate=0.1")
    expect(rows).to_have_count(1)
    sweep.get_by_test_id("trials-search").fill("")

    retried = sweep.locator("[data-trial='2']").get_by_test_id("trial-link")
    sweep.get_by_test_id("job-retry").click()
    expect(retried).to_have_attribute("href", re.compile("/pages/jobs/[a-z0-9]+t2r2$"))
    sweep.get_by_test_id("job-pause").click()
    expect(sweep.get_by_test_id("job-resume")).to_be_visible()
    sweep.get_by_test_id("job-resume").click()
    expect(sweep.locator("[data-trial='3']")).to_have_attribute("data-state", "running")
    sweep.get_by_test_id("job-cancel").click()
    sweep.get_by_test_id("job-confirm").click()
    expect_state(tab, "Cancelled")
    expect(sweep.locator("[data-trial='3']")).to_have_attribute("data-state", "cancelled")
    (ended,) = [job for job in susan.jobs(mine=True, search="rates").items if job.trials]
    assert ended.trials is not None
    assert (ended.trials.succeeded, ended.trials.cancelled) == (2, 1)
