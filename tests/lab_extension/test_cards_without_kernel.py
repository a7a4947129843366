"""Cards live as long as the page: kernel, network and service may come and go."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from benches.lab_bench import PANEL, Desk, Lab, card, expect_state, expect_to_go_on
from hostile.hostile_text import HOSTILE, SHOWN, expect_only_text
from playwright.sync_api import BrowserContext, Page, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job
from springtide.widgets.connection import Connection
from springtide.widgets.display.document import JOB_TYPE
from springtide.widgets.job import Job as Handle
from springtide.widgets.shared_pool import Pool

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

CELL = """
from springtide.widgets import pool
pool.submit("python steps.py", gpus=1, name="from a cell")
"""

LEAVING = f"""
import base64, csv, os
os.chdir(os.environ["SPRINGTIDE_OUTPUT_DIR"])
text = {HOSTILE!r}
with open(text.replace("/", "|") + "#1%2f?.csv", "w") as table:
    csv.writer(table).writerows([["name", "loss"], [text, 0.5]])
for name in ("report.html", "vector.svg", "run.ipynb", "weights.bin"):
    with open(name, "w") as file:
        file.write("<svg onload='window.hacked=1'><script>window.hacked=1</script></svg>")
pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
with open("loss.png", "wb") as picture:
    picture.write(base64.b64decode(pixel))
"""


def output_of(service: ServiceProcess, job: Job) -> dict[str, Any]:
    return Handle(job.id, Connection(Client(service.url, "susan")))._repr_mimebundle_()


def path_of(url: str) -> str:
    """Return what of the pool's API is asked for."""
    return url.partition("/springtide/api/v1/")[2].partition("?")[0]


def save_and_close(tab: Page) -> None:
    """Save the notebook, shut its kernel down, and close the tab."""
    tab.evaluate(f"async () => {{ await {PANEL}.context.save(); await {PANEL}.sessionContext.shutdown(); }}")
    tab.close()


def test_a_card_outlives_its_kernel_and_its_page(lab: Lab, context: BrowserContext, steps: str) -> None:
    (lab.root / "steps.py").write_text(steps)
    lab.write("tomorrow.ipynb", (CELL, None))
    tab = lab.open(context, "tomorrow.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.keyboard.press("Shift+Enter")
    expect_state(tab, "Running")

    tab.evaluate(f"() => {PANEL}.sessionContext.session.kernel.restart()")
    expect_to_go_on(tab)
    card(tab).get_by_test_id("job-pause").click()
    expect_state(tab, "Paused")
    save_and_close(tab)

    tab = lab.open(context, "tomorrow.ipynb", "notebook")
    expect_state(tab, "Paused")
    card(tab).get_by_test_id("job-resume").click()
    expect_state(tab, "Running")
    expect_to_go_on(tab)
    card(tab).get_by_test_id("job-cancel").click()
    card(tab).get_by_test_id("job-confirm").click()
    expect_state(tab, "Cancelled")


def test_cards_say_that_the_pool_is_away_and_come_back_by_themselves(
    lab: Lab, context: BrowserContext, service: ServiceProcess, submit: Callable[..., Job]
) -> None:
    """Two tabs; the network of the browser, then the service, go away and come back."""
    job = submit("long")
    for name in ("first.ipynb", "second.ipynb"):  # two tabs of one file would ask whose changes are to be saved
        lab.write(name, ("job", output_of(service, job)))
    first, second = lab.open(context, "first.ipynb"), lab.open(context, "second.ipynb", "notebook")
    for tab in (first, second):
        expect_state(tab, "Running")
        expect_to_go_on(tab)
    # A kernel that cannot start asks for another one, in front of the card.
    first.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")

    context.set_offline(True)
    for tab in (first, second):
        expect(card(tab).get_by_test_id("job-blocked")).to_contain_text("as it was")
        expect(card(tab).get_by_test_id("job-pause")).to_be_disabled()
    context.set_offline(False)
    for tab in (first, second):
        expect(card(tab).get_by_test_id("job-blocked")).to_have_count(0)
        expect_to_go_on(tab)

    service.kill()
    expect(card(first).get_by_test_id("job-blocked")).to_contain_text("The pool does not answer")
    service.start()
    expect(card(first).get_by_test_id("job-blocked")).to_have_count(0)
    expect_to_go_on(first)
    expect_state(first, "Running")

    card(first).get_by_test_id("job-cancel").click()
    card(first).get_by_test_id("job-confirm").click()
    for tab in (first, second):
        expect_state(tab, "Cancelled")


def test_cards_of_a_page_fetch_only_what_their_common_stream_leaves_out(
    lab: Lab, context: BrowserContext, service: ServiceProcess, submit: Callable[..., Job]
) -> None:
    job = submit("twice")
    pool = Pool(Connection(Client(service.url, "susan")))._repr_mimebundle_()
    shown = output_of(service, job)
    lab.write("twice.ipynb", ("job", shown), ("job", shown), ("pool", pool))
    asked: list[str] = []
    context.on("request", lambda request: asked.append(path_of(request.url)))
    tab = lab.open(context, "twice.ipynb")
    expect(tab.get_by_test_id("job-card")).to_have_count(2)
    expect_state(tab, "Running")
    for _ in range(3):
        expect_to_go_on(tab)
    breaks = asked.count("pool")  # a stream begins with the pool, which is read after a break alone
    assert asked.count(f"jobs/{job.id}") <= breaks + 1, "once for both cards, and once after each break"
    assert asked.count("me") == 1
    expect(tab.get_by_test_id("pool-card")).to_contain_text("1 of 4 train GPUs held")
    expect(card(tab).get_by_role("link", name="twice")).to_have_attribute("href", f"/pages/jobs/{job.id}")


def test_the_files_of_a_job_are_on_its_card_and_a_job_that_is_not_there_is_said_to_be_missing(
    lab: Lab, context: BrowserContext, desk: Desk, service: ServiceProcess, submit: Callable[..., Job]
) -> None:
    job, bare = submit("digits", program=LEAVING), submit("bare", program="")
    missing = output_of(service, bare)
    missing[JOB_TYPE]["job"]["id"] = "unknown00000"
    broken = {JOB_TYPE: {"job": 7}, "text/plain": "the text of the output"}
    cells = [("job", output_of(service, job)), ("bare", output_of(service, bare)), ("missing", missing)]
    lab.write("files.ipynb", *cells, ("broken", broken))
    asked: list[str] = []
    context.on("request", lambda request: asked.append(path_of(request.url)))
    tab = desk("files.ipynb")
    expect_state(tab, "Succeeded")
    assert f"jobs/{job.id}/output" not in asked, "files are listed when they are asked for"
    fold = card(tab).get_by_test_id("job-outputs")
    fold.locator("summary").click()
    expect(fold.get_by_test_id("output-row")).to_have_count(6)
    fold.get_by_label(f"View {SHOWN}".replace("/", "|")).click()
    viewed = fold.get_by_test_id("output-viewed")
    expect(viewed.locator("td")).to_have_text([SHOWN, "0.5"])
    expect_only_text(tab, "[data-testid=job-card]")
    fold.get_by_label("View loss.png").click()
    expect(viewed.locator("img")).to_have_js_property("naturalWidth", 1)
    for name in ("report.html", "vector.svg"):
        fold.get_by_label(f"View {name}").click()
        expect(viewed.locator("pre")).to_contain_text("<script>window.hacked=1</script>")
    notebook = fold.get_by_label("View run.ipynb on the job's page")
    expect(notebook).to_have_attribute("href", f"/pages/jobs/{job.id}")
    with tab.expect_download() as downloaded:
        fold.get_by_label("Download weights.bin").click()
    assert downloaded.value.suggested_filename == "weights.bin"
    assert "<script>" in downloaded.value.path().read_text()
    assert tab.evaluate("window.hacked") is None

    empty = tab.get_by_test_id("job-outputs").nth(1)
    empty.locator("summary").click()
    expect(empty.get_by_test_id("no-outputs")).to_contain_text("No outputs: the job wrote nothing")

    lost = tab.get_by_test_id("job-card").nth(2)
    expect(lost.get_by_test_id("job-blocked")).to_have_text(
        re.compile(
            r"^You may not see this job, or the pool does not have it any more: "
            r"My jobs lists those that you see\. "
            r"The card shows the job as it was (just now|.+ ago)\.$"
        )
    )
    expect(lost.get_by_test_id("job-cancel")).to_be_disabled()
    expect(tab.get_by_text("another version of Springtide")).to_be_visible()


SAVING = """
import sys
from springtide.training import current_job
job = current_job()
found = job.restore()
print("has", found.step if found else 0, *sys.argv[1:])
for step in (1, 2):
    job.save(step, step=step)
"""


def test_a_job_is_forked_on_its_card_and_the_card_of_the_fork_follows(
    lab: Lab, context: BrowserContext, desk: Desk, service: ServiceProcess, submit: Callable[..., Job]
) -> None:
    job = submit("saving", program=SAVING, options=["--rate", "0.1"])
    lab.write("fork.ipynb", ("job", output_of(service, job)))
    asked: list[str] = []
    context.on("request", lambda request: asked.append(path_of(request.url)))
    tab = desk("fork.ipynb")
    expect_state(tab, "Succeeded")
    assert f"jobs/{job.id}/checkpoints" not in asked, "checkpoints are listed when they are asked for"
    fold = card(tab).get_by_test_id("job-checkpoints")
    fold.locator("summary").click()
    expect(fold.get_by_test_id("checkpoint-row")).to_have_count(2)
    fold.get_by_label("Fork step 1").click()
    fold.get_by_test_id("form-arguments.rate").fill("0.5")
    fold.get_by_test_id("rerun-send").click()
    below = tab.get_by_test_id("job-card").nth(1)
    expect(below.get_by_test_id("job-first")).to_contain_text("Fork of “saving” at step 1: rate 0.1 → 0.5.")
    expect(below.get_by_test_id("job-state")).to_contain_text("Succeeded")
