"""Parts of drawings and pages stand where readers expect them: on one line, in one size, uncovered and uncut."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from playwright.sync_api import Locator, Page, expect
from pools.pages_service import Service

from springtide.scheduler.arguments import Argument

Visit = Callable[..., Page]

SECTIONS = ["cards", "sweeps"]
PHONE = 400
NUMBERS = count(1)
"""Of the jobs of one test: those of earlier ones are listed too."""
LINES = """(element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return [...range.getClientRects()].map(({ top, bottom }) => [top, bottom]);
}"""
"""The tops and bottoms of the lines of text in an element."""
TIPS = """async () => {
    const { tips } = await import("/visuals/base/tip.js");
    const [main, words] = [document.querySelector("main"), "words ".repeat(40)];
    main.innerHTML = `<div id="tipped" style="margin-top: 12rem; display: flex; justify-content: space-between">
        <span data-tip="${words}">long</span><span data-tip="short">edge</span></div>`;
    tips(document.getElementById("tipped"));
}"""
CARD = """([changes, ended]) => {
    const { renderJobCard, job, NOW, points } = gallery;
    const place = document.createElement("article");
    place.id = "own";
    document.body.append(place);
    const names = ["pause", "cancel", "stack", "rerun", "edit", "delete"];
    const actions = Object.fromEntries(names.map((name) => [name, () => {}]));
    const shown = job({ ...changes, ...(ended ? { state: "succeeded", ended: NOW - 5, held: [] } : {}) });
    const boardOf = (ids) => `/board?${ids}`;
    renderJobCard(place, { job: shown, now: NOW, points: points(42), boardOf, pageOf: (id) => `/${id}` }, actions);
}"""
POPULATION = """() => {
    const { renderSweepCard, sweep, trialRow, NOW } = gallery;
    const place = document.createElement("article");
    place.id = "own";
    document.body.append(place);
    const rows = Array.from({ length: 24 }, (_, trial) => trialRow(trial, {
        state: "succeeded", job: `m${trial}`, attempt: 1, ended: NOW, value: 1 / (trial + 1), curve: [[1, 0.5]],
        member: trial % 8, generation: Math.floor(trial / 8) + 1, parent: trial < 8 ? null : trial - 8,
        parameters: {
            rate: 0.01998 * (trial + 1), momentum: 0.1163 + trial / 100, optimizer: trial % 2 ? "adamw" : "sgd",
        },
    }));
    const population = { members: 8, generation: 3, generations: 3, every: 2 };
    const ended = { state: "succeeded", ended: NOW, reason: null };
    renderSweepCard(place, { job: sweep(rows, { population }, ended), rows, now: NOW, colour: 0 }, {});
}"""


def box(element: Locator) -> dict[str, float]:
    """Return where an element is on the page."""
    found = element.bounding_box()
    assert found, f"{element} is not visible"
    x, y, width, height = found["x"], found["y"], found["width"], found["height"]
    return {"x": x, "y": y, "width": width, "right": x + width, "bottom": y + height}


def test_a_tip_is_beside_its_mark_whatever_tip_was_shown_before(gallery: Page) -> None:
    gallery.set_viewport_size({"width": PHONE, "height": 900})
    gallery.evaluate(TIPS)
    gallery.get_by_text("edge", exact=True).hover()
    tip = gallery.locator("[role=tooltip]")
    expect(tip).to_have_text("short")
    mark = gallery.get_by_text("long", exact=True)
    mark.hover()
    expect(tip).to_contain_text("words words")
    assert box(mark)["y"] - box(tip)["bottom"] == pytest.approx(8, abs=1)
    assert box(tip)["right"] <= PHONE


def test_the_state_of_a_card_is_on_the_first_line_of_its_name(gallery: Page) -> None:
    gallery.set_viewport_size({"width": PHONE, "height": 900})
    gallery.evaluate(CARD, [{"name": "a name that is so long that it needs several lines on a phone " * 2}, False])
    card = gallery.locator("#own")
    lines = card.get_by_test_id("job-name").evaluate(LINES)
    [[top, bottom]] = card.get_by_test_id("job-state").locator("span").evaluate(LINES)
    assert len(lines) > 2
    assert lines[0][0] <= top < bottom <= lines[0][1] + 1


def test_the_small_print_of_a_card_has_one_size_and_one_distance(gallery: Page) -> None:
    rerun = {
        "job": "j0",
        "name": "train",
        "text": "Fork of “train” at step 2.",
        "deleted": False,
        "fork": {"step": 2},
    }
    more = {"arguments": {"rate": {"value": 0.1}}, "note": "a note that is longer than any column " * 3}
    gallery.evaluate(CARD, [{**more, "rerun": rerun}, True])
    card = gallery.locator("#own")
    parts = [card.get_by_test_id(f"job-{name}") for name in ("arguments", "note", "first")]
    sizes = {part.evaluate("(part) => getComputedStyle(part).fontSize") for part in parts}
    assert len(sizes) == 1
    places = [box(part) for part in parts]
    distances = {round(below["y"] - above["bottom"]) for above, below in pairwise(places)}
    assert len(distances) == 1
    assert max(distances) < 10
    assert len({place["width"] for place in places}) == 1


@pytest.mark.parametrize(("ended", "last"), [(False, "Cancel…"), (True, "Delete…")])
def test_the_last_button_of_a_card_is_the_one_that_ends_or_deletes_its_job(
    gallery: Page, ended: bool, last: str
) -> None:
    gallery.evaluate(CARD, [{}, ended])
    buttons = gallery.locator("#own footer .st-button").all_inner_texts()
    assert "Open TensorBoard" in buttons
    assert buttons[-1] == last


def test_the_schedule_of_a_population_is_no_wider_than_its_numbers(gallery: Page) -> None:
    gallery.evaluate(POPULATION)
    schedule = gallery.locator("#own").get_by_test_id("schedule")
    frame = schedule.locator(".st-trials-scroll")
    assert box(frame)["width"] < box(schedule)["width"] * 0.7
    assert frame.evaluate("(frame) => frame.scrollWidth <= frame.clientWidth")
    aligned = schedule.locator("thead th").evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one).textAlign)"
    )
    assert aligned == ["right", "right", "right", "right", "right", "left", "right"]


def test_the_states_of_a_population_are_in_sight(gallery: Page) -> None:
    gallery.set_viewport_size({"width": 1000, "height": 900})
    gallery.evaluate(POPULATION)
    card = gallery.locator("#own")
    heads = card.locator("[data-testid=trials] thead th").all_inner_texts()
    assert "curve" not in heads, "no trial has a curve"
    state = card.get_by_test_id("trial-row").first.locator(".st-state")
    assert box(state)["right"] <= box(card.locator(".st-trials-scroll").last)["right"]


def test_a_table_of_trials_on_a_narrow_card_shows_that_it_has_more_columns(gallery: Page) -> None:
    gallery.evaluate(POPULATION)
    card = gallery.locator("#own")
    frame = card.get_by_role("region", name="Table of trials")
    expect(frame).not_to_have_attribute("data-beyond", "")
    card.evaluate("(card) => { card.style.width = '400px'; }")
    expect(frame).to_have_attribute("data-beyond", "")
    shade = frame.locator("..").evaluate("(place) => getComputedStyle(place, '::after').backgroundImage")
    assert "gradient" in shade
    heads = frame.locator("thead th")
    in_sight = [head for head in heads.all() if box(head)["right"] <= box(frame)["right"] + 1]
    assert len(in_sight) >= 5
    frame.evaluate("(frame) => { frame.scrollLeft = frame.scrollWidth; }")
    expect(frame).not_to_have_attribute("data-beyond", "")
    assert box(heads.last)["right"] <= box(frame)["right"] + 1


def test_the_titles_of_axes_have_the_room_that_there_is(gallery: Page) -> None:
    gallery.set_viewport_size({"width": 480, "height": 900})
    gallery.evaluate(POPULATION)
    title = gallery.locator("#own .st-axis-title", has_text="momentum")
    assert title.evaluate("(title) => title.scrollWidth <= title.clientWidth")


def test_the_best_trial_of_a_chart_covers_no_mark_of_an_axis(gallery: Page) -> None:
    """Its ring is 4 pixels wide."""
    chart = gallery.locator("#sweep-population").get_by_test_id("sweep-scatter")
    best = box(chart.locator(".st-trial-dot.st-best"))
    for mark in map(box, chart.locator(".st-axis-mark").all()):
        is_beside = mark["right"] <= best["x"] - 4 or best["right"] + 4 <= mark["x"]
        is_below = mark["y"] >= best["bottom"] + 4 or mark["bottom"] <= best["y"] - 4
        assert is_beside or is_below


def test_the_fields_above_trials_are_on_one_line_on_a_phone(gallery: Page) -> None:
    gallery.set_viewport_size({"width": PHONE, "height": 900})
    card = gallery.locator("#sweep-running")
    fields = [box(card.get_by_test_id(f"trials-{name}")) for name in ("state", "search")]
    assert fields[0]["right"] <= fields[1]["x"]
    assert fields[1]["right"] <= box(card)["right"]


@pytest.fixture
def listed(visit: Visit, service: Service) -> Page:
    """The table of jobs with a job that has tags, an argument and a metric."""
    program = (
        "import json, os, time; line = {'at': time.time(), 'step': 3, 'of': 60, 'values': {'loss': 0.5}};"
        "open(os.environ['SPRINGTIDE_REPORT'], 'a').write(json.dumps(line) + '\\n'); time.sleep(600)"
    )
    arguments, lot = {"rate": Argument(value=0.1)}, f"lot-{next(NUMBERS)}"
    jobs = [
        service.submit("susan", "python3", "-c", program, name=f"{lot} runs", tags=["paper"], arguments=arguments),
        service.submit("susan", "true", name=f"{lot} ended"),
    ]
    service.until(jobs[0].id, lambda job: job.progress.step == 3)
    service.until(jobs[1].id, lambda job: job.state == "succeeded")
    page = visit("susan", f"?show=all&search={lot}")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    return page


def test_a_row_of_the_table_is_compact_on_a_phone(listed: Page) -> None:
    listed.set_viewport_size({"width": PHONE, "height": 900})
    cells = listed.locator("[data-testid=job-row][data-state=running] > td:not(.st-check, .st-fold)")
    shown = [box(cell) for cell in cells.all() if cell.is_visible()]
    lines = sorted({round(place["y"]) for place in shown})
    state, project = (listed.locator(f"[data-state=running] [data-label={name}]") for name in ("state", "project"))
    assert box(state)["y"] == pytest.approx(box(project)["y"], abs=3)
    assert len(lines) < len(shown)
    bottoms = [max(place["bottom"] for place in shown if round(place["y"]) == line) for line in lines]
    assert all(below - bottom <= 10 for bottom, below in zip(bottoms, lines[1:], strict=False))


def test_the_words_of_a_row_are_at_one_height(listed: Page) -> None:
    row = listed.locator("[data-testid=job-row][data-state=succeeded]")
    [[top, bottom]] = row.get_by_test_id("row-state").locator("span").evaluate(LINES)
    [[name_top, name_bottom]] = row.get_by_test_id("row-name").evaluate(LINES)
    assert (top + bottom) / 2 == pytest.approx((name_top + name_bottom) / 2, abs=1)


def test_the_form_of_a_selection_is_one_line_on_a_phone_and_ends_with_its_main_button(listed: Page) -> None:
    listed.set_viewport_size({"width": PHONE, "height": 900})
    listed.get_by_test_id("select-job").first.check()
    listed.get_by_test_id("selected-tag").click()
    names = ("selection-text", "selected-close", "selection-save")
    places = [box(listed.get_by_test_id(name)) for name in names]
    assert [place["x"] for place in places] == sorted(place["x"] for place in places)
    assert max(place["y"] for place in places) < min(place["bottom"] for place in places)
    text = listed.get_by_test_id("selection-text")
    assert text.evaluate("(field) => field.clientWidth") > 150


def test_the_main_button_of_a_form_looks_the_same_in_a_selection_and_in_a_card(
    visit: Visit, service: Service
) -> None:
    holds = service.submit("susan", name="holds eight", gpus=8)
    service.until(holds.id, lambda job: job.state == "running")
    waiting = service.submit("susan", name="waits for eight", gpus=8)
    page = visit("susan")
    looks = []
    for address, opens in ((f"jobs/{waiting.id}", "job-change"), ("?search=waits+for+eight", "selected-edit")):
        page.goto(service.url + address)
        if opens == "selected-edit":
            page.get_by_test_id("select-job").first.check()
        page.get_by_test_id(opens).click()
        save = page.get_by_test_id("intervention-send")
        looks.append(
            save.evaluate("(one) => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]")
        )
    assert looks[0] == looks[1]
    assert looks[0][0] != "rgb(255, 255, 255)"


def test_fields_and_buttons_of_a_page_have_one_border(listed: Page) -> None:
    borders = {
        name: listed.get_by_test_id(name).evaluate("(one) => getComputedStyle(one).borderTopColor")
        for name in ("search-jobs", "filter-state", "filter-project", "export-jobs")
    }
    assert len(set(borders.values())) == 1, borders


def test_the_buttons_of_the_form_to_run_a_job_again_are_on_one_line_on_a_phone(
    visit: Visit, service: Service
) -> None:
    job = service.submit("susan", "true", name="digits")
    service.until(job.id, lambda found: found.state == "succeeded")
    page = visit("susan", f"jobs/{job.id}")
    page.set_viewport_size({"width": PHONE, "height": 900})
    page.get_by_test_id("job-edit").click()
    close, send = box(page.get_by_test_id("rerun-close")), box(page.get_by_test_id("rerun-send"))
    assert close["y"] == pytest.approx(send["y"], abs=2)
    assert close["right"] < send["x"]


def test_the_page_of_an_unknown_job_has_one_sentence_as_its_title(visit: Visit) -> None:
    page = visit("susan", "jobs/nosuchjob")
    expect(page.get_by_test_id("empty").locator("strong")).to_have_text(
        "There is no job “nosuchjob” that you may see."
    )
    expect(page.get_by_test_id("empty")).to_contain_text(re.compile(r"A name is no id, .* My jobs$"))


def test_several_jobs_are_put_on_hold_in_the_plural(visit: Visit, service: Service) -> None:
    for number in range(2):
        service.submit("susan", name=f"job {number}", gpus=8)
    page = visit("admin", "?whose=all")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    page.get_by_test_id("select-all").check()
    page.get_by_test_id("selected-hold").click()
    expect(page.get_by_test_id("intervention")).to_contain_text(
        "Put 2 jobs on hold? They ask for no GPUs until an administrator releases them."
    )
