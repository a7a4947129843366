"""Bookings on the page of the pool."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]
HOUR = 3600.0


def test_bookings_are_shown_to_everybody_and_cancelled_by_admins(visit: Visit, service: Service) -> None:
    page = visit("admin", "pool")
    expect(page.get_by_test_id("section-gpus")).to_be_visible()
    expect(page.get_by_test_id("section-bookings")).to_have_count(0)
    start = time.time() + 30 * HOUR
    nights = wire.Weekly(days="daily", opens="20:00", closes="08:00")
    requests = (
        wire.BookingRequest(nodes=("train",), start=start, end=start + 4 * HOUR, why="A fan is to be replaced."),
        wire.BookingRequest(nodes=("build",), every=nights),
    )
    for request in requests:
        service.run(service.engine.book(request, "admin"))
    rows = page.get_by_test_id("booking")
    expect(rows).to_have_count(2)
    planned = rows.filter(has_text="A fan is to be replaced.")
    expect(planned).to_contain_text("maintenance of train")
    expect(rows.filter(has_text="maintenance of build")).to_contain_text("daily from 20:00 to 08:00, UTC")
    expect(page.locator(".st-week-row")).to_have_count(2)
    other = visit("joe", "pool", color_scheme="dark", apart=True)
    expect(other.get_by_test_id("booking")).to_have_count(2)
    expect(other.get_by_test_id("section-bookings").get_by_role("button")).to_have_count(0)
    for left in (1, 0):
        rows.first.get_by_test_id("booking-cancel").click()
        rows.first.get_by_test_id("booking-yes").click()
        expect(rows).to_have_count(left)
    expect(page.get_by_test_id("section-bookings")).to_have_count(0)
