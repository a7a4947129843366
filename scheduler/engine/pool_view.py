"""The pool at a glance, and what an admin or a form needs to know of it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine import quotas
from springtide.scheduler.engine.borrowing import Borrowing
from springtide.scheduler.engine.submit import line_up
from springtide.scheduler.engine.workspaces import used_by
from springtide.scheduler.engine.world import World
from springtide.scheduler.model import Node, Standing
from springtide.scheduler.store.records import ProjectRecord

Place = tuple[str, int]
NOTHING = Standing(quota=0, limit=None, fair_share=0, held=0, request=0)


def pool(world: World, standing: Mapping[str, Standing], borrowing: Borrowing, seq: int) -> wire.PoolView:
    """Every GPU of the pool with who holds it, and every project."""
    holders = _holders(world, borrowing)
    reserved = {
        (worker.node, index): job.spec.project
        for job in world.jobs.values()
        for worker in job.standing.reserved
        for index in worker.gpus
    }
    train, build = world.train_nodes(), world.build_nodes()
    ours = {node.name for node in train}
    return wire.PoolView(
        seq=seq,
        nodes=[_node(node, holders, reserved) for node in world.nodes],
        projects=project_views(world, standing),
        train_gpus=quotas.total_gpus(train),
        train_held=sum(1 for (node, _), holder in holders.items() if holder.kind == "job" and node in ours),
        build_gpus=quotas.total_gpus(build),
        build_held=sum(len(record.gpus) for record in world.workspaces.values()),
        simulated=_simulated(world.nodes),
        quota_sum=quotas.quota_sum({p.name: p for p in world.policy_projects()}, quotas.total_gpus(train)),
    )


def _simulated(nodes: Sequence[Node]) -> bool:
    return any(gpu.simulated for node in nodes for gpu in node.devices)


def _holders(world: World, borrowing: Borrowing) -> dict[Place, wire.Holder]:
    foreign = wire.Holder(kind="foreign")
    found: dict[Place, wire.Holder] = {}
    for node in (*world.train_nodes(), *world.build_nodes()):
        found.update({(node.name, index): foreign for index in node.taken})
    for job in world.live_jobs():
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
    for record in world.workspaces.values():
        holder = wire.Holder(kind="workspace", user=record.user, name=record.server, state="running")
        found.update({(record.node, index): holder for index in record.gpus})
    return found


def _node(node: Node, holders: Mapping[Place, wire.Holder], reserved: Mapping[Place, str]) -> wire.NodeView:
    uuids = {gpu.index: gpu.uuid for gpu in node.devices}
    return wire.NodeView(
        name=node.name,
        environment=node.environment.value,
        gpu_type=node.gpu_type,
        available=node.available,
        simulated=_simulated([node]),
        labels=dict(node.labels),
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
    world: World, standing: Mapping[str, Standing], members: Mapping[str, Sequence[str]] | None = None
) -> list[wire.ProjectView]:
    """Every project, oldest first."""
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for job in world.jobs.values():
        (running if job.live is not None else waiting)[job.spec.project] += 1
    return [
        project_view(
            record,
            standing.get(record.name, NOTHING),
            running[record.name],
            waiting[record.name],
            sorted((members or {}).get(record.name, ())),
        )
        for record in sorted(world.projects.values(), key=lambda record: record.project.age)
    ]


def project_view(
    record: ProjectRecord, standing: Standing, running: int, waiting: int, members: list[str]
) -> wire.ProjectView:
    """A project as bars show it."""
    project = record.project
    return wire.ProjectView(
        name=project.name,
        parent=project.parent,
        quota=project.quota,
        limit=project.limit,
        weight=project.weight,
        priority=project.priority,
        build_quota=project.build_quota,
        fair_share=standing.fair_share,
        held=standing.held,
        borrowed=standing.borrowed,
        waiting=standing.waiting,
        running_jobs=running,
        waiting_jobs=waiting,
        colour=record.colour,
        members=members,
        version=record.version,
    )


def people(world: World, members: Mapping[str, Sequence[str]]) -> list[wire.PersonView]:
    """Everybody who is in a project or has a build quota of her own."""
    projects = {project.name: project for project in world.policy_projects()}
    of = quotas.people_of({name: names for name, names in members.items() if name in projects})
    return [person(world, name, of.get(name, [])) for name in sorted({*of, *world.people})]


def person(world: World, name: str, of: list[str]) -> wire.PersonView:
    """A person's build quota."""
    own = world.people.get(name)
    quota = None if own is None else own.build_quota
    projects = {project.name: project for project in world.policy_projects()}
    return wire.PersonView(
        name=name,
        build_quota=quotas.build_quota(of, quota, projects),
        own_build_quota=quota,
        build_used=used_by(name, world.workspaces),
        projects=of,
    )


def admin(world: World, standing: Mapping[str, Standing], members: Mapping[str, Sequence[str]]) -> wire.Admin:
    """All that the admin page shows."""
    projects = {project.name: project for project in world.policy_projects()}
    own = {record.name: record.build_quota for record in world.people.values()}
    train = quotas.total_gpus(world.train_nodes())
    return wire.Admin(
        projects=project_views(world, standing, members),
        people=people(world, members),
        sums=wire.Sums(
            train_gpus=train,
            quota_sum=quotas.quota_sum(projects, train),
            build_gpus=quotas.total_gpus(world.build_nodes()),
            build_quota_sum=quotas.build_sum(members, own, projects),
        ),
    )


def choices(world: World, standing: Mapping[str, Standing], names: Sequence[str]) -> list[wire.ProjectChoice]:
    """What a person may ask for in each of these projects."""
    nodes = world.train_nodes()
    projects = {project.name: project for project in world.policy_projects()}
    total = quotas.total_gpus(nodes)
    largest = max((node.gpus for node in nodes), default=0)
    held = {(w.node, i) for job in world.live_jobs() for w in job.attempts[-1].placement for i in w.gpus}
    free = sum(
        1
        for node in nodes
        if node.available
        for index in range(node.gpus)
        if index not in node.taken and (node.name, index) not in held
    )
    found = []
    for record in sorted(world.projects.values(), key=lambda record: record.project.age):
        if record.name not in names:
            continue
        line = line_up(record.name, projects)
        limits = [project.limit for project in line if project.limit is not None]
        left = [
            project.limit - standing.get(project.name, NOTHING).held
            for project in line
            if project.limit is not None
        ]
        found.append(
            wire.ProjectChoice(
                name=record.name,
                quota=record.project.quota,
                limit=record.project.limit,
                max_gpus=min([largest, *limits]),
                max_total=min([total, *limits]),
                free_now=max(0, min([free, *left])),
                colour=record.colour,
            )
        )
    return found
