"""How long similar jobs usually took decides among equal jobs, and who has to give way to whom."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from pools.small_pools import CALM, NOW, ROTATING, kinds, on, plan, pool, running, waiting

from springtide.scheduler.model import Job, Plan, Settings, Surplus
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.state.service import AGEING_PER_LEVEL, SERVICE_LEVEL, aged
from springtide.scheduler.sentences import Role, render, text
from springtide.scheduler.simulate.carry_out import carried_out

HOUR = 3600.0
DAY = 24 * HOUR
SHORT = waiting("short", "a", 8, submitted=NOW, usual_runtime=0.2 * HOUR)
LONG = waiting("long", "a", 8, submitted=NOW - 60, usual_runtime=10 * HOUR)
UNKNOWN = waiting("unknown", "a", 8, submitted=NOW - 30)


def first(*jobs: Job, now: float = NOW) -> str:
    """Return the job that starts first on a pool that holds one of them."""
    [(kind, job)] = kinds(plan(*jobs, now=now, settings=ROTATING))
    assert kind == "Start"
    return job


def test_the_job_like_which_others_ended_sooner_goes_first() -> None:
    assert first(SHORT, LONG) == "short"


def test_run_times_within_a_factor_of_two_are_alike_so_the_older_job_goes_first() -> None:
    older = replace(SHORT, id="older", submitted=NOW - 1, usual_runtime=0.21 * HOUR)
    assert first(SHORT, older) == "older"


def test_a_job_of_which_nothing_is_known_counts_as_one_of_the_whole_first_step() -> None:
    assert first(SHORT, UNKNOWN) == "short"
    assert first(UNKNOWN, LONG) == "unknown"


def test_what_counts_is_what_is_left_of_a_job_that_was_paused() -> None:
    fresh = waiting("fresh", "a", 8, usual_runtime=0.2 * HOUR)
    nearly = waiting("nearly", "a", 8, usual_runtime=0.3 * HOUR, served=8 * 0.29 * HOUR, attempts=1)
    assert first(fresh, nearly) == "nearly"


def test_a_long_job_near_its_usual_end_goes_before_short_ones_that_need_more() -> None:
    fresh = waiting("fresh", "a", 8, usual_runtime=0.4 * HOUR)
    nearly = waiting("nearly", "a", 8, usual_runtime=20 * HOUR, served=8 * 19.9 * HOUR, attempts=1)
    assert first(fresh, nearly) == "nearly"


def test_a_job_that_has_had_more_than_its_like_is_expected_to_take_as_much_again() -> None:
    fresh = waiting("fresh", "a", 8, usual_runtime=0.1 * HOUR)
    overdue = waiting("overdue", "a", 8, submitted=NOW - 60, usual_runtime=0.1 * HOUR, served=8 * 0.3 * HOUR)
    assert first(fresh, overdue) == "fresh"
    assert first(replace(fresh, usual_runtime=0.45 * HOUR), overdue) == "overdue"


def test_a_rounding_of_times_does_not_decide_whether_a_job_has_had_as_much_as_its_like() -> None:
    fresh = waiting("fresh", "a", 8, usual_runtime=0.1 * HOUR)
    overdue = waiting("overdue", "a", 8, submitted=NOW - 60, usual_runtime=0.2 * HOUR, served=8 * 0.2 * HOUR)
    rounded = replace(overdue, served=overdue.served - 1e-9)
    assert first(fresh, overdue) == first(fresh, rounded) == "fresh"


def test_a_rounding_of_times_does_not_decide_whether_run_times_are_alike() -> None:
    """The usual service of both is 4,096 GPU-seconds, with which a doubling step begins."""
    younger = waiting("younger", "a", 8, usual_runtime=512 - 1e-9)
    older = waiting("older", "a", 8, submitted=NOW - 60, usual_runtime=512)
    assert first(younger, older) == "older"


def test_a_rounding_of_times_does_not_undo_a_start_for_a_long_wait() -> None:
    long = waiting("long", "a", 8, submitted=NOW - AGEING_PER_LEVEL + 1e-7, usual_runtime=SERVICE_LEVEL / 8)
    started = replace(long, submitted=NOW - AGEING_PER_LEVEL)
    assert aged(long, NOW) == aged(started, NOW) == 1


def test_a_higher_priority_goes_first_whatever_others_usually_take() -> None:
    assert first(SHORT, replace(LONG, priority=75)) == "long"


def test_first_come_knows_no_run_times() -> None:
    [start] = plan(SHORT, LONG, settings=CALM).decisions
    assert start.job == "long"


def test_shares_that_follow_service_know_no_run_times() -> None:
    settings = Settings(surplus=Surplus.LEAST_SERVED)
    assert kinds(plan(SHORT, LONG, settings=settings)) == [("Start", "long")]


def test_four_days_of_waiting_bring_a_job_of_the_first_step_before_those_known_to_be_short() -> None:
    later = replace(SHORT, submitted=NOW + 4 * DAY)
    assert first(later, UNKNOWN, now=NOW + 4 * DAY - 60) == "short"
    assert first(later, UNKNOWN, now=UNKNOWN.submitted + AGEING_PER_LEVEL) == "unknown"


def test_a_planner_moves_a_job_up_when_its_waiting_is_over() -> None:
    later = replace(SHORT, submitted=NOW + 3 * DAY)
    busy = running("busy", "a", on("dgx", *range(8)), started=NOW, rotate=False)
    planner = Planner(pool(busy, later, UNKNOWN, settings=ROTATING))
    planner.plan(NOW + 3 * DAY)
    assert planner.position("unknown") == 2
    planner.plan(UNKNOWN.submitted + AGEING_PER_LEVEL)
    assert planner.position("unknown") == 1


class TestPlaceInLine:
    """The place in line of a waiting job."""

    BUSY = running("busy", "a", on("dgx", *range(8)), started=NOW, rotate=False)

    def place(self, job: str, settings: Settings = ROTATING) -> list[str]:
        planner = Planner(pool(self.BUSY, SHORT, UNKNOWN, LONG, settings=settings))
        planner.plan(NOW)
        return [each.text for each in render(planner.reason(job, NOW)) if each.role is Role.PLACE]

    def test_a_job_of_which_nothing_is_known_says_so(self) -> None:
        assert self.place("unknown") == [
            "Number 2 in line, after 1 job of “a”.",
            "Equal jobs with known short run times go first.",
        ]

    def test_a_job_known_to_be_long_says_how_long_its_like_took(self) -> None:
        assert self.place("long") == [
            "Number 3 in line, after 2 jobs of “a”.",
            "Jobs like it ran for about 10 h; equal jobs with less GPU time go first.",
        ]

    def test_the_first_in_line_says_no_more_than_that(self) -> None:
        assert self.place("short") == ["Next in line of “a”."]

    def test_where_the_older_goes_first_run_times_are_not_told(self) -> None:
        assert self.place("unknown", CALM) == ["Number 2 in line, after 1 job of “a”."]


class TestRotation:
    FULL = running("r", "a", on("dgx", *range(8)), started=NOW - 60, usual_runtime=20 * HOUR)

    def plan(self, victim: Job, *jobs: Job) -> Plan:
        return plan(victim, *jobs, settings=ROTATING)

    def test_a_job_known_to_be_long_gives_way_to_one_that_is_not_from_the_beginning(self) -> None:
        decided = self.plan(self.FULL, SHORT)

        assert kinds(decided) == [("Pause", "r"), ("Reserve", "short")]
        assert decided.decisions[0].reason.code == "rotated"

    def test_the_reason_is_true_for_a_job_that_had_less_than_the_one_it_gives_way_to(self) -> None:
        before = replace(SHORT, usual_runtime=0.4 * HOUR, served=0.3 * HOUR * 8, attempts=1)
        decided = self.plan(self.FULL, before)
        why = decided.decisions[0].reason

        assert why.code == "rotated-for-shorter"
        assert (
            text(why) == "It made way for the job “short” of “a”: jobs like that one usually need less GPU time."
        )

    def test_a_job_that_is_as_long_as_usual_is_not_paused_for_its_like(self) -> None:
        ran = replace(self.FULL, started=NOW - 10 * HOUR)
        like = waiting("like", "a", 8, usual_runtime=20 * HOUR)
        assert not self.plan(ran, like).decisions

    def test_nor_one_of_which_nothing_is_known_for_one_known_to_be_long(self) -> None:
        ran = replace(self.FULL, usual_runtime=None, served=4 * SERVICE_LEVEL)
        assert not self.plan(ran, waiting("long", "a", 8, usual_runtime=20 * HOUR)).decisions

    @pytest.mark.parametrize("usual", [None, 0.1 * HOUR, 30 * HOUR])
    def test_jobs_that_give_way_to_each_other_come_to_rest(self, usual: float | None) -> None:
        jobs = {job.id: job for job in (self.FULL, replace(SHORT, usual_runtime=usual))}
        now = NOW
        for _ in range(20):
            decided = plan(*jobs.values(), now=now, settings=ROTATING)
            if not decided.decisions:
                break
            for each in decided.decisions:
                jobs[each.job] = carried_out(jobs[each.job], each, now)
        else:
            pytest.fail("The two jobs paused each other again and again.")
