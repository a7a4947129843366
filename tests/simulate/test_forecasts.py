"""Forecasts: the same policy run forward over what is known of run times."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from springtide.scheduler.forecast import (
    DEEP,
    ENDLESS,
    FAR,
    GONE,
    NEVER,
    OPEN,
    OUTRUN,
    OVERDUE,
    UNMEASURED,
    Stopping,
    StopTime,
    Window,
    forecast,
)
from springtide.scheduler.model import (
    AmountsAtTime,
    Job,
    JobChanged,
    Node,
    NodesChanged,
    Order,
    Phase,
    Project,
    ProjectsChanged,
    Settings,
    Snapshot,
    Span,
    Worker,
)
from springtide.scheduler.wording import moment

NOW = 10_000.0


def running(job_id: str, project: str, gpus: int, first: int, **fields: Any) -> Job:
    placement = (Worker(0, "dgx", tuple(range(first, first + gpus))),)
    started = Job(job_id, project, gpus=gpus, phase=Phase.RUNNING, placement=placement, started=NOW, attempts=1)
    return replace(started, **fields)


@pytest.fixture
def pool():
    def made(*jobs: Job, gpus: int = 8, quota: int = 8) -> Snapshot:
        return Snapshot(
            NOW,
            (Node("dgx", gpus),),
            (Project("vision", quota=quota), Project("speech", quota=0, age=1)),
            jobs,
            Settings(order=Order.FIRST_COME),
        )

    return made


def test_a_job_that_fits_starts_now(pool):
    outlook = forecast(pool(Job("a", "vision", gpus=4)))

    assert outlook.starts["a"] == Window(NOW, NOW, NOW)
    assert outlook.standing["vision"].held == 4


def test_a_job_that_others_are_paused_for_starts_when_they_have_stopped(pool):
    borrower = running("b", "speech", 8, 0)
    snapshot = pool(borrower, Job("owner", "vision", gpus=4))
    outlook = forecast(snapshot, stops={"b": StopTime(2.0, 20.0, 30.0)})
    assert outlook.starts["owner"] == Window(NOW + 2, NOW + 20, NOW + 30)
    assert [(shift.kind, shift.job) for shift in outlook.shifts] == [("paused", "b"), ("started", "owner")]


def test_a_job_resumes_after_it_has_stopped_also_where_gpus_are_free(pool):
    leaving = replace(running("b", "vision", 4, 0), phase=Phase.PAUSING)
    stopping = [Stopping("b", leaving.placement, StopTime(1.0, 20.0, 30.0))]
    window = forecast(pool(leaving), stopping=stopping).starts["b"]
    assert window == Window(NOW + 1, NOW + 20, NOW + 30)


def test_a_job_that_gets_gpus_late_ends_that_much_later(pool):
    leaving = replace(running("b", "vision", 8, 0), phase=Phase.PAUSING, priority=1)
    next_one, last = Job("a", "vision", gpus=8, expected=100.0), Job("c", "vision", gpus=8, submitted=1.0)
    stopping = [Stopping("b", leaving.placement, StopTime(20.0, 20.0, 20.0))]
    starts = forecast(pool(leaving, next_one, last), stopping=stopping).starts
    assert (starts["a"].likely, starts["c"].likely) == (NOW + 20, NOW + 120)


def test_a_job_waits_for_the_one_before_it_as_long_as_that_is_expected_to_run(pool):
    outlook = forecast(pool(running("a", "vision", 8, 0, expected=1000.0), Job("b", "vision", gpus=8)))

    assert outlook.starts["b"] == Window(NOW + 500, NOW + 1000, NOW + 2000)


def test_what_has_run_already_is_taken_into_account(pool):
    before = running("a", "vision", 8, 0, expected=1000.0, started=NOW - 900)

    window = forecast(pool(before, Job("b", "vision", gpus=8))).starts["b"]

    assert window.likely == NOW + 100
    assert window.earliest == NOW


def test_a_time_limit_is_the_latest(pool):
    before = running("a", "vision", 8, 0, expected=1000.0, time_limit=1200.0)

    assert forecast(pool(before, Job("b", "vision", gpus=8))).starts["b"].latest == NOW + 1200


def test_a_job_that_never_fits_has_no_start(pool):
    assert forecast(pool(Job("a", "vision", gpus=16))).starts["a"] == Window(None, None, None)


def test_a_job_that_is_not_submitted_yet_can_be_asked_about(pool):
    snapshot = pool(running("a", "vision", 8, 0, expected=1000.0))
    idea = Job("idea", "vision", gpus=2, submitted=NOW)

    outlook = forecast(snapshot, ["idea"], [JobChanged(idea)])

    assert outlook.starts["idea"].likely == NOW + 1000


def test_other_quotas_give_another_outlook(pool):
    snapshot = pool(running("a", "vision", 8, 0, expected=1000.0), Job("b", "speech", gpus=4))
    fairer = (Project("vision", quota=4), Project("speech", quota=4, age=1))

    as_it_is = forecast(snapshot, ["b"])
    as_it_might_be = forecast(snapshot, ["b"], [ProjectsChanged(fairer)])

    assert as_it_is.starts["b"].likely == NOW + 1000
    assert as_it_might_be.starts["b"].likely == NOW
    assert as_it_might_be.standing["speech"].held == 4


def test_other_nodes_give_another_outlook(pool):
    snapshot = pool(running("a", "vision", 8, 0, expected=1000.0), Job("b", "vision", gpus=4))

    outlook = forecast(snapshot, ["b"], [NodesChanged((Node("dgx", 8), Node("new", 4)))])

    assert outlook.starts["b"] == Window(NOW, NOW, NOW)


def test_jobs_of_a_node_that_is_taken_away_wait_again(pool):
    snapshot = pool(running("a", "vision", 4, 0, expected=1000.0))

    outlook = forecast(snapshot, changes=[NodesChanged((Node("new", 4),))])

    assert outlook.starts["a"].likely == NOW


def test_a_pause_under_way_is_taken_as_done(pool):
    leaving = replace(running("a", "vision", 8, 0, expected=1000.0), phase=Phase.PAUSING)
    placement = (Worker(0, "dgx", tuple(range(8))),)
    coming = Job("b", "vision", gpus=8, priority=75, reserved=placement, expected=500.0)

    outlook = forecast(pool(leaving, coming))

    assert outlook.starts["b"].likely == NOW
    assert outlook.starts["a"].likely == NOW + 500


def test_a_job_that_is_held_or_unknown_has_no_start(pool):
    snapshot = pool(Job("a", "vision", phase=Phase.HELD))

    outlook = forecast(snapshot, ["a", "nobody"])

    assert outlook.starts == {"a": Window(None, None, None), "nobody": Window(None, None, None)}


def test_nothing_beyond_the_horizon_is_claimed(pool):
    snapshot = pool(running("a", "vision", 8, 0, expected=1000.0), Job("b", "vision", gpus=8))

    window = forecast(snapshot, ["b"], horizon=600.0).starts["b"]

    assert window == Window(NOW + 500, None, None)


def test_what_cannot_be_told_says_why(pool):
    far = pool(running("a", "vision", 8, 0, expected=1000.0), Job("b", "vision", gpus=8))

    assert forecast(pool(Job("a", "vision", gpus=16))).starts["a"].why == NEVER
    assert forecast(far, ["b"], horizon=600.0).starts["b"].why == FAR
    assert forecast(far, ["nobody"]).starts["nobody"].why == GONE
    assert not forecast(far).starts["b"].why


def test_no_time_is_told_behind_a_job_of_which_nothing_is_known(pool: Any) -> None:
    for ran in (0.0, 5.0, 3_599.0, 90_000.0):
        endless = running("a", "vision", 4, 0, started=NOW - ran)
        known = running("c", "vision", 4, 4, expected=ran + 100.0, started=NOW - ran)
        waiting = [Job("b", "vision", gpus=8), Job("d", "vision", gpus=4), Job("e", "vision", gpus=16)]
        starts = forecast(pool(endless, known, *waiting)).starts
        assert (starts["b"].likely, starts["b"].latest, starts["b"].why) == (None, None, ENDLESS)
        assert starts["d"].likely is None or starts["d"].likely >= NOW + 100
        assert starts["e"].why == NEVER, "even when the endless one has ended"


def test_no_time_is_told_of_a_stop_that_takes_longer_than_it_may(pool: Any) -> None:
    leaving = replace(running("a", "vision", 8, 0, expected=1000.0), phase=Phase.PAUSING)
    placement = (Worker(0, "dgx", tuple(range(8))),)
    coming = Job("b", "vision", gpus=8, priority=75, reserved=placement, expected=500.0)
    overdue = Stopping("a", placement, StopTime(0.0, math.inf, math.inf))

    window = forecast(pool(leaving, coming), stopping=[overdue]).starts["b"]

    assert (window, window.why) == (Window(NOW, None, None), OVERDUE)


def test_run_times_of_jobs_like_it_are_learnt_from(pool):
    snapshot = pool(running("a", "vision", 8, 0, started=NOW - 100), Job("b", "vision", gpus=8))

    window = forecast(snapshot, past={"a": [50.0, 300.0, 500.0, 700.0]}).starts["b"]

    assert window.likely == NOW + 400
    assert NOW < window.earliest < NOW + 200
    assert NOW + 600 < window.latest < NOW + 1000


def test_the_more_is_known_the_narrower_the_range(pool):
    snapshot = pool(running("a", "vision", 8, 0), Job("b", "vision", gpus=8))

    once, often = (forecast(snapshot, past={"a": [600.0] * times}).starts["b"] for times in (1, 25))

    assert once == Window(NOW + 300, NOW + 600, NOW + 1200)
    assert once.earliest < often.earliest < often.likely == once.likely < often.latest < once.latest


def test_a_job_that_outran_all_like_it_is_taken_to_run_on(pool):
    past = {"a": [100.0, 200.0, 300.0]}
    snapshot = pool(running("a", "vision", 8, 0, started=NOW - 500), Job("b", "vision", gpus=8))
    window = forecast(snapshot, past=past).starts["b"]
    assert (window.likely, window.latest) == (NOW + 250, NOW + 500)

    much_later = pool(running("a", "vision", 8, 0, started=NOW - 601), Job("b", "vision", gpus=8))
    window = forecast(much_later, past=past).starts["b"]
    assert (window.likely, window.latest, window.why) == (None, None, ENDLESS)


@pytest.mark.parametrize("done", [4.0, 9.0, 60.0, 119.0])
@pytest.mark.parametrize("known", [{"past": {"a": [2.0, 3.0, 3.0]}}, {"expected": 3.0}], ids=["learnt", "told"])
def test_what_has_run_longer_than_was_expected_does_not_end_at_any_moment(
    pool: Any, known: dict[str, Any], done: float
) -> None:
    past, expected = known.get("past"), known.get("expected")
    before = running("a", "vision", 8, 0, started=NOW - done, expected=expected)

    window = forecast(pool(before, Job("b", "vision", gpus=8)), past=past).starts["b"]

    assert window.likely is not None
    assert window.likely - NOW >= OUTRUN
    assert "any moment" not in moment(window.likely - NOW, 0.0, (window.latest or 0) - NOW)
    assert window.latest is not None
    assert window.latest >= window.likely


def test_a_time_limit_ends_what_has_run_longer_than_was_expected(pool: Any) -> None:
    before = running("a", "vision", 8, 0, started=NOW - 95, expected=50.0, time_limit=100.0)
    assert forecast(pool(before, Job("b", "vision", gpus=8))).starts["b"].likely == NOW + 5


def test_with_nothing_but_a_time_limit_of_an_hour_any_length_up_to_it_is_as_good(pool):
    snapshot = pool(running("a", "vision", 8, 0, time_limit=3600.0), Job("b", "vision", gpus=8))
    assert forecast(snapshot).starts["b"] == Window(NOW, NOW + 1800, NOW + 3600)


def test_with_nothing_but_a_time_limit_of_hours_no_start_is_likely_but_the_latest_is_known(pool: Any) -> None:
    snapshot = pool(running("a", "vision", 8, 0, time_limit=28_800.0), Job("b", "vision", gpus=8))
    window = forecast(snapshot).starts["b"]
    assert (window, window.why) == (Window(NOW, None, NOW + 28_800), UNMEASURED)


def test_unknown_run_times_that_do_not_matter_leave_a_start_likely(pool: Any) -> None:
    unknown = running("a", "vision", 4, 0, started=NOW - 300, time_limit=28_800.0)
    known = running("c", "vision", 4, 4, expected=100.0)
    window = forecast(pool(unknown, known, Job("b", "vision", gpus=4))).starts["b"]
    assert (window.likely, window.latest, window.why) == (NOW + 100, NOW + 200, "")


def test_what_changes_by_itself_is_no_likely_start_while_run_times_are_unknown(pool: Any) -> None:
    """The quota rises in hours and pauses the borrower, which may end in minutes."""
    rises = (AmountsAtTime(Span(NOW + 50_000, NOW + 90_000), 8, None),)
    projects = (Project("vision", quota=0, at_times=rises), Project("speech", quota=4, age=1))
    for known in ({}, {"started": NOW - 300, "expected": 20.0}):
        snapshot = pool(running("r", "speech", 8, 0, **known), Job("a", "vision", gpus=8))
        window = forecast(replaced(snapshot, projects=projects)).starts["a"]
        assert (window.likely, window.latest, window.why) == (None, NOW + 50_000, UNMEASURED)


def test_only_so_many_waiting_jobs_are_looked_at_those_asked_for_first(pool):
    waiting = [Job(f"v{place}", "vision", gpus=8, submitted=place, expected=100.0) for place in range(50)]
    others = [Job(f"s{place}", "speech", gpus=8, submitted=place, expected=100.0) for place in range(50)]
    snapshot = pool(running("a", "vision", 8, 0, expected=100.0), *waiting, *others)

    near = forecast(snapshot, ["v3"], most=10).starts["v3"]
    deep = forecast(snapshot, ["v40"], most=10).starts["v40"]

    assert near.likely == forecast(snapshot, ["v3"]).starts["v3"].likely
    assert (near.latest, near.why) == (None, OPEN)
    assert deep.why == DEEP


def test_looking_stops_when_its_time_is_over(pool):
    snapshot = pool(
        running("a", "vision", 8, 0, expected=100.0),
        *(Job(f"b{place}", "vision", gpus=8, submitted=place, expected=100.0) for place in range(20)),
    )
    asked: list[int] = []

    def stop(run: int) -> bool:
        asked.append(run)
        return len(asked) > 5

    outlook = forecast(snapshot, ["b19"], stop=stop)

    assert outlook.starts["b19"].why == FAR
    assert NOW < outlook.until < NOW + 600
    assert set(asked) == {0}


def test_coarse_run_times_are_off_by_no_more_than_their_grain(pool):
    gpus = [
        running(f"a{at}", "vision", 1, at, expected=1000.0 + 7 * at, started=NOW - 0.3 * at) for at in range(8)
    ]
    snapshot = pool(*gpus, Job("b", "vision", gpus=8))

    fine, coarse = (forecast(snapshot, grain=grain).starts["b"].likely - NOW for grain in (0.0, 1 / 32))

    assert fine <= coarse <= fine * (1 + 1 / 32) + 0.01


def test_it_is_told_what_the_next_decisions_do_and_for_whom(pool):
    snapshot = pool(running("a", "speech", 8, 0, expected=1000.0))

    outlook = forecast(snapshot, changes=[JobChanged(Job("idea", "vision", gpus=8))])

    assert [(shift.job, shift.kind, shift.beneficiary) for shift in outlook.shifts] == [
        ("a", "paused", "idea"),
        ("idea", "started", None),
    ]
    assert all(shift.reason.code for shift in outlook.shifts)


def test_the_snapshot_is_left_as_it_was(pool):
    snapshot = pool(running("a", "vision", 8, 0, expected=1000.0), Job("b", "vision", gpus=8))
    before = copy(snapshot)

    forecast(snapshot)

    assert snapshot == before


def test_a_time_limit_ends_an_elastic_job_by_the_clock_however_few_of_its_workers_run(pool):
    two = (Worker(0, "dgx", (0, 1)), Worker(1, "dgx", (2, 3)))
    elastic = Job("e", "vision", workers=4, min_workers=1, gpus=2, phase=Phase.RUNNING, placement=two, started=NOW)
    outlook = forecast(
        pool(replace(elastic, time_limit=1000.0, attempts=1), Job("b", "vision", gpus=4), gpus=4, quota=4)
    )

    assert outlook.starts["b"].latest == NOW + 1000


def test_a_forecast_makes_all_decisions_of_an_instant_before_time_passes(pool):
    """Whatever starts on free GPUs first: the owner of all four has them now, not when the next job ends."""
    borrowers = (running("r0", "speech", 1, 0, expected=300.0), running("r1", "speech", 1, 1, expected=300.0))
    outlook = forecast(
        pool(
            *borrowers,
            Job("own", "vision", gpus=4, expected=1000.0),
            Job("pair", "speech", gpus=2, submitted=1.0, expected=1000.0),
            gpus=4,
            quota=4,
        )
    )

    assert outlook.starts["own"].likely == NOW


def test_a_job_that_would_not_leave_a_node_in_time_is_expected_after_its_maintenance(pool):
    closed = Node("dgx", 8, closed=(Span(NOW + 1000, NOW + 4000),))
    job = Job("a", "vision", gpus=4, time_limit=2000.0)
    outlook = forecast(replaced(pool(job), nodes=(closed,)))
    assert outlook.starts["a"] == Window(NOW + 4000, NOW + 4000, NOW + 4000)


def test_a_job_is_expected_when_the_quota_of_its_project_rises(pool):
    rises = (AmountsAtTime(Span(NOW + 3000, NOW + 90_000), 8, None),)
    projects = (Project("vision", quota=0, at_times=rises), Project("speech", quota=8, age=1))
    fixed = running("r", "speech", 8, 0, preemptible=False, time_limit=50_000.0)
    waits = Job("a", "vision", gpus=4, preemptible=False)
    outlook = forecast(replaced(pool(fixed, waits), projects=projects))
    assert outlook.starts["a"].earliest >= NOW + 3000
