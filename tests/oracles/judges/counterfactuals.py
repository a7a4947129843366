"""What a plan says would let a waiting job start is carried out, and the pool is planned again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from judges.command import Document, placements, plan

MOST = 3


@dataclass(frozen=True)
class Claim:
    """Something that is said of a job: that it runs (or never does) in a changed scenario."""

    job: str
    said: str
    scenario: Document
    runs: bool = True


def untrue(scenario: Document) -> list[str]:
    """Return the false claims about the waiting jobs of a scenario."""
    shown = plan(scenario)
    found = [text for job in scenario["jobs"] for text in _malformed(job["name"], shown["jobs"][job["name"]])]
    claims = [claim for job in scenario["jobs"] for claim in _claims(scenario, shown, job)]
    same, *afterwards = placements([scenario, *(each.scenario for each in claims)])
    if _running(shown) != _running(same):
        found.append(f"sentence: with reasons {_running(shown)} run, and without them {_running(same)}")
    for claim, after in zip(claims, afterwards, strict=True):
        if bool(after["jobs"][claim.job]["running"]) is not claim.runs or not after["stable"]:
            found.append(f"sentence: {claim.job} {'waits' if claim.runs else 'runs'} though {claim.said}")
    return found


def _running(shown: Document) -> dict[str, list[str]]:
    """Return the nodes of the workers of each job that runs."""
    return {name: job["nodes"] for name, job in shown["jobs"].items() if job["running"]}


def at_rest(scenario: Document, shown: Document) -> Document:
    """Return the scenario with all jobs where a plan leaves them."""
    return {
        **scenario,
        "jobs": [{**job, "placed": shown["jobs"][job["name"]]["nodes"]} for job in scenario["jobs"]],
    }


def _malformed(name: str, told: Document) -> Iterator[str]:
    if told["running"]:
        if "starts_if" in told or told.get("impossible"):
            yield f"sentence: {name} runs, and has conditions of its start"
        return
    changes, never = told["starts_if"], told.get("impossible", False)
    if never and changes:
        yield f"sentence: {name} can never run, and has conditions of its start"
    if not never and not changes:
        yield f"sentence: {name} could run, and has no conditions of its start"
    sizes = [_size(change) for change in changes]
    if len(changes) > MOST or sizes != sorted(sizes):
        yield f"sentence: of {name} {changes}: expected at most {MOST}, smallest first"
    if any(len(change) != 1 for change in changes):
        yield f"sentence: of {name} {changes}: expected one change each"


def _size(change: Document) -> int:
    return sum(value if isinstance(value, int) else len(value) for value in change.values())


def _claims(scenario: Document, shown: Document, job: Document) -> Iterator[Claim]:
    name, told = job["name"], shown["jobs"][job["name"]]
    if told["running"]:
        return
    alone = {**scenario, "jobs": [{key: value for key, value in job.items() if key != "placed"}]}
    if told.get("impossible"):
        yield Claim(name, "it is said that it can never run", alone, runs=False)
    for change in told["starts_if"]:
        if change.keys() <= {"remove_jobs", "add_nodes"}:
            yield Claim(name, "it could run alone", alone)
        for start, where in ((scenario, "as it is"), (at_rest(scenario, shown), "at rest")):
            for like in _largest(scenario, job) if "add_nodes" in change else [None]:
                yield Claim(name, f"{change} ({where}, like {like})", _changed(start, change, like))


def _largest(scenario: Document, job: Document) -> list[str]:
    """Return the largest node of each GPU type that a job accepts."""
    kinds = {node["name"]: node.get("gpu_type", "") for node in scenario["nodes"]}
    found = []
    for kind in dict.fromkeys(kinds.values()):
        if kind in (job.get("gpu_types") or kinds.values()):
            nodes = [node for node in scenario["nodes"] if kinds[node["name"]] == kind]
            found.append(max(nodes, key=lambda node: node["gpus"])["name"])
    return found


def _changed(scenario: Document, change: Document, like: str | None) -> Document:
    removed = change.get("remove_jobs", ())
    new = [
        {**node, "name": f"more{at}"}
        for node in scenario["nodes"]
        if node["name"] == like
        for at in range(change.get("add_nodes", 0))
    ]
    amounts = {key: change[key] for key in ("quota", "limit") if key in change}
    return {
        **scenario,
        "nodes": [*scenario["nodes"], *new],
        "projects": [
            {**each, **{key: named[each["name"]] for key, named in amounts.items() if each["name"] in named}}
            for each in scenario["projects"]
        ],
        "jobs": [job for job in scenario["jobs"] if job["name"] not in removed],
    }
