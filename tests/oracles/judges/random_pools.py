"""Random pools, small enough to try everything: at most 3 nodes, 8 GPUs and 6 jobs.

All jobs are submitted at different times within a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from judges.command import Document

MOST_GPUS = 8


def flat(draw: Random) -> Document:
    """Projects beside each other, with quotas that the pool can keep."""
    nodes = _nodes(draw)
    left = sum(node["gpus"] for node in nodes)
    projects: list[Document] = []
    for at in range(draw.randint(1, 4)):
        quota = draw.choice([0, left, draw.randint(0, left), draw.randint(0, left)])
        left -= quota
        projects.append({"name": f"p{at}", "quota": quota})
    draw.shuffle(projects)
    return {"nodes": nodes, "projects": projects, "jobs": _jobs(draw, [each["name"] for each in projects])}


def tree(draw: Random) -> Document:
    """Departments with teams, which have the jobs; quotas that each level can keep."""
    nodes = _nodes(draw)
    left = sum(node["gpus"] for node in nodes)
    projects: list[Document] = []
    leaves: list[str] = []
    for at in range(draw.randint(1, 3)):
        name, quota = f"d{at}", draw.choice([0, left, draw.randint(0, left)])
        left -= quota
        projects.append({"name": name, "quota": quota})
        teams = draw.randint(0, 2)
        for team in range(teams):
            own = draw.choice([0, draw.randint(0, quota)])
            quota -= own
            projects.append({"name": f"{name}t{team}", "parent": name, "quota": own})
        leaves += [f"{name}t{team}" for team in range(teams)] or [name]
    return {"nodes": nodes, "projects": projects, "jobs": _jobs(draw, leaves)}


def deep(draw: Random) -> Document:
    """Departments with groups of teams, their weights and priorities, and quotas that each level can keep.

    Each of them may have jobs.
    """
    nodes = _nodes(draw)
    left = sum(node["gpus"] for node in nodes)
    projects: list[Document] = []
    owners: list[str] = []

    def grow(name: str, quota: int, level: int, **above: str) -> None:
        weight, priority = draw.choice([0, 1, 1, 1, 2]), draw.choice([50, 100, 100, 200])
        projects.append({"name": name, **above, "quota": quota, "weight": weight, "priority": priority})
        children = draw.choice([0, 1, 2, 2]) if level < 3 else 0
        if not children or draw.random() < 0.5:
            owners.append(name)
        for at in range(children):
            own = draw.choice([0, 0, draw.randint(0, quota)])
            quota -= own
            grow(f"{name}{'tg'[level % 2]}{at}", own, level + 1, parent=name)

    for at in range(2):
        quota = draw.choice([0, left, draw.randint(0, left)])
        left -= quota
        grow(f"d{at}", quota, 1)
    return {"nodes": nodes, "projects": projects, "jobs": _jobs(draw, draw.sample(owners, min(4, len(owners))))}


def guests(draw: Random) -> Document:
    """Two departments with a team of weight 0 and no quota in each, and maybe others; too few GPUs for all."""
    nodes: list[Document] = [{"name": "n0", "gpus": draw.randint(2, 4)}]
    left = nodes[0]["gpus"]
    projects: list[Document] = []
    for at in range(2):
        name, quota = f"d{at}", draw.choice([left, draw.randint(0, left)])
        left -= quota
        projects.append({"name": name, "quota": quota, "weight": draw.choice([0, 1, 1, 2])})
        projects.append({"name": f"{name}guest", "parent": name, "weight": 0})
        if draw.random() < 0.5:
            projects.append({"name": f"{name}team", "parent": name, "quota": draw.choice([0, quota // 2])})
    jobs = _jobs(draw, [each["name"] for each in projects])
    for job in jobs:
        job["gpus"] = 1
    return {"nodes": nodes, "projects": projects, "jobs": jobs}


def ranked(draw: Random) -> Document:
    """Priorities of jobs and projects, and weights."""
    pool = draw.choice([flat, tree])(draw)
    for project in pool["projects"]:
        project["priority"] = draw.choice([50, 100, 100, 200])
        project["weight"] = draw.choice([0, 1, 1, 2, 3])
    for job in pool["jobs"]:
        job["priority"] = draw.choice([25, 50, 50, 75])
    return pool


def single(draw: Random) -> Document:
    """Jobs of one GPU, so that every fair share can be had to the last one."""
    pool = draw.choice([flat, tree, ranked])(draw)
    pool["nodes"] = draw.sample([{"name": "n0", "gpus": 1}, {"name": "n1", "gpus": 2}], draw.randint(1, 2))
    for project in pool["projects"]:
        project["quota"] = 0
    for job in pool["jobs"]:
        job.update(gpus=1, priority=50)
    return pool


def least_served(draw: Random) -> Document:
    """What quotas leave goes to the jobs that had least."""
    return {**draw.choice([flat, tree, ranked, gangs, limited])(draw), "surplus": "least-served"}


def gangs(draw: Random) -> Document:
    """Gangs, fixed and elastic."""
    pool = draw.choice([flat, tree, deep])(draw)
    for job in pool["jobs"]:
        if draw.random() < 0.5:
            job["gpus"] = 1
        job["workers"] = draw.choice([1, 2, 2, 3, 4])
        job["min_workers"] = draw.choice([job["workers"], draw.randint(1, job["workers"])])
    return pool


def limited(draw: Random) -> Document:
    """Limits, and jobs that are not preemptible."""
    pool = draw.choice([flat, tree, gangs])(draw)
    for project in pool["projects"]:
        if draw.random() < 0.5:
            project["limit"] = draw.randint(project["quota"], MOST_GPUS)
    for job in pool["jobs"]:
        job["preemptible"] = draw.random() < 0.7
    return pool


def typed(draw: Random) -> Document:
    """Nodes of two GPU types, quotas of each, and jobs that accept one or both."""
    pool = draw.choice([flat, gangs])(draw)
    kinds = ["a100", "t4"]
    if len(pool["nodes"]) == 1:
        pool["nodes"].append({"name": "n9", "gpus": 2})
    total = dict.fromkeys(kinds, 0)
    for at, node in enumerate(draw.sample(pool["nodes"], len(pool["nodes"]))):
        node["gpu_type"] = kinds[at % 2]
        total[kinds[at % 2]] += node["gpus"]
    for project in pool["projects"]:
        project["quota"] = {kind: draw.randint(0, total[kind]) for kind in kinds}
        for kind in kinds:
            total[kind] -= project["quota"][kind]
    for job in pool["jobs"]:
        if draw.random() < 0.6:
            job["gpu_types"] = draw.sample(kinds, draw.randint(1, 2))
    return {**pool, "gpu_types": draw.sample(kinds, 2)}


KINDS: Mapping[str, Callable[[Random], Document]] = {
    each.__name__: each for each in (flat, tree, deep, guests, ranked, single, gangs, limited, least_served, typed)
}


def pool_of_seed(kind: str, seed: int) -> Document:
    """Return the pool of a kind for a seed; in every second one some jobs run already."""
    draw = Random(f"{kind} {seed}")
    pool = KINDS[kind](draw)
    if draw.random() < 0.5:
        _place(draw, pool)
    return pool


def _nodes(draw: Random) -> list[Document]:
    nodes, left = [], MOST_GPUS
    for at in range(draw.randint(1, 3)):
        gpus = draw.randint(1, min(4, left))
        left -= gpus
        nodes.append({"name": f"n{at}", "gpus": gpus})
        if not left:
            break
    return nodes


def _jobs(draw: Random, projects: list[str]) -> list[Document]:
    times = draw.sample(range(60), 6)
    return [
        {
            "name": f"j{at}",
            "project": draw.choice(projects),
            "gpus": draw.choice([1, 1, 2, 2, 3, 4]),
            "submitted": times[at],
        }
        for at in range(draw.choice([2, 3, 4, 5, 6, 6]))
    ]


def _place(draw: Random, pool: Document) -> None:
    """Let some jobs run where there is room, whoever's they are."""
    free = {node["name"]: node["gpus"] for node in pool["nodes"]}
    for job in draw.sample(pool["jobs"], len(pool["jobs"])):
        if draw.random() < 0.3 or job.get("gpu_types") or not job.get("preemptible", True):
            continue
        one = draw.choice(pool["nodes"]).get("gpu_type")
        seats = [
            node["name"]
            for node in pool["nodes"]
            if node.get("gpu_type") == one
            for _ in range(free[node["name"]] // job["gpus"])
        ][: job.get("workers", 1)]
        if len(seats) >= job.get("min_workers", job.get("workers", 1)):
            for name in seats:
                free[name] -= job["gpus"]
            job["placed"] = seats
