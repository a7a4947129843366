"""The whole product, through the pages only: build notebook, train jobs, pause, resume, quotas."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from typing import Self

import pytest
from browser_people import Person, expect_state
from hub_process import HubProcess
from playwright.sync_api import Browser, expect

pytestmark = [pytest.mark.xdist_group("story"), pytest.mark.timeout(1200)]

TRAINING_MS = 300_000
TRAININGS = ("digits wide", "digits deep")
NO_TIME_LEFT = "const timeout = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = () => timeout(0);"


class Killer:
    """Kills the service at random moments, and lets the hub start it again."""

    def __init__(self, hub: HubProcess, times: int, seed: int) -> None:
        self._hub = hub
        self._chance = random.Random(seed)
        self._left = times
        self._done = threading.Event()
        self.killed = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while self._left and not self._done.wait(self._chance.uniform(2, 15)):
            try:
                pid = self._hub.service_pid()
            except LookupError:
                continue
            os.kill(pid, signal.SIGKILL)
            self.killed += 1
            self._left -= 1
            while not self._done.wait(0.2) and not self._hub.answers():
                pass

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def susan_fills_the_pool(susan: Person, epochs: int) -> None:
    susan.edit_line("EPOCHS = 100", f"EPOCHS = {epochs}")
    susan.run_all()
    for name in TRAININGS:
        expect_state(susan.card(name), "running", 60)
        expect(susan.card(name).get_by_test_id("held-gpu")).to_have_count(4)
    drawn_by_the_page = susan.tab.locator(".springtide-output [data-testid=job-card]")
    expect(drawn_by_the_page, "without the kernel's widget").to_have_count(2)
    borrowed = susan.tab.locator("[data-testid=job-card] [data-testid=held-gpu][data-borrowed=true]")
    expect(borrowed).to_have_count(6)


def joe_asks_for_his_own(joe: Person) -> None:
    joe.type_and_run(
        "from springtide.widgets import pool\n"
        "pool.submit('python train.py --epochs 5 --layers 64', gpus=2, name='joes own')"
    )


def of_state(susan: Person, element: str, text: re.Pattern[str]) -> str:
    """Return the name of the only job of susan whose card has this text in this element; wait for one."""
    tab = susan.tab
    cards = tab.get_by_test_id("job-card").filter(has=tab.get_by_test_id(element).filter(has_text=text))
    expect(cards).to_have_count(1, timeout=90_000)
    return cards.get_by_test_id("job-name").inner_text().strip()


def the_story(
    hub: HubProcess,
    browser: Browser,
    epochs: int,
    undisturbed: Callable[[str], str],
    killer: Killer | None = None,
) -> tuple[Person, str]:
    """Return susan and the name of her job that was paused for joe's and resumed.

    Which of the two is paused depends on the work that each would lose at that moment. While a ``killer`` works,
    cards may miss states that passed during an outage of the service, but no result.
    """
    susan = Person.log_in(browser, hub, "susan")
    joe = Person.log_in(browser, hub, "joe")
    susan.start_notebook()
    joe.start_notebook()
    susan_fills_the_pool(susan, epochs)
    for name in TRAININGS:
        progress = susan.card(name).get_by_test_id("job-progress")
        expect(progress).to_contain_text(re.compile(rf"[1-9]\d* of {epochs}"))

    with killer or contextlib.nullcontext():
        joe_asks_for_his_own(joe)
        if killer is None:
            paused = of_state(susan, "job-state", re.compile("pausing|paused", re.IGNORECASE))
            expect_state(susan.card(paused), "paused")
            expect(susan.card(paused).get_by_test_id("job-reason")).to_contain_text("joe")
            (other,) = set(TRAININGS) - {paused}
            expect_state(susan.card(other), "running")
        expect_state(joe.card("joes own"), "succeeded", 90)

        paused = of_state(susan, "job-attempt", re.compile("attempt 2"))
        if killer is None:
            expect_state(susan.card(paused), "running", 60)
        expect_state(susan.card(paused), "succeeded", TRAINING_MS / 1000)
    result = susan.tab.locator(".jp-OutputArea-executeResult").filter(has_text="weights").last
    expect(result).to_contain_text(undisturbed(paused), timeout=TRAINING_MS)
    return susan, paused


def resumed_epochs(susan: Person, paused: str, epochs: int) -> list[int]:
    """The epochs that the paused training printed, over both attempts; its last is number ``epochs``."""
    susan.type_and_run(f"print({paused.rsplit(maxsplit=1)[-1]}.logs())")
    expect(susan.printed()).to_contain_text(f"epoch {epochs} of {epochs}")
    text = susan.printed().inner_text()
    return [int(number) for number in re.findall(rf"epoch (\d+) of {epochs}", text)]


def test_borrowed_gpus_come_back_and_the_training_resumes(
    hub: HubProcess, browser: Browser, epochs: int, undisturbed: Callable[[str], str]
) -> None:
    susan, paused = the_story(hub, browser, epochs, undisturbed)
    assert resumed_epochs(susan, paused, epochs) == list(range(1, epochs + 1)), "each epoch was trained once"


def test_the_story_survives_a_killed_service(
    hub: HubProcess, browser: Browser, epochs: int, undisturbed: Callable[[str], str]
) -> None:
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    killer = Killer(hub, 2, seed)
    susan, paused = the_story(hub, browser, epochs, undisturbed, killer)
    assert killer.killed == 2
    assert resumed_epochs(susan, paused, epochs) == list(range(1, epochs + 1)), "each epoch was trained once"


def test_an_admin_raises_a_quota_and_the_pool_follows(hub: HubProcess, browser: Browser, epochs: int) -> None:
    """Joe's page is so slow that anywidget thinks that its cards never load; they are live all the same."""
    susan = Person.log_in(browser, hub, "susan")
    joe = Person.log_in(browser, hub, "joe")
    joe.tab.add_init_script(NO_TIME_LEFT)
    admin = Person.log_in(browser, hub, "admin")
    susan.start_notebook()
    joe.start_notebook()
    susan_fills_the_pool(susan, epochs)
    joe.type_and_run(
        "from springtide.widgets import pool\npool.submit('sleep 300', gpus=6, name='joes large one')"
    )
    expect_state(joe.card("joes large one"), "queued")
    expect(joe.card("joes large one").get_by_test_id("job-reason")).to_contain_text("holds none of its 2 GPUs")

    admin.goto("admin")
    admin.change_quota("joe", 6)
    expect(admin.tab.get_by_test_id("refusal-joe")).to_contain_text(re.compile("10.*8"))
    admin.change_quota("jemma", 0)
    admin.change_quota("joe", 6)
    expect_state(joe.card("joes large one"), "running", 60)
    expect(admin.tab.get_by_test_id("audit-row").first).to_contain_text("joe")
