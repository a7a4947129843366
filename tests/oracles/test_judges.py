"""The judges see the fault of a plan: each of these is a made-up one with one fault."""

from __future__ import annotations

import pytest
from judges import symmetries
from judges.minimise import minimised
from judges.report import job, on, pool
from judges.rest import breaches

PAIR = pool([2, 2], {"a": 2, "b": 0}, job("a1", "a", 2, 1), job("b1", "b", 1, 2, workers=2))
TYPES = pool(
    {"t4": [2], "a100": [2]}, {"a": 0}, job("pair", "a", 1, workers=2), job("t4", "a", 1, 1, gpu_types=["t4"])
)
TEAMS = pool(
    [4], {"d": 4, "x": {"parent": "d", "quota": 2}, "y": {"parent": "d"}}, job("x1", "x", 2), job("y1", "y", 3)
)
LIMIT = pool([4], {"a": {"limit": 2}}, job("a1", "a", 2), job("a2", "a", 2, 1))
FIRM = pool([4], {"a": 2}, job("a1", "a", 4, preemptible=False))
GROWN = pool(
    [3],
    {"a": 3, "b": {"limit": 0}},
    job("a1", "a", 1, workers=3, min_workers=1, preemptible=False),
    on("b1", "b", 1, "n0"),
)
EQUAL = pool([2], {"a": 0, "b": 0}, *(job(f"{name}{at}", name, 1, at) for name in "ab" for at in range(2)))


def shown(scenario, nodes, shares=None, **more: object):
    """A plan in which these jobs run on these nodes, with these fair shares of projects."""
    jobs = [each["name"] for each in scenario["jobs"]]
    return {
        "stable": True,
        "projects": {
            each["name"]: {"fair_share": (shares or {}).get(each["name"])} for each in scenario["projects"]
        },
        "jobs": {name: {"running": len(nodes.get(name, ())), "nodes": list(nodes.get(name, ()))} for name in jobs},
        **more,
    }


FAULTS = {
    "no thrashing: without rest": (PAIR, shown(PAIR, {}, stable=False)),
    "nothing lost: a job is missing": (PAIR, shown(PAIR, {}, jobs={})),
    "exclusive: three GPUs of two": (PAIR, shown(PAIR, {"a1": ["n0"], "b1": ["n0", "n1"]})),
    "gang: one worker of two": (PAIR, shown(PAIR, {"a1": ["n0"], "b1": ["n1"]})),
    "GPU types: workers on two types": (TYPES, shown(TYPES, {"pair": ["t40", "a1000"]})),
    "GPU types: a type that it does not accept": (TYPES, shown(TYPES, {"t4": ["a1000"], "pair": ["t40", "t40"]})),
    "limits: above the limit": (LIMIT, shown(LIMIT, {"a1": ["n0"], "a2": ["n0"]})),
    "limits: not preemptible beyond the quota": (FIRM, shown(FIRM, {"a1": ["n0"]})),
    "work conserving: free GPUs": (PAIR, shown(PAIR, {"b1": ["n1", "n1"]}, {"a": 2, "b": 2})),
    "work conserving: a start with one worker where two GPUs are free": (
        GROWN,
        shown(GROWN, {"a1": ["n0"]}, {"a": 3, "b": 0}),
    ),
    "guarantee: a sibling keeps what it borrowed": (TEAMS, shown(TEAMS, {"y1": ["n0"]}, {"d": 4, "x": 2, "y": 2})),
    "fair share: told wrongly": (EQUAL, shown(EQUAL, {"a0": ["n0"], "b0": ["n0"]}, {"a": 2, "b": 0})),
    "fair share: one project has all": (EQUAL, shown(EQUAL, {"a0": ["n0"], "a1": ["n0"]}, {"a": 1, "b": 1})),
}


@pytest.mark.parametrize(("promise", "fault"), FAULTS.items(), ids=FAULTS)
def test_a_fault_is_seen_and_named(promise, fault):
    assert {breach.partition(":")[0] for breach in breaches(*fault)} == {promise.partition(":")[0]}


@pytest.mark.parametrize(
    ("scenario", "plan"),
    [
        (PAIR, shown(PAIR, {"a1": ["n0"], "b1": ["n1", "n1"]}, {"a": 2, "b": 2})),
        (EQUAL, shown(EQUAL, {"a0": ["n0"], "b0": ["n0"]}, {"a": 1, "b": 1})),
        (LIMIT, shown(LIMIT, {"a1": ["n0"]}, {"a": 2})),
        (FIRM, shown(FIRM, {}, {"a": 0})),
        (GROWN, shown(GROWN, {"a1": ["n0", "n0"]}, {"a": 3, "b": 0})),
    ],
    ids=[
        "a gang beside its neighbour",
        "equal parts",
        "up to the limit",
        "never beyond the quota",
        "not preemptible, and a GPU was given up after the start",
    ],
)
def test_a_plan_without_a_fault_passes(scenario, plan):
    assert breaches(scenario, plan) == []


def test_the_smallest_scenario_that_fails_is_found():
    large = pool(
        [4, 4],
        {"a": 2, "b": 2, "c": 0},
        on("runs", "c", 1, "n0", priority=25),
        job("a1", "a", 4, 1, priority=75),
        job("b1", "b", 1, 2),
    )

    found = minimised(large, lambda smaller: any(each["name"] == "a1" for each in smaller["jobs"]))

    assert [each["name"] for each in found["jobs"]] == ["a1"]
    assert [each["name"] for each in found["projects"]] == ["a"]
    assert len(found["nodes"]) == 1
    assert "priority" not in found["jobs"][0]


@pytest.mark.parametrize("name", [name for names in symmetries.TOGETHER[:2] for name in names])
def test_of_changes_made_together_the_one_that_matters_is_named(monkeypatch, name):
    monkeypatch.setitem(symmetries.CHANGES, name, without_jobs_running)

    found = symmetries.differences(PAIR)

    assert [each.split(": ")[:2] for each in found] == [["symmetry", name]]


def test_renamed_nodes_change_places_with_alike_and_other_sizes_not_with_different_content():
    sizes = {"n0": 4, "n1": 2, "n2": 4, "n3": 4}
    nodes = [{"name": name, "gpus": gpus} for name, gpus in sizes.items()]
    scenario = {"nodes": nodes, "projects": [], "jobs": [on("runs", "a", 1, "n2")]}

    renamed, _ = symmetries.CHANGES["nodes renamed"](scenario)

    new = dict(zip(sizes, (node["name"] for node in renamed["nodes"]), strict=True))
    assert sorted(sizes, key=lambda name: new[name]) == ["n3", "n2", "n0", "n1"]
    assert renamed["jobs"][0]["placed"] == [new["n2"]]


@pytest.mark.parametrize("name", symmetries.OVER_TIME)
def test_of_changes_made_together_the_one_that_matters_over_time_is_named(monkeypatch, name):
    monkeypatch.setitem(symmetries.CHANGES, name, without_jobs_running)
    lasting = {**PAIR, "jobs": [{**each, "duration": 60} for each in PAIR["jobs"]]}

    found = symmetries.differences_over_time(lasting, ())

    assert found == [f"symmetry over time: {name}: ['a1', 'b1'] run at other times"]


def without_jobs_running(scenario):
    return {**scenario, "projects": [{**each, "quota": 0, "limit": 0} for each in scenario["projects"]]}, {}
