"""What Springtide adds to JupyterLab as axe-core sees it, in both themes, which differ in colours only."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from benches.lab_bench import Lab
from browsers.axe import COLOURS, violations
from playwright.sync_api import BrowserContext, expect

from springtide.scheduler.wire import Job
from springtide.widgets.display.document import job_output

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

RUN = "([command, args]) => window.jupyterapp.commands.execute(command, args)"
THEMES = ("JupyterLab Dark", "JupyterLab Light")
FAILS = "raise ValueError('no data')"


def test_axe_finds_nothing_in_panel_cards_tabs_and_dialogs(
    lab: Lab, context: BrowserContext, submit: Callable[..., Job]
) -> None:
    jobs = [submit("digits", 2), submit("fails", program=FAILS), submit("waits in line with a long name", 4)]
    lab.write("seen.ipynb", *((job.name, job_output(job, time.time())) for job in jobs))
    (lab.root / "seen.py").write_text("pass")
    tab = lab.open(context, "seen.ipynb")
    expect(tab.get_by_test_id("job-card")).to_have_count(3)
    tab.evaluate(RUN, ["springtide:show-pool", {}])
    expect(tab.get_by_test_id("panel-ended").locator(f"[data-job='{jobs[1].id}']")).to_be_visible()
    found: list[str] = []

    def look_at(places: str) -> None:
        for theme in THEMES:
            tab.evaluate(RUN, ["apputils:change-theme", {"theme": theme}])
            expect(tab.locator(f"body[data-jp-theme-name='{theme}']")).to_be_attached()
            found.extend(violations(tab, places, **({} if theme == THEMES[0] else COLOURS)))

    look_at("[data-testid=pool-panel], [data-testid=job-card]")
    tab.evaluate(RUN, ["springtide:open-job", {"job": jobs[0].id}])
    expect(tab.locator("[data-job-tab]").get_by_test_id("job-state")).to_be_visible()
    look_at(".springtide-tab")
    tab.evaluate(RUN, ["springtide:open-jobs", {}])
    expect(tab.get_by_test_id("job-list")).to_be_visible()
    look_at(".springtide-tab")
    tab.evaluate(RUN, ["filebrowser:activate", {}])
    tab.locator(".jp-DirListing-item", has_text="seen.py").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    expect(tab.get_by_test_id("send-words")).to_contain_text("It would ")
    look_at(".jp-Dialog")
    tab.keyboard.press("Escape")
    expect(tab.locator(".jp-Dialog")).to_have_count(0)
    tab.evaluate(f"() => {{ ({RUN})(['springtide:make-environment', {{}}]); }}")
    expect(tab.locator(".jp-Dialog")).to_be_visible()
    look_at(".jp-Dialog")
    tab.keyboard.press("Escape")
    assert found == []
