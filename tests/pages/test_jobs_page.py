"""The list of jobs: live rows, cards on demand, search, and actions on several."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]


def test_someone_without_jobs_is_told_how_to_send_one(visit: Visit) -> None:
    """Here at the address above that of a job; without ``jobs`` it is the same page, in other tests."""
    page = visit("jemma", "jobs")
    expect(page.get_by_test_id("empty")).to_contain_text("pool.submit(")
    expect(page.get_by_test_id("empty").get_by_role("link", name="Open a workspace")).to_have_attribute(
        "href", "/hub/spawn"
    )


def row(page: Page, job: wire.Job) -> Locator:
    return page.locator(f"[data-testid=job-row][data-job='{job.id}']")


def opened(page: Page, job: wire.Job) -> Locator:
    """Open the card of a job below its row."""
    row(page, job).get_by_test_id("open-card").click()
    return page.locator(f"[data-testid=job-card][data-job='{job.id}']")


def test_my_jobs_are_live_rows_with_a_card_on_demand_that_pauses_resumes_and_cancels(
    visit: Visit, service: Service
) -> None:
    page = visit("susan")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    job = service.submit("susan", name="digits", gpus=4)
    expect(row(page, job).get_by_test_id("row-state")).to_have_text("Running")
    expect(row(page, job)).to_contain_text("4 (2 borrowed)")
    expect(row(page, job).get_by_test_id("row-reason")).to_contain_text("Running on 4 GPUs")
    expect(page.get_by_test_id("job-card")).to_have_count(0)
    card = opened(page, job)
    expect(card.locator("[data-testid=held-gpu][data-borrowed=true]")).to_have_count(2)
    expect(card.get_by_test_id("simulated")).to_be_visible()
    card.get_by_test_id("job-pause").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Paused")
    expect(card.get_by_test_id("job-reason")).to_contain_text("It runs again when it is resumed.")
    card.get_by_test_id("job-resume").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Running")
    expect(card.get_by_test_id("job-attempt")).to_have_text("attempt 2")
    card.get_by_test_id("job-cancel").click()
    card.get_by_test_id("job-confirm").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Cancelled")
    expect(row(page, job)).to_have_attribute("data-state", "cancelled")


def test_jobs_without_gpus_say_so_and_why_they_wait(visit: Visit, service: Service) -> None:
    jobs = [service.submit("susan", name=f"clean {number}", gpus=0) for number in range(5)]
    page = visit("susan")
    rows = [row(page, job) for job in jobs]
    expect(rows[0].get_by_test_id("row-state")).to_have_text("Running")
    expect(rows[0].locator("[data-column=GPUs]")).to_have_text("none")
    expect(rows[0].locator("[data-column=time]")).to_contain_text("runs")
    expect(rows[4].get_by_test_id("row-reason")).to_contain_text("runs 4 jobs without GPUs, the most that it may.")
    card = opened(page, jobs[0])
    expect(card.get_by_test_id("job-headline")).to_contain_text("Running without GPUs.")
    expect(card.get_by_test_id("held-gpu")).to_have_count(0)


def test_an_owner_who_comes_back_shows_on_the_borrowers_row(visit: Visit, service: Service) -> None:
    borrowers = [service.submit("susan", name=f"digits-{number}", gpus=4) for number in (1, 2)]
    for job in borrowers:
        service.until(job.id, lambda job: job.state == "running")
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    service.submit("joe", name="bert", gpus=2)
    paused = page.locator("[data-testid=job-row][data-state=paused]")
    expect(paused.get_by_test_id("row-state")).to_have_text("Paused")
    expect(paused.get_by_test_id("row-reason")).to_contain_text("nlp")
    paused.get_by_test_id("open-card").click()
    expect(page.get_by_test_id("life-attempt")).to_have_count(1)


def test_jobs_are_shown_by_whether_they_have_ended(visit: Visit, service: Service) -> None:
    done = service.submit("jemma", "true", name="done")
    service.until(done.id, lambda job: job.state == "succeeded")
    going, read, ends = (service.submit("jemma", name=name) for name in ("going", "read", "ends"))
    page = visit("jemma")
    expect(row(page, going)).to_be_visible()
    expect(row(page, done)).to_have_count(0)
    card = opened(page, read)
    expect(card.get_by_test_id("job-state")).to_have_text("Running")
    for job in (going, read, ends):
        expect(row(page, job).get_by_test_id("row-state")).to_have_text("Running")
    row(page, ends).hover()
    for job in (read, ends):
        service.run(service.engine.cancel(job.id, "jemma"))
    expect(card.get_by_test_id("job-state")).to_have_text("Cancelled")
    expect(row(page, ends).get_by_test_id("row-state")).to_have_text("Cancelled")
    page.mouse.move(0, 0)
    expect(row(page, ends)).to_have_count(0)
    row(page, read).get_by_test_id("open-card").click()
    page.mouse.move(0, 0)
    page.get_by_test_id("search-jobs").focus()
    expect(row(page, read)).to_have_count(0)
    paddings = "(group) => [...group.children].map((button) => getComputedStyle(button).padding)"
    chosen, *others = page.get_by_role("group", name="Which jobs").evaluate(paddings)
    assert set(others) == {chosen}
    page.get_by_test_id("filter-ended").click()
    expect(row(page, done).get_by_test_id("row-state")).to_have_text("Succeeded")
    expect(row(page, going)).to_have_count(0)
    page.reload()
    row(page, done).get_by_role("link", name="done").click()
    expect(page.get_by_test_id("log-text")).to_have_text("Nothing was written.")


def test_a_row_below_a_resting_pointer_stays_though_the_table_moves(visit: Visit, service: Service) -> None:
    first, last = (service.submit("jemma", name=name) for name in ("first", "last"))
    page = visit("jemma")
    for job in (first, last):
        expect(row(page, job).get_by_test_id("row-state")).to_have_text("Running")
    opened(page, first)
    row(page, last).hover()
    row(page, first).get_by_test_id("open-card").evaluate("(button) => button.click()")
    expect(page.get_by_test_id("job-card")).to_have_count(0)
    page.get_by_test_id("search-jobs").focus()
    expect(page.locator("[data-job]:hover")).to_have_count(0)
    for job in (last, first):
        service.run(service.engine.cancel(job.id, "jemma"))
    expect(row(page, first)).to_have_count(0)
    expect(row(page, last).get_by_test_id("row-state")).to_have_text("Cancelled")
    page.mouse.move(0, 0)
    expect(row(page, last)).to_have_count(0)


def test_jobs_are_searched_sorted_and_paged_by_the_server(visit: Visit, service: Service) -> None:
    names = ("zeta", "alpha", *(f"sweep {number}" for number in range(52)))
    jobs = {name: service.submit("susan", name=name) for name in names}
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(50)
    expect(page.get_by_test_id("job-row").first).to_have_attribute("data-state", "running")
    page.get_by_test_id("jobs-on").click()
    expect(page.get_by_test_id("job-row")).to_have_count(4)
    expect(page.get_by_test_id("jobs-page")).to_have_text("Page 2")
    page.get_by_test_id("sort-name").click()
    expect(page.get_by_test_id("job-row").first).to_contain_text("alpha")
    page.get_by_test_id("sort-name").click()
    expect(page.get_by_test_id("job-row").first).to_contain_text("zeta")
    page.get_by_test_id("search-jobs").fill("ALPH")
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    expect(row(page, jobs["alpha"])).to_be_visible()
    page.reload()
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    page.get_by_test_id("search-jobs").fill("nothing like it")
    expect(page.get_by_test_id("empty")).to_contain_text("No job matches.")
    page.get_by_test_id("clear-filters").click()
    expect(page.get_by_test_id("job-row")).to_have_count(50)


def test_several_jobs_are_paused_and_that_is_undone_and_what_cannot_be_done_with_one_is_told(
    visit: Visit, service: Service
) -> None:
    jobs = [service.submit("susan", name=f"digits {number}") for number in range(3)]
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(3)
    page.get_by_test_id("select-all").check()
    expect(page.get_by_test_id("selection")).to_contain_text("3 jobs selected")
    row(page, jobs[0]).get_by_test_id("select-job").uncheck()
    page.get_by_test_id("selected-pause").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Paused 2 jobs.")
    service.until(jobs[1].id, lambda job: job.held_by_user)
    assert not service.run(service.engine.job(jobs[0].id)).held_by_user
    page.get_by_test_id("selected-undo").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Resumed 2 jobs.")
    expect(page.get_by_test_id("selection")).to_contain_text("2 jobs selected")
    service.until(jobs[1].id, lambda job: not job.held_by_user)

    row(page, jobs[0]).get_by_test_id("select-job").check()
    page.get_by_test_id("selected-cancel").click()
    problem = {"status": 409, "code": "ended", "message": "It has ended."}
    answer = {"results": [{"id": jobs[0].id, "job": None, "problem": problem}]}
    page.route("**/api/v1/jobs/actions", lambda route: route.fulfill(json=answer))
    page.get_by_test_id("selected-confirm").click()
    expect(page.get_by_test_id("selection-result")).to_have_text("1 job not: digits 0: It has ended. ")
    expect(page.get_by_test_id("selected-undo")).to_have_count(0)


def test_a_phone_sorts_and_selects_too(visit: Visit, service: Service) -> None:
    for name in ("beta", "alpha"):
        service.submit("susan", name=name)
    page = visit("susan", viewport={"width": 400, "height": 800})
    page.get_by_test_id("filter-order").select_option("name")
    expect(page.get_by_test_id("job-row").first).to_contain_text("alpha")
    page.get_by_test_id("select-page").click()
    expect(page.get_by_test_id("selection")).to_contain_text("2 jobs selected")


def test_everybodys_jobs_are_titled_so_and_say_whose_they_are(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="digits")
    page = visit("admin", "jobs/")
    expect(page.get_by_role("heading", level=1)).to_have_text("My jobs")
    expect(page.get_by_test_id("empty")).to_be_visible()
    expect(row(page, job)).to_have_count(0)
    page.get_by_test_id("filter-everybody").check()
    expect(page.get_by_role("heading", level=1)).to_have_text("Everybody's jobs")
    expect(row(page, job).locator("[data-label=user]")).to_have_text("susan")
