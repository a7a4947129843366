"""Jobs that wait without a right to GPUs: those of teams of weight 0 and without a quota, beside all other jobs.

Once a pool is at rest, their waiting changes nobody's fair share, except of the projects above them, and no start.
"""

from __future__ import annotations

from judges.command import Document, placements
from judges.counterfactuals import at_rest


def teams_without_right(scenario: Document) -> set[str]:
    """Return the projects of weight 0 without a quota and without others below them."""
    parents = {each.get("parent") for each in scenario["projects"]}
    return {
        each["name"]
        for each in scenario["projects"]
        if each.get("weight", 1) == 0 and not each.get("quota", 0) and each["name"] not in parents
    }


def after_others(scenario: Document) -> Document:
    """Return a pool of one node and jobs of one GPU on which jobs of all other projects run as far as they fit."""
    (node,) = scenario["nodes"]
    teams, left = teams_without_right(scenario), node["gpus"]
    jobs = []
    for job in scenario["jobs"]:
        runs = job["project"] not in teams and left > 0
        left -= runs
        jobs.append({**job, "placed": [node["name"]] if runs else []})
    return {**scenario, "jobs": jobs}


def differences(scenario: Document) -> list[str]:
    """Return what differs once the jobs that wait without a right are gone from the pool at rest."""
    (shown,) = placements([scenario])
    resting = at_rest(scenario, shown)
    teams = teams_without_right(scenario)
    waiting = [job for job in resting["jobs"] if job["project"] in teams and not job["placed"]]
    rest = [job for job in resting["jobs"] if job not in waiting]
    with_them, without = placements([resting, {**resting, "jobs": rest}])
    above = {name for job in waiting for name in _path(scenario, job["project"])}
    found = [
        f"weight 0: the share of {name} is {each['fair_share']}, and {other} once nothing waits without a right"
        for name, each in with_them["projects"].items()
        if name not in above and (other := without["projects"][name]["fair_share"]) != each["fair_share"]
    ]
    runs, runs_without = (
        {job["name"]: plan["jobs"][job["name"]]["running"] for job in rest} for plan in (with_them, without)
    )
    if runs != runs_without:
        found.append(f"weight 0: {runs} became {runs_without} once nothing waits without a right")
    return found


def _path(scenario: Document, project: str) -> list[str]:
    """Return the project and all above it."""
    parents = {each["name"]: each.get("parent") for each in scenario["projects"]}
    path = [project]
    while (parent := parents[path[-1]]) is not None:
        path.append(parent)
    return path
