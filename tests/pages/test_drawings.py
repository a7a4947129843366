"""The drawings of the picture language, in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from browsers.widget_host import WIDGET
from playwright.sync_api import Page, expect

from springtide.scheduler.client.descriptions import facts
from springtide.scheduler.model import PRIORITIES
from springtide.scheduler.wire import JobEnvironment
from springtide.scheduler.wording import size
from springtide.widgets import browser_modules

TIMES = Path(__file__).parents[1] / "scheduler/times.json"
"""The cases that the sentences of the service are tested with as well."""
SECTIONS = ["glance", "bar", "tide", "cards", "rows", "project", "log", "big", "none"]


def draw_card(page: Page, changes: str = "{}", data: str = "{}") -> None:
    """Draw a card into ``#own``, again if it is there."""
    page.evaluate(
        """([changes, data]) => {
            const { renderJobCard, job, NOW } = gallery;
            let place = document.getElementById("own");
            if (!place) {
                place = document.createElement("article");
                place.id = "own";
                document.body.append(place);
                place.calls = [];
            }
            const act = (name) => () => place.calls.push(name);
            const names = ["pause", "resume", "cancel", "end", "finish"];
            const actions = Object.fromEntries(names.map((name) => [name, act(name)]));
            const given = new Function(`return ${changes}`)();
            const more = new Function(`return ${data}`)();
            renderJobCard(place, { job: job(given), now: NOW, colour: 0, simulated: true, ...more }, actions);
        }""",
        [changes, data],
    )


def test_hostile_text_is_shown_and_does_nothing(gallery: Page) -> None:
    card = gallery.locator("#card-hostile")
    expect(card.get_by_test_id("job-name")).to_have_text('<img src=x onerror="window.hacked=1">gpj.exeredlink')
    assert gallery.evaluate("window.hacked") is None
    assert card.locator("img").count() == 0
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", card.inner_text())


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\u202eb\u2066c", "abc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link"),
        ("bell\x07 null\x00", "bell null"),
        ("10%\r50%\r100%\nend\r\n", "100%\nend\n"),
        ("\x1b[1G 9%\x1b[1G10%", "10%"),
        ("outer 0%\n\rinner 10%\x1b[A\n\rinner 90%\x1b[A\router 1%\n\n", "outer 1%\ninner 90%\n"),
        ("a\nb\r\x1b[2K\x1b[1A\x1b[2Kc\x1b[99Ad\n\n\n", "cd\n\n\n"),
        ("done 3\x1b[K\n100%\r\x1b[K", "done 3\n"),
        ("a\x1b[3", "a"),
        ("a\x0bb", "ab"),
        ("a\x1b[0Ab", "ab"),
    ],
)
def test_terminal_and_direction_characters_are_left_out(gallery: Page, given: str, shown: str) -> None:
    assert gallery.evaluate("(text) => gallery.words.cleanLines(text)", given) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "just now"), (40, "40 s ago"), (720, "12 min ago"), (7500, "2 h 5 min ago"), (-720, "in 12 min")],
)
def test_times_read_as_people_say_them(gallery: Page, seconds: int, shown: str) -> None:
    assert gallery.evaluate("(passed) => gallery.words.ago(gallery.NOW - passed, gallery.NOW)", seconds) == shown


def test_borrowed_gpus_are_marked_and_told_apart_without_colour(gallery: Page) -> None:
    borrowed = gallery.locator("#bar [data-held=borrowed]")
    expect(borrowed).to_have_count(4)
    expect(borrowed.first).to_have_attribute("aria-label", re.compile("borrowed"))
    hatching = borrowed.first.evaluate("(cell) => getComputedStyle(cell).backgroundImage")
    assert "repeating-linear-gradient" in hatching
    solid = gallery.locator("#bar [data-held=job]").first.evaluate(
        "(cell) => getComputedStyle(cell).backgroundImage"
    )
    assert solid == "none"


def test_a_card_marks_the_borrowed_ones_of_its_gpus(gallery: Page) -> None:
    card = gallery.locator("#card-running")
    expect(card.get_by_test_id("held-gpu")).to_have_count(4)
    expect(card.locator("[data-testid=held-gpu][data-borrowed=true]")).to_have_count(2)
    expect(card).to_contain_text("2 of 4 GPUs borrowed")
    expect(card.get_by_test_id("simulated")).to_be_visible()


def test_every_node_with_simulated_gpus_says_so(gallery: Page) -> None:
    expect(gallery.locator("#bar .st-node")).to_have_count(2)
    expect(gallery.locator("#bar .st-node .st-simulated")).to_have_count(2)
    expect(gallery.locator("#big .st-simulated")).to_have_count(0)


def test_a_paused_job_has_one_line_and_unfolds_why_it_waits_and_what_is_saved(gallery: Page) -> None:
    card = gallery.locator("#card-paused")
    expect(card.get_by_test_id("job-headline")).to_have_text(
        "Paused for “bert”. Likely resumes at step 41 in about 12 min (in 10 min at the earliest)."
    )
    expect(card.get_by_test_id("job-reason")).not_to_be_visible()
    card.get_by_text("Whole reason").click()
    expect(card.get_by_test_id("job-reason")).to_be_visible()
    expect(gallery.locator("#card-paused").get_by_test_id("job-reason")).to_have_text(
        "Paused 3 min ago. The project “nlp” asked for its 2 GPUs back, for the job “bert”. Saved at step 41. "
        "Waiting for 4 GPUs on one node: no node has more than 1 free. Next in line."
    )


def test_a_waiting_job_tells_when_it_likely_starts_and_exactly_on_hover(gallery: Page) -> None:
    starts = gallery.locator("#card-queued").get_by_test_id("job-headline").get_by_test_id("job-starts")
    expect(starts).to_have_text("Likely starts in about 11 min.")
    expect(starts).to_have_attribute("title", re.compile(r"^earliest .+\nlikely .+\nlatest .+$"))


def test_a_job_without_a_checkpoint_is_never_said_to_resume(gallery: Page) -> None:
    starts = "{earliest: gallery.NOW + 30, likely: gallery.NOW + 36, latest: null}"
    draw_card(gallery, f"{{state: 'paused', from_start: true, saved_step: null, starts: {starts}}}")
    headline = gallery.locator("#own").get_by_test_id("job-headline")
    expect(headline).to_contain_text("Likely starts again from the beginning in about")
    expect(headline).not_to_contain_text("resume")
    first = "{number: 1, state: 'paused', started: gallery.NOW - 90, ended: gallery.NOW - 31, gpus: []}"
    attempts = f"[{first}, {{number: 2, state: 'running', started: gallery.NOW - 5, gpus: []}}]"
    draw_card(gallery, f"{{state: 'running', from_start: true, attempt: 2, attempts: {attempts}}}")
    expect(headline).to_contain_text("Started again from the beginning 5 s ago")
    expect(headline).not_to_contain_text("Resumed")


def test_a_job_that_is_asked_to_end_says_how_long_it_has(gallery: Page) -> None:
    attempts = "[{number: 1, state: 'pausing', started: gallery.NOW - 90, asked: gallery.NOW - 7, gpus: []}]"
    draw_card(gallery, f"{{state: 'pausing', shown: 'cancelling', grace: 30, attempts: {attempts}}}")
    headline = gallery.locator("#own").get_by_test_id("job-headline")
    expect(headline).to_contain_text("At most 23 s left.")
    draw_card(gallery, f"{{state: 'pausing', shown: 'ending', grace: 30, attempts: {attempts}}}")
    expect(headline).not_to_contain_text("left.")


def test_what_an_attempt_borrowed_is_said_plainly(gallery: Page) -> None:
    said = gallery.evaluate(
        """async () => {
            const { borrowedWords } = await import("/visuals/base/borrowing.js");
            const span = (start, end, gpus) => ({ start, end, gpus });
            const four = { gpus: [1, 2, 3, 4], started: 0, ended: 100 };
            const words = (...borrowed) => borrowedWords({ ...four, borrowed }, 100);
            return [
                words(span(0, 100, 2)), words(span(0, 45, 4)), words(span(0, 45, 2)),
                words(span(0, 45, 2), span(50, 60, 3)), words(),
            ];
        }"""
    )
    assert said == [
        "2 borrowed",
        "borrowed for 45 s",
        "2 borrowed for 45 s",
        "up to 3 borrowed at a time, for 55 s in all",
        "",
    ]


def test_how_long_a_job_still_runs_is_what_forecasts_say(gallery: Page) -> None:
    expect(gallery.locator("#card-running").get_by_test_id("job-headline")).to_contain_text("About 7 min to go.")


def test_a_job_whose_time_limit_comes_first_says_that_it_ends_there(gallery: Page) -> None:
    draw_card(gallery, "{state: 'running', progress: {step: 42, of: 200, ends: gallery.NOW + 4, limited: true}}")
    headline = gallery.locator("#own").get_by_test_id("job-headline")
    expect(headline).to_contain_text("Ends in 4 s, at its time limit.")
    expect(headline).not_to_contain_text("to go")


def test_a_start_that_was_expected_and_has_not_come_is_told_as_late(gallery: Page) -> None:
    late = (
        "{earliest: gallery.NOW - 300, likely: gallery.NOW - 180, latest: null, why: null, at: gallery.NOW - 400}"
    )
    draw_card(gallery, f"{{state: 'queued', attempt: 0, held: [], attempts: [], starts: {late}}}")
    words = gallery.locator("#own").get_by_test_id("job-starts")
    expect(words).to_have_text("It was expected to start 3 min ago.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_dangerous_button_can_be_read_while_the_mouse_is_on_it(gallery: Page, theme: str) -> None:
    gallery.evaluate("(theme) => { document.documentElement.dataset.bsTheme = theme; }", theme)
    draw_card(gallery)
    card = gallery.locator("#own")
    card.get_by_test_id("job-cancel").click()
    button = card.get_by_test_id("job-confirm")
    colours = "(node) => [getComputedStyle(node).color, getComputedStyle(node).backgroundColor]"
    before = button.evaluate(colours)
    button.hover()
    assert button.evaluate(colours) == before


def test_a_job_that_ended_with_0_when_asked_to_pause_can_be_marked_as_finished(gallery: Page) -> None:
    draw_card(gallery, "{state: 'paused', ended_cleanly: true}")
    card = gallery.locator("#own")
    card.get_by_test_id("job-finish").click()
    assert gallery.evaluate("document.getElementById('own').calls") == ["finish"]
    draw_card(gallery, "{state: 'paused', ended_cleanly: false}")
    expect(card.get_by_test_id("job-finish")).to_have_count(0)


def test_a_card_has_the_last_values_of_all_metrics_and_draws_the_chosen_one(gallery: Page) -> None:
    values = "{ loss: 1 / step, acc: 1 - 1 / step, ...(step === 4 ? { note: 7 } : {}) }"
    points = f"[1, 2, 4].map((step) => ({{ seq: step, step, at: NOW, attempt: 1, values: {values} }}))"
    draw_card(gallery, data=f"{{ points: {points.replace('NOW', '1000')} }}")
    card = gallery.locator("#own")
    metrics = card.get_by_test_id("job-metrics").get_by_role("button")
    expect(metrics).to_have_text(["loss 0.213", "acc 0.75", "note 7"])  # the progress is newer than the points
    plot = card.locator(".st-plot")
    expect(plot).to_have_attribute("aria-label", re.compile("^loss "))
    metrics.nth(1).click()
    expect(plot).to_have_attribute("aria-label", re.compile("^acc "))
    expect(metrics.nth(1)).to_have_attribute("aria-pressed", "true")
    draw_card(gallery, data="{ points: [{ seq: 1, step: 1, at: 1000, attempt: 1, values: { loss: 1 } }] }")
    expect(card.get_by_test_id("job-metrics")).to_have_count(0)


HUGE = [[1e308, -1e308, 5], [1.7e308, -1.7e308], [0, 5e-324], [1e308, 1e308], [1e15 + 2, 1e15]]


@pytest.mark.parametrize("values", HUGE)
def test_numbers_of_any_size_are_short_and_break_no_curve(gallery: Page, values: list[float]) -> None:
    drawn = gallery.evaluate(
        """async (values) => {
            const { renderMetricChart } = await import("/visuals/charts/metric_chart.js");
            const { renderLossCurve } = await import("/visuals/charts/loss_curve.js");
            const { sparkline } = await import("/visuals/charts/sparkline.js");
            const { axisOf } = await import("/visuals/charts/parameter_axes.js");
            const { patch } = await import("/visuals/base/dom.js");
            const points = values.map((loss, seq) => ({ seq, step: loss, at: seq, attempt: 1, values: { loss } }));
            const places = ["step", "time"].map((across) => {
                const place = document.createElement("div");
                renderMetricChart(place, { points, name: "loss", across, started: 0 });
                return place;
            });
            const curve = document.createElement("div");
            renderLossCurve(curve, { points });
            const spark = document.createElement("div");
            patch(spark, sparkline(values.map((value) => [value, value]), "loss"));
            const axis = axisOf(values);
            const wordsOf = (place) =>
                Array.from(place.querySelectorAll("text, strong, span"), (text) => text.textContent);
            return {
                html: [...places, curve, spark].map((place) => place.innerHTML),
                texts: [...places, curve].flatMap(wordsOf),
                axis: axis === null ? [] : [...axis.marks.map(({ at }) => at), ...values.map(axis.place)],
            };
        }""",
        values,
    )
    for html in drawn["html"]:
        assert "NaN" not in html
        assert "Infinity" not in html
        assert "<path" in html
    assert max(map(len, drawn["texts"])) < 60
    assert all(0 <= place <= 1 for place in drawn["axis"])


def test_curves_have_a_gap_where_a_value_is_not_finite(gallery: Page) -> None:
    drawn = gallery.evaluate(
        """async () => {
            const { renderMetricChart } = await import("/visuals/charts/metric_chart.js");
            const { renderLossCurve } = await import("/visuals/charts/loss_curve.js");
            const { renderOverlayChart } = await import("/visuals/charts/overlay_chart.js");
            const { amount } = await import("/visuals/base/words.js");
            const values = [3, 2, "NaN", 4, 5, "Infinity"];
            const points = values.map((loss, seq) => ({ seq, step: seq, at: seq, attempt: 1, values: { loss } }));
            const draw = (render, data) => {
                const place = document.createElement("div");
                render(place, data);
                return [place.querySelectorAll("path.st-line[d^=M]:not([d='M1 4H27'])").length, place.textContent];
            };
            const run = { place: 0, name: "one", points };
            const lost = points.slice(2, 3);
            return {
                metric: draw(renderMetricChart, { points, name: "loss", across: "step", started: 0 }),
                curve: draw(renderLossCurve, { points }),
                overlay: draw(renderOverlayChart, { runs: [run], name: "loss", across: "step" }),
                lost: draw(renderMetricChart, { points: lost, name: "loss", across: "step", started: 0 }),
                amounts: ["NaN", "Infinity", "-Infinity", NaN, null, undefined, 2].map(amount),
            };
        }"""
    )
    assert [drawn[name][0] for name in ("metric", "curve", "overlay", "lost")] == [2, 2, 2, 0]
    assert "last ∞, from 2 to 5" in drawn["metric"][1]
    assert "∞" in drawn["curve"][1]
    assert "∞" in drawn["overlay"][1]
    assert drawn["lost"][1] == "loss: last NaN, nothing to draw."
    assert drawn["amounts"] == ["NaN", "∞", "\u2212∞", "NaN", "\u2013", "\u2013", "2"]


def test_a_curve_of_a_program_that_begins_again_has_a_part_for_each_begin(gallery: Page) -> None:
    parts = gallery.evaluate(
        """async () => {
            const { finiteOf } = await import("/visuals/charts/loss_curve.js");
            const point = (step, seq) => ({ seq, step, at: seq, attempt: 1, values: { loss: 1 } });
            return finiteOf([1, 2, 3, 1, 2, null, 4].map(point), "loss").map(({ stretch }) => stretch);
        }"""
    )
    assert parts == [0, 0, 0, 1, 1, 1, 1]


def test_a_curve_says_how_many_reports_came_too_fast_to_be_kept(gallery: Page) -> None:
    texts = gallery.evaluate(
        """async () => {
            const { renderLossCurve } = await import("/visuals/charts/loss_curve.js");
            const draw = (more) => {
                const values = [3, 2, 1];
                const point = (loss, seq) => ({ seq, step: seq, at: seq, attempt: 1, values: { loss }, ...more });
                const place = document.createElement("div");
                const ofPool = { seq: 3, step: null, at: 3, attempt: 1, values: {} };
                renderLossCurve(place, { points: [...values.map(point), ofPool] });
                return place.textContent;
            };
            return [draw({}), draw({ left_out: 0 }), draw({ left_out: 400 })];
        }"""
    )
    assert "thinned" not in texts[0] + texts[1]
    assert texts[2].endswith("1,203 reports, thinned to 3; the last and the best values are kept.")


def test_priorities_have_the_names_that_the_form_offers(gallery: Page) -> None:
    shown = gallery.evaluate("(numbers) => numbers.map(gallery.priorityWords)", [*PRIORITIES.values(), 60])
    assert shown == [*(f"{name} ({number})" for name, number in PRIORITIES.items()), "60"]


def test_a_state_is_a_glyph_and_a_word(gallery: Page) -> None:
    for name in ("running", "queued", "starting", "pausing", "paused", "succeeded", "failed"):
        state = gallery.locator(f"#card-{name}").get_by_test_id("job-state")
        expect(state).to_have_text(name.capitalize())
        expect(state.locator("svg path").first).to_be_attached()


def test_the_life_shows_attempts_and_the_reason_of_each_pause(gallery: Page) -> None:
    card = gallery.locator("#card-succeeded")
    expect(card.get_by_test_id("life-attempt")).to_have_count(3)
    card.get_by_test_id("life-gap").nth(1).hover()
    expect(gallery.locator("[role=tooltip]")).to_contain_text(
        "The project “nlp” asked for its 2 GPUs back, for the job “bert”."
    )


def test_an_ended_attempt_is_hatched_for_the_time_in_which_it_borrowed(gallery: Page) -> None:
    draw_card(
        gallery,
        """{ state: 'succeeded', held: [], submitted: 900, ended: 1100, attempts: [{
            number: 1, state: 'succeeded', workers: 1, gpus: [{ node: 'a', label: 'a 0', borrowed: true }],
            borrowed: [{ start: 900, end: 920, gpus: 1 }], created: 900, started: 900, ended: 1100 }] }""",
    )
    card = gallery.locator("#own")
    parts = card.get_by_test_id("life-part")
    assert parts.evaluate_all("(all) => all.map((part) => part.dataset.borrowed)") == ["1", "0"]
    widths = parts.evaluate_all("(all) => all.map((part) => part.getBoundingClientRect().width)")
    assert widths[0] / sum(widths) == pytest.approx(0.1, abs=0.02)
    assert card.get_by_test_id("life-attempt").get_attribute("data-tip").split("\n")[2] == (
        "1 GPU, borrowed for 20 s"
    )


def test_sizes_are_written_as_terminals_write_them(gallery: Page) -> None:
    sizes = [0, 512, 1023, 1024, 1536, 20 * 2**20, 2**30, 5 * 2**40]
    written = gallery.evaluate(
        """async (sizes) => {
            const { size } = await import("/visuals/base/words.js");
            return sizes.map(size);
        }""",
        sizes,
    )
    assert written == [size(each) for each in sizes]


def test_times_are_written_as_terminals_write_them(gallery: Page) -> None:
    cases = json.loads(TIMES.read_text())
    written = gallery.evaluate(
        """async ({ points, durations }) => {
            const words = await import("/visuals/base/words.js");
            const moment = ([year, month, ...rest]) => new Date(year, month - 1, ...rest).getTime() / 1000;
            return {
                points: points.map(({ at, now }) => {
                    const [then, present] = [moment(at), moment(now)];
                    const { ago, clock, day, dated, exact, weekday, fieldTime, typedTime } = words;
                    return {
                        at, now, ago: ago(then, present), clock: clock(then, present),
                        precise: clock(then, present, true), day: day(then), dated: dated(then),
                        exact: exact(then), weekday: weekday(then), field: fieldTime(typedTime(fieldTime(then))),
                    };
                }),
                durations: durations.map(({ seconds }) => ({
                    seconds, duration: words.duration(seconds), roughly: words.roughly(seconds),
                    exactly: words.exactDuration(seconds),
                })),
            };
        }""",
        cases,
    )
    assert written == cases


def test_lists_say_how_many_trials_were_cancelled_or_failed(gallery: Page) -> None:
    words = gallery.evaluate(
        """async () => {
            const { shortTrialsWords, trialsWords } = await import("/visuals/base/sweep_words.js");
            const counts = { number: 16, succeeded: 0, pruned: 0, failed: 0, cancelled: 16, best: null };
            const some = { ...counts, succeeded: 6, failed: 2, cancelled: 0 };
            return [
                trialsWords(counts),
                shortTrialsWords({ ...counts, succeeded: 3, cancelled: 0 }),
                shortTrialsWords({ ...some, number: 8 }),
                shortTrialsWords({ ...some, cancelled: 3, best: { value: 0.5 } }),
            ];
        }"""
    )
    assert words == [
        "0 of 16 trials, 16 cancelled",
        "3/16 trials",
        "8/8 trials, 2 failed",
        "8/16 trials, 2 failed, 3 cancelled, best 0.5",
    ]


def test_an_estimate_out_of_sight_says_that_the_pool_may_have_changed_and_is_asked_for_again(
    gallery: Page,
) -> None:
    drawn = gallery.evaluate(
        """async () => {
            const { FormSession } = await import("/visuals/live/form_session.js");
            const { formEstimate } = await import("/visuals/views/form_estimate.js");
            const { patch } = await import("/visuals/base/dom.js");
            let asked = 0;
            const said = { role: "state", text: "It would start now." };
            const estimate = { code: "estimate-now", text: said.text, sentences: [said], params: { gpus: 1 } };
            const review = async () => ({ problems: {}, estimate, later: "", asked: (asked += 1) });
            const session = new FormSession({ review });
            session.form = { fields: [], person: { projects: [] }, notebooks: [] };
            const place = document.createElement("div");
            const draw = () => {
                patch(place, formEstimate(session, {}));
                return [asked, place.querySelectorAll(".st-outdated").length, place.textContent];
            };
            session.reviewing.want(0);
            await session.reviewing.rest();
            const states = [draw()];
            session.heardNews(false);
            states.push(draw());
            place.querySelector("[data-testid=form-ask]").click();
            states.push(draw());
            await session.reviewing.rest();
            states.push(draw());
            session.heardNews(true);
            states.push(draw());
            session.stop();
            return states;
        }"""
    )
    assert [(asked, outdated) for asked, outdated, _ in drawn] == [(1, 0), (1, 1), (1, 0), (2, 0), (2, 0)]
    assert "The pool may have changed since." in drawn[1][2]


def test_a_preset_fills_in_what_was_not_typed_and_gives_it_back(gallery: Page) -> None:
    states = gallery.evaluate(
        """async () => {
            const { FormSession } = await import("/visuals/live/form_session.js");
            const { renderJobForm } = await import("/visuals/views/job_form.js");
            const review = async () => ({ problems: {}, estimate: null, later: "" });
            const session = new FormSession({ review, functions: async () => [] });
            const blank = { help: "", kind: "text", common: true, placeholder: "", choices: [] };
            const field = (name, value, more = {}) => ({ ...blank, name, label: name, value, ...more });
            const named = (...values) => values.map((value) => ({ value, words: value }));
            const preset = (name, projects, values, variables = []) =>
                ({ name, words: name, projects, values, variables });
            session.form = {
                fields: [
                    field("preset", "", { choices: named("") }),
                    field("gpus", "1"),
                    field("project", "vision", { choices: named("vision", "speech") }),
                    field("priority", "train", { choices: named("train", "high"), own: "another number" }),
                    field("time_limit", ""),
                    field("env", "", { kind: "variables" }),
                ],
                presets: [
                    preset("small", ["vision"], { gpus: "4", priority: "60", time_limit: "2h" }, ["A", "B"]),
                    preset("long", ["vision", "speech"], { time_limit: "1d" }),
                ],
                person: { projects: [{ name: "vision" }], simulated: false },
                notebooks: [],
            };
            for (const { name, value } of session.form.fields) session.typed[name] = value;
            const place = document.createElement("div");
            document.body.append(place);
            const states = [];
            const note = () => {
                renderJobForm(place, session);
                const options = place.querySelectorAll("[data-testid=form-preset] option");
                const offered = [...options].map(({ value }) => value);
                const help = place.querySelector("[id$=-env-help]")?.textContent ?? "";
                states.push({ ...session.filled, own: [...session.own], offered, help });
            };
            const steps = [
                ["preset", "small"], ["time_limit", ""], ["preset", "long"], ["project", "speech"],
                ["preset", ""], ["project", "vision"], ["preset", "small"], ["project", "speech"],
            ];
            for (const [name, value] of steps) {
                session.setOption(name, value);
                note();
            }
            session.stop();
            place.remove();
            return states;
        }"""
    )
    chosen, cleared, other, moved, without, back, again, lost = states
    assert (chosen["gpus"], chosen["time_limit"]) == ("4", "2h")
    assert (chosen["priority"], chosen["own"]) == ("60", ["priority"]), "it is none of the choices"
    assert "Those of the preset are added: A, B." in chosen["help"]
    assert cleared["time_limit"] == "", "it is sent, so that the preset does not fill it in again"
    assert (other["gpus"], other["priority"], other["own"], other["time_limit"]) == ("1", "train", [], "")
    assert (moved["preset"], moved["offered"]) == ("long", ["", "long"])
    assert "preset" not in without
    assert "time_limit" not in without
    assert back["offered"] == ["", "small", "long"]
    assert (again["gpus"], again["time_limit"]) == ("4", "")
    assert ("preset" in lost, lost["gpus"]) == (False, "1")


def test_a_resumed_job_has_a_mark_on_its_curve(gallery: Page) -> None:
    expect(gallery.locator("#card-paused").get_by_test_id("resume-mark")).to_have_count(1)
    expect(gallery.locator("#card-running").get_by_test_id("resume-mark")).to_have_count(0)


def test_an_update_keeps_nodes_focus_and_scroll(gallery: Page) -> None:
    lines = "'line\\n'.repeat(200)"
    draw_card(gallery, data=f"{{ log: {lines} }}")
    card = gallery.locator("#own")
    card.get_by_test_id("job-log").locator("summary").click()
    card.get_by_test_id("log-text").evaluate("(log) => { window.kept = log; }")
    gallery.wait_for_function("kept.scrollTop > 120")  # it has gone to its end, as an opened log does
    gallery.evaluate("kept.scrollTop = 120")
    gallery.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    card.get_by_test_id("job-pause").focus()
    gallery.evaluate("window.button = document.activeElement")
    draw_card(
        gallery,
        "{ progress: { step: 42, of: 60, at: 1, values: {} } }",
        f"{{ log: {lines} + 'more', notice: 'hi' }}",
    )
    expect(card.get_by_test_id("job-progress")).to_contain_text("step 42 of 60")
    assert gallery.evaluate("document.activeElement === button && button.isConnected")
    assert gallery.evaluate("kept.isConnected && kept.scrollTop") == 120
    assert card.get_by_test_id("job-log").evaluate("(fold) => fold.open")


def test_a_card_has_the_note_about_its_job(gallery: Page) -> None:
    draw_card(gallery, "{ note: 'too <b>large</b>\\nsecond line' }")
    expect(gallery.locator("#own").get_by_test_id("job-note")).to_have_text("Note: too <b>large</b>\nsecond line")
    draw_card(gallery, "{ note: '' }")
    expect(gallery.locator("#own").get_by_test_id("job-note")).to_have_count(0)


def test_what_is_drawn_again_and_has_not_changed_touches_nothing_in_the_page(gallery: Page) -> None:
    gallery.evaluate("gallery.reset()")
    touched = gallery.evaluate(
        """() => {
            const seen = new MutationObserver(() => {});
            seen.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
            gallery.again();
            return seen.takeRecords().map(({ type, attributeName, target }) =>
                [type, attributeName, target.className ?? "", target.textContent.slice(0, 80)]);
        }"""
    )
    assert touched == []


def test_a_log_follows_its_end_while_it_is_in_sight(gallery: Page) -> None:
    draw_card(gallery, data="{ log: 'line\\n'.repeat(200) }")
    log = gallery.locator("#own").get_by_test_id("log-text")
    gallery.locator("#own").get_by_test_id("job-log").locator("summary").click()
    at_end = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight < 2"
    gallery.wait_for_function(f"({at_end})(document.querySelector('#own pre'))")
    draw_card(gallery, data="{ log: 'line\\n'.repeat(300) }")
    assert log.evaluate(at_end)


@pytest.mark.parametrize(
    ("state", "words"), [("running", "It has 30 s to end"), ("pausing", "It has 30 s from the request to pause")]
)
def test_the_question_before_a_cancel_says_how_long_the_job_has(gallery: Page, state: str, words: str) -> None:
    draw_card(gallery, changes=f"{{ state: '{state}', shown: '{state}', grace: 30 }}")
    card = gallery.locator("#own")
    card.get_by_test_id("job-cancel").click()
    expect(card.get_by_role("alert")).to_have_text(
        f"Cancel “digits-large”? {words}, then it is killed. This cannot be undone."
    )


def test_a_job_that_is_cancelled_is_killed_only_after_a_question_of_its_own(gallery: Page) -> None:
    draw_card(gallery)
    card = gallery.locator("#own")
    card.get_by_test_id("job-cancel").click()
    draw_card(gallery, changes="{ state: 'pausing', shown: 'cancelling' }")
    expect(card.get_by_test_id("job-confirm")).to_have_count(0)
    card.get_by_test_id("job-end").click()
    expect(card.get_by_role("alert")).to_have_text("Kill it now? What it has not saved is lost.")
    expect(card.get_by_test_id("job-keep")).to_be_focused()
    card.get_by_test_id("job-confirm").click()
    assert gallery.evaluate("own.calls") == ["end"]


def test_a_job_is_cancelled_only_after_a_confirmation(gallery: Page) -> None:
    draw_card(gallery)
    card = gallery.locator("#own")
    card.get_by_test_id("job-cancel").click()
    expect(card.get_by_role("alert")).to_have_text("Cancel “digits-large”? This cannot be undone.")
    expect(card.get_by_test_id("job-keep")).to_be_focused()
    card.get_by_test_id("job-keep").click()
    assert gallery.evaluate("own.calls") == []
    card.get_by_test_id("job-cancel").click()
    card.get_by_test_id("job-confirm").click()
    assert gallery.evaluate("own.calls") == ["cancel"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("{ state: 'pausing' }", "Pausing"),
        ("{ state: 'pausing', shown: 'cancelling' }", "Cancelling"),
        ("{ state: 'succeeded', shown: 'succeeded, 2 of 12 trials failed' }", "Succeeded, 2 of 12 trials failed"),
        ("{ state: 'unheard' }", "Unheard"),
    ],
)
def test_a_card_shows_the_words_of_a_state(gallery: Page, changes: str, words: str) -> None:
    draw_card(gallery, changes)
    expect(gallery.locator("#own").get_by_test_id("job-state")).to_have_text(words)


def test_the_mark_of_a_sweep_with_failed_trials_is_not_that_of_a_plain_success(gallery: Page) -> None:
    marks = gallery.evaluate(
        """async () => {
            const { stateMark } = await import("/visuals/base/glyphs.js");
            const { patch } = await import("/visuals/base/dom.js");
            const drawn = (of, isBrief) => {
                const place = document.createElement("div");
                patch(place, stateMark(of, null, isBrief));
                const { textContent, className } = place.firstChild;
                return [textContent, className.replace("st-state st-state-", "")];
            };
            const some = { state: "succeeded", shown: "succeeded, 2 of 8 trials failed" };
            const all = { state: "succeeded", shown: "succeeded" };
            return [drawn(some, true), drawn(some, false), drawn(all, true)];
        }"""
    )
    assert marks == [
        ["Succeeded", "incomplete"],
        ["Succeeded, 2 of 8 trials failed", "incomplete"],
        ["Succeeded", "succeeded"],
    ]


def test_the_run_time_of_similar_jobs_is_theirs_also_when_a_job_has_passed_it(gallery: Page) -> None:
    words = gallery.evaluate(
        """async () => {
            const { expectedWords } = await import("/visuals/base/job_words.js");
            const attempts = [{ started: 0, ended: 40 }, { started: 60, ended: null }, { started: null }];
            return [61, 100].map((now) => expectedWords({ usual_runtime: 60, attempts }, now));
        }"""
    )
    assert words == [
        "1 min, from the most similar earlier jobs",
        "1 min, from the most similar earlier jobs; this one has run longer",
    ]


@pytest.mark.parametrize(
    ("changes", "data", "words"),
    [
        ("{}", "{ log: '', reading: 'Reading the log…' }", "Log · not read yet"),
        ("{}", "{ log: '' }", "Log · no lines yet"),
        ("{ state: 'succeeded', ended: 100 }", "{ log: '' }", "Log · empty"),
    ],
)
def test_only_the_whole_log_of_an_ended_job_is_empty(gallery: Page, changes: str, data: str, words: str) -> None:
    draw_card(gallery, changes, data=data)
    expect(gallery.locator("#own").get_by_test_id("job-log").locator("summary")).to_have_text(words)


def test_all_buttons_of_a_card_wait_while_the_pool_does_not_answer(gallery: Page) -> None:
    buttons = gallery.evaluate(
        """async () => {
            const { cardActions } = await import("/visuals/views/card_parts.js");
            const { buttonWords } = await import("/visuals/views/job_card.js");
            const { patch } = await import("/visuals/base/dom.js");
            const job = { state: "running", options: {}, held: [] };
            const names = ["pause", "cancel", "terminal", "stack"];
            const actions = Object.fromEntries(names.map((name) => [name, () => {}]));
            const drawn = (blocked) => {
                const place = document.createElement("div");
                patch(place, cardActions({ job, blocked }, actions, {}, () => {}, buttonWords(job)));
                return Array.from(place.querySelectorAll("button"), (each) => [each.textContent, each.disabled]);
            };
            return [drawn(null), drawn("The pool does not answer. Running jobs continue.")];
        }"""
    )
    words = ["Pause", "Terminal", "Where is it now?", "Cancel…"]
    assert buttons == [[[word, False] for word in words], [[word, True] for word in words]]


def test_a_button_waits_for_the_answer_before_it_can_be_pressed_again(gallery: Page) -> None:
    draw_card(gallery)
    pause = gallery.locator("#own").get_by_test_id("job-pause")
    pause.click()
    expect(pause).to_be_disabled()
    draw_card(gallery, data="{ notice: 'The pool does not answer.' }")
    expect(pause).to_be_enabled()
    expect(gallery.locator("#own").get_by_test_id("job-notice")).to_have_text("The pool does not answer.")


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ("{}", ["Pause", "Cancel…"]),
        ("{ state: 'queued', held: [], attempts: [] }", ["Pause", "Cancel…"]),
        ("{ state: 'queued', held: [], attempts: [], held_by_user: true }", ["Resume", "Cancel…"]),
        ("{ state: 'paused', held: [] }", ["Keep paused", "Cancel…"]),
        ("{ state: 'pausing' }", ["Cancel…"]),
        ("{ state: 'pausing', shown: 'ending' }", ["End now…"]),
        ("{ state: 'pausing', shown: 'cancelling' }", ["End now…"]),
        ("{ state: 'succeeded', held: [], ended: 1 }", []),
    ],
)
def test_a_card_offers_what_can_be_done(gallery: Page, changes: str, offered: list[str]) -> None:
    draw_card(gallery, changes)
    assert gallery.locator("#own button").all_inner_texts() == offered


def test_the_gpus_of_the_pool_can_be_walked_by_keyboard(gallery: Page) -> None:
    cells = gallery.locator("#bar").get_by_test_id("pool-cell")
    cells.first.focus()
    gallery.keyboard.press("ArrowRight")
    gallery.keyboard.press("ArrowRight")
    expect(cells.nth(2)).to_be_focused()
    expect(gallery.locator("[role=tooltip]")).to_contain_text("digits-large: susan in project vision, borrowed")
    gallery.keyboard.press("Enter")
    assert gallery.evaluate("gallery.calls") == [["open", "id-digits-large"]]


COLUMNS_OF = """async () => {
    const { ChosenColumns } = await import("/visuals/views/run_columns.js");
    const jobs = ["a", "b", "wide"].map((id, place) => ({
        id, arguments: { lr: place, seed: place, depth: place }, progress: { values: {}, best: {} }, options: {},
    }));
    const chosen = new ChosenColumns(() => {}, "a test");
    const shown = (listed) => {
        chosen.follow(listed);
        return chosen.of(listed).length;
    };
    const all = shown(jobs);
    for (let given of ["project", "person", "an argument", "another"]) chosen.narrowed(jobs);
    const beside = shown(jobs);
    const more = shown([...jobs, { ...jobs[0], id: "new" }]);
    return [all, beside, more, shown(jobs.slice(0, 2))];
}"""


def test_columns_that_had_no_room_beside_a_wide_row_come_back_when_it_is_gone(gallery: Page) -> None:
    assert gallery.evaluate(COLUMNS_OF) == [3, 1, 1, 3]


def test_a_tide_can_be_narrowed_to_one_project_and_its_quota_line(gallery: Page) -> None:
    tide = gallery.locator("#tide")
    expect(tide.get_by_test_id("tide-quota")).to_have_count(3)
    tide.get_by_role("button", name="nlp").click()
    expect(tide.get_by_test_id("tide-quota")).to_have_count(1)
    assert re.fullmatch(r"M0.0 [\d.]+H[\d.]+", tide.get_by_test_id("tide-quota").get_attribute("d") or "")


def test_a_tide_shows_quotas_and_borrowed_gpus_as_they_were(gallery: Page) -> None:
    gallery.evaluate(
        """() => {
            const place = document.createElement("div");
            place.id = "then";
            document.body.append(place);
            const { NOW, history } = gallery;
            const points = [
                { at: NOW - 300, held: { nlp: 4 }, borrowed: {}, quotas: { nlp: 4 } },
                { at: NOW - 200, held: { nlp: 4 }, borrowed: { nlp: 2 }, quotas: { nlp: 2 } },
                { at: NOW - 100, held: { nlp: 6 }, borrowed: { nlp: 2 }, quotas: { nlp: 6 } },
                { at: NOW, held: { nlp: 6 }, borrowed: { nlp: 2 } },
            ];
            const then = { ...history, start: NOW - 300, points, quotas: { nlp: 1 } };
            gallery.renderTideChart(place, { history: then, colours: { nlp: 1 } });
        }"""
    )
    tide = gallery.locator("#then")
    places = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)", tide.get_by_test_id("tide-quota").get_attribute("d") or "")
    width = float(places[-1][2])
    assert [float(end) / width for _, _, end in places] == [
        pytest.approx(part, abs=0.001) for part in (1 / 3, 2 / 3, 1)
    ]
    heights = [8 * (1 - float(y) / 208) for _, y, _ in places]
    assert heights == [pytest.approx(gpus, abs=0.01) for gpus in (4, 2, 4)]
    hatched = tide.get_by_test_id("tide-borrowed").get_attribute("d") or ""
    assert hatched.startswith(f"M0.0 {208 * (1 - 4 / 8):.1f}")
    reading = tide.get_by_test_id("tide-reading")
    water = tide.locator(".st-tide-water")
    box = water.bounding_box()
    assert box
    for part, words in ((0.1, "nlp 4"), (0.5, "nlp 4 (2 borrowed)"), (0.9, "nlp 6 (2 borrowed)")):
        water.hover(position={"x": part * box["width"], "y": 10})
        expect(reading).to_have_text(re.compile(rf"· {re.escape(words)}$"))


@pytest.mark.parametrize(
    ("held", "total", "marks"),
    [
        (23.2, 0, ["0", "6", "12", "18", "24"]),
        (3.5, 0, ["0", "1", "2", "3", "4"]),
        (0.4, 0, ["0", "0.1", "0.2", "0.3", "0.4"]),
        (5, 72, ["0", "18", "36", "54", "72"]),
        (90, 72, ["0", "23", "46", "69", "92"]),
    ],
)
def test_the_highest_mark_of_a_tide_is_above_all_that_was_held(
    gallery: Page, held: float, total: int, marks: list[str]
) -> None:
    gallery.evaluate(
        """([held, total]) => {
            const place = document.createElement("div");
            place.id = "high";
            document.body.append(place);
            const { NOW, history } = gallery;
            const points = [{ at: NOW - 3600, held: { nlp: held }, borrowed: {} }];
            const high = { ...history, start: NOW - 3600, end: NOW, total, points, quotas: { nlp: Infinity } };
            gallery.renderTideChart(place, { history: high, colours: { nlp: 1 } });
        }""",
        [held, total],
    )
    assert gallery.locator("#high .st-tide-scale span").all_inner_texts() == marks


def test_the_tide_of_a_young_pool_fills_the_chart(gallery: Page) -> None:
    gallery.evaluate(
        """() => {
            const place = document.createElement("div");
            place.id = "young";
            document.body.append(place);
            const { NOW, history } = gallery;
            const points = [
                { at: NOW - 3600, held: {}, borrowed: {} },
                { at: NOW - 100, held: { nlp: 8 }, borrowed: { nlp: 6 } },
                { at: NOW, held: { nlp: 8 }, borrowed: { nlp: 6 } },
            ];
            const young = { ...history, points, share_held: 0.03 };
            gallery.renderTideChart(place, { history: young, colours: { nlp: 1 } });
        }"""
    )
    expect(gallery.locator("#young").get_by_test_id("tide-reading")).to_have_text(
        "87 % of 8 GPUs held over this time, 64 % of that used"
    )


def test_the_line_of_a_tide_has_the_gpus_that_the_pool_had_at_each_time(gallery: Page) -> None:
    gallery.evaluate(
        """() => {
            const place = document.createElement("div");
            place.id = "grown";
            document.body.append(place);
            const { NOW, history } = gallery;
            const held = { nlp: 4 };
            const points = [
                { at: NOW - 400, held: {}, borrowed: {}, total: 0 },
                { at: NOW - 300, held, borrowed: {}, total: 8 },
                { at: NOW - 100, held, borrowed: {}, total: 16 },
                { at: NOW, held, borrowed: {}, total: 16 },
            ];
            const grown = { ...history, start: NOW - 400, points, total: 16, share_held: 0.375, share_used: null };
            gallery.renderTideChart(place, { history: grown, colours: { nlp: 1 } });
        }"""
    )
    grown = gallery.locator("#grown")
    expect(grown.get_by_test_id("tide-reading")).to_have_text("38 % of 8 to 16 GPUs held over this time")
    line = grown.locator(".st-tide-total").get_attribute("d") or ""
    heights = [float(number) for number in re.findall(r"V ([\d.]+)", line)]
    assert heights == [104, 0, 0], "half of the chart, then all of it"
    assert not line.startswith("M 0 "), "nothing before there was a pool"


def test_a_log_can_be_searched(gallery: Page) -> None:
    log = gallery.locator("#log")
    log.get_by_test_id("log-search").fill("EPOCH 1")
    expect(log.get_by_test_id("log-found")).to_have_text("1 of 11")
    log.get_by_test_id("log-search").press("Enter")
    expect(log.get_by_test_id("log-found")).to_have_text("2 of 11")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_project_colours_stand_out_in_both_themes(gallery: Page, theme: str) -> None:
    gallery.evaluate("(theme) => { document.documentElement.dataset.bsTheme = theme }", theme)
    contrasts = gallery.evaluate(
        """() => {
            const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
            const light = (colour) => {
                pen.fillStyle = colour;
                pen.fillRect(0, 0, 1, 1);
                const parts = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
                const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                const [red, green, blue] = parts.map(linear);
                return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
            };
            const probe = document.createElement("span");
            document.querySelector("#card-running").append(probe);
            const of = (name) => {
                probe.style.color = `var(--st-${name})`;
                return light(getComputedStyle(probe).color);
            };
            const names = ["text", "muted", "link", "good", "bad", "warn"];
            for (let place = 0; place < 10; place += 1) names.push(`project-${place}`);
            const page = of("page");
            const ratio = (one) => (Math.max(one, page) + 0.05) / (Math.min(one, page) + 0.05);
            return Object.fromEntries(names.map((name) => [name, ratio(of(name))]));
        }"""
    )
    assert len(contrasts) == 16
    assert all(ratio >= (3 if name.startswith("project") else 4.5) for name, ratio in contrasts.items()), contrasts


def test_nothing_moves_for_people_who_asked_for_that(gallery: Page) -> None:
    pulsing = gallery.locator("#card-pausing").get_by_test_id("held-gpu").first
    name = "(cell) => getComputedStyle(cell).animationName"
    gliding = """() => [...document.querySelectorAll("main *")]
        .filter((each) => parseFloat(getComputedStyle(each).transitionDuration) > 0).length"""
    assert pulsing.evaluate(name) == "none"
    assert gallery.evaluate(gliding) == 0
    gallery.emulate_media(reduced_motion="no-preference")
    assert pulsing.evaluate(name) == "st-breathe"
    assert gallery.evaluate(gliding) > 10


def test_it_fits_a_phone(gallery: Page) -> None:
    gallery.set_viewport_size({"width": 360, "height": 780})
    expect(gallery.locator("html")).to_have_js_property("scrollWidth", 360)


def test_the_bundled_card_works_as_a_notebook_widget(gallery: Page) -> None:
    job = gallery.evaluate("gallery.jobs.running")
    traits = {"job": job, "points": [], "log": "hello\n", "notice": "", "colour": 3, "simulated": True}
    gallery.evaluate(WIDGET, [browser_modules.bundle("notebook/card_widget.js"), traits])
    card = gallery.locator("#cell").get_by_test_id("job-card")
    expect(card.get_by_test_id("job-state")).to_have_text("Running")
    card.get_by_test_id("job-pause").click()
    assert gallery.evaluate("model.sent.filter((message) => message.action)") == [{"action": "pause"}]
    gallery.evaluate("(job) => model.set('job', job)", gallery.evaluate("gallery.jobs.pausing"))
    expect(card.get_by_test_id("job-state")).to_have_text("Pausing")
    gallery.evaluate("unmount()")
    assert gallery.evaluate("left()") == 0


def test_a_card_asks_whether_it_missed_anything_until_all_of_an_ended_job_is_there(gallery: Page) -> None:
    job = gallery.evaluate("gallery.jobs.running")
    traits = {"job": {**job, "state": "succeeded"}, "points": [], "log": "", "notice": "", "version": 7}
    gallery.clock.install()
    gallery.evaluate(WIDGET, [browser_modules.bundle("notebook/card_widget.js"), traits])

    gallery.clock.run_for(6_000)
    assert gallery.evaluate("model.sent") == [{"shown": 7}]
    gallery.clock.run_for(20_000)
    assert gallery.evaluate("model.sent.length") == 1, "one question at a time"
    gallery.clock.run_for(20_000)
    assert gallery.evaluate("model.sent.length") == 2, "but again if no answer comes"
    gallery.evaluate("model.hear({fresh: false})")
    gallery.clock.run_for(6_000)
    assert gallery.evaluate("model.sent.length") == 3
    gallery.evaluate("model.hear({fresh: true})")
    gallery.clock.run_for(60_000)
    assert gallery.evaluate("model.sent.length") == 3


SLOW = """() => {
    class Model { heard = []; _handle_comm_msg(message) { this.heard.push(message); } }
    class AnyModel extends Model { _handle_comm_msg() { throw new Error("Failed to initialize model."); } }
    window.whole = new AnyModel();
    whole.comm = { on_msg: (hear) => { window.say = hear; } };
    window.manager = { get_model: async (id) => ({ mine: whole })[id] };
}"""


def test_what_the_kernel_says_gets_past_a_loader_that_has_given_up(gallery: Page) -> None:
    gallery.evaluate(SLOW)
    traits = {"identity": "mine", "pool": gallery.evaluate("gallery.pool()"), "me": {}}
    gallery.evaluate(WIDGET, [browser_modules.bundle("notebook/pool_widget.js"), traits])
    gallery.wait_for_function("window.say !== undefined")
    gallery.evaluate("say('news')")
    assert gallery.evaluate("whole.heard") == ["news"]


def test_the_bundled_pool_works_as_a_notebook_widget(gallery: Page) -> None:
    traits = {"pool": gallery.evaluate("gallery.pool()"), "me": {"projects": [{"name": "nlp"}]}}
    gallery.evaluate(WIDGET, [browser_modules.bundle("notebook/pool_widget.js"), traits])
    cell = gallery.locator("#cell")
    expect(cell.get_by_test_id("pool-cell")).to_have_count(8)
    expect(cell.get_by_test_id("glance-nlp")).to_have_attribute("data-mine", "true")
    expect(cell).to_contain_text("7 of 8 train GPUs held, 1 idle")


def test_all_modules_fit_into_one_bundle(gallery: Page) -> None:
    source = browser_modules.bundle(
        *("views/job_card.js", "views/log_view.js", "views/pool_glance.js"),
        *("charts/pool_bar.js", "charts/project_bar.js", "charts/tide_chart.js"),
    )
    assert "import " not in re.sub(r"/\*.*?\*/|//.*", "", source, flags=re.DOTALL)
    names = gallery.evaluate(
        """async (source) => {
            const file = new Blob([source], { type: "text/javascript" });
            return Object.keys(await import(URL.createObjectURL(file)));
        }""",
        source,
    )
    assert {"renderJobCard", "renderPoolBar", "renderTideChart", "renderLog"} <= set(names)
    assert ".st-card" in browser_modules.stylesheet()


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (9, ["0 s", "5 s"]),
        (85, ["0 s", "30 s", "1 min"]),
        (300, ["0 s", "2 min", "4 min"]),
        (5400, ["0 s", "30 min", "1 h", "1 h 30 min"]),
        (400_000, ["0 s", "2 d", "4 d"]),
    ],
)
def test_the_marks_of_an_axis_of_time_are_whole_and_different(
    gallery: Page, seconds: float, labels: list[str]
) -> None:
    drawn = gallery.evaluate(
        """async (seconds) => {
            const { renderMetricChart } = await import("/visuals/charts/metric_chart.js");
            const place = document.createElement("div");
            const points = [0, seconds].map((at) => ({ at, attempt: 1, values: { loss: at } }));
            renderMetricChart(place, { points, name: "loss", across: "time", started: 0 });
            return [...place.querySelectorAll("text:not(.st-axis-name)")].map((text) => text.textContent);
        }""",
        seconds,
    )
    assert [label for label in drawn if label.split()[-1] in {"s", "min", "h", "d"}] == labels


NEWER = """async () => {
    const { renderLossCurve, upToDate } = await import("/visuals/charts/loss_curve.js");
    const { drawMetricNames } = await import("/visuals/charts/metric_names.js");
    const { patch } = await import("/visuals/base/dom.js");
    const [place, chips] = [1, 2].map(() => document.createElement("div"));
    const values = (step) => ({ loss: 10 * step, rate: 0.5 });
    const points = [1, 2].map((step) => ({ seq: step, at: step, step, attempt: 1, values: values(step) }));
    const last = (progress) => {
        renderLossCurve(place, { points, progress });
        const names = drawMetricNames(upToDate(points, progress), "loss", () => {});
        patch(chips, names);
        return [place.querySelector("strong"), place.querySelector("strong + span"), chips.querySelector("button")]
            .map((node) => node.textContent);
    };
    const loss = (at, value) => ({ at, values: { loss: value } });
    return [loss(3, 30), { at: 3, values: { level: 4 } }, loss(2, 7), {}].map(last);
}"""


def test_a_card_has_one_newest_value_in_curve_range_and_names_that_of_its_progress_if_it_is_newer(
    gallery: Page,
) -> None:
    points = ["20", "10 \u2013 20", "loss 20"]
    assert gallery.evaluate(NEWER) == [["30", "10 \u2013 30", "loss 30"], points, points, points]


LOGS = """async () => {
    const { LogKeeper } = await import("/visuals/live/log_keeper.js");
    const { attemptMark, checkpointWords } = await import("/visuals/base/job_words.js");
    const attempt = (number, more) => ({ number, started: 3600, gpus: [{ node: "node-1" }], ...more });
    const begins = (number) => attempt(number, { had_checkpoint: number > 1 });
    const job = { name: "train\\u001b[2J", attempts: [1, 2, 3].map(begins) };
    const pieces = [["one", 1, 0], ["two\\n", 2, 3], ["three\\n", 2, 7], ["", 3, 13], ["four\\n", 3, 13]];
    const call = async () => {
        const [text, number, offset] = pieces.shift();
        return { text, attempt: number, offset, next: offset + text.length, ended: false };
    };
    const keeper = new LogKeeper(call, "", () => {}, 0, (number) => attemptMark(job, number, 3600));
    for (let turn = 0; pieces.length && turn < 500; turn += 1) {
        keeper.read();
        await new Promise((done) => setTimeout(done, 10));
    }
    const checkpoint = { path: "last.ckpt\\u202e", by: "Lightning", size: 120e6, passed: false };
    const words = [checkpoint, { ...checkpoint, passed: true }, null];
    const again = { name: "a", attempts: [attempt(1, { saved: 1800 }), attempt(2, { gpus: [] })] };
    const anew = { name: "a", attempts: [attempt(2, { gpus: [], from_start: true })] };
    return {
        log: keeper.text.replaceAll(/[0-9]{2}:[0-9]{2}/g, "CLOCK"),
        words: words.map((each) => checkpointWords({ checkpoint: each, saved: 3480 }, 3600)),
        anew: attemptMark(anew, 2, 3600).replace(/..:../, "CLOCK"),
        again: [2, 7].map((number) => attemptMark(again, number, 3600).replace(/..:../, "CLOCK")),
    };
}"""


def test_a_log_marks_where_an_attempt_begins_and_a_card_names_the_newest_checkpoint(gallery: Page) -> None:
    drawn = gallery.evaluate(LOGS)
    assert drawn["log"] == (
        "one\n── attempt 2 of train, started again with a checkpoint CLOCK on node-1 ──\ntwo\nthree\n"
        "── attempt 3 of train, started again with a checkpoint CLOCK on node-1 ──\nfour\n"
    )
    assert drawn["words"] == [
        "Newest checkpoint: last.ckpt (Lightning, 114.4 MiB, saved 2 min ago).",
        "Resumes from last.ckpt (Lightning, 114.4 MiB, saved 2 min ago).",
        None,
    ]
    assert drawn["anew"] == "── attempt 2 of a, started again from the beginning CLOCK ──"
    assert drawn["again"] == ["── attempt 2 of a, started again CLOCK ──", "── attempt 7 of a ──"]


@pytest.mark.parametrize("image", [None, "lab/torch:2", "lab/base:1"])
def test_the_environment_of_a_job_reads_as_in_a_terminal(gallery: Page, image: str | None) -> None:
    environment = JobEnvironment(
        program="/home/jovyan/nlp/bin/torchrun",
        python="3.12.4",
        path="/home/jovyan/nlp/bin/python",
        name="nlp",
        image="lab/torch:2",
        packages={"torch": "2.8.0"},
        missing=["timm"],
        variables=["RATE"],
        in_place="/home/susan/study",
    )
    shown = gallery.evaluate(
        """async ([environment, image]) => {
            const [{ environmentFacts }, { patch }] = await Promise.all(
                ["environment", "dom"].map((name) => import(`/visuals/base/${name}.js`)),
            );
            const place = document.createElement("div");
            patch(place, [environmentFacts(environment, image)]);
            const facts = [...place.querySelectorAll("dl > div")];
            return facts.map((fact) => [...fact.children].map((each) => each.textContent));
        }""",
        [msgspec.to_builtins(environment), image],
    )
    assert list(map(tuple, shown)) == facts(environment, image)
