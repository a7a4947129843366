"""The whole product, through the pages only, while services are killed: build notebook, train jobs, pause, quotas.

`make soak` runs it: the tutorial and the story of a sweep prove in every run what it has in common with them.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from browsers.browser_people import Person, expect_state
from hubs.hub_people import Hub
from patience import PATIENCE_S
from playwright.sync_api import Browser, expect

pytestmark = [
    pytest.mark.xdist_group("story"),
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("empty_pool"),
    pytest.mark.full,
]

TRAINING_MS = 300_000
TRAININGS = ("digits wide", "digits deep")
NO_TIME_LEFT = "const timeout = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = () => timeout(0);"


@pytest.fixture(scope="module")
def susan(hub: Hub, browser: Browser, epochs: int, slow_example: str) -> Person:
    """Susan in her notebook, whose trainings are short."""
    susan = Person.log_in(browser, hub, "susan")
    susan.start_notebook()
    (hub.state_dir / "homes/susan/examples/digits/train.py").write_text(slow_example)
    susan.edit_line("EPOCHS = 400", f"EPOCHS = {epochs}")
    return susan


@pytest.fixture(scope="module")
def joe(hub: Hub, browser: Browser) -> Person:
    """Joe in his notebook, so slow that anywidget thinks that its cards never load; they live all the same."""
    joe = Person.log_in(browser, hub, "joe")
    joe.tab.add_init_script(NO_TIME_LEFT)
    joe.start_notebook()
    joe.type_and_run("from springtide.widgets import pool")
    return joe


class Killer:
    """Kills the service at random moments, and lets the hub start it again."""

    def __init__(self, hub: Hub, seed: int) -> None:
        self._hub = hub
        self._chance = random.Random(seed)

    @contextlib.contextmanager
    def kills_within(self, seconds: float) -> Iterator[None]:
        """Kill the service once while the block runs; the block ends when another one answers."""
        pid, moment = self._hub.service_pid(), self._chance.uniform(0, seconds)
        timer = threading.Timer(moment, os.kill, (pid, signal.SIGKILL))
        timer.start()
        try:
            yield
        finally:
            timer.join()
        self._hub.service_after(pid)


def susan_fills_the_pool(susan: Person) -> None:
    susan.run_all()
    for name in TRAININGS:
        expect_state(susan.card(name), "running")
        expect(susan.card(name).get_by_test_id("held-gpu")).to_have_count(4)
    drawn_by_the_page = susan.tab.locator(".springtide-output [data-testid=job-card]")
    expect(drawn_by_the_page, "without the kernel's widget").to_have_count(2)
    borrowed = susan.tab.locator("[data-testid=job-card] [data-testid=held-gpu][data-borrowed=true]")
    expect(borrowed).to_have_count(6)


def of_state(susan: Person, element: str, text: re.Pattern[str]) -> str:
    """Return the name of the only job of susan whose card has this text in this element; wait for one."""
    tab = susan.tab
    cards = tab.get_by_test_id("job-card").filter(has=tab.get_by_test_id(element).filter(has_text=text))
    expect(cards).to_have_count(1, timeout=2_000 * PATIENCE_S)
    return cards.get_by_test_id("job-name").inner_text().strip()


def the_story(susan: Person, joe: Person, epochs: int, killer: Killer) -> str:
    """Return the name of susan's job that was paused for joe's and resumed, while the ``killer`` is at work.

    Which of the two is paused depends on the work that each would lose at that moment. While the service is away,
    cards may miss states, but no result.
    """
    susan_fills_the_pool(susan)
    for training in TRAININGS:
        progress = susan.card(training).get_by_test_id("job-progress")
        expect(progress).to_contain_text(re.compile(rf"[1-9]\d* of {epochs}"))

    joe.type_and_run("pool.submit('python train.py --epochs 5 --layers 64', gpus=2, name='joes own')")
    paused = of_state(susan, "job-state", re.compile("pausing|paused", re.IGNORECASE))
    expect_state(susan.card(paused), "paused")
    expect(susan.card(paused).get_by_test_id("job-reason")).to_contain_text("joe")
    (other,) = set(TRAININGS) - {paused}
    expect_state(susan.card(other), "running")
    with killer.kills_within(3):
        expect_state(joe.card("joes own"), "succeeded", 2 * PATIENCE_S)

    with killer.kills_within(3):
        assert of_state(susan, "job-attempt", re.compile("attempt 2")) == paused
        expect_state(susan.card(paused), "succeeded", TRAINING_MS / 1000)
    return paused


def expect_as_without_a_pause(susan: Person, paused: str, epochs: int, undisturbed: Callable[[str], str]) -> None:
    """Check that the paused training has the weights of one that was not, and trained each epoch once."""
    result = susan.tab.locator(".jp-OutputArea-executeResult").filter(has_text="weights").last
    expect(result).to_contain_text(undisturbed(paused), timeout=TRAINING_MS)
    for training in TRAININGS:
        expect(result).to_contain_text(re.compile(rf"'{training}': \{{'epochs': {epochs}"))
    susan.type_and_run(f"print({paused.rsplit(maxsplit=1)[-1]}.logs())")
    expect(susan.printed()).to_contain_text(f"epoch {epochs} of {epochs}")
    printed = re.findall(rf"epoch (\d+) of {epochs}", susan.printed().inner_text())
    assert [int(number) for number in printed] == list(range(1, epochs + 1))


def test_borrowed_gpus_come_back_and_the_training_resumes_though_the_service_is_killed_twice(
    hub: Hub, susan: Person, joe: Person, epochs: int, undisturbed: Callable[[str], str]
) -> None:
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    paused = the_story(susan, joe, epochs, Killer(hub, seed))
    expect_as_without_a_pause(susan, paused, epochs, undisturbed)


def test_an_admin_raises_a_quota_and_the_pool_follows(
    hub: Hub, browser: Browser, susan: Person, joe: Person
) -> None:
    admin = Person.log_in(browser, hub, "admin")
    susan.type_and_run(
        "from springtide.widgets import pool\nfor _ in range(2): print(pool.submit('sleep 300', gpus=4).id)"
    )
    expect(susan.printed()).to_contain_text(re.compile(r"\w{12}\s+\w{12}"))
    joe.type_and_run("pool.submit('sleep 300', gpus=6, name='joes large one')")
    expect_state(joe.card("joes large one"), "queued")
    expect(joe.card("joes large one").get_by_test_id("job-reason")).to_contain_text("holds none of its 2 GPUs")

    admin.goto("admin")
    admin.change_quota("joe", 6)
    expect(admin.tab.get_by_test_id("refusal-joe")).to_contain_text(re.compile("10.*8"))
    admin.change_quota("jemma", 0)
    admin.change_quota("joe", 6)
    expect_state(joe.card("joes large one"), "running")
    expect(admin.tab.get_by_test_id("audit-row").first).to_contain_text("joe")
