"""The axes of metrics and the zoom, in a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

SECTIONS: list[str] = []
PLACES = """async ([across, started, reports]) => {
    const { placeOf } = await import("/visuals/charts/run_clock.js");
    const points = reports.map(([at, attempt, step]) => ({ at, attempt, step }));
    return points.map(placeOf(across, points, started));
}"""
REPORTS = [[110, 1, 0], [120, 1, 1], [300, 2, 1], [310, 2, 2], [500, 4, 3]]
"""Time, attempt and step of each report."""


@pytest.mark.parametrize(
    ("across", "started", "places"),
    [
        ("step", 100, [0, 1, 1, 2, 3]),
        ("time", 100, [10, 20, 200, 210, 400]),
        ("running", 100, [10, 20, 20, 30, 30]),
        ("time", None, [0, 10, 190, 200, 390]),
        ("time", 115, [0, 10, 190, 200, 390]),
        ("running", 115, [0, 10, 10, 20, 20]),
    ],
)
def test_reports_are_placed_by_step_by_time_since_the_start_or_by_that_time_without_pauses(
    gallery: Page, across: str, started: float | None, places: list[float]
) -> None:
    assert gallery.evaluate(PLACES, [across, started, REPORTS]) == places


def spans(gallery: Page, function: str, *given: Any) -> Any:
    """Call a function of the spans of an axis from 0 to 100."""
    script = """async ([name, given]) => (await import("/visuals/charts/span.js"))[name](...given)"""
    whole = {"from": 0, "to": 100}
    first, second = given
    arguments = [first, second, whole] if function == "spanBetween" else [first, whole, second]
    return gallery.evaluate(script, [function, arguments])


ALL = {"from": None, "to": None}


def span(start: float, end: float) -> dict[str, float]:
    return {"from": start, "to": end}


@pytest.mark.parametrize(
    ("function", "given", "found"),
    [
        ("spanBetween", (20.0004, 60), span(20, 60)),
        ("spanBetween", (60, 20), span(20, 60)),
        ("spanBetween", (-5, 130), span(0, 100)),
        ("spanBetween", (30.12345, 30.14345), span(30.12345, 30.14345)),
        ("spanBetween", (30, 30.001), None),
        ("zoomed", (ALL, 0.5), span(25, 75)),
        ("zoomed", (span(25, 75), 0.5), span(37.5, 62.5)),
        ("zoomed", (span(25, 75), 2), ALL),
        ("zoomed", (span(0, 20), 2), span(0, 30)),
        ("zoomed", (span(50, 50.001), 0.5), span(50, 50.001)),
        ("zoomed", ({"from": 1000, "to": None}, 0.5), {"from": 1000, "to": None}),
        ("moved", (span(20, 60), 0.25), span(30, 70)),
        ("moved", (span(20, 60), -0.25), span(10, 50)),
        ("moved", (span(5, 45), -0.25), span(0, 40)),
        ("moved", (span(60, 100), 0.25), span(60, 100)),
        ("moved", ({"from": 60, "to": None}, -0.5), span(40, 80)),
        ("moved", (ALL, 0.25), ALL),
        ("moved", ({"from": 1000, "to": None}, 0.25), {"from": 1000, "to": None}),
    ],
)
def test_a_span_is_selected_zoomed_and_moved_within_the_axis(
    gallery: Page, function: str, given: tuple[Any, Any], found: Any
) -> None:
    assert spans(gallery, function, *given) == found


@pytest.mark.parametrize(
    ("places", "start", "end", "kept"),
    [
        ([0, 1, 2, 3, 4], None, None, [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], 1.5, 2.5, [1, 2, 3]),
        ([0, 10], 4, 5, [0, 10]),
        ([0, 1, 2], 5, None, []),
        ([0, 1, 2], None, -1, []),
        ([0, 5, 6, 1, 2], 2, 3, [0, 5, 6, 1, 2]),
    ],
)
def test_lines_reach_over_the_ends_of_the_shown_span(
    gallery: Page, places: list[float], start: float | None, end: float | None, kept: list[float]
) -> None:
    found = gallery.evaluate(
        """async ([places, from, to]) => {
            const { within } = await import("/visuals/charts/curve_shape.js");
            const points = places.map((along) => ({ along, stretch: 0 }));
            return within(points, from, to).map(({ along }) => along);
        }""",
        [places, start, end],
    )
    assert found == kept


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0.004, 30, ["0.01", "0.1", "1", "10"]),
        (9.5, 51, ["10", "20", "50"]),
        (0.9, 6, ["1", "2", "5"]),
        (3, 3.2, ["3", "3.05", "3.1", "3.15", "3.2"]),
        (1, 1.00002, ["1", "1.000005", "1.00001", "1.000015", "1.00002"]),
    ],
)
def test_a_logarithmic_axis_has_round_marks_that_differ(
    gallery: Page, low: float, high: float, marks: list[str]
) -> None:
    found = gallery.evaluate(
        """async ([low, high]) => {
            const { plotOf } = await import("/visuals/charts/metric_chart.js");
            const { PLAIN } = await import("/visuals/charts/curve_shape.js");
            const points = [low, high].map((value, along) => ({ along, values: { loss: Math.log10(value) } }));
            const shape = { ...PLAIN, log: true };
            const about = { name: "loss", across: "step", whole: { from: 0, to: 1 }, shape };
            const { ys, label } = plotOf(points, about);
            return ys.map(label);
        }""",
        [low, high],
    )
    assert found == marks


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([0, 1e-9], ["0", "2.5e-10", "5e-10", "7.5e-10", "1e-9"]),
        ([0, 1e9], ["0", "2.5e8", "5e8", "7.5e8", "1e9"]),
        ([-3, 0], ["-3", "-2", "-1", "0"]),
        ([-1e9, 1e9], ["-1e9", "-5e8", "0", "5e8", "1e9"]),
        ([0, 0.002], ["0", "0.0005", "0.001", "0.0015", "0.002"]),
        ([0, 400_000], ["0", "100,000", "200,000", "300,000", "400,000"]),
        ([1e9, 1e9 + 4], ["1e9", "1.000000001e9", "1.000000002e9", "1.000000003e9", "1.000000004e9"]),
    ],
)
@pytest.mark.parametrize("width", [300, 1200])
def test_the_marks_of_axes_are_brief_alike_and_whole(
    gallery: Page, values: list[float], marks: list[str], width: int
) -> None:
    drawn = gallery.evaluate(
        """async ([values, width]) => {
            const { renderMetricChart } = await import("/visuals/charts/metric_chart.js");
            const place = document.createElement("div");
            place.style.width = `${width}px`;
            document.body.append(place);
            const pointOf = (loss, seq) => ({ seq, step: 4e6 * seq, at: seq, attempt: 1, values: { loss } });
            renderMetricChart(place, { points: values.map(pointOf), name: "loss", across: "step", started: 0 });
            const plot = place.querySelector("svg").getBoundingClientRect();
            const texts = [...place.querySelectorAll("text:not(.st-axis-name)")];
            return {
                words: texts.map((text) => text.textContent),
                cut: texts
                    .filter((text) => {
                        const { left, right, top, bottom } = text.getBoundingClientRect();
                        return left < plot.left || right > plot.right || top < plot.top || bottom > plot.bottom;
                    })
                    .map((text) => text.textContent),
            };
        }""",
        [values, width],
    )
    assert drawn == {"words": [*marks, "0", "1e6", "2e6", "3e6", "4e6"], "cut": []}


@pytest.mark.parametrize(
    ("number", "shown"),
    [(-0.0, "0"), (-0.00039, "-3.9e-4"), (1e-9, "1e-9"), (1234567.8, "1.23e6"), (1200, "1,200")],
)
def test_numbers_are_written_without_needless_digits_and_signs(gallery: Page, number: float, shown: str) -> None:
    assert gallery.evaluate("(text) => gallery.words.amount(Number(text))", str(number)) == shown


def test_metrics_are_sorted_by_the_numbers_in_their_names_the_loss_first(gallery: Page) -> None:
    names = ["layer10", "layer2", "layer1", "val_loss", "loss"]
    found = gallery.evaluate(
        """async (names) => (await import("/visuals/charts/loss_curve.js")).curveNames(
            [{ values: Object.fromEntries(names.map((name) => [name, 1])) }])""",
        names,
    )
    assert found == ["loss", "val_loss", "layer1", "layer2", "layer10"]


DRAW = """async (steps) => {
    const { renderMetricChart } = await import("/visuals/charts/metric_chart.js");
    const { renderOverlayChart } = await import("/visuals/charts/overlay_chart.js");
    const { PLAIN } = await import("/visuals/charts/curve_shape.js");
    window.shape ??= PLAIN;
    const points = Array.from({ length: steps + 1 }, (_, step) => (
        { seq: step, step, at: 100 + step, attempt: 1, values: { loss: 200 - step } }
    ));
    const draw = () => {
        const zoom = (span) => {
            window.shape = { ...window.shape, ...span };
            draw();
        };
        for (const [id, render, data] of [
            ["one", renderMetricChart, { points }],
            ["several", renderOverlayChart, { runs: [{ place: 0, name: "first", points, started: 100 }] }],
        ]) {
            let place = document.getElementById(id);
            if (!place) {
                place = Object.assign(document.createElement("div"), { id });
                place.style.width = "600px";
                document.querySelector("main").append(place);
            }
            render(place, { ...data, name: "loss", across: "step", shape: window.shape, zoom });
        }
    };
    draw();
}"""
SHAPE = "[shape.from, shape.to]"
LEFT, RIGHT = 64 / 600, 588 / 600
"""The ends of the plot in fractions of the drawing's width."""


@pytest.fixture(params=["one", "several"])
def plot(gallery: Page, request: pytest.FixtureRequest) -> Locator:
    """A plot of 101 steps."""
    gallery.evaluate("delete window.shape")
    gallery.evaluate(DRAW, 100)
    return gallery.locator(f"#{request.param} figure > svg")


def go(plot: Locator, share: float) -> None:
    """Move the mouse to a part of the plot's axis."""
    box = plot.bounding_box()
    assert box
    plot.page.mouse.move(box["x"] + box["width"] * (LEFT + (RIGHT - LEFT) * share), box["y"] + box["height"] / 2)


def marks(plot: Locator) -> list[str]:
    return plot.locator("text[text-anchor=middle]").all_text_contents()


def drag(plot: Locator, start: float, end: float) -> None:
    go(plot, start)
    plot.page.mouse.down()
    go(plot, (start + end) / 2)
    go(plot, end)
    plot.page.mouse.up()


def test_a_drag_over_a_plot_zooms_and_a_double_click_shows_all(gallery: Page, plot: Locator) -> None:
    whole = plot.locator("path.st-line").first.get_attribute("d")
    drag(plot, 0.7, 0.2)
    start, end = gallery.evaluate(SHAPE)
    assert start == pytest.approx(20, abs=0.5)
    assert end == pytest.approx(70, abs=0.5)
    assert {"40", "60"} <= set(marks(plot))
    assert not {"0", "80", "100"} & set(marks(plot))
    expect(plot.locator(".st-selected-span")).to_have_count(0)
    plot.dblclick()
    assert gallery.evaluate(SHAPE) == [None, None]
    expect(plot.locator("path.st-line").first).to_have_attribute("d", whole or "")


def test_a_click_on_a_plot_selects_nothing(gallery: Page, plot: Locator) -> None:
    plot.click()
    drag(plot, 0.5, 0.501)
    assert gallery.evaluate(SHAPE) == [None, None]


def test_a_selection_and_a_zoom_survive_new_reports(gallery: Page, plot: Locator) -> None:
    go(plot, 0.25)
    gallery.mouse.down()
    go(plot, 0.5)
    expect(plot.locator(".st-selected-span")).to_have_count(1)
    gallery.evaluate(DRAW, 200)  # the axis is twice as long now
    expect(plot.locator(".st-selected-span")).to_have_count(1)
    go(plot, 0.5)
    gallery.mouse.up()
    start, end = gallery.evaluate(SHAPE)
    assert start == pytest.approx(25, abs=0.5)
    assert end == pytest.approx(100, abs=1)
    shown = marks(plot)
    gallery.evaluate(DRAW, 400)
    assert gallery.evaluate(SHAPE) == [start, end]
    assert marks(plot) == shown


def test_a_plot_zooms_and_moves_by_keys_and_escape_drops_a_selection(gallery: Page, plot: Locator) -> None:
    plot.focus()
    for key, found in [
        ("+", [25, 75]),
        ("ArrowRight", [37.5, 87.5]),
        ("ArrowLeft", [25, 75]),
        ("=", [37.5, 62.5]),
        ("-", [25, 75]),
        ("Escape", [None, None]),
    ]:
        gallery.keyboard.press(key)
        assert gallery.evaluate(SHAPE) == found
    expect(plot).to_be_focused()
    go(plot, 0.25)
    gallery.mouse.down()
    go(plot, 0.5)
    gallery.keyboard.press("Escape")
    gallery.mouse.up()
    assert gallery.evaluate(SHAPE) == [None, None]
    expect(plot).to_have_attribute("aria-keyshortcuts", re.compile("Escape"))


def test_a_plot_that_no_page_zooms_is_a_picture(gallery: Page) -> None:
    focusable = gallery.evaluate(
        """async () => {
            const { renderMetricChart } = await import("/visuals/charts/metric_chart.js");
            const place = document.createElement("div");
            const points = [0, 1].map((step) => ({ at: step, attempt: 1, values: { loss: step } }));
            renderMetricChart(place, { points, name: "loss", across: "time" });
            return place.querySelectorAll("[tabindex]").length;
        }"""
    )
    assert focusable == 0
