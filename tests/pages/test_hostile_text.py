"""Script, terminal and bidi text of users on every page that shows it: it is shown as text, and does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from hostile.hostile_text import HOSTILE, MARKUP, SHOWN, expect_only_text
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire

Visit = Callable[..., Page]

TAG = "<img/src=x/onerror='window.hacked=1'>"
"""A tag that the pool accepts."""
PROGRAM = f"""
import csv, json, os, time
text = {HOSTILE!r}
output = os.environ["SPRINGTIDE_OUTPUT_DIR"]
with open(output + "/" + text.replace("/", "|") + ".txt", "w") as file:
    file.write(text)
with open(output + "/table.csv", "w") as table:
    csv.writer(table).writerows([[text, text + ","], [text, text + "\\n"]])
data = {{"text/plain": text, "text/html": text, "image/svg+xml": text}}
said = {{"output_type": "stream", "name": "stderr", "text": [text]}}
shown = {{"output_type": "display_data", "data": data}}
failed = {{"output_type": "error", "ename": text, "evalue": text, "traceback": [text]}}
code = {{"cell_type": "code", "execution_count": 1, "source": text, "outputs": [said, shown, failed]}}
with open(output + "/story.ipynb", "w") as story:
    json.dump({{"cells": [{{"cell_type": "markdown", "source": [text]}}, code]}}, story)
for step in range(1, 4):
    line = {{"at": time.time(), "step": step, "of": 60, "values": {{text: 1 / step}}}}
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps(line) + "\\n")
print(text, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def service(shared_service: Service) -> Service:
    """The service, whose jobs keep running from one test to the next."""
    return shared_service


@pytest.fixture(scope="module")
def running(service: Service) -> wire.Job:
    """A job that is hostile in all that it says, does and leaves."""
    job = service.submit("susan", "python3", "-c", PROGRAM, name=MARKUP, source=HOSTILE, tags=[TAG])
    return service.until(job.id, lambda job: job.progress.step == 3)


@pytest.fixture(scope="module")
def jobs(service: Service, running: wire.Job) -> list[wire.Job]:
    """One that runs, one that waits, and one whose program is not there."""
    waiting = service.submit("susan", HOSTILE, name=MARKUP, gpus=8)
    missing = service.submit("susan", HOSTILE, name=MARKUP)
    return [running, waiting, service.until(missing.id, lambda job: job.state == "failed")]


@pytest.fixture
def hostile_people(service: Service) -> Iterator[None]:
    """A member of a project and a notebook server with hostile names."""
    service.people.groups["vision"].append(HOSTILE)
    service.people.notebooks["susan"] = [Server(HOSTILE, "running", "/user/susan/", 0.0, 0.0)]
    service.run(service.engine.reserve_workspace("susan", HOSTILE, 1, ["vision"]))
    yield
    service.run(service.engine.release_workspace("susan", HOSTILE))
    service.people.groups["vision"].remove(HOSTILE)
    service.people.notebooks.clear()


def test_in_the_list_of_jobs_and_on_their_cards(visit: Visit, jobs: list[wire.Job]) -> None:
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    expect(page.get_by_test_id("row-tag")).to_have_text(f"#{TAG}")
    for button in page.get_by_test_id("open-card").all():
        button.click()
    names = page.get_by_test_id("job-card").get_by_test_id("job-name")
    expect(names).to_have_text([MARKUP, MARKUP])
    expect(page.locator(".st-plot").first).to_have_attribute("aria-label", re.compile("gpj.exeredlink from"))
    expect_only_text(page)
    page.get_by_test_id("filter-ended").click()
    page.locator(f"[data-job='{jobs[2].id}']").get_by_test_id("open-card").click()
    expect(page.get_by_test_id("job-card").get_by_test_id("job-name")).to_have_text(MARKUP)
    expect_only_text(page)


def test_on_the_page_of_a_job_with_its_log_metrics_files_and_notebook(visit: Visit, running: wire.Job) -> None:
    page = visit("susan", f"jobs/{running.id}")
    expect(page.locator("h1")).to_have_text(MARKUP)
    expect(page.get_by_test_id("job-tag")).to_have_text(f"#{TAG}")
    expect(page.get_by_test_id("log-text")).to_have_text(SHOWN)
    expect(page.get_by_test_id("job-source")).to_have_text(SHOWN)
    expect(page.get_by_test_id("section-curves")).to_contain_text(SHOWN)
    page.get_by_text("The command that runs it").click()
    expect(page.get_by_test_id("output-row")).to_have_count(3)
    views = page.get_by_test_id("output-view")
    views.nth(0).click()
    expect(page.get_by_test_id("output-viewed")).to_contain_text(SHOWN)
    expect_only_text(page)
    views.nth(1).click()
    notebook = page.get_by_test_id("notebook")
    expect(notebook.get_by_test_id("notebook-text")).to_contain_text(SHOWN)
    expect(notebook.get_by_test_id("notebook-code")).to_contain_text(SHOWN)
    expect_only_text(page)
    views.nth(2).click()
    expect(page.get_by_test_id("output-table").locator("th")).to_have_text([SHOWN, f"{SHOWN},"])
    expect(page.get_by_test_id("output-table").locator("td")).to_have_text([SHOWN, SHOWN])
    expect_only_text(page)


def test_on_the_page_that_compares_jobs(visit: Visit, jobs: list[wire.Job]) -> None:
    page = visit("susan", "compare?" + "&".join(f"job={job.id}" for job in jobs))
    expect(page.get_by_test_id("differences")).to_contain_text(f"last {SHOWN}")
    expect(page.get_by_test_id("section-curves")).to_contain_text(SHOWN)
    expect_only_text(page)


def test_on_the_page_of_a_job_whose_program_is_not_there(visit: Visit, jobs: list[wire.Job]) -> None:
    page = visit("susan", f"jobs/{jobs[2].id}")
    expect(page.get_by_test_id("job-error").first).to_contain_text(MARKUP.partition(" ")[0])
    expect(page.get_by_test_id("job-argv")).to_contain_text(SHOWN)
    expect_only_text(page)


@pytest.mark.usefixtures("jobs")
def test_on_the_page_of_the_pool(visit: Visit) -> None:
    page = visit("susan", "pool")
    expect(page.get_by_test_id("holder-row")).to_contain_text(MARKUP)
    expect(page.get_by_test_id("queue-row")).to_contain_text(MARKUP)
    page.locator("[data-testid=pool-cell][data-held=job]").first.hover()
    expect_only_text(page)


@pytest.mark.usefixtures("hostile_people", "jobs")
def test_on_the_pages_of_workspaces_and_projects(visit: Visit) -> None:
    page = visit("susan", "workspaces")
    expect(page.get_by_test_id("workspace-row")).to_contain_text(SHOWN)
    page.get_by_test_id("workspace-stop").click()
    expect_only_text(page)
    page = visit("admin", "workspaces?whose=all")
    expect(page.get_by_test_id("workspace-row")).to_contain_text(SHOWN)
    expect_only_text(page)
    page = visit("admin", "admin")
    expect(page.locator("#page")).to_contain_text(SHOWN)
    expect_only_text(page)


def test_what_would_be_more_than_text_is_found(visit: Visit) -> None:
    page = visit("jemma", "notifications")
    for planted in ("<img src=x>", "<p>\u202egpj.exe</p>", "<p title='\x1b[31m'>red</p>"):
        expect_only_text(page)
        page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", planted)
        with pytest.raises(AssertionError):
            expect_only_text(page)
        page.evaluate("() => document.body.lastElementChild.remove()")
