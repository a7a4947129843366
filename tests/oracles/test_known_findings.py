"""Pools in which the oracles saw a promise broken, at their smallest: they stay kept."""

from __future__ import annotations

import pytest
from judges.command import plan
from judges.report import job, pool, several
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
    "work conserving: a job that is not preemptible keeps the workers that it starts with": pool(
        [4, 4],
        {"p0": 8, "p2": {"limit": 0}, "p1": 0},
        job("j1", "p0", 1, 54, workers=4, min_workers=1, preemptible=False),
        job("j3", "p1", 2, 43, workers=2, placed=["n0", "n1"]),
        job("j4", "p2", 1, 52, workers=2, placed=["n0", "n1"]),
    ),
    "fair share: a department is entitled to nothing for a team of weight 0": pool(
        [2],
        {
            "d0": {},
            "d0t0": {"parent": "d0", "weight": 0},
            "d1": {},
            "d2": {"priority": 200, "weight": 0},
            "d2t1": {"parent": "d2", "weight": 0},
        },
        job("j2", "d1", 1, 36),
        job("j3", "d2t1", 1, 2),
        job("j4", "d0t0", 1, 52),
    ),
    "fair share: what a sibling and another department borrowed is taken back together": pool(
        [2],
        {"d0": 2, "d0t0": {"parent": "d0", "priority": 50}, "d0t1": {"parent": "d0"}, "d1": 0},
        job("j0", "d0t0", 1, 53),
        job("j4", "d1", 1, 36, placed=["n0"]),
        job("j5", "d0t1", 2, 16),
    ),
    "fair share: what a team may not hold by its limit is the share of other departments": pool(
        [4],
        {"d0": {}, "d0t0": {"parent": "d0", "limit": 1}, "d1": {}, "d2": {"priority": 50}},
        job("lower", "d2", 1, placed=["n0"]),
        *several(3, "limited", "d0t0", at=10),
        *several(4, "entitled", "d1", at=20),
    ),
}

OTHERWISE = {
    "symmetry: while a job may get either type, the older project has the GPU that rounding leaves": {
        **pool(
            {"t4": [1], "a100": [2, 4]},
            {"p2": {"quota": {"t4": 1}}, "p0": {}, "p3": {"quota": {"a100": 1}}},
            job("j0", "p2", 1, 3),
            job("j1", "p3", 4, 50),
            job("j2", "p2", 1, 23),
            job("j5", "p0", 3, 21),
        ),
        "gpu_types": ["a100", "t4"],
    },
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
    "symmetry: of two nodes with one free GPU the smaller is used, so that the other can still hold a wide job": {
        **pool(
            [3, 3, 1],
            {
                "d0": {"limit": 4},
                "d0t0": {"parent": "d0"},
                "d1": 7,
                "d1t0": {"parent": "d1", "quota": 1, "limit": 6},
                "d1t1": {"parent": "d1", "limit": 7},
            },
            job("narrow", "d1t1", 1, 17),
            job("running", "d1t1", 2, 13, placed=["n1"]),
            job("wide", "d1t1", 3, 19),
            job("borrows", "d0t0", 2, 54, placed=["n0"]),
            job("never", "d1t0", 4, 46),
        ),
        "surplus": "least-served",
    },
    "symmetry: numbers of GPUs do not decide whether a job pauses that the waiting one does not need": pool(
        [1, 4],
        {"p0": {"weight": 3}, "p2": {"weight": 2}},
        job("urgent", "p2", 2, 26, priority=75),
        job("second", "p2", 1, 20, placed=["n1"]),
        job("waits", "p2", 1, 12),
        job("other", "p0", 1, 56, placed=["n0"]),
        job("narrow", "p2", 1, 51, placed=["n1"]),
        job("wide", "p2", 2, 43, placed=["n1"]),
    ),
    "symmetry: numbers of GPUs do not decide whether a gang shrinks that the waiting one does not need": pool(
        [4, 4],
        {"p2": 0, "p3": 0, "p1": 5},
        job("grows", "p1", 1, 45, workers=3, min_workers=2),
        job("elastic", "p3", 1, 40, workers=2, min_workers=1, placed=["n0", "n0"]),
        job("whole", "p1", 4, 23),
        job("rigid", "p2", 1, 36, workers=2, placed=["n0", "n0"]),
    ),
}


@pytest.mark.parametrize("scenario", AT_REST.values(), ids=AT_REST.keys())
def test_the_promise_is_kept_at_rest(scenario):
    assert breaches(scenario, plan(scenario)) == []


@pytest.mark.parametrize("scenario", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_what_must_not_matter_does_not(scenario):
    assert differences(scenario) == []
