"""Each user has a host name, the default on one machine: the page of a notebook is a stranger to hub and pool."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsers.browser_people import Person
from hostile.hostile_scripts import assert_no_token_was_made, script
from hubs.hub_people import Hub
from hubs.hub_people import Person as Program
from patience import PATIENCE_S
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.xdist_group("hub-subdomains")

SERVER = Path(__file__).parents[1] / "support/hostile/hostile_notebook.py"
CONFIG = f"c.Spawner.cmd = [{sys.executable!r}, {str(SERVER)!r}]"
ON_THE_HUB = script("hostile_hub.js")
ATTACK = """
async (pool) => {
  const EMPTY = "<html><head></head><body></body></html>";
  const got = {};
  for (const mode of ["no-cors", "cors"]) {
    try {
      got[mode] = await (await fetch(`${pool}api/v1/admin`, { mode, credentials: "include" })).text();
    } catch (error) {
      got[mode] = error.name;
    }
  }
  const opened = window.open(`${pool}admin`);
  do {  // a window that is not yet there has an empty page of this one's origin
    await new Promise((resolve) => setTimeout(resolve, 100));
    try {
      got.window = opened.closed ? "closed" : opened.document.documentElement.outerHTML;
    } catch (error) {
      got.window = error.name;
    }
  } while (got.window === EMPTY);
  return got;
}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("subdomains") / "state", CONFIG)
    try:
        hub.start()
        joe = Program(hub, "joe")
        joe.start({"gpus": 0}).raise_for_status()
        joe.wait_until_ready()
        joe.close()
        yield hub
    finally:
        hub.stop()


@pytest.fixture
def admin(hub: Hub, browser: Browser) -> Person:
    return Person.log_in(browser, hub, "admin")


def test_links_lead_from_the_hub_to_the_pool_and_back(hub: Hub, admin: Person) -> None:
    tab = admin.tab
    tab.goto(f"{admin.hub}/hub/home")
    tab.get_by_role("link", name="Projects and quotas").click()
    tab.wait_for_url(f"http://springtide--service.localhost:{hub.port}/services/springtide/admin")
    expect(tab.get_by_test_id("edit-quota-joe")).to_be_visible()
    expect(tab.get_by_test_id("connection")).to_have_text("Live")
    expect(tab.locator("#springtide-brand svg")).to_be_visible()
    tab.get_by_role("link", name="Home", exact=True).click()
    tab.wait_for_url(f"http://localhost:{hub.port}/hub/home")


@pytest.mark.parametrize("path", ["hub/home", "user/joe/lure", "services/springtide/pool"])
def test_a_browser_at_the_address_of_the_loopback_interface_is_sent_to_the_names(
    hub: Hub, admin: Person, path: str
) -> None:
    hosts = {"hub": "localhost", "user": "joe.localhost", "services": "springtide--service.localhost"}
    admin.tab.goto(f"http://127.0.0.1:{hub.port}/{path}")
    assert admin.tab.url == f"http://{hosts[path.partition('/')[0]]}:{hub.port}/{path}"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_programs_reach_hub_pool_and_notebooks_under_one_name(hub: Hub, name: str) -> None:
    here = f"http://{name}:{hub.port}"
    with httpx.Client(timeout=PATIENCE_S, headers={"Authorization": f"token {hub.token('joe')}"}) as program:
        assert program.get(f"{here}/hub/api/user").json()["name"] == "joe"
        assert program.get(f"{here}/services/springtide/api/v1/me").json()["name"] == "joe"
        assert "a notebook" in program.get(f"{here}/user/joe/anything").text


def test_a_page_of_somebodys_notebook_reads_nothing_of_the_pool(hub: Hub, admin: Person) -> None:
    pool = f"http://springtide--service.localhost:{hub.port}/services/springtide/"
    admin.tab.goto(f"{pool}admin")
    expect(admin.tab.get_by_test_id("edit-quota-joe")).to_be_visible()
    admin.tab.goto(f"http://joe.localhost:{hub.port}/user/joe/lure")
    expect(admin.tab).to_have_title(re.compile("a notebook"))
    got = admin.tab.evaluate(ATTACK, pool)
    assert got == {"no-cors": "TypeError", "cors": "TypeError", "window": got["window"]}
    assert got["window"] in {"SecurityError", "closed"}


def test_a_page_of_somebodys_notebook_makes_no_token_of_its_visitor(hub: Hub, admin: Person) -> None:
    pool = f"http://springtide--service.localhost:{hub.port}/services/springtide/"
    admin.tab.goto(f"http://joe.localhost:{hub.port}/user/joe/lure")
    names = {"hub": f"http://localhost:{hub.port}", "service": pool, "visitor": "admin"}
    assert_no_token_was_made(admin.tab.evaluate(ON_THE_HUB, names))
    admin.tab.goto(f"{pool}admin")
    expect(admin.tab.get_by_test_id("edit-weight-joe")).to_have_value("1")
