"""Build GPUs for notebooks: fixed quotas, reserved one GPU at a time to one workspace only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine import quotas
from springtide.scheduler.engine.world import Draft, WorkspaceKey, World
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import WorkspaceRecord

WHO = "An admin of this hub can change that, on the pool's admin page."


def gpu_words(count: int) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def used_by(user: str, workspaces: Mapping[WorkspaceKey, WorkspaceRecord]) -> int:
    """Build GPUs that a person's workspaces hold."""
    return sum(len(record.gpus) for record in workspaces.values() if record.user == user)


def reserve(draft: Draft, user: str, server: str, gpus: int, projects: Sequence[str]) -> WorkspaceRecord:
    """Reserve GPUs for a workspace; the same again for one that has them already.

    Raises `Refusal` beyond the build quota, or if the machine has too few free build GPUs.
    """
    workspaces = draft.all_workspaces()
    present = workspaces.pop((user, server), None)
    if present is not None and len(present.gpus) == gpus:
        return present
    if not 0 <= gpus <= wire.MAX_GPUS:
        raise Refusal(422, "invalid", f"{gpus} GPUs cannot be reserved.", field="gpus")
    quota = quota_of(draft, user, projects)
    used = used_by(user, workspaces)
    if gpus and used + gpus > quota:
        raise Refusal(
            409,
            "build_quota",
            f"{user} has a build quota of {gpu_words(quota)} and uses {used}; this notebook asks for {gpus}.",
            field="gpus",
            hint=f"Stop another notebook or ask for fewer GPUs. {WHO}",
        )
    node, indices = _choose(draft.world.build_nodes(), workspaces, gpus)
    record = WorkspaceRecord(user, server, node, indices, draft.now)
    draft.put_workspace((user, server), record)
    return record


def _choose(
    nodes: Sequence[Node], workspaces: Mapping[WorkspaceKey, WorkspaceRecord], gpus: int
) -> tuple[str, tuple[int, ...]]:
    """The fullest build node that has room."""
    if gpus == 0:
        return "", ()
    free = {node.name: _free(node, workspaces) for node in nodes if node.available}
    fitting = [name for name, indices in free.items() if len(indices) >= gpus]
    if not fitting:
        most = max((len(indices) for indices in free.values()), default=0)
        raise Refusal(
            409,
            "no_build_gpus",
            f"{gpu_words(gpus)} for a notebook were asked for, within the build quota, but only {most} "
            f"build GPU{' is' if most == 1 else 's are'} free on one machine.",
            field="gpus",
            hint=f"Something else holds build GPUs; try again later. {WHO}",
        )
    name = min(fitting, key=lambda name: (len(free[name]), name))
    return name, free[name][:gpus]


def _free(node: Node, workspaces: Mapping[WorkspaceKey, WorkspaceRecord]) -> tuple[int, ...]:
    held = {index for record in workspaces.values() if record.node == node.name for index in record.gpus}
    return tuple(index for index in range(node.gpus) if index not in held and index not in node.taken)


def quota_of(draft: Draft, user: str, projects: Sequence[str]) -> int:
    """A person's build quota, in GPUs."""
    own = draft.all_people().get(user)
    known = {name: record.project for name, record in draft.all_projects().items()}
    return quotas.build_quota(projects, None if own is None else own.build_quota, known)


def release(draft: Draft, user: str, server: str, since: float | None = None) -> None:
    """Give a workspace's GPUs back; nothing happens if it has none, or not the ones reserved at ``since``."""
    present = draft.all_workspaces().get((user, server))
    if present is not None and since in {None, present.since}:
        draft.put_workspace((user, server), None)


def build_quota(world: World, user: str, projects: Sequence[str]) -> wire.BuildQuota:
    """What a person may still start."""
    nodes = world.build_nodes()
    draft = Draft(world, 0.0)
    return wire.BuildQuota(
        user=user,
        quota=quota_of(draft, user, projects),
        used=used_by(user, world.workspaces),
        free=sum(len(_free(node, world.workspaces)) for node in nodes if node.available),
        simulated=any(gpu.simulated for node in nodes for gpu in node.devices),
        projects=sorted(name for name in projects if name in world.projects),
    )
