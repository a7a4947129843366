"""The whole product, through the pages only: build notebook, train jobs, pause, resume, quotas."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
from typing import Self

import pytest
from browser_people import Person, expect_state
from hub_process import HubProcess
from playwright.sync_api import Browser, expect

pytestmark = [pytest.mark.xdist_group("story"), pytest.mark.timeout(1200)]

TRAINING_MS = 300_000
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
    for name in ("digits wide", "digits deep"):
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


def the_story(
    hub: HubProcess, browser: Browser, epochs: int, undisturbed: str, killer: Killer | None = None
) -> Person:
    """Return susan, whose job was paused for joe's and resumed.

    While a ``killer`` works, cards may miss states that passed during an outage of the service, but no result.
    """
    susan = Person.log_in(browser, hub, "susan")
    joe = Person.log_in(browser, hub, "joe")
    susan.start_notebook()
    joe.start_notebook()
    susan_fills_the_pool(susan, epochs)
    deep = susan.card("digits deep")
    expect(deep.get_by_test_id("job-progress")).to_contain_text(re.compile(rf"[1-9]\d* of {epochs}"))

    with killer or contextlib.nullcontext():
        joe_asks_for_his_own(joe)
        if killer is None:
            leaving = re.compile("pausing|paused", re.IGNORECASE)
            expect(deep.get_by_test_id("job-state")).to_contain_text(leaving)
            expect_state(deep, "paused")
            expect(deep.get_by_test_id("job-reason")).to_contain_text("joe")
            expect_state(susan.card("digits wide"), "running")
        expect_state(joe.card("joes own"), "succeeded", 90)

        expect(deep.get_by_test_id("job-attempt")).to_contain_text("attempt 2", timeout=90_000)
        if killer is None:
            expect_state(deep, "running", 60)
        expect_state(deep, "succeeded", TRAINING_MS / 1000)
    result = susan.tab.locator(".jp-OutputArea-executeResult").filter(has_text="weights").last
    expect(result).to_contain_text(undisturbed, timeout=TRAINING_MS)
    return susan


def resumed_epochs(susan: Person, epochs: int) -> list[int]:
    """The epochs that the paused training printed, over both attempts; its last is number ``epochs``."""
    susan.type_and_run("print(deep.logs())")
    expect(susan.printed()).to_contain_text(f"epoch {epochs} of {epochs}")
    text = susan.printed().inner_text()
    return [int(number) for number in re.findall(rf"epoch (\d+) of {epochs}", text)]


def test_borrowed_gpus_come_back_and_the_training_resumes(
    hub: HubProcess, browser: Browser, epochs: int, undisturbed: str
) -> None:
    susan = the_story(hub, browser, epochs, undisturbed)
    assert resumed_epochs(susan, epochs) == list(range(1, epochs + 1)), "each epoch was trained exactly once"


def test_the_story_survives_a_killed_service(
    hub: HubProcess, browser: Browser, epochs: int, undisturbed: str
) -> None:
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    killer = Killer(hub, 2, seed)
    susan = the_story(hub, browser, epochs, undisturbed, killer)
    assert killer.killed == 2
    assert resumed_epochs(susan, epochs) == list(range(1, epochs + 1)), "each epoch was trained exactly once"


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
