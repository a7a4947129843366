"""The page on which people choose their notifications, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browsers.shown_notices import KEEP_WHAT_IS_SHOWN, until_on_screen
from playwright.sync_api import Page, Response, Route, expect
from pools.pages_service import Service

Visit = Callable[..., Page]

MANY = 50
SECRET = "https://hooks.slack.com/services/T0/B0/very-secret"


def is_changed(answer: Response) -> bool:
    """Whether an answer says that a choice was taken."""
    return answer.request.method == "PATCH" and answer.ok


def test_what_is_chosen_is_kept_and_a_webhook_is_not_shown_again(visit: Visit) -> None:
    page = visit("joe", "notifications")
    expect(page.get_by_test_id("missing-email")).to_have_text(
        "The pool has no mail server. An administrator of the pool can set one up."
    )
    expect(page.get_by_test_id("email-failed")).to_be_disabled()
    expect(page.get_by_test_id("webhook-failed")).to_be_disabled()
    page.get_by_test_id("webhook-url").fill("https://evil.example/x")
    page.get_by_test_id("webhook-save").click()
    expect(page.get_by_test_id("message")).to_contain_text(
        "Webhooks to evil.example are not allowed here. Allowed are hooks.slack.com."
    )
    page.get_by_test_id("webhook-url").fill(SECRET)
    page.get_by_test_id("webhook-save").press("Enter")
    channel = page.get_by_test_id("channel-webhook")
    expect(channel).to_contain_text("To hooks.slack.com; the address itself is a secret")
    with page.expect_response(is_changed):
        page.get_by_test_id("webhook-failed").press("Space")
    page.reload()
    expect(page.get_by_test_id("webhook-failed")).to_be_checked()
    expect(page.get_by_test_id("webhook-ended")).not_to_be_checked()
    assert "very-secret" not in page.content()
    rows = page.get_by_test_id("notification-matrix").locator("tbody tr")
    on = [row.locator("input:checked").count() for row in rows.all()]
    told = "failures, ends, pauses, edits, budgets and requests are on in open pages before a choice"
    assert on == [3, 2, 0, 2, 1, 2, 0, 0, 0, 0, 2, 2], told
    page.get_by_test_id("webhook-remove").click()
    expect(page.get_by_test_id("webhook-failed")).to_be_disabled()


def test_the_browser_shows_what_happens_on_whatever_page_is_open(notified: Page, service: Service) -> None:
    page = notified
    page.goto(f"{service.url}notifications")
    expect(page.get_by_test_id("browser-ended")).to_be_checked()
    with page.expect_response(is_changed):
        page.get_by_test_id("browser-succeeded-soon").check()
    page.context.add_init_script(KEEP_WHAT_IS_SHOWN)
    page.goto(f"{service.url}pool")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    job = service.submit("susan", "true", name="digits")
    service.until(job.id, lambda found: found.state == "succeeded")
    expect(page.locator("told-text")).to_have_text([re.compile("^The job “digits” succeeded[.]")])


def test_jobs_that_fail_together_are_one_notification_with_their_number_over_all_open_pages(
    notified: Page, service: Service
) -> None:
    pages = [notified, notified.context.new_page()]
    notified.context.add_init_script(KEEP_WHAT_IS_SHOWN)
    for page in pages:
        page.goto(f"{service.url}pool")
        expect(page.get_by_test_id("connection")).to_have_text("Live")
    jobs = [service.submit("susan", "false", name=f"one of many {number}", gpus=0) for number in range(MANY)]
    for job in jobs:
        service.until(job.id, lambda found: found.state == "failed")
    shown = until_on_screen(pages, str(MANY))
    assert shown == [f"{MANY} events of your jobs: {MANY} failed. Click to see them."]


def test_a_burst_counts_the_single_notifications_before_it_and_ends_when_it_is_calm(gallery: Page) -> None:
    said = gallery.evaluate(
        """async () => {
            const { claimed } = await import("/visuals/base/bursts.js");
            let state = { claimed: [], singles: [], burst: null };
            const hear = (at, ...ids) => {
                const found = claimed(ids.map((id) => ({ id, event: "failed" })), at, state);
                state = found.state;
                const { notices, burst, replaced } = found.claim;
                return [notices.map(({ id }) => id), burst?.counts.failed ?? 0, replaced];
            };
            return [
                hear(0, "a", "b"), hear(100, "a"), hear(9_000, "c"), hear(9_500, "d"), hear(15_000, "e", "d"),
                hear(26_000, "f"),
            ];
        }"""
    )
    assert said == [
        [["a", "b"], 0, []],
        [[], 0, []],
        [["c"], 0, []],
        [[], 4, ["a", "b", "c"]],
        [[], 5, []],
        [["f"], 0, []],
    ]


@pytest.mark.parametrize("width", [360, 1300])
def test_a_choice_is_saved_at_once_and_the_page_says_so_on_screens_of_any_width(visit: Visit, width: int) -> None:
    page = visit("jemma", "notifications", viewport={"width": width, "height": 900})
    choice = page.get_by_label("A job was paused: In JupyterLab")
    expect(page.get_by_test_id("notifications-saved")).to_be_empty()
    choice.set_checked(not choice.is_checked())
    expect(page.get_by_test_id("notifications-saved")).to_have_text("Saved.")
    chosen = choice.is_checked()
    page.reload()
    expect(choice).to_be_checked(checked=chosen)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_choice_that_was_not_saved_is_drawn_as_it_was(visit: Visit) -> None:
    page = visit("jemma", "notifications")
    choice = page.get_by_test_id("jupyterlab-fault")
    expect(choice).not_to_be_checked()

    def refuse(route: Route) -> None:
        route.abort() if route.request.method == "PATCH" else route.fallback()

    page.route("**/api/v1/notifications", refuse)
    choice.click()
    expect(page.get_by_test_id("notifications-saved")).to_contain_text("Not saved")
    expect(choice).not_to_be_checked()


def test_a_browser_that_blocks_notifications_says_how_to_allow_them(visit: Visit) -> None:
    page = visit("jemma", "notifications", viewport={"width": 400, "height": 900})
    page.evaluate("() => { Object.defineProperty(Notification, 'permission', { get: () => 'denied' }); }")
    expect(page.get_by_test_id("missing-browser")).to_contain_text("blocks notifications of this page")
