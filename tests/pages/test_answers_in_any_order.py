"""Pages whose answers and events are late or come in another order: the display stays true."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from browsers.waiting_feed import MINE, WAITING, expect_asked
from patience import PATIENCE_S
from playwright.sync_api import Error, Page, Route, expect
from pools.pages_service import PERSON, WITHOUT_SHARED_WORKERS, Service, Windows

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire

Visit = Callable[..., Page]
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until what the scripts of the page asked for so far is drawn."""
ENDED = """{ id: "digits", state: "succeeded", submitted: 1, started: 2, ended: 9, source: "",
    options: { workers: 1 },
    attempts: [1, 2, 3].map((number) => ({ number, state: "paused", started: number, ended: 9, gpus: [] })) }"""
WRITES_TWO = """
import os
for name in ("first.txt", "second.txt"):
    with open(os.environ["SPRINGTIDE_OUTPUT_DIR"] + "/" + name, "w") as file:
        file.write("text of " + name)
"""


@contextmanager
def held(page: Page, path: str, *, method: str = "GET", opens: bool = False) -> Iterator[None]:
    """Hold the first request for a path of the API back until the end of the context, where its answer is drawn.

    A page that ``opens`` in the context has no answer there before its end.
    """
    routes: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == method and not routes:
            routes.append(route)
        else:
            route.fallback()

    url = f"**/api/v1/{path}"
    page.route(url, hold)
    yield
    until_asked(page, routes)
    [route] = routes
    if opens:
        with suppress(Error):  # given up meanwhile, because the machine is slow
            route.continue_()
    else:
        with page.expect_response(lambda answer: answer.request == route.request) as answered:
            route.continue_()
        answered.value.finished()
        page.evaluate(DRAWN)
    page.unroute(url, hold)


def until_asked(page: Page, asked: Sequence[object]) -> None:
    """Wait until a page's requests are in a list."""
    deadline = time.monotonic() + PATIENCE_S
    while not asked:
        assert time.monotonic() < deadline, "the page does not ask"
        page.wait_for_timeout(20)


def as_it_is(page: Page, path: str) -> list[Callable[[], None]]:
    """Keep the next answer for a path; return a list that then has what sends it, as it was."""
    sent: list[Callable[[], None]] = []

    def keep(route: Route) -> None:
        answer = route.fetch()
        sent.append(lambda: route.fulfill(response=answer))

    page.route(f"**/api/v1/{path}", keep, times=1)
    return sent


@pytest.fixture
def admin(visit: Visit) -> Page:
    page = visit("admin", "admin")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    expect(page.get_by_test_id("audit-row").first).to_be_visible()
    return page


@pytest.fixture
def weights(service: Service) -> Iterator[Callable[..., None]]:
    """Changes the weight of a project; all are 1 again afterwards."""

    def change(name: str, weight: float) -> None:
        service.edit_project(name, weight=weight)

    yield change
    service.people.groups.update({"vision": ["susan"], "nlp": ["joe"], "speech": ["jemma"]})
    for name in service.people.groups:
        service.edit_project(name, weight=1.0, quota=2)


def window_of(windows: Windows, service: Service, name: str) -> Page:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": name, "url": service.url}])
    return page


def test_what_happens_before_the_stream_opens_is_shown_too(
    windows: Windows, service: Service, weights: Callable[..., None]
) -> None:
    first, second = (service.submit("susan", name=name) for name in ("one", "two"))
    trials = wire.Trials(number=2, parameters=[{"lr": 1}, {"lr": 2}])
    sweep = service.submit("susan", name="rates", trials=trials)
    service.until(sweep.id, lambda job: job.trials is not None and job.trials.running == 2)
    page = window_of(windows, service, "admin")
    page.add_init_script(WITHOUT_SHARED_WORKERS)
    with held(page, "events*", opens=True):
        page.goto(f"{service.url}admin")
        expect(page.get_by_test_id("edit-weight-nlp")).to_have_value("1")
        weights("nlp", 3.0)
    expect(page.get_by_test_id("edit-weight-nlp")).to_have_value("3")

    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    with held(page, "events*", opens=True):
        page.goto(f"{service.url}compare?job={first.id}&job={second.id}")
        state = page.get_by_test_id("difference").filter(has=page.get_by_role("rowheader", name="state"))
        expect(state.get_by_role("cell").first).to_have_text("Running")
        service.run(service.engine.cancel(first.id, "susan"))
        service.until(first.id, lambda job: job.state == "cancelled")
    expect(state.get_by_role("cell").first).to_have_text("Cancelled")

    with held(page, "events*", opens=True):
        page.goto(service.url)
        expect(page.get_by_test_id("job-row")).to_have_count(2)
        service.run(service.engine.cancel(second.id, "susan"))
        service.until(second.id, lambda job: job.state == "cancelled")
        late = service.submit("susan", name="late")
    expect(page.locator(f"[data-testid=job-row][data-job='{late.id}']")).to_be_visible()

    with held(page, "events*", opens=True):
        page.goto(f"{service.url}jobs/{sweep.id}")
        expect(page.get_by_test_id("count-running")).to_have_text("2 running")
        service.run(service.engine.cancel(sweep.id, "susan"))
        service.until(sweep.id, lambda job: job.state == "cancelled")
    expect(page.get_by_test_id("job-state")).to_have_text("Cancelled")
    expect(page.locator("[data-trial='1']")).to_have_attribute("data-state", "cancelled")


def test_nothing_is_said_of_changes_before_they_are_read(windows: Windows, service: Service) -> None:
    page = window_of(windows, service, "admin")
    with held(page, "audit?*"):
        page.goto(f"{service.url}admin")
        page.get_by_test_id("edit-weight-nlp").fill("2")
        expect(page.get_by_test_id("save-nlp")).to_be_visible()
        expect(page.get_by_test_id("people")).to_be_visible()
        expect(page.get_by_text("Who changed what")).to_have_count(0)
    expect(page.get_by_test_id("audit-row").first).to_be_visible()


@pytest.mark.usefixtures("weights")
def test_a_question_that_is_asked_while_another_row_is_saved_stays(admin: Page) -> None:
    with held(admin, "projects/nlp", method="PATCH"):
        admin.get_by_test_id("edit-weight-nlp").fill("3")
        admin.get_by_test_id("save-nlp").click()
        admin.get_by_test_id("delete-vision").click()
        expect(admin.get_by_test_id("delete-confirm-vision")).to_be_visible()
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    expect(admin.get_by_test_id("delete-confirm-vision")).to_be_visible()


@pytest.mark.usefixtures("weights")
def test_what_is_saved_stays_as_typed_until_it_was_read_again(admin: Page) -> None:
    with held(admin, "projects/nlp", method="PATCH"):
        admin.get_by_test_id("edit-weight-nlp").fill("4")
        admin.get_by_test_id("save-nlp").click()
        kept: list[Route] = []
        admin.route("**/api/v1/admin", lambda route: kept.append(route))  # noqa: PLW0108
    admin.get_by_test_id("edit-weight-vision").fill("5")
    expect(admin.get_by_test_id("save-vision")).to_be_visible()
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("4")
    expect(admin.get_by_test_id("save-nlp")).to_be_disabled()
    for route in kept:
        route.continue_()
    admin.unroute("**/api/v1/admin")
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("4")


@pytest.mark.usefixtures("weights")
def test_members_are_changed_one_after_the_other_and_what_is_typed_meanwhile_stays(
    admin: Page, service: Service
) -> None:
    field = admin.get_by_test_id("member-add-nlp")
    with held(admin, "projects/nlp/members/susan", method="PUT"):
        field.fill("susan")
        field.press("Enter")
        field.fill("jemma")
        field.press("Enter")
        admin.get_by_test_id("member-remove-nlp-joe").click()
        field.fill("somebody")
    for name in ("susan", "jemma"):
        expect(admin.get_by_test_id(f"member-nlp-{name}")).to_be_visible()
    expect(admin.get_by_test_id("member-nlp-joe")).to_have_count(0)
    expect(field).to_have_value("somebody")
    assert sorted(service.people.groups["nlp"]) == ["jemma", "susan"]


def test_a_log_is_read_to_its_end_though_each_piece_has_one_attempt(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate(f"feed.watchJob('digits', () => {{}}, {{ known: {ENDED}, isWhole: true, tail: 8 }}) && null")
    gallery.evaluate("(log) => { window.log = () => feed.live('digits').log; }")
    pieces = [("one\n", 1), ("two\n", 2), ("three\n", 3)]
    size, offset = sum(len(text) for text, _ in pieces), 0
    for text, attempt in pieces:
        gallery.wait_for_function(f"asked().at(-1)?.startsWith('jobs/digits/log?offset={offset or -8}&')")
        end = offset + len(text)
        assert gallery.evaluate("log().ended") is False
        chunk = {"text": text, "offset": offset, "next": end, "size": size, "attempt": attempt}
        chunk["ended"] = end == size
        gallery.evaluate("(chunk) => answer(asked().length - 1, chunk)", chunk)
        offset = end
    gallery.wait_for_function("log().ended")
    lines = gallery.evaluate("log().text").splitlines()
    assert [line for line in lines if line in ("one", "two", "three")] == ["one", "two", "three"]
    assert len(lines) == 5
    gallery.evaluate(DRAWN)
    assert not gallery.evaluate("asked().some((path) => path.includes('/log'))")


def test_an_older_answer_does_not_replace_a_newer_one(
    admin: Page, service: Service, weights: Callable[..., None]
) -> None:
    older = as_it_is(admin, "admin")
    weights("nlp", 3.0)
    until_asked(admin, older)
    weights("nlp", 5.0)
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("5")
    with admin.expect_response("**/api/v1/admin") as answered:
        older.pop()()
    answered.value.finished()
    admin.evaluate(DRAWN)
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("5")


def test_an_event_of_the_pool_is_newer_than_what_was_asked_for_before(
    visit: Visit, service: Service, weights: Callable[..., None]
) -> None:
    page = visit("admin", "pool")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    older = as_it_is(page, "pool")
    weights("nlp", 2.0)
    until_asked(page, older)
    service.submit("susan", name="newer", gpus=3)
    expect(page.get_by_test_id("holder-row")).to_have_count(1)
    with page.expect_response("**/api/v1/pool") as answered:
        older.pop()()
    answered.value.finished()
    page.evaluate(DRAWN)
    expect(page.get_by_test_id("holder-row")).to_have_count(1)


def test_what_is_selected_while_others_are_changed_stays_selected(visit: Visit, service: Service) -> None:
    jobs = [service.submit("susan", name=f"digits {number}") for number in range(2)]
    page = visit("susan")
    one, other = (page.locator(f"[data-testid=job-row][data-job='{job.id}']") for job in jobs)
    one.get_by_test_id("select-job").check()
    with held(page, "jobs/actions", method="POST"):
        page.get_by_test_id("selected-pause").click()
        other.get_by_test_id("select-job").check()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Paused 1 job.")
    expect(page.get_by_test_id("selection")).to_contain_text("2 jobs selected")
    expect(other.get_by_test_id("select-job")).to_be_checked()


def test_the_next_page_is_turned_to_once(visit: Visit, service: Service) -> None:
    for number in range(51):
        service.submit("susan", name=f"job {number}", gpus=8)
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(50)
    with held(page, "jobs?*cursor=*"):
        page.get_by_test_id("jobs-on").click()
        expect(page.get_by_test_id("jobs-on")).to_be_disabled()
    expect(page.get_by_test_id("jobs-page")).to_have_text("Page 2")
    expect(page.get_by_test_id("job-row")).to_have_count(1)


def test_what_is_searched_for_is_kept_when_the_field_is_left_at_once(visit: Visit, service: Service) -> None:
    for name in ("alpha", "beta"):
        service.submit("susan", name=name)
    page = visit("susan")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    page.get_by_test_id("search-jobs").evaluate(
        """async (field) => {
            field.focus();
            field.value = "alph";
            field.dispatchEvent(new InputEvent("input", { bubbles: true }));
            field.blur();
            document.querySelector("[data-testid=select-job]").click();
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        }"""
    )
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    expect(page.get_by_test_id("search-jobs")).to_have_value("alph")


def test_of_two_files_the_one_asked_for_last_is_shown(visit: Visit, service: Service) -> None:
    job = service.submit("susan", "python3", "-c", WRITES_TWO, name="writes")
    service.until(job.id, lambda job: job.state == "succeeded")
    page = visit("susan", f"jobs/{job.id}")
    with held(page, "jobs/*/output/first.txt"):
        page.get_by_label("View first.txt").click()
        page.get_by_label("View second.txt").click()
        expect(page.get_by_test_id("output-viewed")).to_have_text("text of second.txt")
    expect(page.get_by_test_id("output-viewed")).to_have_text("text of second.txt")


def test_notifications_that_are_chosen_one_after_the_other_are_all_kept(visit: Visit) -> None:
    page = visit("susan", "notifications")
    page.get_by_test_id("webhook-url").fill("https://hooks.slack.com/services/T0/B0/secret")
    page.get_by_test_id("webhook-save").click()
    expect(page.get_by_test_id("webhook-remove")).to_be_visible()
    with held(page, "notifications", method="PATCH"):
        page.get_by_test_id("webhook-failed").check()
        page.get_by_test_id("webhook-ended").check()
    expect(page.get_by_test_id("webhook-ended")).to_be_checked()
    with page.expect_response(lambda answer: "paused" in (answer.request.post_data or "")):
        page.get_by_test_id("webhook-paused").check()
    page.reload()
    for event in ("failed", "ended", "paused"):
        expect(page.get_by_test_id(f"webhook-{event}")).to_be_checked()


def test_the_build_gpus_held_follow_the_list_of_workspaces(visit: Visit, service: Service) -> None:
    service.people.notebooks["susan"] = [Server("", "running", "/user/susan/", since=1e9, last_activity=1e9)]
    service.run(service.engine.reserve_workspace("susan", "", 1, ["vision"]))
    page = visit("susan", "workspaces")
    expect(page.get_by_test_id("build-quota")).to_have_text("1 of your 1 build GPU held")
    service.people.notebooks.clear()
    service.run(service.engine.release_workspace("susan", ""))
    expect(page.get_by_test_id("workspace-row")).to_have_count(0)
    expect(page.get_by_test_id("build-quota")).to_have_text("0 of your 1 build GPU held")


def test_a_job_that_an_event_tells_while_my_jobs_are_read_is_among_them(gallery: Page) -> None:
    mine, job = MINE, {"id": "new", "user": "susan", "submitted": 1, "attempts": []}
    gallery.evaluate(WAITING)
    gallery.evaluate("feed.watchList(feed.mine, () => {}) && null")
    expect_asked(gallery, "me", mine)
    gallery.evaluate("answer(0, { name: 'susan', projects: [] })")
    gallery.evaluate("(job) => { say('job', job); say('pool', { seq: 1, nodes: [], projects: [] }); }", job)
    gallery.wait_for_function("feed.pool?.seq === 1")
    gallery.evaluate("answer(0, { items: [] })")
    expect_asked(gallery, mine)
    gallery.evaluate("(job) => answer(0, { items: [job] })", job)
    gallery.wait_for_function("feed.mine.jobs?.map(({ id }) => id).join() === 'new'")
    assert gallery.evaluate("asked()") == []


def test_an_event_of_the_pool_is_newer_than_what_a_feed_asked_for_before(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate("feed.watchPool(() => {}) && null")
    expect_asked(gallery, "me")
    gallery.evaluate("say('refetch', {})")
    expect_asked(gallery, "me", "pool")
    gallery.evaluate("say('pool', { seq: 2, nodes: [], projects: [] })")
    gallery.wait_for_function("feed.pool?.seq === 2")
    gallery.evaluate("answer(1, { seq: 1, nodes: [], projects: [] })")
    gallery.evaluate(DRAWN)
    assert gallery.evaluate("feed.pool.seq") == 2


def test_an_answer_that_is_older_than_an_event_adds_only_what_events_leave_out(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate("feed.watchJob('digits', () => {}) && null")
    expect_asked(gallery, "me", "jobs/digits")
    event = {"id": "digits", "state": "running", "source": "", "attempts": [{"number": 2}]}
    gallery.evaluate("(job) => say('job', job)", event)
    gallery.wait_for_function("feed.live('digits').job?.state === 'running'")
    answer = {**event, "state": "starting", "source": "train()", "attempts": [{"number": 1}, {"number": 2}]}
    gallery.evaluate("(job) => answer(1, job)", answer)
    gallery.wait_for_function("feed.live('digits').job.source === 'train()'")
    assert gallery.evaluate("feed.live('digits').job.state") == "running"
    assert gallery.evaluate("feed.live('digits').job.attempts.map(({ number }) => number)") == [1, 2]


def test_a_feed_reads_again_what_it_shows_after_the_pool_was_started_anew(gallery: Page) -> None:
    mine = MINE
    gallery.evaluate(WAITING)
    gallery.evaluate("feed.watchList(feed.mine, () => {}) && null")
    expect_asked(gallery, "me", mine)
    gallery.evaluate("answer(1, { items: [] })")
    for seq in (7, 1):
        gallery.evaluate("(seq) => say('pool', { seq, nodes: [], projects: [] })", seq)
    expect_asked(gallery, "me", mine, "pool")


def test_a_form_that_is_closed_and_opened_again_keeps_what_is_typed(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate("() => { editor.open(); editor.close(); editor.open(); }")
    form = {"fields": [{"name": "gpus", "value": "1", "common": True}]}
    gallery.evaluate("(form) => answer(1, form)", form)
    gallery.evaluate("editor.setOption('gpus', '4')")
    gallery.evaluate("(form) => answer(0, form)", form)
    gallery.evaluate(DRAWN)
    assert gallery.evaluate("editor.typed.gpus") == "4"
