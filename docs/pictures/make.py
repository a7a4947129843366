"""Makes the pictures of README and documentation from a real hub: ``make pictures``.

Takes about six minutes and needs Chromium, which ``make tools`` installs. The GPUs are simulated, and say so. The
story is that of `tests/story`: susan's two trainings fill the pool, joe asks for his GPUs, jemma comes by, an
admin asks for more than there is. Then jemma has the pool for a sweep, and the admin drains a node.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import FloatRect, Locator, expect

from springtide.scheduler.client import Client
from springtide.scheduler.wire import ProjectEdit, Submission

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests" / "support"))

from browsers.browser import running_browser  # noqa: E402 - found by the line above
from browsers.browser_people import Person, expect_state  # noqa: E402 - found by the line above
from hubs.hub_process import HubProcess  # noqa: E402

WIDTH = 1080
SCALE = 1.5
MARGIN = 16
BETWEEN_CELLS = 4
EXAMPLE = HERE.parents[1] / "examples/sweeps/parameters.py"
SWEEP = """from springtide.widgets import pool
space = {"rate": [0.0001, 0.001, 0.01, 0.1], "layers": [1, 2, 3], "width": [64, 128]}
pool.sweep(train, space, metric="error", name="digits")"""
EPOCH_S = 0.8
"""Shortest time of an epoch of a trial, in seconds, so that trials do not end before a picture is taken."""
SHOW_HOMES = """() => {
    const show = () => {
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode;
            const shown = text.data.replaceAll(/\\S+\\/state\\/homes\\//g, "/home/");
            if (shown !== text.data) text.data = shown;
        }
    };
    show();
    new MutationObserver(show).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""
"""Shows the homes of the hub where people have theirs, also after cards are drawn again."""
UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"
LATER = (
    (0, "jemma", 2, "speech", 70),
    (15, "joe", 3, "sweep", 35),
    (30, "susan", 3, "digits again", 120),
    (20, "jemma", 1, "speech test", 60),
    (20, "joe", 2, "faces again", 100),
)
"""Seconds to wait, then who submits how many GPUs, under which name, for how many seconds."""


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as directory, running_browser() as browser:
        hub = HubProcess(Path(directory) / "state", settings={"min_runtime": 1.0})
        try:
            hub.start()
            susan = Person.log_in(browser, hub, "susan", width=WIDTH, scale=SCALE)
            joe = Person.log_in(browser, hub, "joe", width=WIDTH, scale=SCALE)
            jemma = Person.log_in(browser, hub, "jemma", width=WIDTH, scale=SCALE)
            admin = Person.log_in(browser, hub, "admin", width=WIDTH + 200, scale=SCALE)
            picture_of_the_notebook(susan, joe)
            picture_of_the_form(joe)
            go_on(hub)
            picture_of_the_pool(susan)
            picture_of_the_home_page(hub, admin)
            picture_of_the_admin_page(admin)
            cancel_all(hub)
            picture_of_the_sweep(jemma)
            cancel_all(hub)
            picture_of_the_drained_node(hub, admin)
        finally:
            hub.stop()


def picture_of_the_notebook(susan: Person, joe: Person) -> None:
    """Susan's notebook right after joe has got his GPUs back."""
    susan.start_notebook()
    susan.tab.keyboard.press("Control+b")
    susan.run_all()
    cards = [susan.card(name) for name in ("digits wide", "digits deep")]
    for card in cards:
        expect_state(card, "running", 60)
    joe.start_notebook()
    joe.tab.keyboard.press("Control+b")
    for card in cards:
        expect(card.get_by_test_id("job-progress")).to_contain_text(re.compile(r"[2-9]\d of 400"), timeout=60_000)
    joe.type_and_run(
        "from springtide.widgets import pool\n"
        "pool.submit('python train.py --epochs 60 --layers 512', gpus=2, name='faces')"
    )
    paused = susan.tab.get_by_test_id("job-card").filter(has_text="Paused").first
    paused.wait_for(timeout=60_000)
    expect(paused.get_by_test_id("job-reason")).to_contain_text("Saved at step", timeout=20_000)
    expect_state(joe.card("faces"), "running", 60)
    heading = susan.tab.get_by_role("heading", name="Send two trainings")
    take("notebook", heading, cards[1], beside=susan.tab.locator(".jp-NotebookPanel .jp-Cell").nth(4))


def picture_of_the_form(joe: Person) -> None:
    """A form that says what to expect of a job which borrows."""
    joe.type_and_run("pool.form()")
    form = joe.tab.get_by_test_id("job-form")
    form.get_by_label("Command").check()
    form.get_by_test_id("form-command").fill("python train.py --epochs 10")
    form.get_by_label("GPUs", exact=True).fill("2")
    expect(form.get_by_test_id("form-estimate")).to_contain_text("It would start now on 2 GPUs")
    expect(form.get_by_test_id("form-submit")).to_be_enabled()
    cell = joe.tab.locator(".jp-NotebookPanel .jp-CodeCell").nth(1)
    take("form", cell, form, beside=cell)


def go_on(hub: HubProcess) -> None:
    """Some minutes of life in the pool."""
    tokens = {name: hub.token(name) for name in ("susan", "joe", "jemma")}
    for wait, user, gpus, name, seconds in LATER:
        time.sleep(wait)
        with Client(f"{hub.url}/services/springtide/", tokens[user]) as client:
            client.submit(Submission(argv=["sleep", str(seconds)], gpus=gpus, name=name))
    time.sleep(10)


def picture_of_the_pool(susan: Person) -> None:
    """The pool page with all that happened."""
    susan.goto("pool")
    susan.tab.get_by_test_id("section-tide").locator("svg").first.wait_for()
    susan.tab.wait_for_timeout(2000)
    take("pool", susan.tab.locator("main h1"), susan.tab.get_by_test_id("section-tide"))


def picture_of_the_home_page(hub: HubProcess, admin: Person) -> None:
    """An administrator's home page with a change and a freeze that end this week, and jobs that wait."""
    address, end = f"{hub.url}/services/springtide/", time.time() + 3 * 86_400
    with Client(address, hub.token("admin")) as client:
        client.edit_project("joe", ProjectEdit(limit=4, until=end))
        client.freeze("jemma", "The budget is used up until the weekend.", until=end)
    for user, gpus, name in (("susan", 6, "digits"), ("joe", 2, "faces"), ("joe", 4, "more faces")):
        with Client(address, hub.token(user)) as client:
            client.submit(Submission(argv=["sleep", "300"], gpus=gpus, name=name))
    before = admin.tab.viewport_size
    admin.tab.set_viewport_size({"width": 1280, "height": 800})
    admin.goto("home")
    admin.tab.get_by_test_id("home-wait").first.wait_for()
    admin.tab.wait_for_timeout(3000)
    take("home", admin.tab.locator("main h1"), admin.tab.get_by_test_id("section-waits"))
    if before is not None:
        admin.tab.set_viewport_size(before)
    with Client(address, hub.token("admin")) as client:
        client.edit_project("joe", ProjectEdit(limit=None))
        client.unfreeze("jemma")


def picture_of_the_admin_page(admin: Person) -> None:
    """A quota that the sums refuse."""
    admin.goto("admin")
    admin.change_quota("joe", 6)
    expect(admin.tab.get_by_test_id("refusal-joe")).to_be_visible()
    admin.tab.mouse.move(0, 0)
    take("admin", admin.tab.locator("main h1"), admin.tab.get_by_test_id("projects"))


def cancel_all(hub: HubProcess) -> None:
    """End all jobs, and wait until the pool is empty."""
    with Client(f"{hub.url}/services/springtide/", hub.token("admin")) as admin:
        for job in list(admin.all_jobs(state=UNFINISHED)):
            admin.cancel(job.id)
        while admin.jobs(state=UNFINISHED).items:
            time.sleep(0.5)


def picture_of_the_sweep(jemma: Person) -> None:
    """A sweep that holds the whole pool, more than a third of its trials ended."""
    jemma.start_notebook()
    jemma.tab.keyboard.press("Control+b")
    training, _, _ = EXAMPLE.read_text().partition("def objective")
    training = training.replace("model.partial_fit(", f"__import__('time').sleep({EPOCH_S}); model.partial_fit(")
    jemma.type_and_run(training)
    jemma.type_and_run(SWEEP)
    card = jemma.card("digits")
    expect(card.get_by_test_id("sweep-standing")).to_contain_text(re.compile(r"1\d of 24"), timeout=240_000)
    expect(card.get_by_test_id("sweep-gpus")).to_contain_text("borrowed")
    expect(card.get_by_test_id("sweep-parallel")).to_be_visible()
    cell = jemma.tab.locator(".jp-NotebookPanel .jp-CodeCell").nth(1)
    take("sweep", cell, card, beside=cell)


def picture_of_the_drained_node(hub: HubProcess, admin: Person) -> None:
    """The pool page while a node is out of service."""
    with Client(f"{hub.url}/services/springtide/", hub.token("joe")) as joe:
        joe.submit(Submission(argv=["sleep", "600"], gpus=2, name="faces"))
    admin.goto("pool")
    row = admin.tab.get_by_test_id("node-row").filter(has_text="train")
    row.get_by_test_id("node-drain").click()
    row.get_by_test_id("node-why").fill("A fan is to be replaced.")
    row.get_by_test_id("node-confirm").click()
    expect(row).to_contain_text("no jobs: drained")
    admin.tab.mouse.move(0, 0)
    nodes = admin.tab.get_by_test_id("section-nodes")
    take("drain", nodes, nodes)


def take(name: str, first: Locator, last: Locator, *, beside: Locator | None = None) -> None:
    """Photograph the page from ``first`` to ``last``, as wide as ``beside`` or else as the page's main part.

    The homes of the hub, in a directory of its own here, are shown where people have theirs.
    """
    page = first.page
    page.evaluate(SHOW_HOMES)
    expect(page.get_by_text("/state/homes/")).to_have_count(0)
    top, bottom = box(first), box(last)
    wide = box(beside or page.locator("main"))
    margin = BETWEEN_CELLS if beside else MARGIN
    area: FloatRect = {
        "x": max(0, wide["x"] - (0 if beside else MARGIN)),
        "y": max(0, top["y"] - margin),
        "width": wide["width"] + (0 if beside else 2 * MARGIN),
        "height": bottom["y"] + bottom["height"] - top["y"] + 2 * margin,
    }
    page.screenshot(path=HERE / f"{name}.png", clip=area)


def box(locator: Locator) -> FloatRect:
    """Where something is on the page; fails if it is not visible."""
    found = locator.bounding_box()
    assert found, f"{locator} is not visible"
    return found


if __name__ == "__main__":
    main()
