"""Requests for changes: made, decided, withdrawn, expired; kept over restarts and renames, and bounded."""

from __future__ import annotations

from typing import Any

import pytest
from engine_worlds import node
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import AuditQuery, EngineSettings
from springtide.scheduler.engine.requests.change_requests import EXPIRES_AFTER, MOST_A_DAY, MOST_PENDING
from springtide.scheduler.engine.requests.departures import Leaver
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.model import Environment, Settings
from springtide.scheduler.notifications import NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import REQUESTS_KEPT_FOR

DAY = 86_400.0
MEMBERS = {"susan": ["susan"], "joe": ["joe"], "jemma": ["jemma"]}
TOLD = NotificationSettings(
    CHANNELS, WITH_ADDRESS, {EMAIL: frozenset({NotificationEvent.REQUEST})}, frozenset({"admin"})
)
SETTINGS = EngineSettings(policy=Settings(grace=5.0), notifications=TOLD)
YES = wire.ChangeApproval()


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    """A pool with 8 train GPUs, quotas of 2 for three people, and 4 build GPUs."""
    made = await make_pool(settings=SETTINGS)
    made.executor.change_nodes(node(), node("build", 4, Environment.BUILD))
    await made.idle()
    return made


def more(project: str = "susan", **edit: Any) -> wire.ProjectWanted:
    return wire.ProjectWanted(project=project, edit=wire.ProjectEdit(**(edit or {"quota": 4})))


def own(gpus: int | None, until: float | None = None) -> wire.BuildWanted:
    return wire.BuildWanted(edit=wire.PersonEdit(build_quota=gpus, until=until))


async def ask(pool: Any, wanted: wire.WantedChange, user: str = "susan", why: str = "a deadline") -> int:
    made: int = await pool.engine.change_requests.make(
        wire.NewChangeRequest(wanted=wanted, why=why), user, MEMBERS
    )
    return made


async def approve(pool: Any, number: int, approval: wire.ChangeApproval = YES) -> None:
    await pool.engine.change_requests.approve(number, approval, "admin", MEMBERS)


def asked(pool: Any, number: int) -> wire.ChangeRequestView:
    return next(each for each in pool.engine.change_requests.listed(MEMBERS) if each.number == number)


def numbers(pool: Any) -> list[int]:
    return [each.number for each in pool.engine.change_requests.listed(MEMBERS)]


def quota(pool: Any, name: str) -> Any:
    return next(view for view in pool.engine.pool().projects if view.name == name).quota


async def trail(pool: Any, what: str = "request") -> list[tuple[str, str]]:
    page = await pool.engine.audit(None, 50, AuditQuery(what=what))
    return [(each.who, each.what) for each in page.items][::-1]


async def told(pool: Any, user: str) -> list[str]:
    await pool.idle()
    waiting = await pool.engine.outbox.waiting((user, EMAIL))
    return [f"{each.notification.title} {each.notification.text}" for each in waiting]


async def refused(call: Any) -> Refusal:
    with pytest.raises(Refusal) as found:
        await call
    return found.value


async def test_an_approved_quota_holds_and_returns_at_its_end(pool: Any) -> None:
    until = pool.clock() + 2 * DAY
    number = await ask(pool, more(quota=4, until=until))
    view = asked(pool, number)
    assert view.what == "a quota of 4 GPUs for “susan” until 1970-01-14 13:46 UTC"
    assert (view.state, view.present, view.obstacle, view.project) == (
        "pending",
        "The quota is 2 now.",
        "",
        "susan",
    )
    assert quota(pool, "susan") == 2
    await approve(pool, number)
    assert (quota(pool, "susan"), asked(pool, number).state, asked(pool, number).by) == (4, "approved", "admin")
    assert await trail(pool) == [("susan", "request.make"), ("admin", "request.approve")]
    assert ("admin", "project.change") in await trail(pool, "project.change")
    await pool.later(2 * DAY)
    await pool.idle()
    assert quota(pool, "susan") == 2


async def test_an_admin_grants_less_and_says_why(pool: Any) -> None:
    number = await ask(pool, more(quota=4))
    await approve(pool, number, wire.ChangeApproval(granted=more(quota=3), why="The rest is booked."))
    view = asked(pool, number)
    assert (quota(pool, "susan"), view.given, view.answer) == (
        3,
        "a quota of 3 GPUs for “susan”",
        "The rest is booked.",
    )
    (words,) = await told(pool, "susan")
    assert words == (
        "Your request for a quota of 4 GPUs for “susan” is approved by “admin”. You got a quota of 3 GPUs for "
        "“susan”. The rest is booked. It holds from now on."
    )


async def test_other_values_that_hold_already_are_no_grant(pool: Any) -> None:
    number = await ask(pool, more())
    with pytest.raises(Refusal) as caught:
        await approve(pool, number, wire.ChangeApproval(granted=more(quota=2)))
    assert (caught.value.status, caught.value.field) == (422, "granted")
    assert caught.value.message == "There is a quota of 2 GPUs for “susan” already."
    assert asked(pool, number).state == "pending"
    assert await trail(pool) == [("susan", "request.make")]


async def test_only_values_of_what_was_asked_for_can_be_granted(pool: Any) -> None:
    number = await ask(pool, more(quota=4))
    for granted in (more("joe", quota=4), own(1), wire.MembershipWanted(project="susan")):
        refusal = await refused(approve(pool, number, wire.ChangeApproval(granted=granted)))
        assert (refusal.status, refusal.field) == (422, "granted")
    refusal = await refused(approve(pool, number, wire.ChangeApproval(granted=more(quota=4, weight=9.0))))
    assert (refusal.status, "weight" in refusal.message) == (422, True)
    assert (quota(pool, "susan"), asked(pool, number).state) == (2, "pending")


async def test_a_refused_request_says_why_and_changes_nothing(pool: Any) -> None:
    number = await ask(pool, own(2))
    await pool.engine.change_requests.refuse(number, wire.ChangeRefusal(why="Not this week."), "admin")
    view = asked(pool, number)
    assert (view.state, view.answer, view.what) == (
        "refused",
        "Not this week.",
        "a build quota of 2 GPUs for “susan”",
    )
    assert "Not this week." in (await told(pool, "susan"))[0]
    for call in (approve(pool, number), pool.engine.change_requests.withdraw(number, "susan")):
        refusal = await refused(call)
        assert (refusal.status, refusal.message) == (409, f"Request {number} is refused by “admin” already.")


async def test_what_does_not_fit_is_accepted_says_so_and_is_granted_once_there_is_room(pool: Any) -> None:
    number = await ask(pool, more(quota=6))
    assert asked(pool, number).obstacle.startswith("The quotas of the top projects would add up to 10 GPUs")
    refusal = await refused(approve(pool, number))
    assert (refusal.status, refusal.message.startswith(f"Request {number} cannot be granted: The quotas")) == (
        409,
        True,
    )
    assert (quota(pool, "susan"), asked(pool, number).state) == (2, "pending")
    for name in ("joe", "jemma"):
        await pool.engine.edit_project(name, wire.ProjectEdit(quota=1), "admin", members=MEMBERS)
    assert asked(pool, number).obstacle == ""
    await approve(pool, number)
    assert quota(pool, "susan") == 6


async def test_an_own_build_quota_is_given_until_its_end(pool: Any) -> None:
    until = pool.clock() + DAY
    await approve(pool, await ask(pool, own(2, until)))
    assert pool.engine.build_quota("susan", ["susan"]).quota == 2
    await pool.later(DAY)
    await pool.idle()
    assert pool.engine.build_quota("susan", ["susan"]).quota == 1


async def test_a_waiting_job_gets_more_than_its_project_allows(pool: Any) -> None:
    ranges = wire.JobRanges(max_priority=60, max_time_limit=3600.0)
    await pool.engine.edit_project("susan", wire.ProjectEdit(ranges=ranges), "admin", members=MEMBERS)
    submission = wire.Submission(argv=["true"], gpus=1, workers=2, time_limit=3600.0, priority=50)
    job = (await pool.engine.submit(submission, "susan", "susan", paused_by="susan")).id
    wanted = wire.JobWanted(job=job, edit=wire.JobEdit(priority=90, time_limit="2h"))
    refusal = await refused(pool.engine.edit(job, wanted.edit, "admin"))
    assert refusal.code == "out_of_range"
    number = await ask(pool, wanted)
    view = asked(pool, number)
    assert view.what == f"a priority of 90 and a time limit of 2h for the job “{job}”"
    assert view.present == "The priority is 50 and the time limit is 1 h now."
    await approve(pool, number)
    found = await pool.job(job)
    assert (found.options.priority, found.options.time_limit) == (90, 7200.0)
    edited = await pool.engine.edit(job, wire.JobEdit(workers=1), "susan")
    assert (edited.options.priority, edited.options.time_limit, edited.options.workers) == (90, 7200.0, 1)
    refusal = await refused(pool.engine.edit(job, wire.JobEdit(priority=91), "susan"))
    assert refusal.code == "out_of_range"


async def test_a_running_job_is_an_obstacle_and_an_ended_one_ends_its_request(pool: Any) -> None:
    job = (await pool.submit(gpus=1, time_limit=3600.0)).id
    await pool.state(job, "running")
    number = await ask(pool, wire.JobWanted(job=job, edit=wire.JobEdit(time_limit="2h")))
    assert "only a job that waits or is paused can be edited" in asked(pool, number).obstacle
    await pool.engine.cancel(job, "susan")
    await pool.state(job, "cancelled")
    view = asked(pool, number)
    assert (view.state, view.answer) == ("obsolete", f"The job “{job}” has ended.")


async def test_a_request_expires_and_is_forgotten_in_the_end(pool: Any) -> None:
    soon, late = await ask(pool, own(2, pool.clock() + DAY)), await ask(pool, more())
    await pool.later(DAY)
    assert (asked(pool, soon).state, asked(pool, late).state) == ("expired", "pending")
    await pool.later(EXPIRES_AFTER - DAY)
    assert asked(pool, late).state == "expired"
    assert (await trail(pool))[-1] == ("springtide", "request.expire")
    assert (await told(pool, "susan"))[-1].startswith(
        "Your request for a quota of 4 GPUs for “susan” has expired."
    )
    await pool.later(REQUESTS_KEPT_FOR)
    assert numbers(pool) == []


async def test_the_person_withdraws_her_request_and_nobody_else_does(pool: Any) -> None:
    number = await ask(pool, more())
    refusal = await refused(pool.engine.change_requests.withdraw(number, "joe"))
    assert (refusal.status, refusal.message) == (404, f"There is no request {number}.")
    await pool.engine.change_requests.withdraw(number, "susan")
    assert asked(pool, number).state == "withdrawn"
    assert await told(pool, "susan") == []


async def test_requests_are_bounded(pool: Any) -> None:
    first = await ask(pool, more())
    again = await refused(ask(pool, more(quota=5)))
    assert (again.status, f"request withdraw {first}" in again.hint) == (409, True)
    names = [f"p{number}" for number in range(MOST_PENDING)]
    for name in names:
        await pool.engine.create_project(name, wire.ProjectEdit(), "admin", members=MEMBERS)
    for name in names[:-1]:
        await ask(pool, wire.MembershipWanted(project=name))
    refusal = await refused(ask(pool, wire.MembershipWanted(project=names[-1])))
    assert refusal.message == f"You have {MOST_PENDING} pending requests, the most there may be."
    for _ in range(MOST_A_DAY - MOST_PENDING):
        await pool.engine.change_requests.withdraw(first, "susan")
        first = await ask(pool, more())
    await pool.engine.change_requests.withdraw(first, "susan")
    assert (await refused(ask(pool, more()))).message.startswith(
        f"You have made {MOST_A_DAY} requests within a day"
    )
    await pool.later(DAY)
    await ask(pool, more())
    assert await ask(pool, own(2), "joe")


@pytest.mark.parametrize(
    ("wanted", "why", "status", "words"),
    [
        (more("nowhere"), "x", 404, "There is no project “nowhere”."),
        (wire.MembershipWanted(project="nowhere"), "x", 404, "There is no project “nowhere”."),
        (wire.MembershipWanted(project="susan"), "x", 422, "There is membership in “susan” for “susan” already."),
        (more(quota=2), "x", 422, "There is a quota of 2 GPUs for “susan” already."),
        (more(quota={"h100": 2}), "x", 422, "quota names the GPU type “h100”"),
        (more(weight=2.0), "x", 422, "“weight” cannot be asked for."),
        (more(quota=4, version=1), "x", 422, "“version” cannot be asked for."),
        (more(until=5.0), "x", 422, "The request names no value."),
        (more(quota=4, until=5.0), "x", 422, "The end has passed already."),
        (own(2), "   ", 422, "The request has no reason."),
        (own(2), "a\x1b[2Jb", 422, "The reason has control characters."),
        (
            wire.JobWanted(job="gone", edit=wire.JobEdit(priority=9)),
            "x",
            404,
            "There is no unfinished job “gone”.",
        ),
        (wire.JobWanted(job="gone", edit=wire.JobEdit(workers=9)), "x", 422, "“workers” cannot be asked for."),
    ],
)
async def test_what_is_no_request_is_refused(pool: Any, wanted: Any, why: str, status: int, words: str) -> None:
    refusal = await refused(ask(pool, wanted, why=why))
    assert (refusal.status, refusal.message[: len(words)]) == (status, words)
    assert numbers(pool) == []
    assert await trail(pool) == []


async def test_requests_survive_a_restart_and_a_rename_and_end_when_their_person_leaves(pool: Any) -> None:
    users = {"susan": "1", "joe": "2"}
    await pool.engine.follow_hub(Seen(users, MEMBERS))
    susans, joes = await ask(pool, more()), await ask(pool, own(2), "joe")
    await pool.restart()
    assert numbers(pool) == [susans, joes]
    await pool.engine.follow_hub(Seen({"susanne": "1", "joe": "2"}, {**MEMBERS, "susan": ["susanne"]}))
    assert [asked(pool, each).user for each in (susans, joes)] == ["susanne", "joe"]
    await pool.engine.follow_hub(Seen({"joe": "2"}, MEMBERS))
    assert (asked(pool, susans).state, asked(pool, joes).state) == ("obsolete", "pending")
    left = await pool.engine.leave(Leaver("joe", None, MEMBERS), "admin")
    assert "Her pending requests end." in left.steps
    assert (asked(pool, joes).state, asked(pool, joes).by) == ("obsolete", "admin")


async def test_a_request_for_a_deleted_project_ends_and_says_so(pool: Any) -> None:
    await pool.engine.create_project("vision", wire.ProjectEdit(), "admin", members=MEMBERS)
    number = await ask(pool, wire.MembershipWanted(project="vision"))
    await pool.engine.delete_project("vision", "admin")
    view = asked(pool, number)
    assert (view.state, view.by, view.answer) == ("obsolete", "springtide", "The project “vision” is gone.")
    assert "The project “vision” is gone." in (await told(pool, "susan"))[0]


async def test_a_request_needs_administrators_and_its_actions_decide_it(pool: Any) -> None:
    number = await ask(pool, more(quota=7), why="A deadline on Friday")
    (need,) = (await pool.engine.needs.listed()).items
    assert (need.id, need.user, need.project) == (f"request.{number}", "susan", "susan")
    assert need.said == (
        "The person “susan” asks for a quota of 7 GPUs for “susan”. A deadline on Friday. The quota is 2 now."
    )
    assert need.remedy.startswith(
        "It cannot be granted as it is: The quotas of the top projects would add up to 11"
    )
    assert f"`springtide request approve {number}`" in need.remedy
    approve_it, refuse_it, other = need.actions
    assert [call.path for call in approve_it.calls] == [f"requests/{number}/approve"]
    assert ([call.path for call in refuse_it.calls], refuse_it.text) == ([f"requests/{number}/refuse"], "Reason")
    assert other.page == f"admin#request-{number}"
    await pool.engine.needs.look()
    assert [words.startswith(need.said) for words in await told(pool, "admin")] == [True]
    await pool.engine.change_requests.withdraw(number, "susan")
    assert (await pool.engine.needs.listed()).items == []


async def test_no_other_values_are_offered_for_a_membership(pool: Any) -> None:
    await ask(pool, wire.MembershipWanted(project="joe"))
    (need,) = (await pool.engine.needs.listed()).items
    assert need.remedy.startswith("Approve it or refuse it with a reason: on the page Projects and quotas, ")
    assert [action.words for action in need.actions] == ["Approve", "Refuse", "See it"]


async def test_leads_hear_of_requests_that_they_may_grant(pool: Any) -> None:
    for name, parent in (("vision", None), ("robots", "vision")):
        await pool.engine.create_project(name, wire.ProjectEdit(parent=parent), "admin", members=MEMBERS)
    users = {name: name for name in ("susan", "joe", "jemma")}
    groups = {**MEMBERS, "vision": ["joe"], "robots": ["jemma"]}
    await pool.engine.follow_hub(Seen(users, groups, {"vision": ["joe"], "robots": ["jemma"]}))
    await ask(pool, wire.MembershipWanted(project="robots"), why="I join the team.")
    for lead in ("joe", "jemma"):
        (words,) = await told(pool, lead)
        assert words.startswith("The person “susan” asks for membership in “robots” for “susan”. I join the team.")
    await ask(pool, more("robots", build_quota=1), "jemma")
    assert (len(await told(pool, "joe")), len(await told(pool, "jemma"))) == (2, 1)
