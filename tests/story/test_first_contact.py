"""The pages that everyone meets first, on the hub of ``springtide up``: log-in, home, start, and workspaces."""

from __future__ import annotations

import re

from browser_people import Person
from hub_process import HubProcess
from playwright.sync_api import Browser, expect

ORANGE = "rgb(243, 117, 36)"
"""Colour of the hub's own buttons, on which white text has too little contrast."""


def test_the_first_pages_carry_the_products_name_and_one_word_for_workspaces(
    hub: HubProcess, browser: Browser
) -> None:
    for scheme in ("light", "dark"):
        page = browser.new_context(color_scheme=scheme).new_page()
        page.goto(f"{hub.url}/hub/login")
        expect(page.locator("#springtide-brand")).to_have_text("Springtide")
        expect(page.locator("main").get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(page.get_by_test_id("demonstration")).to_contain_text("log in as susan, joe, jemma, admin")
        for part in (".auth-form-header", "#login_submit"):
            assert page.locator(part).evaluate("(node) => getComputedStyle(node).backgroundColor") != ORANGE
    susan = Person.log_in(browser, hub, "susan")
    susan.tab.goto(f"{hub.url}/hub/home")
    links = ["Home", "My jobs", "Pool", "Workspaces", "Notifications", "Token"]
    expect(susan.tab.locator("nav .nav-link")).to_have_text(links)
    expect(susan.tab.locator("main #start")).to_have_text(re.compile(r"Start\s+My workspace"))
    susan.tab.goto(f"{hub.url}/hub/spawn")
    susan.tab.get_by_role("button", name="Start").click()
    susan.tab.wait_for_url(re.compile("/user/susan/"), timeout=90_000)
    susan.goto("workspaces")
    row = susan.tab.get_by_test_id("workspace-row")
    expect(row).to_contain_text("Running")
    row.get_by_test_id("workspace-stop").click()
    row.get_by_test_id("workspace-confirm").click()
    expect(susan.tab.get_by_test_id("empty")).to_contain_text("You have no workspace now.")
