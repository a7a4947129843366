"""Jobs and the table of jobs as tabs of JupyterLab, and the ways to them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable

import pytest
from benches.lab_bench import Desk, Lab, card
from browsers.browser import resize, tabs_of
from hubs.hub_people import until
from playwright.sync_api import BrowserContext, Locator, Page, Request, Route, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Job
from springtide.widgets.connection import Connection
from springtide.widgets.job import Job as Handle

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

Submit = Callable[..., Job]
RUN = "([command, args]) => window.jupyterapp.commands.execute(command, args)"


def opened(lab: Lab, context: BrowserContext, name: str) -> Page:
    """Return a new tab of JupyterLab that follows the pool, and shows a notebook."""
    lab.write(name, ("1", None))
    return following(lab.open(context, name))


def shown(lab: Lab, desk: Desk, name: str) -> Page:
    """Return the tab of JupyterLab, which follows the pool, and shows a notebook."""
    lab.write(name, ("1", None))
    return following(desk(name))


def following(tab: Page) -> Page:
    """Wait until a tab of JupyterLab follows the pool and shows a notebook; return the tab."""
    expect(tab.locator(".jp-CodeCell").first).to_be_visible()
    expect(tab.get_by_test_id("pool-status")).to_contain_text("GPUs held")
    return tab


def run_from_palette(tab: Page, query: str, label: str) -> None:
    """Run the command that the palette finds first, once it has found it."""
    tab.locator(".lm-CommandPalette-input").fill(query)
    expect(tab.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(label)
    tab.keyboard.press("Enter")


def test_menu_palette_and_launcher_lead_to_the_table_and_its_links_to_jobs_in_tabs(
    lab: Lab, context: BrowserContext, desk: Desk, submit: Submit
) -> None:
    job = submit("digits", program="print('all done')")
    tab = shown(lab, desk, "ways.ipynb")
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
    assert len(tabs_of(context)) == 1, "no page of the browser was opened"

    tab.evaluate(RUN, ["launcher:create", {}])
    tile = tab.locator(".jp-LauncherCard", has_text="My Jobs")
    expect(tile).to_be_visible()
    tile.click()
    expect(table).to_be_visible()
    tab.evaluate(RUN, ["apputils:activate-command-palette", {}])
    tab.locator(".lm-CommandPalette-input").fill("springtide")
    expect(tab.locator(".lm-CommandPalette-itemLabel", has_text="Open a Job…")).to_be_visible()
    items = tab.locator(".lm-CommandPalette-item")
    expect(items.filter(has_text="Send the Active Cell to the Pool…")).to_be_visible()
    expect(items.locator("svg")).to_have_count(0)
    run_from_palette(tab, "springtide the pool", "The Pool")
    expect(tab.locator("#springtide-pool")).to_be_focused()
    tab.keyboard.press("Tab")
    expect(tab.locator("#springtide-pool :focus")).to_have_count(1)
    tab.evaluate(RUN, ["apputils:activate-command-palette", {}])
    run_from_palette(tab, "springtide new environment", "New Environment")
    expect(tab.get_by_test_id("form-environment-name")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.locator(".jp-Dialog")).to_have_count(0)
    expect(tab.locator("#springtide-runs :focus, #springtide-runs:focus")).not_to_have_count(0)


def test_the_table_in_a_tab_is_downloaded_and_has_one_background_in_dark_jupyterlab(
    lab: Lab, desk: Desk, submit: Submit
) -> None:
    submit("in the file", program="print('done')")
    tab = shown(lab, desk, "download.ipynb")
    tab.evaluate(RUN, ["springtide:open-jobs", {}])
    tab.get_by_test_id("search-jobs").fill("in the file")
    expect(tab.get_by_test_id("row-name")).to_have_text(["in the file"])
    with tab.expect_download() as download:
        tab.get_by_test_id("export-jobs").click()
    assert download.value.suggested_filename == "jobs.csv"
    rows = csv.DictReader(download.value.path().read_text().splitlines())
    assert [row["name"] for row in rows] == ["in the file"]
    tab.evaluate(RUN, ["apputils:change-theme", {"theme": "JupyterLab Dark"}])
    expect(tab.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    backgrounds = [
        tab.locator(place).first.evaluate("element => getComputedStyle(element).backgroundColor")
        for place in (".springtide-tab", ".st-fold")
    ]
    assert backgrounds[0] == backgrounds[1]
    tab.evaluate(RUN, ["apputils:change-theme", {"theme": "JupyterLab Light"}])
    expect(tab.locator("body")).to_have_attribute("data-jp-theme-light", "true")


def test_what_is_typed_to_run_a_job_again_stays_when_the_theme_changes_and_while_another_tab_is_in_front(
    lab: Lab, desk: Desk, submit: Submit
) -> None:
    job = submit("typed again", program="print('done')", options=["--lr=0.1"])
    tab = shown(lab, desk, "typed.ipynb")
    tab.evaluate(RUN, ["springtide:open-jobs", {}])
    row = tab.get_by_test_id("job-list").locator(f"[data-job='{job.id}']")
    row.get_by_test_id("open-card").click()
    tab.evaluate(RUN, ["springtide:open-job", {"job": job.id}])
    places = tab.locator(f"[data-job-tab='{job.id}']"), tab.locator("#springtide-runs")
    tabs = tab.locator("#jp-main-dock-panel").get_by_role("tab")
    names = tabs.filter(has_text="typed again"), tabs.filter(has_text="My jobs")
    for place, name in zip(places, names, strict=True):
        name.click()
        place.get_by_test_id("job-edit").click()
        place.get_by_test_id("rerun-form").get_by_test_id("form-arguments.lr").fill("0.25")
    for theme, is_light in (("JupyterLab Dark", "false"), ("JupyterLab Light", "true")):
        tab.evaluate(RUN, ["apputils:change-theme", {"theme": theme}])
        expect(tab.locator("body")).to_have_attribute("data-jp-theme-light", is_light)
        for place, name in zip(places, names, strict=True):
            name.click()
            expect(place.get_by_test_id("rerun-form").get_by_test_id("form-arguments.lr")).to_have_value("0.25")
    places[1].get_by_test_id("rerun-form").get_by_test_id("rerun-send").click()
    expect(places[1].get_by_test_id("rerun-form")).to_have_count(0)
    expect(places[1].get_by_test_id("job-row").filter(has_text="typed again")).to_have_count(2)


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
    reload(tab)
    expect(tab.get_by_test_id("pool-panel")).to_be_visible()
    expect(tab.get_by_role("tab", name="My jobs")).to_be_visible()
    page = tab.locator(f"[data-job-tab='{job.id}']")
    tab.get_by_role("tab", name="kept").click()
    expect(page.get_by_test_id("job-state")).to_contain_text("Succeeded")


def reload(tab: Page, kept: str = "") -> None:
    """Load JupyterLab again once the server has its layout with ``kept``: about a second after a change."""

    def has_it(sent: Request) -> bool:
        return "/api/workspaces/" in sent.url and sent.method == "PUT" and kept in (sent.post_data or "")

    with tab.expect_request(has_it) as sent:  # one from before would be answered too, without the latest change
        tab.evaluate(RUN, ["application:activate-next-tab", {}])
    assert sent.value.response() is not None
    tab.wait_for_timeout(1500)
    tab.goto(tab.url.partition("?")[0])


def test_restored_tabs_have_the_names_of_their_jobs_and_the_table_its_filters_and_order(
    lab: Lab, context: BrowserContext, submit: Submit, service: ServiceProcess
) -> None:
    with Client(service.url, "susan") as susan:
        kept, gone = (submit(name, program="print('all done')") for name in ("staying", "leaving"))
        for job in (kept, gone):
            until("its end", lambda: susan.job(job.id).ended)  # noqa: B023 - called at once
        tab = opened(lab, context, "names.ipynb")
        for job in (gone, kept):
            tab.evaluate(RUN, ["springtide:open-job", {"job": job.id}])
            expect(tab.get_by_role("tab", name=job.name)).to_be_visible()
        tab.evaluate(RUN, ["springtide:open-jobs", {}])
        tab.get_by_test_id("filter-ended").click()
        tab.get_by_test_id("search-jobs").fill("staying")
        tab.get_by_test_id("sort-name").click()
        expect(tab.get_by_test_id("row-name")).to_have_text(["staying"])
        susan.delete(gone.id)
        reload(tab, kept="order=name")
        for job in (kept, gone):
            expect(tab.get_by_role("tab", name=job.name)).to_be_visible()
        tab.get_by_role("tab", name="My jobs").click()
        expect(tab.get_by_test_id("row-name")).to_have_text(["staying"])
        expect(tab.get_by_test_id("search-jobs")).to_have_value("staying")
        expect(tab.get_by_test_id("filter-ended")).to_have_attribute("aria-pressed", "true")
        expect(tab.locator("th[data-column='name']")).to_have_attribute("aria-sort", "ascending")
        tab.get_by_role("tab", name="leaving").click()
        page = tab.locator(f"[data-job-tab='{gone.id}']")
        expect(page.get_by_test_id("tab-words")).to_contain_text("was deleted by susan")
        expect(tab.get_by_role("tab", name="leaving")).to_be_visible()


@pytest.mark.parametrize("entry", ["Open a Job…", "Terminal in a Running Job…", "TensorBoard of a Job…"])
def test_commands_about_a_job_ask_which_one(lab: Lab, desk: Desk, submit: Submit, entry: str) -> None:
    jobs = [submit("one of two"), submit("other of two")]
    tab = shown(lab, desk, "which.ipynb")

    def with_a_sweep(route: Route) -> None:
        listed = route.fetch().json()
        listed["items"].append(listed["items"][0] | {"id": "s1", "name": "a sweep", "trials": {"number": 4}})
        route.fulfill(json=listed)

    tab.route(re.compile(r"jobs\?mine=1&order=newest&limit=100"), with_a_sweep)
    tab.get_by_role("menuitem", name="Springtide").click()
    tab.get_by_role("menuitem", name=entry).click()
    expect(tab.locator(".jp-Dialog-header")).to_contain_text("which job?")
    sweeps = tab.locator(".jp-Dialog select option", has_text="a sweep (s1)")
    expect(sweeps).to_have_count(1 if entry == "Open a Job…" else 0)
    choice = f"{jobs[0].name} ({jobs[0].id})"
    expect(tab.locator(".jp-Dialog select option", has_text=choice)).to_have_count(1)
    tab.locator(".jp-Dialog select").select_option(choice)
    if entry == "Open a Job…":
        tab.locator(".jp-Dialog-button.jp-mod-accept").click()
        expect(tab.locator(f"[data-job-tab='{jobs[0].id}']").get_by_test_id("job-name")).to_have_text("one of two")
        tab.evaluate(RUN, ["apputils:activate-command-palette", {}])
        tab.locator(".lm-CommandPalette-input").fill("springtide")
        tab.locator(".lm-CommandPalette-item", has_text="Open a Job…").click()
        expect(tab.locator(".jp-Dialog-header")).to_have_text("Open which job?")
    tab.locator(".jp-Dialog-button.jp-mod-reject").click()


ROWS = """(cells) => cells.map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
})"""
"""The numbers of rows of text in cells."""

LEAVES_ROOM = """(job) => {
    const row = document.querySelector(`[data-testid=job-list] [data-job="${job}"]`);
    const [name, reason] = ["name", "reason"].map((of) => row.querySelector(`[data-label=${of}]`).clientWidth);
    return name <= reason + 1;
}"""
"""Whether the name of a job takes no more room than its reason."""


def test_the_table_fits_its_tab_and_its_buttons_have_one_shape(
    lab: Lab, context: BrowserContext, submit: Submit
) -> None:
    name = "fits with a name that is longer than its column"
    job = submit(name, program="print('all done')", options=["--lr=0.1"])
    submit("waits", gpus=4, options=["--lr=0.2"])
    submit("in line", gpus=4, options=["--lr=0.3"])
    tab = opened(lab, context, "fits.ipynb")
    tab.evaluate(RUN, ["springtide:open-jobs", {}])
    tab.evaluate(RUN, ["springtide:show-pool", {}])
    row = tab.get_by_test_id("job-list").locator(f"[data-job='{job.id}']")
    expect(row).to_have_attribute("data-state", "succeeded")
    expect(row.get_by_test_id("row-name")).to_have_attribute("title", name)
    frame = tab.locator(".st-wide-table")
    for width in (1600, 1366, 1280, 1024, 1000):
        resize(tab, width)
        assert frame.evaluate("(frame) => frame.scrollWidth <= frame.clientWidth"), (
            f"the table fits at {width} pixels"
        )
        for part in ("[data-label='time']", ".st-reason"):
            assert row.locator(part).evaluate("(cell) => cell.scrollWidth <= cell.clientWidth"), (width, part)
            expect(row.locator(part)).to_be_visible()
        rows = tab.locator("td[data-label='time'] > *").evaluate_all(ROWS)
        assert set(rows) == {1}, f"times are on one line at {width} pixels"
        tab.wait_for_function(LEAVES_ROOM, arg=job.id)  # its columns follow what is read of jobs
    shapes = tab.locator(".springtide-tab .st-button:visible").evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one).borderRadius)"
    )
    assert len(shapes) > 2
    assert len(set(shapes)) == 1


def test_a_comparison_and_addresses_of_pages_open_beside_jupyterlab(
    lab: Lab, context: BrowserContext, desk: Desk, submit: Submit
) -> None:
    jobs = [submit("first", program="print('done')"), submit("second", program="print('done')")]
    tab = shown(lab, desk, "links.ipynb")
    tab.evaluate(RUN, ["springtide:open-jobs", {}])
    for job in jobs:
        tab.locator(f"[data-job='{job.id}']").get_by_test_id("select-job").check()
    with context.expect_page() as page:
        tab.get_by_test_id("selected-compare").click()
    page.value.wait_for_url(f"**/pages/compare?job=*{jobs[0].id}*")
    expect(tab.get_by_test_id("selected-compare")).to_be_visible()
    tab.locator(f"[data-job='{jobs[0].id}']").get_by_test_id("row-name").click()
    inside = tab.locator(f"[data-job-tab='{jobs[0].id}']")
    with context.expect_page() as page:
        inside.get_by_test_id("job-name").get_by_role("link").click()
    page.value.wait_for_url(f"**/pages/jobs/{jobs[0].id}")
    expect(inside.get_by_test_id("job-name")).to_have_text("first")


def test_notebook_opens_the_pool_s_own_pages_instead(lab: Lab, context: BrowserContext) -> None:
    lab.write("seven.ipynb", ("1", None))
    tab = lab.open(context, "seven.ipynb", "notebook")
    expect(tab.locator(".jp-CodeCell").first).to_be_visible()
    tab.get_by_role("menuitem", name="Springtide").click()
    with context.expect_page() as page:
        tab.get_by_role("menuitem", name="My Jobs").click()
    page.value.wait_for_url("**/pages/")


def test_a_job_that_is_not_there_is_said_to_be_missing(lab: Lab, desk: Desk) -> None:
    tab = shown(lab, desk, "missing.ipynb")
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
            with pytest.raises(PoolError, match="was deleted by"):
                susan.job(job.id)


def delete(place: Locator, name: str) -> None:
    """Press *Delete…* of the card in a place, first to keep the job."""
    place.get_by_test_id("job-delete").click()
    expect(place.get_by_text(f"Delete “{name}” with")).to_contain_text("of files? This cannot be undone.")
    place.get_by_test_id("job-keep").click()
    place.get_by_test_id("job-delete").click()
    place.get_by_test_id("job-delete-now").click()
