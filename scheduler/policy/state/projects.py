"""The project tree: usage, requests and entitlements (docs/policy.md, The rules and their places)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import floor, inf, log2

from springtide.scheduler.gpu_types import total
from springtide.scheduler.model import Project, RecentUse, Standing, Surplus
from springtide.scheduler.policy.state.undo import UndoLog

UNLIMITED = 1 << 60
"""Value of an unset quota or limit."""

MIN_USE = 4 * 3600.0
"""Least recent use, in GPU-seconds, that decides which project gets GPUs left over by rounding.

Such a GPU changes hands with each doubling of the use, so that it does so a few times a day.
"""

WEIGHT_UNIT = 1_000_000
"""Weights are counted in millionths, so that shares are exact."""


@dataclass(slots=True, eq=False)
class ProjectNode:
    """A project in the tree. Quantities are GPUs, descendants included.

    ``held`` counts live attempts, pausing ones too. ``claimed`` counts running attempts and reservations: the
    usage after the pausing attempts have ended. ``non_preemptible`` is the part of ``claimed`` that cannot be
    paused. ``permitted`` is the request without what descendants request beyond their limits, ``wish`` that
    without what descendants of weight 0 request beyond their quotas. ``requests`` is the request by level of
    service, which counts if the surplus goes to the least served jobs (``by_service``). ``weightless``: it or a
    descendant has weight 0, which counts if the surplus does not go by service. ``limited_below``: a descendant
    has a limit. ``oversubscribed``: the quotas of the children add up to more than the project's own,
    so not all of them are guaranteed. ``share`` is the fair share, ``entitled`` the GPUs that the project may hold
    right now: ``min(limit, max(quota, share))``. ``dirty``: the shares of the children are out of date. ``most``
    GPUs are those that one preemptible job may have by the limits on the path, ``most_guaranteed`` those of
    a non-preemptible job, by the quotas too. ``use_rank`` orders projects by their recent use for each unit of
    weight, ``use_step`` in doubling steps, in which little use counts as none; neither changes as time passes.
    """

    name: str
    quota: int
    limit: int
    weight: int
    priority: int
    age: int
    parent: ProjectNode | None = None
    children: list[ProjectNode] = field(default_factory=list)
    path: tuple[ProjectNode, ...] = ()
    most: int = UNLIMITED
    most_guaranteed: int = UNLIMITED
    held: int = 0
    claimed: int = 0
    non_preemptible: int = 0
    request: int = 0
    permitted: int = 0
    wish: int = 0
    requests: dict[int, int] = field(default_factory=dict)
    by_service: bool = False
    share: int = 0
    entitled: int = 0
    weightless: bool = False
    limited_below: bool = False
    oversubscribed: bool = False
    dirty: bool = True
    use_rank: float = -inf
    use_step: float = -inf

    @property
    def requestable(self) -> int:
        """The part of the request that it could hold at once, by its own limit and those of its descendants."""
        return min(self.permitted, self.limit)

    @property
    def due(self) -> int:
        """The part of the request that quotas above it are for: of weight 0, beyond its quota what it holds."""
        if not self.weightless:
            return self.requestable
        below = sum(child.due for child in self.children) if self.children else self.requestable
        due = min(self.requestable, below)
        return due if self.weight > 0 else min(due, max(self.quota, self.claimed))

    @property
    def due_wish(self) -> int:
        """The part of the wish that it can be entitled to: weight 0 entitles to nothing beyond the quota."""
        return min(self.wish, self.limit if self.weight > 0 else self.quota)


class ProjectTree:
    """All projects. Jobs belong to leaves; a project with children has an additional leaf for its own jobs.

    ``changed`` are the leaves with uncommitted usage, ``dirty``: some shares are out of date, ``oversubscribed``:
    some project is. ``undo`` records usage.
    """

    def __init__(self, projects: Iterable[Project], surplus: Surplus, undo: UndoLog) -> None:
        self._undo = undo
        self.changed: set[ProjectNode] = set()
        self._by_service = surplus is Surplus.LEAST_SERVED
        self.dirty = True
        self.projects = {
            project.name: project for project in sorted(projects, key=lambda project: (project.age, project.name))
        }
        self.project_nodes = {name: _project_node(project) for name, project in self.projects.items()}
        self.limited = [node for node in self.project_nodes.values() if node.limit != UNLIMITED]
        self.roots: list[ProjectNode] = []
        for name, project_node in self.project_nodes.items():
            project_node.parent = self.project_nodes.get(self.projects[name].parent or "")
            (self.roots if project_node.parent is None else project_node.parent.children).append(project_node)
        self.leaves = {name: _leaf_of(project_node) for name, project_node in self.project_nodes.items()}
        self.oversubscribed = any(node.oversubscribed for node in self.project_nodes.values())
        for project_node in (*self.project_nodes.values(), *self.leaves.values()):
            path = project_node.path = _path(project_node)
            project_node.most = min(above.limit for above in path)
            project_node.most_guaranteed = min(project_node.most, *(above.quota for above in path))
            project_node.entitled = project_node.quota
            for above in path[1:]:
                above.limited_below |= project_node.limit != UNLIMITED
            if project_node.weight == 0 and not self._by_service:
                for above in path:
                    above.weightless = True
            project_node.by_service = self._by_service

    def standing(self) -> dict[str, Standing]:
        """Return the held, requested and entitled GPUs of every project."""
        return {
            name: Standing(
                quota=total(self.projects[name].quota),
                limit=total(self.projects[name].limit),
                fair_share=project.share,
                held=project.held,
                request=project.request,
            )
            for name, project in self.project_nodes.items()
        }

    def add_request(self, leaf: ProjectNode, gpus: int, level: int = 0) -> None:
        """Add to the request, at a level of service, of the leaf and all its ancestors."""
        self.dirty = True
        permitted = wished = gpus
        for project in leaf.path:
            requestable, due = project.requestable, project.due_wish
            project.request += gpus
            project.permitted += permitted
            project.wish += wished
            permitted, wished = project.requestable - requestable, project.due_wish - due
            project.dirty = True
            if self._by_service:
                project.requests[level] = project.requests.get(level, 0) + gpus

    def set_use(self, record: RecentUse, half_life: float) -> ProjectNode | None:
        """Set the recent use of a project, and return its node; None for an unknown project."""
        node = (self.leaves if record.own else self.project_nodes).get(record.project)
        if node is not None:
            used = record.gpu_seconds * WEIGHT_UNIT / max(1, node.weight)
            step = node.use_step
            node.use_rank = log2(used) + record.at / half_life if used > 0 else -inf
            node.use_step = floor(node.use_rank) if record.gpu_seconds >= MIN_USE else -inf
            if node.use_step != step:
                self.dirty = True
                for project in node.path:
                    project.dirty = True
        return node

    def is_own(self, project: ProjectNode) -> bool:
        """Return whether the node holds the own jobs of a project with children."""
        return self.project_nodes[project.name] is not project

    def add_usage(self, leaf: ProjectNode, gpus: int, preemptible: bool, held: int = 0) -> None:
        """Add ``gpus`` claimed and ``held`` GPUs to the leaf and all its ancestors; both may be negative."""
        self._undo.record(self.add_usage, leaf, -gpus, preemptible, -held)
        self.changed.add(leaf)
        for project in leaf.path:
            project.held += held
            project.claimed += gpus
            if project.weightless:
                self.dirty = project.dirty = True
            if not preemptible:
                project.non_preemptible += gpus


def _project_node(project: Project) -> ProjectNode:
    """Return the tree node of a project. A limit below the quota lowers the quota."""
    limit = _or_unlimited(total(project.limit))
    return ProjectNode(
        name=project.name,
        quota=min(limit, _or_unlimited(total(project.quota))),
        limit=limit,
        weight=_counted(project.weight),
        priority=project.priority,
        age=project.age,
    )


def _counted(weight: float) -> int:
    """Return a weight in its unit; one above 0 counts, however small it is."""
    return max(round(weight * WEIGHT_UNIT), 1 if weight > 0 else 0)


def _or_unlimited(gpus: int | None) -> int:
    return UNLIMITED if gpus is None else gpus


def _leaf_of(project: ProjectNode) -> ProjectNode:
    """Return the leaf of the project's own jobs: an extra child with the remaining quota, if it has children."""
    if not project.children:
        return project
    below = sum(child.quota for child in project.children)
    project.oversubscribed = below > project.quota
    rest = UNLIMITED if project.quota == UNLIMITED else max(0, project.quota - below)
    leaf = ProjectNode(project.name, rest, UNLIMITED, WEIGHT_UNIT, project.priority, -1, parent=project)
    project.children.insert(0, leaf)
    return leaf


def _path(project: ProjectNode) -> tuple[ProjectNode, ...]:
    """Return the project and its ancestors."""
    return (project,) if project.parent is None else (project, *_path(project.parent))


def sides(one: ProjectNode, other: ProjectNode) -> tuple[ProjectNode, ProjectNode] | None:
    """Return the children of the lowest common ancestor that lead to these leaves; None for the same leaf."""
    for mine, theirs in zip(reversed(one.path), reversed(other.path), strict=False):
        if mine is not theirs:
            return mine, theirs
    return None
