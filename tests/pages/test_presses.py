"""No click is lost to a redraw between the press and the release of the pointer."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

LIST = """async () => {
    const { h, patch } = await import("/visuals/base/dom.js");
    document.body.replaceChildren(document.createElement("section"), document.createElement("div"));
    const [notice, list] = document.body.children;
    window.clicks = [];
    const draw = ([name, tag, more]) =>
        h("p", { key: name }, h(tag, { ...more, on: { click: () => { clicks.push(name); after(); } } }, name));
    window.after = () => {};
    window.show = (names, tag = "button", more = {}) => patch(list, names.map((name) => draw([name, tag, more])));
    window.note = (...words) => patch(notice, words.map((text) => h("p", { key: text }, text)));
    show(["first", "second", "third"]);
}"""
"""Controls by their names below notices, and the names of the `clicks`; `after` is called for each click."""


@pytest.fixture
def rows(gallery: Page) -> Page:
    gallery.evaluate(LIST)
    return gallery


def press(control: Locator) -> None:
    """Press the pointer on the middle of a control."""
    box = control.bounding_box()
    assert box is not None
    control.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    control.page.mouse.down()


@pytest.mark.parametrize("control", ["button", "span"])
@pytest.mark.parametrize(
    "change",
    [
        "show(['third', 'second', 'first'], '{}')",
        "show(['new', 'newer', 'first', 'second', 'third'], '{}')",
        "show(['second', 'third'], '{}')",
        "show(['first', 'second', 'third'], '{}', {{ disabled: true }})",
        "note('one', 'two', 'three')",
    ],
    ids=["sorted", "longer", "gone", "disabled", "moved by another view"],
)
def test_a_redraw_waits_until_the_pressed_control_is_released(rows: Page, change: str, control: str) -> None:
    rows.evaluate(f"show(['first', 'second', 'third'], '{control}')")
    before = rows.evaluate("document.body.innerHTML")
    press(rows.get_by_text("first"))
    rows.evaluate(change.format(control))
    assert rows.evaluate("document.body.innerHTML") == before
    rows.mouse.up()
    rows.wait_for_function("clicks.length")
    assert rows.evaluate("clicks") == ["first"]
    rows.evaluate("new Promise((done) => setTimeout(done))")
    shown = rows.evaluate("[document.body.innerHTML, document.querySelector('button')?.disabled]")
    rows.evaluate(change.format(control))
    assert shown == rows.evaluate("[document.body.innerHTML, document.querySelector('button')?.disabled]")
    assert shown != [before, False]


def test_of_several_redraws_only_the_last_is_done_and_none_over_a_later_one(rows: Page) -> None:
    press(rows.get_by_text("first"))
    rows.evaluate("show(['first']); show(['second']); note('held')")
    rows.evaluate("void (after = () => note('by the click'))")
    rows.mouse.up()
    expect(rows.locator("div > p")).to_have_text(["second"])
    expect(rows.locator("section > p")).to_have_text(["by the click"])


def test_what_hears_the_click_draws_at_once(rows: Page) -> None:
    rows.evaluate("void (after = () => { show(['opened']); document.querySelector('button').focus(); })")
    press(rows.get_by_text("first"))
    rows.evaluate("show(['third', 'second', 'first'])")
    rows.mouse.up()
    expect(rows.get_by_text("opened")).to_be_focused()


def test_a_redraw_waits_for_no_click_where_a_press_makes_none(rows: Page) -> None:
    rows.evaluate("note('words')")
    press(rows.get_by_text("words"))
    rows.evaluate("show(['on words'])")
    expect(rows.get_by_text("on words")).to_be_visible()
    rows.mouse.up()

    press(rows.get_by_text("on words"))
    rows.evaluate("show(['released elsewhere'])")
    rows.mouse.move(600, 600)
    rows.mouse.up()
    expect(rows.get_by_text("released elsewhere")).to_be_visible()
    assert rows.evaluate("clicks") == []

    press(rows.get_by_text("released elsewhere"))
    rows.evaluate("show(['another window'])")
    rows.evaluate("window.dispatchEvent(new Event('blur'))")
    expect(rows.get_by_text("another window")).to_be_visible()
    rows.mouse.up()


def test_a_key_that_is_held_presses_once(rows: Page) -> None:
    rows.get_by_text("first").focus()
    for _ in range(3):
        rows.keyboard.down("Enter")
    rows.keyboard.up("Enter")
    assert rows.evaluate("clicks") == ["first"]
    rows.keyboard.press("Enter")
    assert rows.evaluate("clicks") == ["first", "first"]


def test_a_held_key_repeats_in_what_is_not_ours(rows: Page) -> None:
    rows.evaluate("""() => {
        const button = document.body.appendChild(document.createElement("button"));
        button.onclick = () => clicks.push("theirs");
        button.focus();
    }""")
    for _ in range(3):
        rows.keyboard.down("Enter")
    rows.keyboard.up("Enter")
    assert rows.evaluate("clicks") == ["theirs"] * 3


ASKING = """async () => {
    const { h, patch } = await import("/visuals/base/dom.js");
    window.requests = [];
    const ask = (event) => {
        event.preventDefault();
        const request = Promise.withResolvers();
        requests.push({ answer: request.resolve, refuse: () => request.reject(new Error("refused")) });
        return request.promise;
    };
    const fields = [h("input", { name: "why" }), h("button", {}, "Send")];
    const form = h("form", { key: "form", on: { submit: ask } }, fields);
    const button = h("button", { key: "button", type: "button", on: { click: ask } }, "Undrain");
    document.body.replaceChildren(document.createElement("div"));
    patch(document.body.firstChild, button, form);
}"""


@pytest.mark.parametrize("control", ["button >> nth=0", "input"], ids=["button", "form"])
@pytest.mark.parametrize("answer", ["answer", "refuse"])
def test_a_second_press_while_the_first_one_is_answered_asks_nothing(
    gallery: Page, control: str, answer: str
) -> None:
    gallery.evaluate(ASKING)
    gallery.evaluate("addEventListener('unhandledrejection', (event) => event.preventDefault())")
    gallery.locator(control).focus()
    gallery.keyboard.press("Enter")
    gallery.keyboard.press("Enter")
    assert gallery.evaluate("requests.length") == 1
    gallery.evaluate(f"requests[0].{answer}()")
    gallery.keyboard.press("Enter")
    assert gallery.evaluate("requests.length") == 2


DRAINING = """async () => {
    const { h, patch } = await import("/visuals/base/dom.js");
    const { focusOnce } = await import("/visuals/base/focus.js");
    document.body.replaceChildren(document.createElement("div"));
    window.presses = [];
    window.node = { isDrained: false, isAsking: false };
    const ask = () => draw({ isAsking: true });
    window.draw = (more) => {
        Object.assign(node, more);
        const { isDrained, isAsking } = node;
        const submit = (event) => event.preventDefault();
        patch(
            document.body.firstChild,
            isDrained
                ? h("button", { key: "undrain", on: { click: () => presses.push("undrain") } }, "Undrain")
                : h("button", { key: "drain", "aria-expanded": String(isAsking), on: { click: ask } }, "Drain…"),
            !isDrained && isAsking && h("form", { key: "form", on: { submit } }, h("input", { hook: focusOnce })),
        );
    };
    draw();
}"""


@pytest.mark.parametrize(
    "answers",
    [
        "draw({ isAsking: false }); draw({ isDrained: true })",
        "draw({ isDrained: true }); draw({ isAsking: false })",
    ],
    ids=["answer first", "event first"],
)
def test_a_second_press_of_the_key_that_carried_something_out_does_not_take_it_back(
    gallery: Page, answers: str
) -> None:
    gallery.evaluate(DRAINING)
    gallery.get_by_text("Drain…").focus()
    gallery.keyboard.press("Enter")
    expect(gallery.locator("input")).to_be_focused()
    gallery.keyboard.press("Enter")
    gallery.evaluate(answers)
    expect(gallery.get_by_text("Undrain")).to_be_visible()
    gallery.keyboard.press("Enter")
    assert gallery.evaluate("presses") == []
    gallery.keyboard.press("Tab")
    gallery.keyboard.press("Enter")
    assert gallery.evaluate("presses") == ["undrain"]
