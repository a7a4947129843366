"""A change that a waiting job's reasons name lets it start in the next plans.

`python tests/proofs/histories/counterfactuals.py` carries out the claims of as many pools as one likes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from histories.counterfactuals import claims, plan, runs, with_change
from histories.waiting_pools import KINDS, Document, pool_of

FIRST = 7_000
SEEDS = 8

ALTERNATIVES = ("remove_jobs", "quota", "limit", "add_nodes", "sentence", "impossible", "place")


@pytest.fixture(scope="module")
def made() -> Counter[str]:
    """How many claims of each kind the pools of this module made."""
    return Counter()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_waiting_jobs_is_true(kind, made):
    for seed in range(FIRST, FIRST + SEEDS):
        for claim in claims(pool_of(kind, seed)):
            made[claim.what] += 1
            assert claim.true, (kind, seed, claim)


def test_all_kinds_of_claims_are_made():
    found: Counter[str] = Counter()
    for kind in ("limited", "shaped", "firm"):
        for seed in range(SEEDS):
            found.update(claim.what for claim in claims(pool_of(kind, seed)))

    assert not [what for what in ALTERNATIVES if not found[what]]


EQUALS = [{"name": "a"}, {"name": "b"}]

SEEN_UNTRUE: dict[str, Document] = {
    "the end of other jobs of a parent, of which only others stand in the way": {
        "nodes": [{"name": "n0", "gpus": 8}],
        "projects": [{"name": "d0"}, {"name": "d1", "limit": 9}, {"name": "team", "parent": "d1"}],
        "jobs": [
            {"name": "o", "project": "d0"},
            {"name": "w", "project": "team", "gpus": 8},
            {"name": "v", "project": "team", "gpus": 3},
        ],
    },
    "the end of other jobs of a project that runs none": {
        "nodes": [{"name": "n0", "gpus": 8}],
        "projects": [
            {"name": "susan", "quota": 4},
            {"name": "research", "quota": 4},
            {"name": "vision", "parent": "research", "quota": 2},
            {"name": "speech", "parent": "research", "quota": 2},
        ],
        "jobs": [
            {"name": "borrowed", "project": "vision", "gpus": 4, "placed": ["n0"]},
            {"name": "own", "project": "susan", "gpus": 4, "placed": ["n0"]},
            {"name": "w", "project": "speech", "gpus": 3, "submitted": 1},
        ],
    },
    "less demand of other projects, beside the end of jobs of its own": {
        "nodes": [{"name": "n0", "gpus": 1}, {"name": "n1", "gpus": 3}],
        "projects": EQUALS,
        "jobs": [
            {"name": "a1", "project": "a"},
            {"name": "b1", "project": "b", "submitted": 1},
            {"name": "b2", "project": "b", "gpus": 2, "submitted": 2},
            {"name": "w", "project": "b", "gpus": 3, "submitted": 3},
        ],
    },
    "less demand of other projects, while its own job is in the way": {
        "nodes": [{"name": "n0", "gpus": 8}],
        "projects": EQUALS,
        "jobs": [
            {"name": "a1", "project": "a"},
            {"name": "b1", "project": "b", "gpus": 2, "submitted": 1},
            {"name": "w", "project": "a", "gpus": 8, "submitted": 2},
        ],
    },
    "a quota, where the nodes are not wide enough for it": {
        "nodes": [{"name": "n0", "gpus": 3}, {"name": "n1", "gpus": 1}],
        "projects": [{"name": f"p{at}"} for at in range(4)],
        "jobs": [
            {"name": "j0", "project": "p2", "gpus": 2},
            {"name": "w", "project": "p2", "gpus": 2, "submitted": 3},
            {"name": "j6", "project": "p1", "submitted": 6},
            {"name": "j7", "project": "p0", "submitted": 7},
            {"name": "j10", "project": "p3", "gpus": 3, "submitted": 10},
        ],
    },
    "the end of a job, while what it requires is nowhere": {
        "nodes": [{"name": "n0", "gpus": 4}],
        "projects": EQUALS,
        "jobs": [
            {"name": "w", "project": "a", "gpus": 2, "require": "row", "submitted": 2},
            {"name": "b1", "project": "b", "gpus": 2, "submitted": 3},
        ],
    },
}
"""Pools of which a sentence of this kind was once untrue, of the job w."""


@pytest.mark.parametrize("pool", SEEN_UNTRUE.values(), ids=SEEN_UNTRUE.keys())
def test_what_was_said_without_being_true_is_not_said(pool):
    made = [claim for claim in claims(pool) if claim.job == "w"]

    assert made
    assert [claim for claim in made if not claim.true] == []


def pool_with(*jobs: Document, nodes: int = 1, **more: object) -> Document:
    return {
        "nodes": [{"name": f"n{at}", "gpus": 8, "labels": {"rack": f"r{at}"}} for at in range(nodes)],
        "projects": [{"name": "a", "quota": 4}, {"name": "b", "quota": 4}],
        "jobs": list(jobs),
        **more,
    }


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"require": "row"}, "It has to be in one row, and no node has the label row."),
        ({"gpus": 8, "workers": 2, "require": "rack"}, "It needs 2 workers with 8 GPUs each in one rack"),
        ({"gpus": 9}, "It needs 9 GPUs on one node, and the largest node has 8."),
        ({"gpus": 8, "workers": 3}, "It needs 3 workers with 8 GPUs each"),
    ],
    ids=["no such label", "no domain large enough", "no node large enough", "more nodes than there are"],
)
def test_a_job_that_the_pool_can_never_run_is_told_what_is_missing(job, says):
    waits = {"name": "w", "project": "a", **job}
    behind = {"name": "behind", "project": "a", "gpus": 8, "submitted": 1}
    holds = {"name": "h", "project": "b", "gpus": 8, "preemptible": False, "placed": ["n0"]}
    other = {"name": "o", "project": "b", "gpus": 8, "placed": ["n1"], "preemptible": False}
    shown = plan(pool_with(waits, behind, holds, other, nodes=2))["jobs"]

    assert shown["w"]["impossible"]
    assert shown["w"]["starts_if"] == ()
    assert shown["w"]["reason"].startswith(says)
    assert shown["w"]["reason"].endswith("The pool as it is can never run it.")
    assert "in line" not in shown["w"]["reason"]
    assert "Next in line of “a”." in shown["behind"]["reason"]


def test_a_required_domain_decides_whose_end_is_named():
    held = [
        {"name": f"h{at}", "project": "b", "gpus": 4, "preemptible": False, "placed": [f"n{at % 2}"]}
        for at in range(4)
    ]
    gang = {"name": "gang", "project": "a", "gpus": 4, "workers": 2, "require": "rack", "submitted": 1}
    pool = pool_with(*held, gang, nodes=2, projects=[{"name": "a"}, {"name": "b", "quota": 16}])
    shown = plan(pool)["jobs"]["gang"]

    removed = next(each["remove_jobs"] for each in shown["starts_if"] if "remove_jobs" in each)
    assert sorted(removed) in (["h0", "h2"], ["h1", "h3"])


def test_the_harness_sees_an_untrue_claim():
    holds = {"name": "h", "project": "b", "gpus": 8, "placed": ["n0"]}
    document = pool_with(holds, {"name": "w", "project": "a", "gpus": 8, "submitted": 1})

    assert runs(with_change(document, {"remove_jobs": ["h"]}), "w")
    assert not runs(with_change(document, {"quota": {"a": 5}}), "w")


def test_a_pool_too_large_to_plan_again_is_told_how_many_nodes_are_enough():
    found: Counter[bool] = Counter()
    for kind in ("flat", "tree", "gangs", "typed"):
        for seed in range(10):
            told = claims(pool_of(kind, seed), effort=0)
            found.update(claim.true for claim in told if claim.what == "add_nodes")

    assert found[True]
    assert not found[False]
