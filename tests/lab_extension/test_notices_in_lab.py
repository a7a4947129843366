"""Notices of one's jobs in JupyterLab."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence

import httpx
import pytest
from benches.lab_bench import Lab, card
from hostile.hostile_text import MARKUP, expect_only_text
from hubs.hub_people import until
from patience import PATIENCE_S
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

FAILS = "raise ValueError('no batch of 7')"
MANY = 12
ENDED = ("failed", "succeeded")
UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"
HIDDEN = """hidden => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
Choose = Callable[..., None]
Submit = Callable[..., Job]


@pytest.fixture(autouse=True)
def quiet(service: ServiceProcess) -> Iterator[None]:
    """The jobs of a test end before the pages of the next one open, which have no notices of earlier events."""
    yield
    with Client(service.url, "susan") as susan:
        until("the end of all jobs", lambda: not susan.jobs(mine=True, state=UNFINISHED).items)


@pytest.fixture
def choose(service: ServiceProcess) -> Iterator[Choose]:
    """Choose susan's events of the channel JupyterLab; afterwards they are those that she had."""
    with httpx.Client(base_url=f"{service.url}api/v1/", headers={"Authorization": "token susan"}) as susan:

        def choose(*events: str) -> None:
            edit = {"events": {"jupyterlab": events}}
            susan.patch("notifications", json=edit, timeout=PATIENCE_S).raise_for_status()

        yield choose
        choose("ended", "failed", "paused", "resumed")


def opened(lab: Lab, context: BrowserContext, name: str) -> Page:
    """Return a tab of JupyterLab that follows the pool, and shows a notebook."""
    lab.write(name, ("1", None))
    tab = lab.open(context, name)
    expect(tab.locator(".jp-CodeCell").first).to_be_visible()
    expect(tab.get_by_test_id("pool-status")).to_contain_text("GPUs held")
    return tab


def notices(tab: Page, words: str = "") -> Locator:
    """Return the notices on the screen that contain the words."""
    return tab.locator(".Toastify__toast", has_text=words)


def unread(tab: Page) -> Locator:
    """Return the bell of a tab, with the number of its notices."""
    return tab.locator(".jp-Notification-Status")


def focused(tab: Page, has_focus: bool) -> None:
    """Give a tab the focus, or take it away: a browser that is driven says that all tabs have it."""
    tab.evaluate("focus => { document.hasFocus = () => focus; }", has_focus)


def showing(tabs: Sequence[Page], words: str) -> Page:
    """Wait for a notice in one of the tabs; return that tab."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for tab in tabs:
            if notices(tab, words).count():
                return tab
        tabs[0].wait_for_timeout(100)
    raise AssertionError([notices(tab).all_inner_texts() for tab in tabs])


def test_a_failure_is_one_notice_in_all_tabs_with_its_error_and_leads_to_the_log_in_a_tab(
    lab: Lab, context: BrowserContext, submit: Submit
) -> None:
    tabs = [opened(lab, context, name) for name in ("first.ipynb", "second.ipynb")]
    for tab in tabs:
        focused(tab, False)
    job = submit(MARKUP, program=FAILS)
    tab = showing(tabs, "failed.")
    expect(notices(tab)).to_contain_text(f"The job “{MARKUP}” failed. ValueError: no batch of 7")
    expect_only_text(tab)
    submit("marker", program=FAILS)
    showing(tabs, "The job “marker” failed.")
    assert sum(notices(each, "no batch of 7").count() for each in tabs) == 2, "each of the two jobs once"
    notices(tab, "img").get_by_role("button", name="Log").click()
    page = tab.locator(f"[data-job-tab='{job.id}']")
    expect(page.get_by_test_id("job-state")).to_contain_text("Failed")
    expect(page.get_by_test_id("job-log")).to_have_attribute("open", "")
    expect(page.get_by_test_id("job-log")).to_contain_text("no batch of 7")
    tab.reload()
    expect(tab.get_by_test_id("pool-status")).to_contain_text("GPUs held")
    submit("later", program=FAILS)
    showing(tabs, "The job “later” failed.")
    expect(notices(tab, "img")).to_have_count(0)


def test_a_notice_pops_up_in_the_window_with_the_focus_and_is_counted_in_all_windows(
    lab: Lab, browser: Browser, submit: Submit
) -> None:
    with browser.new_context() as forgotten, browser.new_context() as used:
        first, second = opened(lab, forgotten, "forgotten.ipynb"), opened(lab, used, "used.ipynb")
        focused(first, False)
        second.evaluate(HIDDEN, True)
        submit("early", program=FAILS)
        expect(notices(first, "The job “early” failed.")).to_be_visible()
        second.evaluate(HIDDEN, False)
        expect(notices(second, "The job “early” failed.")).to_be_visible()
        first.evaluate(HIDDEN, True)
        submit("late", program=FAILS)
        expect(notices(second, "The job “late” failed.")).to_be_visible()
        first.evaluate(HIDDEN, False)
        for tab in (first, second):
            expect(unread(tab)).to_contain_text("2")
        expect(notices(first, "late")).to_have_count(0)


def test_a_pause_for_another_project_and_the_resumption_are_notices(
    lab: Lab, context: BrowserContext, service: ServiceProcess, submit: Submit
) -> None:
    tab = opened(lab, context, "pauses.ipynb")
    job = submit("borrower", gpus=4, program="import time; time.sleep(600)")
    with Client(service.url, "susan") as susan, Client(service.url, "jemma") as jemma:
        while susan.job(job.id).state != "running":
            tab.wait_for_timeout(100)
        owner = jemma.submit(Submission(argv=["sleep", "600"], project="speech", gpus=2, name="owner"))
        expect(notices(tab, "The job “borrower” was paused.")).to_contain_text(
            "The project “speech” asked for its 2 GPUs"
        )
        jemma.cancel(owner.id)
    expect(notices(tab, "The job “borrower” starts again from the beginning.")).to_be_visible()


def test_one_s_own_actions_are_no_notices(
    lab: Lab, context: BrowserContext, submit: Submit, choose: Choose
) -> None:
    choose("ended", "failed", "paused", "resumed", "succeeded-soon")
    tab = opened(lab, context, "own.ipynb")
    job = submit("mine")
    tab.evaluate("id => window.jupyterapp.commands.execute('springtide:open-job', { job: id })", job.id)
    for click, state in (("pause", "Paused"), ("resume", "Running"), ("cancel", None)):
        card(tab).get_by_test_id(f"job-{click}").click()
        if state:
            expect(card(tab).get_by_test_id("job-state")).to_contain_text(state)
    card(tab).get_by_test_id("job-confirm").click()
    expect(card(tab).get_by_test_id("job-state")).to_contain_text("Cancelled")
    submit("marker", program="pass")
    expect(notices(tab)).to_have_text([re.compile("The job “marker” succeeded[.]")])


def test_a_burst_of_ends_is_one_notice_that_counts_them_and_leads_to_the_table(
    lab: Lab, context: BrowserContext, service: ServiceProcess, submit: Submit, choose: Choose
) -> None:
    choose("failed", "succeeded-soon", "ended")  # the last one if the machine is slow
    tab = opened(lab, context, "burst.ipynb")
    tab.evaluate(HIDDEN, True)  # a page that is seen shows apart what a slow machine ends apart
    jobs = [submit(f"burst {number}", gpus=0, program=FAILS if number % 2 else "pass") for number in range(MANY)]
    with Client(service.url, "susan") as susan:
        until("all have ended", lambda: all(susan.job(job.id).state in ENDED for job in jobs))
    tab.evaluate(HIDDEN, False)
    summary = notices(tab, f"{MANY} events of your jobs")
    expect(summary).to_contain_text(re.compile("(?=.*failed)(?=.*ended)"))
    expect(notices(tab, "The job")).to_have_count(0)
    summary.get_by_role("button", name="My Jobs").click()
    expect(tab.get_by_test_id("job-list").get_by_test_id("row-name").first).to_contain_text("burst")


def test_only_chosen_events_are_notices_and_a_page_out_of_sight_keeps_them(
    lab: Lab, context: BrowserContext, submit: Submit, choose: Choose
) -> None:
    choose("succeeded-soon", "ended")  # the second if the machine is slow
    tab = opened(lab, context, "chosen.ipynb")
    tab.evaluate(HIDDEN, True)
    submit("failing", program=FAILS)
    job = submit("fine", program="pass")
    tab.evaluate("id => window.jupyterapp.commands.execute('springtide:open-job', { job: id })", job.id)
    expect(card(tab).get_by_test_id("job-state")).to_contain_text("Succeeded")
    expect(notices(tab)).to_have_count(0)
    tab.evaluate(HIDDEN, False)
    expect(notices(tab).filter(has_text="The job “fine” succeeded.")).to_be_visible()
    expect(notices(tab).filter(has_text="failing")).to_have_count(0)
