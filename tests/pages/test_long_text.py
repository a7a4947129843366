"""Words of users without a space, as long as the pool takes them: no page scrolls sideways through them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire
from springtide.scheduler.arguments import Argument
from springtide.scheduler.telemetry import discover

Visit = Callable[..., Page]

PROJECT = "p" * 64
PERSON = "u" * 64
WIDTHS = (400, 1000, 1300, 1920)
METRIC = "m" * 128
PROGRAM = f"""
import json, os, sys, time
output = os.environ["SPRINGTIDE_OUTPUT_DIR"]
with open(output + "/" + "f" * 200 + ".csv", "w") as table:
    table.write("h" * 200 + ",b\\n" + "c" * 300 + ",2\\n")
for step in range(1, 4):
    line = {{"at": time.time(), "step": step, "of": 60, "values": {{{METRIC!r}: 1 / step}}}}
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps(line) + "\\n")
print("l" * 3000, flush=True)
if sys.argv[1] == "fails":
    raise ValueError("e" * 2000)
time.sleep(600)
"""
BEYOND = """() => {
    const clips = (element) => getComputedStyle(element).overflowX !== "visible";
    const clipped = (element) => {
        for (let above = element.parentElement; above; above = above.parentElement)
            if (above !== document.body && above !== document.documentElement && clips(above)) return true;
        return false;
    };
    const root = document.documentElement;
    if (root.scrollWidth <= innerWidth) return [];
    const right = (element) => element.getBoundingClientRect().right;
    const wide = [...document.querySelectorAll("body *")]
        .filter((element) => element.checkVisibility() && right(element) > innerWidth + 1 && !clipped(element));
    const holds = (element) => wide.some((other) => other !== element && element.contains(other));
    const named = (element) => `${element.tagName}.${element.getAttribute("class")}`;
    const described = (element) => `${named(element.parentElement)} > ${named(element)}`;
    const page = `${location.pathname} at ${innerWidth}: ${root.scrollWidth}`;
    return wide.filter((element) => !holds(element)).map((element) => `${page} ${described(element)}`);
}"""

SCROLLING = """() => [...document.querySelectorAll(".table-responsive, .st-wide-table")]
    .filter((one) => one.scrollWidth > one.clientWidth)
    .map((one) => `${location.pathname} at ${innerWidth}: ${one.scrollWidth} of ${one.clientWidth} `
        + one.querySelector("table").getAttribute("data-testid"))
"""

BROKEN = """() => [...document.querySelectorAll(".st-table button")]
    .filter((one) => one.checkVisibility() && one.scrollHeight > 64)
    .map((one) => `${location.pathname} at ${innerWidth}: ${one.textContent} is ${one.scrollHeight} px high`)
"""

FITS = "() => [...document.querySelectorAll('.st-wide-table')].every((one) => one.scrollWidth <= one.clientWidth)"
"""Whether no table of jobs has columns out of sight."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("pool"), machine=discover(12, 4))
    service.people.groups[PROJECT] = [PERSON]
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def jobs(service: Service) -> list[wire.Job]:
    """A job that runs, one that failed, one on hold and one that waits, with long words in all that users say."""

    def submit(*argv: str, **fields: object) -> wire.Job:
        submission = wire.Submission(
            argv=list(argv),
            name="n" * 128,
            tags=("t" * 64,),
            arguments={"a" * 100: Argument(value="v" * 200), "rate": Argument(value="w" * 200)},
            source="s" * 500,
            **fields,  # type: ignore[arg-type]
        )
        return service.run(service.engine.submit(submission, PERSON, PROJECT))

    running = submit("python3", "-c", PROGRAM, "runs", "x" * 400)
    failing = submit("python3", "-c", PROGRAM, "fails")
    held, waiting = submit("sleep", "600", gpus=1), submit("sleep", "y" * 300, gpus=8)
    service.run(service.engine.hold(held.id, "admin", "r" * 200, finish=False))
    service.run(service.engine.tags.mark(running.id, wire.MarksEdit(note="o" * 1000), PERSON))
    service.until(running.id, lambda job: job.progress.step == 3)
    service.until(failing.id, lambda job: job.state == "failed")
    node = service.engine.pool().nodes[0].name
    service.people.notebooks[PERSON] = [Server("w" * 64, "running", f"/user/{PERSON}/", 0.0, 0.0)]
    service.run(service.engine.reserve_workspace(PERSON, "w" * 64, 1, [PROJECT]))
    service.run(service.engine.drain_node(wire.DrainRequest(node=node, why="d" * 200, finish=True), "admin"))
    service.run(service.engine.freeze("vision", wire.FreezeRequest(why="z" * 500), "admin", members={}))
    start = time.time() + 86_400
    booking = wire.BookingRequest(start=start, end=start + 3600, nodes=(node,), why="b" * 500)
    service.run(service.engine.book(booking, PERSON))
    return [running, failing, held, waiting]


def test_no_page_scrolls_sideways_through_the_words_of_users(visit: Visit, jobs: list[wire.Job]) -> None:
    found: list[str] = []
    compared = "compare?" + "&".join(f"job={job.id}" for job in jobs)
    pages = {
        PERSON: ["jobs", "jobs?show=all", "pool", "report", "workspaces", "notifications", compared],
        "admin": ["home", "jobs", "pool", "report", "what-if", "workspaces", "admin"],
    }
    pages[PERSON] += [f"jobs/{job.id}" for job in jobs]
    for person, paths in pages.items():
        page = visit(person, "notifications")
        start = page.url.removesuffix("notifications")
        for path in paths:
            page.goto(start + path)
            expect(page.locator("#page:not([aria-busy])")).to_be_visible()
            for name in ("filter-everybody", "select-all"):
                if path == "jobs" and page.get_by_test_id(name).is_visible():
                    page.get_by_test_id(name).check()
            if path.startswith("jobs") and "/" not in path and page.get_by_test_id("open-card").count():
                page.get_by_test_id("open-card").first.click()
                expect(page.get_by_test_id("job-card").first).to_be_visible()
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                found += page.evaluate(BEYOND)
                if width >= 1300 and path.startswith("jobs"):
                    page.wait_for_function(FITS)
                if width >= 1300 or path in {"admin", "pool"}:
                    found += page.evaluate(SCROLLING) + page.evaluate(BROKEN)
    assert not found, "\n".join(found)
