"""Pools in which the oracles saw a promise broken, at their smallest: they stay kept."""

from __future__ import annotations

import pytest
from judges.command import plan
from judges.report import job, pool
from judges.rest import breaches
from judges.symmetries import differences

AT_REST = {
    "guarantee: GPUs borrowed by two teams of one department are returned together": pool(
        [2, 4, 1],
        {"p0": 2, "p1": {"parent": "p0"}, "p2": {"parent": "p0"}, "p3": 5},
        job("j1", "p2", 1, 4, workers=3),
        job("j2", "p3", 2, 17),
        job("j3", "p3", 3, 39),
        job("j4", "p1", 1, 28, workers=2),
    ),
    "fair share: a project of weight 0 and higher priority keeps nothing that others are entitled to": pool(
        [4],
        {"p2": {}, "p3": {"weight": 0, "priority": 200}},
        job("j0", "p2", 2, 41, workers=2),
        job("j3", "p3", 1, 36),
    ),
    "fair share: a GPU that rounding leaves goes to the higher priority first": pool(
        [3],
        {"a": {}, "b": {}, "c": {"priority": 50}},
        *(job(f"j{at}", project, 1, at, workers=3, min_workers=1) for at, project in enumerate("abc")),
    ),
}

OTHERWISE = {
    "symmetry: the older request of two teams goes first, whichever is listed first": pool(
        [2],
        {"d0": 0, "d0t0": {"parent": "d0"}, "d0t1": {"parent": "d0"}, "d1": 2},
        job("never", "d1", 3, 10),
        job("older", "d0t0", 2, 1),
        job("younger", "d0t1", 2, 44),
    ),
    "symmetry: the younger request of two equal teams gives way, whichever is listed first": pool(
        [4],
        {"d0": 0, "d0t0": {"parent": "d0"}, "d0t1": {"parent": "d0"}, "d2": 0},
        job("older", "d0t1", 1, 45, workers=2, placed=["n0", "n0"]),
        job("owner", "d2", 2, 10),
        job("younger", "d0t0", 1, 52, workers=2, placed=["n0", "n0"]),
    ),
}


@pytest.mark.parametrize("scenario", AT_REST.values(), ids=AT_REST.keys())
def test_the_promise_is_kept_at_rest(scenario):
    assert breaches(scenario, plan(scenario)) == []


@pytest.mark.parametrize("scenario", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_what_must_not_matter_does_not(scenario):
    assert differences(scenario) == []
