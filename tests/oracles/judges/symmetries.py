"""Changes of a scenario that must not matter: the same jobs run, with as many workers on GPUs of the same types.

All jobs of the scenario are submitted at different times: names and places in a list decide nothing. Both are
reversed, so that each tie between two is decided the other way round if they do. Only between equally full nodes
of one size the name decides, as documented: those of different content keep their order.

Changes that cannot undo one another are made together. Only where that matters is each made alone, to name the
one that does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from judges.command import Document, placements, simulate
from judges.pool import Pool, pool_of, running_in
from judges.rest import of_each_type
from judges.shares import fair_shares

Outcome = dict[str, Counter[str]]
Times = dict[str, tuple[float | None, ...]]
Change = Callable[[Document], tuple[Document, Mapping[str, str]]]
"""Returns the changed scenario, and the former names of jobs that have others now."""


NAMED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "nodes": {"nodes": ("name",), "jobs": ("placed",)},
    "projects": {"projects": ("name", "parent"), "jobs": ("project",)},
    "jobs": {"jobs": ("name",)},
}
"""Where the names of nodes, projects and jobs are in a scenario."""


def _renamed(kind: str) -> Change:
    def change(scenario: Document) -> tuple[Document, Mapping[str, str]]:
        names = _nodes_in_order(scenario) if kind == "nodes" else sorted(each["name"] for each in scenario[kind])
        new = {name: f"x{len(names) - at:02}" for at, name in enumerate(names)}
        changed = dict(scenario)
        for part, keys in NAMED[kind].items():
            changed[part] = [
                {key: _mapped(value, new) if key in keys else value for key, value in each.items()}
                for each in scenario[part]
            ]
        return changed, {after: before for before, after in new.items()} if kind == "jobs" else {}

    return change


def _nodes_in_order(scenario: Document) -> list[str]:
    """Return the nodes by size and name, the alike ones among those of a size in the order that reversing undoes.

    Reversed, sizes and alike nodes stand the other way round, and different nodes of one size as before.
    """
    alike: dict[str, list[str]] = {}
    for node in sorted(scenario["nodes"], key=lambda each: each["name"]):
        alike.setdefault(_content(scenario, node), []).append(node["name"])
    by_size: dict[int, list[str]] = {}
    for node in sorted(scenario["nodes"], key=lambda each: each["name"]):
        by_size.setdefault(node["gpus"], []).append(alike[_content(scenario, node)].pop())
    return [name for size in sorted(by_size) for name in by_size[size][::-1]]


def _content(scenario: Document, node: Document) -> str:
    """Return the node without its name, with the jobs that run there."""
    running = [(job["name"], job["placed"].count(node["name"])) for job in scenario["jobs"] if "placed" in job]
    here = [(name, workers) for name, workers in running if workers]
    return repr((sorted((key, value) for key, value in node.items() if key != "name"), here))


def _mapped(value: object, new: Mapping[str, str]) -> object:
    return [new[each] for each in value] if isinstance(value, list) else new.get(str(value), value)


def _reversed(kind: str) -> Change:
    def change(scenario: Document) -> tuple[Document, Mapping[str, str]]:
        return {**scenario, kind: scenario[kind][::-1]}, {}

    return change


def _heavier(scenario: Document) -> tuple[Document, Mapping[str, str]]:
    """Double all weights, but of the teams beside their department's own jobs, whose weight is 1."""
    owners = {job["project"] for job in scenario["jobs"]}
    projects = [
        each if each.get("parent") in owners else {**each, "weight": 2 * each.get("weight", 1)}
        for each in scenario["projects"]
    ]
    return {**scenario, "projects": projects}, {}


def _later(scenario: Document) -> tuple[Document, Mapping[str, str]]:
    return {**scenario, "jobs": [{**job, "submitted": job["submitted"] + 864_000} for job in scenario["jobs"]]}, {}


def _with_impossible_job(scenario: Document) -> tuple[Document, Mapping[str, str]]:
    """One that is wider than any node, neither the first nor the last to be submitted."""
    first = min(job["submitted"] for job in scenario["jobs"])
    job = {
        "name": "impossible",
        "project": scenario["jobs"][0]["project"],
        "gpus": 99,
        "priority": 75,
        "submitted": first + 0.5,
        "duration": 60,
    }
    return {**scenario, "jobs": [*scenario["jobs"], job]}, {}


CHANGES: Mapping[str, Change] = {
    "projects renamed": _renamed("projects"),
    "jobs renamed": _renamed("jobs"),
    "nodes renamed": _renamed("nodes"),
    "projects in reverse": _reversed("projects"),
    "jobs in reverse": _reversed("jobs"),
    "nodes in reverse": _reversed("nodes"),
    "weights doubled": _heavier,
    "time shifted": _later,
    "an impossible job added": _with_impossible_job,
}


TOGETHER = (
    ("projects renamed", "jobs renamed", "nodes renamed", "weights doubled"),
    ("jobs in reverse", "nodes in reverse", "time shifted", "an impossible job added"),
    ("projects in reverse",),
)
"""The changes, in groups that have no two of the same names and places."""


def together(names: Sequence[str]) -> Change:
    """Return several changes as one; at most one of them gives jobs other names."""

    def change(scenario: Document) -> tuple[Document, Mapping[str, str]]:
        former: dict[str, str] = {}
        for name in names:
            scenario, renamed = CHANGES[name](scenario)
            former.update(renamed)
        return scenario, former

    return change


def differences(scenario: Document) -> list[str]:
    """Return what differs after a change that must not matter, with the names of the changes."""
    first, *others = placements([scenario, *(together(names)(scenario)[0] for names in TOGETHER)])
    found: list[str] = []
    for names, shown in zip(TOGETHER, others, strict=True):
        if together_found := _differs(scenario, first, names, shown):
            alone = placements([CHANGES[name](scenario)[0] for name in names])
            each = [_differs(scenario, first, (name,), one) for name, one in zip(names, alone, strict=True)]
            found += list(filter(None, each)) or [together_found]
    return found


def _differs(scenario: Document, first: Document, names: Sequence[str], shown: Document) -> str | None:
    """Return how the plan of a scenario differs from the plan after these changes."""
    after, former = together(names)(scenario)
    if "projects in reverse" in names and (
        _shares(shown) != _shares(first) or _shares_before(after) != _shares_before(scenario)
    ):
        return None  # the older project gets the GPU that rounding leaves, and older ones are listed first
    before, outcome = _outcome(scenario, first, {}), _outcome(after, shown, former)
    outcome.pop("impossible", None)
    if outcome == before:
        return None
    was = {job: dict(before[job]) for job in before if before[job] != outcome[job]}
    now = {job: dict(outcome[job]) for job in was}
    return f"symmetry: {', '.join(names)}: {was} became {now}"


OVER_TIME = (
    "projects renamed",
    "jobs in reverse",
    "nodes in reverse",
    "weights doubled",
    "time shifted",
    "an impossible job added",
)
"""Changes that must not matter in a history either.

Names of jobs decide which are alike, older projects get the GPUs that rounding leaves, and names decide between
nodes that are equally full of different jobs: over time these matter.
"""


def differences_over_time(scenario: Document, options: Sequence[str]) -> list[str]:
    """Return whose times differ in a history after a change that must not matter; no two submissions coincide."""
    jobs = [{**job, "submitted": job["submitted"] + at / 64} for at, job in enumerate(scenario["jobs"])]
    apart = {**scenario, "jobs": jobs}
    before = _times(apart, options)
    all_found = _differs_over_time(apart, options, before, OVER_TIME)
    if not all_found:
        return []
    alone = [_differs_over_time(apart, options, before, (name,)) for name in OVER_TIME]
    return list(filter(None, alone)) or [all_found]


def _differs_over_time(
    scenario: Document, options: Sequence[str], before: Times, names: Sequence[str]
) -> str | None:
    """Return whose times differ from those before these changes."""
    times = _times(together(names)(scenario)[0], options)
    differing = sorted(job for job, each in before.items() if times[job] != each)
    return f"symmetry over time: {', '.join(names)}: {differing} run at other times" if differing else None


def _times(scenario: Document, options: Sequence[str]) -> Times:
    """Return when each job starts and ends after its submission, and how often it is paused."""
    _, rows = simulate(scenario, *options)
    times = ("start_s", "finish_s")
    return {
        name: (*(None if row[at] is None else round(row[at] - row["submit_s"], 3) for at in times), row["pauses"])
        for name, row in rows.items()
    }


def _shares_before(scenario: Document) -> Mapping[str, Mapping[str, int]]:
    """Return the fair shares of each type before anything starts, by the order in which projects are listed.

    They decide on a pool with several types, and shares at rest do not show them: as long as a job may get several
    types it counts on the first one on which it could run.
    """
    placed = {job["name"]: {"nodes": [node for node in job.get("placed", ()) if node]} for job in scenario["jobs"]}
    parts = {
        part["nodes"][0].get("gpu_type", ""): (pool_of(part), running_in(shown))
        for part, shown in of_each_type(scenario, {"jobs": placed})
    }
    counted: dict[str, str] = {}
    for job in scenario["jobs"]:
        name = job["name"]
        for kind in job.get("gpu_types") or scenario.get("gpu_types", parts):
            pool, running = parts.get(kind, (None, {}))
            if pool and name in pool.jobs and (name in running or pool.could_run(pool.jobs[name])):
                counted.setdefault(name, kind)
    return {kind: fair_shares(_with_jobs(pool, counted, kind), running) for kind, (pool, running) in parts.items()}


def _with_jobs(pool: Pool, counted: Mapping[str, str], kind: str) -> Pool:
    """Return the pool with the jobs that count on this type alone."""
    return replace(pool, jobs={name: job for name, job in pool.jobs.items() if counted.get(name) == kind})


def _shares(shown: Document) -> Document:
    return {name: project["fair_share"] for name, project in shown["projects"].items()}


def _outcome(scenario: Document, shown: Document, former: Mapping[str, str]) -> Outcome:
    kinds = {node["name"]: node.get("gpu_type", "") for node in scenario["nodes"]}
    return {
        former.get(name, name): Counter(kinds[node] for node in job["nodes"])
        for name, job in shown["jobs"].items()
    }
