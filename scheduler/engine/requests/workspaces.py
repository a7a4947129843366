"""Reservation of build GPUs for workspaces, within each person's fixed build quota."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.requests import quotas
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State, WorkspaceKey
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import WorkspaceRecord

ADMIN_HINT = "An admin of this hub can change that, on the pool's admin page."


def used_by(user: str, workspaces: Mapping[WorkspaceKey, WorkspaceRecord]) -> int:
    """Return the number of build GPUs that a person's workspaces hold."""
    return sum(len(record.gpus) for record in workspaces.values() if record.user == user)


def reserve(
    transaction: Transaction, user: str, server: str, gpus: int, projects: Sequence[str]
) -> WorkspaceRecord:
    """Reserve GPUs for a workspace and return them; those it has already if the number is the same.

    ``projects`` are those of the person. Raises `Refusal` beyond the build quota, or if no build node has enough
    free GPUs.
    """
    workspaces = transaction.all_workspaces()
    present = workspaces.pop((user, server), None)
    if present is not None and len(present.gpus) == gpus:
        return present
    if not 0 <= gpus <= wire.MAX_GPUS:
        raise Refusal(422, "invalid", f"{gpus} GPUs cannot be reserved.", field="gpus")
    quota = quota_of(transaction, user, projects)
    used = used_by(user, workspaces)
    if gpus and used + gpus > quota:
        raise Refusal(
            409,
            "build_quota",
            f"{user} has a build quota of {wording.gpus(quota)} and uses {used}; this notebook asks for {gpus}.",
            field="gpus",
            hint=f"Stop another notebook or ask for fewer GPUs. {ADMIN_HINT}",
        )
    node, indices = _choose(transaction.nodes.build(), workspaces, gpus)
    record = WorkspaceRecord(user, server, node, indices, transaction.now)
    transaction.put_workspace((user, server), record)
    return record


def _choose(
    nodes: Sequence[Node], workspaces: Mapping[WorkspaceKey, WorkspaceRecord], gpus: int
) -> tuple[str, tuple[int, ...]]:
    """Return the fullest build node with enough free GPUs, and their indices.

    Raises `Refusal` if there is none.
    """
    if gpus == 0:
        return "", ()
    free = {node.name: _free(node, workspaces) for node in nodes if node.available}
    fitting = [name for name, indices in free.items() if len(indices) >= gpus]
    if not fitting:
        most = max((len(indices) for indices in free.values()), default=0)
        raise Refusal(
            409,
            "no_build_gpus",
            f"This notebook asks for {wording.gpus(gpus)}, within the build quota, but "
            f"only {wording.count(most, 'build GPU')} {wording.plural(most, 'is', 'are')} free on one machine.",
            field="gpus",
            hint=f"Something else holds build GPUs; try again later. {ADMIN_HINT}",
        )
    name = min(fitting, key=lambda name: (len(free[name]), name))
    return name, free[name][:gpus]


def _free(node: Node, workspaces: Mapping[WorkspaceKey, WorkspaceRecord]) -> tuple[int, ...]:
    held = {index for record in workspaces.values() if record.node == node.name for index in record.gpus}
    return tuple(index for index in range(node.gpus) if index not in held and index not in node.taken)


def quota_of(transaction: Transaction, user: str, projects: Sequence[str]) -> int:
    """Return a person's build quota, in GPUs."""
    own = transaction.all_people().get(user)
    own_quota = None if own is None else own.build_quota
    return quotas.build_quota(projects, own_quota, transaction.policy_projects())


def release(transaction: Transaction, user: str, server: str, since: float | None = None) -> None:
    """Release a workspace's GPUs. Does nothing if it has none, or if ``since`` is not when they were reserved."""
    present = transaction.all_workspaces().get((user, server))
    if present is not None and since in {None, present.since}:
        transaction.put_workspace((user, server), None)


def build_quota(state: State, nodes: ObservedNodes, user: str, projects: Sequence[str]) -> wire.BuildQuota:
    """Return a person's build quota, its use, and the free build GPUs."""
    build = nodes.build()
    transaction = Transaction(state, nodes, 0.0)
    return wire.BuildQuota(
        user=user,
        quota=quota_of(transaction, user, projects),
        used=used_by(user, state.workspaces),
        free=sum(len(_free(node, state.workspaces)) for node in build if node.available),
        simulated=any(gpu.simulated for node in build for gpu in node.devices),
        projects=sorted(name for name in projects if name in state.projects),
    )
