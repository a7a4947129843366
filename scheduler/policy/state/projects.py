"""The project tree, with what each project holds, requests and is entitled to (DESIGN §4, fair share)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from springtide.scheduler.gpu_types import total
from springtide.scheduler.model import Project, Standing, Surplus
from springtide.scheduler.policy.state.fair_share import UNLIMITED, WEIGHT_UNIT, divide


@dataclass(slots=True, eq=False)
class ProjectNode:
    """A project in the tree. Quantities are GPUs, descendants included.

    ``held`` counts live attempts, pausing ones too. ``claimed`` counts running attempts and reservations: what
    is held once the pausing attempts have ended. ``non_preemptible`` is the part of ``claimed`` that cannot be
    paused. ``requests`` is the request by level of service, where ``by_service`` tells that the surplus goes to
    the least served jobs. ``oversubscribed`` tells that the quotas of the children add up to more than the
    project's own, so that not all of them are guaranteed. ``dirty`` tells that the shares of the children are out
    of date.
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
    held: int = 0
    claimed: int = 0
    non_preemptible: int = 0
    request: int = 0
    requests: dict[int, int] = field(default_factory=dict)
    by_service: bool = False
    share: int = 0
    oversubscribed: bool = False
    dirty: bool = True

    @property
    def entitled(self) -> int:
        """GPUs that the project may hold right now: ``min(limit, max(quota, fair share))``."""
        return min(self.limit, max(self.quota, self.share))


class ProjectTree:
    """All projects. Jobs belong to leaves; a project with children has an additional leaf for its own jobs."""

    def __init__(self, projects: Iterable[Project], surplus: Surplus = Surplus.FAIR) -> None:
        self._by_service = surplus is Surplus.LEAST_SERVED
        self.projects = {
            project.name: project for project in sorted(projects, key=lambda each: (each.age, each.name))
        }
        self.project_nodes = {project.name: _project_node(project) for project in self.projects.values()}
        self.leaves: dict[str, ProjectNode] = {}
        self.roots: list[ProjectNode] = []
        self._undo: list[tuple[ProjectNode, int, int, int]] = []
        self._total: int | None = None
        self._reshared: list[ProjectNode] = []
        self._dirty = True
        for project in self.projects.values():
            self._join(project)
        self.limited = [each for each in self.project_nodes.values() if each.limit != UNLIMITED]
        for project_node in self.project_nodes.values():
            self._give_leaf(project_node)
        for project_node in (*self.project_nodes.values(), *self.leaves.values()):
            project_node.by_service = self._by_service

    def _join(self, project: Project) -> None:
        project_node = self.project_nodes[project.name]
        project_node.parent = self.project_nodes.get(project.parent) if project.parent is not None else None
        (self.roots if project_node.parent is None else project_node.parent.children).append(project_node)

    def _give_leaf(self, project: ProjectNode) -> None:
        """Complete a node. One with children gets a leaf for its own jobs, with the quota that they leave."""
        project.path = tuple(_upward(project))
        leaf = project
        if project.children:
            below = sum(child.quota for child in project.children)
            project.oversubscribed = below > project.quota
            rest = UNLIMITED if project.quota == UNLIMITED else max(0, project.quota - below)
            leaf = ProjectNode(project.name, rest, UNLIMITED, WEIGHT_UNIT, project.priority, -1, parent=project)
            project.children.insert(0, leaf)
            leaf.path = (leaf, *project.path)
        self.leaves[project.name] = leaf

    def standing(self) -> dict[str, Standing]:
        """Return what every project holds, requests and is entitled to."""
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

    def update_shares(self, total: int) -> list[ProjectNode]:
        """Divide ``total`` GPUs where requests have changed; return the projects whose share has changed."""
        self._reshared = []
        if self._dirty or self._total != total:
            self._dirty = False
            self._total = total
            self._divide(total, self.roots)
        return self._reshared

    def _divide(self, total: int, siblings: list[ProjectNode]) -> None:
        before = [project.share for project in siblings]
        divide(total, siblings, by_service=self._by_service)
        for project, share in zip(siblings, before, strict=True):
            if project.share != share:
                self._reshared.append(project)
            if project.children and (project.dirty or project.share != share):
                project.dirty = False
                self._divide(project.share, project.children)

    def add_request(self, leaf: ProjectNode, gpus: int, level: int = 0) -> None:
        """Add to the request, at a level of service, of the leaf and all its ancestors."""
        self._dirty = True
        for project in leaf.path:
            project.request += gpus
            project.dirty = True
            if self._by_service:
                project.requests[level] = project.requests.get(level, 0) + gpus

    def add_usage(self, leaf: ProjectNode, gpus: int, *, preemptible: bool, held: int = 0) -> None:
        """Add ``gpus`` claimed and ``held`` GPUs to the leaf and all its ancestors; both may be negative."""
        non_preemptible = 0 if preemptible else gpus
        for project in leaf.path:
            self._undo.append((project, project.held, project.claimed, project.non_preemptible))
            project.held += held
            project.claimed += gpus
            project.non_preemptible += non_preemptible

    def mark(self) -> int:
        """Return a point that `roll_back` returns to."""
        return len(self._undo)

    def changed_projects(self) -> list[ProjectNode]:
        """Return the projects with usage that can still be rolled back."""
        return [project for project, *_ in self._undo]

    def roll_back(self, mark: int) -> None:
        """Undo `add_usage` since the mark."""
        while len(self._undo) > mark:
            project, held, claimed, non_preemptible = self._undo.pop()
            project.held, project.claimed, project.non_preemptible = held, claimed, non_preemptible

    def commit(self) -> None:
        """Make all usage counted so far permanent."""
        self._undo.clear()


def _project_node(project: Project) -> ProjectNode:
    """Return the tree node of a project. A limit below the quota lowers the quota."""
    limit = _or_unlimited(total(project.limit))
    return ProjectNode(
        name=project.name,
        quota=min(limit, _or_unlimited(total(project.quota))),
        limit=limit,
        weight=round(project.weight * WEIGHT_UNIT),
        priority=project.priority,
        age=project.age,
    )


def _or_unlimited(gpus: int | None) -> int:
    return UNLIMITED if gpus is None else gpus


def _upward(project: ProjectNode) -> Iterator[ProjectNode]:
    at: ProjectNode | None = project
    while at is not None:
        yield at
        at = at.parent


def sides(one: ProjectNode, other: ProjectNode) -> tuple[ProjectNode, ProjectNode] | None:
    """Return the children of the lowest common ancestor that lead to these leaves; None for the same leaf."""
    for mine, theirs in zip(reversed(one.path), reversed(other.path), strict=False):
        if mine is not theirs:
            return mine, theirs
    return None
