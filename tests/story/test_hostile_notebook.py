"""Joe's notebook server attacks an administrator who opens it in a real browser, and gets hold of nothing.

Hub, pool and notebook servers share one host name here, as under a name without subdomains.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browsers.browser_people import Person
from hostile.hostile_scripts import assert_no_token_was_made, script
from hubs.hub_people import Hub
from hubs.hub_people import Person as Program
from hubs.hub_process import ONE_HOST_NAME
from patience import PATIENCE_S
from playwright.sync_api import Browser, StorageState, expect

from springtide.hub_extension.pages.files import digest
from springtide.hub_extension.pages.pages import STATIC, VISUALS

pytestmark = pytest.mark.xdist_group("hub-hostile")

HERE = Path(__file__).parent
SERVER = HERE.parent / "support/hostile/hostile_notebook.py"
ATTACK = script("hostile.js").replace("DIGEST", digest([VISUALS, STATIC]))
ON_THE_HUB = script("hostile_hub.js")
POLICIES = ["same-origin", "same-origin-allow-popups", "noopener-allow-popups"]
"""What a page may ask for about the windows that it opens (``Cross-Origin-Opener-Policy``), beside the default."""
SECRETS = re.compile(r'data-user="admin"|data-xsrf="[^"]|_xsrf=|"quota":\s?\d|event: ')


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    config = f"{ONE_HOST_NAME}c.Spawner.cmd = [{sys.executable!r}, {str(SERVER)!r}]\n"
    hub = Hub(tmp_path_factory.mktemp("hostile") / "state", config)
    try:
        hub.start()
        joe = Program(hub, "joe")
        joe.start({"gpus": 0}).raise_for_status()
        joe.wait_until_ready()
        joe.close()
        yield hub
    finally:
        hub.stop()


@pytest.fixture(scope="module")
def cookies(hub: Hub, browser: Browser) -> StorageState:
    """What the browser of an administrator keeps who has logged in."""
    admin = Person.log_in(browser, hub, "admin")
    admin.goto("admin")
    expect(admin.tab.get_by_test_id("edit-quota-joe")).to_be_visible()
    kept = admin.tab.context.storage_state()
    admin.tab.context.close()
    return kept


@pytest.fixture
def admin(hub: Hub, browser: Browser, cookies: StorageState) -> Iterator[Person]:
    """An administrator who has the pool's page open, in a browser that no other test has left anything in."""
    context = browser.new_context(storage_state=cookies)
    context.set_default_timeout(PATIENCE_S * 1000)
    admin = Person("admin", hub.url, context.new_page())
    admin.goto("admin")
    expect(admin.tab.get_by_test_id("edit-quota-joe")).to_be_visible()
    yield admin
    context.close()


def of_joe(hub: Hub, path: str, **answer: str | list[str]) -> str:
    """The address of a page of joe's server that is answered as joe wants."""
    return f"{hub.url}/user/joe/{path}?{urlencode(answer, doseq=True)}"


REGISTER = """
async ([script, scope]) => {
  try {
    const made = await navigator.serviceWorker.register(script, scope ? { scope } : {});
    return new URL(made.scope).pathname;
  } catch (error) {
    return error.name;
  }
}
"""
WORKER: dict[str, str | list[str]] = {
    "type": "text/javascript",
    "header": "Service-Worker-Allowed:/",
    "body": "self.addEventListener('fetch', (event) => event.respondWith(new Response('taken over')));",
}


REGISTRATIONS = [
    ("/user/joe/worker.js", "/", "SecurityError"),
    ("/user/joe/worker.js", "/services/springtide/", "SecurityError"),
    ("/user/joe/worker.js", "/user/", "SecurityError"),
    ("/user/joe", "", "TypeError"),
    ("/user/joe/worker.js", "", "/user/joe/"),
]
"""Script and scope of a service worker, and the scope that it gets or the error; only the last one is allowed."""


def test_a_service_worker_of_somebodys_notebook_works_for_its_own_pages_only(hub: Hub, admin: Person) -> None:
    tab = admin.tab.context.new_page()
    tab.goto(of_joe(hub, "lure"))
    for worker, scope, answered in REGISTRATIONS:
        words = [f"{worker}?{urlencode(WORKER, doseq=True)}", scope]
        assert tab.evaluate(REGISTER, words) == answered, (worker, scope)
    admin.goto("pool")
    expect(admin.tab.get_by_test_id("connection")).to_have_text("Live")


def test_a_page_of_somebodys_notebook_makes_no_token_of_its_visitor(hub: Hub, admin: Person) -> None:
    tab = admin.tab.context.new_page()
    tab.goto(of_joe(hub, "lure"))
    names = {"hub": "", "service": "/services/springtide/", "visitor": "admin"}
    assert_no_token_was_made(tab.evaluate(ON_THE_HUB, names))
    admin.goto("admin")
    expect(admin.tab.get_by_test_id("edit-weight-joe")).to_have_value("1")


def attack(hub: Hub, admin: Person, policy: str, *, windows_only: bool) -> Counter[str]:
    """Let joe's page try what it can, and check that it gets hold of nothing; return its tries by way."""
    tab = admin.tab.context.new_page()
    tab.goto(of_joe(hub, "lure", header=f"Cross-Origin-Opener-Policy:{policy}"))
    got = tab.evaluate(ATTACK, windows_only)
    found = {how: match[0] for how, what in got["loot"] if (match := SECRETS.search(what))}
    assert found == {}
    assert set(got["changed"]) == {403}
    admin.goto("admin")
    expect(admin.tab.get_by_test_id("edit-weight-joe")).to_have_value("1")
    return Counter(how.split()[0].rstrip(":") for how, _ in got["loot"])


def test_a_page_of_somebodys_notebook_reads_and_changes_nothing(hub: Hub, admin: Person) -> None:
    tried = attack(hub, admin, "unsafe-none", windows_only=False)
    assert tried["fetch"] == 30
    assert tried.keys() == {"fetch", "frame", "window", "cookies", "EventSource", "SharedWorker"}


@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_such_a_page_asks_for_about_its_windows_they_tell_it_nothing(
    hub: Hub, admin: Person, policy: str
) -> None:
    tried = attack(hub, admin, policy, windows_only=True)
    assert tried["window"] >= 4
    assert tried.keys() == {"window", "cookies", "EventSource", "SharedWorker"}
