"""Bookings: nodes close and quotas rise from a start to an end, over restarts and steps of the clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import engine_worlds as worlds
import pytest
from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.engine import AuditQuery
from springtide.scheduler.gpu_types import as_table
from springtide.scheduler.model import Environment
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.timetable import ENDING
from springtide.scheduler.wording import utc

HOUR = 3600.0
NODES = (worlds.node("one", 4), worlds.node("two", 4), worlds.node("build", 2, Environment.BUILD))
LEAD = 5.0 + ENDING
"""Time before a maintenance at which jobs are asked to pause, by the grace period of the tests."""


@pytest.fixture
async def two(pool):
    """The pool with two train nodes of 4 GPUs, and quotas of 2 for three projects."""
    pool.executor.change_nodes(*NODES)
    await pool.idle()
    return pool


async def booked(pool, *nodes: str, start: float = 2, hours: float = 1, **more: Any) -> wire.NewBooking:
    """Make a booking that starts in some hours."""
    at = pool.clock.now + start * HOUR
    request = wire.BookingRequest(nodes=nodes, start=at, end=at + hours * HOUR, **more)
    return await pool.engine.book(request, "admin")


def numbers(pool) -> list[int]:
    return [each.number for each in pool.engine.bookings().items]


def node(pool, name: str) -> wire.NodeView:
    return next(view for view in pool.engine.pool().nodes if view.name == name)


def quota(pool, name: str) -> Any:
    return next(view for view in pool.engine.pool().projects if view.name == name).quota


def held(pool, name: str) -> set[str]:
    """Return the jobs that hold GPUs of a node."""
    return {cell.holder.job for cell in node(pool, name).gpus if cell.holder is not None}


async def trail(pool, what: str = "booking") -> list[tuple[str, str]]:
    page = await pool.engine.audit(None, 20, AuditQuery(what=what))
    return [(each.who, each.what) for each in page.items][::-1]


async def test_a_maintenance_comes_holds_and_goes_by_itself(two):
    made = await booked(two, "one", why="A fan.")
    assert numbers(two) == [made.booking.number]
    assert node(two, "one").available
    long = [await two.submit(gpus=4, name=name) for name in ("a", "b")]
    for job in long:
        await two.state(job.id, "running")
    await two.later(2 * HOUR - LEAD - 1)
    assert held(two, "one")
    await two.later(1)
    assert not held(two, "one")
    await two.later(LEAD)
    view = node(two, "one")
    assert (view.available, view.drain.by, view.drain.why) == (False, "admin", "A fan.")
    assert view.drain.until == made.booking.end
    assert not held(two, "one")
    await two.later(HOUR)
    assert node(two, "one").available
    assert numbers(two) == []
    await two.idle()
    assert held(two, "one")
    assert await trail(two) == [
        ("admin", "booking.make"),
        ("springtide", "booking.begin"),
        ("springtide", "booking.end"),
    ]


async def test_a_job_that_would_not_be_done_waits_and_says_why_and_a_short_one_starts(two):
    await booked(two, "one", "two", why="New driver.", start=2)
    long = await two.submit(gpus=4, time_limit=3 * HOUR)
    await two.idle()
    found = await two.job(long.id)
    assert found.state == "queued"
    assert found.reason.code == "node-closes-first"
    start = two.engine.bookings().items[0].start
    assert found.reason.params["start"] == start
    text = found.reason.text
    assert "New driver." in text
    assert "It needs about 3 h, and has saved no checkpoint." in text
    assert "UTC to" in text
    short = await two.submit(gpus=4, time_limit=HOUR)
    await two.state(short.id, "running")
    later = (await booked(two, "two", start=30, hours=1)).notes
    assert not [note for note in later if "checkpoint" in note], "its time limit ends it before"


async def test_the_reason_of_a_paused_job_names_the_maintenance(two):
    job = await two.submit(gpus=4)
    await two.state(job.id, "running")
    where = next(name for name in ("one", "two") if held(two, name))
    made = await booked(two, where)
    unsaved, quotas = made.notes
    assert "runs there now and has saved no checkpoint" in unsaved
    assert job.id in unsaved
    assert quotas.startswith("The quotas add up to 6 GPUs, and 4 are left meanwhile")
    await two.later(2 * HOUR - LEAD)
    found = await two.state(job.id, "running", attempt=2)
    assert found.attempts[0].ended_why.code == "node-closes"
    assert not held(two, where)


async def test_a_start_now_drains_at_once(two):
    job = await two.submit(gpus=4)
    await two.state(job.id, "running")
    where = next(name for name in ("one", "two") if held(two, name))
    await two.engine.book(wire.BookingRequest(nodes=(where,), end=two.clock.now + HOUR), "admin")
    await two.idle()
    assert not node(two, where).available
    assert not held(two, where)


async def test_a_maintenance_is_kept_over_restarts_and_steps_of_the_clock(two):
    made = await booked(two, "one", start=2, hours=2)
    await two.restart()
    assert numbers(two) == [made.booking.number]
    await two.set_clock(2 * HOUR)
    assert not node(two, "one").available
    await two.restart()
    assert not node(two, "one").available
    await two.set_clock(-HOUR)
    assert node(two, "one").available
    assert not two.engine.bookings().items[0].begun
    await two.stop()
    two.clock.now += 1.5 * HOUR
    await two.start()
    await two.idle()
    assert not node(two, "one").available
    await two.stop()
    two.clock.now += 10 * HOUR
    await two.start()
    await two.idle()
    assert node(two, "one").available
    assert numbers(two) == []


async def changes(pool, start: float) -> tuple[list[dict[str, bool]], list[dict[str, Any]]]:
    """The availability of nodes and the quotas that the past from a time has, in order."""
    document = await pool.engine.past.scenario(start, pool.clock.now)
    return [each.available for each in document.changes if each.available], [
        dict(each.quota) for each in document.changes if each.quota
    ]


@pytest.mark.parametrize("restarts", [False, True])
async def test_the_past_has_the_end_of_a_maintenance_and_of_a_raised_quota(two, restarts):
    start = two.clock.now
    job = await two.submit(gpus=1)
    await two.state(job.id, "running")
    await booked(two, "one", start=1)
    await booked(two, project="susan", gpus=2, start=2)
    for _ in range(4):
        await two.later(HOUR)
        if restarts:
            await two.restart()
            await two.idle()
    assert await changes(two, start) == ([{"one": False}, {"one": True}], [{"susan": 4}, {"susan": 2}])
    assert await trail(two, "node") == [("springtide", "node.drain"), ("springtide", "node.undrain")]


async def test_the_past_has_the_cancelling_of_a_maintenance_that_holds(two):
    start = two.clock.now
    job = await two.submit(gpus=1)
    await two.state(job.id, "running")
    made = await booked(two, "one", start=1)
    await two.later(1.5 * HOUR)
    await two.engine.cancel_booking(made.booking.number, "susan")
    await two.later(HOUR)
    assert (await changes(two, start))[0] == [{"one": False}, {"one": True}]
    assert await trail(two, "node") == [("springtide", "node.drain"), ("susan", "node.undrain")]


async def test_the_past_has_each_time_of_a_maintenance_that_comes_again(two):
    start = two.clock.now
    job = await two.submit(gpus=1)
    await two.state(job.id, "running")
    every = wire.Weekly(days="daily", opens="20:00", closes="21:00")
    await two.engine.book(wire.BookingRequest(nodes=("one",), every=every), "admin")
    first = two.engine.bookings().items[0].start
    for at in (0.5, 1.5, 24.5, 25.5, 26.5):
        await two.later(first + at * HOUR - two.clock.now)
    assert (await changes(two, start))[0] == [{"one": False}, {"one": True}] * 2


async def test_a_question_about_the_future_says_so(two):
    with pytest.raises(Refusal, match="The time starts in the future"):
        await two.engine.past.begin("susan", wire.PastWhatIf(start=two.clock.now + HOUR), None)


@pytest.mark.parametrize("named", [True, False])
async def test_a_question_about_the_past_says_where_it_ends(two, named):
    await two.submit(gpus=1)
    await two.later(HOUR)
    end = two.clock.now if named else None
    run = await two.engine.past.begin("susan", wire.PastWhatIf(end=end), None)
    for _ in range(600):
        if run.comparison is not None:
            break
        await asyncio.sleep(0.1)
        run = two.engine.past.runs.of("susan", run.id)
    found = run.comparison
    at = two.clock.now if named else two.clock.now // 600 * 600
    assert found.end == at
    assert (f"The time ends at {utc(at)}" in found.notes[0]) is not named


async def test_a_drain_of_an_admin_outlasts_a_maintenance(two):
    await booked(two, "one", start=1)
    await two.engine.drain_node(wire.DrainRequest(node="one", why="broken"), "admin")
    await two.later(HOUR)
    await two.later(2 * HOUR)
    assert numbers(two) == []
    assert node(two, "one").drain.why == "broken"


async def test_a_drain_that_ends_within_a_maintenance_is_accepted_and_opens_nothing(two):
    await booked(two, "one", start=0, hours=2)
    until = two.clock.now + HOUR
    await two.engine.drain_node(wire.DrainRequest(node="one", why="a fan", until=until), "bob")
    await two.later(HOUR)
    assert not node(two, "one").available
    await two.later(HOUR)
    assert node(two, "one").available


async def test_a_booking_drains_its_node_at_once_when_the_drain_of_an_admin_ends(two):
    made = await booked(two, "one", start=0)
    booking = made.booking.number
    assert node(two, "one").drain.booking == booking
    await two.engine.drain_node(wire.DrainRequest(node="one", why="mine"), "susan")
    assert (node(two, "one").drain.by, node(two, "one").drain.booking) == ("susan", None)
    await two.engine.undrain_node(wire.UndrainRequest(node="one"), "susan")
    assert (node(two, "one").drain.by, node(two, "one").drain.booking) == ("admin", booking)
    assert await trail(two, "node") == [
        ("springtide", "node.drain"),
        ("susan", "node.drain"),
        ("susan", "node.undrain"),
        ("springtide", "node.drain"),
    ]


async def test_a_node_in_maintenance_is_undrained_by_cancelling(two):
    made = await booked(two, "one", start=1)
    await two.later(HOUR)
    with pytest.raises(Refusal, match=f"drained for booking {made.booking.number}"):
        await two.engine.undrain_node(wire.UndrainRequest(node="one"), "admin")
    await two.engine.cancel_booking(made.booking.number, "root")
    assert node(two, "one").available
    assert (await trail(two))[-1] == ("root", "booking.cancel")
    with pytest.raises(Refusal, match="There is no booking"):
        await two.engine.cancel_booking(made.booking.number, "root")


async def test_making_a_booking_can_be_undone(two):
    made = await booked(two, "one")
    await two.engine.undo(made.booking.number, "root", members={})
    assert numbers(two) == []
    assert node(two, "one").available
    with pytest.raises(Refusal, match="taken back already"):
        await two.engine.undo(made.booking.number, "root", members={})


async def test_a_build_node_in_maintenance_takes_no_workspace(two):
    await booked(two, "build", start=1)
    await two.engine.reserve_workspace("susan", "", 1, ["susan"])
    await two.later(HOUR)
    with pytest.raises(Refusal, match="only 0 build GPUs are free"):
        await two.engine.reserve_workspace("joe", "", 1, ["joe"])
    await two.later(HOUR)
    await two.engine.reserve_workspace("joe", "", 1, ["joe"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "A booking names nodes or a project"),
        ({"nodes": ("one",), "project": "susan", "gpus": 1}, "either nodes or a project"),
        ({"nodes": ("three",)}, "There is no node"),
        ({"nodes": ("one",), "start": -10.0}, "The start has passed already"),
        ({"nodes": ("one",), "end": -10.0}, "The end has passed already"),
        ({"nodes": ("one",), "start": 9 * HOUR}, "before its start"),
        ({"nodes": ("one",), "gpus": 2}, "closes whole nodes"),
        ({"nodes": ("one",), "why": "\x1b[2J"}, "control characters"),
        ({"project": "nobody", "gpus": 2}, "There is no project"),
        ({"project": "susan"}, "at least one GPU"),
        ({"project": "susan", "gpus": 2, "lends": {"joe": 3}}, "cannot lend 3 GPUs: its quota is 2"),
        ({"project": "susan", "gpus": 2, "lends": {"susan": 1}}, "cannot lend to itself"),
        ({"project": "susan", "gpus": 3}, "would add up to 9 GPUs; the pool has 8 train GPUs"),
    ],
)
async def test_what_cannot_be_booked_is_refused_in_words(two, fields, message):
    now = two.clock.now
    times = {key: (now + fields[key] if fields[key] > 0 else 1.0) for key in ("start", "end") if key in fields}
    request = wire.BookingRequest(**{"end": now + 5 * HOUR, **fields, **times})
    with pytest.raises(Refusal, match=message):
        await two.engine.book(request, "admin")
    assert numbers(two) == []


async def test_a_booking_for_a_project_raises_its_quota_for_the_time(two):
    await booked(two, project="susan", gpus=2)
    lent = [await two.submit(who, gpus=1) for who in ("joe", "jemma") for _ in range(4)]
    for job in lent:
        await two.state(job.id, "running")
    mine = await two.submit(gpus=4)
    await two.idle()
    assert (await two.job(mine.id)).state == "queued"
    assert quota(two, "susan") == 2
    await two.later(2 * HOUR)
    assert quota(two, "susan") == 4
    await two.state(mine.id, "running")
    assert {view.name: view.held for view in two.engine.pool().projects} == {"susan": 4, "joe": 2, "jemma": 2}
    await two.later(HOUR)
    assert quota(two, "susan") == 2
    assert numbers(two) == []


async def test_a_project_lends_of_its_quota_if_an_admin_says_so(two):
    await booked(two, project="susan", gpus=4, lends={"joe": 1, "jemma": 1})
    await two.later(2 * HOUR)
    assert [quota(two, name) for name in ("susan", "joe", "jemma")] == [6, 1, 1]
    await two.restart()
    assert [quota(two, name) for name in ("susan", "joe", "jemma")] == [6, 1, 1]
    await two.set_clock(-HOUR)
    assert [quota(two, name) for name in ("susan", "joe", "jemma")] == [2, 2, 2]
    await two.later(HOUR)
    await two.later(HOUR)
    assert [quota(two, name) for name in ("susan", "joe", "jemma")] == [2, 2, 2]


async def test_a_quota_for_a_time_and_a_booking_of_the_same_project_end_apart(two):
    await booked(two, project="susan", gpus=2, start=1, hours=2)
    until = two.clock.now + 2 * HOUR
    await two.engine.edit_project("susan", wire.ProjectEdit(quota=1, until=until), "admin", members={})
    await two.later(HOUR)
    assert quota(two, "susan") == 3
    await two.later(HOUR)
    assert quota(two, "susan") == 4
    await two.later(HOUR)
    assert quota(two, "susan") == 2


def as_set(pool, name: str) -> Any:
    return next(view for view in pool.engine.pool().projects if view.name == name).set_quota


async def test_a_quota_that_is_changed_during_a_booking_is_what_was_typed_after_it(two):
    await booked(two, project="susan", gpus=2, start=0)
    assert (quota(two, "susan"), as_set(two, "susan")) == (4, 2)
    edit = wire.ProjectEdit(quota=1)
    changed = await two.engine.edit_project("susan", edit, "admin", members={})
    assert (changed.quota, changed.set_quota) == (3, 1)
    await two.later(HOUR)
    assert (quota(two, "susan"), as_set(two, "susan")) == (1, 1)


async def test_two_bookings_do_not_lend_the_same_gpus(two):
    await booked(two, project="susan", gpus=1, lends={"joe": 2})
    with pytest.raises(
        Refusal, match=r"“joe” would lend 3 GPUs of a quota of 2 by booking \d+ \(for “susan”\) and this booking\."
    ) as refused:
        await booked(two, project="jemma", gpus=1, lends={"joe": 1})
    assert (refused.value.status, refused.value.field) == (409, "lends")
    await booked(two, project="jemma", gpus=1, lends={"joe": 1}, start=3)
    for expected in (2, 0, 1, 2):
        assert (quota(two, "joe"), as_set(two, "joe")) == (expected, 2)
        await two.later(2 * HOUR if expected == 2 else HOUR)


@pytest.mark.parametrize("start", [0, 2])
async def test_a_project_keeps_what_it_lends_by_a_booking(two, start):
    await booked(two, project="susan", gpus=2, lends={"joe": 2}, start=start)
    (number,) = numbers(two)
    message = rf"“joe” would lend 2 GPUs of a quota of 1 by booking {number} \(for “susan”\)\."
    with pytest.raises(Refusal, match=message) as refused:
        await two.engine.edit_project("joe", wire.ProjectEdit(quota=1), "admin", members={})
    assert (refused.value.status, refused.value.field) == (409, "quota")
    assert refused.value.hint == f"Let it keep what it lends, or change or cancel booking {number} first."
    await two.engine.edit_project("joe", wire.ProjectEdit(quota=3), "admin", members={})
    await two.later((start + 1) * HOUR)
    assert quota(two, "joe") == 3


async def test_what_a_project_holds_beyond_its_set_quota_is_not_borrowed_while_it_is_booked(two):
    job = await two.submit("susan", gpus=4)
    await two.state(job.id, "running")
    view = next(view for view in two.engine.pool().projects if view.name == "susan")
    assert (view.quota, view.held, view.borrowed) == (2, 4, 2)
    await booked(two, project="susan", gpus=2, start=0)
    view = next(view for view in two.engine.pool().projects if view.name == "susan")
    assert (view.quota, view.held, view.borrowed) == (4, 4, 0)


async def test_quotas_that_would_break_a_booking_to_come_are_refused(two):
    made = await booked(two, project="susan", gpus=2)
    with pytest.raises(Refusal, match=f"With booking {made.booking.number}: .* add up to 9 GPUs"):
        await two.engine.edit_project("joe", wire.ProjectEdit(quota=3), "admin", members={})
    with pytest.raises(Refusal, match="is for “susan”"):
        await two.engine.delete_project("susan", "admin")
    await two.engine.cancel_booking(made.booking.number, "admin")
    await two.engine.edit_project("joe", wire.ProjectEdit(quota=3), "admin", members={})


async def test_a_booking_for_a_project_counts_the_nodes_in_maintenance(two):
    await booked(two, "one")
    with pytest.raises(Refusal, match="the pool has 4 train GPUs"):
        await booked(two, project="susan", gpus=1)
    await booked(two, project="susan", gpus=2, start=4)


async def test_two_gpus_until_friday_a_maintenance_and_a_restart_in_between(two):
    friday = two.clock.now + 50 * HOUR
    await two.engine.edit_project("susan", wire.ProjectEdit(quota=4, until=friday), "admin", members={})
    await booked(two, "two", start=10, hours=4)
    await booked(two, project="jemma", gpus=1, start=60, hours=4)
    works = await two.submit(gpus=4)
    await two.state(works.id, "running")
    for step, back in ((9.5, 0), (1.0, -0.25), (1.0, 0), (3.0, 0), (30.0, -2.0), (8.0, 0), (10.0, 0), (5.0, 0)):
        await two.later(step * HOUR)
        if back:
            await two.set_clock(back * HOUR)
        await two.restart()
        await two.idle()
        now, start = two.clock.now, friday - 50 * HOUR
        maintained = start + 10 * HOUR <= now < start + 14 * HOUR
        assert node(two, "two").available is not maintained
        assert not (maintained and held(two, "two"))
        assert quota(two, "susan") == (4 if now < friday else 2)
        assert quota(two, "jemma") == (3 if start + 60 * HOUR <= now < start + 64 * HOUR else 2)
        assert (await two.job(works.id)).state == "running"


async def test_a_booking_comes_again_and_again_over_restarts_and_steps_of_the_clock(two):
    nights = wire.Weekly(days="mon-fri", opens="20:00", closes="08:00")
    request = wire.BookingRequest(project="susan", gpus=2, every=nights)
    made = await two.engine.book(request, "admin")
    assert made.booking.repeats == "Mon, Tue, Wed, Thu, Fri from 20:00 to 08:00, UTC"
    monday = datetime(1970, 1, 12, tzinfo=UTC).timestamp()
    hours = (14, 21, 31, 33, 45, 55, 57, 120, 129, 137, 168, 189)
    for step, hour in enumerate(hours):
        await two.later(monday + hour * HOUR - two.clock.now)
        if step % 3 == 1:
            await two.restart()
            await two.idle()
        if step % 4 == 3:
            await two.set_clock(-60.0)
            await two.set_clock(60.0)
        wall = datetime.fromtimestamp(two.clock.now, UTC)
        night = (wall.hour >= 20 and wall.weekday() < 5) or (wall.hour < 8 and (wall.weekday() - 1) % 7 < 5)
        assert quota(two, "susan") == (4 if night else 2), wall
        assert two.engine.bookings().items[0].begun is night
    begun = [what for _, what in await trail(two)]
    assert begun.count("booking.begin") > begun.count("booking.cancel") == 0
    await two.engine.cancel_booking(made.booking.number, "admin")
    assert quota(two, "susan") == 2


async def test_a_weekend_quota_two_gpus_until_friday_and_a_maintenance_over_jumps_and_a_service_that_was_away(two):
    monday = datetime(1970, 1, 12, tzinfo=UTC).timestamp()
    friday, wednesday = monday + (4 * 24 + 18) * HOUR, monday + (2 * 24 + 12) * HOUR
    await two.engine.edit_project("susan", wire.ProjectEdit(quota=4, until=friday), "admin", members={})
    await two.engine.book(wire.BookingRequest(nodes=("two",), start=wednesday, end=wednesday + 2 * HOUR), "admin")
    weekends = wire.Weekly(days="sat,sun", opens="00:00", closes="00:00")
    await two.engine.book(wire.BookingRequest(project="jemma", gpus=2, every=weekends), "admin")

    async def jumps(hours: float) -> None:
        await two.set_clock(hours * HOUR)

    async def is_away(hours: float) -> None:
        await two.stop()
        two.clock.now += hours * HOUR
        await two.start()

    async def passes(hours: float) -> None:
        await two.later(hours * HOUR)

    steps = [
        *((20, passes), (61, is_away), (63, jumps), (110, jumps), (115, is_away), (121, jumps), (119, jumps)),
        *((150, is_away), (140, jumps), (169, jumps), (291, is_away), (338, jumps), (458, is_away), (506, passes)),
    ]
    for hour, comes in steps:
        await comes((monday + hour * HOUR - two.clock.now) / HOUR)
        await two.idle()
        now = two.clock.now
        wall = datetime.fromtimestamp(now, UTC)
        assert quota(two, "susan") == (4 if now < friday else 2), wall
        assert quota(two, "jemma") == (4 if wall.weekday() >= 5 else 2), wall
        assert node(two, "two").available is not (wednesday <= now < wednesday + 2 * HOUR), wall


async def test_a_maintenance_of_each_week_is_known_before_it_comes(two):
    await two.engine.book(
        wire.BookingRequest(nodes=("one", "two"), every=wire.Weekly(days="daily", opens="20:00", closes="21:00")),
        "admin",
    )
    job = await two.submit(gpus=4, time_limit=30 * HOUR)
    await two.idle()
    assert (await two.job(job.id)).reason.code == "node-closes-first"
    short = await two.submit(gpus=4, time_limit=HOUR)
    await two.state(short.id, "running")
    later = (await booked(two, "two", start=30, hours=1)).notes
    assert not [note for note in later if "checkpoint" in note], "its time limit ends it before"


async def test_what_comes_again_must_fit_each_time(two):
    await booked(two, "one", start=30, hours=30)
    nights = wire.Weekly(days="daily", opens="20:00", closes="08:00")
    with pytest.raises(Refusal, match=r"From .* UTC on: .* the pool has 4 train GPUs"):
        await two.engine.book(wire.BookingRequest(project="susan", gpus=2, every=nights), "admin")
    odd = wire.Weekly(days="daily", opens="20:00", closes="08:00", zone="Mars")
    with pytest.raises(Refusal, match="is no time zone"):
        await two.engine.book(wire.BookingRequest(nodes=("two",), every=odd), "admin")
    with pytest.raises(Refusal, match="either an end or times that come again"):
        await two.engine.book(wire.BookingRequest(nodes=("two",), end=2e6, every=nights), "admin")
    with pytest.raises(Refusal, match="A booking has an end"):
        await two.engine.book(wire.BookingRequest(nodes=("two",)), "admin")


async def test_a_booking_is_of_its_gpu_type_also_when_another_joins_the_pool(pool, tmp_path):
    old, new = (structs.replace(worlds.node(name, 8), gpu_type=name) for name in ("v100", "a100"))
    other = type(pool)(tmp_path / "other", worlds.MemoryExecutor(nodes=(old,)))
    await other.start()
    try:
        made = await booked(other, project="susan", gpus=2)
        assert made.booking.gpus == {"v100": 2}
        other.executor.change_nodes(new, old)
        await other.idle()
        for hours, raised in ((0, 2), (2, 4), (1, 2)):
            await other.later(hours * HOUR)
            found = as_table(quota(other, "susan"), ("v100", "a100"))
            assert found == {"v100": raised, "a100": 0}
    finally:
        await other.stop()


async def test_the_calendar_has_the_begins_and_ends_of_bookings_and_each_time_of_those_that_come_again(two):
    now = two.clock.now
    await booked(two, "one", "two", start=2, hours=1)
    await booked(two, project="susan", gpus=2, start=4, hours=24 * 30)
    noons = wire.Weekly(days="daily", opens="12:00", closes="13:00")
    await two.engine.book(wire.BookingRequest(nodes=("one",), every=noons), "admin")
    entries = (await two.engine.home.home()).calendar
    said = [(each.at - now, each.said, each.ends) for each in entries]
    assert (2 * HOUR, "The maintenance of one and two begins.", False) in said
    assert (3 * HOUR, "The maintenance of one and two ends.", True) in said
    assert (4 * HOUR, "The booking of 2 GPUs for “susan” begins.", False) in said
    assert "The booking of 2 GPUs for “susan” ends." not in [words for _, words, _ in said], "it ends after a week"
    assert [words for _, words, _ in said].count("The maintenance of one begins.") in {6, 7}
    assert {(each.kind, each.page) for each in entries} == {("booking", "pool")}


async def test_the_calendar_names_the_end_of_a_maintenance_once(two):
    await booked(two, "one", start=0, hours=1)
    assert not node(two, "one").available
    assert [each.said for each in (await two.engine.home.home()).calendar] == ["The maintenance of one ends."]


async def test_undo_is_offered_while_there_is_a_booking_and_says_that_it_is_over(two):
    async def made() -> wire.AuditEntry:
        return (await two.engine.audit(None, 20, AuditQuery(what="booking.make"))).items[0]

    number = (await booked(two, "one")).booking.number
    assert (await made()).undo
    await two.engine.cancel_booking(number, "admin")
    assert not (await made()).undo
    with pytest.raises(Refusal, match=f"Booking {number} has ended or was cancelled") as refused:
        await two.engine.undo(number, "admin", members={})
    assert refused.value.status == 409
    number = (await booked(two, "one")).booking.number
    assert (await two.engine.undo(number, "admin", members={})).what == "undo.booking.make"
    await booked(two, "one", start=0, hours=1)
    await two.later(HOUR + 60)
    assert not (await made()).undo, "it has ended"


async def test_the_answer_names_bookings_that_close_the_same_node_at_the_same_time(two):
    first = await booked(two, "one", "two", hours=2)
    assert not [note for note in first.notes if "closes" in note]
    notes = (await booked(two, "two", start=3, hours=2)).notes
    assert f"Booking {first.booking.number} closes two at a part of this time, too." in notes
    assert "closes" not in " ".join((await booked(two, "one", start=4)).notes), "it begins as the first one ends"


async def daily(pool, opens: str, closes: str, **more: Any) -> wire.NewBooking:
    every = structs.replace(wire.Weekly(days="daily", opens=opens, closes=closes), **more)
    return await pool.engine.book(wire.BookingRequest(nodes=("one",), every=every), "admin")


async def test_the_answer_says_that_a_booking_never_pauses(two):
    made = await daily(two, "20:00", "20:00")
    never = "Each time begins when the one before ends: it never opens, until the booking is cancelled."
    assert never in made.notes
    await two.engine.cancel_booking(made.booking.number, "admin")
    assert not [note for note in (await daily(two, "20:00", "19:00")).notes if "never" in note]


@pytest.mark.parametrize(
    ("field", "words"), [("days", "someday"), ("opens", "25:00"), ("closes", "8"), ("zone", "Europe/Nowhere")]
)
async def test_the_refusal_of_a_repeated_time_names_what_is_wrong(two, field, words):
    with pytest.raises(Refusal, match=words) as refused:
        await daily(two, **{"opens": "20:00", "closes": "21:00", field: words})
    assert refused.value.field == f"every.{field}"


async def test_a_start_that_is_the_end_is_no_time(two):
    with pytest.raises(Refusal, match="that is no time"):
        await booked(two, "one", hours=0)


async def test_a_team_whose_department_is_full_is_advised_to_book_for_that_first(two):
    await two.engine.create_project("team", wire.ProjectEdit(parent="susan", quota=2), "admin", members={})
    with pytest.raises(Refusal, match=r"From .* the quota of “susan” is 2") as refused:
        await booked(two, project="team", gpus=1, lends={"joe": 1})
    assert refused.value.hint.startswith("Book the GPUs for “susan” first")
    await booked(two, project="susan", gpus=1, lends={"joe": 1})
    await booked(two, project="team", gpus=1)


async def test_who_named_a_lender_that_lends_too_little_is_not_asked_to_name_one(two):
    with pytest.raises(Refusal) as refused:
        await booked(two, project="susan", gpus=8, lends={"joe": 1})
    assert refused.value.hint == "Let them lend more, name others too, book fewer, or at another time."


async def test_a_job_that_runs_names_the_maintenance_that_will_pause_it(two):
    long = await two.submit("susan", gpus=4)
    await two.state(long.id, "running")
    short = await two.submit("joe", gpus=4, time_limit=600.0)
    await two.state(short.id, "running")
    (node,) = {gpu.node for gpu in (await two.job(long.id)).held}
    await booked(two, "one", "two", start=1, why="A fan")
    why = (await two.job(long.id)).reason
    assert f"The node {node} has maintenance from 1970-01-12 14:46 UTC to 1970-01-12 15:46 UTC. A fan." in why.text
    assert "it is asked to save, is paused, and runs again as soon as GPUs are free for it." in why.text
    assert "maintenance" not in (await two.job(short.id)).reason.text, "its time limit ends it before"


async def request_to_change(pool, number: int, **more: Any) -> wire.BookingRequest:
    """The request that changes a booking in some fields only."""
    view = next(each for each in pool.engine.bookings().items if each.number == number)
    whole = {
        "nodes": view.nodes,
        "project": view.project or None,
        "gpus": view.gpus or 0,
        "lends": dict(view.lends),
        "start": None if view.begun else view.start,
        "end": view.end,
        "why": view.why,
    }
    return wire.BookingRequest(**{**whole, **more}, replaces=number)


async def test_a_booking_is_changed_and_changed_back_under_its_number(two):
    made = await booked(two, project="susan", gpus=2)
    number, end = made.booking.number, made.booking.end
    changed = await two.engine.book(await request_to_change(two, number, gpus=1, end=end + HOUR), "joe")
    assert (changed.booking.number, changed.booking.gpus, changed.booking.end) == (number, 1, end + HOUR)
    assert numbers(two) == [number]
    entry = await two.engine.audit_entry(changed.entry)
    assert (entry.what, entry.who, entry.before["gpus"], entry.after["gpus"]) == ("booking.change", "joe", 2, 1)
    assert entry.undo
    await two.engine.undo(changed.entry, "admin", members={})
    back = two.engine.bookings().items[0]
    assert (back.number, back.gpus, back.start, back.end) == (number, 2, made.booking.start, end)
    assert [what for _, what in await trail(two)] == ["booking.make", "booking.change", "undo.booking.change"]


async def test_a_change_that_was_followed_by_another_is_not_taken_back(two):
    made = await booked(two, project="susan", gpus=2)
    number = made.booking.number
    first = await two.engine.book(await request_to_change(two, number, gpus=1), "admin")
    await two.engine.book(await request_to_change(two, number, why="Later."), "admin")
    with pytest.raises(Refusal, match="was changed since"):
        await two.engine.undo(first.entry, "admin", members={})


async def test_a_booking_that_holds_is_made_longer_without_a_gap(two):
    job = await two.submit(gpus=1)
    await two.state(job.id, "running")
    made = await booked(two, "one", start=0, why="A fan.")
    quotas = await booked(two, project="susan", gpus=1, start=0, lends={"joe": 1})
    await two.later(0.5 * HOUR)
    later = two.clock.now + 3 * HOUR
    for number in (made.booking.number, quotas.booking.number):
        changed = await two.engine.book(await request_to_change(two, number, end=later), "admin")
        assert changed.booking.begun
        assert changed.booking.start == two.clock.now - 0.5 * HOUR
    view = node(two, "one")
    assert (view.available, view.drain.until, view.drain.since) == (False, later, two.clock.now - 0.5 * HOUR)
    assert quota(two, "susan") == 3
    assert "node.undrain" not in [what for _, what in await trail(two, "node")]
    await two.later(2 * HOUR)
    assert (node(two, "one").available, quota(two, "susan")) == (False, 3)
    await two.later(HOUR)
    assert (node(two, "one").available, quota(two, "susan")) == (True, 2)
    assert numbers(two) == []


async def test_a_booking_that_holds_is_changed_to_begin_later(two):
    made = await booked(two, "one", "two", start=0)
    assert not node(two, "one").available
    start = two.clock.now + HOUR
    request = await request_to_change(two, made.booking.number, nodes=("one",), start=start, end=start + HOUR)
    await two.engine.book(request, "admin")
    assert (node(two, "one").available, node(two, "two").available) == (True, True)
    await two.later(HOUR)
    assert (node(two, "one").available, node(two, "two").available) == (False, True)


async def test_the_sums_of_a_changed_booking_leave_out_what_it_was(two):
    made = await booked(two, project="susan", gpus=2, start=0)
    assert quota(two, "susan") == 4
    changed = await two.engine.book(await request_to_change(two, made.booking.number, why="The same."), "admin")
    assert (changed.booking.gpus, quota(two, "susan")) == (2, 4)
    with pytest.raises(Refusal, match="would add up to 9 GPUs"):
        await two.engine.book(await request_to_change(two, made.booking.number, gpus=3), "admin")
    assert quota(two, "susan") == 4
    await two.engine.book(await request_to_change(two, made.booking.number, project="joe"), "admin")
    assert (quota(two, "susan"), quota(two, "joe")) == (2, 4)
    with pytest.raises(Refusal, match="There is no booking 999"):
        await two.engine.book(wire.BookingRequest(nodes=("one",), end=two.clock.now + 1, replaces=999), "admin")


@pytest.mark.parametrize("start", [0.0, 2.0])
async def test_a_cancelled_booking_comes_back(two, start):
    made = await booked(two, project="susan", gpus=2, start=start, lends={"joe": 1}, why="A deadline.")
    cancelled = await two.engine.cancel_booking(made.booking.number, "admin")
    assert quota(two, "susan") == 2
    await two.engine.undo(cancelled.entry, "admin", members={})
    await two.idle()
    back = two.engine.bookings().items[0]
    assert (back.gpus, back.end, back.lends, back.why) == (2, made.booking.end, {"joe": 1}, "A deadline.")
    assert (quota(two, "susan"), quota(two, "joe")) == ((4, 1) if start == 0 else (2, 2))
    assert ("admin", "undo.booking.cancel") in await trail(two)


async def test_a_cancelled_booking_that_comes_again_comes_back_and_one_that_is_over_does_not(two):
    every = wire.Weekly(days="sat,sun", opens="20:00", closes="08:00", zone="Europe/Berlin")
    made = await two.engine.book(wire.BookingRequest(nodes=("one",), every=every), "admin")
    assert made.booking.every == every
    cancelled = await two.engine.cancel_booking(made.booking.number, "admin")
    short = await booked(two, "two", start=1)
    over = await two.engine.cancel_booking(short.booking.number, "admin")
    await two.later(3 * HOUR)
    assert not (await two.engine.audit_entry(over.entry)).undo
    with pytest.raises(Refusal, match="would have ended"):
        await two.engine.undo(over.entry, "admin", members={})
    entry = await two.engine.audit_entry(cancelled.entry)
    assert entry.before["every"] == {
        "days": "sat,sun",
        "opens": "20:00",
        "closes": "08:00",
        "zone": "Europe/Berlin",
    }
    await two.engine.undo(cancelled.entry, "admin", members={})
    back = two.engine.bookings().items[0]
    assert back.every == every
    daily_now = wire.BookingRequest(
        nodes=("one",), every=structs.replace(every, days="daily"), replaces=back.number
    )
    changed = await two.engine.book(daily_now, "admin")
    await two.engine.undo(changed.entry, "admin", members={})
    assert two.engine.bookings().items[0].every == every


async def test_a_booking_of_whose_repeated_times_a_trail_has_words_alone_is_not_guessed(two):
    words = {"start": 1.0, "end": 2.0, "number": 1, "repeats": "Sat from 8:00 to 9:00, UTC", "nodes": ["one"]}
    number = await two.engine.record("admin", "booking.cancel", "one", words, {})
    assert not (await two.engine.audit_entry(number)).undo
    with pytest.raises(
        Refusal, match="of an earlier version, which kept the repeated times of a booking in words"
    ):
        await two.engine.undo(number, "admin", members={})
    assert numbers(two) == []


async def test_times_less_than_a_minute_apart_are_told_apart(two):
    with pytest.raises(
        Refusal, match="end at 1970-01-12 13:46:50 UTC, before its start at 1970-01-12 13:47:00 UTC"
    ):
        await two.engine.book(
            wire.BookingRequest(nodes=("one",), start=two.clock.now + 20, end=two.clock.now + 10), "admin"
        )


def everybody(_user: str, _project: str) -> bool:
    return True


async def preview(pool, **fields: Any) -> wire.BookingPreview:
    at = pool.clock.now
    request = wire.BookingRequest(**{"start": at + HOUR, "end": at + 2 * HOUR, **fields})
    return await pool.engine.preview_booking(request, "admin", sees=everybody)


async def test_a_preview_says_whose_jobs_would_be_paused_and_books_nothing(two):
    lent = [await two.submit(who, gpus=1, name=f"{who}-{n}") for who in ("joe", "jemma") for n in range(4)]
    for job in lent:
        await two.state(job.id, "running")
    found = await preview(two, project="susan", gpus=2)
    assert found.refused is None
    assert sorted((each.kind, each.gpus) for each in found.displaced) == [("paused", 1)] * 4
    assert {each.project for each in found.displaced} == {"joe", "jemma"}
    said = " ".join(found.said)
    assert "Meanwhile the quota of “susan” is 4 instead of 2." in said
    assert "0 GPUs are beyond all quotas then, instead of 2: other projects can borrow 2 fewer" in said
    assert "would be paused until other GPUs are free." in said
    assert found.displaced[0].name in said
    assert (numbers(two), quota(two, "susan"), await trail(two)) == ([], 2, [])

    made = await booked(two, project="susan", gpus=2, start=1)
    mine = await two.submit("susan", gpus=4)
    await two.later(HOUR)
    await two.state(mine.id, "running")
    paused = [job.id for job in lent if (await two.job(job.id)).state == "paused"]
    assert len(paused) == 4
    assert made.booking.number in numbers(two)


async def test_a_preview_of_a_change_of_a_booking_that_holds_does_not_speak_of_its_begin(two):
    made = await booked(two, project="susan", gpus=2, start=0)
    (said,) = {
        each
        for each in (await preview(two, project="susan", gpus=1, start=None, replaces=made.booking.number)).said
        if "used all of its quota" in each
    }
    assert said == "If “susan” used all of its quota now, no job would be paused for it."


async def test_a_preview_of_gpus_that_nobody_borrows_pauses_nobody(two):
    found = await preview(two, project="susan", gpus=2, lends={"joe": 1})
    assert found.displaced == ()
    said = " ".join(found.said)
    assert "the quota of “joe” is 1 instead of 2." in said
    assert "1 GPU is beyond all quotas then, instead of 2" in said
    assert "no job would be paused for it." in said


async def test_a_preview_of_a_maintenance_names_the_jobs_there(two):
    job = await two.submit(gpus=4, name="bert")
    await two.state(job.id, "running")
    where = next(name for name in ("one", "two") if held(two, name))
    found = await preview(two, nodes=(where,))
    said = " ".join(found.said)
    assert f"“bert” ({job.id}) runs there now." in said
    assert "The quotas add up to 6 GPUs, and 4 are left meanwhile" in said
    assert f"{where} closes: 4 GPUs." in said
    idle = "two" if where == "one" else "one"
    assert "No job runs there now." in " ".join((await preview(two, nodes=(idle,))).said)


async def test_what_does_not_fit_says_from_when_on_it_does(two):
    first = await booked(two, project="susan", gpus=2, start=1, hours=3)
    found = await preview(two, project="joe", gpus=2)
    assert found.refused.field == "gpus"
    assert "would add up to 10 GPUs; the pool has 8 train GPUs" in found.refused.message
    assert found.fits_from == two.clock.now
    later = await preview(two, project="joe", gpus=2, start=two.clock.now + 3 * HOUR, end=two.clock.now + 5 * HOUR)
    assert later.fits_from == first.booking.end
    assert "It fits from" in later.refused.hint
    at = two.clock.now
    fitting = await preview(two, project="joe", gpus=2, start=later.fits_from, end=later.fits_from + 2 * HOUR)
    assert fitting.refused is None
    never = await preview(two, project="joe", gpus=7)
    assert (never.refused.code, never.fits_from) == ("sums", None)
    senseless = await preview(two, nodes=("three",))
    assert (senseless.refused.field, senseless.fits_from) == ("nodes", None)
    assert (await preview(two, nodes=("one",), end=at - 1)).refused.field == "end"


async def lowered(pool, hours: float) -> None:
    """Give susan a quota of 4 for good, and of 3 for some hours: 1 GPU is in nobody's quota until then."""
    for quota, until in ((4, None), (3, pool.clock.now + hours * HOUR)):
        await pool.engine.edit_project("susan", wire.ProjectEdit(quota=quota, until=until), "admin", members={})


async def test_a_booking_that_would_keep_a_quota_from_returning_is_refused(two):
    at = two.clock.now
    await lowered(two, 3)
    with pytest.raises(Refusal, match=r"From 1970-01-12 16:46 UTC on: .* add up to 9 GPUs") as refused:
        await booked(two, project="joe", gpus=1, start=2, hours=2)
    assert "It fits from 1970-01-12 14:46 UTC on." in refused.value.hint
    made = await booked(two, project="joe", gpus=1, start=1, hours=2)
    assert made.booking.end == at + 3 * HOUR
    await two.later(3 * HOUR)
    assert (quota(two, "susan"), quota(two, "joe")) == (4, 2)


async def test_a_change_after_which_a_quota_cannot_return_for_a_booking_says_so(two):
    await lowered(two, 3)
    made = await booked(two, project="joe", gpus=1, start=1, hours=2)
    earlier = wire.ProjectEdit(quota=3, until=two.clock.now + 2 * HOUR)
    [note] = (await two.engine.edit_project("susan", earlier, "admin", members={})).notes
    assert note.startswith("The quota of “susan” cannot return to 4 at 1970-01-12 15:46 UTC: ")
    assert f"With booking {made.booking.number}: The quotas of the top projects would add up to 9 GPUs" in note
    await two.later(2 * HOUR)
    assert quota(two, "susan") == 3
    await two.later(HOUR)
    assert (quota(two, "susan"), quota(two, "joe")) == (4, 2)


async def test_a_quota_that_has_returned_when_a_booking_begins_does_not_stand_in_its_way(two):
    edit = wire.ProjectEdit(quota=4, until=two.clock.now + 2 * HOUR)
    await booked(two, project="joe", gpus=2, start=2)
    assert (await two.engine.edit_project("susan", edit, "admin", members={})).notes == []
    await two.later(2 * HOUR)
    assert (quota(two, "susan"), quota(two, "joe")) == (2, 4)


async def test_a_change_for_good_leaves_room_for_what_returns_during_a_booking(two):
    await two.engine.edit_project("susan", wire.ProjectEdit(quota=1), "admin", members={})
    await two.engine.edit_project("jemma", wire.ProjectEdit(quota=3), "admin", members={})
    less = wire.ProjectEdit(quota=2, until=two.clock.now + 3 * HOUR)
    await two.engine.edit_project("jemma", less, "admin", members={})
    made = await booked(two, project="joe", gpus=2, start=2, hours=2)
    with pytest.raises(Refusal, match=f"With booking {made.booking.number}: .* add up to 9 GPUs"):
        await two.engine.edit_project("susan", wire.ProjectEdit(quota=2), "admin", members={})


async def test_a_booking_stays_within_the_limit_that_returns_during_it(two):
    await two.engine.edit_project("joe", wire.ProjectEdit(limit=3), "admin", members={})
    more = wire.ProjectEdit(limit=4, until=two.clock.now + 3 * HOUR)
    await two.engine.edit_project("joe", more, "admin", members={})
    with pytest.raises(Refusal, match="The quota of “joe” would be 4, and its limit is 3") as refused:
        await booked(two, project="joe", gpus=2, start=2, hours=2)
    assert refused.value.message.startswith("From 1970-01-12 16:46 UTC on: ")
    await booked(two, project="joe", gpus=2, start=2, hours=1)


async def test_a_limit_below_a_coming_booking_is_said_before_and_after_it_is_lowered_and_only_then(two):
    made = await booked(two, project="joe", gpus=2, start=2, hours=2)
    said = (
        f"With booking {made.booking.number}, from 1970-01-12 15:46 UTC on: The quota of “joe” would be 4, and "
        "its limit is 3. It holds no more than its limit."
    )

    async def preview(**edit: Any) -> list[str]:
        question = wire.WhatIf(projects={"joe": wire.ProjectEdit(**edit)})
        return (await two.engine.forecast(question, "admin", None, sees=everybody, members={})).notes

    async def change(**edit: Any) -> list[str]:
        return (await two.engine.edit_project("joe", wire.ProjectEdit(**edit), "admin", members={})).notes

    assert await preview(limit=4) == await change(limit=4) == []
    assert await preview(limit=3) == await change(limit=3) == [said]
    assert await preview(weight=2.0) == await change(weight=2.0) == [], "it was so before"
    assert await change(limit=None) == []
    short = wire.ProjectEdit(limit=3, until=two.clock.now + HOUR)
    assert (await two.engine.edit_project("joe", short, "admin", members={})).notes == [], (
        "it ends before the booking"
    )


@pytest.mark.parametrize("start", [0.0, 1.0])
async def test_a_maintenance_empties_a_node_that_is_drained_until_its_jobs_end(two, start):
    job = await two.submit(gpus=4, name="bert")
    await two.state(job.id, "running")
    where = next(name for name in ("one", "two") if held(two, name))
    drain = wire.DrainRequest(node=where, why="broken", finish=True)
    await two.engine.drain_node(drain, "susan")
    await two.idle()
    assert held(two, where) == {job.id}
    made = await booked(two, where, start=start)
    assert any(note.startswith(f"“bert” ({job.id}) runs there now") for note in made.notes)
    await two.later(start * HOUR)
    assert not held(two, where)
    await two.later(HOUR)
    assert numbers(two) == []
    assert (node(two, where).drain.by, node(two, where).drain.why) == ("susan", "broken")


@pytest.mark.parametrize("what", [{"nodes": ("one",)}, {"project": "susan", "gpus": 1}])
async def test_a_booking_that_passed_while_the_service_was_away_never_held(two, what):
    start = two.clock.now + HOUR
    await two.engine.book(wire.BookingRequest(**what, start=start, end=start + HOUR), "admin")
    await two.stop()
    two.clock.now += 3 * HOUR
    await two.start()
    await two.idle()
    assert numbers(two) == []
    assert await trail(two) == [("admin", "booking.make"), ("springtide", "booking.miss")]


async def test_a_maintenance_in_months_says_nothing_of_the_work_of_a_job_of_today(two):
    job = await two.submit(gpus=4)
    await two.state(job.id, "running")
    where = next(name for name in ("one", "two") if held(two, name))
    far = await booked(two, where, start=24 * 60)
    assert not [note for note in far.notes if "checkpoint" in note]
    assert "maintenance" not in (await two.job(job.id)).reason.text
    near = await booked(two, where, start=20)
    assert [note for note in near.notes if "runs there now and has saved no checkpoint" in note]
    assert "maintenance" in (await two.job(job.id)).reason.text


async def test_a_long_job_is_named_for_a_maintenance_within_as_long_again_or_its_time_limit(two):
    job = await two.submit(gpus=4)
    limited = await two.submit(gpus=4, time_limit=90 * 24 * HOUR)
    for each in (job, limited):
        await two.state(each.id, "running")
    await two.later(3 * 24 * HOUR)
    for days, names in ((2, {job.id, limited.id}), (60, {limited.id}), (120, set())):
        notes = " ".join((await booked(two, "one", "two", start=24 * days)).notes)
        assert {each for each in (job.id, limited.id) if each in notes} == names, days


async def test_the_answer_says_how_much_is_lent_that_nobody_booked(two):
    made = await booked(two, project="susan", gpus=1, lends={"joe": 2, "jemma": 1})
    assert made.notes == ("3 GPUs are lent and 1 booked: 2 are in no project's quota meanwhile.",)
    assert (await booked(two, project="susan", gpus=1, start=5, lends={"joe": 1})).notes == ()
