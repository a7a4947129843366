"""A person leaves: her jobs are handed over or cancelled, and what she has of her own is given back."""

from __future__ import annotations

import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine.requests.departures import Leaver
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.executors.base import Exit, ExitKind
from springtide.scheduler.notifications import NotificationChoice, NotificationEvent
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import IdleRule, RuleScope

MEMBERS = {"susan": ["susan", "joe"], "joe": ["joe"], "jemma": ["jemma"]}


def leaver(name: str = "susan", to: str | None = None) -> Leaver:
    return Leaver(name, to, MEMBERS)


async def test_without_an_heir_her_jobs_are_cancelled_and_those_of_others_stay(pool):
    runs = await pool.submit("susan", gpus=1, name="runs")
    await pool.state(runs.id, "running")
    waits = await pool.submit("susan", gpus=8, name="waits")
    other = await pool.submit("joe", gpus=1)
    before = await pool.engine.audit(None, 100)
    preview = pool.engine.preview_departure(leaver(), "admin")
    assert [step.split(" of ")[0] for step in preview.steps[:2]] == [
        f"The job “runs” ({runs.id})",
        f"The job “waits” ({waits.id})",
    ]
    assert (await pool.job(waits.id)).state == "queued"
    assert await pool.engine.audit(None, 100) == before, "a preview changes nothing"

    assert (await pool.engine.leave(leaver(), "admin")).steps == preview.steps
    await pool.state(waits.id, "cancelled")
    pool.executor.end(pool.key(runs.id), code=1)
    await pool.state(runs.id, "cancelled")
    assert (await pool.job(other.id)).state in {"queued", "starting", "running"}
    assert (await pool.engine.leave(leaver(), "admin")).steps == [], "again it changes nothing"


async def test_a_waiting_job_goes_to_the_heir_at_once_and_a_running_one_when_it_is_paused(pool):
    runs = await pool.submit("susan", gpus=8, name="runs")
    await pool.state(runs.id, "running")
    waits = await pool.submit("susan", gpus=8, name="waits")
    first = await pool.engine.leave(leaver(to="joe"), "admin")
    assert first.pending == [runs.id]
    assert (await pool.job(waits.id)).user == "joe"
    assert (await pool.job(runs.id)).user == "susan"
    assert "susan leaves, and the job goes to joe" in (await pool.job(runs.id)).hold.reason

    pool.executor.end(pool.key(runs.id), code=75)
    await pool.state(runs.id, "paused")
    second = await pool.engine.leave(leaver(to="joe"), "admin")
    assert (second.pending, second.steps) == (
        [],
        [f"The job “runs” ({runs.id}) of “susan” goes to “joe”, with its outputs and checkpoints."],
    )
    job = await pool.job(runs.id)
    assert (job.user, job.hold) == ("joe", None)
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (entry.what, entry.before["user"], entry.after) == ("job.give", "susan", {"user": "joe"})


async def test_the_preview_names_the_directory_of_hers_that_the_heir_has_to_enter(pool):
    there = await pool.submit("susan", gpus=8, name="there", cwd="/home/susan/digits")
    await pool.state(there.id, "running")
    waits = await pool.submit("susan", gpus=8, name="waits", cwd="/home/susan/digits")
    steps = pool.engine.preview_departure(leaver(to="joe"), "admin").steps
    enter = "It starts in “/home/susan/digits”, which “joe” has to be able to enter."
    assert [step.endswith(enter) for step in steps[:2]] == [True, True], steps
    assert there.id in steps[0]
    assert waits.id in steps[1]
    assert not any("It starts in" in step for step in pool.engine.preview_departure(leaver(), "admin").steps)


CLOSED = "The working directory “/home/susan/digits” cannot be entered: Permission denied."


@pytest.mark.parametrize("has_run", [True, False])
async def test_a_job_that_is_closed_to_the_heir_is_held_and_an_administrator_reads_what_to_do(pool, has_run):
    pool.executor.refuses = lambda spec: Exit(ExitKind.REFUSED, 0.0, detail=CLOSED) if spec.user == "joe" else None
    blocks = None if has_run else await pool.submit("jemma", gpus=8, name="blocks")
    job = await pool.submit("susan", gpus=8, name="digits", cwd="/home/susan/digits")
    if blocks is None:
        await pool.state(job.id, "running")
        await pool.engine.leave(leaver(to="joe"), "admin")
        await pool.state(job.id, "paused")
        await pool.engine.leave(leaver(to="joe"), "admin")
    else:
        await pool.engine.leave(leaver(to="joe"), "admin")
        await pool.engine.cancel(blocks.id, "jemma")
    await pool.until(lambda: is_held(pool, job.id))
    held = await pool.job(job.id)
    assert (held.user, held.hold.by, held.state) == ("joe", "springtide", "paused" if has_run else "queued")
    assert held.hold.reason.startswith(f"It was the job of “susan”, and cannot start as that of “joe”. {CLOSED}")
    tried = held.attempt
    await pool.later(3_600)
    assert (await pool.job(job.id)).attempt == tried, "it is not tried again and again"
    (need,) = (await pool.engine.needs.listed()).items
    assert (need.kind, need.said) == (
        "handed-over",
        f"The person “joe” was given 1 job of “susan”, which cannot start. {CLOSED} It is on hold.",
    )

    release = next(action for action in need.actions if action.name == "release")
    assert [call.path for call in release.calls] == [f"jobs/{job.id}/release"]
    await pool.engine.release(job.id, "admin")
    await pool.until(lambda: is_held(pool, job.id, after=tried))
    pool.executor.refuses = lambda _: None
    await pool.engine.release(job.id, "admin")
    await pool.state(job.id, "running")
    assert (await pool.engine.needs.listed()).items == []
    pool.executor.refuses = lambda _: Exit(ExitKind.REFUSED, 0.0, detail="The node has no /home.")
    pool.executor.end(pool.key(job.id), kind=ExitKind.LOST)
    again = (await pool.job(job.id)).attempt
    await pool.later(3_600)
    await pool.until(lambda: has_tried(pool, job.id, after=again + 1))
    assert (await pool.job(job.id)).hold is None, "it has run as joe's: what refuses it now is not whose it is"


async def is_held(pool, job_id, after=0):
    job = await pool.job(job_id)
    return job.hold is not None and job.attempt > after


async def has_tried(pool, job_id, after):
    job = await pool.job(job_id)
    if job.attempt <= after:
        await pool.later(60)
    return job.attempt > after


async def test_a_hold_of_an_administrator_stays_with_the_job(pool):
    job = await pool.submit("susan", gpus=8)
    await pool.engine.hold(job.id, "admin", "Its data may not be used.")
    await pool.state(job.id, "queued", "paused")
    pool.executor.end(pool.key(job.id), code=75) if (await pool.job(job.id)).state == "pausing" else None
    await pool.engine.leave(leaver(to="joe"), "admin")
    assert (await pool.job(job.id)).hold.reason == "Its data may not be used."


async def test_what_she_has_of_her_own_is_given_back_and_her_notifications_end(pool):
    await pool.engine.edit_person("susan", wire.PersonEdit(build_quota=0), "admin", members=MEMBERS)
    await pool.engine.idle_workspaces.set_rule((RuleScope.PERSON, "susan"), IdleRule(60.0), "admin")
    await pool.engine.outbox.choose(
        NotificationChoice("susan", {"email": frozenset({NotificationEvent.ENDED})}, {"webhook": "https://x"})
    )
    left = await pool.engine.leave(leaver(), "admin")
    assert left.steps == [
        "The build quota of her own is given back.",
        "The rule of her own for idle workspaces is gone.",
        "Her notifications end, and addresses for them are forgotten.",
    ]
    choice = pool.engine.outbox.choice("susan")
    assert choice.addresses == {}
    assert all(not events for events in choice.events.values())
    assert set(choice.events) == set(pool.settings.notifications.channels)


async def test_a_build_quota_of_her_own_that_was_lower_is_given_back_in_a_full_pool(pool):
    await pool.engine.edit_person("susan", wire.PersonEdit(build_quota=0), "admin", members=MEMBERS)
    await pool.engine.edit_project("joe", wire.ProjectEdit(build_quota=2), "admin", members=MEMBERS)
    left = await pool.engine.leave(leaver(), "admin")
    assert left.steps[0] == "The build quota of her own is given back."


async def test_a_user_who_was_deleted_in_the_hub_is_cleared_up_by_the_name_that_is_kept(pool):
    here = Seen({"susan": "2026-01-01T10:00:00Z", "joe": "2026-01-02"}, MEMBERS)
    await pool.engine.follow_hub(here)
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    await pool.engine.follow_hub(Seen({"joe": "2026-01-02"}, {**MEMBERS, "susan": ["joe"]}))
    kept = (await pool.job(job.id)).user
    assert kept.startswith("susan (former, ")
    left = await pool.engine.leave(leaver(kept, "joe"), "admin")
    assert left.pending == [job.id]
    pool.executor.end(pool.key(job.id), code=75)
    await pool.state(job.id, "paused")
    await pool.engine.leave(leaver(kept, "joe"), "admin")
    assert (await pool.job(job.id)).user == "joe"


@pytest.mark.parametrize(
    ("of", "status", "words"),
    [
        (leaver("susanne"), 404, "Did you mean “susan”?"),
        (leaver(to="susan"), 422, "the person who leaves"),
        (leaver(to="jemma"), 422, "“jemma” is not a member of “susan”"),
    ],
)
async def test_unknown_people_and_heirs_outside_of_the_projects_are_refused(pool, of, status, words):
    job = await pool.submit("susan", gpus=1)
    with pytest.raises(Refusal) as refusal:
        await pool.engine.leave(of, "admin")
    assert (refusal.value.status, words in f"{refusal.value.message} {refusal.value.hint}") == (status, True)
    assert (await pool.job(job.id)).user == "susan"
