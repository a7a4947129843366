"""The use of held GPUs: on cards, on a job's page, on the pool's page."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from patience import PATIENCE_S
from playwright.sync_api import Page, expect
from pools.pages_service import Service

Visit = Callable[..., Page]
SECTIONS = ["bar", "cards"]
REPORTING = """
import time
from springtide.training import current_job
for step in range(3):
    current_job().report(step=step, of=3, loss=1 / (1 + step))
time.sleep(600)
"""


def draw_card(gallery: Page, usage: dict[str, Any] | None) -> None:
    gallery.evaluate(
        """(usage) => {
            const place = document.createElement("article");
            place.id = "own";
            document.body.append(place);
            const { NOW, job } = gallery;
            gallery.renderJobCard(place, { job: job({ usage }), now: NOW, points: [], log: "" });
        }""",
        usage,
    )


def test_a_card_shows_the_use_of_gpus_and_of_their_memory_beside_the_loss(gallery: Page) -> None:
    row = gallery.locator("#card-running").get_by_test_id("job-use")
    expect(row).to_contain_text("87 %")
    expect(row).to_contain_text("51 GiB")
    meter = row.get_by_role("meter", name="GPUs used (simulated)")
    expect(meter).to_have_attribute("aria-valuenow", "87")
    draw_card(gallery, None)
    expect(gallery.locator("#own").get_by_test_id("job-use")).to_have_count(0)


def test_a_card_shows_no_bar_for_what_gpus_do_not_report(gallery: Page) -> None:
    real = {"utilization": None, "memory_used": 3 << 30, "memory_total": 80 << 30, "simulated": False}
    draw_card(gallery, {"at": 0, "gpus": 1, **real})
    row = gallery.locator("#own").get_by_test_id("job-use")
    expect(row).to_contain_text("3 GiB of 80 GiB")
    expect(row.locator("strong").first).to_have_text("\N{EN DASH}")
    expect(row.get_by_role("meter")).to_have_count(1)
    expect(row).not_to_contain_text("simulated")


def test_held_cells_of_the_pool_show_how_much_of_them_is_used(gallery: Page) -> None:
    cells = gallery.locator("#bar [data-gpu^='train/']")
    expect(cells.get_by_test_id("cell-use")).to_have_count(6)
    cells.first.focus()
    expect(gallery.locator("[role=tooltip]")).to_contain_text("97 % used, 12 GiB of memory (simulated)")


def test_pages_show_use_within_what_is_held_and_say_what_is_not_used(visit: Visit, service: Service) -> None:
    job = service.submit("susan", sys.executable, "-c", REPORTING, name="digits", gpus=4)
    service.until(job.id, lambda job: job.state == "running")
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    first = int(time.time()) // 10 * 10 - 10
    for interval in (first, first + 10):
        service.run(service.engine.usage.sample(interval))
    expect(page.get_by_test_id("job-use")).to_contain_text("GPUs used")
    charts = page.get_by_test_id("use-chart")
    expect(charts.last).to_contain_text("GPU memory (MiB, simulated)")
    expect(charts.last).to_contain_text("time since the start")
    pool = visit("susan", "pool")
    expect(pool.get_by_test_id("pool-used")).to_contain_text("4 train GPUs held")
    expect(pool.get_by_test_id("pool-used")).to_contain_text("(simulated)")
    expect(pool.get_by_test_id("holder-used").first).to_contain_text("%")
    pool.close()
    service.run(unused(service, job.id))
    sentence = page.get_by_test_id("job-reason").first
    expect(sentence).to_contain_text("% used for 11 min")


async def unused(service: Service, job: str) -> None:
    """Sample until ten minutes in a row have been measured in which the job computed nothing.

    The service measures the present beside this every ten seconds, and in the middle of it interrupts the row.
    """
    usage = service.engine.usage
    async with asyncio.timeout(PATIENCE_S):
        while "% used for 11 min" not in (await service.engine.job(job)).reason.text:
            now = int(time.time()) // 10 * 10
            for interval in range(now - 660, now, 10):
                await usage.sample(interval)
