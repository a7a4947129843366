"""Notifications of a browser all of whose pages of the pool are out of sight."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest
from browsers.shown_notices import KEEP_WHAT_IS_SHOWN, MORE_THAN_HIDDEN_MS, on_screen, set_hidden, until_on_screen
from patience import PATIENCE_S
from playwright.sync_api import Page, Request, expect
from pools.pages_service import PREFIX, WITHOUT_SHARED_WORKERS, Service

Open = Callable[..., list[Page]]

HOLD_TURN = """async (name) => {
    const held = new Promise((hold) => {
        navigator.locks.request(name, () => (hold(), new Promise(() => {})));
    });
    await held;
}"""
"""Keeps the turn to show notices, as a page that stands still in it."""


@pytest.fixture
def opened(notified: Page, service: Service) -> Open:
    """Opens pages as tabs of one browser, which may show notifications and whose clock tests set."""

    def opened(*paths: str, script: str = "") -> list[Page]:
        context = notified.context
        context.add_init_script(KEEP_WHAT_IS_SHOWN)
        if script:
            context.add_init_script(script)
        context.clock.install()
        pages = [notified, *(context.new_page() for _ in paths[1:])]
        for page, path in zip(pages, paths, strict=True):
            page.goto(service.url + path)
            expect(page.get_by_test_id("connection")).to_contain_text("Live")
            expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        return pages

    return opened


def hide(pages: Sequence[Page]) -> None:
    """Put all pages out of sight for longer than they follow all events."""
    for page in pages:
        set_hidden(page, hidden=True)
    pages[0].context.clock.fast_forward(MORE_THAN_HIDDEN_MS)


def until_streams(service: Service, number: int) -> None:
    """Wait until that many streams are open and stay so, as pages change over from one to the next."""
    deadline = time.monotonic() + PATIENCE_S
    steady = 0
    while steady < 20:
        streams = service.engine.events.stats.subscribers
        steady = steady + 1 if streams == number else 0
        assert time.monotonic() < deadline, f"{streams} streams are open"
        time.sleep(0.05)


def fail(service: Service, name: str) -> None:
    job = service.submit("susan", "false", name=name, gpus=0)
    service.until(job.id, lambda found: found.state == "failed")


def tell(page: Page, event: str) -> None:
    """Send a page an event of its life cycle."""
    page.evaluate("(event) => document.dispatchEvent(new Event(event))", event)


def begins_stream(page: Page) -> AbstractContextManager[object]:
    """Wait at the end until a stream of the page has begun meanwhile."""
    return page.expect_response(lambda answer: "/events" in answer.url, timeout=PATIENCE_S * 1000)


def asked_by(page: Page) -> list[str]:
    """Return the list of requests of a page, which grows from now on."""
    asked: list[str] = []

    def hear(request: Request) -> None:
        asked.append(request.url)

    page.on("request", hear)
    return asked


def test_a_failure_is_one_notification_although_all_tabs_are_hidden_and_none_reads_or_draws(
    opened: Open, service: Service
) -> None:
    pages = opened("pool", "jobs/?show=all", "notifications")
    hide(pages)
    until_streams(service, 1)
    asked = [asked_by(page) for page in pages]
    fail(service, "unseen")
    assert len(until_on_screen(pages, "The job “unseen” failed")) == 1
    expect(pages[1].locator("#page")).not_to_contain_text("unseen")
    assert asked == [[], [], []]
    for page in pages:
        set_hidden(page, hidden=False)
    expect(pages[1].locator("#page")).to_contain_text("unseen")
    assert len(on_screen(pages)) == 1
    until_streams(service, 1)


def test_a_hidden_tab_notifies_when_the_one_in_front_is_closed_and_the_stream_ends_with_the_last(
    opened: Open, service: Service
) -> None:
    hidden, front = opened("pool", "jobs/?show=all")
    hide([hidden])
    until_streams(service, 1)
    front.close()
    fail(service, "later")
    until_on_screen([hidden], "The job “later” failed")
    hidden.close()
    until_streams(service, 0)


@contextmanager
def saved(choices: Page) -> Iterator[None]:
    """Wait at the end until what was chosen meanwhile is saved: the page may still say so of an earlier choice."""
    with choices.expect_response(lambda answer: answer.request.method == "PATCH") as answer:
        yield
    assert answer.value.ok


def test_hidden_tabs_of_a_person_who_chose_no_events_for_the_browser_have_no_stream(
    opened: Open, service: Service
) -> None:
    page, choices = opened("pool", "notifications")
    boxes = choices.locator("input[data-testid^='browser-']:checked")
    while boxes.count():
        last = boxes.last.get_attribute("data-testid")
        assert last is not None
        with saved(choices):
            choices.get_by_test_id(last).uncheck()
    hide([page, choices])
    until_streams(service, 0)
    set_hidden(choices, hidden=False)
    with saved(choices):
        choices.get_by_test_id("browser-failed").check()
    choices.close()
    until_streams(service, 1)
    fail(service, "chosen again")
    until_on_screen([page], "The job “chosen again” failed")


def test_without_shared_workers_one_hidden_tab_after_the_other_has_a_stream_for_notifications(
    opened: Open, service: Service
) -> None:
    pages = opened("pool", "jobs/?show=all", script=WITHOUT_SHARED_WORKERS)
    until_streams(service, 2)
    hide(pages)
    until_streams(service, 1)
    fail(service, "alone")
    assert len(until_on_screen(pages, "The job “alone” failed")) == 1
    set_hidden(pages[0], hidden=False)
    until_streams(service, 2)
    pages[0].close()
    until_streams(service, 1)
    fail(service, "the other")
    until_on_screen(pages[1:], "The job “the other” failed")
    set_hidden(pages[1], hidden=False)
    expect(pages[1].locator("#page")).to_contain_text("alone")


def test_a_tab_that_the_browser_freezes_leaves_its_turn_to_another_and_takes_part_again_when_it_goes_on(
    opened: Open, service: Service
) -> None:
    """Chromium freezes no page that Playwright drives, so the test sends the events of freezing."""
    pages = opened("pool", "jobs/?show=all", script=WITHOUT_SHARED_WORKERS)
    hide(pages[:1])
    until_streams(service, 2)
    hide(pages[1:])
    until_streams(service, 1)
    with begins_stream(pages[1]):
        tell(pages[0], "freeze")
    until_streams(service, 1)
    fail(service, "cold")
    until_on_screen(pages[1:], "The job “cold” failed")
    with begins_stream(pages[0]):
        tell(pages[0], "resume")
        tell(pages[1], "freeze")
    until_streams(service, 1)
    fail(service, "thawed")
    until_on_screen(pages[:1], "The job “thawed” failed")
    tell(pages[0], "freeze")
    until_streams(service, 0)


def test_a_frozen_tab_that_has_the_turn_to_show_notices_does_not_keep_them_from_others(
    opened: Open, service: Service
) -> None:
    (page,) = opened("pool")
    frozen = page.context.new_page()
    frozen.goto(f"{service.url}api/v1/pool")
    frozen.evaluate(HOLD_TURN, f"springtide-notices {PREFIX}")
    fail(service, "held up")
    until_on_screen([page], "The job “held up” failed")
    assert page.evaluate("async () => (await navigator.locks.query()).held.length") == 1
