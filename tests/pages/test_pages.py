"""The pages, served by the real service, in a browser."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from pages_service import PERSON, Service, Windows
from playwright.sync_api import Page, expect

Visit = Callable[..., Page]

REPORTING = """
import json, os, sys, time
for step in range(1, 4):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps({"at": time.time(), "step": step, "of": 60, "values": {"loss": 1 / step}}) + "\\n")
    print("epoch", step, flush=True)
time.sleep(600)
"""


def test_someone_without_jobs_is_told_how_to_send_one(visit: Visit) -> None:
    page = visit("jemma")
    expect(page.get_by_test_id("empty")).to_contain_text("pool.submit(")
    expect(page.get_by_test_id("empty").get_by_role("link", name="Open a notebook")).to_have_attribute(
        "href", "/hub/spawn"
    )


def test_my_jobs_are_live_cards(visit: Visit, service: Service) -> None:
    page = visit("susan")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    job = service.submit("susan", name="digits", gpus=4)
    card = page.locator(f"[data-job='{job.id}']")
    expect(card.get_by_test_id("job-state")).to_have_text("Running")
    expect(card.locator("[data-testid=held-gpu][data-borrowed=true]")).to_have_count(2)
    expect(card.get_by_test_id("simulated")).to_be_visible()
    card.get_by_test_id("job-cancel").click()
    card.get_by_test_id("job-confirm").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Cancelled")


def test_a_job_can_be_paused_and_resumed(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="digits")
    page = visit("susan")
    card = page.locator(f"[data-job='{job.id}']")
    card.get_by_test_id("job-pause").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Paused")
    expect(card.get_by_test_id("job-reason")).to_contain_text("It goes on when it is resumed.")
    card.get_by_test_id("job-resume").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Running")
    expect(card.get_by_test_id("job-attempt")).to_have_text("attempt 2")


def test_an_owner_who_comes_back_shows_on_the_borrowers_card(visit: Visit, service: Service) -> None:
    borrowers = [service.submit("susan", name=f"digits-{number}", gpus=4) for number in (1, 2)]
    for job in borrowers:
        service.until(job.id, lambda job: job.state == "running")
    page = visit("susan")
    expect(page.get_by_test_id("job-card")).to_have_count(2)
    service.submit("joe", name="bert", gpus=2)
    paused = page.locator("[data-testid=job-card][data-state=paused]")
    expect(paused.get_by_test_id("job-state")).to_have_text("Paused")
    expect(paused.get_by_test_id("job-reason")).to_contain_text("nlp")
    expect(paused.get_by_test_id("life-attempt")).to_have_count(1)
    page.reload()
    expect(paused.get_by_test_id("life-attempt")).to_have_count(1)


def test_jobs_are_shown_by_whether_they_have_ended(visit: Visit, service: Service) -> None:
    done = service.submit("jemma", "true", name="done")
    service.until(done.id, lambda job: job.state == "succeeded")
    going = service.submit("jemma", name="going")
    page = visit("jemma")
    expect(page.locator(f"[data-job='{going.id}']")).to_be_visible()
    expect(page.locator(f"[data-job='{done.id}']")).to_have_count(0)
    page.get_by_test_id("filter-ended").click()
    expect(page.locator(f"[data-job='{done.id}']").get_by_test_id("job-state")).to_have_text("Succeeded")
    expect(page.locator(f"[data-job='{going.id}']")).to_have_count(0)
    page.reload()
    expect(page.locator(f"[data-job='{done.id}']")).to_be_visible()


def test_a_job_of_hostile_name_is_only_text(visit: Visit, service: Service) -> None:
    name = "<img src=x onerror=window.hacked=1>"
    job = service.submit(
        "susan", "sh", "-c", "printf '<script>window.hacked=1</script>\\033[31m'; sleep 600", name=name
    )
    page = visit("susan", f"jobs/{job.id}")
    expect(page.locator("h1")).to_have_text(name)
    expect(page.get_by_test_id("log-text")).to_have_text("<script>window.hacked=1</script>")
    assert page.evaluate("window.hacked") is None


def test_the_job_page_follows_log_progress_and_attempts(visit: Visit, service: Service) -> None:
    job = service.submit("susan", "python3", "-c", REPORTING, name="digits", source="def train(): ...")
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_test_id("log-text")).to_contain_text("epoch 3")
    expect(page.get_by_test_id("job-progress")).to_contain_text("step 3 of 60")
    expect(page.locator(".st-plot").first).to_have_attribute("aria-label", "loss from 1 to 0.3333")
    expect(page.get_by_test_id("attempt-row")).to_have_count(1)
    expect(page.get_by_test_id("job-source")).to_have_text("def train(): ...")
    expect(page.get_by_test_id("job-argv")).to_contain_text("python3 -c")
    page.get_by_test_id("log-search").fill("epoch")
    expect(page.get_by_test_id("log-found")).to_have_text("1 of 3")
    page.get_by_test_id("job-pause").click()
    expect(page.get_by_test_id("job-state").first).to_have_text("Paused")
    expect(page.get_by_test_id("attempt-row").first).to_contain_text("Paused")


def test_somebody_elses_job_is_not_found(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="secret")
    page = visit("joe", f"jobs/{job.id}")
    expect(page.get_by_test_id("empty")).to_contain_text("no job")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.locator("body")).not_to_contain_text("secret")


@pytest.mark.parametrize("path", ["site.js%00.css", "%00", "visuals/dom.js%00.js", "../site.js", "nothing.css"])
def test_what_no_static_file_is_called_is_not_found(service: Service, path: str) -> None:
    answer = httpx.get(f"{service.url}static/{path}", trust_env=False)
    assert answer.status_code == 404
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_above_a_jobs_page_are_all_jobs(visit: Visit) -> None:
    expect(visit("jemma", "jobs").get_by_test_id("empty")).to_contain_text("pool.submit(")


@pytest.mark.parametrize("name", ["susan", ""], ids=["logged in", "a stranger"])
def test_an_address_that_is_nobodys_says_so_and_leads_back(visit: Visit, service: Service, name: str) -> None:
    page = visit(name, "nowhere/at-all")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_test_id("problem")).to_contain_text("There is nothing at this address.")
    expect(page.get_by_test_id("problem").get_by_role("link", name="My jobs")).to_have_attribute(
        "href", httpx.URL(service.url).path
    )
    told = httpx.get(f"{service.url}nowhere/at-all")
    assert (told.status_code, told.json()["code"]) == (404, "not_found")


def test_an_administrator_who_misses_a_page_is_still_logged_in(visit: Visit) -> None:
    page = visit("admin", "nowhere/at-all")
    expect(page.get_by_role("link", name="Projects and quotas")).to_be_visible()
    expect(page.get_by_text("Logout")).to_be_visible()
    stranger = visit("", "nowhere/at-all")
    expect(stranger.get_by_test_id("problem")).to_be_visible()
    expect(stranger.get_by_text("Login", exact=True)).to_have_count(0)


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
    expect(page.get_by_test_id("tide-reading")).to_contain_text("of 8 GPUs in use")


def test_pages_take_the_theme_of_the_hub(visit: Visit) -> None:
    page = visit("joe", "pool", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.evaluate(background) == "rgb(33, 37, 41)"
    page.get_by_label("Toggle dark mode").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.springtide')).colorScheme") == "light"


@pytest.mark.parametrize("path", ["", "pool", "admin"])
def test_pages_fit_a_phone(visit: Visit, service: Service, path: str) -> None:
    service.submit("susan", name="a" * 100, gpus=4)
    page = visit("admin", f"{path}?whose=all", viewport={"width": 360, "height": 780})
    expect(page.locator("#page")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)


def test_pages_let_no_inline_script_run(visit: Visit, service: Service) -> None:
    page = visit("susan")
    assert page.locator("script:not([src])").count() == 0
    opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    answer = httpx.get(service.url, cookies={PERSON: "susan"}, headers=opened, trust_env=False)
    assert answer.status_code == 200
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]


def test_the_connection_says_when_the_pool_is_away_and_catches_up(visit: Visit, service: Service) -> None:
    page = visit("joe", "pool")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    page.context.set_offline(True)
    service.end_streams()
    expect(page.get_by_test_id("connection")).to_have_text("Reconnecting…")
    service.submit("susan", name="meanwhile", gpus=1)
    page.context.set_offline(False)
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    expect(page.get_by_test_id("holder-row")).to_have_count(1)


def test_where_a_stream_is_one_too_many_the_page_asks_instead(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.route("**/api/v1/events*", lambda route: route.fulfill(status=429, headers={"Retry-After": "30"}))
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(page.locator(f"[data-job='{job.id}']").get_by_test_id("job-state")).to_have_text("Running")


def test_where_streams_do_not_get_through_the_page_asks_instead(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.route("**/api/v1/events*", lambda _route: None)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(page.locator(f"[data-job='{job.id}']").get_by_test_id("job-state")).to_have_text("Running")
