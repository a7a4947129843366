"""A hub with a subdomain for each user: people find the pool, and a notebook's page is a stranger to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browser_people import Person
from hub_people import Hub
from hub_process import PATIENT
from patience import PATIENCE_S
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.xdist_group("hub-subdomains")

SERVER = Path(__file__).parents[1] / "support/hostile_notebook.py"
CONFIG = """
{patient}
c.JupyterHub.subdomain_host = "http://hub.localhost:{port}"
c.Spawner.cmd = {command!r}
"""
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


class SubdomainHub(Hub):
    """A hub at ``hub.localhost``, whose service is at ``springtide--service.hub.localhost``."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self._config.write_text(
            CONFIG.format(patient=PATIENT, port=self.port, command=[sys.executable, str(SERVER)])
        )

    def answers(self) -> bool:
        headers = {"Host": f"springtide--service.hub.localhost:{self.port}"}
        try:
            health = httpx.get(
                f"{self.url}/services/springtide/api/v1/health", headers=headers, timeout=PATIENCE_S
            )
        except httpx.HTTPError:
            return False
        return health.status_code == 200


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = SubdomainHub(tmp_path_factory.mktemp("subdomains") / "state")
    hub.start()
    yield hub
    hub.stop()


def log_in(hub: Hub, browser: Browser, name: str) -> Person:
    """Log in at the hub's own name."""
    here, hub.url = hub.url, f"http://hub.localhost:{hub.port}"
    try:
        return Person.log_in(browser, hub, name)
    finally:
        hub.url = here


@pytest.fixture
def admin(hub: Hub, browser: Browser) -> Person:
    return log_in(hub, browser, "admin")


def test_links_lead_from_the_hub_to_the_pool_and_back(hub: Hub, admin: Person) -> None:
    tab = admin.tab
    tab.goto(f"{admin.hub}/hub/home")
    tab.get_by_role("link", name="Projects and quotas").click()
    tab.wait_for_url(f"http://springtide--service.hub.localhost:{hub.port}/services/springtide/admin")
    expect(tab.get_by_test_id("edit-quota-joe")).to_be_visible()
    expect(tab.get_by_test_id("connection")).to_have_text("Live")
    expect(tab.locator("#springtide-brand svg")).to_be_visible()
    tab.get_by_role("link", name="Home", exact=True).click()
    tab.wait_for_url(f"{admin.hub}/hub/home")


def test_a_page_of_somebodys_notebook_reads_nothing_of_the_pool(hub: Hub, browser: Browser, admin: Person) -> None:
    joe = log_in(hub, browser, "joe")
    joe.tab.goto(f"{joe.hub}/hub/spawn")
    joe.tab.get_by_role("button", name="Start").click()
    joe.tab.wait_for_url(
        re.compile(rf"http://joe\.hub\.localhost:{hub.port}/user/joe/"), timeout=2_000 * PATIENCE_S
    )
    pool = f"http://springtide--service.hub.localhost:{hub.port}/services/springtide/"
    admin.tab.goto(f"{pool}admin")
    expect(admin.tab.get_by_test_id("edit-quota-joe")).to_be_visible()
    admin.tab.goto(f"http://joe.hub.localhost:{hub.port}/user/joe/lure")
    expect(admin.tab).to_have_title(re.compile("a notebook"))
    got = admin.tab.evaluate(ATTACK, pool)
    assert got == {"no-cors": "TypeError", "cors": "TypeError", "window": got["window"]}
    assert got["window"] in {"SecurityError", "closed"}
