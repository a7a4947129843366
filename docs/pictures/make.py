"""Makes the pictures of the README from a real hub: ``python docs/pictures/make.py``.

Takes about four minutes and needs Chromium and what the tests need. The story is that of `tests/story`: susan's
two trainings fill the pool, joe asks for his GPUs, jemma comes by, an admin asks for more than there is.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import FloatRect, Locator, expect

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Submission

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests" / "support"))

from browser import running_browser  # noqa: E402 - found by the line above
from browser_people import Person, expect_state  # noqa: E402 - found by the line above
from hub_process import HubProcess  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTH = 1080
MARGIN = 16
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
            picture_of_the_notebook(hub, browser)
            go_on(hub)
            picture_of_the_pool(hub, browser)
            picture_of_the_admin_page(hub, browser)
        finally:
            hub.stop()


def picture_of_the_notebook(hub: HubProcess, browser: Browser) -> None:
    """Susan's notebook right after joe has got his GPUs back."""
    susan = Person.log_in(browser, hub, "susan", width=WIDTH, scale=2)
    joe = Person.log_in(browser, hub, "joe")
    susan.start_notebook()
    susan.tab.keyboard.press("Control+b")
    susan.run_all()
    cards = [susan.card(name) for name in ("digits wide", "digits deep")]
    for card in cards:
        expect_state(card, "running", 60)
    joe.start_notebook()
    for card in cards:
        expect(card.get_by_test_id("job-progress")).to_contain_text(re.compile(r"[2-9]\d of 100"), timeout=60_000)
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


def go_on(hub: HubProcess) -> None:
    """Some minutes of life in the pool."""
    tokens = {name: hub.token(name) for name in ("susan", "joe", "jemma")}
    for wait, user, gpus, name, seconds in LATER:
        time.sleep(wait)
        with Client(f"{hub.url}/services/springtide/", tokens[user]) as client:
            client.submit(Submission(argv=["sleep", str(seconds)], gpus=gpus, name=name))
    time.sleep(10)


def picture_of_the_pool(hub: HubProcess, browser: Browser) -> None:
    """The pool page with all that happened."""
    susan = Person.log_in(browser, hub, "susan", width=WIDTH, scale=2)
    susan.goto("pool")
    susan.tab.get_by_test_id("section-tide").locator("svg").first.wait_for()
    susan.tab.wait_for_timeout(2000)
    take("pool", susan.tab.locator("main h1"), susan.tab.get_by_test_id("section-holders"))


def picture_of_the_admin_page(hub: HubProcess, browser: Browser) -> None:
    """A quota that the sums refuse."""
    admin = Person.log_in(browser, hub, "admin", width=WIDTH + 200, scale=2)
    admin.goto("admin")
    admin.change_quota("joe", 6)
    expect(admin.tab.get_by_test_id("refusal-joe")).to_be_visible()
    admin.tab.mouse.move(0, 0)
    take("admin", admin.tab.locator("main h1"), admin.tab.get_by_test_id("audit-row").last)


def take(name: str, first: Locator, last: Locator, *, beside: Locator | None = None) -> None:
    """Photograph the page from ``first`` to ``last``, as wide as ``beside`` or else as the page's main part."""
    page = first.page
    top, bottom = box(first), box(last)
    wide = box(beside or page.locator("main"))
    area: FloatRect = {
        "x": max(0, wide["x"] - (0 if beside else MARGIN)),
        "y": max(0, top["y"] - MARGIN),
        "width": wide["width"] + (0 if beside else 2 * MARGIN),
        "height": bottom["y"] + bottom["height"] - top["y"] + 2 * MARGIN,
    }
    page.screenshot(path=HERE / f"{name}.png", clip=area)


def box(locator: Locator) -> FloatRect:
    """Where something is on the page; fails if it is not visible."""
    found = locator.bounding_box()
    assert found, f"{locator} is not visible"
    return found


if __name__ == "__main__":
    main()
