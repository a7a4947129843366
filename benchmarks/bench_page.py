"""JupyterLab beside a busy pool: ``python benchmarks/bench_page.py [JOBS]``.

A real notebook server, a real Chromium and a real pool with simulated GPUs.

While short jobs pass, first with the side panel closed and then with it open, the longest stop of the page is the
longest time between two turns of a timer of 5 ms that runs in it. The jobs run beside the page, and take its core
away: the same timer in an empty page at the same time has the machine's own stops. What is left is the page's own
work: the CPU time of its longest task, by Chromium's trace, during which nothing else can happen in the page.

The second measurement is the CPU time of the page's processes while ten jobs run and do nothing: first of
JupyterLab with a notebook without cards, then with a live card for each of them and the panel.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from benches.lab_bench import Lab
from benches.server_extension_bench import start_server, stop
from browsers.browser import running_browser
from playwright.sync_api import Browser, BrowserContext, Page
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission
from springtide.widgets.display.document import job_output

JOBS = 1_000
IN_LINE = 40
"""Number of jobs that are submitted and have not ended, at most."""
CARDS = 10
SETTLED_S = 20.0
"""Time that a page has to finish what it does once, such as compiling its scripts."""
IDLE_S = 60.0
"""Time of a measurement: the first minute of jobs, in which their cards show seconds, and a minute after it."""
MOST_TASK_MS = 100.0
MOST_SHARE = 0.01
WATCH = """() => {
    window.stops = [];
    let last = performance.now();
    setInterval(() => {
        const now = performance.now();
        stops.push(now - last - 5);
        last = now;
    }, 5);
}"""
LONGEST = "stops.reduce((one, other) => Math.max(one, other), 0)"
SLEEPS = "import time; time.sleep(3600)"
ACTIVE = "queued,starting,running,pausing,cancelling,ending,paused"
TASK = "RunTask"


@dataclass
class Trace:
    """The tasks in the main threads of pages, as Chromium records them."""

    browser: Browser
    events: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False

    def __post_init__(self) -> None:
        """Begin to record."""
        self.session = self.browser.new_browser_cdp_session()
        self.session.on("Tracing.dataCollected", lambda message: self.events.extend(message["value"]))
        self.session.on("Tracing.tracingComplete", lambda _: setattr(self, "complete", True))
        config = {"includedCategories": ["disabled-by-default-devtools.timeline"], "excludedCategories": ["*"]}
        self.session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})

    def longest_ms(self, page: Page) -> float:
        """End the record; return the CPU time of the longest task, in milliseconds."""
        self.session.send("Tracing.end")
        deadline = time.monotonic() + 60
        while not self.complete and time.monotonic() < deadline:
            page.wait_for_timeout(100)
        assert self.complete
        named = [event for event in self.events if event["name"] == "thread_name"]
        pages = {(e["pid"], e["tid"]) for e in named if e["args"]["name"] == "CrRendererMain"}
        tasks = [e for e in self.events if e["name"] == TASK and (e["pid"], e["tid"]) in pages]
        return max(float(task.get("tdur", 0)) for task in tasks) / 1000


def submit(client: Client, name: str, gpus: int, program: str) -> Job:
    """Submit a job."""
    argv = [sys.executable, "-S", "-c", program]
    return client.submit(Submission(argv=argv, cwd="/tmp", project="vision", gpus=gpus, name=name))


def pass_jobs(client: Client, page: Page, jobs: int) -> None:
    """Let short jobs pass."""
    for number in range(jobs):
        submit(client, f"short {number}", 1, "pass")
        while number % 10 == 9 and len(client.jobs(mine=True, state=ACTIVE, limit=IN_LINE).items) >= IN_LINE:
            page.wait_for_timeout(100)
    while client.jobs(mine=True, state=ACTIVE, limit=1).items:
        page.wait_for_timeout(200)
    page.wait_for_timeout(3_000)


def watched(client: Client, browser: Browser, page: Page, empty: Page, jobs: int) -> str:
    """Return the longest stops and the longest task while jobs pass, in words."""
    for each in (page, empty):
        each.evaluate("stops.length = 0")
    trace, began = Trace(browser), time.monotonic()
    pass_jobs(client, page, jobs)
    took = time.monotonic() - began
    task = trace.longest_ms(page)
    verdict = "within" if task <= MOST_TASK_MS else "NOT within"
    most, own = page.evaluate(LONGEST), empty.evaluate(LONGEST)
    return (
        f"its longest task takes {task:.0f} ms, {verdict} {MOST_TASK_MS:.0f} ms; longest stop of the page "
        f"{most:.0f} ms, of an empty page beside it {own:.0f} ms ({took:.0f} s)"
    )


def stops(client: Client, browser: Browser, page: Page, jobs: int) -> None:
    """Print how long the page stops while jobs pass, without and with the panel."""
    empty = browser.new_context().new_page()
    for each in (page, empty):
        each.evaluate(WATCH)
    page.bring_to_front()
    page.wait_for_timeout(1000 * SETTLED_S)
    print(f"while {jobs:,} jobs pass, panel closed: {watched(client, browser, page, empty, jobs)}")
    page.evaluate("window.jupyterapp.shell.activateById('springtide-pool')")
    page.get_by_test_id("panel-mine").wait_for()
    page.wait_for_timeout(1_000)
    print(f"while {jobs:,} jobs pass, panel open: {watched(client, browser, page, empty, jobs)}")
    empty.context.close()


def cpu_time(renderers: list[psutil.Process]) -> float:
    """Return the CPU time of processes, in seconds."""
    return sum(sum(process.cpu_times()[:2]) for process in renderers)


def renderers() -> list[psutil.Process]:
    """Return the processes of this program's browser that draw pages."""
    children = psutil.Process().children(recursive=True)
    present = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in present if any(word.startswith("--type=renderer") for word in child.cmdline())]


def idle(page: Page) -> float:
    """Return the share of a core that the page needs while nothing happens, once it has settled."""
    page.wait_for_timeout(1000 * SETTLED_S)
    return share_of_a_core(page)


def share_of_a_core(page: Page) -> float:
    """Return the share of a core that the page needs for some time from now on."""
    processes = renderers()
    before = cpu_time(processes)
    page.wait_for_timeout(1000 * IDLE_S)
    return (cpu_time(processes) - before) / IDLE_S


def idles(client: Client, lab: Lab, context: BrowserContext) -> None:
    """Print the share of a core of a page without cards, and of one with live cards and the panel."""
    page = lab.open(context, "empty.ipynb")
    page.get_by_test_id("pool-status").wait_for()
    own = idle(page)
    page.close()
    jobs = [submit(client, f"idle {number}", 1, SLEEPS) for number in range(CARDS)]
    lab.write("cards.ipynb", *((job.name, job_output(job, time.time())) for job in jobs))
    page = lab.open(context, "cards.ipynb")
    page.get_by_test_id("job-card").first.wait_for()
    page.evaluate("window.jupyterapp.shell.activateById('springtide-pool')")
    page.get_by_test_id("panel-mine").wait_for()
    while len(client.jobs(mine=True, state="running", limit=CARDS).items) < CARDS:
        page.wait_for_timeout(200)
    young = share_of_a_core(page)
    share = idle(page)
    verdict = "within" if share <= MOST_SHARE else "NOT within"
    print(f"idle tab with {CARDS} live cards and the panel: {share:.2%} of a core, {verdict} {MOST_SHARE:.0%}")
    print(f"in the first minute of the jobs {young:.2%}; JupyterLab alone {own:.2%}")
    for job in jobs:
        client.cancel(job.id)


def main() -> None:
    """Run both measurements and print them."""
    print(describe())
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with tempfile.TemporaryDirectory() as folder:
        state, root = Path(folder) / "pool", Path(folder) / "susan"
        state.mkdir()
        service = ServiceProcess(state, projects={"vision": (CARDS + 4, ["susan"])})
        service.start()
        environment = {
            "SPRINGTIDE_URL": service.url,
            "JUPYTERHUB_API_TOKEN": "susan",
            "SPRINGTIDE_PAGES": "/pages/",
        }
        server = start_server(root, environment, pages=True)
        try:
            with Client(service.url, "susan") as client, running_browser() as browser:
                lab = Lab(root, server)
                context = browser.new_context(viewport={"width": 1300, "height": 1000})
                lab.write("empty.ipynb", ("1", None))
                idles(client, lab, context)
                for tab in context.pages:
                    tab.close()
                page = lab.open(context, "empty.ipynb")
                page.get_by_test_id("pool-status").wait_for()
                stops(client, browser, page, jobs)
        finally:
            stop(server)
            service.stop()


if __name__ == "__main__":
    main()
