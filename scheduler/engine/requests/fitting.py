"""Quotas that are scaled until they fit into what holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import project_admin, quotas
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import quota_of
from springtide.scheduler.model import Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wording import count, given


def fitted(quotas_of: Mapping[str, int], room: int) -> dict[str, int]:
    """Return quotas in the same proportions that add up to the room; unchanged if they are no more than that.

    What rounding leaves goes to those that lost the largest part of a GPU, the first ones first.
    """
    total = sum(quotas_of.values())
    if total <= room:
        return dict(quotas_of)
    scaled = {name: quota * room // total for name, quota in quotas_of.items()}
    lost = sorted(quotas_of, key=lambda name: -(quotas_of[name] * room % total))
    for name in lost[: room - sum(scaled.values())]:
        scaled[name] += 1
    return scaled


def fitted_tree(
    projects: Mapping[str, Project], room: int, gpu_type: str, types: tuple[str, ...]
) -> dict[str, int]:
    """Return the quotas of a type that differ once those of each level fit into the project above, deepest first.

    An unlimited quota takes all of what holds it, and so becomes that number where others have quotas beside it.
    """
    return dict(reversed(list(_below(None, projects, room, gpu_type, types))))


def _below(
    parent: str | None, projects: Mapping[str, Project], room: int, gpu_type: str, types: tuple[str, ...]
) -> Iterator[tuple[str, int]]:
    own = {each.name: quota_of(each, gpu_type, types) for each in projects.values() if each.parent == parent}
    after = fitted({name: room if quota is None else quota for name, quota in own.items()}, room)
    for name, quota in own.items():
        if quota != after[name] and not (quota is None and after[name] == room):
            yield name, after[name]
        yield from _below(name, projects, after[name], gpu_type, types)


def fit_quotas(transaction: Transaction, gpu_type: str, by: str) -> int:
    """Scale all quotas of a type until they fit into the pool; return how many projects have others now.

    Raises `Refusal` for an unknown type, and if they fit already.
    """
    types = transaction.types.train
    if gpu_type and gpu_type not in types:
        known = ", ".join(types) or "none"
        message = f"The pool has no train GPUs of the type {given(gpu_type)}."
        raise Refusal(422, "gpu_types", message, field="gpu_type", hint=f"Types here: {known}.")
    if not gpu_type and len(types) > 1:
        message = f"The pool has train GPUs of {len(types)} types."
        raise Refusal(422, "gpu_types", message, field="gpu_type", hint=f"Name one of them: {', '.join(types)}.")
    room = quotas.total_gpus(transaction.nodes.possible(), gpu_type or None)
    changes = fitted_tree(transaction.policy_projects(), room, gpu_type or (types[0] if types else ""), types)
    if not changes:
        message = f"The quotas fit into the {count(room, 'GPU')} of the pool already."
        raise Refusal(409, "fits", message, hint="Look at the list again.")
    for name, quota in changes.items():
        of: int | dict[str, int | None] = {gpu_type: quota} if len(types) > 1 else quota
        project_admin.edit_project(transaction, name, wire.ProjectEdit(quota=of), by, {})
    return len(changes)
