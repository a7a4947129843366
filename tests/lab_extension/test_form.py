"""The form in JupyterLab: it says what to expect and what is wrong, submits, and needs no kernel to be alive."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest
from benches.lab_bench import PANEL, Desk, Lab, card, expect_state
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Submission
from springtide.widgets import browser_modules
from springtide.widgets.connection import Connection
from springtide.widgets.display.document import FORM_TYPE
from springtide.widgets.shared_pool import Pool, backend_of

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

CELL = """
from springtide.widgets import pool
def learn(rate, epochs=3):
    "Learn something."
    if rate < 0:
        import msgspec
    return rate * epochs
pool.form()
"""
WIDGET = "application/vnd.jupyter.widget-view+json"
SHOW = """
async (source) => {
  const { formWidget } = await import(`data:text/javascript;base64,${btoa(unescape(encodeURIComponent(source)))}`);
  const listeners = [];
  const model = {
    on: (_event, listener) => listeners.push(listener),
    off: () => {},
    send: async ({ number, ask }) => {
      const answer = await window.kernelAnswers(ask);
      for (const hear of listeners) hear({ number, answer });
    },
  };
  formWidget.render({ model, el: document.body });
}
"""


@pytest.fixture
def people(service: ServiceProcess) -> Iterator[tuple[Client, Client]]:
    """Susan and jemma; their jobs are ended afterwards."""
    with Client(service.url, "susan") as susan, Client(service.url, "jemma") as jemma:
        yield susan, jemma
        for client in (susan, jemma):
            for job in client.all_jobs(
                mine=True, state="queued,starting,running,pausing,cancelling,ending,paused"
            ):
                with suppress(PoolError):
                    client.cancel(job.id)


BUSY = "import time; time.sleep(4)"
"""Code that no cell has: its end is seen by the state of the kernel alone."""


def form(tab: Page) -> Locator:
    """Return the form of the page."""
    return tab.get_by_test_id("job-form")


def expect_words(tab: Page, part: str, words: str) -> None:
    """Check what a part of the form says."""
    expect(form(tab).get_by_test_id(f"form-{part}")).to_contain_text(words)


def test_a_form_tells_what_to_expect_and_what_is_wrong_and_submits(
    lab: Lab, desk: Desk, people: tuple[Client, Client]
) -> None:
    _, jemma = people
    borrower = jemma.submit(Submission(argv=["sleep", "600"], cwd="/tmp", gpus=4, name="secret"))
    lab.write("form.ipynb", (CELL, None))
    tab = desk("form.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.keyboard.press("Shift+Enter")

    expect_words(tab, "estimate", "as soon as other jobs have made room")
    expect_words(
        tab, "estimate", "1 job with 4 GPUs would be paused and resumed later: a job of “jemma” in “speech”."
    )
    expect(tab.get_by_text("secret")).to_have_count(0)
    jemma.cancel(borrower.id)
    expect_words(tab, "estimate", "It would start now on 1 GPU, within the quota.")

    expect_words(tab, "reason", "rate has no default: give it a value.")
    expect(form(tab).get_by_label("epochs")).to_have_attribute("placeholder", "3")
    expect_words(tab, "environment", f"Python {platform.python_version()}, 1 package")
    tab.evaluate(f"() => void {PANEL}.sessionContext.session.kernel.requestExecute({{ code: '{BUSY}' }})")
    form(tab).get_by_label("rate").fill("fast")
    expect_words(tab, "reason", "The kernel is busy")
    expect_words(tab, "argument-rate-wrong", "neither a plain value nor a variable of the notebook")
    form(tab).get_by_label("rate").fill("14")
    expect(form(tab).get_by_test_id("form-submit")).to_be_enabled()

    gpus = form(tab).get_by_label("GPUs", exact=True)
    gpus.fill("400")
    expect_words(tab, "gpus-wrong", "You asked for 400 GPUs per worker, but the largest train node has 4.")
    expect_words(tab, "reason", "Correct first: GPUs.")
    expect(form(tab).get_by_test_id("form-submit")).to_be_disabled()
    expect(gpus).to_have_value("400")
    gpus.fill("4")
    expect_words(tab, "estimate", "It would start now on 4 GPUs: 2 within the quota, 2 borrowed.")
    gpus.press("Enter")
    form(tab).get_by_test_id("form-submit").press("Space")
    expect(card(tab).get_by_test_id("job-name")).to_have_text("learn")
    expect_state(tab, "Succeeded")
    expect_words(tab, "reason", "Submitted.")


def test_a_saved_form_is_alive_without_its_kernel_and_says_what_needs_one(
    lab: Lab, desk: Desk, people: tuple[Client, Client], steps: str
) -> None:
    (lab.root / "steps.py").write_text(steps)
    gone = {WIDGET: {"model_id": "gone", "version_major": 2, "version_minor": 0}}
    lab.write("saved-form.ipynb", (CELL, {FORM_TYPE: {}, **gone, "text/plain": "A form"}))
    tab = desk("saved-form.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    expect_words(tab, "reason", "Define a function in a cell and run it")
    tab.evaluate(f"async () => {{ await {PANEL}.sessionContext.shutdown(); }}")
    expect_words(tab, "reason", "none is running")
    expect(tab.get_by_text("Error displaying widget")).to_have_count(0)

    form(tab).get_by_label("Command").check()
    expect_words(tab, "reason", "Say what to run")
    form(tab).get_by_test_id("form-command").fill("python steps.py")
    expect_words(tab, "environment", "Runs with Python")
    form(tab).get_by_test_id("form-environment").locator("summary").click()
    expect(form(tab).get_by_test_id("environment")).to_contain_text("files copied")
    form(tab).get_by_text("More options").click()
    form(tab).get_by_label("Name").fill("from the form")
    form(tab).get_by_label("Time limit").fill("soon")
    expect_words(tab, "time_limit-wrong", "expected a duration")
    form(tab).get_by_label("Time limit").fill("10m")
    form(tab).get_by_test_id("form-submit").click()
    expect(card(tab).get_by_test_id("job-name")).to_have_text("from the form")
    expect_state(tab, "Running")
    susan, _ = people
    (job,) = susan.jobs(state="running", mine=True).items
    assert (job.name, job.options.time_limit) == ("from the form", 600.0)


def test_a_form_that_could_not_be_opened_opens_by_itself(lab: Lab, context: BrowserContext) -> None:
    lab.write("late-form.ipynb", (CELL, {FORM_TYPE: {}, "text/plain": "A form"}))
    refused = Counter[str]()

    def refuse(route: Route) -> None:
        refused[route.request.method] += 1
        if refused[route.request.method] == 1:
            route.fulfill(status=503, json={"status": 503, "code": "unreachable", "message": "No pool yet."})
        else:
            route.fallback()

    context.route("**/springtide/form?*", refuse)
    tab = lab.open(context, "late-form.ipynb")
    expect_words(tab, "waiting", "No pool yet.")
    expect(form(tab).get_by_label("GPUs", exact=True)).to_have_value("1")
    context.unroute("**/springtide/form?*")


def test_where_no_extension_draws_it_the_form_asks_its_kernel(
    context: BrowserContext, people: tuple[Client, Client]
) -> None:
    susan, _ = people
    pool = Pool(Connection(susan))
    tab = context.new_page()
    tab.expose_function("kernelAnswers", backend_of(pool, dict).answer)
    tab.evaluate(SHOW, browser_modules.bundle("notebook/form_widget.js"))
    expect_words(tab, "reason", "Define a function in a cell and run it")
    form(tab).get_by_label("GPUs", exact=True).fill("4")
    expect_words(tab, "estimate", "It would start now on 4 GPUs: 2 within the quota, 2 borrowed.")
    form(tab).get_by_label("Command").check()
    form(tab).get_by_test_id("form-command").fill("sleep 600")
    expect_words(tab, "environment", "Runs with")
    form(tab).get_by_test_id("form-submit").click()
    expect_words(tab, "reason", "Submitted.")
    assert [job.options.gpus for job in susan.jobs(state="queued,starting,running", mine=True).items] == [4]


def test_keys_in_a_form_reach_the_form_alone(lab: Lab, desk: Desk) -> None:
    lab.write("keys.ipynb", (CELL, {FORM_TYPE: {}, "text/plain": "A form"}), ("1", None))
    tab = desk("keys.ipynb")
    cells = tab.locator(".jp-Notebook-cell")
    expect(cells).to_have_count(2)
    form(tab).get_by_role("radio", name="Command").check()
    tab.keyboard.press("ArrowUp")
    expect(form(tab).get_by_role("radio", name="Function")).to_be_focused()
    for key in ("b", "x", "d", "d"):
        tab.keyboard.press(key)
    tab.keyboard.press("ArrowDown")
    expect(form(tab).get_by_role("radio", name="Command")).to_be_checked()
    expect(form(tab).get_by_role("radio", name="Command")).to_be_focused()
    expect(cells).to_have_count(2)
    tab.keyboard.press("Control+s")
    expect(tab.locator(".jp-mod-dirty")).to_have_count(0)
