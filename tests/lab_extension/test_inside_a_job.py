"""Inside a running job from JupyterLab: a terminal as a tab, and where the job is now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benches.lab_bench import Lab, card, expect_state
from patience import PATIENCE_S
from playwright.sync_api import BrowserContext, Page, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job
from springtide.widgets.connection import Connection
from springtide.widgets.job import Job as Handle

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]
COMMAND = "springtide:job-terminal"


def test_a_card_opens_a_terminal_and_shows_where_its_job_is(
    lab: Lab, context: BrowserContext, service: ServiceProcess, submit: Callable[..., Job]
) -> None:
    job = submit("inside")
    lab.write(
        "inside.ipynb", ("job", Handle(job.id, Connection(Client(service.url, "susan")))._repr_mimebundle_())
    )
    tab = lab.open(context, "inside.ipynb")
    expect_state(tab, "Running")
    expect(card(tab).get_by_test_id("job-progress")).to_contain_text("step")
    card(tab).get_by_test_id("job-stack").click()
    stack = card(tab).get_by_test_id("stack")
    expect(stack.locator("pre")).to_contain_text("most recent call first")
    expect(card(tab).locator("footer + [data-testid=stack]")).to_be_visible()
    card(tab).get_by_test_id("stack-close").click()
    expect(stack).to_have_count(0)
    expect(card(tab).get_by_test_id("job-stack")).to_be_focused()
    card(tab).get_by_test_id("job-terminal").click()
    terminal = tab.locator(".jp-Terminal:visible")
    expect(terminal).to_be_visible()
    terminal.click()
    seen = lab.root / "seen"
    tab.keyboard.type(f"echo $SPRINGTIDE_JOB_ID $(tty) > {seen}\n")
    wait_for_line(tab, seen)
    assert seen.read_text().startswith(f"{job.id} /dev/pts/")
    labels = tab.locator(".lm-TabBar-tabLabel")
    expect(labels.get_by_text("inside", exact=True)).to_have_count(1)
    renamed = lab.root / "renamed"
    tab.keyboard.type(f"printf '\\033]0;susan@node\\007'; echo done > {renamed}\n")
    wait_for_line(tab, renamed)
    expect(labels.get_by_text("inside", exact=True)).to_have_count(1)
    expect(labels.get_by_text("susan@node")).to_have_count(0)
    tab.reload()
    expect(labels.get_by_text("inside", exact=True)).to_have_count(1)
    expect(tab.locator(".jp-Terminal:visible")).to_be_visible()
    tab.locator(".jp-Terminal:visible").click()
    reloaded = lab.root / "reloaded"
    tab.keyboard.type(f"echo $SPRINGTIDE_JOB_ID > {reloaded}\n")
    wait_for_line(tab, reloaded)
    assert reloaded.read_text() == f"{job.id}\n"


def wait_for_line(tab: Page, file: Path) -> None:
    """Wait until a file has a line."""
    for _ in range(round(PATIENCE_S * 10)):
        if file.exists() and file.read_text().endswith("\n"):
            return
        tab.wait_for_timeout(100)
    raise AssertionError(file)


def test_the_command_says_that_nothing_runs_or_asks_which_job(
    lab: Lab, context: BrowserContext, submit: Callable[..., Job]
) -> None:
    lab.write("which.ipynb", ("1", None))
    tab = lab.open(context, "which.ipynb")
    tab.wait_for_function(f"window.jupyterapp?.commands?.hasCommand('{COMMAND}')")
    tab.evaluate(f"void window.jupyterapp.commands.execute('{COMMAND}', {{}})")
    expect(tab.locator(".jp-Dialog")).to_contain_text("None of your jobs runs now.")
    tab.locator(".jp-Dialog-footer button").click()
    names = ("one", "two")
    for name in names:
        submit(name)
    with_jobs = f"""async () => {{
      const {{ serviceManager }} = window.jupyterapp;
      for (let tries = 0; tries < {round(PATIENCE_S * 10)}; tries += 1) {{
        const {{ baseUrl }} = serviceManager.serverSettings;
        const answer = await fetch(`${{baseUrl}}springtide/api/v1/jobs?state=running&mine=1`);
        if ((await answer.json()).items.length === {len(names)}) return true;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }}
      return false;
    }}"""
    assert tab.evaluate(with_jobs)
    tab.evaluate(f"void window.jupyterapp.commands.execute('{COMMAND}', {{}})")
    expect(tab.locator(".jp-Dialog")).to_contain_text("Open a terminal in which job?")
    for name in names:
        expect(tab.locator(".jp-Dialog select, .jp-Dialog datalist").first).to_contain_text(name)
    tab.locator(".jp-Dialog-footer button", has_text="Open").click()
    expect(tab.locator(".jp-Terminal:visible")).to_be_visible()
