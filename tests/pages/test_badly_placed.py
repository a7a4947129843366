"""A job that sits where jobs like it were slower says so on its card and on its page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler.engine.placements.speed import STEPS, Placed, Speed, Work
from springtide.scheduler.engine.state import pace
from springtide.scheduler.model import Spread

Visit = Callable[..., Page]
REPORTING = """
import time
from springtide.training import current_job
current_job().report(step=1, of=100_000)
time.sleep(2)
current_job().report(step=2, of=100_000)
time.sleep(600)
"""
TOLD = "It runs on one node: jobs like it were 1.7 times as fast in one GPU link island (3 runs there against 4"


def test_a_job_that_sits_badly_says_what_that_costs(
    visit: Visit, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "SETTLED", 1.0)
    work = Work("vision", "susan", "train")
    gpu_type = service.engine.gpu_types()[0]
    for level, speed, runs in (("island", 1.7, 3), ("node", 1.0, 4)):
        for _ in range(runs):
            placed = Placed(gpu_type, 2, 1, Spread(level, 1))
            service.engine.questions.placements.stats.add(work, placed, Speed(STEPS, speed, 100_000))
    job = service.submit("susan", sys.executable, "-c", REPORTING, name="train", workers=2)
    service.until(job.id, lambda job: "longer here" in getattr(job.reason, "text", ""))
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_test_id("job-reason").first).to_contain_text(TOLD)
    expect(page.get_by_test_id("job-reason").first).to_contain_text("The rest of its work takes about")
    jobs = visit("susan", "")
    expect(jobs.get_by_test_id("row-reason").first).to_have_attribute("data-tip", re.compile(re.escape(TOLD)))
