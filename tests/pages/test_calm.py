"""Views draw seldom, and only what is in sight; what has not been read is not called empty."""

from __future__ import annotations

from typing import Any

import pytest
from browsers.waiting_feed import MINE, WAITING, expect_asked
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

POOL = {"seq": 1, "nodes": [], "projects": [], "train_gpus": 8, "train_held": 1, "build_gpus": 0, "build_held": 0}
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TIMERS = """() => {
    window.pending = new Set();
    const [set, clear] = [window.setTimeout, window.clearTimeout];
    window.setTimeout = (work, wait) => {
        const id = set(() => { pending.delete(id); work(); }, wait);
        pending.add(id);
        return id;
    };
    window.clearTimeout = (id) => { pending.delete(id); clear(id); };
    window.setInterval = () => { throw new Error("an interval"); };
}"""
PERIODS = """(() => {
    window.periods = [];
    const set = window.setInterval;
    window.setInterval = (work, period, ...more) => { periods.push(period); return set(work, period, ...more); };
})()"""
SHOWN = """async (data) => {
    const { showJob } = await import("/visuals/live/job_view.js");
    document.body.replaceChildren(document.createElement("article"));
    window.end = showJob(document.querySelector("article"), feed, data);
}"""
PANEL = """async () => {
    const { showPanel } = await import("/lab/pool_panel.js");
    window.frames_drawn = 0;
    window.asked_page = 0;
    feed.links.pageOf = (id) => { if (id === "old") asked_page += 1; return null; };
    const count = () => { frames_drawn += 1; requestAnimationFrame(count); };
    document.body.replaceChildren(document.createElement("div"));
    window.end = showPanel(document.querySelector("div"), feed, "");
    requestAnimationFrame(count);
}"""


def a_job(name: str, state: str = "running", **more: Any) -> dict[str, Any]:
    ended = 100.0 if state in ("succeeded", "failed", "cancelled") else None
    attempt = {"number": 1, "state": state, "workers": 1, "gpus": [], "created": 1, "started": 2, "ended": ended}
    options = {"gpus": 1, "workers": 1, "min_workers": 1, "tags": [], "retries": 0}
    job = {"id": name, "name": name, "state": state, "user": "susan", "project": "vision", "submitted": 1}
    job |= {"started": 2, "ended": ended, "held": [], "progress": {}, "attempts": [attempt], "options": options}
    return {**job, "attempt": 1, "chosen": [], "trials": None, "gpu_seconds": 0, "error": "", **more}


def with_my_jobs(gallery: Page, *jobs: dict[str, Any]) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate(PANEL)
    expect_asked(gallery, "me", MINE)
    gallery.evaluate("answer(0, { name: 'susan', projects: [] })")
    gallery.evaluate("(items) => answer(0, { items })", jobs)
    gallery.evaluate("(pool) => say('pool', pool)", POOL)
    gallery.wait_for_function("feed.pool && feed.mine.jobs")


def rows(gallery: Page, section: str) -> list[str]:
    place = gallery.get_by_test_id(f"panel-{section}").get_by_test_id("job-row")
    return [str(row.get_attribute("data-job")) for row in place.all()]


def test_the_panel_has_active_jobs_first_and_the_last_ten_ended_below_the_pool(gallery: Page) -> None:
    ended = [a_job(f"done-{number}", "succeeded", ended=100.0 + number) for number in range(49)]
    with_my_jobs(
        gallery, *ended[:20], a_job("waits", "queued", place=1, starts={"likely": None}), *ended[20:], a_job("old")
    )
    expect(gallery.get_by_test_id("panel-ended")).to_be_visible()
    assert rows(gallery, "mine") == ["old", "waits"]
    assert rows(gallery, "ended") == [f"done-{number}" for number in range(48, 38, -1)]
    sections = gallery.locator("[data-testid^=panel-]").evaluate_all(
        "(all) => all.map((one) => one.dataset.testid)"
    )
    assert sections == ["panel-pool", "panel-mine", "panel-line", "panel-ended"]


def test_a_job_of_the_panel_is_paused_and_cancelled_in_its_row(gallery: Page) -> None:
    with_my_jobs(gallery, a_job("old"), a_job("done", "failed", error="ValueError: no data (In [8], line 3)."))
    row = gallery.locator("[data-job=old]")
    row.get_by_test_id("job-pause").click()
    expect_asked(gallery, "jobs/old/pause")
    gallery.evaluate("(job) => answer(0, job)", a_job("old", "pausing"))
    row.get_by_test_id("job-cancel").click()
    expect(row).to_contain_text("Cancel “old”?")
    row.get_by_test_id("job-confirm").click()
    expect_asked(gallery, "jobs/old/cancel")
    expect(gallery.locator("[data-job=done]")).to_contain_text("ValueError: no data (In [8], line 3).")
    expect(gallery.locator("[data-job=done] button")).to_have_count(0)


def row_words(gallery: Page, job: dict[str, Any]) -> str:
    """Return the text of the row of a job at 62 s."""
    words: str = gallery.evaluate(
        """async (job) => {
            const { drawTable } = await import("/visuals/views/run_table.js");
            const { patch } = await import("/visuals/base/dom.js");
            const place = document.createElement("div");
            const selection = { has: () => false, hasAll: () => false, size: 0 };
            const filters = { order: "-submitted" };
            patch(place, drawTable({ jobs: [job], now: 62, filters, open: new Set(), selection, href: () => "#",
                tagHref: () => null, more: [], leftOut: new Set() }, { choose() {}, toggle() {}, drawCard() {} }));
            return place.innerText || place.textContent;
        }""",
        job,
    )
    return words


def test_a_population_runs_between_two_generations_too(gallery: Page) -> None:
    trials = {"number": 16, "finished": 8, "gpus": 0, "running": 0, "best": None, "failed": 0, "cancelled": 0}
    sweep = a_job("evolves", trials=trials, started=2)
    sweep["attempts"][0] |= {"state": "paused", "ended": 40}
    words = row_words(gallery, sweep)
    assert "runs 1 min" in words
    assert "paused" not in words.lower()


def test_a_job_that_never_ran_is_on_hold_and_not_paused(gallery: Page) -> None:
    hold = {"by": "admin", "reason": "a review", "at": 20, "project": "vision", "until": None}
    words = row_words(gallery, a_job("waits", "queued", started=None, attempts=[], hold=hold))
    assert "on hold 42 s" in words
    assert "paused" not in words.lower()


def test_a_job_that_is_cancelled_or_paused_shows_since_when_in_the_column_of_times(gallery: Page) -> None:
    for state, shown in (("pausing", "cancelling"), ("pausing", "pausing")):
        job = a_job("old", state, shown=shown)
        job["attempts"][0] |= {"asked": 59}
        assert f"{shown} 3 s" in row_words(gallery, job)


def test_a_row_has_the_state_of_a_sweep_in_a_word(gallery: Page) -> None:
    words = row_words(gallery, a_job("search", "succeeded", shown="succeeded, 2 of 8 trials failed"))
    assert "Succeeded" in words
    assert "2 of 8" not in words
    with_my_jobs(gallery, a_job("search", "succeeded", shown="succeeded, 2 of 8 trials failed"))
    mark = gallery.locator("[data-job=search] .st-state")
    expect(mark).to_have_text("Succeeded")
    expect(mark).to_have_attribute("title", "succeeded, 2 of 8 trials failed")


def test_the_time_until_something_happens_counts_by_the_viewers_clock(gallery: Page) -> None:
    said = "4 GPUs reserved: “a” can be paused in 21 s (minimum run time)."
    sentences = [{"role": "next", "text": "Running jobs can be paused for it in 21 s."}]
    params = {"seconds": 21, "until": 68}
    reason = {"code": "awaits-pause", "text": said, "headline": said, "brief": "4 GPUs reserved.",
              "sentences": sentences, "params": params}  # fmt: skip
    job = a_job("waits", "queued", started=None, attempts=[], reason=reason)
    assert "can be paused in 8 s (minimum run time)." in row_words(gallery, job)
    words = gallery.evaluate(
        """async (job) => {
            const { drawWhy, jobHeadline } = await import("/visuals/base/job_words.js");
            const { textOf } = await import("/visuals/base/dom.js");
            const all = (now) => textOf(jobHeadline(job, now)) + " " + textOf([drawWhy(job, now)]);
            return [61, 64, 65, 46, 200].map(all);
        }""",
        job,
    )
    for at, left in enumerate(("8 s", "8 s", "3 s", "21 s")):
        assert f"can be paused in {left} (minimum run time)." in words[at]
        assert f"can be paused for it in {left}." in words[at]
    assert "in 1 s." in words[-1]


def test_a_card_and_a_row_that_events_draw_at_different_times_count_the_same_seconds(gallery: Page) -> None:
    starts = {"earliest": 80, "likely": 103, "latest": None, "why": None, "at": 60}
    stops = {"number": 1, "state": "pausing", "started": 10, "asked": 62, "gpus": []}
    jobs = [
        a_job("waits", "queued", started=None, attempts=[], starts=starts),
        a_job("stops", "pausing", grace=30, attempts=[stops]),
        a_job("runs", "running", progress={"step": None, "of": None, "values": {}, "ends": 103, "limited": False}),
    ]
    said = gallery.evaluate(
        """async (jobs) => {
            const { jobHeadline } = await import("/visuals/base/job_words.js");
            const { textOf } = await import("/visuals/base/dom.js");
            return [62.1, 63.4, 64.9].map((now) => jobs.map((job) => textOf(jobHeadline(job, now))));
        }""",
        jobs,
    )
    assert said[0] == said[1] == said[2]
    assert "in about 43 s" in said[0][0]
    assert "At most 30 s left." in said[0][1]
    assert "About 43 s to go." in said[0][2]


def test_a_panel_without_contact_shows_its_jobs_as_they_were_and_offers_nothing(gallery: Page) -> None:
    with_my_jobs(gallery, a_job("old"))
    row = gallery.locator("[data-job=old]")
    expect(row.get_by_test_id("job-pause")).to_be_enabled()
    gallery.evaluate("hangUp() && null")
    expect(gallery.get_by_test_id("panel-stale")).to_be_visible()
    for button in ("job-pause", "job-cancel"):
        expect(row.get_by_test_id(button)).to_be_disabled()
    shown = gallery.evaluate(
        """async () => {
            const { shownAt } = await import("/visuals/live/stale.js");
            const feed = (state, heardAt) => ({ connection: { state }, heardAt });
            const late = shownAt(feed("waiting", null), 7) > 1e9;
            return [shownAt(feed("away", 40), 7), shownAt(feed("away", null), 7), late];
        }"""
    )
    assert shown == [40, 7, True], "the last contact, or the opening without one; now while an answer is overdue"


def test_jobs_of_others_have_no_buttons_in_a_row(gallery: Page) -> None:
    with_my_jobs(gallery, a_job("old", user="joe"))
    expect(gallery.locator("[data-job=old]")).to_be_visible()
    expect(gallery.locator("[data-job=old] button")).to_have_count(0)


def test_a_burst_of_events_is_drawn_at_most_once_per_frame_and_lists_stay_short(gallery: Page) -> None:
    with_my_jobs(gallery, a_job("old"))
    gallery.evaluate(DRAWN)
    gallery.evaluate("frames_drawn = 0; asked_page = 0")
    job, last = a_job("short"), a_job("last")
    gallery.evaluate(
        """([job, old, pool]) => {
            for (let number = 0; number < 300; number += 1) {
                for (const state of ["queued", "running", "succeeded"])
                    say("job", { ...job, id: `short-${number}`, state });
                say("job", { ...old, attempt: number + 2 });
                say("pool", { ...pool, seq: number + 2 });
            }
        }""",
        [job, a_job("old"), POOL],
    )
    gallery.wait_for_function("feed.pool?.seq === 301")
    gallery.evaluate(DRAWN)
    drawings, frames = gallery.evaluate("[asked_page, frames_drawn]")
    assert 1 <= drawings <= frames
    assert frames < 300
    assert gallery.evaluate("feed.jobs.size") == 1
    expect_asked(gallery, MINE)
    gallery.evaluate("(items) => answer(0, { items })", [last])
    gallery.wait_for_function("feed.mine.jobs?.[0].id === 'last'")
    assert gallery.evaluate("[...feed.jobs.keys()]") == ["last"]


def test_jobs_that_have_left_a_list_are_forgotten(gallery: Page) -> None:
    with_my_jobs(gallery, *(a_job(f"done-{number}", "succeeded") for number in range(50)))
    for turn in range(1, 4):
        items = [a_job(f"done-{turn}-{number}", "succeeded") for number in range(50)]
        gallery.evaluate("feed.mine.read() && null")
        expect_asked(gallery, MINE)
        gallery.evaluate("(items) => answer(0, { items })", items)
        gallery.wait_for_function("(id) => feed.mine.jobs[0].id === id", arg=items[0]["id"])
        assert gallery.evaluate("feed.jobs.size") <= 100


def test_out_of_sight_nothing_is_drawn_until_it_comes_into_sight(gallery: Page) -> None:
    gallery.evaluate(
        """async () => {
            const { whileInSight } = await import("/visuals/base/pace.js");
            document.body.replaceChildren(document.createElement("article"));
            window.place = document.querySelector("article");
            place.textContent = "card";
            window.drawings = 0;
            window.view = whileInSight(place, () => { drawings += 1; });
        }"""
    )
    gallery.evaluate("for (let turn = 0; turn < 100; turn += 1) view.draw()")
    gallery.evaluate(DRAWN)
    assert gallery.evaluate("drawings") == 2
    gallery.evaluate("place.style.display = 'none'")
    gallery.evaluate(DRAWN)
    gallery.evaluate("view.draw()")
    gallery.evaluate(DRAWN)
    assert gallery.evaluate("drawings") == 2
    gallery.evaluate("place.style.display = ''")
    gallery.wait_for_function("drawings === 3")
    gallery.evaluate("view.stop(); view.draw()")
    gallery.evaluate(DRAWN)
    assert gallery.evaluate("drawings") == 3


@pytest.mark.parametrize("state", ["failed", "running"])
def test_only_the_card_of_a_job_that_has_not_ended_has_a_timer(gallery: Page, state: str) -> None:
    gallery.evaluate(WAITING)
    job = a_job("one", state)
    if state == "running":
        gallery.evaluate("feed.watchPool(() => {}) && null")  # a stream, which the card needs
        expect_asked(gallery, "me")
        gallery.wait_for_function("feed.connection.state === 'live'")
    gallery.evaluate(TIMERS)
    gallery.evaluate(SHOWN, {"job": job, "at": 1})
    if state == "failed":
        gallery.wait_for_function("asked().some((path) => path.startsWith('jobs/one/log'))")
        for _ in range(12):  # whatever the card asks for
            gallery.evaluate("while (asked().length) answer(0, null)")
            gallery.evaluate(DRAWN)
        gallery.wait_for_function("() => { while (asked().length) answer(0, null); return pending.size === 0; }")
    else:
        gallery.wait_for_function("asked().includes('jobs/one')")
        gallery.evaluate("(job) => answer(asked().indexOf('jobs/one'), job)", job)
        gallery.wait_for_function("feed.live('one').job !== null && pending.size > 0")
    gallery.evaluate("end()")


def test_the_log_of_a_job_that_a_list_showed_is_read_when_its_card_appears(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate("feed.watchList(feed.mine, () => {}) && null")
    expect_asked(gallery, "me", MINE)
    gallery.evaluate("(job) => answer(1, { items: [job] })", a_job("one"))
    gallery.wait_for_function("feed.mine.jobs?.length === 1")
    ended = a_job("one", "failed", error="MemoryError (In [8], line 3).", exit_code=1)
    gallery.evaluate("(job) => say('job', job)", ended)
    gallery.wait_for_function("feed.live('one').job.state === 'failed'")
    gallery.evaluate(SHOWN, {"job": ended, "at": 1})
    gallery.wait_for_function("asked().some((path) => path.startsWith('jobs/one/log'))")
    log = gallery.get_by_test_id("job-log")
    expect(log.locator("summary")).to_have_text("Log · not read yet")
    expect(gallery.get_by_test_id("job-error")).to_have_text("MemoryError (In [8], line 3).")
    log.locator("summary").click()
    expect(gallery.get_by_test_id("log-text")).to_have_text("Reading the log…")
    wanted = "asked().findIndex((path) => path.startsWith('jobs/one/log'))"
    gallery.evaluate(f"refuse({wanted}, Object.assign(new Error('The pool is busy.'), {{ status: 503 }}))")
    expect(gallery.get_by_test_id("log-text")).to_have_text("The log cannot be read now: The pool is busy.")
    gallery.wait_for_function(f"{wanted} >= 0")
    chunk = {"text": "MemoryError\n", "offset": 0, "next": 12, "ended": True, "attempt": 1}
    gallery.evaluate(f"(chunk) => answer({wanted}, chunk)", chunk)
    expect(gallery.get_by_test_id("log-text")).to_have_text("MemoryError\n")
    expect(log.locator("summary")).to_have_text("Log · last 1 line")
    gallery.evaluate("end()")


def test_that_the_pool_was_away_at_an_action_is_said_until_it_answers(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate(SHOWN, {"job": a_job("one"), "at": 1})
    gallery.wait_for_function("asked().includes('jobs/one')")
    gallery.evaluate("(job) => answer(asked().indexOf('jobs/one'), job)", a_job("one"))
    gallery.get_by_test_id("job-pause").click()
    gallery.wait_for_function("asked().includes('jobs/one/pause')")
    gallery.evaluate(
        """async () => {
            const { callsOf } = await import("/visuals/live/api.js");
            const request = async () => new Response("<h1>503</h1>", { status: 503 });
            const { call } = callsOf(request, { message: "The pool does not answer.", hint: "Try again." });
            const error = await call("POST", "jobs/one/pause").catch((refused) => refused);
            refuse(asked().indexOf("jobs/one/pause"), error);
        }"""
    )
    expect(gallery.get_by_test_id("job-notice")).to_have_text("The pool does not answer. Try again.")
    gallery.evaluate("feed.live('one').fetch() && null")
    gallery.wait_for_function("asked().includes('jobs/one')")
    gallery.evaluate("(job) => answer(asked().indexOf('jobs/one'), job)", a_job("one"))
    expect(gallery.get_by_test_id("job-notice")).to_have_count(0)
    gallery.evaluate("end()")


def test_no_page_of_the_hub_is_drawn_again_every_few_seconds(windows: Windows, service: Service) -> None:
    """What it asks for again from time to time, it asks for every ten seconds at most."""
    job = service.submit("susan", "true", name="ended")
    service.until(job.id, lambda found: found.state == "succeeded")
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.add_init_script(PERIODS)
    for path in ("", f"jobs/{job.id}", "pool", "workspaces", "notifications"):
        page.goto(service.url + path)
        expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        expect(page.get_by_test_id("connection")).to_have_text("Live")
        assert [period for period in page.evaluate("periods") if period < 10_000] == [], path


def test_a_panel_says_that_nothing_starts_while_the_store_takes_no_writes(gallery: Page) -> None:
    with_my_jobs(gallery, a_job("waits", "queued", started=None, attempts=[]))
    notice = gallery.get_by_test_id("store-trouble")
    expect(notice).to_have_count(0)
    trouble = "The disk that holds the store is full."
    gallery.evaluate("(pool) => say('pool', pool)", {**POOL, "seq": 2, "store_trouble": trouble})
    expect(notice).to_have_attribute("role", "alert")
    expect(notice).to_contain_text(
        f"{trouble} Running jobs continue. Waiting jobs keep their places, but none starts"
    )
    expect(notice).to_contain_text("An administrator of this hub has to correct that")
    words = gallery.evaluate(
        """async (pool) => {
            const { storeNotice } = await import("/visuals/views/store_notice.js");
            const { textOf } = await import("/visuals/base/dom.js");
            return textOf([storeNotice(pool, true)]);
        }""",
        {"store_trouble": trouble},
    )
    assert words.endswith("Correct the cause: the service then continues by itself.")
    gallery.evaluate("(pool) => say('pool', pool)", {**POOL, "seq": 3})
    expect(notice).to_have_count(0)
