"""Bad scenarios: the message names file, field and what was expected; exit 2, no traceback."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

GOOD: dict[str, Any] = {
    "nodes": [{"name": "dgx", "gpus": 8}],
    "projects": [{"name": "vision", "quota": 2}, {"name": "speech", "parent": "vision"}],
    "jobs": [{"name": "a", "project": "speech", "gpus": 2}],
}


def changed(part: str, **fields: object) -> dict:
    data = copy.deepcopy(GOOD)
    data[part][0].update(fields)
    return data


def added(part: str, item: object) -> dict:
    data = copy.deepcopy(GOOD)
    data[part].append(item)
    return data


def without(part: str, field: str) -> dict:
    data = copy.deepcopy(GOOD)
    del data[part][0][field]
    return data


def typed(**fields: object) -> dict:
    """The pool with two GPU types; ``fields`` are of its first project or job, or at the top level."""
    data = copy.deepcopy(GOOD)
    data["nodes"] = [{"name": "old", "gpus": 8, "gpu_type": "t4"}, {"name": "new", "gpus": 8, "gpu_type": "a100"}]
    data["projects"][0]["quota"] = {"a100": 2}
    for name, value in fields.items():
        part = {"quota": data["projects"][0], "limit": data["projects"][0], "gpu_types": data}
        part.get(name, data["jobs"][0])[name] = value
    return data


BAD = {
    "unknown key at the top": ({**GOOD, "job": []}, "job", "one of nodes, projects, jobs"),
    "unknown key of a job": (changed("jobs", gpu=1), "jobs[0].gpu", "unknown key, expected one of preset, gpus"),
    "unknown key of a node": (changed("nodes", rack="r1"), "nodes[0].rack", "unknown key"),
    "missing nodes": ({"projects": []}, "nodes", "missing"),
    "missing name": (without("jobs", "name"), "jobs[0].name", "missing"),
    "unknown project": (changed("jobs", project="vison"), "jobs[0].project", "“speech”, “vision”"),
    "unknown parent": (changed("projects", parent="lab"), "projects[0].parent", "“vision” or null"),
    "cycle of parents": (changed("projects", parent="speech"), "projects[0].parent", "a tree"),
    "plain quota for two types": (
        typed(quota=4),
        "projects[0].quota",
        """expected a table by GPU type (“a100”, “t4”) such as {"t4": 4, "a100": 4}, got 4""",
    ),
    "plain limit for two types": (typed(limit=4), "projects[0].limit", "expected a table by GPU type"),
    "quota of no type of the pool": (typed(quota={"h100": 1}), "projects[0].quota", "“a100”, “t4”"),
    "negative quota of a type": (typed(quota={"t4": -1}), "projects[0].quota[...]", ">= 0"),
    "order of types with an unknown one": (typed(gpu_types=["h100"]), "gpu_types[0]", "got “h100”"),
    "order of types with one twice": (
        typed(gpu_types=["t4", "t4"]),
        "gpu_types[1]",
        "once (“a100”, “t4”), got “t4”",
    ),
    "workers on two types": (
        typed(workers=2, placed=["old", "new"]),
        "jobs[0].placed",
        "all workers on GPUs of one type, got “a100”, “t4”",
    ),
    "unknown surplus": ({**GOOD, "surplus": "all"}, "surplus", "got “all”"),
    "own parent": (changed("projects", parent="vision"), "projects[0].parent", "(vision > vision)"),
    "negative quota": (changed("projects", quota=-1), "projects[0].quota", ">= 0, got -1"),
    "negative limit": (changed("projects", limit=-1), "projects[0].limit", ">= 0, got -1"),
    "negative weight": (changed("projects", weight=-0.5), "projects[0].weight", ">= 0.0, got -0.5"),
    "negative gpus": (changed("nodes", gpus=-8), "nodes[0].gpus", ">= 0, got -8"),
    "negative submission": (changed("jobs", submitted=-1), "jobs[0].submitted", ">= 0.0, got -1"),
    "negative duration": (changed("jobs", duration=-1), "jobs[0].duration", ">= 0.0, got -1"),
    "no workers": (changed("jobs", workers=0), "jobs[0].workers", ">= 1, got 0"),
    "more least workers than workers": (changed("jobs", min_workers=2), "jobs[0].min_workers", "at most its 1"),
    "island beyond the node": (
        changed("nodes", islands=[[0, 8]]),
        "nodes[0].islands",
        "expected each index below 8 in one island, got 8",
    ),
    "GPU on two sockets": (
        changed("nodes", sockets=[[0, 1], [1, 2]]),
        "nodes[0].sockets",
        "expected each index below 8 in one socket, got 1",
    ),
    "socket beyond the node": (
        changed("nodes", sockets=[[0, 8]]),
        "nodes[0].sockets",
        "expected each index below 8 in one socket, got 8",
    ),
    "socket of no list": (changed("nodes", sockets=[0, 1]), "nodes[0].sockets[0]", "expected array, got 0"),
    "duplicate node": (added("nodes", {"name": "dgx", "gpus": 1}), "nodes[1].name", "a name of its own"),
    "duplicate project": (added("projects", {"name": "vision"}), "projects[2].name", "a name of its own"),
    "duplicate job": (added("jobs", {"name": "a", "project": "vision"}), "jobs[1].name", "a name of its own"),
    "NaN weight": (changed("projects", weight=float("nan")), "projects[0].weight", "got NaN"),
    "NaN count": (changed("nodes", gpus=float("nan")), "nodes[0].gpus", "expected int, got NaN"),
    "infinite submission": (changed("jobs", submitted=float("inf")), "jobs[0].submitted", "got infinity"),
    "boolean as a number": (changed("nodes", gpus=True), "nodes[0].gpus", "expected int, got true"),
    "number as a boolean": (changed("jobs", preemptible=1), "jobs[0].preemptible", "got 1"),
    "fraction of a GPU": (changed("jobs", gpus=0.5), "jobs[0].gpus", "expected int, got 0.5"),
    "text as a number": (changed("jobs", priority="much"), "jobs[0].priority", "no priority “much”"),
    "absurd number": (changed("nodes", gpus=10**12), "nodes[0].gpus", "<= 1000000"),
    "list as a node": (added("nodes", ["x", 1]), "nodes[1]", "got a list"),
    "not an object": ([GOOD], "(top level)", "expected object, got a list"),
    "placed on no node": (changed("jobs", placed=["dgy"]), "jobs[0].placed", "“dgx” or null"),
    "placed beyond the node": (
        changed("jobs", gpus=5, workers=2, placed=["dgx", "dgx"]),
        "jobs[0].placed",
        "3 are left",
    ),
    "part of a gang placed": (changed("jobs", workers=2, placed=["dgx", None]), "jobs[0].placed", "at least 2"),
    "more placed than workers": (
        changed("jobs", placed=["dgx", "dgx"]),
        "jobs[0].placed",
        "one entry per worker (1)",
    ),
}


@pytest.mark.parametrize(("data", "field", "expected"), BAD.values(), ids=BAD.keys())
def test_a_bad_scenario_is_named_with_its_field_and_what_was_expected(data, field, expected, written, run_plan):
    file = written(data)

    result = run_plan(file)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{file}: {field}: " in result.stderr
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_zero_and_unlimited_are_plain_numbers_for_all_types(written, run_plan):
    planned = json.loads(run_plan(written(typed(quota=0, limit=0))).stdout)
    unlimited = json.loads(run_plan(written(typed(quota=None))).stdout)

    assert planned["projects"]["vision"]["quota"] == {"t4": 0, "a100": 0}
    assert planned["jobs"]["a"]["running"] == 0
    assert unlimited["projects"]["vision"]["quota"] == {"t4": None, "a100": None}


UNREADABLE = {
    "empty": (b"", "expected JSON"),
    "cut short": (b'{"nodes": [', "line 1"),
    "not UTF-8": (b'{"nodes": "\xff"}', "expected UTF-8 text, got byte 0xff"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "key twice": (b'{"nodes": [], "nodes": []}', "given twice"),
    "thousands of digits": (b'{"nodes": ' + b"9" * 9000 + b"}", "ordinary numbers"),
}


@pytest.mark.parametrize(("raw", "expected"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_that_is_no_json_is_refused_in_words(raw, expected, written, run_plan):
    result = run_plan(written(raw))

    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


BAD_YAML = {
    "alias": ("nodes: &n [{name: x, gpus: 1}]\nprojects: *n\n", "line 2: alias *n"),
    "alias bomb": ("a: &a [1]\nb: &b [*a, *a]\nnodes: [*b, *b]\n", "every value written out"),
    "deep": ("[" * 200, "at most 16 levels"),
    "key twice": ("nodes: []\nnodes: []\n", "given twice"),
    "python object": ("nodes: !!python/object/apply:os.system ['true']\n", "expected YAML"),
    "two documents": ("nodes: []\n---\nnodes: []\n", "another document"),
    "NaN": ("nodes: [{name: x, gpus: .nan}]\nprojects: []\n", "nodes[0].gpus: expected int, got NaN"),
    "empty": ("", "expected object, got null"),
    "control character": ("nodes: \x07\n", "expected YAML"),
}


@pytest.mark.parametrize(("text", "expected"), BAD_YAML.values(), ids=BAD_YAML.keys())
def test_hostile_yaml_is_refused_in_words(text, expected, written, run_plan):
    result = run_plan(written(text, "pool.yaml"))

    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path, run_plan):
    result = run_plan(tmp_path / "nowhere.json")

    assert result.exit_code == 2
    assert f"{tmp_path / 'nowhere.json'}: no such file" in result.stderr


def test_a_directory_is_no_scenario(tmp_path, run_plan):
    assert "expected a plain file" in run_plan(tmp_path).stderr


def test_the_same_pool_in_yaml_and_in_json_plans_the_same(written, run_plan):
    as_json = written(GOOD)
    as_yaml = written(
        "nodes:\n- {name: dgx, gpus: 8}\n"
        "projects:\n- {name: vision, quota: 2}\n- {name: speech, parent: vision}\n"
        "jobs:\n- {name: a, project: speech, gpus: 2}\n",
        "pool.yaml",
    )

    lines = run_plan(as_json, as_yaml).stdout.splitlines()

    first, second = (json.loads(line) for line in lines)
    assert first.pop("file") != second.pop("file")
    assert first == second


def test_a_bad_file_does_not_keep_the_others_from_being_planned(written, run_plan):
    good, bad = written(GOOD, "good.json"), written(b"{", "bad.json")

    result = run_plan(bad, good)

    assert result.exit_code == 2
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == [str(good)]


def test_names_cannot_drive_the_terminal(written, run_plan):
    result = run_plan(written({**GOOD, "\x1b[2Jboo": 1}))

    assert "\x1b" not in result.stderr
    assert "boo" in result.stderr
