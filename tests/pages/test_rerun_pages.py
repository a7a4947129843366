"""Jobs that are run again from their cards on the pages of the real service."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browsers.axe import COLOURS, show_theme, violations
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire
from springtide.scheduler.arguments import Argument

Visit = Callable[..., Page]


@pytest.fixture
def ended(service: Service) -> wire.Job:
    """A job of susan's that has ended."""
    job = service.submit("susan", "python3", "-c", "pass", name="train", time_limit=3600, env={"TOKEN": "hunter2"})
    return service.until(job.id, lambda found: found.state == "succeeded")


def new_job(service: Service, first: wire.Job, page: Page) -> wire.Job:
    page.wait_for_url(lambda url: "/jobs/" in url and not url.endswith(first.id))
    return service.run(service.engine.job(page.url.rpartition("/")[2]))


def test_a_job_that_has_ended_is_run_again_as_it_was(visit: Visit, service: Service, ended: wire.Job) -> None:
    page = visit("susan", f"jobs/{ended.id}")
    expect(page.get_by_test_id("job-first")).to_have_count(0)
    page.get_by_role("button", name="Run again", exact=True).click()
    again = new_job(service, ended, page)
    assert (again.argv, again.options.time_limit, again.rerun.job) == (ended.argv, 3600, ended.id)
    line = page.get_by_test_id("job-first")
    expect(line).to_contain_text("Run again of “train” with nothing changed.")
    line.get_by_test_id("first-run").click()
    page.wait_for_url(re.compile(ended.id))


def test_a_job_that_a_program_of_another_submitted_leads_to_that_one(
    visit: Visit, service: Service, ended: wire.Job
) -> None:
    submission = wire.Submission(argv=["true"], name="child")
    child = service.run(service.engine.submit(submission, "susan", ended.project, lineage=(ended.id,)))
    line = visit("susan", f"jobs/{child.id}").get_by_test_id("job-submitter")
    expect(line).to_contain_text(f"Submitted by the program of job {ended.id}.")
    line.get_by_test_id("submitter-run").click()
    line.page.wait_for_url(re.compile(ended.id))
    expect(line).to_have_count(0)


def test_a_job_tells_how_its_test_run_went_and_leads_to_it(visit: Visit, service: Service) -> None:
    fails = "raise ValueError('no data in /data')"
    job = service.submit("susan", "python3", "-c", fails, name="net", workers=2, gpus=2, test_run=True)
    page = visit("susan", f"jobs/{job.id}")
    line = page.get_by_test_id("job-test")
    expect(line).to_contain_text("Test run: failed after")
    expect(page.get_by_test_id("job-error")).to_contain_text("Its test run failed, so it was not put in line.")
    expect(page.get_by_test_id("log-text")).to_contain_text("ValueError: no data in /data")
    line.get_by_test_id("test-run").click()
    page.wait_for_url(re.compile(f"{job.id}test"))
    expect(page.get_by_test_id("log-text")).to_contain_text("ValueError: no data in /data")


def test_the_options_are_edited_before_it_runs_again(visit: Visit, service: Service, ended: wire.Job) -> None:
    page = visit("susan", f"jobs/{ended.id}")
    page.get_by_test_id("job-edit").click()
    form = page.get_by_test_id("rerun-form")
    expect(form.get_by_test_id("form-time_limit")).to_have_value("1h")
    form.get_by_test_id("rerun-more").locator("summary").click()
    expect(form.get_by_test_id("form-env")).to_have_value("")
    expect(page.get_by_text("hunter2")).to_have_count(0)
    form.get_by_test_id("form-gpus").fill("99")
    form.get_by_test_id("rerun-send").click()
    expect(form.get_by_test_id("form-gpus-wrong")).to_contain_text("the largest train node has 8")
    form.get_by_test_id("form-gpus").fill("2")
    form.get_by_test_id("form-time_limit").fill("")
    expect(form.get_by_test_id("rerun-notice")).to_have_text("2 options changed")
    found = violations(page)
    show_theme(page, "dark")
    assert found + violations(page, **COLOURS) == []
    form.get_by_test_id("rerun-send").click()
    again = new_job(service, ended, page)
    expect(page.get_by_test_id("job-first")).to_contain_text(
        "Run again of “train”: gpus 1 → 2, time_limit 1h → none."
    )
    assert service.until(again.id, lambda job: job.state == "succeeded").options.gpus == 2


def test_options_of_a_command_are_changed_added_and_left_out(visit: Visit, service: Service) -> None:
    words = ("python3", "-c", "print()", "data.csv", "--lr", "0.1", "--decay", "0.5", "--no-amp")
    first = service.submit("susan", *words, name="net")
    service.until(first.id, lambda job: job.state == "succeeded")
    page = visit("susan", f"jobs/{first.id}")
    page.get_by_test_id("job-edit").click()
    form = page.get_by_test_id("rerun-arguments")
    expect(form.get_by_test_id("form-arguments.no_amp")).to_have_value("true")
    expect(form.get_by_test_id("remove-arguments.argument 1")).to_have_count(0)
    form.get_by_test_id("form-arguments.lr").fill("0.2")
    form.get_by_test_id("remove-arguments.lr").click()
    form.get_by_test_id("keep-arguments.lr").click()
    form.get_by_test_id("remove-arguments.decay").click()
    expect(form.get_by_text("decay is left out")).to_be_visible()
    form.get_by_test_id("form-arguments.no_amp").fill("false")
    for place, (name, value) in enumerate((("--name", "'a b'"), ("fast", ""), ("", ""))):
        form.get_by_test_id("add-option").click()
        form.get_by_test_id("added-name").nth(place).fill(name)
        form.get_by_test_id("added-value").nth(place).fill(value)
    form.get_by_test_id("added-drop").nth(2).click()
    expect(page.get_by_test_id("rerun-notice")).to_have_text("5 arguments changed")
    assert violations(page) == []
    page.get_by_test_id("rerun-send").click()
    again = new_job(service, first, page)
    assert again.argv == ["python3", "-c", "print()", "data.csv", "--lr", "0.2", "--name", "a b", "--fast"]


def test_arguments_that_cannot_be_changed_are_shown(visit: Visit, service: Service) -> None:
    first = service.submit(
        "susan",
        *("python3", "-c", "pass"),
        kind="function",
        arguments={"lr": Argument(value=0.1), "rows": Argument(value="<list>", type="list")},
    )
    service.until(first.id, lambda job: job.state in {"succeeded", "failed"})
    page = visit("susan", f"jobs/{first.id}")
    page.get_by_test_id("job-edit").click()
    form = page.get_by_test_id("rerun-arguments")
    fixed = form.get_by_test_id("form-arguments.rows")
    expect(fixed).to_have_value("<list>")
    expect(fixed).not_to_be_editable()
    expect(form.get_by_text("It is sent as it is, and cannot be changed here.")).to_be_visible()
    expect(form.get_by_test_id("form-arguments.lr")).to_be_editable()
    found = violations(page)
    show_theme(page, "dark")
    assert found + violations(page, **COLOURS) == []
    form.get_by_test_id("form-arguments.lr").fill("0.2")
    page.get_by_test_id("rerun-send").click()
    again = new_job(service, first, page)
    assert again.arguments == {**first.arguments, "lr": Argument(value=0.2)}


def test_a_run_again_from_the_list_is_a_row_of_its_own(visit: Visit, service: Service, ended: wire.Job) -> None:
    page = visit("susan", "?show=ended")
    page.locator(f"[data-job='{ended.id}']").get_by_test_id("open-card").click()
    page.get_by_test_id("job-card").get_by_test_id("job-rerun").click()
    line = page.get_by_test_id("job-card").get_by_text("Run again of “train” with nothing changed.")
    expect(line).to_be_visible()


def test_another_persons_job_is_not_offered_to_be_run_again(visit: Visit, ended: wire.Job) -> None:
    page = visit("admin", f"jobs/{ended.id}")
    expect(page.get_by_test_id("job-card")).to_be_visible()
    expect(page.get_by_test_id("job-edit")).to_have_count(0)
