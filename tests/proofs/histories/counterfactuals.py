"""What a plan says would let a job start, carried out: each alternative, each sentence, each "never".

It knows nothing but scenario documents and what `springtide plan` prints for one.

    python counterfactuals.py --seeds 20000         # prints how many claims of each kind were made and were untrue
"""

from __future__ import annotations

import argparse
import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from histories.waiting_pools import KINDS, Document, pool_of

from springtide.scheduler.scenario.read import checked
from springtide.scheduler.simulate import opening, settle
from springtide.scheduler.simulate.plan_report import planned
from springtide.scheduler.simulate.starts_if import EFFORT


class Claim(NamedTuple):
    """One thing that was said of a waiting job, and whether it is true."""

    what: str
    job: str
    said: object
    true: bool


def plan(document: Document, effort: int = EFFORT) -> dict[str, Any]:
    """Return what `springtide plan` prints."""
    return planned(checked(copy.deepcopy(document), "pool"), "pool", effort)


def with_change(document: Document, change: Mapping[str, Any], like: str | None = None) -> Document:
    """Return the scenario after a change; new nodes are copies of the one named ``like``."""
    after = copy.deepcopy(document)
    for key, value in change.items():
        match key:
            case "remove_jobs":
                after["jobs"] = [job for job in after["jobs"] if job["name"] not in value]
            case "quota" | "limit":
                for project in after["projects"]:
                    if project["name"] in value:
                        project[key] = value[project["name"]]
            case "add_nodes":
                node = next(each for each in document["nodes"] if each["name"] == like)
                after["nodes"] += [{**node, "name": f"more{at}"} for at in range(value)]
            case _:
                raise AssertionError(f"unknown change {key}")
    return after


def largest(document: Document, job: Document) -> list[str]:
    """Return the first of the largest nodes of each type that the job accepts."""
    found = []
    for kind in dict.fromkeys(node.get("gpu_type", "") for node in document["nodes"]):
        if not job.get("gpu_types") or kind in job["gpu_types"]:
            nodes = [each for each in document["nodes"] if each.get("gpu_type", "") == kind]
            found.append(max(nodes, key=lambda node: node["gpus"])["name"])
    return found


def at_rest(document: Document, shown: Mapping[str, Any]) -> Document:
    """Return the scenario with all jobs where the plan leaves them."""
    jobs = [
        {key: value for key, value in job.items() if key != "placed"}
        | {"placed": shown["jobs"][job["name"]]["nodes"]}
        for job in document["jobs"]
    ]
    return {**document, "jobs": jobs}


def runs(document: Document, job: str) -> bool:
    """Tell whether the job runs at rest."""
    rest = settle(opening(checked(document, "pool")))
    return rest.stable and bool(rest.jobs[job].placement)


def claims(document: Document, effort: int = EFFORT) -> Iterator[Claim]:
    """Yield all that is said of the waiting jobs of a pool."""
    shown = plan(document, effort)
    divided = any(node.get("islands") or node.get("sockets") for node in document["nodes"])
    starts = [document] if divided else [document, at_rest(document, shown)]
    for job in document["jobs"]:
        told = shown["jobs"][job["name"]]
        if told["running"]:
            yield Claim("of a running job", job["name"], told, "starts_if" not in told)
            continue
        for change in told["starts_if"]:
            yield Claim("+".join(change), job["name"], change, _helps(starts, job, change))
        sizes = [_size(each) for each in told["starts_if"]]
        yield Claim(
            "at most three, smallest first", job["name"], sizes, sizes == sorted(sizes) and len(sizes) <= 3
        )
        never = told.get("impossible", False)
        yield Claim("something", job["name"], told, bool(told["starts_if"]) is not never)
        if never:
            alone = {**document, "jobs": [job]}
            yield Claim("impossible", job["name"], told["reason"], not runs(alone, job["name"]))
        yield from _said(document, starts, job, told)


def _helps(starts: list[Document], job: Document, change: Mapping[str, Any]) -> bool:
    likes = largest(starts[0], job) if "add_nodes" in change else [None]
    return all(runs(with_change(each, change, like), job["name"]) for each in starts for like in likes)


def _size(change: Mapping[str, Any]) -> int:
    return sum(value if isinstance(value, int) else len(value) for value in change.values())


END = re.compile(r"(?<=[.]) (?=[A-Z])")
EASES = re.compile(r"It can start|It could start|It starts")


def _said(document: Document, starts: list[Document], job: Document, told: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims of the sentences."""
    for sentence in END.split(told["reason"]):
        if EASES.match(sentence):
            for change in read(sentence, document):
                yield Claim("sentence", job["name"], sentence, _helps(starts, job, change))
        if sentence.startswith(("Next in line", "Number ")):
            yield Claim("place", job["name"], sentence, not told.get("impossible", False))


def read(sentence: str, document: Document) -> list[dict[str, Any]]:
    """Return the changes that a sentence names, each of which is to be enough."""
    names = {job["name"] for job in document["jobs"]}
    if jobs := [word for word in re.findall(r"\w+", sentence) if word in names]:
        return [{"remove_jobs": jobs}]
    if match := re.search(r"(\d+) more nodes?", sentence):
        return [{"add_nodes": int(match[1])}]
    projects = {project["name"]: project for project in document["projects"]}
    change: dict[str, Any] = {}
    for match in re.finditer(r"with a (quota|limit) of (\w+)(?: (\w+) GPUs?)? for “(\w+)”", sentence):
        what, number, kind, name = match.groups()
        _change(change, projects[name], what, kind, 0 if number == "none" else int(number))
    for match in re.finditer(r"without the (limit)(?: of (\w+) GPUs)? for “(\w+)”", sentence):
        _change(change, projects[match[3]], match[1], match[2], None)
    assert change, f"nothing can be done about {sentence!r}"
    return [change]


def _change(change: dict[str, Any], project: Document, what: str, kind: str | None, to: int | None) -> None:
    """Note the new quota or limit of a project, of one GPU type if that is named."""
    before = change.setdefault(what, {}).get(project["name"], project.get(what))
    change[what][project["name"]] = to if kind is None else {**(before or {}), kind: to}


def main() -> None:
    """Carry out the claims of many pools and print the untrue ones."""
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=900)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--kind", choices=KINDS)
    given = options.parse_args()
    kinds = [given.kind] if given.kind else list(KINDS)
    made, untrue = Counter[str](), Counter[str]()
    for number in range(given.first, given.first + given.seeds):
        kind = kinds[number % len(kinds)]
        for claim in claims(pool_of(kind, number)):
            made[claim.what] += 1
            if not claim.true:
                untrue[claim.what] += 1
                print(f"untrue: {kind} {number}: {claim.what}: {claim.job}: {claim.said}", flush=True)
    print(f"seeds {given.first} to {given.first + given.seeds - 1}")
    for what, count in sorted(made.items()):
        print(f"{what:<32} {untrue[what]:>6} of {count:>7} untrue")


if __name__ == "__main__":
    main()
