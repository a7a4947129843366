"""What Springtide shows in JupyterLab fits windows of all widths, and looks alike wherever it is shown."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from benches.lab_bench import Lab
from browsers.browser import resize
from hubs.hub_people import until
from playwright.sync_api import BrowserContext, Page, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job
from springtide.widgets.display.document import job_output

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

RUN = "([command, args]) => window.jupyterapp.commands.execute(command, args)"
WIDTHS = (1600, 1000, 400)
ANSWERS = ("selected-close", "selection-save")
SAVES = """
from springtide.training import current_job
job = current_job()
found = job.restore()
for step in range(int(found.step) if found else 0, 3):
    job.report(step=step + 1, of=3, loss=1 / (step + 1))
    job.save(step, step=step + 1)
"""
BEYOND = """(frames) => {
    const isWide = (element) => element.scrollWidth > element.clientWidth + 1;
    const isOut = (element) => element.getBoundingClientRect().right > innerWidth + 1;
    const seen = [...document.querySelectorAll(frames)].filter((element) => element.checkVisibility());
    const said = ({ className, scrollWidth, clientWidth }) => `${className} ${scrollWidth} > ${clientWidth}`;
    const found = seen.filter((element) => isWide(element) || isOut(element));
    return seen.length ? found.map((element) => `${innerWidth}: ${said(element)}`) : [`no ${frames}`];
}"""
"""The frames whose content is wider than they are, or that leave the window."""
CLIPPED = """(field) => {
    const { outlineWidth, outlineOffset } = getComputedStyle(field);
    const beyond = parseFloat(outlineWidth) + parseFloat(outlineOffset);
    const ring = field.getBoundingClientRect();
    let above = field.parentElement;
    while (above && getComputedStyle(above).overflowX === "visible") above = above.parentElement;
    const frame = above.getBoundingClientRect();
    return ring.left - beyond < frame.left || ring.right + beyond > frame.right || ring.top - beyond < frame.top;
}"""
"""Whether the ring around a field with the focus is cut off."""
LOOK = """(element) => {
    const { color, backgroundColor, borderTopColor, textDecorationLine } = getComputedStyle(element);
    return [color, backgroundColor, borderTopColor, textDecorationLine];
}"""


def beyond(tab: Page, frames: str) -> list[str]:
    """Return what is wider than its frame, of those that a selector finds, in windows of all widths."""
    found: list[str] = []
    for width in WIDTHS:
        resize(tab, width)
        found += tab.evaluate(BEYOND, frames)
    resize(tab, 1600)
    return found


def dialog(tab: Page, *steps: Callable[[], object]) -> tuple[list[str], list[object]]:
    """Open a dialog; return what is wider than its frame, and how its first field looks with the focus."""
    for step in steps:
        step()
    field = tab.locator(".jp-Dialog .st-input").first
    expect(field).to_be_focused()
    assert not field.evaluate(CLIPPED), "the ring of the first field is cut off"
    found = beyond(tab, ".jp-Dialog-content, .st-send-form")
    look = field.evaluate("(field) => [getComputedStyle(field).height, getComputedStyle(field).fontSize]")
    tab.keyboard.press("Escape")
    expect(tab.locator(".jp-Dialog")).to_have_count(0)
    return found, look


def test_panel_table_cards_and_dialogs_fit_their_windows(
    lab: Lab, context: BrowserContext, submit: Callable[..., Job], service: ServiceProcess
) -> None:
    long = "W" * 100
    with Client(service.url, "susan") as susan:
        trained = submit("train", program=SAVES, options=["--rate", "0.1"])
        until("its end", lambda: susan.job(trained.id).ended)
        fork = susan.fork(trained.id, step=2, arguments={"rate": "0.5"})
        jobs = [fork, submit("digits", 2), submit("fails", program="raise ValueError('no data')"), submit(long, 4)]
        until("its end", lambda: susan.job(fork.id).ended)
        lab.write("wide.ipynb", *((job.name, job_output(susan.job(job.id), time.time())) for job in jobs))
    (lab.root / "wide.py").write_text("pass")
    tab = lab.open(context, "wide.ipynb")
    expect(tab.get_by_test_id("job-card")).to_have_count(4)
    link = tab.get_by_test_id("job-card").first.get_by_test_id("first-run")
    expect(link).to_have_css("text-decoration-line", "underline")
    tab.evaluate("window.jupyterapp.shell.collapseLeft()")
    found = beyond(tab, ".st-card")

    tab.evaluate(RUN, ["springtide:open-jobs", {}])
    row = tab.get_by_test_id("job-list").locator(f"[data-job='{fork.id}']")
    row.get_by_test_id("open-card").click()
    card = tab.get_by_test_id("job-list").get_by_test_id("job-card")
    board = card.get_by_test_id("job-tensorboard")
    expect(board).to_be_visible()
    assert board.evaluate(LOOK) == card.get_by_test_id("job-rerun").evaluate(LOOK)
    tab.get_by_test_id("columns").locator("summary").click()
    expect(tab.get_by_test_id("columns").locator("fieldset").first).to_have_css("border-top-width", "0px")
    row.get_by_test_id("select-job").check()
    found += beyond(tab, ".springtide-tab, .springtide-tab .st-card")
    tab.get_by_test_id("selected-note").click()
    save = tab.get_by_test_id("selection-save").evaluate(LOOK)
    assert save[0] != tab.get_by_test_id("selected-close").evaluate(LOOK)[0], "the main button stands out"
    found += beyond(tab, ".springtide-tab")
    resize(tab, 400)
    heights = [tab.get_by_test_id(name).evaluate("(one) => one.clientHeight") for name in ANSWERS]
    assert max(heights) < 40, "the words of a button are on one line"
    expect(tab.get_by_test_id("filter-order"), "a narrow table has no heads to sort by").to_be_visible()
    resize(tab, 1600)

    tab.evaluate(RUN, ["springtide:show-pool", {}])
    expect(tab.get_by_test_id("pool-panel")).to_be_visible()
    found += beyond(tab, ".st-panel")
    tab.evaluate(RUN, ["filebrowser:activate", {}])
    looks = []
    for steps in (
        (
            lambda: tab.locator(".jp-DirListing-item", has_text="wide.py").click(button="right"),
            lambda: tab.get_by_role("menuitem", name="Send to the Pool…").click(),
        ),
        (lambda: tab.evaluate(f"() => {{ ({RUN})(['springtide:make-environment', {{}}]); }}"),),
    ):
        wide, look = dialog(tab, *steps)
        found += wide
        looks.append(look)
    assert looks[0] == looks[1], "the fields of all dialogs look alike"
    tab.evaluate(f"() => {{ ({RUN})(['springtide:open-job', {{}}]); }}")
    expect(tab.locator(".jp-Dialog select")).to_be_visible()
    assert tab.locator(".jp-Dialog-content").evaluate("(content) => content.clientWidth") < 1000
    found += beyond(tab, ".jp-Dialog-content")
    tab.keyboard.press("Escape")
    assert found == []
