"""The tutorial: each of its steps, as its text has them, in a browser on a hub that nobody has used."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hubs.hub_people import Hub
from hubs.hub_people import Person as Caller
from hubs.tutorial import Command, Newcomer, Run, See, Step, steps
from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
PEOPLE = ("susan", "joe")
STEPS = steps()

pytestmark = [pytest.mark.xdist_group("story"), pytest.mark.timeout(1200), pytest.mark.usefixtures("empty_pool")]


def forget(hub: Hub) -> None:
    """Stop the notebooks of the tutorial's people, and delete what they have written."""
    for name in PEOPLE:
        caller = Caller(hub, name)
        if caller.server() is not None:
            caller.stop()
        caller.close()
        shutil.rmtree(hub.state_dir / "homes" / name, ignore_errors=True)


@pytest.fixture
def newcomer(hub: Hub, browser: Browser) -> Iterator[Newcomer]:
    """Someone who does what the tutorial says, on a hub whose people log in for the first time."""
    forget(hub)
    yield Newcomer(browser, hub)
    forget(hub)


def test_every_step_of_the_tutorial_does_what_it_says(hub: Hub, newcomer: Newcomer, slow_example: str) -> None:
    start, *others = STEPS
    for action in start.actions:
        if isinstance(action, Command):
            expect_to_start_a_hub(action)
        else:
            newcomer.do(action)
    for step in others:
        print(f"Step: {step.title}")
        if trains(step):
            (hub.state_dir / "homes/susan/examples/digits/train.py").write_text(slow_example)
        for action in step.actions:
            newcomer.do(action)


def expect_to_start_a_hub(command: Command) -> None:
    """Check that a command of the tutorial starts what the fixture has started."""
    done = subprocess.run([*command.text.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "/springtide up " in done.stdout


def trains(step: Step) -> bool:
    return any(isinstance(action, Run) and "import train" in action.code for action in step.actions)


def test_every_step_of_the_tutorial_says_what_is_seen_then() -> None:
    assert len(STEPS) > 5
    assert [step.title for step in STEPS if not any(isinstance(action, See) for action in step.actions)] == []
