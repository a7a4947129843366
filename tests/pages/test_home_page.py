"""The home page of administrators: what needs them and its actions, numbers, projects, nodes, days and waits."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from pools.pages_service import WITHOUT_SHARED_WORKERS, Service

from springtide.scheduler import wire

Visit = Callable[..., Page]
DAY = 86_400.0


def ready(page: Page) -> Page:
    expect(page.locator("#page:not([aria-busy])")).to_be_visible()
    return page


@pytest.fixture
def drained(service: Service) -> Iterator[None]:
    """A GPU that was drained three days ago."""
    engine = service.engine
    service.run(engine.drain_node(wire.DrainRequest(node="train", gpu=7, why="a fan"), "admin"))
    (record,) = engine.state.gpu_drains.values()
    earlier = replace(record, since=record.since - 3 * DAY)

    async def put() -> None:
        await engine.needs._request(lambda change: change.gpu_drains.put(earlier))

    service.run(put())
    yield
    if engine.state.gpu_drains:
        service.run(engine.undrain_node(wire.UndrainRequest(node="train", gpu=7), "admin"))


def need(page: Page, kind: str) -> Locator:
    return page.get_by_test_id(f"need-{kind}")


def test_administrators_arrive_here_and_others_at_their_jobs(visit: Visit, service: Service) -> None:
    page = ready(visit("admin"))
    expect(page).to_have_url(f"{service.url}home")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.get_by_test_id("needs")).to_contain_text("Nothing needs you.")
    page.get_by_role("link", name="My jobs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("My jobs")
    susan = visit("susan")
    expect(susan.get_by_role("heading", level=1)).to_have_text("My jobs")
    expect(susan.get_by_role("link", name="Overview")).to_have_count(0)
    susan.goto(f"{service.url}home")
    expect(susan.locator("main")).to_contain_text("Only administrators")


def test_who_leads_a_project_is_led_to_its_page(visit: Visit, service: Service) -> None:
    service.people.administers["susan"] = frozenset({"vision"})
    page = visit("susan", "home")
    expect(page).to_have_url(f"{service.url}admin")
    del service.people.administers["susan"]


@pytest.mark.usefixtures("drained")
def test_an_entry_asks_before_its_action_and_goes_when_it_is_done(visit: Visit, service: Service) -> None:
    page = ready(visit("admin", "home"))
    entry = need(page, "drain")
    expect(entry).to_contain_text("The GPU 7 of train is drained by “admin”: a fan. · 3 d ago")
    entry.get_by_test_id("need-undrain").click()
    expect(entry.get_by_test_id("need-question")).to_contain_text("Let jobs start on GPU 7 of train again?")
    entry.get_by_test_id("need-not-now").click()
    assert service.engine.state.gpu_drains
    entry.get_by_test_id("need-undrain").click()
    entry.get_by_test_id("need-confirm").click()
    expect(page.get_by_test_id("needs")).to_contain_text("Nothing needs you.")
    assert not service.engine.state.gpu_drains


@pytest.mark.usefixtures("drained")
def test_what_is_undrained_from_the_list_is_drained_again_by_undo(visit: Visit, service: Service) -> None:
    page = ready(visit("admin", "home"))
    before = {uuid: drain.why for uuid, drain in service.engine.state.gpu_drains.items()}
    need(page, "drain").get_by_test_id("need-undrain").click()
    need(page, "drain").get_by_test_id("need-confirm").click()
    done = page.get_by_test_id("need-done")
    expect(done).to_contain_text("Undrain: GPU 7 of train.")
    expect(need(page, "drain")).to_have_count(0)
    done.get_by_test_id("need-undo").click()
    expect(done).to_contain_text("Undone: Undrain: GPU 7 of train.")
    assert {uuid: drain.why for uuid, drain in service.engine.state.gpu_drains.items()} == before


@pytest.mark.usefixtures("drained")
def test_an_entry_is_left_for_now_and_shown_again(visit: Visit) -> None:
    page = ready(visit("admin", "home"))
    need(page, "drain").get_by_test_id("need-leave").click()
    expect(need(page, "drain")).to_have_count(0)
    page.get_by_test_id("needs-left").click()
    left = page.get_by_test_id("need-left")
    expect(left).to_contain_text("Left by admin until")
    left.get_by_test_id("need-show").click()
    expect(need(page, "drain")).to_be_visible()
    expect(page.get_by_test_id("needs-left")).to_have_count(0)


@pytest.mark.usefixtures("drained")
def test_a_refused_action_says_why_at_its_entry(visit: Visit) -> None:
    page = ready(visit("admin", "home"))
    problem = {"code": "busy", "message": "The store takes no writes.", "hint": "Try again."}
    page.route("**/api/v1/nodes/undrain", lambda route: route.fulfill(status=503, json=problem))
    need(page, "drain").get_by_test_id("need-undrain").click()
    need(page, "drain").get_by_test_id("need-confirm").click()
    expect(need(page, "drain").get_by_role("alert")).to_have_text("The store takes no writes. Try again.")


def test_numbers_projects_nodes_and_waits_follow_the_pool(visit: Visit, service: Service) -> None:
    page = ready(visit("admin", "home"))
    expect(page.get_by_test_id("home-number-held")).to_contain_text("0 of 11")
    expect(page.get_by_test_id("home-waits")).to_have_count(0)
    job = service.submit("susan", gpus=2, name="digits")
    service.until(job.id, lambda job: job.state == "running")
    expect(page.get_by_test_id("home-number-held")).to_contain_text("2 of 11")
    expect(page.get_by_test_id("home-number-people")).to_contain_text("1")
    bar = page.get_by_test_id("home-project-vision").get_by_role("img").first
    expect(bar).to_have_accessible_name("vision: 2 held · quota 2")
    expect(page.get_by_test_id("home-node")).to_have_count(2)
    waits = service.submit("joe", gpus=8, name="too much")
    row = page.get_by_test_id("home-wait")
    expect(row).to_contain_text("too much")
    row.get_by_test_id("wait-hold").click()
    page.get_by_test_id("intervention-reason").fill("a review")
    page.get_by_test_id("intervention-send").click()
    expect(page.get_by_test_id("home-wait")).to_have_count(0)
    assert service.run(service.engine.job(waits.id)).hold is not None


@pytest.mark.parametrize(("width", "height"), [(1000, 800), (1440, 900), (1920, 1080)])
def test_the_form_of_a_waiting_job_is_whole_below_its_row_and_escape_closes_it(
    visit: Visit, service: Service, width: int, height: int
) -> None:
    jobs = [service.submit("joe", gpus=8, name=f"too much {number}") for number in range(7)]
    page = visit("admin", "home", viewport={"width": width, "height": height})
    rows = ready(page).get_by_test_id("home-wait")
    expect(rows).to_have_count(6)
    on_top = """button => {
        const { left, right, bottom } = button.getBoundingClientRect();
        const fades = button.closest(".st-home-cut")?.getBoundingClientRect().bottom - 40;
        return document.elementFromPoint((left + right) / 2, bottom - 4) === button && !(bottom > fades);
    }"""
    for at, what, close in (
        (4, "edit", "Escape"),
        (5, "edit", "Escape"),
        (0, "hold", "Escape"),
        (5, "hold", ""),
        (0, "edit", ""),
    ):
        button = rows.nth(at).get_by_test_id(f"wait-{what}")
        button.click()
        form = page.get_by_test_id("intervention")
        for part in (form.get_by_test_id("intervention-reason"), form.get_by_test_id("intervention-send")):
            expect(part).to_be_in_viewport(ratio=1)
        send = form.get_by_test_id("intervention-send")
        page.wait_for_function(on_top, arg=send.element_handle())
        area = page.get_by_test_id("home-waits").bounding_box()
        assert area is not None
        inside = form.bounding_box()
        assert inside is not None
        assert inside["width"] > 0.9 * area["width"]
        expect(rows).to_have_count(6)
        if close:
            page.keyboard.press(close)
        else:
            form.get_by_test_id("intervention-close").click()
        expect(form).to_have_count(0)
        expect(button).to_be_focused()
    for job in jobs:
        service.run(service.engine.cancel(job.id, "joe"))


@pytest.mark.usefixtures("drained")
def test_escape_closes_the_question_of_an_entry(visit: Visit) -> None:
    page = ready(visit("admin", "home"))
    need(page, "drain").get_by_test_id("need-undrain").click()
    expect(need(page, "drain").get_by_test_id("need-not-now")).to_be_focused()
    page.keyboard.press("Escape")
    expect(need(page, "drain").get_by_test_id("need-question")).to_have_count(0)
    expect(need(page, "drain").get_by_test_id("need-undrain")).to_be_focused()


def test_a_project_opens_beside_with_its_members_limits_and_freeze(visit: Visit, service: Service) -> None:
    page = ready(visit("admin", "home"))
    page.get_by_test_id("open-nlp").click()
    panel = page.get_by_test_id("project-panel")
    expect(panel).to_be_focused()
    expect(panel).to_contain_text("joe")
    expect(panel).to_contain_text("priority 0 to 100")
    panel.get_by_test_id("freeze-nlp").click()
    panel.get_by_test_id("freeze-why").fill("a review")
    panel.get_by_test_id("freeze-confirm").click()
    expect(panel.get_by_test_id("frozen-nlp")).to_contain_text("Frozen by admin: a review")
    expect(page.get_by_test_id("home-project-nlp")).to_contain_text("frozen")
    panel.get_by_test_id("unfreeze-nlp").click()
    expect(panel.get_by_test_id("frozen-nlp")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.get_by_test_id("open-nlp")).to_be_focused()


def test_the_panel_of_a_project_has_its_budget_and_its_bookings(visit: Visit, service: Service) -> None:
    budget = wire.BudgetRequest(amount=100, unit="gpu-hours", beyond="no-borrowing")
    service.run(service.engine.budgets.set("nlp", budget, "admin"))
    request = wire.BookingRequest(project="vision", gpus=1, lends={"nlp": 1}, end=time.time() + DAY)
    made = service.run(service.engine.book(request, "admin")).booking
    page = ready(visit("admin", "home"))
    panel = page.get_by_test_id("project-panel")
    page.get_by_test_id("open-nlp").click()
    expect(panel.get_by_test_id("budget-nlp")).to_contain_text("of 100 GPU-hours")
    lends = panel.get_by_test_id(f"panel-booking-{made.number}")
    expect(lends).to_contain_text(f"Booking {made.number} (now): lends 1 simulated GPU to vision, from ")
    panel.get_by_test_id("panel-close").click()
    page.get_by_test_id("open-vision").click()
    has = panel.get_by_test_id(f"panel-booking-{made.number}")
    expect(has).to_contain_text(f"Booking {made.number} (now): booking of 1 simulated GPU for vision, from ")
    service.run(service.engine.cancel_booking(made.number, "admin"))
    service.run(service.engine.budgets.remove("nlp", "admin"))


def test_what_ends_soon_is_under_its_day(visit: Visit, service: Service) -> None:
    until = time.time() + 2 * DAY
    members = service.run(service.people.members())
    service.run(service.engine.freeze("nlp", wire.FreezeRequest(until=until), "admin", members=members))
    page = ready(visit("admin", "home"))
    calendar = page.get_by_test_id("home-calendar")
    expect(calendar.locator("li a")).to_have_text("The freeze of “nlp” ends.")
    service.run(service.engine.unfreeze("nlp", "admin", members=members))
    expect(calendar).to_contain_text("Nothing begins or ends by itself.")


def test_a_booking_begins_and_ends_under_its_day(visit: Visit, service: Service) -> None:
    start = time.time() + 2 * DAY
    request = wire.BookingRequest(nodes=("train",), start=start, end=start + DAY)
    made = service.run(service.engine.book(request, "admin"))
    calendar = ready(visit("admin", "home")).get_by_test_id("home-calendar")
    expect(calendar.locator("li a")).to_have_text(
        ["The maintenance of train begins.", "The maintenance of train ends."]
    )
    expect(calendar.locator("time").first).to_have_text(re.compile(r"^\d\d:\d\d$"))
    service.run(service.engine.cancel_booking(made.booking.number, "admin"))
    expect(calendar).to_contain_text("Nothing begins or ends by itself.")


def test_commands_in_what_to_do_are_code(visit: Visit) -> None:
    item = {"id": "backup", "kind": "backup", "object": "", "since": time.time(), "until": None, "problem": False}
    item |= {"said": "There is no backup.", "remedy": "Run `springtide backup FILE`, best daily.", "actions": []}
    page = visit("admin", "home")
    page.route("**/api/v1/needs", lambda route: route.fulfill(json={"items": [item], "left": []}))
    page.reload()
    ready(page)
    expect(need(page, "backup").locator("code")).to_have_text("springtide backup FILE")
    expect(need(page, "backup")).to_contain_text("Run springtide backup FILE, best daily.")


def test_costs_name_their_currency(visit: Visit) -> None:
    def priced(route: Route) -> None:
        home: dict[str, Any] = route.fetch().json()
        home["projects"] = [each | {"cost": 12.0} for each in home["projects"]]
        route.fulfill(json=home | {"currency": "CHF"})

    page = visit("admin", "home")
    page.route("**/api/v1/home", priced)
    page.reload()
    ready(page)
    expect(page.get_by_test_id("home-projects").get_by_role("columnheader").last).to_have_text("cost, CHF")


def test_all_of_it_is_on_one_screen_and_a_large_pool_is_folded(visit: Visit) -> None:
    page = visit("admin", "home")
    page.route("**/api/v1/pool", large_pool)
    page.add_init_script(WITHOUT_SHARED_WORKERS)
    page.route("**/api/v1/events*", lambda route: route.abort())
    for width, height in ((1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        ready(page)
        expect(page.get_by_test_id("home-node")).to_have_count(200)
        inside = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert inside == [width, height]
        # nobody waits: the columns have the height that a full list of waits would take
        assert page.locator(".st-home-waits").bounding_box()["height"] < 120
    lines = page.get_by_test_id("home-projects").locator("tbody tr")
    expect(lines).to_have_count(10)
    page.get_by_test_id("fold-team 0").click()
    expect(lines).to_have_count(15)
    page.set_viewport_size({"width": 1440, "height": 720})
    more, part = page.get_by_test_id("below-projects"), page.locator("[data-rows=projects]")
    cut = """part => [...part.querySelectorAll("tbody > tr")].filter(
        row => row.getBoundingClientRect().bottom > part.getBoundingClientRect().bottom + 6
    ).length"""
    expect(more).to_be_visible()
    expect(more).to_have_text(f"{part.evaluate(cut)} more")
    more.click()
    part.evaluate("part => part.scrollTo(0, part.scrollHeight)")
    expect(more).to_have_count(0)
    expect(page.get_by_test_id("home-node").first).to_have_attribute(
        "data-tip", "node 0 (simulated)\n1 of 1 GPU held, none idle"
    )


def test_waits_of_minutes_are_short_enough_for_their_column(visit: Visit) -> None:
    def waiting(route: Route) -> None:
        home: dict[str, Any] = route.fetch().json()
        for project, seconds in zip(home["projects"], (82.0, 3599.0, 59.0), strict=False):
            project["longest_wait"] = seconds
            project["cost"] = seconds / 100
        route.fulfill(json=home)

    page = visit("admin", "home")
    page.route("**/api/v1/home", waiting)
    page.reload()
    words = {"1 min", "1 h", "59 s"}
    cells = ready(page).get_by_test_id("home-projects").locator("tbody td:nth-child(4)")
    expect(cells).to_have_count(3)
    assert set(cells.all_inner_texts()) == words
    assert all(cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth") for cell in cells.all())
    costs = page.get_by_test_id("home-projects").locator("tbody td:nth-child(6)")
    assert set(costs.all_inner_texts()) == {"0.82", "35.99", "0.59"}


@pytest.mark.parametrize("width", [1000, 1440, 1920])
def test_costs_of_any_size_fit_their_column(visit: Visit, width: int) -> None:
    def priced(route: Route) -> None:
        home: dict[str, Any] = route.fetch().json()
        for project, cost in zip(home["projects"], (12_048.6, 1_234_567.89, 0.4), strict=False):
            project["cost"] = cost
        route.fulfill(json=home | {"currency": "CHF"})

    page = visit("admin", "home")
    page.set_viewport_size({"width": width, "height": 900})
    page.route("**/api/v1/home", priced)
    page.reload()
    tree = ready(page).get_by_test_id("home-projects")
    costs = tree.locator("tbody td:nth-child(6)")
    assert set(costs.all_inner_texts()) == {"12,048.60", "1,234,567.89", "0.40"}
    within = "cell => cell.scrollWidth <= cell.clientWidth"
    assert all(cell.evaluate(within) for cell in [*costs.all(), *tree.locator("thead th").all()])


def large_pool(route: Route) -> None:
    """A pool of 60 projects, ten of which hold the others, and 200 nodes."""
    pool: dict[str, Any] = route.fetch().json()
    node = next(each for each in pool["nodes"] if each["environment"] == "train")
    cell = node["gpus"][0] | {"holder": {"kind": "job", "user": "susan", "project": "team 0"}}
    pool["nodes"] = [node | {"name": f"node {at}", "gpus": [cell], "free": {}} for at in range(200)]
    project = pool["projects"][0]
    pool["projects"] = [
        json.loads(json.dumps(project))
        | {"name": f"team {at}", "parent": f"team {at - at % 6}" if at % 6 else None}
        for at in range(60)
    ]
    pool["seq"] = 10**9
    route.fulfill(json=pool)
