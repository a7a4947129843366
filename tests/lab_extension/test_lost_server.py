"""The question of JupyterLab whether to restart a server that does not answer, on a hub."""

from __future__ import annotations

import re

import pytest
from benches.lab_bench import Lab
from playwright.sync_api import BrowserContext, Page, Route, expect

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

ON_A_HUB = '"hubPrefix": "/hub/", "hubUser": "susan", "hubServerName": "", '
PAGE = re.compile(r"/lab/workspaces/")
SERVER = re.compile(r"/api/(kernels|sessions|status|contents|terminals)\b")
ABOUT_A_LOST_SERVER = re.compile(r"is not running\.\s+Would you like to restart it\?")


def as_on_a_hub(route: Route) -> None:
    """Answer a page with the settings that a hub's notebook server has."""
    answer = route.fetch()
    text = answer.text().replace('"baseUrl"', f'{ON_A_HUB}"baseUrl"', 1)
    route.fulfill(response=answer, body=text)


@pytest.fixture
def tab(lab: Lab, context: BrowserContext) -> Page:
    lab.write("away.ipynb", ("1", None))
    context.route(PAGE, as_on_a_hub)
    tab = lab.open(context, "away.ipynb")
    context.unroute(PAGE)
    return tab


def test_the_question_whether_to_restart_a_server_goes_once_the_server_answers(tab: Page) -> None:
    question = tab.locator(".jp-Dialog", has_text=ABOUT_A_LOST_SERVER)
    tab.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session")
    tab.route(SERVER, lambda route: route.abort())
    expect(question).to_be_visible(timeout=120_000)
    tab.wait_for_timeout(5000)
    expect(question).to_be_visible()
    tab.unroute_all()
    expect(question).to_have_count(0)
    expect(tab.locator(".jp-Dialog")).to_have_count(0)
