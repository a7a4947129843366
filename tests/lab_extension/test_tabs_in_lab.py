"""Jobs and the table of jobs as tabs of JupyterLab, and the ways to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hub_people import until
from lab_bench import Lab, card
from playwright.sync_api import BrowserContext, Locator, Page, expect
from pool_process import ServiceProcess

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Job
from springtide.widgets.connection import Connection
from springtide.widgets.job import Job as Handle

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

Submit = Callable[..., Job]
RUN = "([command, args]) => window.jupyterapp.commands.execute(command, args)"


def opened(lab: Lab, context: BrowserContext, name: str) -> Page:
    """Return a tab of JupyterLab that follows the pool, and shows a notebook."""
    lab.write(name, ("1", None))
    tab = lab.open(context, name)
    expect(tab.locator(".jp-CodeCell").first).to_be_visible()
    expect(tab.get_by_test_id("pool-status")).to_contain_text("GPUs held")
    return tab


def test_menu_palette_and_launcher_lead_to_the_table_and_its_links_to_jobs_in_tabs(
    lab: Lab, context: BrowserContext, submit: Submit
) -> None:
    job = submit("digits", program="print('all done')")
    tab = opened(lab, context, "ways.ipynb")
    tab.get_by_role("menuitem", name="Springtide").click()
    entries = tab.locator(".lm-Menu-itemLabel")
    expect(entries).to_have_text(
        [
            "My Jobs",
            "Open a Job…",
            "The Pool",
            "",
            "Terminal in a Running Job…",
            "TensorBoard of a Job…",
            "New Environment…",
            "",
            "Notifications…",
        ]
    )
    tab.get_by_role("menuitem", name="My Jobs").click()
    table = tab.get_by_test_id("job-list")
    row = table.locator(f"[data-job='{job.id}']")
    expect(row).to_have_attribute("data-state", "succeeded")
    tab.get_by_test_id("search-jobs").fill("no job has this name")
    expect(tab.get_by_text("No job matches.")).to_be_visible()
    tab.get_by_test_id("clear-filters").click()
    row.get_by_test_id("select-job").check()
    tab.get_by_test_id("selected-note").click()
    tab.get_by_test_id("selection-text").fill("the best one")
    tab.get_by_test_id("selection-save").click()
    expect(tab.get_by_test_id("selection-result")).to_contain_text("The note is saved.")
    row.get_by_test_id("row-name").click()
    page = tab.locator(f"[data-job-tab='{job.id}']")
    expect(page.get_by_test_id("job-state")).to_contain_text("Succeeded")
    expect(tab.get_by_role("tab", name="digits")).to_be_visible()
    assert len(context.pages) == 1, "no page of the browser was opened"

    tab.evaluate(RUN, ["launcher:create", {}])
    tile = tab.locator(".jp-LauncherCard", has_text="My Jobs")
    expect(tile).to_be_visible()
    tile.click()
    expect(table).to_be_visible()
    tab.evaluate(RUN, ["apputils:activate-command-palette", {}])
    tab.locator(".lm-CommandPalette-input").fill("springtide")
    expect(tab.locator(".lm-CommandPalette-itemLabel", has_text="Open a Job…")).to_be_visible()


def test_tabs_of_jobs_the_table_and_the_panel_are_there_again_after_a_reload(
    lab: Lab, context: BrowserContext, submit: Submit
) -> None:
    job = submit("kept", program="print('all done')")
    tab = opened(lab, context, "layout.ipynb")
    for command, arguments in (
        ("springtide:open-jobs", {}),
        ("springtide:open-job", {"job": job.id}),
        ("springtide:show-pool", {}),
    ):
        tab.evaluate(RUN, [command, arguments])
    expect(tab.get_by_test_id("pool-panel")).to_be_visible()
    expect(card(tab).get_by_test_id("job-name")).to_have_text("kept")
    with tab.expect_response(
        lambda answer: "/api/workspaces/" in answer.url and answer.request.method == "PUT",
    ):
        tab.evaluate(RUN, ["springtide:open-job", {"job": job.id}])
    tab.wait_for_timeout(1500)
    tab.goto(tab.url.partition("?")[0])
    expect(tab.get_by_test_id("pool-panel")).to_be_visible()
    expect(tab.get_by_role("tab", name="My jobs")).to_be_visible()
    page = tab.locator(f"[data-job-tab='{job.id}']")
    tab.get_by_role("tab", name="kept").click()
    expect(page.get_by_test_id("job-state")).to_contain_text("Succeeded")


def test_notebook_opens_the_pool_s_own_pages_instead(lab: Lab, context: BrowserContext) -> None:
    lab.write("seven.ipynb", ("1", None))
    tab = lab.open(context, "seven.ipynb", "notebook")
    expect(tab.locator(".jp-CodeCell").first).to_be_visible()
    tab.get_by_role("menuitem", name="Springtide").click()
    with context.expect_page() as page:
        tab.get_by_role("menuitem", name="My Jobs").click()
    page.value.wait_for_url("**/pages/")


def test_a_job_that_is_not_there_is_said_to_be_missing(lab: Lab, context: BrowserContext) -> None:
    tab = opened(lab, context, "missing.ipynb")
    tab.evaluate(RUN, ["springtide:open-job", {"job": "unknown00000"}])
    expect(tab.get_by_test_id("tab-words")).to_contain_text("There is no job")
    expect(tab.get_by_test_id("tab-again")).to_be_visible()


def test_an_ended_job_is_deleted_on_its_tab_and_on_its_card_after_a_question(
    lab: Lab, context: BrowserContext, submit: Submit, service: ServiceProcess
) -> None:
    with Client(service.url, "susan") as susan:
        jobs = [submit(name, program="print('all done')") for name in ("in a tab", "on a card")]
        for job in jobs:
            until("its end", lambda: susan.job(job.id).ended)  # noqa: B023 - called at once
        output = Handle(jobs[1].id, Connection(susan))._repr_mimebundle_()
        lab.write("deletes.ipynb", ("job", output))
        tab = lab.open(context, "deletes.ipynb")
        expect(card(tab).get_by_test_id("job-name")).to_have_text("on a card")
        delete(card(tab), "on a card")
        expect(tab.get_by_text("The job was deleted.")).to_be_visible()

        tab.evaluate(RUN, ["springtide:open-job", {"job": jobs[0].id}])
        page = tab.locator(f"[data-job-tab='{jobs[0].id}']")
        delete(page, "in a tab")
        expect(page.get_by_text("The job was deleted.")).to_be_visible()
        for job in jobs:
            with pytest.raises(PoolError, match="There is no job"):
                susan.job(job.id)


def delete(place: Locator, name: str) -> None:
    """Press *Delete…* of the card in a place, first to keep the job."""
    place.get_by_test_id("job-delete").click()
    expect(place.get_by_text(f"Delete “{name}” with")).to_contain_text("of files? This cannot be undone.")
    place.get_by_test_id("job-keep").click()
    place.get_by_test_id("job-delete").click()
    place.get_by_test_id("job-delete-now").click()
