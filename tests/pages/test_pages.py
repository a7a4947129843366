"""The pages, served by the real service, in a browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pages_service import PERSON, Service, Windows
from playwright.sync_api import Locator, Page, expect

from springtide.hub_extension.pages.files import digest
from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire
from springtide.scheduler.engine.idle.rule import Decision, Step
from springtide.scheduler.store.records import IdleRule, RuleScope

Visit = Callable[..., Page]

LINKS = ["Home", "My jobs", "Pool", "Workspaces", "Notifications"]
"""The navigation that everyone has, before the link to tokens."""
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
    expect(page.get_by_test_id("empty").get_by_role("link", name="Open a workspace")).to_have_attribute(
        "href", "/hub/spawn"
    )


def row(page: Page, job: wire.Job) -> Locator:
    return page.locator(f"[data-testid=job-row][data-job='{job.id}']")


def opened(page: Page, job: wire.Job) -> Locator:
    """Open the card of a job below its row."""
    row(page, job).get_by_test_id("open-card").click()
    return page.locator(f"[data-testid=job-card][data-job='{job.id}']")


def test_my_jobs_are_live_rows_with_a_card_on_demand(visit: Visit, service: Service) -> None:
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
    expect(rows[4].get_by_test_id("row-reason")).to_contain_text(
        "runs 4 jobs without GPUs, as many as it may at a"
    )
    card = opened(page, jobs[0])
    expect(card.get_by_test_id("job-reason")).to_contain_text("Running without GPUs.")
    expect(card.get_by_test_id("held-gpu")).to_have_count(0)


def test_a_job_can_be_paused_and_resumed(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="digits")
    page = visit("susan")
    card = opened(page, job)
    card.get_by_test_id("job-pause").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Paused")
    expect(card.get_by_test_id("job-reason")).to_contain_text("It goes on when it is resumed.")
    card.get_by_test_id("job-resume").click()
    expect(card.get_by_test_id("job-state")).to_have_text("Running")
    expect(card.get_by_test_id("job-attempt")).to_have_text("attempt 2")


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
    going = service.submit("jemma", name="going")
    page = visit("jemma")
    expect(row(page, going)).to_be_visible()
    expect(row(page, done)).to_have_count(0)
    paddings = "(group) => [...group.children].map((button) => getComputedStyle(button).padding)"
    chosen, *others = page.get_by_role("group", name="Which jobs").evaluate(paddings)
    assert set(others) == {chosen}
    page.get_by_test_id("filter-ended").click()
    expect(row(page, done).get_by_test_id("row-state")).to_have_text("Succeeded")
    expect(row(page, going)).to_have_count(0)
    page.reload()
    row(page, done).get_by_role("link", name="done").click()
    expect(page.get_by_test_id("log-text")).to_have_text("Nothing was written.")


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


def test_several_jobs_are_paused_and_that_is_undone(visit: Visit, service: Service) -> None:
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
    service.until(jobs[1].id, lambda job: not job.held_by_user)


def test_a_phone_sorts_and_selects_too(visit: Visit, service: Service) -> None:
    for name in ("beta", "alpha"):
        service.submit("susan", name=name)
    page = visit("susan", viewport={"width": 400, "height": 800})
    page.get_by_test_id("filter-order").select_option("name")
    expect(page.get_by_test_id("job-row").first).to_contain_text("alpha")
    page.get_by_test_id("select-page").click()
    expect(page.get_by_test_id("selection")).to_contain_text("2 jobs selected")


def test_what_cannot_be_done_with_one_of_several_jobs_is_told(visit: Visit, service: Service) -> None:
    jobs = [service.submit("susan", name=f"digits {number}") for number in range(2)]
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    page.get_by_test_id("select-all").check()
    page.get_by_test_id("selected-cancel").click()
    problem = {"status": 409, "code": "ended", "message": "It has ended."}
    answer = {"results": [{"id": jobs[0].id, "job": None, "problem": problem}]}
    page.route("**/api/v1/jobs/actions", lambda route: route.fulfill(json=answer))
    page.get_by_test_id("selected-confirm").click()
    result = page.get_by_test_id("selection-result")
    expect(result).to_have_text("1 job not: digits 0: It has ended. ")
    expect(page.get_by_test_id("selected-undo")).to_have_count(0)


def test_everybodys_jobs_are_titled_so_and_say_whose_they_are(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="digits")
    page = visit("admin")
    expect(page.get_by_role("heading", level=1)).to_have_text("My jobs")
    expect(row(page, job)).to_have_count(0)
    page.get_by_test_id("filter-everybody").check()
    expect(page.get_by_role("heading", level=1)).to_have_text("Everybody's jobs")
    expect(row(page, job).locator("[data-label=user]")).to_have_text("susan")


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
    page.get_by_text("The command that runs it").click()
    expect(page.get_by_test_id("job-argv")).to_contain_text("python3 -c")
    page.get_by_test_id("log-search").fill("epoch")
    expect(page.get_by_test_id("log-found")).to_have_text("1 of 3")
    page.get_by_test_id("job-pause").click()
    expect(page.get_by_test_id("job-state").first).to_have_text("Paused")
    expect(page.get_by_test_id("attempt-row").first).to_contain_text("Paused")


def test_the_job_page_tells_what_the_job_runs_with(visit: Visit, service: Service) -> None:
    told = wire.PythonEnvironment(
        python="3.12.4",
        path="/opt/lab/bin/python",
        packages={"torch": "2.8.0", "numpy": "2.1.3"},
        missing=["timm"],
    )
    files = {f"model/{name}.py": b"pass" for name in ("train", "data")}
    job = service.submit("susan", "true", environment=told, files=files, env={"TOKEN": "hunter2"})
    service.until(job.id, lambda found: found.state == "succeeded")
    page = visit("susan", f"jobs/{job.id}")
    shown = page.get_by_test_id("section-environment")
    expect(shown).to_contain_text("3.12.4, /opt/lab/bin/python")
    expect(shown).to_contain_text("numpy 2.1.3, torch 2.8.0")
    expect(shown).to_contain_text("timm is imported by the code and not installed in /opt/lab/bin/python.")
    expect(shown).to_contain_text("model/data.py, model/train.py (8 B)")
    expect(shown).to_contain_text("TOKEN")
    expect(page.get_by_text("hunter2")).to_have_count(0)


LEAVING = """
import base64, json, os, time
output = os.environ["SPRINGTIDE_OUTPUT_DIR"]
os.makedirs(output + "/models")
with open(output + "/models/notes.txt", "w") as notes:
    notes.write("<script>window.hacked=1</script> best at step 3")
html = "<img src=x onerror=window.hacked=1>"
shown = {"output_type": "display_data", "data": {"text/html": html, "text/plain": "a table"}}
said = {"output_type": "stream", "name": "stdout", "text": ["loss 0.2\\n"]}
wrong = {"output_type": "display_data", "data": {"image/png": html, "text/plain": "no picture"}}
code = {"cell_type": "code", "execution_count": 1, "source": "train()", "outputs": [said, shown, wrong]}
cells = [{"cell_type": "markdown", "source": ["# Results\\n", html]}, code]
with open(output + "/story.ipynb", "w") as story:
    json.dump({"cells": cells}, story)
with open(output + "/runs.csv", "w", newline="") as runs:
    runs.write('run,"note, in words",loss\\r\\n')
    runs.write('"first, best","<script>window.hacked=1</script>\\nsaid ""yes"" twice",0.25\\r\\n')
    runs.writelines(f"{n},,{n / 8}\\r\\n" for n in range(149))
with open(output + "/wide.tsv", "w") as wide:
    wide.writelines("\\t".join(f"{kind} {n}" for n in range(40)) + "\\n" for kind in ("name", "cell"))
with open(output + "/semicolons.csv", "w") as semicolons:
    semicolons.write("a;b\\n1,5;\\"open to the end")
open(output + "/nothing.csv", "w").close()
pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
with open(output + "/loss.png", "wb") as picture:
    picture.write(base64.b64decode(pixel))
vector = "<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'><script>window.hacked=1</script></svg>"
for name in ("vector.svg", "vector.png"):
    with open(f"{output}/{name}", "w") as file:
        file.write(vector)
with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
    report.write(json.dumps({"at": time.time(), "step": 1, "values": {}}) + "\\n")
time.sleep(600)
"""
FILES = 9


def test_what_a_job_left_is_listed_viewed_and_downloaded(visit: Visit, service: Service) -> None:
    job = service.submit("susan", "python3", "-c", LEAVING, name="digits")
    service.until(job.id, lambda job: job.progress.step == 1)
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_test_id("output-row")).to_have_count(FILES)
    page.get_by_label("View models/notes.txt").click()
    expect(page.get_by_test_id("output-viewed")).to_contain_text("<script>window.hacked=1</script> best at step 3")
    with page.expect_download() as downloaded:
        page.get_by_label("Download models/notes.txt").click()
    assert downloaded.value.suggested_filename == "notes.txt"
    page.get_by_label("View story.ipynb").click()
    notebook = page.get_by_test_id("notebook")
    expect(notebook).to_contain_text("Results")
    expect(notebook.get_by_test_id("notebook-code")).to_contain_text("loss 0.2")
    expect(notebook.get_by_test_id("notebook-code")).to_contain_text("a table")
    expect(notebook.get_by_test_id("notebook-code")).to_contain_text("no picture")
    expect(notebook.locator("img")).to_have_count(0)

    page.get_by_label("View runs.csv").click()
    table = page.get_by_test_id("output-table")
    expect(table.locator("th")).to_have_text(["run", "note, in words", "loss"])
    first = ["first, best", '<script>window.hacked=1</script> said "yes" twice', "0.25"]
    expect(table.locator("tbody tr").first.locator("td")).to_have_text(first)
    expect(table.locator("tbody tr")).to_have_count(100)
    expect(table.locator("tbody tr").nth(1).locator(".st-number")).to_have_text("0.0")
    expect(page.get_by_test_id("output-left-out")).to_contain_text("50 more rows not shown")
    page.get_by_label("View wide.tsv").click()
    expect(page.get_by_test_id("output-left-out")).to_contain_text("10 more columns not shown")
    expect(table.locator("td").last).to_have_text("cell 29")
    assert table.evaluate("table => table.scrollWidth > table.clientWidth"), "a wide table scrolls"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page does not"
    page.get_by_label("View semicolons.csv").click()
    expect(table.locator("tbody td")).to_have_text(["1,5", "open to the end"])
    page.get_by_label("View nothing.csv").click()
    expect(page.get_by_test_id("output-viewed")).to_have_text("The file is empty.")

    page.get_by_label("View loss.png").click()
    picture = page.get_by_test_id("output-viewed").locator("img")
    expect(picture).to_have_js_property("naturalWidth", 1)
    page.get_by_label("View vector.svg").click()
    expect(page.get_by_test_id("output-viewed")).to_contain_text("<svg xmlns=")
    page.get_by_label("View vector.png").click()
    expect(page.get_by_test_id("output-viewed")).to_contain_text("It is no picture that can be shown.")
    expect(picture).to_have_count(0)
    assert page.evaluate("window.hacked") is None

    [left] = service.state.rglob("loss.png")
    left.unlink()
    page.get_by_label("View loss.png").click()
    expect(page.get_by_test_id("output-notice")).to_have_text("The file is no longer there.")


def test_metrics_have_axes_and_marks_where_the_job_was_paused(visit: Visit, service: Service) -> None:
    job = service.submit("susan", "python3", "-c", REPORTING, name="digits")
    page = visit("susan", f"jobs/{job.id}")
    chart = page.get_by_test_id("metric-loss")
    expect(chart).to_have_attribute("aria-label", re.compile("loss last 0.3333, from 0.3333 to 1"))
    expect(chart.locator("text").filter(has_text="step")).to_have_count(1)
    page.get_by_test_id("job-pause").click()
    expect(page.get_by_test_id("job-state").first).to_have_text("Paused")
    page.get_by_test_id("job-resume").click()
    expect(chart.get_by_test_id("metric-pause")).to_have_count(1)
    page.get_by_test_id("metrics-across").select_option("time")
    expect(chart.locator("text").filter(has_text="time since the first report")).to_have_count(1)
    events = page.get_by_test_id("event-row")
    expect(events.first).to_contain_text("Submitted by susan for the project vision.")
    expect(page.get_by_test_id("events")).to_contain_text("Attempt 1 paused. It was paused by susan.")
    expect(events.last).to_contain_text("Attempt 2")


def test_metrics_link_to_the_trackers_that_show_them(visit: Visit, service: Service) -> None:
    job = service.submit("susan", "python3", "-c", REPORTING, name="digits")
    page = visit("susan", "pool")
    links = {
        "MLflow": "https://mlflow.example.org/#/experiments/7/runs/1",
        "<b>TensorBoard</b>": "https://board.example.org/?runFilter=%5Ea%24#timeseries",
        "hostile": "javascript:alert(1)",
        "unknown": None,
    }
    answer = {"items": [{"name": name, "url": url} for name, url in links.items()]}
    page.route("**/tracking", lambda route: route.fulfill(json=answer))
    page.goto(f"{service.url}jobs/{job.id}")
    shown = page.get_by_test_id("tracker-link")
    expect(shown).to_have_text(["MLflow", "<b>TensorBoard</b>", "hostile"])
    expect(shown.first).to_have_attribute("href", links["MLflow"] or "")
    assert shown.last.get_attribute("href") is None


def test_somebody_elses_job_is_not_found(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="secret")
    page = visit("joe", f"jobs/{job.id}")
    expect(page.get_by_test_id("empty")).to_contain_text("no job")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.locator("body")).not_to_contain_text("secret")


@pytest.mark.parametrize(
    "path",
    ["site.js%00.css", "%00", "visuals/dom.js%00.js", "../site.js", "nothing.css", "0123456789abcdef/%00.js"],
)
def test_what_no_static_file_is_called_is_not_found(service: Service, path: str) -> None:
    answer = httpx.get(f"{service.url}static/{path}", trust_env=False)
    assert answer.status_code == 404
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


LOADED = """() => performance.getEntriesByType("resource")
  .filter((entry) => entry.name.includes("/springtide/static/"))
  .map((entry) => [entry.name, entry.transferSize])"""


def test_what_a_page_loads_is_asked_for_once(visit: Visit) -> None:
    for _ in range(2):
        page = visit("susan")
        expect(page.get_by_test_id("empty")).to_be_visible()
    loaded = dict(page.evaluate(LOADED))
    assert len(loaded) > 50
    assert not [name for name, transferred in loaded.items() if transferred]


@pytest.mark.parametrize("version", ["", "0123456789abcdef/"], ids=["without a version", "of another version"])
def test_a_file_of_a_page_from_before_an_upgrade_is_the_one_there_is_now(service: Service, version: str) -> None:
    for name in ("site.js", "visuals/base/dom.js"):
        answer = httpx.get(f"{service.url}static/{version}{name}", trust_env=False)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-cache"


def test_files_have_another_address_when_one_of_them_changes(tmp_path: Path) -> None:
    seen = set()
    for name, content in (("site.js", "1"), ("job.js", "2"), ("job.js", "3"), ("site.js", "13"), ("job.js", "")):
        (tmp_path / name).write_text(content)
        seen.add(digest([tmp_path]))
    (tmp_path / "job.js").rename(tmp_path / "jobs.js")
    seen.add(digest([tmp_path]))
    assert len(seen) == 6
    assert digest([tmp_path]) in seen


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
    expect(page.get_by_test_id("tide-reading")).to_contain_text("of 8 GPUs held")


def test_whoever_is_in_several_projects_chooses_the_default_one_and_is_told_when_it_is_lost(
    visit: Visit, service: Service
) -> None:
    page = visit("jemma", "pool")
    expect(page.get_by_test_id("glance-speech")).to_be_visible()
    expect(page.get_by_test_id("default-project")).to_have_count(0)
    service.people.groups["nlp"].append("jemma")
    page.reload()
    choice = page.get_by_label("Project of my jobs that name none")
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
    expect(page.get_by_test_id("section-queue").get_by_test_id("empty")).to_be_visible()
    expect(page.get_by_test_id("node-row")).to_have_count(2)


@pytest.fixture
def notebooks(service: Service) -> Iterator[dict[str, list[Server]]]:
    """Notebook servers of susan, one of them with a GPU, and of joe."""
    since = time.time() - 7200
    servers = {
        "susan": [Server("", "running", "/user/susan/", since, since + 7000), Server("big", "starting")],
        "joe": [Server("", "running", "/user/joe/", since, since)],
    }
    service.people.notebooks.update(servers)
    for user in servers:
        service.run(service.engine.reserve_workspace(user, "", 1, ["vision", "nlp"]))
    yield service.people.notebooks
    for user in servers:
        service.run(service.engine.release_workspace(user, ""))
    service.people.notebooks.clear()


def test_ones_workspaces_say_what_they_hold_and_can_be_stopped(
    visit: Visit, notebooks: dict[str, list[Server]]
) -> None:
    page = visit("susan", "workspaces")
    rows = page.get_by_test_id("workspace-row")
    expect(rows).to_have_count(2)
    expect(page.get_by_test_id("build-quota")).to_have_text("1 of your 1 build GPU held")
    expect(rows.first).to_contain_text("Running")
    expect(rows.first.locator("[data-label=GPUs]")).to_contain_text("1")
    expect(rows.first.locator("[data-label='running since']")).to_have_text("2 h ago")
    expect(rows.first.get_by_role("link", name="default")).to_have_attribute("href", re.compile("/user/susan/$"))
    expect(rows.nth(1)).to_contain_text("Starting")
    rows.first.get_by_test_id("workspace-stop").click()
    rows.first.get_by_test_id("workspace-confirm").click()
    expect(rows).to_have_count(1)
    assert [server.name for server in notebooks["susan"]] == ["big"]


@pytest.mark.usefixtures("notebooks")
def test_admins_see_everybodys_workspaces_and_others_only_their_own(visit: Visit, service: Service) -> None:
    page = visit("admin", "workspaces")
    expect(page.get_by_test_id("empty")).to_contain_text("You have no workspace now.")
    page.get_by_test_id("workspaces-everybody").check()
    expect(page.get_by_role("heading", level=1)).to_have_text("Everybody's workspaces")
    expect(page.get_by_test_id("workspace-row")).to_have_count(3)
    expect(page.get_by_test_id("workspace-row").first.locator("[data-label=user]")).to_have_text("joe")
    hers = visit("susan", "workspaces?whose=all")
    expect(hers.get_by_test_id("workspace-row")).to_have_count(2)
    expect(hers.get_by_test_id("workspaces-everybody")).to_have_count(0)


def test_an_unused_workspace_says_when_it_stops_can_be_kept_and_says_why_it_is_gone(
    visit: Visit, service: Service, notebooks: dict[str, list[Server]]
) -> None:
    idle = service.engine.idle_workspaces
    page = visit("susan", "workspaces")
    row = page.get_by_test_id("workspace-row").first
    expect(row.get_by_test_id("workspace-use")).to_have_text("not known")
    rule = IdleRule(tell_after=0.001, notice=1800.0)
    service.run(idle.set_rule((RuleScope.PERSON, "susan"), rule, "admin"))

    idle.report("susan", "", wire.WorkspaceActivity(idle=0.0))
    unused = Decision(Step.TELL, 7200.0, None)
    service.run(idle.tell("susan", "", unused, rule))
    page.reload()
    expect(row.get_by_test_id("workspace-use")).to_have_text(re.compile("unused for .*; stops in (30|29) min"))
    row.get_by_test_id("workspace-keep").click()
    expect(row.get_by_test_id("workspace-use")).to_have_text("used lately")
    expect(row.get_by_test_id("workspace-keep")).to_have_count(0)
    service.run(idle.tell("susan", "", unused, rule))
    service.run(idle.stopping("susan", "", unused))
    service.run(service.engine.release_workspace("susan", ""))
    notebooks["susan"].clear()
    page.reload()
    stopped = page.get_by_test_id("workspace-stopped")
    expect(stopped).to_contain_text("because its 1 GPU had not been used for 2 h.")
    service.run(idle.set_rule((RuleScope.PERSON, "susan"), None, "admin"))


@pytest.mark.usefixtures("notebooks")
def test_admins_set_the_rule_for_unused_workspaces_and_exceptions_from_it(visit: Visit, service: Service) -> None:
    page = visit("admin", "workspaces?whose=all")
    expect(page.get_by_test_id("idle-rule")).to_contain_text("nobody is told, and nothing is stopped.")
    pool = page.get_by_test_id("idle-form-pool")
    pool.get_by_test_id("idle-tell").fill("120")
    pool.get_by_test_id("idle-notice").fill("30")
    pool.get_by_test_id("idle-save-pool").click()
    said = "the owner is told after 2 h without use, and the workspace is stopped 30 min later."
    expect(page.get_by_test_id("idle-rule")).to_contain_text(said)
    new = page.get_by_test_id("idle-form-new")
    new.get_by_test_id("idle-name").fill("vision")
    new.get_by_test_id("idle-save-new").click()
    exceptions = page.get_by_test_id("idle-exceptions")
    expect(exceptions).to_contain_text("Project vision: nobody is told, and nothing is stopped.")
    assert service.engine.idle_workspaces.rule("joe", ["nlp"]).notice == 1800.0
    assert service.engine.idle_workspaces.rule("susan", ["vision"]).tell_after is None
    exceptions.get_by_role("button", name="Remove the exception for vision").click()
    expect(exceptions).to_have_count(0)
    pool.get_by_test_id("idle-tell").fill("")
    pool.get_by_test_id("idle-save-pool").click()
    expect(page.get_by_test_id("idle-rule")).to_contain_text("nobody is told")


@pytest.mark.parametrize("path", ["", "pool", "workspaces", "admin", "nowhere"])
def test_every_page_has_the_products_name_and_the_whole_navigation(visit: Visit, path: str) -> None:
    page = visit("admin", path)
    expect(page.locator("#springtide-brand")).to_have_text("Springtide")
    expect(page.locator("nav .nav-link")).to_have_text([*LINKS, "Projects and quotas", "Admin", "Token"])


def test_who_is_no_admin_finds_no_page_of_admins_in_the_navigation(visit: Visit) -> None:
    page = visit("susan", "pool")
    expect(page.locator("nav .nav-link")).to_have_text([*LINKS, "Token"])


def test_pages_take_the_theme_of_the_hub(visit: Visit) -> None:
    page = visit("joe", "pool", color_scheme="dark", apart=True)
    background = "getComputedStyle(document.body).backgroundColor"
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.evaluate(background) == "rgb(33, 37, 41)"
    page.get_by_label("Toggle dark mode").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.springtide')).colorScheme") == "light"


@pytest.mark.parametrize("path", ["", "pool", "workspaces", "admin"])
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
    expect(row(page, job).get_by_test_id("row-state")).to_have_text("Running")


def test_a_refused_stream_is_tried_again_when_the_refusal_says(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    refusal = {"status": 429, "headers": {"Retry-After": "2"}}
    page.route("**/api/v1/events*", lambda route: route.fulfill(**refusal), times=1)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    expect(page.get_by_test_id("connection")).to_have_text("Live")


def test_where_streams_do_not_get_through_the_page_asks_instead(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.route("**/api/v1/events*", lambda _route: None)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(row(page, job).get_by_test_id("row-state")).to_have_text("Running")


def test_the_page_of_a_job_that_was_cancelled_before_it_started_says_so_and_by_whom(
    visit: Visit, service: Service
) -> None:
    service.submit("susan", name="holds all", gpus=8)
    job = service.submit("susan", name="never", gpus=8)
    service.run(service.engine.cancel(job.id, "admin"))
    service.until(job.id, lambda found: found.state == "cancelled")
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_test_id("job-card")).to_contain_text("Cancelled by admin")
    expect(page.get_by_test_id("no-attempts")).to_have_text("None: the job ended before it started.")
    expect(page.get_by_test_id("no-outputs")).to_contain_text("the job wrote nothing")
    expect(page.get_by_test_id("events")).to_contain_text("It was cancelled by admin.")
    expect(page.get_by_test_id("events")).not_to_contain_text("was cancelled. It was cancelled")
