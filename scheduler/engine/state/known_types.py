"""The GPU types that the pool knows, and what becomes of plain numbers when another type joins.

A type that joins the pool has quota 0 for all until an admin sets one: from then on plain numbers are tables with
the numbers of the previous type. A type is known as long as it has GPUs, or a project has a number of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from springtide.scheduler.gpu_types import DeclaredTypes, pool_types
from springtide.scheduler.model import Amount, Environment, Node, Project
from springtide.scheduler.store.tables import PersonRecord, ProjectRecord


@dataclass(frozen=True, slots=True)
class KnownTypes:
    """The GPU types of train and build nodes, in the pool's order, and how an admin declares types."""

    train: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    declared: DeclaredTypes = DeclaredTypes()  # noqa: RUF009 - frozen

    def of(self, environment: Environment) -> tuple[str, ...]:
        """Return the types of an environment."""
        return self.train if environment is Environment.TRAIN else self.build

    def by_environment(self) -> dict[Environment, tuple[str, ...]]:
        """Return the types of each environment."""
        return {environment: self.of(environment) for environment in Environment}


@dataclass(frozen=True, slots=True)
class Quantities:
    """The numbers of projects and people, as they are for a set of known types."""

    types: KnownTypes
    projects: Mapping[str, ProjectRecord]
    people: Mapping[str, PersonRecord]


def updated(before: Quantities, nodes: Sequence[Node]) -> Quantities:
    """Return the known types with those of the nodes, and all numbers as they are from then on."""
    train = _change(before.types, Environment.TRAIN, nodes)
    build = _change(before.types, Environment.BUILD, nodes)
    if train.present == before.types.train and build.present == before.types.build:
        return before
    projects = {
        name: replace(
            record,
            project=replace(
                record.project,
                quota=train.converted(record.project.quota),
                limit=train.converted(record.project.limit, unbounded=True),
                build_quota=build.converted(record.project.build_quota),
            ),
        )
        for name, record in before.projects.items()
    }
    people = {
        name: replace(record, build_quota=build.converted(record.build_quota))
        for name, record in before.people.items()
    }
    of_train = [amount for record in projects.values() for amount in _train_numbers(record.project)]
    of_build = [each.project.build_quota for each in projects.values()] + [p.build_quota for p in people.values()]
    types = KnownTypes(train.known(of_train), build.known(of_build), before.types.declared)
    return Quantities(types, projects, people)


@dataclass(frozen=True, slots=True)
class _Change:
    """The types of one environment: those known ``earlier`` by their names of now, and those ``present``.

    ``plain`` is the type that plain numbers are of.
    """

    declared: DeclaredTypes
    earlier: tuple[str, ...]
    present: tuple[str, ...]
    plain: str

    def converted(self, amount: Amount, *, unbounded: bool = False) -> Amount:
        """Return an amount as it is from now on; ``unbounded`` says that None includes types that join later."""
        joined = set(self.present) - set(self.earlier)
        if amount is None:
            return dict.fromkeys(self.earlier) if joined and self.earlier and not unbounded else None
        if isinstance(amount, int):
            becomes_several = len(self.earlier) < 2 <= len({*self.earlier, *self.present})
            return {self.plain: amount} if becomes_several else amount
        renamed: dict[str, int | None] = {}
        for name, number in amount.items():
            own = self.declared.of(name)
            other = renamed.get(own, 0)
            renamed[own] = None if number is None or other is None else number + other
        return renamed

    def known(self, amounts: Iterable[Amount]) -> tuple[str, ...]:
        """Return the types that have GPUs or that one of the amounts names, in the pool's order."""
        numbered = {
            name for each in amounts if isinstance(each, Mapping) for name, number in each.items() if number != 0
        }
        kept = [each for each in self.earlier if each in self.present or each in numbered]
        return self.declared.in_order((*kept, *self.present)) or self.earlier


def _change(types: KnownTypes, environment: Environment, nodes: Sequence[Node]) -> _Change:
    earlier = tuple(dict.fromkeys(types.declared.of(each) for each in types.of(environment)))
    used = [node for node in nodes if node.environment is environment and node.gpus]
    found = pool_types(used, types.declared.in_order(earlier)) if used else ()
    largest = max(found, key=lambda each: sum(node.gpus for node in used if node.gpu_type == each), default="")
    return _Change(types.declared, earlier, types.declared.in_order(found), next(iter(earlier), largest))


def _train_numbers(project: Project) -> Iterator[Amount]:
    """Yield the quota, and the limit with a number for each type that has one, 0 included."""
    yield project.quota
    if isinstance(project.limit, Mapping):
        yield {name: 1 for name, number in project.limit.items() if number is not None}
