"""The pages that everyone meets first, on the hub of ``springtide up``: log-in, home, start, and workspaces."""

from __future__ import annotations

import os
import re
import signal

import pytest
from browsers.axe import violations_in_all_states
from browsers.browser_people import Person
from hubs.hub_people import Hub, notebook_pid, until
from patience import PATIENCE_S
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.xdist_group("story")

ORANGE = "rgb(243, 117, 36)"
"""Colour of the hub's own buttons, on which white text has too little contrast."""

NEVER_RELOAD = "() => { for (let timer = 0; timer < 10000; timer += 1) clearTimeout(timer); }"
"""Ends the timers of a page that would load it again while it is looked at."""


def test_the_first_pages_carry_the_products_name_and_one_word_for_workspaces(hub: Hub, browser: Browser) -> None:
    for scheme in ("light", "dark"):
        page = browser.new_context(color_scheme=scheme).new_page()
        page.goto(f"{hub.url}/hub/login")
        expect(page.locator("#springtide-brand")).to_have_text("Springtide")
        expect(page.locator("main").get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(page.get_by_test_id("demonstration")).to_contain_text("log in as susan, joe, jemma, admin")
        for part in (".auth-form-header", "#login_submit"):
            assert page.locator(part).evaluate("(node) => getComputedStyle(node).backgroundColor") != ORANGE
    jemma = Person.log_in(browser, hub, "jemma")
    jemma.tab.goto(f"{hub.url}/hub/home")
    links = ["Home", "My jobs", "Pool", "Workspaces", "Report", "Notifications", "Token"]
    expect(jemma.tab.locator("nav .nav-link")).to_have_text(links)
    expect(jemma.tab.get_by_role("heading", name="Your workspace")).to_be_visible()
    expect(jemma.tab.locator("main #start")).to_have_text(re.compile(r"Start\s+my workspace"))
    jemma.tab.goto(f"{hub.url}/hub/spawn")
    jemma.tab.route("**/progress*", lambda route: route.abort())
    jemma.tab.get_by_role("button", name="Start").click()
    expect(jemma.tab.locator("main h1")).to_have_text("Your workspace is starting")
    assert violations_in_all_states(jemma.tab) == []
    jemma.tab.unroute_all()
    jemma.tab.reload()
    jemma.tab.wait_for_url(re.compile("/user/jemma/"), timeout=2_000 * PATIENCE_S, wait_until="commit")
    jemma.goto("workspaces")
    row = jemma.tab.get_by_test_id("workspace-row")
    expect(row).to_contain_text("Running")
    row.get_by_test_id("workspace-stop").click()
    notebook = notebook_pid(hub.state_dir, "jemma")
    os.kill(notebook, signal.SIGSTOP)  # so that it is still stopping while the next page is looked at
    row.get_by_test_id("workspace-confirm").click()
    expect(row).to_contain_text("Stopping")
    jemma.tab.goto(f"{hub.url}/hub/spawn-pending/jemma")
    jemma.tab.evaluate(NEVER_RELOAD)
    expect(jemma.tab.locator("main h1")).to_have_text("Your workspace is stopping")
    assert violations_in_all_states(jemma.tab) == []
    os.kill(notebook, signal.SIGCONT)
    until("the end of the notebook", lambda: notebook_pid(hub.state_dir, "jemma") is None)
    jemma.goto("workspaces")
    expect(jemma.tab.get_by_test_id("empty")).to_contain_text("You have no workspace now.")
    jemma.tab.goto(f"{hub.url}/user/jemma/lab")
    expect(jemma.tab.locator("main h1")).to_have_text("Your workspace is not running")
    expect(jemma.tab.get_by_role("button", name="Start the workspace")).to_be_visible()
    assert "server" not in jemma.tab.locator("main").inner_text().lower()
    assert violations_in_all_states(jemma.tab) == []


def test_axe_finds_nothing_on_the_hubs_own_pages_in_both_themes_and_in_any_state_of_a_control(
    hub: Hub, browser: Browser
) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{hub.url}/hub/login")
    page.get_by_label("Username").fill("joe")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".login_error")).to_be_visible()
    found = violations_in_all_states(page)
    for name, paths in {"joe": ("home", "spawn", "token", "nothing-here"), "admin": ("admin",)}.items():
        tab = Person.log_in(browser, hub, name).tab
        width = tab.evaluate("innerWidth")
        for path in paths:
            tab.goto(f"{hub.url}/hub/{path}")
            expect(tab.locator("main h1").first).to_be_attached()
            if name == "admin":
                expect(tab.get_by_role("button", name="Details of susan")).to_be_visible()
            expect(tab.locator("#login_widget")).to_have_text(re.compile(rf"{name}\s+Logout"))
            found += violations_in_all_states(tab)
            tab.set_viewport_size({"width": 400, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            tab.set_viewport_size({"width": width, "height": 900})
    assert found == []


def test_a_page_of_the_pool_comes_back_by_itself_when_its_service_has_restarted(
    hub: Hub, browser: Browser
) -> None:
    susan = Person.log_in(browser, hub, "susan")
    susan.goto("pool")
    address = susan.tab.url
    away = susan.tab.request.get(f"{hub.url}/hub/error/503?url=/services/springtide/pool").text()
    susan.tab.route(address, lambda route: route.fulfill(status=503, content_type="text/html", body=away))
    susan.tab.goto(address)
    expect(susan.tab.locator("main h1")).to_have_text("The pool is coming back")
    expect(susan.tab.get_by_role("status")).to_contain_text("comes back by itself")
    assert "server" not in susan.tab.locator("main").inner_text().lower()
    assert violations_in_all_states(susan.tab) == []
    susan.tab.unroute_all()
    expect(susan.tab.get_by_test_id("idle")).to_be_visible()
    notebook = susan.tab.request.get(f"{hub.url}/hub/error/503?url=/user/susan/lab").text()
    assert "This server does not answer" in notebook
