"""The project tree with what each project holds, asks for and is entitled to, descendants included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from springtide.scheduler.model import Project, Standing
from springtide.scheduler.policy.fair_share import UNLIMITED, WEIGHT_UNIT, divide


@dataclass(slots=True, eq=False)
class Seat:
    """A project's place in the tree.

    ``held`` counts live attempts, pausing ones too. ``claimed`` counts what will be held once the pausing
    attempts are gone: running attempts and reservations. ``firm`` is the part of it that is not preemptible.
    ``loose`` tells that the children's quotas add up to more than the project's own, so that not all of them
    are guaranteed. ``uneven`` tells that the children's shares are out of date.
    """

    name: str
    quota: int
    limit: int
    weight: int
    priority: int
    age: int
    parent: Seat | None = None
    children: list[Seat] = field(default_factory=list)
    path: tuple[Seat, ...] = ()
    held: int = 0
    claimed: int = 0
    firm: int = 0
    request: int = 0
    share: int = 0
    loose: bool = False
    uneven: bool = True

    @property
    def entitled(self) -> int:
        """What the project may hold right now, others' needs considered."""
        return min(self.limit, max(self.quota, self.share))


class Tree:
    """All projects. Jobs sit in leaves; a project with children has a leaf of its own for its own jobs."""

    def __init__(self, projects: Iterable[Project]) -> None:
        self.projects = {
            project.name: project for project in sorted(projects, key=lambda each: (each.age, each.name))
        }
        self.seats = {project.name: _seat(project) for project in self.projects.values()}
        self.leaves: dict[str, Seat] = {}
        self.roots: list[Seat] = []
        self._undo: list[tuple[Seat, int, int, int]] = []
        self._total: int | None = None
        self._reshared: list[Seat] = []
        self._uneven = True
        for project in self.projects.values():
            self._join(project)
        for seat in self.seats.values():
            self._give_leaf(seat)

    def _join(self, project: Project) -> None:
        seat = self.seats[project.name]
        seat.parent = self.seats.get(project.parent) if project.parent is not None else None
        (self.roots if seat.parent is None else seat.parent.children).append(seat)

    def _give_leaf(self, seat: Seat) -> None:
        """Complete the seat; one with children gets a leaf for its own jobs, with the quota they leave."""
        seat.path = tuple(_upward(seat))
        leaf = seat
        if seat.children:
            below = sum(child.quota for child in seat.children)
            seat.loose = below > seat.quota
            rest = UNLIMITED if seat.quota == UNLIMITED else max(0, seat.quota - below)
            leaf = Seat(seat.name, rest, UNLIMITED, WEIGHT_UNIT, seat.priority, -1, parent=seat)
            seat.children.insert(0, leaf)
            leaf.path = (leaf, *seat.path)
        self.leaves[seat.name] = leaf

    def standing(self) -> dict[str, Standing]:
        """How every project stands."""
        return {
            name: Standing(
                quota=self.projects[name].quota,
                limit=self.projects[name].limit,
                fair_share=seat.share,
                held=seat.held,
                request=seat.request,
            )
            for name, seat in self.seats.items()
        }

    def share_out(self, total: int) -> list[Seat]:
        """Bring the fair shares up to date; only where something has changed is anything divided again.

        Returns the seats whose share is another than it was.
        """
        self._reshared = []
        if self._uneven or self._total != total:
            self._uneven = False
            self._total = total
            self._divide(total, self.roots)
        return self._reshared

    def _divide(self, total: int, siblings: list[Seat]) -> None:
        before = [seat.share for seat in siblings]
        divide(total, siblings)
        for seat, share in zip(siblings, before, strict=True):
            if seat.share != share:
                self._reshared.append(seat)
            if seat.children and (seat.uneven or seat.share != share):
                seat.uneven = False
                self._divide(seat.share, seat.children)

    def ask(self, leaf: Seat, gpus: int) -> None:
        """Add to what the leaf and all above it ask for."""
        self._uneven = True
        for seat in leaf.path:
            seat.request += gpus
            seat.uneven = True

    def count(self, leaf: Seat, *, held: int = 0, claimed: int = 0, firm: int = 0) -> None:
        """Add to what the leaf and all above it hold."""
        for seat in leaf.path:
            self._undo.append((seat, seat.held, seat.claimed, seat.firm))
            seat.held += held
            seat.claimed += claimed
            seat.firm += firm

    def gather(self) -> None:
        """Add up what was counted at the leaves only."""
        for leaf in self.leaves.values():
            for seat in leaf.path[1:]:
                seat.held += leaf.held
                seat.claimed += leaf.claimed
                seat.firm += leaf.firm
                seat.request += leaf.request

    def mark(self) -> int:
        """A point that `back_to` returns to."""
        return len(self._undo)

    def counted(self) -> list[Seat]:
        """The seats where something was counted that can still be taken back."""
        return [seat for seat, *_ in self._undo]

    def back_to(self, mark: int) -> None:
        """Take back what was counted since the mark."""
        while len(self._undo) > mark:
            seat, held, claimed, firm = self._undo.pop()
            seat.held, seat.claimed, seat.firm = held, claimed, firm

    def settle(self) -> None:
        """What was counted so far will not be taken back."""
        self._undo.clear()


def _seat(project: Project) -> Seat:
    """The project's seat. A limit below the quota takes away from what is guaranteed."""
    limit = UNLIMITED if project.limit is None else project.limit
    return Seat(
        name=project.name,
        quota=min(limit, UNLIMITED if project.quota is None else project.quota),
        limit=limit,
        weight=round(project.weight * WEIGHT_UNIT),
        priority=project.priority,
        age=project.age,
    )


def _upward(seat: Seat) -> Iterator[Seat]:
    at: Seat | None = seat
    while at is not None:
        yield at
        at = at.parent


def sides(one: Seat, other: Seat) -> tuple[Seat, Seat] | None:
    """The two children of the lowest common ancestor that lead to these leaves; None for the same leaf."""
    for mine, theirs in zip(reversed(one.path), reversed(other.path), strict=False):
        if mine is not theirs:
            return mine, theirs
    return None
