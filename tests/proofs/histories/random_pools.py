"""Random pools: nodes, projects and settings by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from histories.world import GRACE, World
from msgspec import structs

from springtide.scheduler.model import Node, Order, Project, Settings, Snapshot, Surplus
from springtide.scheduler.policy import Planner
from springtide.scheduler.resources.per_gpu import PerGpu

TYPES = ("t4", "v100", "a100")


def some_nodes(rng: random.Random) -> tuple[Node, ...]:
    size = rng.choice([2, 4, 4, 8])
    kinds = ["v100", "a100"] if rng.random() < 0.15 else [""]
    sizes = [rng.choice([size, size, max(1, size // 2)]) for _ in range(rng.randint(1, 4))]
    return tuple(
        Node(f"n{at}", gpus, rng.choice(kinds), labels={"rack": f"r{at % 2}"}) for at, gpus in enumerate(sizes)
    )


def in_groups(nodes: tuple[Node, ...], rng: random.Random) -> tuple[Node, ...]:
    """The nodes with two sockets each and islands that are smaller, as large or larger, or with neither."""

    def groups(gpus: int, size: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(range(first, min(gpus, first + size))) for first in range(0, gpus, size))

    def grouped(node: Node) -> Node:
        half = max(1, node.gpus // 2)
        islands = rng.choice([(), *(groups(node.gpus, size) for size in (2, half, node.gpus))])
        return structs.replace(node, islands=islands, sockets=rng.choice([(), *[groups(node.gpus, half)] * 3]))

    return tuple(map(grouped, nodes))


def some_projects(rng: random.Random, gpus: int) -> tuple[Project, ...]:
    """Up to three levels, whose quotas add up."""
    projects: list[Project] = []

    def add(name: str, parent: str | None, depth: int, room: int) -> int:
        children = rng.randint(1, 2) if depth < 2 and rng.random() < 0.6 else 0
        age = len(projects)
        weight, priority = rng.choice([1.0, 1.0, 1.0, 2.0, 0.5, 0.0]), rng.choice([100, 100, 100, 100, 200])
        projects.append(Project(name))
        used = sum(add(f"{name}{at}", name, depth + 1, room // children) for at in range(children))
        quota = used if children else rng.randint(0, room)
        limit = quota + rng.randint(0, 4) if rng.random() < 0.15 else None
        projects[age] = Project(name, parent, quota, limit, weight, priority, age)
        return quota

    for name in "abc"[: rng.randint(1, 3)]:
        gpus -= add(name, None, 0, gpus)
    return tuple(projects)


def of_types(nodes: tuple[Node, ...], rng: random.Random) -> tuple[Node, ...]:
    """The nodes, and as many again, with two or three GPU types among them."""
    twice = (*nodes, *(structs.replace(node, name=f"m{node.name[1:]}") for node in nodes))
    types = TYPES[: rng.randint(2, 3)]
    return tuple(structs.replace(node, gpu_type=types[at % len(types)]) for at, node in enumerate(twice))


def with_amounts_per_gpu(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes; some have fewer cores, less memory, or RDMA for fewer workers or none, for each GPU."""
    return tuple(
        structs.replace(
            node, per_gpu=PerGpu(8.0 if at % 3 else 4.0, 64.0 if at % 4 else 16.0, (1.0, 0.5, 0.0, 0.5)[at % 4])
        )
        for at, node in enumerate(nodes)
    )


def with_tables(projects: tuple[Project, ...], nodes: tuple[Node, ...], rng: random.Random) -> tuple[Project, ...]:
    """The projects with a quota of each GPU type; the quotas of each type add up."""
    tables: dict[str, dict[str, int | None]] = {project.name: {} for project in projects}

    def add(name: str, gpu_type: str, room: int) -> int:
        children = [project.name for project in projects if project.parent == name]
        used = sum(add(child, gpu_type, room // len(children)) for child in children)
        quota = used if children else rng.randint(0, room)
        tables[name][gpu_type] = quota
        return quota

    for gpu_type in sorted({node.gpu_type for node in nodes}):
        room = sum(node.gpus for node in nodes if node.gpu_type == gpu_type)
        for project in projects:
            if project.parent is None:
                room -= add(project.name, gpu_type, room)
    return tuple(
        replace(project, quota=tables[project.name], limit=None if project.limit is None else {TYPES[0]: 4})
        for project in projects
    )


def some_world(
    seed: int,
    planner: Callable[[Snapshot], Planner] = Planner,
    *,
    grouped: bool = False,
    typed: bool = False,
    shared: bool = False,
    surplus: Surplus = Surplus.FAIR,
) -> World:
    rng = random.Random(seed)
    nodes = some_nodes(rng)
    if typed:
        nodes = of_types(nodes, rng)
    if grouped:
        nodes = in_groups(nodes, rng)
    if shared:
        nodes = with_amounts_per_gpu(nodes)
    projects = some_projects(rng, sum(node.gpus for node in nodes))
    if typed:
        projects = with_tables(projects, nodes, rng)
    order = Order.LEAST_SERVED if rng.random() < 0.6 else Order.FIRST_COME
    settings = Settings(order, min_runtime=rng.choice([0.0, 0.0, 300.0]), grace=GRACE, surplus=surplus)
    if typed:
        types = sorted({node.gpu_type for node in nodes})
        settings = replace(settings, gpu_types=tuple(rng.sample(types, len(types))))
    return World(nodes, projects, settings, instant=rng.random() < 0.5, planner=planner)
