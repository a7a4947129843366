"""The card of a sweep, in a browser: its trials, and the actions on them."""

from __future__ import annotations

import re

import pytest
from browsers.widget_host import WIDGET
from playwright.sync_api import Locator, Page, expect

from springtide.widgets import browser_modules

SECTIONS = ["sweeps", "rows"]
DASH = "\N{EN DASH}"


def draw_sweep(page: Page, rows: str, counts: str = "{}", changes: str = "{}") -> Locator:
    """Draw the card of a sweep into ``#own``, again if it is there, and return it."""
    page.evaluate(
        """([rows, counts, changes]) => {
            const { renderSweepCard, sweep, NOW } = gallery;
            let place = document.getElementById("own");
            if (!place) {
                place = document.createElement("article");
                place.id = "own";
                document.body.append(place);
                place.calls = [];
            }
            const act = (name) => () => place.calls.push(name);
            const names = ["pause", "resume", "cancel", "retry"];
            const actions = Object.fromEntries(names.map((name) => [name, act(name)]));
            const of = (text) => new Function("gallery", `return ${text}`)(gallery);
            const found = of(rows);
            const job = sweep(found ?? [], of(counts), of(changes));
            const pageOf = (id) => `/jobs/${id}`;
            renderSweepCard(place, { job, rows: found, now: NOW, colour: 0, simulated: true, pageOf }, actions);
        }""",
        [rows, counts, changes],
    )
    return page.locator("#own")


def numbers(card: Locator) -> list[int]:
    """Return the numbers of the trials in the table, in their order."""
    rows = card.get_by_test_id("trial-row")
    return [int(number) for number in rows.evaluate_all("(rows) => rows.map((row) => row.dataset.trial)")]


def column(card: Locator, place: int) -> list[str]:
    """Return the words of a column of the table, the first with place 1."""
    return card.locator(f"[data-testid=trials] tbody tr > :nth-child({place})").all_inner_texts()


def test_a_card_tells_how_many_trials_have_ended_and_which_is_the_best(gallery: Page) -> None:
    card = gallery.locator("#sweep-running")
    standing = card.get_by_test_id("sweep-standing")
    expect(standing).to_have_text(
        re.compile(r"^24 of 60 trials, best 0\.0\d+ \(trial 18: lr=[\d.]+, depth=\d, optimizer=adam\)$")
    )
    expect(standing.get_by_role("link", name="trial 18")).to_have_attribute("href", "/jobs/j20t18")
    expect(card.get_by_test_id("job-headline")).to_contain_text("5 of its trials run on 5 GPUs")


def test_the_bar_tells_the_trials_of_each_state(gallery: Page) -> None:
    card = gallery.locator("#sweep-running")
    expect(card.get_by_test_id("sweep-counts")).to_have_attribute(
        "aria-label", "Trials: 17 succeeded, 4 pruned, 3 failed, 5 running, 1 paused, 30 to come"
    )
    expect(card.get_by_test_id("count-failed")).to_have_text("3 failed")
    expect(card.get_by_test_id("count-cancelled")).to_have_count(0)


def test_the_gpus_of_all_trials_are_marked_as_far_as_they_are_borrowed(gallery: Page) -> None:
    gpus = gallery.locator("#sweep-running").get_by_test_id("sweep-gpus")
    expect(gpus).to_contain_text("3 of 5 GPUs borrowed")
    expect(gpus.locator("[data-borrowed=true]")).to_have_count(3)
    expect(gpus.get_by_test_id("simulated")).to_be_visible()
    expect(gallery.locator("#sweep-one").get_by_test_id("sweep-gpus")).to_have_count(0)


def test_the_table_has_a_column_for_each_parameter_and_a_curve(gallery: Page) -> None:
    card = gallery.locator("#sweep-running")
    heads = card.locator("[data-testid=trials] thead th").all_inner_texts()
    assert [head.strip(" ▴▾") for head in heads] == [
        *("trial", "lr", "depth", "optimizer", "loss", "curve", "state", "attempt")
    ]
    failed = card.locator("[data-trial='4']")
    expect(failed).to_contain_text("Failed")
    expect(failed).to_contain_text("CUDA out of memory")
    expect(failed.get_by_role("img", name="loss from 1.")).to_be_visible()
    expect(card.locator("[data-trial='18']")).to_contain_text("best")
    expect(card.locator("[data-trial='3']").get_by_test_id("trial-link")).to_have_attribute("href", "/jobs/j20t3")


def test_fifty_trials_are_shown_at_first_and_more_on_demand(gallery: Page) -> None:
    card = gallery.locator("#sweep-running")
    expect(card.get_by_test_id("trial-row")).to_have_count(50)
    more = card.get_by_test_id("trials-more")
    expect(more).to_have_text("Show more (10 left)")
    more.click()
    expect(card.get_by_test_id("trial-row")).to_have_count(60)
    expect(more).to_have_count(0)


SOME = """[
    gallery.trialRow(0, {
        state: "succeeded", job: "a", value: 3, attempt: 1,
        parameters: { n: 9, kind: { value: "b", type: "list" } },
    }),
    gallery.trialRow(1, { state: "running", job: "b", parameters: { n: 10, kind: "a" }, value: null, attempt: 2 }),
    gallery.trialRow(2, { state: "failed", job: "c", parameters: { n: 2 }, value: 1, error: "a fault" }),
    gallery.trialRow(3),
]"""


@pytest.mark.parametrize(
    ("head", "first", "second"),
    [
        ("trial", [3, 2, 1, 0], [0, 1, 2, 3]),
        ("n", [2, 0, 1, 3], [1, 0, 2, 3]),
        ("kind", [1, 0, 2, 3], [0, 1, 2, 3]),
        ("loss", [2, 0, 1, 3], [0, 2, 1, 3]),
        ("state", [2, 3, 1, 0], [0, 1, 3, 2]),
        ("attempt", [2, 3, 0, 1], [1, 0, 2, 3]),
    ],
)
def test_trials_are_sorted_by_any_column_and_what_has_no_value_comes_last(
    gallery: Page, head: str, first: list[int], second: list[int]
) -> None:
    card = draw_sweep(gallery, SOME)
    button = card.get_by_test_id(f"trials-sort-{head}")
    button.focus()
    gallery.keyboard.press("Enter")
    assert numbers(card) == first
    gallery.keyboard.press("Enter")
    assert numbers(card) == second
    expect(button).to_be_focused()
    expect(card.locator("[data-testid=trials] thead [aria-sort=ascending]")).to_have_count(int(head == "trial"))


def test_the_best_comes_first_when_trials_are_sorted_by_the_metric(gallery: Page) -> None:
    card = draw_sweep(gallery, SOME, "{ goal: 'maximize', metric: 'accuracy' }")
    card.get_by_test_id("trials-sort-accuracy").click()
    assert numbers(card) == [0, 2, 1, 3]
    expect(card.get_by_role("columnheader", name="accuracy")).to_have_attribute("aria-sort", "descending")


def test_trials_are_filtered_by_state_and_by_words(gallery: Page) -> None:
    card = draw_sweep(gallery, SOME)
    states = card.get_by_test_id("trials-state")
    expect(states.locator("option")).to_have_text(
        ["All (4)", "Succeeded (1)", "Failed (1)", "Running (1)", "To come (1)"]
    )
    states.select_option("failed")
    assert numbers(card) == [2]
    states.select_option("")
    card.get_by_test_id("trials-search").fill("N=9")
    assert numbers(card) == [0]
    expect(card.get_by_test_id("trials-found")).to_have_text("1 trial")
    card.get_by_test_id("trials-search").fill("fault n=2")
    assert numbers(card) == [2]
    card.get_by_test_id("trials-search").fill("nothing like this")
    expect(card.get_by_test_id("empty")).to_contain_text("No trial matches.")
    card.get_by_test_id("trials-all").click()
    assert numbers(card) == [0, 1, 2, 3]


def test_sorting_filter_and_focus_stay_while_trials_change(gallery: Page) -> None:
    card = draw_sweep(gallery, SOME)
    card.get_by_test_id("trials-sort-n").click()
    card.get_by_test_id("trials-search").fill("n=")
    draw_sweep(gallery, SOME.replace("n: 2 }", "n: 20 }"))
    assert numbers(card) == [0, 1, 2]
    expect(card.get_by_test_id("trials-search")).to_be_focused()
    expect(card.get_by_test_id("trials-search")).to_have_value("n=")


def test_several_parameters_are_drawn_as_parallel_coordinates(gallery: Page) -> None:
    chart = gallery.locator("#sweep-running").get_by_test_id("sweep-parallel")
    expect(chart).to_have_attribute(
        "aria-label", re.compile(r"^lr, depth, optimizer and loss of 30 trials; the best is trial 18: lr=")
    )
    expect(chart.get_by_test_id("trial-line")).to_have_count(30)
    titles = chart.locator(".st-axis-title").all_inner_texts()
    assert titles == ["lr (log)", "depth", "optimizer", "loss"]
    marks = chart.locator(".st-axis-words").nth(2).locator(".st-axis-mark").all_inner_texts()
    assert marks == ["adam", "adamw", "sgd"]


def test_marks_of_the_first_axis_stand_beside_the_lines_that_begin_there(gallery: Page) -> None:
    chart = gallery.locator("#sweep-running").get_by_test_id("sweep-parallel")
    axis, marks = chart.locator(".st-axis").first.bounding_box(), chart.locator(".st-first .st-axis-mark")
    assert axis is not None
    assert marks.count() == 3
    for mark in marks.all():
        box = mark.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= axis["x"] + 1


LABELS = """(chart, selector) => [...chart.querySelectorAll(selector)].map((label) => {
    const { left, right, top, bottom } = label.getBoundingClientRect();
    return [left, right, top, bottom];
})"""


@pytest.mark.parametrize("width", [400, 1000, 1600])
def test_no_labels_of_parallel_axes_lie_over_each_other(gallery: Page, width: int) -> None:
    gallery.set_viewport_size({"width": width, "height": 900})
    names = [f"a_long_name_of_parameter_{n}" for n in range(7)]
    parameters = ", ".join(f"{name}: n * 1.234567" for name in names)
    rows = f"""[1, 2, 3].map((n) => gallery.trialRow(n,
        {{ state: "succeeded", job: `j${{n}}`, value: n, parameters: {{ {parameters} }} }}))"""
    chart = draw_sweep(gallery, rows).get_by_test_id("sweep-parallel")
    for selector in (".st-axis-title", ".st-axis-mark"):
        boxes = chart.evaluate(LABELS, selector)
        assert len(boxes) >= 8
        for place, one in enumerate(boxes):
            for other in boxes[place + 1 :]:
                beside = one[1] <= other[0] + 0.5 or other[1] <= one[0] + 0.5
                assert beside or one[3] <= other[2] + 0.5 or other[3] <= one[2] + 0.5, (selector, one, other)


@pytest.mark.parametrize("width", [400, 1000])
def test_the_error_of_a_trial_unfolds_to_the_whole_of_it_within_the_card(gallery: Page, width: int) -> None:
    gallery.set_viewport_size({"width": width, "height": 900})
    error = f"RuntimeError: {'Expected all tensors to be on the same device. ' * 6}(train.py, line 12)"
    names = ", ".join(f"a_long_parameter_{n}: 0.123456 * n" for n in range(9))
    rows = f"""[1, 2].map((n) => gallery.trialRow(n,
        {{ state: "failed", job: `j${{n}}`, parameters: {{ {names} }}, error: "{error}" }}))"""
    card = draw_sweep(gallery, rows)
    fold = card.locator("[data-trial='2']").get_by_test_id("trial-error")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.focus()
    gallery.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    whole = card.get_by_test_id("trial-error-whole")
    expect(whole).to_have_count(1)
    expect(whole).to_have_text(error)
    inside = whole.evaluate(
        """(words) => {
            const frame = words.closest(".st-trials-scroll").getBoundingClientRect();
            const { left, right } = words.getBoundingClientRect();
            return left >= frame.left && right <= frame.right && words.scrollWidth <= words.clientWidth;
        }"""
    )
    assert inside
    draw_sweep(gallery, rows)
    expect(whole).to_be_visible()
    gallery.keyboard.press("Enter")
    expect(whole).to_have_count(0)


@pytest.mark.parametrize("width", [400, 1000])
@pytest.mark.parametrize("scale", [2.8912345e-7, -1.2345e9, 123_456_789])
@pytest.mark.parametrize("chart", ["sweep-scatter", "sweep-parallel"])
def test_marks_of_axes_are_whole_and_within_the_card(gallery: Page, chart: str, scale: float, width: int) -> None:
    gallery.set_viewport_size({"width": width, "height": 900})
    names = ["a"] if chart == "sweep-scatter" else [f"parameter_{n}" for n in range(7)]
    parameters = ", ".join(f"{name}: {scale} * n" for name in names)
    rows = f"""[1, 2, 3].map((n) => gallery.trialRow(n,
        {{ state: "succeeded", job: `j${{n}}`, value: n * {scale}, parameters: {{ {parameters} }} }}))"""
    card = draw_sweep(gallery, rows)
    cut = card.get_by_test_id(chart).evaluate(
        """(chart) => {
            const frame = chart.closest("figure");
            const scrolls = frame.querySelector(".st-parallel-scroll");
            const [start, end] = [frame, scrolls ?? frame].map((place) => place.getBoundingClientRect());
            const right = end.right + (scrolls ? scrolls.scrollWidth - scrolls.clientWidth : 0);
            const isCut = (mark) => {
                const place = mark.getBoundingClientRect();
                const isOut = place.left < start.left - 0.5 || place.right > right + 0.5;
                return isOut || mark.scrollWidth > mark.clientWidth;
            };
            return [...chart.querySelectorAll(".st-axis-mark")].filter(isCut).map((mark) => mark.textContent);
        }"""
    )
    assert cut == []


def test_a_running_trial_that_is_better_so_far_is_not_marked_as_the_best_one(gallery: Page) -> None:
    rows = """[["running", 0.1], ["succeeded", 0.5], ["succeeded", 0.9]].map(([state, value], n) =>
        gallery.trialRow(n, { state, job: `j${n}`, value, parameters: { n, kind: n ? "a" : "b" } }))"""
    card = draw_sweep(gallery, rows)
    expect(card.get_by_test_id("sweep-standing")).to_contain_text("best 0.5 (trial 1: ")
    chart = card.get_by_test_id("sweep-parallel")
    expect(chart).to_have_attribute("aria-label", re.compile("the best is trial 1: "))
    expect(chart.locator(".st-best")).to_have_attribute("data-tip", re.compile("^trial 1: "))


def test_one_parameter_is_drawn_against_the_metric(gallery: Page) -> None:
    card = gallery.locator("#sweep-one")
    expect(card.get_by_test_id("trial-dot")).to_have_count(40)
    card.get_by_test_id("trial-dot").last.hover()
    expect(gallery.locator("[role=tooltip]")).to_have_text(re.compile(r"^trial 18: lr=[\d.]+\sloss 0\.0\d+$"))


def test_a_parameter_that_is_the_same_in_all_trials_has_no_axis(gallery: Page) -> None:
    rows = """[1, 2, 3].map((n) => gallery.trialRow(n,
        { state: "succeeded", job: `j${n}`, value: n, parameters: { seed: 1, n, on: n > 1 } }))"""
    card = draw_sweep(gallery, rows)
    assert card.locator(".st-axis-title").all_inner_texts() == ["n", "on", "loss"]
    card = draw_sweep(gallery, rows.replace(", n, on: n > 1", ""))
    expect(card.locator(".st-parameters-figure")).to_have_count(0)


def test_of_very_many_trials_the_best_are_drawn(gallery: Page) -> None:
    rows = """Array.from({ length: 620 }, (_, n) => gallery.trialRow(n,
        { state: "succeeded", job: `j${n}`, value: 620 - n, parameters: { n, m: n % 7 } }))"""
    card = draw_sweep(gallery, rows)
    expect(card.get_by_test_id("trial-line")).to_have_count(500)
    expect(card.locator("figcaption")).to_contain_text("the best 500 of 620 trials")


def test_a_sweep_of_which_no_trial_has_ended_says_what_comes(gallery: Page) -> None:
    card = gallery.locator("#sweep-unbegun")
    expect(card.get_by_test_id("sweep-standing")).to_have_text("0 of 12 trials")
    expect(card.get_by_test_id("sweep-none")).to_contain_text("No trial has ended yet.")
    expect(card.get_by_test_id("sweep-no-metric")).to_have_count(0)
    expect(card.locator("figure")).to_have_count(0)


def test_a_sweep_without_a_metric_says_how_to_name_one(gallery: Page) -> None:
    expect(gallery.locator("#sweep-nameless").get_by_test_id("sweep-no-metric")).to_contain_text(
        'pool.sweep(…, metric="loss")'
    )


def test_calls_that_are_not_compared_have_no_best_one_to_wait_for(gallery: Page) -> None:
    card = gallery.locator("#sweep-mapped")
    expect(card.get_by_test_id("sweep-none")).to_have_text("No trial has ended yet.")
    expect(card.get_by_test_id("sweep-no-metric")).to_have_count(0)


def test_trials_that_are_not_there_yet_are_said_to_be_loaded(gallery: Page) -> None:
    expect(draw_sweep(gallery, "null").get_by_text("Loading the trials…")).to_be_visible()


def test_the_rest_is_cancelled_only_after_a_confirmation(gallery: Page) -> None:
    card = draw_sweep(gallery, SOME)
    card.get_by_test_id("job-cancel").click()
    expect(card.get_by_role("alert")).to_have_text(
        "Cancel the 2 trials of “digits-sweep” that have not ended? Ended trials stay. "
        "What runs has its grace period to end, then it is killed."
    )
    expect(card.get_by_test_id("job-keep")).to_be_focused()
    assert gallery.evaluate("own.calls") == []
    card.get_by_test_id("job-confirm").click()
    assert gallery.evaluate("own.calls") == ["cancel"]


@pytest.mark.parametrize(
    ("rows", "changes", "offered"),
    [
        (SOME, "{}", ["Pause", "Retry failed (1)", "Cancel the rest…"]),
        (SOME, "{ state: 'paused', held_by_user: true }", ["Resume", "Retry failed (1)", "Cancel the rest…"]),
        ("gallery.trialRows(5, 0)", "{ state: 'queued' }", ["Pause", "Cancel the rest…"]),
        (SOME, "{ state: 'succeeded', ended: 1 }", []),
    ],
)
def test_a_sweep_offers_what_can_be_done(gallery: Page, rows: str, changes: str, offered: list[str]) -> None:
    card = draw_sweep(gallery, rows, changes=changes)
    assert card.locator("footer button").all_inner_texts() == offered


def test_failed_trials_are_retried_once_until_that_is_answered(gallery: Page) -> None:
    card = draw_sweep(gallery, SOME)
    retry = card.get_by_test_id("job-retry")
    retry.click()
    expect(retry).to_be_disabled()
    assert gallery.evaluate("own.calls") == ["retry"]
    draw_sweep(gallery, SOME.replace('"failed"', '"queued"'))
    expect(retry).to_have_count(0)
    expect(card.get_by_test_id("job-pause")).to_be_enabled()


def test_hostile_names_and_values_of_parameters_are_shown_and_do_nothing(gallery: Page) -> None:
    card = gallery.locator("#sweep-hostile")
    assert gallery.evaluate("window.hacked") is None
    assert card.locator("img").count() == 0
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", card.inner_text())
    constructor = [head.strip() for head in card.locator("thead th").all_inner_texts()].index("constructor") + 1
    assert column(card, constructor) == ["1", "2", DASH]
    to_string = [head.strip() for head in card.locator("thead th").all_inner_texts()].index("toString") + 1
    assert column(card, to_string) == [DASH, DASH, "true"]


def test_jobs_in_rows_have_one_row_for_a_sweep(gallery: Page) -> None:
    rows = gallery.locator("#rows")
    expect(rows.get_by_test_id("row-trials").first).to_have_text(
        re.compile(r"^24/60 trials, 3 failed, best 0\.0\d+ · 3 of 5 GPUs borrowed$")
    )
    track = rows.locator("[data-job=j20]").get_by_role("progressbar")
    expect(track).to_have_attribute("aria-valuenow", "40")


@pytest.mark.parametrize("width", [400, 1000])
def test_cards_of_sweeps_are_not_wider_than_the_page(gallery: Page, width: int) -> None:
    gallery.set_viewport_size({"width": width, "height": 900})
    expect(gallery.locator("html")).to_have_js_property("scrollWidth", width)


def test_the_bundled_card_shows_a_sweep_in_a_notebook(gallery: Page) -> None:
    shown = gallery.evaluate("gallery.sweeps.running")
    traits = {"job": shown["job"], "trials": None, "points": [], "log": "", "notice": "", "colour": 3}
    gallery.evaluate(WIDGET, [browser_modules.bundle("notebook/card_widget.js"), traits])
    card = gallery.locator("#cell").get_by_test_id("job-card")
    expect(card.get_by_test_id("sweep-standing")).to_contain_text("24 of 60 trials")
    card.scroll_into_view_if_needed()  # below all others, where nothing is drawn
    gallery.evaluate("(rows) => model.set('trials', rows)", shown["rows"])
    expect(card.get_by_test_id("trial-row")).to_have_count(50)
    card.get_by_test_id("job-retry").click()
    assert gallery.evaluate("model.sent.filter((message) => message.action)") == [{"action": "retry"}]
    gallery.evaluate("unmount()")


KEEPER = """(rows) => {
    window.asked = [];
    window.rows = rows;
    const call = async (method, path) => {
        asked.push(`${method} ${path}`);
        const from = Number(new URLSearchParams(path.split("?")[1]).get("cursor") ?? 0);
        const items = window.rows.slice(from, from + 40);
        return { items, next: from + 40 < window.rows.length ? String(from + 40) : null };
    };
    window.keeper = new gallery.TrialKeeper(call, "j20", () => {});
    keeper.follow(gallery.countsOf(rows));
}"""


def test_trials_are_read_page_by_page_and_again_only_where_events_left_something_out(gallery: Page) -> None:
    gallery.clock.install()
    gallery.evaluate(KEEPER, gallery.evaluate("gallery.trialRows()"))
    gallery.wait_for_function("keeper.rows?.length === 60")
    assert gallery.evaluate("asked") == [
        "GET jobs/j20/trials?limit=1000",
        "GET jobs/j20/trials?limit=1000&cursor=40",
    ]
    gallery.evaluate(
        """() => {
            const outcome = { parameters: { lr: 0.5 }, value: 0.01, curve: [[1, 0.01]], pruned: false };
            const done = { id: "j20t27", sweep: "j20", trial: 27, state: "succeeded", held: [], outcome };
            keeper.hear(gallery.job(done));
            const ended = { state: "succeeded", value: 0.01 };
            window.rows = window.rows.map((row) => row.trial === 27 ? { ...row, ...ended } : row);
            keeper.follow(gallery.countsOf(window.rows));
        }"""
    )
    assert gallery.evaluate("[keeper.rows[27].state, keeper.rows[27].value]") == ["succeeded", 0.01]
    gallery.clock.run_for(10_000)
    assert gallery.evaluate("asked.length") == 2, "the event had all rows"
    gallery.evaluate(
        """() => {
            window.rows = window.rows.map((row) => row.trial === 28 ? { ...row, state: "failed" } : row);
            keeper.follow(gallery.countsOf(window.rows));
        }"""
    )
    gallery.clock.run_for(10_000)
    gallery.wait_for_function("keeper.rows[28].state === 'failed'")
    assert gallery.evaluate("asked.length") == 4, "rows without an event were read"


def test_a_report_of_a_trial_continues_its_curve(gallery: Page) -> None:
    gallery.evaluate(KEEPER, gallery.evaluate("gallery.trialRows()"))
    gallery.wait_for_function("keeper.rows?.length === 60")
    gallery.evaluate("keeper.hearProgress('j20t26', { step: 7, of: 20, values: { loss: 0.5, accuracy: 0.9 } })")
    row = gallery.evaluate("keeper.rows[26]")
    assert (row["value"], row["step"], row["curve"][-1], len(row["curve"])) == (0.5, 7, [7, 0.5], 7)


def test_a_population_tells_how_often_and_why_its_trials_were_paused_and_what_was_lost(gallery: Page) -> None:
    pauses = gallery.locator("#sweep-population").get_by_test_id("trial-pauses")
    expect(pauses.locator("p")).to_have_text(
        "4 pauses of 2 trials, 7 min in all. Not saved before: 1 min of GPU time."
    )
    expect(pauses.get_by_role("listitem")).to_have_text(
        ["3 times: Paused for a job of “owner”.", "1 time: Paused by “joe”."]
    )
    expect(gallery.locator("#sweep-running").get_by_test_id("trial-pauses")).to_have_count(0)


def test_a_population_shows_lineage_and_the_schedule_of_its_best_trial(gallery: Page) -> None:
    card = gallery.locator("#sweep-population")
    for words in ("4 members", "generation 3 of 3", "10 steps each"):
        expect(card.get_by_text(words, exact=True)).to_be_visible()
    assert column(card, 2) == [str(number // 4 + 1) for number in range(12)]
    assert column(card, 3) == [str(number % 4) for number in range(12)]
    assert column(card, 4) == [DASH] * 7 + ["1"] + [DASH] * 4
    schedule = card.get_by_test_id("schedule")
    expect(schedule).to_contain_text("How trial 11 was trained:")
    assert [row.split("\t") for row in schedule.get_by_test_id("schedule-row").all_inner_texts()] == [
        ["1", "0 to 10", "1", "1.1", "0.4"],
        ["2", "10 to 20", "3", "0.08", "0.2"],
        ["3", "20 to 30", "3", "0.08", "0.1"],
    ]
    card.get_by_test_id("trials-search").fill("member=3 generation=2")
    assert numbers(card) == [7]
    card.get_by_test_id("trials-search").fill("")
    expect(gallery.locator("#sweep-running").get_by_test_id("schedule")).to_have_count(0)
