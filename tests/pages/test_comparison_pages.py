"""Jobs that are found by their tags, and compared, on the pages of the real service."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]

TRAIN = """
import json, os, sys, time
for step in range(1, 6):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        values = {sys.argv[1]: float(sys.argv[2]) / step}
        report.write(json.dumps({"at": time.time(), "step": step, "of": 5, "values": values}) + "\\n")
"""
WAITS = """
import json, os, pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
for step in (1, 2):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps({"at": time.time(), "step": step, "values": {"loss": 1 / step}}) + "\\n")
time.sleep(600)
"""

LAYERS_OF = 21
LAYERS = f"""
import json, os, time
for step in range(1, 6):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        values = {{f"layer{{number}}": number / step for number in range(1, {LAYERS_OF + 1})}}
        values |= {{"a_single": 1}} if step == 1 else {{}}
        report.write(json.dumps({{"at": time.time(), "step": step, "values": values}}) + "\\n")
"""

STEPPING = """
import json, os, pathlib, sys, time
def report(steps):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as file:
        for step in steps:
            values = {"loss": 1 / step, "error": 2 / step}
            file.write(json.dumps({"at": time.time(), "step": step, "values": values}) + "\\n")
report(range(1, 101))
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
report(range(101, 201))
time.sleep(600)
"""


@pytest.fixture
def tagged(service: Service) -> None:
    service.submit("susan", name="tagged", tags=["baseline", "lr-0.1", "seed-1", "paper"])
    service.submit("susan", name="alike", tags=["baseline-2"])


@pytest.mark.usefixtures("tagged")
def test_jobs_are_found_by_parts_of_their_tags_and_listed_by_the_tag_that_is_clicked(
    visit: Visit, service: Service
) -> None:
    page = visit("susan")
    page.get_by_test_id("search-jobs").fill("lr-0.1")
    expect(page.get_by_test_id("row-name")).to_have_text(["tagged"])
    expect(page.get_by_test_id("row-tag")).to_have_text(["#baseline", "#lr-0.1", "#seed-1"])
    page.get_by_test_id("open-card").click()
    expect(page.get_by_test_id("job-tags")).to_have_text("#baseline #lr-0.1 #seed-1 #paper")
    page.get_by_test_id("search-jobs").fill("")
    expect(page.get_by_test_id("row-name")).to_have_count(2)

    page.get_by_test_id("row-tag").filter(has_text=re.compile("^#baseline$")).click()
    expect(page.get_by_test_id("row-name")).to_have_text(["tagged"])
    expect(page).to_have_url(re.compile(r"\?tag=baseline$"))
    page.get_by_test_id("row-name").click()
    page.get_by_test_id("job-tag").nth(3).click()
    expect(page.get_by_test_id("clear-tag")).to_contain_text("#paper")
    expect(page.get_by_test_id("row-name").filter(has_text="tagged")).not_to_have_count(0)
    expect(page.get_by_test_id("row-name").filter(has_text="alike")).to_have_count(0)
    page.get_by_test_id("clear-tag").click()
    expect(page.get_by_test_id("row-name").filter(has_text="alike")).not_to_have_count(0)

    page.goto(service.url + "?tag=nowhere")
    page.get_by_test_id("clear-filters").click()
    expect(page.get_by_test_id("clear-tag")).to_have_count(0)


def trained(service: Service, name: str, metric: str, rate: str, **options: Any) -> wire.Job:
    words, code = ("python3", "-c", TRAIN, metric, rate), f"rate = {rate}\nfit(rate)"
    job = service.submit("susan", *words, name=name, kind="function", source=code, **options)
    return service.until(job.id, lambda found: found.state == "succeeded")


@pytest.fixture
def runs(service: Service) -> list[wire.Job]:
    """Three runs that have ended; the third one reports another metric."""
    return [
        trained(service, "first", "loss", "0.1", tags=["trio"]),
        trained(service, "second", "loss", "0.2", gpus=2, tags=["trio"]),
        trained(service, "third", "<i>accuracy</i>", "0.3", tags=["trio"]),
    ]


def compared(jobs: list[wire.Job]) -> str:
    return "compare?" + "&".join(f"job={job.id}" for job in jobs)


def test_selected_jobs_are_compared(visit: Visit, runs: list[wire.Job]) -> None:
    page = visit("susan", "?show=all&tag=trio")
    for job in runs:
        page.locator(f"[data-testid=job-row][data-job='{job.id}']").get_by_test_id("select-job").check()
    page.get_by_test_id("selected-compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Comparison of 3 jobs")
    gpus = page.get_by_test_id("difference").filter(has=page.get_by_role("rowheader", name="gpus"))
    expect(gpus.get_by_role("cell")).to_have_text(["1", "2", "1"])
    loss = page.get_by_test_id("overlay-loss")
    expect(loss.get_by_test_id("overlay-run")).to_have_count(2)
    expect(loss).to_contain_text("step")
    expect(page.get_by_test_id("code-change").first).to_contain_text("+rate = 0.2")
    page.get_by_test_id("metrics-across").select_option("time")
    expect(loss).to_contain_text("time since the start")
    page.get_by_test_id("metrics-across").select_option("running")
    expect(loss).to_contain_text("time since the start, without pauses")
    assert not Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
    page.get_by_test_id("compare-without").nth(1).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Comparison of 2 jobs")
    expect(page.get_by_test_id("none-in-common")).to_be_visible()
    expect(page.get_by_test_id("overlay-<i>accuracy</i>")).to_be_visible()


def test_runs_of_equal_names_are_told_apart_by_their_ids(visit: Visit, service: Service) -> None:
    same = [trained(service, "alike", "loss", rate) for rate in ("0.1", "0.2")]
    other = trained(service, "other", "loss", "0.3")
    page = visit("susan", compared([*same, other]))
    names = [*(f"alike ({job.id})" for job in same), "other"]
    expect(page.get_by_test_id("compared-job").locator("bdi")).to_have_text(names)
    expect(page.locator(".st-run-keys bdi")).to_have_text(names)


def test_compared_curves_are_smoothed_on_a_logarithmic_axis_and_within_a_span(
    visit: Visit, runs: list[wire.Job]
) -> None:
    page = visit("susan", compared(runs))
    line = page.get_by_test_id("overlay-loss").locator("[data-testid=overlay-run] path").first
    expect(line).to_be_visible()
    seen = [line.get_attribute("d")]

    def differs() -> None:
        expect(line).not_to_have_attribute("d", seen[-1] or "")
        seen.append(line.get_attribute("d"))

    page.get_by_test_id("shape-smooth").fill("0.9")
    differs()
    expect(page.get_by_test_id("section-curves")).to_contain_text("first 0.02")
    page.get_by_test_id("shape-log").check()
    differs()
    page.get_by_test_id("shape-from").fill("3")
    page.get_by_test_id("shape-from").press("Enter")
    differs()
    page.get_by_test_id("shape-whole").click()
    expect(line).to_have_attribute("d", seen[-2] or "")
    page.get_by_test_id("shape-from").fill("1000")
    page.get_by_test_id("shape-from").press("Enter")
    expect(page.get_by_test_id("section-curves")).to_contain_text("loss: nothing to draw here.")
    page.get_by_test_id("metrics-across").select_option("time")  # its numbers are others
    expect(page.get_by_test_id("shape-from")).to_have_value("")
    expect(line).to_be_visible()


@pytest.mark.parametrize("where", ["job", "compare"])
def test_many_metrics_are_listed_in_their_order_the_first_20_until_all_are_asked_for_and_found_by_name(
    visit: Visit, service: Service, where: str
) -> None:
    jobs = [service.submit("susan", "python3", "-c", LAYERS, name=name) for name in ("deep", "deeper")]
    for job in jobs:
        service.until(job.id, lambda found: found.state == "succeeded")
    page = visit("susan", compared(jobs) if where == "compare" else f"jobs/{jobs[0].id}")
    plots = page.get_by_test_id("section-curves").locator(".st-plot-place")
    metrics = LAYERS_OF + 1
    expect(page.get_by_test_id("metrics-count")).to_have_text(f"{metrics} metrics")
    expect(plots).to_have_count(20)
    whole = page.get_by_test_id("metrics-whole")
    expect(whole).to_have_text(f"Show all {metrics}")
    expect(page.get_by_test_id("metrics-below")).to_have_count(0)
    whole.click()
    expect(plots).to_have_count(metrics)
    plots.last.scroll_into_view_if_needed()
    if where == "job":
        expect(plots.last).to_have_text("a_single: 1 report so far.")
        expect(plots.nth(1)).to_contain_text("layer2")
        page.get_by_test_id("metrics-below").get_by_role("link", name="Log").click()
        expect(page.get_by_test_id("section-log")).to_be_in_viewport()
    else:
        expect(plots.last).to_contain_text(f"layer{LAYERS_OF}")
        expect(plots.nth(2)).to_contain_text("layer2")
    page.get_by_test_id("metrics-named").fill("LAYER2")
    expect(plots).to_have_count(3)
    expect(page.get_by_test_id("metrics-count")).to_have_text(f"3 of {metrics} metrics")
    assert not Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
    page.get_by_test_id("metrics-named").fill("<b>")
    expect(page.get_by_test_id("metrics-count")).to_have_text("No metric has “<b>” in its name.")
    page.get_by_test_id("metrics-named").fill("")
    expect(plots).to_have_count(metrics)
    whole.click()
    expect(plots).to_have_count(20)


def test_the_ends_of_a_span_change_places_if_the_first_is_the_larger_one(
    visit: Visit, runs: list[wire.Job]
) -> None:
    page = visit("susan", compared(runs))
    for end, value in (("to", "2"), ("from", "4")):
        page.get_by_test_id(f"shape-{end}").fill(value)
        page.get_by_test_id(f"shape-{end}").press("Enter")
    expect(page.get_by_test_id("shape-from")).to_have_value("2")
    expect(page.get_by_test_id("shape-to")).to_have_value("4")
    expect(page.get_by_test_id("overlay-loss")).to_be_visible()


def test_a_drag_over_a_curve_zooms_all_curves_while_reports_come(
    visit: Visit, service: Service, tmp_path: Path
) -> None:
    words = ("python3", "-c", STEPPING, str(tmp_path / "go"))
    jobs = [service.submit("susan", *words, name=name) for name in ("one", "two")]
    page = visit("susan", compared(jobs))
    plot = page.get_by_test_id("overlay-loss")
    expect(plot.get_by_test_id("overlay-run")).to_have_count(2)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    across, down = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(across - box["width"] / 8, down)
    page.mouse.down()
    page.mouse.move(across + box["width"] / 8, down)
    page.mouse.up()
    ends = [page.get_by_test_id(f"shape-{end}") for end in ("from", "to")]
    for end in ends:
        expect(end).not_to_have_value("")
    shown = [float(end.input_value()) for end in ends]
    assert 0 < shown[0] < shown[1] < 100
    other = page.get_by_test_id("overlay-error").locator("text")
    marks = other.all_text_contents()
    assert "100" not in marks

    (tmp_path / "go").touch()
    first = page.get_by_test_id("section-curves").locator("li", has_text="one").first
    expect(first).to_contain_text("0.005")  # the newest report
    assert [float(page.get_by_test_id(f"shape-{end}").input_value()) for end in ("from", "to")] == shown
    assert other.all_text_contents() == marks
    plot.dblclick()
    expect(page.get_by_test_id("shape-from")).to_have_value("")
    expect(other.filter(has_text=re.compile("^200$"))).to_have_count(1)


def test_the_curves_of_a_comparison_are_live(visit: Visit, service: Service, tmp_path: Path) -> None:
    jobs = [
        service.submit("susan", "python3", "-c", WAITS, str(tmp_path / "go"), name=name) for name in ("one", "two")
    ]
    page = visit("susan", compared(jobs))
    expect(page.get_by_test_id("section-curves")).to_contain_text("None of these jobs has reported a metric yet.")
    expect(page.get_by_test_id("alike")).to_be_visible()
    (tmp_path / "go").touch()
    expect(page.get_by_test_id("overlay-loss").get_by_test_id("overlay-run")).to_have_count(2)


def test_too_few_too_many_and_unknown_jobs_are_told_in_words(visit: Visit, runs: list[wire.Job]) -> None:
    page = visit("susan", "compare")
    expect(page.locator("#page")).to_contain_text("Two jobs or more are compared.")
    expect(page.get_by_test_id("connection")).to_be_empty()
    page = visit("susan", "compare?" + "&".join(f"job=j{n}" for n in range(25)))
    expect(page.locator("#page")).to_contain_text("At most 20 jobs are compared at a time; these are 25.")
    page = visit("jemma", compared(runs))
    expect(page.locator("#message")).to_contain_text("There is no job")
    expect(page.get_by_test_id("differences")).to_have_count(0)


def test_a_comparison_takes_its_jobs_as_the_api_does_too(visit: Visit, runs: list[wire.Job]) -> None:
    page = visit("susan", f"compare?jobs={runs[0].id},%20{runs[1].id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Comparison of 2 jobs")
