"""The turn of jobs that others would pass for ever: one at a time, the longest waiting first."""

from __future__ import annotations

import pytest
from pools.small_pools import NODE, NOW, kinds, on, plan, running, waiting

from springtide.scheduler.model import (
    Job,
    JobChanged,
    Node,
    Order,
    Pause,
    Plan,
    Project,
    Reserve,
    Settings,
    Snapshot,
    Start,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.phases.reservations import RESERVE_AFTER
from springtide.scheduler.policy.phases.turns import OUTRANKED_FOR
from springtide.scheduler.policy.state.protection import TURN
from springtide.scheduler.simulate.carry_out import carried_out

LONG_AGO = NOW - 2 * RESERVE_AFTER
EQUAL = (Project("a"), Project("b", age=1))
FULL = tuple(running(f"r{gpu}", "a", on("dgx", gpu), started=NOW - 100) for gpu in range(8))


def reserved(decided: Plan) -> list[str]:
    return [each.job for each in decided.decisions if isinstance(each, Reserve)]


def test_a_job_beyond_the_share_of_its_project_gets_gpus_reserved_once_it_has_waited_for_long() -> None:
    assert reserved(plan(*FULL, waiting("wide", "b", 8, submitted=LONG_AGO), projects=EQUAL)) == ["wide"]


def test_before_that_it_waits_and_the_next_plan_is_due_when_it_has() -> None:
    decided = plan(*FULL, waiting("wide", "b", 8, submitted=NOW - 100), projects=EQUAL)

    assert (kinds(decided), decided.wake_at) == ([], NOW - 100 + RESERVE_AFTER)


def test_one_job_at_a_time_has_the_turn_the_longest_waiting_first() -> None:
    both = (waiting("second", "b", 8, submitted=LONG_AGO + 1), waiting("first", "b", 8, submitted=LONG_AGO))

    assert reserved(plan(*FULL, *both, projects=EQUAL)) == ["first"]


def test_a_job_that_had_a_turn_goes_behind_those_that_waited_then() -> None:
    had = waiting("had", "b", 8, submitted=NOW - 100 * RESERVE_AFTER, last_turn=LONG_AGO + 1)
    other = waiting("other", "b", 8, submitted=LONG_AGO)

    assert reserved(plan(*FULL, had, other, projects=EQUAL)) == ["other"]


def test_it_waits_as_long_for_its_next_turn_as_others_for_their_first() -> None:
    had = waiting("had", "b", 8, submitted=NOW - 100 * RESERVE_AFTER, last_turn=NOW - 100)
    decided = plan(*FULL, had, projects=EQUAL)

    assert (kinds(decided), decided.wake_at) == ([], NOW - 100 + RESERVE_AFTER)


def test_what_quotas_guarantee_to_others_is_no_part_of_a_turn() -> None:
    projects = (Project("a", quota=2), Project("b", age=1))
    wide = [waiting(f"w{gpus}", "b", gpus, submitted=LONG_AGO + gpus) for gpus in (8, 7, 6)]

    assert reserved(plan(*FULL, *wide, projects=projects)) == ["w6"]


def test_it_may_await_what_its_project_holds_up_to_the_limit() -> None:
    projects = (Project("a", limit=4), Project("b", age=1))
    own = [running(f"r{gpu}", "a", on("dgx", gpu), started=NOW - 100) for gpu in range(4)]
    wide, small = waiting("wide", "a", 4, submitted=LONG_AGO), waiting("small", "a", submitted=NOW)
    decided = plan(*own, wide, small, projects=projects)

    assert kinds(decided) == [("Reserve", "wide")]


def test_a_limit_lowered_meanwhile_pauses_no_more_for_what_is_reserved_beyond_it() -> None:
    projects = (Project("a", limit=4), Project("b", age=1))
    own = [running(f"r{gpu}", "a", on("dgx", gpu), started=NOW - 100) for gpu in range(6)]
    wide = waiting("wide", "a", 4, submitted=LONG_AGO, reserved=on("dgx", 4, 5, 6, 7), turn=True)
    decided = plan(*own, wide, projects=projects)
    paused = [each for each in decided.decisions if isinstance(each, Pause)]

    assert len(paused) == 2
    assert {each.reason.params["held"] for each in paused} == {6}


@pytest.mark.parametrize(("waited", "expected"), [(OUTRANKED_FOR - 1, []), (OUTRANKED_FOR, ["low"])])
def test_more_urgent_jobs_of_its_project_pass_it_for_a_day_only(waited: float, expected: list[str]) -> None:
    urgent = [running(f"r{gpu}", "a", on("dgx", gpu), priority=75, started=NOW - 100) for gpu in range(8)]
    low, high = waiting("low", "a", submitted=NOW - waited), waiting("high", "a", priority=75, submitted=NOW)

    assert reserved(plan(*urgent, low, high, projects=(Project("a", quota=8),))) == expected


class TestBesideAnotherReservationOfItsProject:
    """Two jobs of ``a`` await GPUs that ``b`` has borrowed on both nodes; one of them has the turn."""

    NODES = (Node("one", 8), Node("two", 8))
    BORROWED = (running("r1", "b", on("one", *range(8))), running("r2", "b", on("two", *range(8))))
    AHEAD = waiting("ahead", "a", 8, submitted=LONG_AGO + 1, reserved=on("two", *range(8)))
    LAST = waiting("last", "a", 8, submitted=LONG_AGO, reserved=on("one", *range(8)), turn=True)

    def decided(self, quota: int) -> list[tuple[str, str]]:
        projects = (Project("a", quota=quota), Project("b", age=1))
        return kinds(plan(*self.BORROWED, self.LAST, self.AHEAD, projects=projects, nodes=self.NODES))

    def test_neither_keeps_the_project_from_a_quota_that_guarantees_one_of_them(self) -> None:
        made = self.decided(quota=8)

        assert ("Drop", "ahead") in made
        assert ("Reserve", "last") in made
        assert {job for kind, job in made if kind == "Pause"} <= {"r1", "r2"}

    def test_both_stay_if_the_quota_guarantees_both(self) -> None:
        made = self.decided(quota=16)

        assert {job for kind, job in made if kind == "Reserve"} == {"last", "ahead"}
        assert {job for kind, job in made if kind == "Pause"} == {"r1", "r2"}


class TestOnceItRuns:
    """One job of weight 0 and low priority has all GPUs, in its turn."""

    PROJECTS = (Project("a", priority=200), Project("low", weight=0.0, age=1))

    def began(self, projects: tuple[Project, ...] = PROJECTS) -> Planner:
        wide = waiting("wide", "low", 8, submitted=LONG_AGO, reserved=on("dgx", *range(8)), turn=True)
        planner = Planner(plan_input(wide, projects=projects))
        (start,) = planner.plan(NOW).decisions
        assert isinstance(start, Start)
        assert start.turn
        began = carried_out(wide, start, NOW)
        assert began.last_turn == NOW
        planner.apply(JobChanged(began))
        return planner

    def test_nobody_takes_its_gpus_for_an_hour_though_others_are_entitled_to_them(self) -> None:
        planner = self.began()
        planner.apply(JobChanged(waiting("small", "a", submitted=NOW)))

        assert planner.plan(NOW).decisions == ()
        assert planner.plan(NOW).wake_at == NOW + TURN
        assert kinds(planner.plan(NOW + TURN)) == [("Pause", "wide"), ("Reserve", "small")]

    def test_what_a_quota_guarantees_is_returned_at_once(self) -> None:
        planner = self.began((Project("a", quota=2), Project("low", weight=0.0, age=1)))
        planner.apply(JobChanged(waiting("owner", "a", submitted=NOW)))

        assert kinds(planner.plan(NOW)) == [("Pause", "wide"), ("Reserve", "owner")]

    def test_no_other_job_gets_the_turn_meanwhile(self) -> None:
        planner = self.began()
        planner.apply(JobChanged(waiting("other", "low", 8, submitted=LONG_AGO)))

        assert planner.plan(NOW).decisions == ()


def plan_input(*jobs: Job, projects: tuple[Project, ...]) -> Snapshot:
    return Snapshot(NOW, (NODE,), projects, jobs, Settings(order=Order.FIRST_COME))
