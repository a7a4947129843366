"""The page of a job: its log, outputs, metrics and attempts."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from pools.pages_service import Service, Windows

from springtide.scheduler import wire

Visit = Callable[..., Page]

REPORTING = """
import json, os, sys, time
for step in range(1, 4):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps({"at": time.time(), "step": step, "of": 60, "values": {"loss": 1 / step}}) + "\\n")
    print("epoch", step, flush=True)
with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
    report.write(json.dumps({"at": time.time(), "values": {}}) + "\\n")
time.sleep(600)
"""
"""Its last report has no step, as that of a program that pauses."""
BOTH_ATTEMPTS = re.compile(r"epoch 3\s+── attempt 2 .*epoch 3", re.DOTALL)

TRACKERS: dict[str, list[dict[str, str | None]]] = {
    "items": [
        {"name": "MLflow", "url": "https://mlflow.example.org/#/experiments/7/runs/1"},
        {"name": "<b>TensorBoard</b>", "url": "https://board.example.org/?runFilter=%5Ea%24#timeseries"},
        {"name": "hostile", "url": "javascript:alert(1)"},
        {"name": "unknown", "url": None},
    ]
}


def test_the_job_page_follows_log_progress_metrics_pauses_and_attempts_and_links_to_trackers(
    visit: Visit, windows: Windows, service: Service
) -> None:
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
    chart = page.get_by_test_id("metric-loss")
    expect(chart).to_have_attribute("aria-label", re.compile("loss last 0.3333, from 0.3333 to 1"))
    expect(chart.locator("text").filter(has_text="step")).to_have_count(1)

    page.get_by_test_id("job-pause").click()
    expect(page.get_by_test_id("job-state").first).to_have_text("Paused")
    expect(page.get_by_test_id("attempt-row").first).to_contain_text("Paused")
    page.get_by_test_id("job-resume").click()
    expect(chart.get_by_test_id("metric-pause")).to_have_count(1)
    page.get_by_test_id("metrics-across").select_option("time")
    expect(chart.locator("text").filter(has_text="time since the start")).to_have_count(1)
    page.get_by_test_id("shape-log").check()
    expect(page.get_by_test_id("shape-keys")).to_be_visible()
    chart.focus()
    page.keyboard.press("+")
    expect(page.get_by_test_id("shape-from")).not_to_have_value("")
    page.get_by_test_id("shape-whole").click()
    expect(page.get_by_test_id("shape-from")).to_have_value("")
    events = page.get_by_test_id("event-row")
    expect(events.first).to_contain_text("Submitted by “susan” for the project “vision”.")
    expect(events.get_by_text("Paused by “susan”.")).to_have_count(1)
    expect(events.get_by_text("Resumed by “susan”.")).to_have_count(1)
    expect(page.get_by_test_id("events")).to_contain_text("Attempt 1 paused.")
    expect(events.last).to_contain_text("Attempt 2")
    expect(page.get_by_test_id("log-text")).to_contain_text(BOTH_ATTEMPTS)

    page.close()
    service.run(service.engine.cancel(job.id, "susan"))
    service.until(job.id, lambda found: found.state == "cancelled")
    page = windows.open()
    page.route("**/tracking", lambda route: route.fulfill(json=TRACKERS))
    page.goto(f"{service.url}jobs/{job.id}")
    expect(page.get_by_test_id("events").get_by_text("Cancelled by “susan”.")).to_have_count(1)
    expect(page.get_by_test_id("event-row").last).to_contain_text("Attempt 2 was cancelled.")
    shown = page.get_by_test_id("tracker-link")
    expect(shown).to_have_text(["MLflow", "<b>TensorBoard</b>", "hostile"])
    expect(shown.first).to_have_attribute("href", TRACKERS["items"][0]["url"] or "")
    assert shown.last.get_attribute("href") is None
    expect(page.get_by_test_id("log-text")).to_contain_text(BOTH_ATTEMPTS)
    expect(page.get_by_test_id("section-log")).to_contain_text("the log has ended")


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
    expect(shown).to_contain_text("The code imports timm, which is not installed in /opt/lab/bin/python.")
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
    for part in (".st-muted", "[data-testid=output-download]"):
        boxes = [row.locator(part).first.bounding_box() for row in page.get_by_test_id("output-row").all()]
        assert len({round(box["x"]) for box in boxes if box}) == 1, "the rows are no columns"
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

    page.route("**/api/v1/jobs/*/output", lambda _route: None)  # so that the list still has the file
    [left] = service.state.rglob("loss.png")
    left.unlink()
    page.get_by_label("View loss.png").click()
    expect(page.get_by_test_id("output-notice")).to_have_text("The file is no longer there.")


def test_somebody_elses_job_is_not_found(visit: Visit, service: Service) -> None:
    job = service.submit("susan", name="secret")
    page = visit("joe", f"jobs/{job.id}")
    expect(page.get_by_test_id("empty")).to_contain_text("no job")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.locator("body")).not_to_contain_text("secret")


def test_the_page_of_a_job_that_was_cancelled_before_it_started_says_so_and_by_whom(
    visit: Visit, service: Service
) -> None:
    service.submit("susan", name="holds all", gpus=8)
    job = service.submit("susan", name="never", gpus=8)
    service.run(service.engine.cancel(job.id, "admin"))
    service.until(job.id, lambda found: found.state == "cancelled")
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_test_id("job-card")).to_contain_text("Cancelled by “admin”")
    expect(page.get_by_test_id("no-attempts")).to_have_text("None: the job ended before it started.")
    expect(page.get_by_test_id("no-outputs")).to_contain_text("the job wrote nothing")
    expect(page.get_by_test_id("events")).to_contain_text("It was cancelled by “admin”.")
    expect(page.get_by_test_id("events")).not_to_contain_text("was cancelled. It was cancelled")


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RESULTS = {
    "result.csv": "b'name,value\\n<script>window.hacked=1</script>,0.5\\n'",
    "result.png": f"base64.b64decode('{PIXEL}')",
    "result.txt": "b'Net(<script>window.hacked=1</script>)'",
    "result.json": "b'null'",
}


def test_what_a_function_returned_is_on_its_card(visit: Visit, service: Service) -> None:
    def page_of(name: str, kind: str = "function") -> Page:
        write = f"open(os.environ['SPRINGTIDE_OUTPUT_DIR'] + '/{name}', 'wb').write({RESULTS[name]})"
        job = service.submit("susan", "python3", "-c", f"import base64, os; {write}", kind=kind)
        service.until(job.id, lambda job: job.state == "succeeded")
        return visit("susan", f"jobs/{job.id}")

    page = page_of("result.csv")
    result = page.get_by_test_id("job-card").get_by_test_id("job-result")
    expect(result.locator("td")).to_have_text(["<script>window.hacked=1</script>", "0.5"])
    page = page_of("result.png")
    expect(page.get_by_test_id("job-result").locator("img")).to_have_js_property("naturalWidth", 1)
    page = page_of("result.txt")
    expect(page.get_by_test_id("job-result")).to_contain_text("Net(<script>window.hacked=1</script>)")
    assert page.evaluate("window.hacked") is None
    for page in (page_of("result.json"), page_of("result.txt", kind="command")):
        expect(page.get_by_test_id("output-row")).to_have_count(1)
        expect(page.get_by_test_id("job-result")).to_have_count(0)
