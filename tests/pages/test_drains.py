"""Draining a node on the page of the pool."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]


def test_an_admin_drains_a_node_with_a_reason_that_everybody_sees_and_undrains_it(
    visit: Visit, service: Service
) -> None:
    running = service.submit("susan", name="training", gpus=2)
    service.until(running.id, lambda job: job.state == "running")
    page = visit("admin", "pool")
    row = page.get_by_test_id("node-row").filter(has_text="train")
    row.get_by_test_id("node-drain").focus()
    page.keyboard.press("Enter")
    expect(row.get_by_test_id("node-question")).to_contain_text(
        "Its jobs are asked to save and run again by themselves"
    )
    page.keyboard.type("A fan is to be replaced.")
    page.keyboard.press("Enter")
    expect(row).to_contain_text("no jobs: drained")
    paused = service.until(running.id, lambda job: job.state == "paused")
    assert paused.reason.code
    other = visit("joe", "pool", color_scheme="dark", apart=True)
    theirs = other.get_by_test_id("node-row").filter(has_text="train")
    expect(theirs).to_contain_text("by admin")
    expect(theirs).to_contain_text("A fan is to be replaced.")
    expect(theirs.get_by_role("button")).to_have_count(0)
    bar = other.get_by_test_id("section-gpus")
    expect(bar).to_contain_text("drained: nothing new starts here")
    expect(bar.locator(".st-legend")).to_contain_text("drained 8")
    expect(bar.get_by_test_id("pool-cell").first).to_have_attribute("data-tip", re.compile("Held by nobody"))
    expect(other.get_by_test_id("section-glance")).to_contain_text("0 of 8 train GPUs held, 8 drained")
    expect(other.get_by_test_id("idle")).to_have_text(
        "No train GPU is idle.8 GPUs are on a node that is drained: train."
    )
    expect(theirs.locator("[data-label=free]")).to_have_text("8 drained")
    expect(other.get_by_test_id("section-holders")).to_contain_text("waits until a node takes jobs again")
    expect(page.get_by_test_id("drain-done")).to_contain_text("Drained the node train.")
    row.get_by_test_id("node-undrain").click()
    expect(row.get_by_test_id("node-drain")).to_be_visible()
    done = page.get_by_test_id("drain-done")
    expect(done).to_contain_text("Undrained the node train.")
    done.get_by_test_id("drain-undo").click()
    expect(done).to_contain_text("Undone: Undrained the node train.")
    expect(row).to_contain_text("A fan is to be replaced.")
    row.get_by_test_id("node-undrain").click()
    expect(row.get_by_test_id("node-drain")).to_be_visible()
    service.until(running.id, lambda job: job.state == "running")


def test_an_admin_drains_a_single_gpu_whose_node_goes_on(visit: Visit, service: Service) -> None:
    page = visit("admin", "pool")
    row = page.get_by_test_id("node-row").filter(has_text="train")
    row.get_by_test_id("node-drain").focus()
    page.keyboard.press("Enter")
    question = row.get_by_test_id("node-question")
    expect(question).to_contain_text("Drain the node train? Nothing new starts there.")
    row.get_by_test_id("node-what").select_option("GPU 3")
    expect(question).to_contain_text("Drain GPU 3 of train? Nothing new starts on it.")
    expect(row.get_by_test_id("node-confirm")).to_have_text("Drain GPU 3")
    row.get_by_test_id("node-why").fill("It is hot.")
    row.get_by_test_id("node-confirm").click()
    told = row.get_by_test_id("gpu-drained-3")
    expect(told).to_contain_text("by admin")
    expect(told).to_contain_text("It is hot.")
    expect(row.get_by_test_id("node-drain")).to_be_visible()
    cells = page.get_by_test_id("section-gpus").get_by_test_id("pool-cell")
    drained = cells.and_(page.locator("[data-gpu='train/3']"))
    expect(drained).to_have_attribute("aria-label", re.compile("Drained by admin: It is hot"))
    expect(page.get_by_test_id("section-gpus")).to_contain_text("drained 1")
    held = service.submit("susan", name="everywhere else", gpus=service.engine.pool().train_gpus)
    service.until(held.id, lambda job: job.state == "queued")
    row.get_by_test_id("gpu-undrain-3").click()
    service.until(held.id, lambda job: job.state == "running")
    expect(row.get_by_test_id("gpu-undrain-3")).to_have_count(0)


def test_a_booked_drain_is_told_with_its_end_on_every_cell_of_the_node(visit: Visit, service: Service) -> None:
    start = time.time() + 2.0
    request = wire.BookingRequest(nodes=("train",), start=start, end=start + 3600.0, why="A fan")
    made = service.run(service.engine.book(request, "admin"))
    try:
        words = re.compile(r"Drained by admin for a booking until .*\d\d:\d\d: A fan")
        page = visit("admin", "pool")
        cell = page.get_by_test_id("section-gpus").locator("[data-gpu='train/3']")
        expect(cell).to_have_attribute("aria-label", words)
        row = page.get_by_test_id("node-row").filter(has_text="train jobs")
        expect(row.get_by_test_id("node-drained")).to_contain_text("by admin for a booking")
        home = visit("admin", "home")
        expect(home.get_by_role("listitem", name=words)).to_be_visible()
    finally:
        service.run(service.engine.cancel_booking(made.booking.number, "admin"))


def test_an_admin_reads_why_a_drain_was_refused_and_can_think_again(visit: Visit, service: Service) -> None:
    page = visit("admin", "pool")
    row = page.get_by_test_id("node-row").filter(has_text="train")
    row.get_by_test_id("node-drain").click()
    row.get_by_role("button", name="Not now").click()
    expect(row.get_by_test_id("node-question")).to_have_count(0)
    page.route("**/nodes/drain", lambda route: route.abort())
    row.get_by_test_id("node-drain").click()
    row.get_by_test_id("node-confirm").click()
    expect(page.locator("#message")).to_contain_text("The pool does not answer.")
    expect(row.get_by_test_id("node-confirm")).to_be_enabled()
    assert service.engine.pool().nodes[0].drain is None
