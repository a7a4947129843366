"""From a job to its TensorBoard by one click: on the pool's pages and in JupyterLab, in a real hub."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from browsers.browser_people import Person
from hubs.hub_people import Hub, until
from hubs.hub_people import Person as Program
from patience import PATIENCE_S
from playwright.sync_api import Browser, Locator, Page, expect

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission

pytestmark = pytest.mark.xdist_group("story")

TRAINING = """
import os
from tensorboardX import SummaryWriter
from springtide.training import current_job
with SummaryWriter(os.environ["SPRINGTIDE_OUTPUT_DIR"] + "/runs") as writer:
    for step in range(20):
        writer.add_scalar("of_its_own", step / 20, step)
        current_job().report(step=step, loss=1 / (step + 1))
"""


@pytest.fixture(scope="module")
def jobs(hub: Hub) -> Iterator[list[Job]]:
    """Two ended jobs of jemma's, whose notebook server runs."""
    jemma = Program(hub, "jemma")
    with Client(f"{hub.url}/services/springtide", jemma.token) as client:
        argv = [sys.executable, "-c", TRAINING]
        sent = [
            client.submit(Submission(argv=argv, kind="command", cwd="/tmp", name=name, gpus=0)).id
            for name in ("bert", "gpt")
        ]
        jemma.start({"gpus": 0}).raise_for_status()
        jemma.wait_until_ready()
        until("the end of the jobs", lambda: all(client.job(job).state == "succeeded" for job in sent))
        ended = [client.job(job) for job in sent]
    yield ended
    jemma.stop()
    jemma.close()


@pytest.fixture(scope="module")
def person(hub: Hub, browser: Browser, jobs: list[Job]) -> Person:
    return Person.log_in(browser, hub, "jemma")


def opened(person: Person, link: Locator) -> Page:
    """Click on a link; return the tab that it opens."""
    with person.tab.context.expect_page() as page:
        link.click()
    return page.value


def expect_board(board: Page, *jobs: Job) -> None:
    """Check that a tab becomes the TensorBoard of these jobs, with their own and their reported metrics."""
    for job in jobs:
        for folder in ("reported", "runs"):
            run = board.get_by_text(f"{job.name}-{job.id}/{folder}").first
            expect(run).to_be_visible(timeout=PATIENCE_S * 1000)
    for tag in ("of_its_own", "loss"):
        drawn = board.locator("card-view").filter(has_text=tag)
        expect(drawn.locator("line-chart").first).to_be_visible()


def test_the_card_on_a_jobs_page_leads_to_its_tensorboard(person: Person, jobs: list[Job]) -> None:
    person.goto(f"jobs/{jobs[0].id}")
    board = opened(person, person.tab.get_by_test_id("job-tensorboard"))
    expect_board(board, jobs[0])
    assert "/user/jemma/springtide/tensorboard/" in board.url
    board.close()


def test_selected_and_compared_jobs_are_shown_together(person: Person, jobs: list[Job]) -> None:
    person.goto("?show=all")
    for job in jobs:
        person.tab.locator(f"[data-job='{job.id}']").get_by_test_id("select-job").check()
    board = opened(person, person.tab.get_by_test_id("selected-tensorboard"))
    expect_board(board, *jobs)
    board.close()
    person.tab.get_by_test_id("selected-compare").click()
    board = opened(person, person.tab.get_by_test_id("compared-tensorboard"))
    expect_board(board, *jobs)
    board.close()


def test_a_jobs_tab_in_jupyterlab_and_a_command_lead_to_its_tensorboard(person: Person, jobs: list[Job]) -> None:
    tab = person.tab
    tab.goto(f"{person.hub}/user/jemma/lab")
    expect(tab.get_by_test_id("pool-status")).to_contain_text("GPUs held")
    tab.get_by_role("menuitem", name="Springtide").click()
    tab.get_by_role("menuitem", name="My Jobs").click()
    tab.locator(f"[data-job='{jobs[1].id}']").get_by_test_id("row-name").click()
    page = tab.locator(f"[data-job-tab='{jobs[1].id}']")
    board = opened(person, page.get_by_test_id("job-tensorboard"))
    expect_board(board, jobs[1])
    board.close()
    tab.get_by_role("menuitem", name="Springtide").click()
    tab.get_by_role("menuitem", name="TensorBoard of a Job…").click()
    tab.locator(".jp-Dialog select").select_option(f"{jobs[0].name} ({jobs[0].id})")
    board = opened(person, tab.locator(".jp-Dialog").get_by_role("button", name="Open"))
    expect_board(board, jobs[0])
    board.close()
