"""Reservation of build GPUs for workspaces, within each person's fixed build quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from springtide.scheduler import wire, wording
from springtide.scheduler.engine import idle
from springtide.scheduler.engine.requests import quotas
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.places import identities, is_unmatched
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.executors.base import RunningNotebook
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import WorkspaceKey, WorkspaceRecord

ADMIN_HINT = "An admin of this hub can change that, on the pool's admin page."


def gpus_held_by(
    user: str, workspaces: Mapping[WorkspaceKey, WorkspaceRecord], gpu_type: str | None = None
) -> int:
    """Return the number of build GPUs that a person's workspaces hold, of one type if that is given."""
    mine = [record for record in workspaces.values() if record.user == user]
    return sum(len(record.gpus) for record in mine if gpu_type in {None, record.gpu_type})


def reserve(
    transaction: Transaction,
    user: str,
    server: str,
    gpus: int,
    projects: Sequence[str],
    *,
    gpu_type: str = "",
    runs_on: Sequence[str] = (),
) -> WorkspaceRecord:
    """Reserve GPUs for a workspace and return them; those it has already if number and type are the same.

    ``projects`` are those of the person. Without ``gpu_type`` they are of the first type that has room.
    ``runs_on`` are the UUIDs of the GPUs that a workspace runs on already: these are recorded unconditionally.
    Raises `Refusal` for an unknown type, beyond the build quota, or if no build node has enough free GPUs.
    """
    workspaces = dict(transaction.workspaces)
    present = workspaces.pop((user, server), None)
    if not 0 <= gpus <= wire.MAX_GPUS:
        raise Refusal(422, "invalid", f"{wording.gpus(gpus)} cannot be reserved.", field="gpus")
    if runs_on:
        return _record_running(transaction, user, server, runs_on, gpu_type=gpu_type)
    same_type = present is not None and transaction.types.declared.of(gpu_type) == present.gpu_type
    same = present is not None and len(present.gpus) == gpus and (not gpus or not gpu_type or same_type)
    if present is not None and same and not is_unmatched(present.node):
        return present
    types = _types_to_try(transaction, gpu_type)
    refusals = []
    for each in types if gpus else ("",):
        try:
            if gpus:
                _check_quota(transaction, user, workspaces, gpus, projects=projects, gpu_type=each)
            node, indices = _choose(_nodes_of(transaction, each), workspaces, gpus, _shown(transaction, each))
        except Refusal as refusal:
            refusals.append(refusal)
        else:
            uuids = transaction.nodes.places.uuids(node, indices) if indices else ()
            record = WorkspaceRecord(user, server, node, indices, transaction.now, each, uuids)
            transaction.workspaces.put(record)
            idle.reserved(transaction, (user, server))
            return record
    raise refusals[0]


def _record_running(
    transaction: Transaction, user: str, server: str, gpus: Sequence[str], *, gpu_type: str
) -> WorkspaceRecord:
    """Record the GPUs that a workspace runs on, and return it; without a place if another workspace has one."""
    present = transaction.workspaces.get((user, server))
    uuids = tuple(gpus)
    since, known = (present.since, present.gpu_type) if present is not None else (transaction.now, gpu_type)
    held = {
        gpu
        for key, each in transaction.workspaces.items()
        if key != (user, server)
        for gpu in identities(each.node, each.gpus, each.uuids)
    }
    indices = tuple(range(len(uuids)))
    found = WorkspaceRecord(user, server, "", indices, since, known, uuids)
    record = transaction.nodes.workspace_matched(found, held)
    if record != present:
        transaction.workspaces.put(record)
        if present is None or present.uuids != uuids:
            idle.reserved(transaction, (user, server))
    return record


def _types_to_try(transaction: Transaction, gpu_type: str) -> tuple[str, ...]:
    """Return the type that was asked for, or all. Raises `Refusal` for a type without build GPUs."""
    known = transaction.types.build or ("",)
    if not gpu_type:
        return known
    wanted = transaction.types.declared.of(gpu_type)
    if wanted not in known:
        raise Refusal(
            422,
            "gpu_types",
            f"There are no build GPUs of the type {wording.given(gpu_type)}.",
            field="gpu_type",
            hint=f"Types here: {', '.join(filter(None, known)) or 'none'}.",
        )
    return (wanted,)


def _nodes_of(transaction: Transaction, gpu_type: str) -> list[Node]:
    return [
        node
        for node in transaction.nodes.build(transaction.drained(), transaction.workspaces.values())
        if not gpu_type or node.gpu_type == gpu_type
    ]


def _shown(transaction: Transaction, gpu_type: str) -> str:
    """Return the type as messages say it: nothing if there is only one."""
    return gpu_type if len(transaction.types.build) > 1 else ""


def _check_quota(
    transaction: Transaction,
    user: str,
    workspaces: Mapping[WorkspaceKey, WorkspaceRecord],
    gpus: int,
    *,
    projects: Sequence[str],
    gpu_type: str,
) -> None:
    shown = _shown(transaction, gpu_type)
    quota = quota_of(transaction, user, projects, gpu_type)
    held = gpus_held_by(user, workspaces, gpu_type if shown else None)
    if held + gpus > quota:
        kind = f"{shown} GPU" if shown else "GPU"
        raise Refusal(
            409,
            "build_quota",
            f"{user} has a build quota of {wording.count(quota, kind)} and holds {held}; this workspace asks for "
            f"{gpus}.",
            field="gpus",
            hint=f"Stop another notebook or ask for fewer GPUs. {ADMIN_HINT}",
        )


def _choose(
    nodes: Sequence[Node], workspaces: Mapping[WorkspaceKey, WorkspaceRecord], gpus: int, shown: str
) -> tuple[str, tuple[int, ...]]:
    """Return the fullest build node with enough free GPUs, and their indices; ``shown`` is the type in messages.

    Raises `Refusal` if there is none.
    """
    if gpus == 0:
        return "", ()
    free = {node.name: _free(node, workspaces) for node in nodes if node.available}
    fitting = [name for name, indices in free.items() if len(indices) >= gpus]
    if not fitting:
        most = max((len(indices) for indices in free.values()), default=0)
        kind = f"build {shown} GPU" if shown else "build GPU"
        raise Refusal(
            409,
            "no_build_gpus",
            f"This workspace asks for {wording.gpus(gpus)}, within the build quota, but "
            f"only {wording.count(most, kind)} {wording.plural(most, 'is', 'are')} free on one machine.",
            field="gpus",
            hint=f"Something else holds build GPUs; try again later. {ADMIN_HINT}",
        )
    name = min(fitting, key=lambda name: (len(free[name]), name))
    return name, free[name][:gpus]


def _free(node: Node, workspaces: Mapping[WorkspaceKey, WorkspaceRecord]) -> tuple[int, ...]:
    held = {index for record in workspaces.values() if record.node == node.name for index in record.gpus}
    return tuple(index for index in range(node.gpus) if index not in held and index not in node.taken)


def quota_of(transaction: Transaction, user: str, projects: Sequence[str], gpu_type: str) -> int:
    """Return a person's build quota of one type, in GPUs."""
    own = transaction.people.get(user)
    own_quota = None if own is None else own.build_quota
    records = transaction.policy_projects()
    return quotas.build_quota(projects, own_quota, records, gpu_type, transaction.types.build)


def adopt(transaction: Transaction, running: Iterable[RunningNotebook]) -> list[RunningNotebook]:
    """Record the GPUs of notebooks that run without a reservation of them; return those that have no place.

    Without a place is what runs on GPUs that are not those of one build node, or that another workspace has.
    """
    on_gpus = [each for each in running if each.uuids]
    known = {(each.user, each.server, frozenset(each.uuids)) for each in on_gpus}
    unmatched = []
    for each in on_gpus:
        present = transaction.workspaces.get((each.user, each.server))
        if present is not None and present.gpus:
            runs_there = (each.user, each.server, frozenset(present.uuids)) in known
            if runs_there or not present.uuids:
                continue
        record = _record_running(transaction, each.user, each.server, each.uuids, gpu_type=each.gpu_type)
        if is_unmatched(record.node):
            unmatched.append(each)
    return unmatched


def release(transaction: Transaction, user: str, server: str, since: float | None = None) -> None:
    """Release a workspace's GPUs. Does nothing if it has none, or if ``since`` is not when they were reserved."""
    present = transaction.workspaces.get((user, server))
    if present is not None and since in {None, present.since}:
        idle.released(transaction, present)
        transaction.workspaces.remove((user, server))


def build_quota(state: State, nodes: ObservedNodes, user: str, projects: Sequence[str]) -> wire.BuildQuota:
    """Return a person's build quota, its use, and the free build GPUs."""
    transaction = Transaction(state, nodes, 0.0)
    types = state.types.build or ("",)
    by_type = {
        each: wire.BuildNumbers(
            quota=quota_of(transaction, user, projects, each),
            held=gpus_held_by(user, state.workspaces, each if len(types) > 1 else None),
            free=sum(
                len(_free(node, state.workspaces)) for node in _nodes_of(transaction, each) if node.available
            ),
        )
        for each in types
    }
    return wire.BuildQuota(
        user=user,
        quota=sum(each.quota for each in by_type.values()),
        held=gpus_held_by(user, state.workspaces),
        free=sum(each.free for each in by_type.values()),
        simulated=any(gpu.simulated for node in nodes.build() for gpu in node.devices),
        projects=sorted(name for name in projects if name in state.projects),
        by_type=by_type if len(types) > 1 else {},
    )
