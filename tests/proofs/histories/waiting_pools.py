"""Random pools with more jobs than fit, as scenario documents, of every kind that decides who waits."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

Document = dict[str, Any]
Draw = random.Random


def flat(draw: Draw) -> Document:
    """Projects beside each other, with quotas that add up to no more than the pool."""
    nodes = _nodes(draw)
    names = [f"p{at}" for at in range(draw.randint(1, 4))]
    total = sum(node["gpus"] for node in nodes)
    projects = [{"name": name, "quota": draw.randint(0, total // len(names))} for name in names]
    return {"nodes": nodes, "projects": projects, "jobs": _jobs(draw, names)}


def tree(draw: Draw) -> Document:
    """Departments with teams, of which some have teams of their own; jobs of all of them."""
    pool = flat(draw)
    total = sum(node["gpus"] for node in pool["nodes"])
    projects: list[Document] = []
    for top in range(draw.randint(1, 3)):
        quota = draw.randint(0, total // 2)
        projects.append({"name": f"d{top}", "quota": quota, "weight": draw.choice([1, 1, 2])})
        left = quota
        for at in range(draw.randint(0, 3)):
            own = draw.randint(0, left)
            left -= own
            projects.append({"name": f"d{top}t{at}", "parent": f"d{top}", "quota": own})
    if draw.random() < 0.3:
        projects.append({"name": "deep", "parent": projects[-1]["name"], "quota": 0})
    return {**pool, "projects": projects, "jobs": _jobs(draw, [each["name"] for each in projects])}


def limited(draw: Draw) -> Document:
    """Projects of a tree with limits."""
    pool = draw.choice([flat, tree])(draw)
    for project in pool["projects"]:
        if draw.random() < 0.6:
            project["limit"] = draw.randint(0, 10)
    return pool


def typed(draw: Draw) -> Document:
    """Nodes of two or three GPU types."""
    pool = draw.choice([flat, tree, limited])(draw)
    types = ["a100", "t4", "v100"][: draw.randint(2, 3)]
    twice = [*pool["nodes"], *({**node, "name": f"more-{node['name']}"} for node in pool["nodes"])]
    pool["nodes"] = [{**node, "gpu_type": types[at % len(types)]} for at, node in enumerate(twice)]
    types = list(dict.fromkeys(node["gpu_type"] for node in pool["nodes"]))
    for project in pool["projects"]:
        project["quota"] = {each: draw.randint(0, 3) for each in types if draw.random() < 0.7}
        if project.pop("limit", None) is not None:
            project["limit"] = {each: draw.choice([None, 2, 4, 6]) for each in types if draw.random() < 0.7}
    for job in pool["jobs"]:
        if draw.random() < 0.6:
            job["gpu_types"] = draw.sample(types, draw.randint(1, len(types)))
    return pool


def shaped(draw: Draw) -> Document:
    """Racks, sockets and GPU link islands, and jobs that require or prefer them."""
    pool = draw.choice([flat, flat, tree, limited])(draw)
    for at, node in enumerate(pool["nodes"]):
        if draw.random() < 0.8:
            node["labels"] = {"rack": f"r{at // 2}"} | ({"zone": "z"} if draw.random() < 0.5 else {})
        half = node["gpus"] // 2
        if half and draw.random() < 0.5:
            node["islands"] = [list(range(half)), list(range(half, node["gpus"]))]
        if half > 1 and draw.random() < 0.5:
            node["sockets"] = [list(range(half)), list(range(half, node["gpus"]))]
    for job in pool["jobs"]:
        if draw.random() < 0.6:
            job[draw.choice(["require", "require", "prefer"])] = draw.choice(
                ["rack", "rack", "node", "island", "socket", "zone", "row"]
            )
    return pool


def firm(draw: Draw) -> Document:
    """Jobs that are not preemptible beside others."""
    pool = draw.choice([flat, tree, limited, shaped])(draw)
    for job in pool["jobs"]:
        if draw.random() < 0.5:
            job["preemptible"] = False
    return pool


def ranked(draw: Draw) -> Document:
    """Priorities of jobs and of projects, weights, and a surplus for the least served."""
    pool = draw.choice([flat, tree, limited])(draw)
    for job in pool["jobs"]:
        job["priority"] = draw.choice([25, 50, 50, 75, 100])
    for project in pool["projects"]:
        project["priority"] = draw.choice([50, 100, 100, 200])
        project["weight"] = draw.choice([0, 1, 1, 2, 5])
    pool["surplus"] = draw.choice(["fair", "least-served"])
    return pool


def gangs(draw: Draw) -> Document:
    """Gangs, fixed and elastic, some larger than the pool."""
    pool = draw.choice([flat, tree, shaped, limited])(draw)
    for job in pool["jobs"]:
        workers = draw.choice([1, 2, 2, 3, 4, 6])
        job["workers"] = workers
        job["min_workers"] = draw.randint(1, workers)
    return pool


def mixed(draw: Draw) -> Document:
    """All of it in one pool."""
    pool = draw.choice([typed, shaped])(draw)
    for job in pool["jobs"]:
        job["priority"] = draw.choice([25, 50, 50, 75, 100])
        job["workers"] = draw.choice([1, 1, 2, 3])
        job["min_workers"] = draw.randint(1, job["workers"])
        if draw.random() < 0.2:
            job["time_limit"] = draw.choice([60, 3600])
    for node in pool["nodes"]:
        node["available"] = draw.random() < 0.9
    return pool


KINDS: Mapping[str, Callable[[Draw], Document]] = {
    each.__name__: each for each in (flat, tree, limited, typed, shaped, firm, ranked, gangs, mixed)
}


def pool_of(kind: str, seed: int) -> Document:
    """Return the pool of a kind for a seed; in every third one some jobs run already."""
    draw = random.Random(f"{kind} {seed}")
    pool = KINDS[kind](draw)
    if seed % 3 == 0:
        _place(draw, pool)
    return pool


def _nodes(draw: Draw) -> list[Document]:
    sizes = draw.choice([[4], [8], [2, 4, 8], [1, 3, 5]])
    return [{"name": f"n{at}", "gpus": draw.choice(sizes)} for at in range(draw.randint(1, 4))]


def _jobs(draw: Draw, projects: list[str]) -> list[Document]:
    step = draw.choice([0, 1, 1, 600, 86_400])
    return [
        {
            "name": f"j{at}",
            "project": draw.choice(projects),
            "gpus": draw.choice([1, 1, 1, 2, 2, 3, 4, 8]),
            "submitted": at * step,
        }
        for at in range(draw.randint(3, 16))
    ]


def _place(draw: Draw, pool: Document) -> None:
    """Let some jobs run where there is room, whoever's they are."""
    free = {node["name"]: node["gpus"] for node in pool["nodes"]}
    kinds = {node["name"]: node.get("gpu_type", "") for node in pool["nodes"]}
    for job in draw.sample(pool["jobs"], len(pool["jobs"])):
        if job.get("require") or draw.random() < 0.3:
            continue
        kind = draw.choice([*kinds.values()])
        if job.get("gpu_types") and kind not in job["gpu_types"]:
            continue
        seats: list[str] = []
        left = {name: gpus for name, gpus in free.items() if kinds[name] == kind}
        for _ in range(job.get("workers", 1)):
            name = next((name for name, gpus in left.items() if gpus >= job["gpus"]), None)
            if name is not None:
                left[name] -= job["gpus"]
                seats.append(name)
        if len(seats) >= job.get("min_workers", job.get("workers", 1)):
            free |= left
            job["placed"] = seats
