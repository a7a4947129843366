"""Sums of quotas of each GPU type, and checks that they fit into what holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler import wording
from springtide.scheduler.engine.state.known_types import KnownTypes
from springtide.scheduler.gpu_types import amount_of, as_table, build_quota_of, quota_of, typed_amount
from springtide.scheduler.model import Amount, Environment, Node, Project
from springtide.scheduler.refusal import Refusal


def checked(amount: Amount, field: str, types: KnownTypes, environment: Environment) -> Amount:
    """Return an amount that was asked for with the pool's names of GPU types; a table of one type as its number.

    Raises `Refusal` for a type that the pool does not know, and for a plain number if it has several types.
    """
    known = types.of(environment)
    if amount is None or amount == 0:
        return amount
    if isinstance(amount, int):
        if len(known) < 2:
            return amount
        example = {name: amount if name == known[0] else 0 for name in known}
        raise Refusal(
            422,
            "gpu_types",
            f"{field} is {amount}, but the pool has {environment.value} GPUs of several types: "
            f"{wording.listed(known)}.",
            field=field,
            hint=f"Give a number for each type, such as {typed_amount(example)}; in JSON and YAML "
            f"{json.dumps(example)}.",
        )
    named: dict[str, int | None] = {types.declared.of(name): number for name, number in amount.items()}
    unknown = [name for name in named if name not in known]
    if unknown:
        raise Refusal(
            422,
            "gpu_types",
            f"{field} names the GPU type {wording.given(unknown[0])}, of which the pool has no "
            f"{environment.value} GPUs.",
            field=field,
            hint=f"Types here: {', '.join(known) or 'none'}.",
        )
    return amount_of(named, known[0], known, missing(field)) if len(known) == 1 else named


def merged(before: Amount, given: Amount, field: str, types: Sequence[str]) -> Amount:
    """Return an amount after a change: a table changes the numbers of its types alone, anything else all."""
    if not isinstance(given, Mapping):
        return given
    return _shortest({**as_table(before, types, missing(field)), **given}, field)


def completed(amount: Amount, field: str, types: Sequence[str]) -> Amount:
    """Return an amount that names all types of a table, so that a change to it leaves nothing as it was."""
    return as_table(amount, types, missing(field)) if isinstance(amount, Mapping) else amount


def _shortest(table: Mapping[str, int | None], field: str) -> Amount:
    """Return a table without the types that mean the same when left out."""
    left_out = missing(field)
    return {name: number for name, number in table.items() if number != left_out} or left_out


def missing(field: str) -> int | None:
    """Return the number of a type that a table leaves out: no limit, and no GPU of a quota."""
    return None if field == "limit" else 0


@dataclass(frozen=True, slots=True)
class Level:
    """The sum of the quotas of one project's children, and the GPUs that they have to fit in.

    ``parent`` is None for the top projects, which have to fit in the pool.
    """

    parent: str | None
    total: int
    capacity: int


def total_gpus(nodes: Sequence[Node], gpu_type: str | None = None) -> int:
    """Return the number of GPUs of these nodes, of one type if that is given."""
    return sum(node.gpus for node in nodes if gpu_type in {None, node.gpu_type})


def quota_sum(projects: Mapping[str, Project], train_gpus: int, gpu_type: str, types: Sequence[str]) -> int:
    """Return the sum of the top projects' quotas of one type; an unlimited one counts as ``train_gpus``."""
    quotas = [quota_of(each, gpu_type, types) for each in projects.values() if each.parent is None]
    return sum(train_gpus if quota is None else quota for quota in quotas)


def _levels(
    projects: Mapping[str, Project], train_gpus: int, gpu_type: str, types: Sequence[str]
) -> dict[str | None, Level]:
    totals: dict[str | None, Level] = {}
    for project in projects.values():
        above = projects.get(project.parent) if project.parent is not None else None
        ceiling = None if above is None else quota_of(above, gpu_type, types)
        capacity = train_gpus if ceiling is None else ceiling
        level = totals.get(project.parent, Level(project.parent, 0, capacity))
        own = quota_of(project, gpu_type, types)
        totals[project.parent] = Level(project.parent, level.total + (capacity if own is None else own), capacity)
    return totals


def exceeding_quotas(
    before: Mapping[str, Project],
    after: Mapping[str, Project],
    nodes: Sequence[Node],
    types: Sequence[str],
    changed: Sequence[str],
    *,
    grows: bool = False,
) -> Iterator[Refusal]:
    """Yield a refusal for each sum of quotas that would exceed what holds it, unless it gets no worse.

    ``nodes`` are the train nodes, ``types`` their GPU types; ``changed`` are the projects whose change is checked.
    ``grows`` says that some of the nodes are not there yet.
    """
    for gpu_type in types or ("",):
        gpus = total_gpus(nodes, gpu_type if types else None)
        earlier = _levels(before, gpus, gpu_type, types)
        for parent, level in _levels(after, gpus, gpu_type, types).items():
            was = earlier.get(parent)
            better = was is not None and level.total <= was.total and level.capacity >= was.capacity
            if level.total > level.capacity and not better:
                there = [name for name in changed if name in after and after[name].parent == parent]
                name = next(iter([*there, *changed]))
                yield _too_much(level, gpu_type if len(types) > 1 else "", name, " at most" if grows else "")


def _too_much(level: Level, gpu_type: str, changed: str, most: str) -> Refusal:
    """Return the refusal of quotas that exceed what holds them; ``gpu_type`` is empty for the only type."""
    over = level.total - level.capacity
    if level.parent is None:
        message = (
            f"The quotas of the top projects would add up to {wording.count(level.total, _kind(gpu_type))}; "
            f"the pool has {wording.count(level.capacity, _kind(gpu_type, 'train'))}{most}."
        )
    else:
        message = (
            f"The quotas of the projects in {wording.given(level.parent)} would add up to "
            f"{wording.count(level.total, _kind(gpu_type))}; the quota of {wording.given(level.parent)} is "
            f"{level.capacity}."
        )
    hint = f"Lower the quota of {wording.given(changed)} or of another project by {over} first."
    return Refusal(409, "sums", message, field="quota", hint=hint)


def _kind(gpu_type: str, environment: str = "") -> str:
    return " ".join(filter(None, (environment, gpu_type, "GPU")))


def build_quota(
    projects_of: Sequence[str],
    own: Amount,
    projects: Mapping[str, Project],
    gpu_type: str,
    types: Sequence[str],
) -> int:
    """Return a person's build quota of one type: her own if she has one, or else the largest of her projects.

    ``types`` are the types of build GPUs.
    """
    if own is not None:
        return amount_of(own, gpu_type, types) or 0
    of = [build_quota_of(projects[name], gpu_type, types) for name in projects_of if name in projects]
    return max(of, default=0)


def projects_by_person(members: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the projects of each person, from the members of each project."""
    found: dict[str, list[str]] = {}
    for project, names in members.items():
        for name in names:
            found.setdefault(name, []).append(project)
    return {name: sorted(set(found[name])) for name in sorted(found)}


def build_sum(
    members: Mapping[str, Sequence[str]],
    own: Mapping[str, Amount],
    projects: Mapping[str, Project],
    gpu_type: str,
    types: Sequence[str],
) -> int:
    """Return the sum of the build quotas of all members of one type; ``own`` are personal build quotas."""
    people = projects_by_person(members)
    return sum(build_quota(of, own.get(name), projects, gpu_type, types) for name, of in people.items())


@dataclass(frozen=True, slots=True)
class BuildQuotas:
    """All that build quotas follow from: the members by project, personal build quotas, and the projects."""

    members: Mapping[str, Sequence[str]]
    own: Mapping[str, Amount]
    projects: Mapping[str, Project]

    def sum(self, gpu_type: str, types: Sequence[str]) -> int:
        """Return the sum of the build quotas of one type."""
        return build_sum(self.members, self.own, self.projects, gpu_type, types)


def exceeding_build_quotas(
    before: BuildQuotas | None, after: BuildQuotas, nodes: Sequence[Node], types: Sequence[str], field: str
) -> Iterator[Refusal]:
    """Yield a refusal for each type of which all build quotas would exceed the GPUs, unless they do not grow.

    ``nodes`` are the build nodes, ``types`` their GPU types; ``field`` is the one that the refusal names.
    """
    for gpu_type in types or ("",):
        build_gpus = total_gpus(nodes, gpu_type if types else None)
        total = after.sum(gpu_type, types)
        if total <= build_gpus or (before is not None and total <= before.sum(gpu_type, types)):
            continue
        shown = gpu_type if len(types) > 1 else ""
        there = (
            f"there {wording.plural(build_gpus, 'is', 'are')} {wording.count(build_gpus, _kind(shown, 'build'))}"
        )
        yield Refusal(
            409,
            "sums",
            f"The build quotas of all members would add up to {wording.count(total, _kind(shown))}; {there}.",
            field=field,
            hint=f"Lower a person's build quota by {total - build_gpus} first.",
        )
