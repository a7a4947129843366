"""The page of the pool: who holds which GPU, the queue, and why GPUs are idle."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, Route, expect
from pools.pages_service import PERSON, Service, Windows

Visit = Callable[..., Page]


def test_the_pool_shows_who_holds_which_gpu_and_follows(visit: Visit, service: Service) -> None:
    page = visit("joe", "pool")
    expect(page.get_by_test_id("pool-cell")).to_have_count(11)
    expect(page.get_by_test_id("section-gpus").get_by_test_id("simulated").first).to_be_visible()
    service.submit("susan", name="secret", gpus=4)
    expect(page.locator("[data-testid=pool-cell][data-held=borrowed]")).to_have_count(2)
    row = page.get_by_test_id("holder-row")
    expect(row).to_contain_text("susan")
    expect(row).to_contain_text("a job of another project")
    expect(page.locator("body")).not_to_contain_text("secret")
    expect(page.get_by_test_id("glance-vision")).to_contain_text("4")
    expect(page.get_by_test_id("tide-reading")).to_contain_text("of 8 GPUs held")


def test_the_bars_of_projects_have_all_the_width_of_their_column(visit: Visit) -> None:
    page = visit("joe", "pool")
    page.set_viewport_size({"width": 1600, "height": 900})
    row = page.get_by_test_id("glance-vision")
    bar, number = (
        row.locator(inside).evaluate("(one) => ({ ...one.getBoundingClientRect().toJSON() })")
        for inside in (".st-bar", "[data-label=quota]")
    )
    assert number["left"] - bar["right"] < 40


def test_whoever_is_in_several_projects_chooses_the_default_one_and_is_told_when_it_is_lost(
    visit: Visit, service: Service
) -> None:
    page = visit("jemma", "pool")
    expect(page.get_by_test_id("glance-speech")).to_be_visible()
    expect(page.get_by_test_id("default-project")).to_have_count(0)
    service.people.groups["nlp"].append("jemma")
    page.reload()
    choice = page.get_by_label("My default project")
    expect(choice).to_have_value("")
    with page.expect_response(lambda answer: answer.request.method == "PATCH" and answer.ok):
        choice.select_option("nlp")
    page.reload()
    expect(choice).to_have_value("nlp")
    service.people.groups["nlp"].remove("jemma")
    page.reload()
    expect(page.get_by_test_id("default-lost")).to_contain_text("You are no longer in nlp")
    choice.select_option("speech")
    expect(page.get_by_test_id("default-lost")).to_have_count(0)
    choice.select_option("my only project")
    expect(choice).to_have_count(0)


def test_the_pool_page_has_the_queue_in_its_order_and_says_why_gpus_are_idle(
    visit: Visit, service: Service
) -> None:
    big = service.submit("susan", name="big", gpus=6)
    service.until(big.id, lambda job: job.state == "running")
    jobs = [service.submit("susan", name=f"sweep {number}", gpus=8) for number in range(2)]
    other = service.submit("joe", name="secret", gpus=8)
    page = visit("susan", "pool")
    rows = page.get_by_test_id("queue-vision").get_by_test_id("queue-row")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("sweep 0")
    expect(rows.nth(1).locator("[data-label=place]")).to_have_text("2")
    expect(page.get_by_test_id("queue-nlp")).to_contain_text("1 job of others")
    expect(page.locator("body")).not_to_contain_text("secret")
    expect(page.get_by_test_id("idle")).to_contain_text("2 train GPUs are idle.")
    expect(page.get_by_test_id("idle")).to_contain_text("3 jobs need more GPUs together than the pool has free.")
    for job in (*jobs, other):
        service.run(service.engine.cancel(job.id, "admin"))
    expect(page.get_by_test_id("idle")).to_contain_text("No job waits.")
    expect(page.get_by_test_id("section-queue").get_by_test_id("empty")).to_contain_text("The queue is empty.")
    expect(page.get_by_test_id("node-row")).to_have_count(2)


def test_the_page_says_nothing_of_the_queue_before_the_jobs_are_read(
    visit: Visit, service: Service, windows: Windows
) -> None:
    job = service.submit("susan", name="big", gpus=8)
    service.until(job.id, lambda job: job.state == "running")
    service.submit("susan", name="waits", gpus=8)
    page = windows.open()
    held: list[Route] = []
    page.route("**/api/v1/jobs?*", lambda route: held.append(route), times=2)  # noqa: PLW0108
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    with page.expect_request("**/api/v1/jobs?*running*"):
        page.goto(service.url + "pool")
    expect(page.get_by_test_id("section-holders")).to_be_visible()
    expect(page.get_by_test_id("section-queue")).to_have_count(0)
    for route in held:
        route.continue_()
    expect(page.get_by_test_id("queue-row")).to_have_count(1)
