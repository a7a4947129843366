"""The rule for idle workspaces, case by case: notifications of owners, stops, and the applicable rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from springtide.scheduler.engine.idle import NEVER, Step, Use, decide, rule_for
from springtide.scheduler.model import Project
from springtide.scheduler.store.tables import IdleRecord, IdleRule, RuleScope

HOUR = 3_600.0
RULE = IdleRule(tell_after=2 * HOUR, notice=0.5 * HOUR)
START = 1_000_000.0
FRESH = IdleRecord("susan", "", START, 1)
TOLD = replace(FRESH, told=START + 2 * HOUR, stops=START + 2.5 * HOUR)


def step(
    rule: IdleRule, hours: float, record: IdleRecord | None = None, *, used: float = 0.0, busy: bool = False
) -> Step:
    """Return the step ``hours`` after the start; the last use was ``used`` hours after it."""
    return decide(rule, Use(busy, START + used * HOUR), record, START + hours * HOUR).step


@pytest.mark.parametrize(
    ("hours", "used", "expected"),
    [(1.99, 0.0, Step.NOTHING), (2.0, 0.0, Step.TELL), (3.0, 1.5, Step.NOTHING), (3.5, 1.5, Step.TELL)],
)
def test_the_owner_is_told_after_so_long_without_use(hours: float, used: float, expected: Step) -> None:
    assert step(RULE, hours, used=used) is expected


@pytest.mark.parametrize(("hours", "expected"), [(2.1, Step.NOTHING), (2.49, Step.NOTHING), (2.5, Step.STOP)])
def test_a_workspace_is_stopped_when_the_notice_is_over_and_not_before(hours: float, expected: Step) -> None:
    assert step(RULE, hours, TOLD) is expected


@pytest.mark.parametrize("record", [None, FRESH, TOLD])
@pytest.mark.parametrize("hours", [2.2, 24.0])
def test_a_busy_workspace_is_never_told_of_nor_stopped(record: IdleRecord | None, hours: float) -> None:
    told = record is TOLD
    assert step(RULE, hours, record, busy=True) is (Step.FORGET if told else Step.NOTHING)


def test_use_after_the_notice_has_it_forgotten_and_a_later_one_is_given_anew() -> None:
    assert step(RULE, 2.4, TOLD, used=2.3) is Step.FORGET
    assert step(RULE, 5.0, TOLD, used=2.3) is Step.TELL, "the notification was before the last use"


def test_keeping_counts_as_use() -> None:
    kept = replace(FRESH, kept=START + 2.25 * HOUR)
    assert step(RULE, 4.2, kept) is Step.NOTHING
    assert step(RULE, 4.25, kept) is Step.TELL


@pytest.mark.parametrize("rule", [NEVER, IdleRule(notice=HOUR)])
def test_without_a_time_nobody_is_ever_told(rule: IdleRule) -> None:
    assert step(rule, 1_000.0) is Step.NOTHING
    assert step(rule, 1_000.0, TOLD) is Step.FORGET


def test_without_a_notice_the_owner_is_told_once_and_nothing_is_stopped() -> None:
    only_tell = replace(RULE, notice=None)
    told = replace(TOLD, stops=None)
    assert step(only_tell, 2.0) is Step.TELL
    assert step(only_tell, 1_000.0, told) is Step.NOTHING
    assert step(RULE, 1_000.0, told) is Step.TELL, "a rule that now stops has to announce it first"


def test_a_shorter_rule_never_stops_a_workspace_earlier_than_was_announced() -> None:
    shorter = replace(RULE, notice=0.1 * HOUR)
    assert step(shorter, 2.4, TOLD) is Step.NOTHING
    assert step(shorter, 2.5, TOLD) is Step.STOP
    longer = replace(RULE, notice=HOUR)
    assert step(longer, 2.9, TOLD) is Step.NOTHING
    assert step(longer, 3.0, TOLD) is Step.STOP


def test_a_clock_that_was_set_back_is_use_now() -> None:
    assert decide(RULE, Use(busy=False, last=START), None, START - HOUR).unused == 0.0


def test_the_next_look_is_when_something_may_have_to_be_done() -> None:
    def again(rule: IdleRule, hours: float, record: IdleRecord | None = None) -> float | None:
        at = decide(rule, Use(busy=False, last=START), record, START + hours * HOUR).again
        return None if at is None else (at - START) / HOUR

    assert again(RULE, 1.0) == 2.0
    assert again(RULE, 2.1, TOLD) == 2.5
    assert again(NEVER, 1.0) is None
    assert again(replace(RULE, notice=None), 3.0, replace(TOLD, stops=None)) is None


def project(name: str, parent: str | None = None) -> tuple[str, Project]:
    return name, Project(name=name, parent=parent)


TREE = dict([project("research"), project("vision", "research"), project("speech")])
POOL, OF_POOL = (RuleScope.POOL, ""), IdleRule(HOUR, HOUR)
RESEARCH, OF_RESEARCH = (RuleScope.PROJECT, "research"), IdleRule(4 * HOUR, HOUR / 2)
SUSAN, OF_SUSAN = (RuleScope.PERSON, "susan"), IdleRule(9 * HOUR, None)


@pytest.mark.parametrize(
    ("projects", "rules", "expected"),
    [
        ((), {}, NEVER),
        ((), {POOL: OF_POOL}, OF_POOL),
        (("speech",), {POOL: OF_POOL, RESEARCH: OF_RESEARCH}, OF_POOL),
        (("vision",), {POOL: OF_POOL, RESEARCH: OF_RESEARCH}, OF_RESEARCH),
        (("vision", "speech"), {POOL: OF_POOL, RESEARCH: OF_RESEARCH}, IdleRule(4 * HOUR, HOUR)),
        (("vision", "speech"), {POOL: OF_POOL, RESEARCH: NEVER}, NEVER),
        (("vision", "gone"), {POOL: OF_POOL, RESEARCH: OF_RESEARCH}, OF_RESEARCH),
        (("vision",), {POOL: OF_POOL, RESEARCH: NEVER, SUSAN: OF_SUSAN}, OF_SUSAN),
    ],
)
def test_ones_own_rule_counts_else_the_most_lenient_of_ones_projects(
    projects: tuple[str, ...], rules: dict[tuple[RuleScope, str], IdleRule], expected: IdleRule
) -> None:
    assert rule_for("susan", projects, rules, TREE) == expected
