"""JupyterLab beside a busy pool: ``python benchmarks/bench_page.py [JOBS]``.

A real notebook server, a real Chromium and a real pool with simulated GPUs. While short jobs pass, the longest
stop of the page is the longest time between two turns of a timer of 5 ms that runs in it: first with the side
panel closed, which is the machine's own stop, then with the panel open. The jobs run beside the page, so that
both have the same load. The second measurement is the CPU time of the page's processes while ten jobs run and
do nothing, each with a live card in view or below it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import psutil
from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from browser import running_browser
from lab_bench import Lab
from playwright.sync_api import Page
from pool_process import ServiceProcess
from server_extension_bench import start_server, stop

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission
from springtide.widgets.display.document import job_output

JOBS = 1_000
IN_LINE = 40
"""Number of jobs that are submitted and have not ended, at most."""
CARDS = 10
IDLE_S = 60.0
MOST_STOP_MS = 100.0
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
SLEEPS = "import time; time.sleep(3600)"
ACTIVE = "queued,starting,running,pausing,paused"


def submit(client: Client, name: str, gpus: int, program: str) -> Job:
    """Submit a job."""
    argv = [sys.executable, "-S", "-c", program]
    return client.submit(Submission(argv=argv, cwd="/tmp", project="vision", gpus=gpus, name=name))


def pass_jobs(client: Client, page: Page, jobs: int) -> tuple[float, float]:
    """Let short jobs pass; return the longest stop of the page in milliseconds, and how long it all took."""
    page.evaluate("stops.length = 0")
    began = time.monotonic()
    for number in range(jobs):
        submit(client, f"short {number}", 1, "pass")
        while number % 10 == 9 and len(client.jobs(mine=True, state=ACTIVE, limit=IN_LINE).items) >= IN_LINE:
            page.wait_for_timeout(100)
    while client.jobs(mine=True, state=ACTIVE, limit=1).items:
        page.wait_for_timeout(200)
    page.wait_for_timeout(3_000)
    return float(page.evaluate("stops.reduce((one, other) => Math.max(one, other), 0)")), time.monotonic() - began


def cpu_time(renderers: list[psutil.Process]) -> float:
    """Return the CPU time of processes, in seconds."""
    return sum(sum(process.cpu_times()[:2]) for process in renderers)


def renderers() -> list[psutil.Process]:
    """Return the processes of this program's browser that draw pages."""
    children = psutil.Process().children(recursive=True)
    present = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in present if any(word.startswith("--type=renderer") for word in child.cmdline())]


def stops(client: Client, page: Page, jobs: int) -> None:
    """Print the longest stop of the page while jobs pass, without and with the panel."""
    page.evaluate(WATCH)
    own, took = pass_jobs(client, page, jobs)
    print(f"longest stop while {jobs:,} jobs pass ({took:.0f} s), panel closed: {own:6.0f} ms")
    page.evaluate("window.jupyterapp.shell.activateById('springtide-pool')")
    page.get_by_test_id("panel-mine").wait_for()
    page.evaluate("stops.length = 0")
    most, took = pass_jobs(client, page, jobs)
    verdict = "within" if most - own <= MOST_STOP_MS else "NOT within"
    print(f"longest stop while {jobs:,} jobs pass ({took:.0f} s), panel open:   {most:6.0f} ms,", end=" ")
    print(f"{verdict} {MOST_STOP_MS:.0f} ms of the machine's own")


def idle(page: Page) -> None:
    """Print the share of a core that the page needs while nothing happens."""
    processes = renderers()
    page.wait_for_timeout(10_000)
    before = cpu_time(processes)
    page.wait_for_timeout(1000 * IDLE_S)
    share = (cpu_time(processes) - before) / IDLE_S
    verdict = "within" if share <= MOST_SHARE else "NOT within"
    print(f"idle tab with {CARDS} live cards and the panel: {share:.2%} of a core, {verdict} {MOST_SHARE:.0%}")


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
                page = lab.open(context, "empty.ipynb")
                page.get_by_test_id("pool-status").wait_for()
                stops(client, page, jobs)
                page.close()
                waiting = [
                    submit(client, f"idle {number}", 1, "import time; time.sleep(3600)") for number in range(CARDS)
                ]
                cards = [(job.name, job_output(job, time.time())) for job in waiting]
                lab.write("cards.ipynb", *cards)
                page = lab.open(context, "cards.ipynb")
                page.get_by_test_id("job-card").first.wait_for()
                page.evaluate("window.jupyterapp.shell.activateById('springtide-pool')")
                page.get_by_test_id("panel-mine").wait_for()
                idle(page)
                for job in waiting:
                    client.cancel(job.id)
        finally:
            stop(server)
            service.stop()


if __name__ == "__main__":
    main()
