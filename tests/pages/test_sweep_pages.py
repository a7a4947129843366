"""A sweep on the pages of the real service: its card, its trials, and its row in lists."""

from __future__ import annotations

from collections.abc import Callable

from browsers.axe import violations_in_all_states
from hostile.hostile_text import HOSTILE, MARKUP, expect_only_text
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire
from springtide.scheduler.arguments import Parameter

Visit = Callable[..., Page]

TRIAL = """
import json, os, sys, time
trial = int(os.environ["SPRINGTIDE_TRIAL"])
curve = []
for step in range(1, 4):
    loss = (trial + 1) / 10 / step
    curve.append([step, loss])
    line = {"at": time.time(), "step": step, "of": 3, "values": {"loss": loss}}
    line["trial"] = {"value": loss, "curve": curve}
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps(line) + "\\n")
if trial == 2:
    sys.exit("no such layer")
if trial == 3:
    time.sleep(600)
"""
PARAMETERS: list[dict[str, Parameter]] = [
    {"lr": 10.0**-number, "depth": number, "kind": "a" if number % 2 else "b"} for number in range(4)
]


def submit_sweep(service: Service) -> wire.Job:
    """Submit four trials: two that succeed, one that fails and one that runs until it is asked to stop."""
    trials = wire.Trials(number=4, at_least=4, metric="loss", parameters=PARAMETERS)
    return service.submit("susan", "python3", "-c", TRIAL, name="rates", trials=trials)


def ended(job: wire.Job) -> bool:
    """Whether all trials but the running one have ended."""
    return job.trials is not None and job.trials.succeeded == 2 and job.trials.failed == 1


def test_the_page_of_a_sweep_shows_its_trials_live_and_links_to_them(visit: Visit, service: Service) -> None:
    sweep = submit_sweep(service)
    page = visit("susan", f"jobs/{sweep.id}")
    card = page.get_by_test_id("job-card")
    expect(card.get_by_test_id("sweep-standing")).to_have_text(
        "3 of 4 trials, best 0.03333 (trial 0: lr=1, depth=0, kind=b)"
    )
    expect(card.get_by_test_id("count-running")).to_have_text("1 running")
    expect(card.locator("[data-trial='2']")).to_have_attribute("data-state", "failed")
    expect(card.locator("[data-trial='3']")).to_have_attribute("data-state", "running")
    expect(card.get_by_test_id("sweep-gpus")).to_contain_text("1 GPU within quota")
    expect(card.get_by_test_id("sweep-parallel")).to_be_visible()
    expect(page.get_by_test_id("section-facts").locator("dt", has_text="Last saved")).to_have_count(0)
    table, compare = page.locator(".st-trials-scroll"), page.get_by_test_id("trials-compare")
    below, after = table.bounding_box(), compare.bounding_box()
    assert below is not None
    assert after is not None
    assert after["y"] >= below["y"] + below["height"]
    assert violations_in_all_states(page) == []
    card.locator("[data-trial='2']").get_by_test_id("trial-link").click()
    expect(page.locator("h1")).to_have_text("rates #2")
    expect(page.get_by_test_id("job-trial")).to_contain_text("trial 2: lr=0.01, depth=2")
    page.get_by_test_id("sweep-link").click()
    expect(page.locator("h1")).to_have_text("rates")
    page.get_by_test_id("trials-compare").click()
    expect(page.locator("h1")).to_have_text("Comparison of 4 jobs")
    depths = page.get_by_test_id("difference").filter(has=page.get_by_role("rowheader", name="depth"))
    expect(depths.get_by_role("cell")).to_have_text(["0", "1", "2", "3"])


def test_who_holds_what_has_one_line_for_a_sweep(visit: Visit, service: Service) -> None:
    trials = wire.Trials(number=6, at_least=6, parameters=[{"lr": number} for number in range(6)])
    sweep = service.submit("susan", "sleep", "600", name="rates", trials=trials)
    service.submit("susan", "sleep", "600", name="alone")
    pool = visit("susan", "pool")
    rows = pool.get_by_test_id("holder-row")
    expect(rows).to_have_count(2)
    expect(rows.first.get_by_test_id("holder-what")).to_have_text("rates, 6 trials")
    expect(rows.first.get_by_role("link")).to_have_attribute("href", f"/services/springtide/jobs/{sweep.id}")
    expect(rows.first.get_by_test_id("holder-gpus")).to_have_text("6 GPUs, 4 borrowed, simulated")
    stranger = visit("joe", "pool").get_by_test_id("holder-row")
    expect(stranger).to_have_count(1)
    expect(stranger).to_contain_text("a job of another project")


def test_failed_trials_are_retried_and_the_rest_is_cancelled_on_the_page(visit: Visit, service: Service) -> None:
    sweep = submit_sweep(service)
    service.until(sweep.id, ended)
    page = visit("susan", f"jobs/{sweep.id}")
    card = page.get_by_test_id("job-card")
    card.get_by_test_id("job-retry").click()
    link = card.locator("[data-trial='2']").get_by_test_id("trial-link")
    expect(link).to_have_attribute("href", f"/services/springtide/jobs/{sweep.id}t2r2")
    expect(card.locator("[data-trial='2']")).to_have_attribute("data-state", "failed")
    card.get_by_test_id("job-cancel").click()
    card.get_by_test_id("job-confirm").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Cancelled")
    expect(card.get_by_test_id("count-succeeded")).to_have_text("2 succeeded")
    expect(card.locator("[data-trial='3']")).to_have_attribute("data-state", "cancelled")
    expect(card.locator("footer button")).to_have_text(["Run again", "Edit and run again…", "Delete…"])


def test_my_jobs_have_one_row_for_a_sweep_with_its_trials_on_demand(visit: Visit, service: Service) -> None:
    page = visit("susan")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    sweep = submit_sweep(service)
    service.until(sweep.id, ended)
    expect(page.get_by_test_id("row-trials")).to_have_text("3/4 trials, 1 failed, best 0.03333")
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    page.get_by_test_id("open-card").click()
    expect(page.get_by_test_id("trial-row")).to_have_count(4)
    expect(page.get_by_test_id("job-row")).to_have_count(1)


def test_a_sweep_that_waits_stands_in_the_queue_once(visit: Visit, service: Service) -> None:
    trials = wire.Trials(number=40)
    sweep = service.submit("susan", name="many", trials=trials, gpus=3)
    service.until(sweep.id, lambda job: job.trials is not None and job.trials.running == 2)
    page = visit("joe", "pool")
    expect(page.get_by_test_id("section-queue")).to_contain_text("1 job of others")
    page = visit("susan", "pool")
    row = page.get_by_test_id("queue-row")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("many")
    expect(row).to_contain_text("3 GPUs for each of its trials")
    expect(page.get_by_test_id("section-queue")).not_to_contain_text("of others")


def test_hostile_parameters_are_shown_as_text(visit: Visit, service: Service) -> None:
    parameters: list[dict[str, Parameter]] = [{HOSTILE[:128]: HOSTILE, MARKUP: number} for number in range(2)]
    trials = wire.Trials(number=2, metric="loss", parameters=parameters)
    sweep = service.submit("susan", "python3", "-c", TRIAL, name=MARKUP, trials=trials)
    service.until(sweep.id, lambda job: job.trials is not None and job.trials.succeeded == 2)
    page = visit("susan", f"jobs/{sweep.id}")
    expect(page.get_by_test_id("trial-row")).to_have_count(2)
    expect(page.locator("figure")).to_be_visible()
    expect_only_text(page)
