"""Weight 0: what such teams wait for beyond their quotas comes after what others are entitled to (docs/policy.md).

The shares and GPUs of these pools were worked out by hand from the docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from judges.command import Document, placements
from judges.random_pools import pool_of_seed
from judges.report import job, pool, several, several_on
from judges.rest import breaches
from judges.without_right import after_others, differences

SEEDS = range(80)
GUEST: dict[str, Any] = {"weight": 0}
DEPARTMENT: dict[str, Any] = {"dept": 6, "team": {"parent": "dept", **GUEST}, "other": 2}


def team(parent: str = "dept", **more: Any) -> Document:
    return {"parent": parent, **more}


@dataclass(frozen=True)
class AtRest:
    """A pool, and what comes of it: fair shares, and GPUs held with all below."""

    scenario: Document
    shares: dict[str, int]
    held: dict[str, int]


POOLS = {
    "it borrows what is free, beside its quota": AtRest(
        pool([8], {"a": {"quota": 2, **GUEST}, "b": 2}, *several(8, "a", "a"), *several(4, "b", "b")),
        {"a": 2, "b": 4},
        {"a": 4, "b": 4},
    ),
    "it gives back what it borrowed": AtRest(
        pool([8], {"a": {"quota": 2, **GUEST}, "b": 2}, *several_on("n0", 8, "a", "a"), *several(6, "b", "b")),
        {"a": 2, "b": 6},
        {"a": 2, "b": 6},
    ),
    "it takes its quota back": AtRest(
        pool([8], {"a": {"quota": 2, **GUEST}, "b": 2}, *several_on("n0", 8, "b", "b"), *several(6, "a", "a")),
        {"a": 2, "b": 6},
        {"a": 2, "b": 6},
    ),
    "of two such projects each takes back its quota": AtRest(
        pool(
            [8],
            {"a": {"quota": 2, **GUEST}, "b": {"quota": 2, **GUEST}},
            *several_on("n0", 8, "a", "a"),
            *several(6, "b", "b"),
        ),
        {"a": 2, "b": 2},
        {"a": 6, "b": 2},
    ),
    "the quota of its department is its first on free GPUs": AtRest(
        pool([8], DEPARTMENT, *several(8, "team", "team"), *several(8, "other", "other")),
        {"dept": 6, "team": 0, "other": 2},
        {"team": 6, "other": 2},
    ),
    "another department keeps what is its share meanwhile": AtRest(
        pool([8], DEPARTMENT, *several_on("n0", 8, "other", "other"), *several(8, "team", "team")),
        {"dept": 0, "other": 8},
        {"team": 0, "other": 8},
    ),
    "what is nobody's share comes last to the quota of its department, and goes back in its turn alone": AtRest(
        pool(
            [8],
            {**DEPARTMENT, "other": {"quota": 2, **GUEST}},
            *several_on("n0", 8, "other", "other"),
            *several(8, "team", "team"),
        ),
        {"dept": 6, "team": 0, "other": 2},
        {"team": 0, "other": 8},
    ),
    "it keeps a part of its department's quota from another department": AtRest(
        pool(
            [8],
            DEPARTMENT,
            *several_on("n0", 3, "team", "team"),
            *several_on("n0", 5, "other", "other"),
            *several(5, "more", "team"),
            *several(3, "others", "other"),
        ),
        {"dept": 3, "other": 5},
        {"team": 3, "other": 5},
    ),
    "in its department it gives back to a team that is entitled": AtRest(
        pool(
            [8],
            {**DEPARTMENT, "sibling": team()},
            *several_on("n0", 6, "team", "team"),
            *several_on("n0", 2, "other", "other"),
            *several(4, "sibling", "sibling"),
        ),
        {"dept": 6, "team": 0, "sibling": 4, "other": 2},
        {"team": 2, "sibling": 4, "other": 2},
    ),
    "in its department it gives back to the department's own jobs": AtRest(
        pool(
            [8],
            {"dept": 4, "team": team(**GUEST), "other": 4},
            *several_on("n0", 4, "team", "team"),
            *several_on("n0", 4, "other", "other"),
            *several(4, "own", "dept"),
        ),
        {"dept": 4, "team": 0, "other": 4},
        {"dept": 4, "team": 0, "other": 4},
    ),
    "a department of weight 0 passes its quota on to its teams": AtRest(
        pool(
            [8],
            {"dept": {"quota": 4, **GUEST}, "team": team(quota=2, **GUEST), "sibling": team(), "other": 2},
            *several_on("n0", 8, "other", "other"),
            *several(4, "team", "team"),
            *several(4, "sibling", "sibling"),
        ),
        {"dept": 4, "team": 2, "sibling": 2, "other": 4},
        {"team": 2, "sibling": 2, "other": 4},
    ),
    "limits below a department, also of a team that is entitled": AtRest(
        pool(
            [8],
            {**DEPARTMENT, "team": team(limit=2, **GUEST), "sibling": team(limit=1)},
            *several_on("n0", 8, "other", "other"),
            *several(8, "team", "team"),
            *several(8, "sibling", "sibling"),
        ),
        {"dept": 1, "team": 0, "sibling": 1, "other": 7},
        {"team": 0, "sibling": 1, "other": 7},
    ),
    "a job that is not preemptible, within the quota of the department alone": AtRest(
        pool(
            [8],
            {"dept": 4, "team": team(**GUEST), "other": 4},
            *several_on("n0", 8, "other", "other"),
            job("firm", "team", preemptible=False),
        ),
        {"dept": 0, "team": 0, "other": 8},
        {"team": 0, "other": 8},
    ),
    "a group of weight 0 between the department and its team": AtRest(
        pool(
            [8],
            {"dept": 6, "group": team(**GUEST), "team": team("group"), "other": 2},
            *several_on("n0", 8, "other", "other"),
            *several(4, "team", "team"),
        ),
        {"dept": 0, "group": 0, "team": 0, "other": 8},
        {"team": 0, "other": 8},
    ),
    "an elastic job gives up workers beyond the quota of its department": AtRest(
        pool(
            [8],
            {"dept": 4, "team": team(**GUEST), "other": 2},
            job("elastic", "team", workers=8, min_workers=2, placed=["n0"] * 6),
            *several(6, "other", "other"),
        ),
        {"dept": 4, "team": 0, "other": 4},
        {"team": 4, "other": 4},
    ),
    "priority does not make up for weight": AtRest(
        pool(
            [12],
            {"dept": 4, "team": team(priority=200, **GUEST), "sibling": team(), "other": 0},
            *several_on("n0", 12, "other", "other"),
            *several(6, "team", "team"),
            *several(3, "sibling", "sibling"),
        ),
        {"dept": 3, "team": 0, "sibling": 3, "other": 9},
        {"team": 0, "sibling": 3, "other": 9},
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_shares_and_gpus_are_those_worked_out_by_hand(name: str) -> None:
    case = POOLS[name]
    (shown,) = placements([case.scenario])

    projects = shown["projects"]
    assert {each: projects[each]["fair_share"] for each in case.shares} == case.shares
    assert {each: projects[each]["held"] for each in case.held} == case.held
    assert breaches(case.scenario, shown) == []


def test_what_waits_without_a_right_changes_nothing_for_others() -> None:
    pools = {seed: after_others(pool_of_seed("guests", seed)) for seed in SEEDS}

    assert {seed: found for seed, each in pools.items() if (found := differences(each))} == {}
