"""Views of the pool, its projects and its people; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import quotas, ranges
from springtide.scheduler.engine.requests.validation import with_ancestors
from springtide.scheduler.engine.requests.workspaces import used_by
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.borrowing import Borrowing
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.gpu_types import total
from springtide.scheduler.model import Node, Standing
from springtide.scheduler.store.records import ProjectRecord

GpuKey = tuple[str, int]
"""Node and index of a GPU."""
NO_STANDING = Standing(quota=0, limit=None, fair_share=0, held=0, request=0)


def pool(
    state: State, nodes: ObservedNodes, standing: Mapping[str, Standing], borrowing: Borrowing, version: int
) -> wire.PoolView:
    """Return every GPU of the pool with its holder, and every project; ``version`` numbers the view."""
    holders = _holders(state, nodes, borrowing)
    reserved = reservations(state)
    train, build = nodes.train(), nodes.build()
    train_names = {node.name for node in train}
    return wire.PoolView(
        seq=version,
        nodes=[_node(node, holders, reserved) for node in nodes.all],
        projects=project_views(state, standing),
        train_gpus=quotas.total_gpus(train),
        train_held=sum(1 for (node, _), holder in holders.items() if holder.kind == "job" and node in train_names),
        build_gpus=quotas.total_gpus(build),
        build_held=sum(len(record.gpus) for record in state.workspaces.values()),
        simulated=is_simulated(nodes.all),
        quota_sum=quotas.quota_sum(state.policy_projects(), quotas.total_gpus(train)),
    )


def reservations(state: State) -> dict[GpuKey, str]:
    """Return the project of the job that each reserved GPU is reserved for."""
    return {
        (worker.node, index): job.spec.project
        for job in state.jobs.values()
        for worker in job.standing.reserved
        for index in worker.gpus
    }


def occupied(state: State, nodes: ObservedNodes, borrowing: Borrowing) -> frozenset[GpuKey]:
    """Return the GPUs that a job, a workspace or something outside the pool holds."""
    return frozenset(_holders(state, nodes, borrowing))


def is_simulated(nodes: Sequence[Node]) -> bool:
    """Return whether any GPU of these nodes is simulated."""
    return any(gpu.simulated for node in nodes for gpu in node.devices)


def _holders(state: State, nodes: ObservedNodes, borrowing: Borrowing) -> dict[GpuKey, wire.Holder]:
    foreign = wire.Holder(kind="foreign")
    found: dict[GpuKey, wire.Holder] = {}
    for node in (*nodes.train(), *nodes.build()):
        found.update({(node.name, index): foreign for index in node.taken})
    for job in state.live_jobs():
        flat = [(worker.node, index) for worker in job.attempts[-1].placement for index in worker.gpus]
        own = len(flat) - borrowing.of(job)
        for position, place in enumerate(flat):
            found[place] = wire.Holder(
                kind="job",
                user=job.spec.user,
                project=job.spec.project,
                job=job.id,
                name=job.spec.name,
                state=job.state.value,
                borrowed=position >= own,
            )
    for record in state.workspaces.values():
        holder = wire.Holder(kind="workspace", user=record.user, name=record.server, state="running")
        found.update({(record.node, index): holder for index in record.gpus})
    return found


def _node(node: Node, holders: Mapping[GpuKey, wire.Holder], reserved: Mapping[GpuKey, str]) -> wire.NodeView:
    uuids = {gpu.index: gpu.uuid for gpu in node.devices}
    return wire.NodeView(
        name=node.name,
        environment=node.environment.value,
        gpu_type=node.gpu_type,
        available=node.available,
        simulated=is_simulated([node]),
        labels=dict(node.labels),
        limits=node.limits,
        gpus=[
            wire.GpuCell(
                index=index,
                uuid=uuids.get(index, f"{node.name}/{index}"),
                holder=holders.get((node.name, index)),
                reserved_for=reserved.get((node.name, index), ""),
            )
            for index in range(node.gpus)
        ],
    )


def project_views(
    state: State, standing: Mapping[str, Standing], members: Mapping[str, Sequence[str]] | None = None
) -> list[wire.ProjectView]:
    """Return the view of every project, oldest first; ``members`` are the members by project."""
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for job in state.jobs.values():
        (running if job.live is not None else waiting)[job.spec.project] += 1
    return [
        project_view(
            record,
            standing.get(record.name, NO_STANDING),
            running[record.name],
            waiting[record.name],
            sorted((members or {}).get(record.name, ())),
        )
        for record in sorted(state.projects.values(), key=lambda record: record.project.age)
    ]


def project_view(
    record: ProjectRecord, standing: Standing, running: int, waiting: int, members: list[str]
) -> wire.ProjectView:
    """Return the view of a project with its numbers of running and waiting jobs."""
    project = record.project
    return wire.ProjectView(
        name=project.name,
        parent=project.parent,
        quota=total(project.quota),
        limit=total(project.limit),
        weight=project.weight,
        priority=project.priority,
        build_quota=total(project.build_quota) or 0,
        fair_share=standing.fair_share,
        held=standing.held,
        borrowed=standing.borrowed,
        waiting=standing.waiting,
        running_jobs=running,
        waiting_jobs=waiting,
        colour=record.colour,
        members=members,
        version=record.version,
        ranges=ranges.shown(record.ranges),
    )


def people(state: State, members: Mapping[str, Sequence[str]]) -> list[wire.PersonView]:
    """Return everyone who is in a project or has a personal build quota, by name."""
    projects = state.policy_projects()
    of = quotas.projects_by_person({name: names for name, names in members.items() if name in projects})
    return [person(state, name, of.get(name, [])) for name in sorted({*of, *state.people})]


def person(state: State, name: str, of: list[str]) -> wire.PersonView:
    """Return a person's build quota and its use; ``of`` are her projects."""
    own = state.people.get(name)
    quota = None if own is None else own.build_quota
    projects = state.policy_projects()
    return wire.PersonView(
        name=name,
        build_quota=quotas.build_quota(of, quota, projects),
        own_build_quota=quota,
        build_used=used_by(name, state.workspaces),
        projects=of,
    )


def admin(
    state: State, nodes: ObservedNodes, standing: Mapping[str, Standing], members: Mapping[str, Sequence[str]]
) -> wire.Admin:
    """Return all that the admin page shows."""
    projects = state.policy_projects()
    own = {record.name: record.build_quota for record in state.people.values()}
    train = quotas.total_gpus(nodes.train())
    return wire.Admin(
        projects=project_views(state, standing, members),
        people=people(state, members),
        sums=wire.Sums(
            train_gpus=train,
            quota_sum=quotas.quota_sum(projects, train),
            build_gpus=quotas.total_gpus(nodes.build()),
            build_quota_sum=quotas.build_sum(members, own, projects),
        ),
    )


def choices(
    state: State,
    nodes: ObservedNodes,
    standing: Mapping[str, Standing],
    names: Sequence[str],
    settings: EngineSettings,
) -> list[wire.ProjectChoice]:
    """Return what a person may ask for in each of the projects ``names``, oldest project first."""
    train = nodes.train()
    projects = state.policy_projects()
    all_gpus = quotas.total_gpus(train)
    largest = max((node.gpus for node in train), default=0)
    free = _count_free(state, train)
    found = []
    for record in sorted(state.projects.values(), key=lambda record: record.project.age):
        if record.name not in names:
            continue
        limited = [
            (limit, project.name)
            for project in with_ancestors(record.name, projects)
            if (limit := total(project.limit)) is not None
        ]
        limits = [limit for limit, _ in limited]
        within = ranges.merged(ranges.lineage(record.name, state.projects), settings.images)
        per_job = [] if within.max_gpus is None else [within.max_gpus]
        left = [limit - standing.get(name, NO_STANDING).held for limit, name in limited]
        found.append(
            wire.ProjectChoice(
                name=record.name,
                quota=total(record.project.quota),
                limit=total(record.project.limit),
                max_gpus=min([largest, *limits, *per_job]),
                max_total=min([all_gpus, *limits, *per_job]),
                free_now=max(0, min([free, *left])),
                colour=record.colour,
                ranges=ranges.shown(within),
            )
        )
    return found


def _count_free(state: State, train: Sequence[Node]) -> int:
    """Return the number of GPUs of available train nodes that nothing occupies."""
    held = {
        (worker.node, index)
        for job in state.live_jobs()
        for worker in job.attempts[-1].placement
        for index in worker.gpus
    }
    return sum(
        1
        for node in train
        if node.available
        for index in range(node.gpus)
        if index not in node.taken and (node.name, index) not in held
    )
