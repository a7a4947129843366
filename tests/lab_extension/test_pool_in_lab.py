"""The pool in the frame of JupyterLab: side panel, status bar, and what sends jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from benches.lab_bench import PANEL, Desk, Lab, card
from hostile.hostile_text import MARKUP, expect_only_text
from playwright.sync_api import BrowserContext, Page, Route, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Job

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]


@pytest.fixture
def susan(service: ServiceProcess) -> Iterator[Client]:
    """Susan; her jobs are ended afterwards."""
    with Client(service.url, "susan") as susan:
        yield susan
        for job in susan.all_jobs(mine=True, state="queued,starting,running,pausing,cancelling,ending,paused"):
            with suppress(PoolError):
                susan.cancel(job.id)


def send(tab: Page, gpus: int) -> None:
    """Fill in the dialog, and send when it has said what to expect."""
    tab.get_by_role("dialog").get_by_test_id("form-gpus").fill(str(gpus))
    expect(tab.get_by_test_id("send-words")).to_contain_text("It would ")
    tab.get_by_role("button", name="Send", exact=True).click()


def test_the_pool_is_in_the_frame_although_the_network_changed_while_the_page_was_loaded(
    lab: Lab, context: BrowserContext
) -> None:
    """The browser then ends with an error what it loads, and remembers which modules it could not load."""
    lab.write("moving.ipynb", ("1", None))
    ended: list[str] = []

    def end(route: Route) -> None:
        ended.append(route.request.url)
        route.abort("internetdisconnected") if len(ended) < 3 else route.fallback()

    context.route("**/visuals/live/pool_feed.js", end)
    tab = lab.open(context, "moving.ipynb")
    expect(tab.get_by_test_id("pool-status")).to_have_text("Pool: 0 of 4 GPUs held")
    context.unroute("**/visuals/live/pool_feed.js")
    assert len({*ended}) == 3


def test_the_panel_says_that_an_answer_is_overdue_and_what_helps_until_it_comes(
    lab: Lab, context: BrowserContext
) -> None:
    lab.write("late.ipynb", ("1", None))
    held: list[Route] = []
    holding = True
    context.route(
        "**/springtide/api/v1/jobs?*", lambda route: held.append(route) if holding else route.continue_()
    )
    tab = lab.open(context, "late.ipynb")
    expect(tab.get_by_test_id("pool-status")).to_be_visible()
    tab.evaluate("() => window.jupyterapp.commands.execute('springtide:show-pool')")
    stale = tab.get_by_test_id("panel-stale")
    expect(stale).to_contain_text("An answer of the pool is overdue.")
    expect(stale).to_contain_text("close tabs of it that still load")
    holding = False
    for route in held:
        route.continue_()
    expect(tab.get_by_test_id("panel-mine")).to_be_visible()
    expect(stale).to_have_count(0)
    context.unroute("**/springtide/api/v1/jobs?*")


def test_the_pool_and_my_jobs_are_in_the_frame_and_jobs_are_sent_from_it(
    lab: Lab, desk: Desk, susan: Client, submit: Callable[..., Job]
) -> None:
    (lab.root / "train.py").write_text("import time; time.sleep(600)")
    lab.write("frame.ipynb", ("rate = 6\nrate * 7", None))
    running = submit(MARKUP, 4)
    tab = desk("frame.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    expect(tab.get_by_test_id("pool-status")).to_have_text("Pool: 4 of 4 GPUs held")

    tab.locator(".jp-DirListing-item", has_text="train.py").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    send(tab, 2)
    tab.locator(".lm-TabBar-tab[title='The pool']").click()
    rows = tab.get_by_test_id("panel-mine").get_by_test_id("job-row")
    expect(rows.nth(1)).to_contain_text("train")
    expect(tab.get_by_test_id("panel-line")).to_contain_text("train is next")
    expect(tab.get_by_test_id("panel-pool")).to_contain_text("4 of 4 train GPUs held")
    expect(rows.first).to_contain_text(MARKUP)
    expect_only_text(tab, "[data-testid=pool-panel]")
    link = tab.locator(f"[data-job='{running.id}']").get_by_role("link")
    expect(link).to_have_attribute("href", f"/pages/jobs/{running.id}")

    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.get_by_title("Run this cell as a job in the shared pool").first.click()
    send(tab, 1)
    expect(card(tab).get_by_test_id("job-name")).to_have_text("cell")
    susan.cancel(running.id)
    expect(card(tab).get_by_test_id("job-state")).to_contain_text("Succeeded")
    ended = tab.get_by_test_id("panel-ended").get_by_test_id("job-row")
    expect(ended.first).to_have_attribute("data-state", "succeeded")


def test_a_notebook_with_unsaved_changes_is_saved_when_it_is_sent(lab: Lab, desk: Desk) -> None:
    lab.write("changed.ipynb", ("rate = 6", None))
    tab = desk("changed.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    tab.evaluate(f"() => {PANEL}.content.activeCell.model.sharedModel.setSource('rate = 7')")
    tab.wait_for_function(f"() => {PANEL}.context.model.dirty")
    tab.locator(".jp-DirListing-item", has_text="changed.ipynb").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    send(tab, 1)
    expect(tab.get_by_text("Sent changed.ipynb to the pool.").first).to_be_visible()
    assert "rate = 7" in (lab.root / "changed.ipynb").read_text()
