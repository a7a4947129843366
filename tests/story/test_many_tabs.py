"""Eight tabs of one browser on a real hub, JupyterLab among them: more than it opens connections to one server.

Hub, pool and notebook servers share one host name here, so that all tabs share these connections.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator

import httpx
import pytest
from browsers.browser_people import Person
from hubs.hub_people import Hub, until
from hubs.hub_people import Person as Program
from hubs.hub_process import ONE_HOST_NAME
from patience import PATIENCE_S
from playwright.sync_api import Browser, Page, expect

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission

pytestmark = [pytest.mark.xdist_group("hub-many-tabs"), pytest.mark.timeout(600)]

CONFIG = f"{ONE_HOST_NAME}c.Springtide.auth_cache = 1\n"
VIEWER = "document.querySelector('meta[name=springtide]').dataset.user"
LOG_IN = re.compile("/hub/login")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("tabs") / "state", CONFIG)
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()


@pytest.fixture(scope="module")
def susan(hub: Hub) -> Iterator[Program]:
    """Susan, whose notebook server runs."""
    susan = Program(hub, "susan")
    susan.start({"gpus": 0}).raise_for_status()
    susan.wait_until_ready()
    yield susan
    susan.close()


@pytest.fixture
def client(hub: Hub, susan: Program) -> Iterator[Client]:
    with Client(f"{hub.url}/services/springtide", susan.token) as client:
        yield client


def submit(client: Client, name: str) -> Job:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    return client.submit(Submission(argv=argv, kind="command", cwd="/tmp", name=name, gpus=1))


def streams(hub: Hub, susan: Program) -> int:
    headers = {"Authorization": f"token {susan.token}"}
    address = f"{hub.url}/services/springtide/api/v1/metrics"
    metrics = httpx.get(address, headers=headers, timeout=PATIENCE_S, verify=False).text
    found = re.search(r"^springtide_subscribers (\d+)", metrics, re.MULTILINE)
    assert found, metrics
    return int(found.group(1))


def tabs_of(person: Person, *paths: str) -> list[Page]:
    """Open pages of the pool in further tabs of a person's browser."""
    opened = []
    for path in paths:
        page = person.tab.context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(f"{person.hub}/services/springtide/{path}")
        opened.append(page)
    return opened


def expect_live(*pages: Page) -> None:
    for page in pages:
        expect(page.get_by_test_id("connection")).to_have_text("Live")
        expect(page.locator("#page:not([aria-busy])")).to_be_visible()


def test_all_tabs_are_live_hear_what_happens_and_recover(
    hub: Hub, browser: Browser, susan: Program, client: Client
) -> None:
    job = submit(client, "first")
    person = Person.log_in(browser, hub, "susan")
    lab = person.tab
    lab.goto(f"{hub.url}/user/susan/lab/tree/examples/digits/digits.ipynb")
    lab.locator(".lm-TabBar-tab[title='The pool']").click()
    expect(lab.get_by_test_id("panel-mine")).to_contain_text("first")
    pool, mine, *others = tabs_of(
        person, "pool", "jobs/", f"jobs/{job.id}", "workspaces", "notifications", "pool", "jobs/"
    )
    assert len(person.tab.context.pages) == 8
    expect_live(pool, mine, *others)
    assert streams(hub, susan) == 2, "that of the pages, and that of the notebook server"

    submit(client, "second")
    expect(lab.get_by_test_id("panel-mine")).to_contain_text("second")
    for page in (pool, mine, others[-2], others[-1]):
        expect(page.locator("#page")).to_contain_text("second")

    service = hub.service_pid()
    os.kill(service, signal.SIGKILL)
    expect(pool.get_by_test_id("connection")).to_have_text("Reconnecting…")
    hub.service_after(service)
    third = submit(client, "third")
    expect(lab.get_by_test_id("panel-mine")).to_contain_text("third")
    for page in (pool, mine, others[-2], others[-1]):
        expect(page.locator("#page")).to_contain_text("third")
    expect_live(pool, mine, *others)

    pool.close()
    client.cancel(third.id)
    expect(mine.locator(f"[data-job='{third.id}']")).to_have_count(0)  # the list has active jobs
    assert streams(hub, susan) == 2
    lab.close()
    until("the end of the notebook server's stream", lambda: streams(hub, susan) == 1)
    person_leaves(mine, others)


def person_leaves(page: Page, others: list[Page]) -> None:
    """Log out in one tab; the others ask for a log-in."""
    page.get_by_text("Logout", exact=True).click()
    for other in others:
        other.wait_for_url(LOG_IN)
        expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_page_of_one_person_never_shows_another_who_logs_in_in_the_same_browser(
    hub: Hub, browser: Browser, client: Client
) -> None:
    hers = submit(client, "hers alone")
    joe = Program(hub, "joe")
    person = Person.log_in(browser, hub, "susan")
    [old] = tabs_of(person, "jobs/")
    expect(old.locator(f"[data-job='{hers.id}']")).to_be_visible()
    context = person.tab.context
    context.clear_cookies()
    person.tab.goto(f"{hub.url}/hub/login")
    person.tab.get_by_label("Username").fill("joe")
    person.tab.get_by_label("Password").fill(hub.password)
    person.tab.get_by_role("button", name="Sign in").click()
    person.tab.wait_for_url(re.compile("/hub/(home|spawn)"))
    [new] = tabs_of(person, "jobs/")
    expect_live(new)
    with Client(f"{hub.url}/services/springtide", joe.token) as his:
        job = submit(his, "his alone")
    joe.close()
    expect(new.locator(f"[data-job='{job.id}']")).to_be_visible()
    assert not old.locator(f"[data-job='{job.id}']").count() or old.evaluate(VIEWER) == "joe"
    service = hub.service_pid()
    os.kill(service, signal.SIGKILL)
    hub.service_after(service)
    expect_live(new)
    expect(new.locator(f"[data-job='{hers.id}']")).to_have_count(0)
    expect(old.locator(f"[data-job='{hers.id}']")).to_have_count(0)
    until("it has become his, or asks who visits", lambda: LOG_IN.search(old.url) or old.evaluate(VIEWER) == "joe")
