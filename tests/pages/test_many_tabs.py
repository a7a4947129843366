"""Many tabs of one browser: they share one event stream, whatever becomes of the tab that was first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from browsers.browser import launched
from browsers.shown_notices import MORE_THAN_HIDDEN_MS, set_hidden
from patience import PATIENCE_S
from playwright.sync_api import Browser, Error, Page, Route, expect
from pools.pages_service import PERSON, WITHOUT_SHARED_WORKERS, Service, Windows

from springtide.scheduler.wire import Job

TABS = 8
"""Number of tabs: a browser opens six connections to one server, and the pages need some to load."""
WORKER_TARGET = "shared_worker"

Tabs = Callable[..., list[Page]]


@pytest.fixture
def tabs(windows: Windows, service: Service) -> Tabs:
    """Opens pages as tabs of one browser, in which one person is logged in and no other test has left anything."""

    def tabs(*paths: str, person: str = "susan", script: str = "") -> list[Page]:
        first = windows.open(apart=True)
        context = first.context
        if script:
            context.add_init_script(script)
        return opened(service, [first, *(context.new_page() for _ in paths[1:])], *paths, person=person)

    return tabs


def opened(service: Service, tabs: list[Page], *paths: str, person: str = "susan") -> list[Page]:
    """Open pages of the service as a person in empty tabs of one window; return the tabs."""
    tabs[0].context.add_cookies([{"name": PERSON, "value": person, "url": service.url}])
    for page, path in zip(tabs, paths, strict=True):
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(service.url + path)
    return tabs


def streams(service: Service) -> int:
    return service.engine.events.stats.subscribers


def until_streams(service: Service, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while streams(service) != number:
        assert time.monotonic() < deadline, f"{streams(service)} streams are open"
        time.sleep(0.05)


def expect_live(*pages: Page) -> None:
    for page in pages:
        expect(page.get_by_test_id("connection")).to_have_text("Live")
        expect(page.locator("#page:not([aria-busy])")).to_be_visible()


def expect_to_show(service: Service, name: str, *pages: Page) -> Job:
    """Check that a job is on the pages as soon as it is submitted."""
    job = service.submit("susan", name=name)
    for page in pages:
        expect(page.locator("#page")).to_contain_text(name)
    return job


def pages_of(number: int) -> list[str]:
    return [("pool", "jobs/")[place % 2] for place in range(number)]


def test_all_of_eight_tabs_are_live_and_hear_what_happens_on_one_stream(tabs: Tabs, service: Service) -> None:
    job = service.submit("susan", name="first")
    opened = tabs(*pages_of(TABS - 3), f"jobs/{job.id}", "workspaces", "notifications")
    expect_live(*opened)
    assert streams(service) == 1
    expect_to_show(service, "news", *opened[: TABS - 3])
    service.end_jobs()
    expect(opened[TABS - 3].get_by_test_id("job-state").first).to_contain_text("Cancelled")
    expect_live(*opened)
    assert streams(service) == 1


def test_the_page_of_a_job_is_told_of_that_job_alone(tabs: Tabs, service: Service) -> None:
    one, other = service.submit("susan", name="one"), service.submit("susan", name="other")
    asked: list[str] = []
    lists, page = tabs("jobs/", f"jobs/{one.id}")
    expect_live(lists, page)
    page.on("request", lambda request: asked.append(request.url))
    service.run(service.engine.cancel(other.id, "susan"))
    expect(lists.locator(f"[data-job='{other.id}']")).to_have_count(0)  # the list has active jobs
    service.run(service.engine.cancel(one.id, "susan"))
    expect(page.get_by_test_id("job-state").first).to_contain_text("Cancelled")
    assert [url for url in asked if other.id in url] == []


def test_the_others_go_on_when_the_first_tab_is_closed(tabs: Tabs, service: Service) -> None:
    first, *others = tabs(*pages_of(3))
    expect_live(first, *others)
    first.close()
    expect_to_show(service, "later", *others)
    expect_live(*others)
    assert streams(service) == 1
    for page in others:
        page.close()
    until_streams(service, 0)


def test_the_others_go_on_when_the_first_tab_crashes_and_miss_nothing(service: Service, browser: Browser) -> None:
    with launched(browser.browser_type, processes_apart=True) as apart, apart.new_context() as window:
        first, *others = opened(service, [window.new_page() for _ in range(3)], *pages_of(3))
        expect_live(first, *others)
        with suppress(Error):
            first.goto("chrome://crash")
        expect_to_show(service, "after the crash", *others)
        expect_live(*others)
        until_streams(service, 1)


@contextmanager
def worker_of(browser: Browser) -> Iterator[Callable[[str], None]]:
    """Give what runs an expression in the shared worker."""
    session = browser.new_browser_cdp_session()
    targets = session.send("Target.getTargets")["targetInfos"]
    [worker] = [target["targetId"] for target in targets if target["type"] == WORKER_TARGET]
    attached = session.send("Target.attachToTarget", {"targetId": worker, "flatten": False})["sessionId"]

    def run(expression: str) -> None:
        message = f'{{"id": 1, "method": "Runtime.evaluate", "params": {{"expression": "{expression}"}}}}'
        session.send("Target.sendMessageToTarget", {"sessionId": attached, "message": message})

    yield run
    session.detach()


def test_when_the_worker_ends_the_tabs_start_another_and_miss_nothing(
    tabs: Tabs, service: Service, browser: Browser
) -> None:
    opened = tabs(*pages_of(2))
    expect_live(*opened)
    with worker_of(browser) as run:
        run("self.close()")
    expect_to_show(service, "meanwhile", *opened)
    expect_live(*opened)
    until_streams(service, 1)


def test_hidden_tabs_have_no_stream_and_catch_up_when_they_are_seen_again(
    windows: Windows, service: Service
) -> None:
    page = windows.open(apart=True)
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.clock.install()
    page.goto(f"{service.url}jobs/")
    expect_live(page)
    set_hidden(page, hidden=True)
    assert streams(service) == 1
    page.clock.fast_forward(MORE_THAN_HIDDEN_MS)
    until_streams(service, 0)
    service.submit("susan", name="unseen")
    set_hidden(page, hidden=False)
    expect(page.locator("#page")).to_contain_text("unseen")
    expect_live(page)
    until_streams(service, 1)


def test_where_a_browser_has_no_shared_workers_the_pages_in_front_are_live_and_say_so(
    tabs: Tabs, service: Service
) -> None:
    page, other = tabs("jobs/", "pool", script=WITHOUT_SHARED_WORKERS)
    for each in (page, other):
        expect(each.get_by_test_id("connection")).to_have_text("Live while this page is in front")
    assert streams(service) == 2
    expect_to_show(service, "alone", page, other)
    set_hidden(other, hidden=True)
    until_streams(service, 1)
    service.end_jobs()
    set_hidden(other, hidden=False)
    expect(other.get_by_test_id("holder-row")).to_have_count(0)
    until_streams(service, 2)


def test_two_people_in_two_browsers_have_a_stream_each_and_hear_of_their_own(tabs: Tabs, service: Service) -> None:
    [hers] = tabs("jobs/")
    [his] = tabs("jobs/", person="joe")
    expect_live(hers, his)
    assert streams(service) == 2
    expect_to_show(service, "hers", hers)
    his_job = service.submit("joe", name="his")
    expect(his.locator(f"[data-job='{his_job.id}']")).to_be_visible()
    expect(his.locator("#page")).not_to_contain_text("hers")
    expect(hers.locator(f"[data-job='{his_job.id}']")).to_have_count(0)


def test_all_tabs_recover_when_the_streams_break(tabs: Tabs, service: Service) -> None:
    opened = tabs(*pages_of(3))
    expect_live(*opened)
    service.end_streams()
    expect_to_show(service, "recovered", *opened)
    expect_live(*opened)
    assert streams(service) == 1


@pytest.mark.parametrize("path", ["pool", "jobs/"])
def test_a_page_without_rows_is_not_live_and_says_what_helps(
    windows: Windows, service: Service, path: str
) -> None:
    page = windows.open(apart=True)
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    held: list[Route] = []
    holding = True

    def hold(route: Route) -> None:
        if holding:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/v1/**", hold)
    page.goto(service.url + path)
    connection, overdue = page.get_by_test_id("connection"), page.get_by_test_id("overdue")
    expect(connection).to_have_text("Connecting…")
    expect(overdue).to_be_hidden()
    expect(connection).to_have_text("Waiting for an answer…")
    expect(overdue).to_contain_text("this browser has no free connection to it")
    holding = False
    for route in held:
        route.continue_()
    expect(page.locator("#page:not([aria-busy])")).to_be_visible()
    expect_live(page)
    expect(overdue).to_be_hidden()


def test_the_page_of_a_job_asks_again_until_the_pool_answers(windows: Windows, service: Service) -> None:
    job = service.submit("susan", name="patient")
    page = windows.open(apart=True)
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.route("**/api/v1/**", lambda route: route.abort())
    page.goto(f"{service.url}jobs/{job.id}")
    expect(page.get_by_test_id("message")).to_contain_text("The pool does not answer.")
    expect(page.get_by_test_id("connection")).to_have_text("Reconnecting…")
    page.unroute_all()
    expect(page.locator("#page")).to_contain_text("patient")
    expect_live(page)
    expect(page.get_by_test_id("message")).to_be_empty()
