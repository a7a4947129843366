"""Bookings on the page of the pool: made, changed, cancelled and taken back in a dialog and a list."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from browsers.axe import violations_in_all_states
from playwright.sync_api import Locator, Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire
from springtide.scheduler.wording import dated, exact

Visit = Callable[..., Page]
HOUR = 3600.0
DAY = 24 * HOUR


@pytest.fixture(autouse=True)
def free(service: Service) -> Iterator[None]:
    yield
    for booking in service.engine.bookings().items:
        service.run(service.engine.cancel_booking(booking.number, "clean-up"))


def field(at: float) -> str:
    """Return a time as a field for times takes it."""
    return dated(at).replace(" ", "T")


def dialog_of(page: Page) -> Locator:
    page.get_by_test_id("booking-make").click()
    dialog = page.get_by_role("dialog", name="Book")
    expect(dialog).to_be_visible()
    return dialog


def ask(dialog: Locator, project: str, gpus: int, start: float, end: float) -> None:
    dialog.get_by_label("Project", exact=True).select_option(project)
    dialog.get_by_label("GPUs", exact=True).fill(str(gpus))
    dialog.get_by_label("From").fill(field(start))
    dialog.get_by_label("Until").fill(field(end))


def test_a_booking_of_seconds_shows_them_and_one_gpu_is_one(visit: Visit, service: Service) -> None:
    start = float(int(time.time() + 2 * DAY))
    request = wire.BookingRequest(project="vision", gpus=1, start=start, end=start + 20)
    made = service.run(service.engine.book(request, "admin"))
    page = visit("admin", "pool")
    row = page.get_by_test_id("booking")
    expect(row).to_contain_text("booking of 1 simulated GPU for vision")
    for at in (start, start + 20):
        expect(row).to_contain_text(exact(at))
    service.run(service.engine.cancel_booking(made.booking.number, "admin"))
    trail = visit("admin", "admin").get_by_test_id("audit-row").first
    for at in (start, start + 20):
        expect(trail).to_contain_text(exact(at))


def test_bookings_are_shown_to_everybody_and_cancelled_by_admins(visit: Visit, service: Service) -> None:
    page = visit("admin", "pool")
    other = visit("joe", "pool", color_scheme="dark", apart=True)
    expect(page.get_by_test_id("section-bookings")).to_contain_text("No bookings.")
    expect(other.get_by_test_id("section-gpus")).to_be_visible()
    expect(other.get_by_test_id("section-bookings")).to_have_count(0)
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
    assert page.locator(".st-week-name").all_inner_texts() == ["build", "train"]
    assert all(box["width"] >= 8 for bar in page.locator(".st-week-bar").all() if (box := bar.bounding_box()))
    expect(other.get_by_test_id("booking")).to_have_count(2)
    expect(other.get_by_test_id("section-bookings").get_by_role("button")).to_have_count(0)
    for left in (1, 0):
        rows.first.get_by_test_id("booking-cancel").click()
        rows.first.get_by_test_id("booking-yes").click()
        expect(rows).to_have_count(left)
    expect(page.get_by_test_id("booking-done")).to_contain_text("Cancelled: maintenance of train.")
    page.get_by_test_id("booking-undo").click()
    expect(rows).to_have_count(1)
    expect(page.get_by_test_id("booking-done")).to_contain_text(
        "Undone. There is again: maintenance of train, from "
    )
    expect(page.get_by_test_id("booking-undo")).to_have_count(0)


def test_times_are_whole_in_a_small_window_and_fields_of_a_row_are_at_one_height(
    visit: Visit, service: Service
) -> None:
    start = time.time() + 30 * HOUR
    weekdays = wire.Weekly(days="mon-fri", opens="20:00", closes="08:00")
    for request in (
        wire.BookingRequest(nodes=("train",), start=start, end=start + 4 * HOUR, why="A fan is to be replaced."),
        wire.BookingRequest(nodes=("build",), every=weekdays, why="The pipeline of the night"),
    ):
        service.run(service.engine.book(request, "admin"))
    page = visit("admin", "pool")
    page.set_viewport_size({"width": 1000, "height": 900})
    times = page.get_by_test_id("booking").locator("time")
    expect(times).to_have_count(4)
    height = "(one) => one.getBoundingClientRect().height"
    assert all(one.evaluate(height) < 30 for one in times.all())
    again = page.get_by_test_id("booking").locator("[data-label=again]")
    assert all(one.evaluate(height) < 130 for one in again.all())
    dialog = dialog_of(page)
    dialog.get_by_test_id("booking-comes-weekly").check()
    fields = ("every.opens", "every.closes", "every.zone")
    tops = {dialog.get_by_test_id(f"booking-{name}").evaluate("(one) => one.offsetTop") for name in fields}
    assert len(tops) == 1


def test_gpus_are_booked_with_what_that_does_to_others_and_taken_back(visit: Visit, service: Service) -> None:
    borrows = service.submit("joe", gpus=8, name="borrows")
    service.until(borrows.id, lambda job: job.state == "running")
    page, now = visit("admin", "pool"), time.time()
    dialog = dialog_of(page)
    expect(dialog.get_by_label("Project", exact=True)).to_be_focused()
    effects = dialog.get_by_test_id("booking-effects")
    expect(effects).to_contain_text("Say what and until when")
    ask(dialog, "vision", 2, now + DAY, now + 3 * DAY)
    dialog.get_by_label("Reason").fill("The deadline.")
    expect(effects).to_contain_text("Meanwhile the quota of “vision” is 4 instead of 2.")
    expect(effects).to_contain_text("0 GPUs are beyond all quotas then, instead of 2")
    expect(effects).to_contain_text("“borrows” of joe in nlp (8 GPUs) would be paused until other GPUs are free.")
    assert service.engine.bookings().items == ()
    assert not violations_in_all_states(page)
    dialog.get_by_role("button", name="Book").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_test_id("booking-make")).to_be_focused()
    made = service.engine.bookings().items[0]
    assert (made.project, made.gpus, made.why, made.by) == ("vision", {"simulated": 2}, "The deadline.", "admin")
    assert made.end - made.start == 2 * DAY
    done = page.get_by_test_id("booking-done")
    expect(done).to_contain_text("Made: booking of 2 simulated GPUs for vision, from ")
    expect(page.get_by_test_id("booking")).to_contain_text("The deadline.")
    page.get_by_test_id("booking-undo").click()
    expect(page.get_by_test_id("booking")).to_have_count(0)
    expect(done).to_contain_text("Undone. Cancelled: booking of 2 simulated GPUs for vision, from ")
    assert service.engine.bookings().items == ()


def test_what_does_not_fit_says_so_beside_its_field_and_offers_the_nearest_time(
    visit: Visit, service: Service
) -> None:
    start = time.time() // 60 * 60 + DAY
    first = wire.BookingRequest(project="nlp", gpus=2, start=start, end=start + DAY)
    service.run(service.engine.book(first, "admin"))
    page = visit("admin", "pool")
    dialog = dialog_of(page)
    ask(dialog, "vision", 2, start + 18 * HOUR, start + 30 * HOUR)
    wrong = dialog.get_by_test_id("booking-gpus-wrong")
    expect(wrong).to_contain_text("would add up to 10 GPUs; the pool has 8 train GPUs.")
    expect(dialog.get_by_label("GPUs", exact=True)).to_have_attribute("aria-invalid", "true")
    dialog.get_by_role("button", name="Book").click()
    expect(dialog.get_by_label("GPUs", exact=True)).to_be_focused()
    dialog.get_by_test_id("booking-fits").click()
    expect(wrong).to_have_count(0)
    expect(dialog.get_by_label("From")).to_have_value(field(start + DAY))
    expect(dialog.get_by_label("Until")).to_have_value(field(start + 36 * HOUR))
    expect(dialog.get_by_test_id("booking-effects")).to_contain_text("no job would be paused for it.")
    dialog.get_by_role("button", name="Book").click()
    expect(page.get_by_test_id("booking")).to_have_count(2)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"project": "vision", "gpus": "1"}, "end", "A booking has an end"),
        ({"project": "vision", "gpus": "1", "end": "2020-01-01T00:00"}, "end", "The end has passed already."),
        ({"project": "vision", "end": "2030-01-01T00:00"}, "gpus", "at least one GPU"),
        ({"gpus": "1", "end": "2030-01-01T00:00"}, "project", "A booking names nodes or a project."),
    ],
)
def test_a_mistake_is_beside_its_field(
    visit: Visit, service: Service, fields: dict[str, str], field: str, words: str
) -> None:
    page = visit("admin", "pool")
    dialog = dialog_of(page)
    for name, value in fields.items():
        control = dialog.get_by_test_id(f"booking-{name}")
        control.select_option(value) if name == "project" else control.fill(value)
    dialog.get_by_role("button", name="Book").click()
    expect(dialog.get_by_test_id(f"booking-{field}-wrong")).to_contain_text(words)
    expect(dialog.get_by_test_id(f"booking-{field}")).to_be_focused()
    assert service.engine.bookings().items == ()


def test_a_maintenance_is_made_and_changed_by_keyboard(visit: Visit, service: Service) -> None:
    page = visit("admin", "pool")
    page.get_by_test_id("booking-make").press("Enter")
    expect(page.get_by_role("dialog", name="Book").locator(":focus")).to_have_count(1)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("booking-kind-nodes")).to_be_focused()
    page.keyboard.press("Tab")
    node = page.locator(":focus")
    expect(node).to_have_attribute("data-testid", "booking-node-build")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    start = time.time() // 60 * 60 + DAY
    page.get_by_test_id("booking-start").fill(field(start))
    page.get_by_test_id("booking-end").fill(field(start + HOUR))
    expect(page.get_by_test_id("booking-effects")).to_contain_text("train closes: 8 simulated GPUs.")
    page.keyboard.press("Enter")
    rows = page.get_by_test_id("booking")
    expect(rows).to_contain_text("maintenance of train")
    rows.get_by_test_id("booking-change").press("Enter")
    dialog = page.get_by_role("dialog", name="Change the booking")
    expect(dialog.get_by_test_id("booking-node-train")).to_be_checked()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(rows.get_by_test_id("booking-change")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_label("Until").fill(field(start + 2 * HOUR))
    dialog.get_by_label("Reason").fill("A new fan.")
    page.keyboard.press("Enter")
    expect(rows).to_contain_text("A new fan.")
    changed = service.engine.bookings().items[0]
    assert (changed.nodes, changed.start, changed.end) == (("train",), start, start + 2 * HOUR)
    page.get_by_test_id("booking-undo").click()
    expect(rows).not_to_contain_text("A new fan.")
    expect(page.get_by_test_id("booking-done")).to_contain_text("Undone. It is again: maintenance of train, from ")
    assert service.engine.bookings().items[0].end == start + HOUR


def test_a_booking_that_holds_or_comes_again_is_changed_as_it_is(visit: Visit, service: Service) -> None:
    weekends = wire.Weekly(days="sat,sun", opens="8:00", closes="20:00", zone="Europe/Berlin")
    book = service.engine.book
    service.run(book(wire.BookingRequest(project="nlp", gpus=1, lends={"vision": 1}, every=weekends), "admin"))
    held = service.run(book(wire.BookingRequest(nodes=("train",), end=time.time() + DAY), "admin")).booking
    page = visit("admin", "pool")
    rows = page.get_by_test_id("booking")
    rows.filter(has_text="maintenance of train").get_by_test_id("booking-change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It holds since ")
    dialog.get_by_label("Reason").fill("Longer.")
    dialog.get_by_role("button", name="Save").click()
    expect(rows.filter(has_text="maintenance of train")).to_contain_text("Longer.")
    again = next(each for each in service.engine.bookings().items if each.number == held.number)
    assert (again.start, again.begun) == (held.start, True)
    rows.filter(has_text="nlp").get_by_test_id("booking-change").click()
    expect(dialog.get_by_test_id("booking-sat")).to_be_checked()
    expect(dialog.get_by_label("Lent by")).to_have_value("vision")
    dialog.get_by_test_id("booking-fri").check()
    dialog.get_by_role("button", name="Save").click()
    expect(rows.filter(has_text="nlp")).to_contain_text("Fri, Sat, Sun from 08:00 to 20:00, Europe/Berlin")
    booking = next(each for each in service.engine.bookings().items if each.project)
    assert (booking.gpus, dict(booking.lends)) == ({"simulated": 1}, {"vision": {"simulated": 1}})


def test_the_dialog_opens_from_the_home_page(visit: Visit) -> None:
    page = visit("admin", "home")
    page.get_by_test_id("home-book").click()
    expect(page.get_by_role("dialog", name="Book")).to_be_visible()
    assert page.url.endswith("/pool")
    page.get_by_test_id("booking-close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
