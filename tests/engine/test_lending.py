"""Lent GPU-hours: what others borrow is divided among those who leave quota unused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from springtide.scheduler.engine.views.lending import lent
from springtide.scheduler.store.ledger import DAY, EndedFact, FactKind

WHOLE = (0.0, float(DAY))


def quota(
    project: str, value: float | None, *, start: float = 0.0, end: float = DAY, own: bool = False
) -> EndedFact:
    return EndedFact(0, FactKind.OWN_QUOTA if own else FactKind.QUOTA, project, "t4", value, start, end)


def of(held: Mapping[str, tuple[float, float]], *facts: EndedFact) -> dict[str, float]:
    """Return the lent GPU-days of projects that held GPUs and borrowed some of them for a day."""
    lots = {(0, name, "t4"): (gpus * DAY, borrowed * DAY) for name, (gpus, borrowed) in held.items()}
    return {project: seconds / DAY for (_, project, _), seconds in lent(lots, facts, WHOLE, DAY).items()}


def test_all_that_is_borrowed_is_lent_in_proportion_to_unused_quota() -> None:
    held = {"vision": (7, 3), "speech": (1, 0)}
    assert of(held, quota("vision", 4), quota("speech", 5), quota("nlp", 2)) == {
        "speech": pytest.approx(2.0),
        "nlp": pytest.approx(1.0),
    }


def test_no_project_lends_more_than_it_leaves_unused() -> None:
    assert of({"vision": (10, 6)}, quota("vision", 4), quota("speech", 2)) == {"speech": 2.0}


def test_nothing_is_lent_while_nobody_borrows_and_nothing_by_unlimited_quotas() -> None:
    assert of({"vision": (2, 0)}, quota("vision", 4), quota("speech", 2)) == {}
    assert of({"vision": (2, 1)}, quota("vision", 1), quota("speech", None)) == {}


def test_a_department_lends_only_the_quota_that_its_teams_have_not() -> None:
    facts = quota("department", 10), quota("department", 2, own=True), quota("team", 8), quota("vision", 0)
    assert of({"vision": (1, 1), "team": (8, 0)}, *facts) == {"department": 1.0}


def test_a_quota_counts_as_the_departments_own_before_it_had_teams_and_after() -> None:
    morning, noon = DAY / 4, DAY / 2
    facts = quota("department", 8), quota("department", 0, own=True, start=morning, end=noon)
    assert of({"vision": (6, 6)}, *facts, quota("vision", 0)) == {"department": 6.0}
    assert of({"vision": (7, 7)}, *facts, quota("vision", 0)) == {"department": pytest.approx(8 * 0.75)}
