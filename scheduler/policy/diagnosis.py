"""Why a job waits: facts about the pool. `starts_if` plans to find the changes that would let it start."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor, inf

from msgspec import structs

from springtide.scheduler import timetable
from springtide.scheduler.model import Job, Phase, Reason
from springtide.scheduler.policy import gang_placement
from springtide.scheduler.policy.eviction.rules import ReclaimRule
from springtide.scheduler.policy.eviction.search import VictimSearch
from springtide.scheduler.policy.memo import Memo
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.phases.precedence import runtimes_awaited_until
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.reasons import Param, of_holders, of_type, quota_of
from springtide.scheduler.policy.state import demand
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.demand import Cause, Impossible
from springtide.scheduler.policy.state.nodes import NodePool, bits
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.resources.per_gpu import PerGpu, nearest

SHORTEST_STAY = 900.0
"""Least time until a node closes for which a job is advised to take a time limit, in seconds."""

FOR_THE_CHANGE = 300.0
"""Time in which a person changes the time limit of a job, in seconds."""

MAX_ENDS = 8
"""Maximum number of ends of minimum run times that are tried for the soonest pause."""


def closeness(state: ClusterState, job: Job) -> tuple[bool, bool, int]:
    """Return an order of GPU types by how little a waiting job lacks on them: leave, room, the roomiest node."""
    leaf = state.tree.leaves.get(job.project)
    if leaf is None or job.phase is not Phase.WAITING:
        return False, False, 0
    pool = state.pool
    within = pool.suitable((), job.per_gpu)
    has_room = pool.slots(job.gpus, within) >= job.min_workers
    return _refused(state, job, leaf) is None, has_room, _most_free(pool, within)


def reason(memo: Memo, job: Job, now: float) -> Reason:
    """Return why the job does not run, or that it runs, with the GPU type of the numbers."""
    why = _reason(memo, job, now)
    return replace(why, params={**why.params, **of_type(memo.state)})


def _reason(memo: Memo, job: Job, now: float) -> Reason:
    state = memo.state
    simple = {Phase.RUNNING: "running", Phase.PAUSING: "pausing", Phase.HELD: "held"}.get(job.phase)
    if simple is not None:
        return Reason(simple, {"job": job.id, "gpus": job.held_gpus})
    leaf = state.tree.leaves.get(job.project)
    if leaf is None:
        return Reason("unknown-project", {"project": job.project})
    if job.reserved:
        return _awaits(PlanBuilder(memo, now), job, leaf)
    if job.not_before > now:
        return Reason("back-off", {"seconds": ceil(job.not_before - now), "until": job.not_before})
    if not job.avoid:
        return _refused(state, job, leaf) or _lacks_room(memo, job, leaf, now)
    anywhere = structs.replace(job, avoid=frozenset())
    return _refused(state, anywhere, leaf) or _closes(state, job, leaf, now) or _lacks_room(memo, job, leaf, now)


def _closes(state: ClusterState, job: Job, leaf: ProjectNode, now: float) -> Reason | None:
    """Return the nodes that close too soon for the job, if it could start there or can run nowhere else."""
    anywhere = structs.replace(job, avoid=frozenset())
    only_there = demand.impossible(state.pool, leaf, job) is not None
    free_there = gang_placement.place_gang(state.pool, anywhere, job.min_workers)
    free_elsewhere = gang_placement.place_gang(state.pool, job, job.min_workers)
    if free_elsewhere is not None or not (only_there or free_there):
        return None
    nodes = sorted(job.avoid) if free_there is None else sorted({node.name for node, _ in free_there} & job.avoid)
    leaves, name = min((state.pool.closing[name], name) for name in nodes)
    left = timetable.run_time_left(job)
    span = min(span for span in state.pool.by_name[name].node.closed if span.start > now)
    params: dict[str, Param] = {
        "nodes": tuple(nodes),
        "first": name,
        "seconds": ceil(span.start - now),
        "until": span.start,
        "lasts": ceil(span.end - span.start),
        "start": span.start,
        "end": span.end,
        "needs": None if left == inf else ceil(left),
        "known": int(timetable.is_known(job)),
        "saves": int(job.saved is not None),
        "preemptible": int(job.preemptible),
        "only_there": int(only_there),
    }
    limit = leaves - now + job.served / (job.workers * job.gpus) - FOR_THE_CHANGE
    if free_there is not None and leaves - now >= SHORTEST_STAY:
        params["limit"] = floor(limit)
    return Reason("node-closes-first", params)


def _awaits(builder: PlanBuilder, job: Job, leaf: ProjectNode) -> Reason:
    state = builder.state
    gpus = len(job.reserved) * job.gpus
    holders = [state.jobs[job_id] for job_id in state.pool.holders(job.reserved)]
    if not holders:
        return _awaits_bound(job, leaf, gpus) if job.turn else _starts(leaf, gpus)
    pausing = int(all(holder.id in state.pausing for holder in holders))
    until = runtimes_awaited_until(builder, job)
    borrowed = all(holder.preemptible and _exceeds_quota(state, holder) for holder in holders)
    rest: dict[str, Param] = {}
    if borrowed and not pausing and until > builder.now:
        until, holders = _soonest(builder, job, leaf, until, holders)
        rest = {"seconds": ceil(until - builder.now), "until": until}
    return Reason("awaits-pause", {"gpus": gpus, "pausing": pausing, **of_holders(holders), **rest})


def _soonest(
    builder: PlanBuilder, job: Job, leaf: ProjectNode, until: float, holders: list[Job]
) -> tuple[float, list[Job]]:
    """Return when jobs can be paused for a job with a delayed reservation, in seconds, and which.

    The holders of its GPUs can at ``until``. Others may before, and then the plan replaces the reservation. The
    ends of the first `MAX_ENDS` minimum run times are tried.
    """
    state, at = builder.state, builder.now
    state.update_shares()
    there = structs.replace(job, reserved=(), avoid=state.avoided(job))
    with state.undo.trial():
        state.release(job)
        for _ in range(MAX_ENDS):
            search = VictimSearch(PlanBuilder(builder.memo, at), leaf, there, ReclaimRule(state, leaf, there.need))
            found = search.solve() or search.solve_with_moves()
            if found is not None:
                return at, [disruption.job for disruption in found.disruptions] or holders
            at = search.retry_at
            if at >= until:
                break
    return until, holders


def _awaits_bound(job: Job, leaf: ProjectNode, need: int) -> Reason:
    """Return the bound at which the job with the turn, whose GPUs are free, waits for others to end."""
    full = next((project for project in leaf.path if project.held + need > project.limit), None)
    full = full or admission.beyond_quota(leaf, job, 0)
    return Reason("next", {"gpus": need}) if full is None else Reason("bound", {"gpus": need, "at": full.name})


def _exceeds_quota(state: ClusterState, job: Job) -> bool:
    leaf = state.tree.leaves.get(job.project)
    return leaf is not None and leaf.claimed > leaf.quota


def _starts(leaf: ProjectNode, need: int) -> Reason:
    """Return that the job starts on free GPUs, or the limit that blocks it until pausing jobs have ended."""
    for project in leaf.path:
        if project.held + need > project.limit:
            held, limit = project.held, project.limit
            return Reason("limit-held", {"at": project.name, "held": held, "limit": limit, "gpus": need})
    return Reason("next", {"gpus": need})


def _refused(state: ClusterState, job: Job, leaf: ProjectNode) -> Reason | None:
    """Return the reason that more free GPUs would not remove, if any."""
    need = job.need
    about: dict[str, Param]
    never = demand.impossible(state.pool, leaf, job)
    firm = never is not None and never.cause is Cause.QUOTA
    if not firm and (over := admission.over_limit(leaf, need)) is not None:
        about = {"at": over.name, "held": over.held, "claimed": over.claimed, "limit": over.limit, "gpus": need}
        return Reason("over-limit", about)
    if (full := admission.beyond_quota(leaf, job, need)) is not None:
        about = {"at": full.name, "firm": full.non_preemptible, "quota": full.quota, "gpus": need}
        if state.tree.is_own(full):
            about["below"] = state.tree.project_nodes[full.name].quota - full.quota
        return Reason("beyond-quota", about)
    return None if never is None else _beyond_pool(state.pool, job, never)


def _beyond_pool(pool: NodePool, job: Job, never: Impossible) -> Reason:
    """Return what even empty nodes lack for the job."""
    rdma = int(job.per_gpu.rdma > 0)
    about: dict[str, Param] = {
        "workers": job.min_workers,
        "gpus": job.gpus,
        "gpu_types": tuple(job.gpu_types),
        "rdma": rdma,
    }
    match never.cause:
        case Cause.RDMA | Cause.PER_GPU:
            lacking = _lacking_per_gpu(pool, job)
            return replace(lacking, params={**about, **lacking.params})
        case Cause.GANG:
            return Reason("gang-too-large", {**about, "most": never.most})
        case Cause.LEVEL:
            return Reason("no-level", {**about, "level": never.at})
        case Cause.DOMAIN:
            return Reason("domain-too-small", {**about, "level": never.at, "most": never.most})
        case _:
            return Reason("too-large", {**about, "largest": never.most})


def _lacks_room(memo: Memo, job: Job, leaf: ProjectNode, now: float) -> Reason:
    """Return what the job lacks: share, room, or the end of minimum run times."""
    state, need = memo.state, job.need
    if gang_placement.place_gang(state.pool, job, job.min_workers) is not None:
        return _starts(leaf, need)
    state.update_shares()
    over = next((project for project in leaf.path if project.claimed + need > project.entitled), None)
    position = state.queue_position(job) or 1
    at = state.tree.project_nodes[job.project if over is None else over.name]
    about = _about_room(state, job, at, position)
    if over is not None:
        about |= {
            "would_hold": (over.held if over.held + need > over.entitled else over.claimed) + need,
            "may_hold": over.entitled,
            "own": int(state.tree.is_own(over)),
        }
        return Reason("share-used", about)
    if position > 1:
        return Reason("no-room", about)
    search = VictimSearch(PlanBuilder(memo, now), leaf, job, ReclaimRule(state, leaf, need))
    search.solve()
    if search.retry_at == inf:
        return Reason("no-room", about)
    return Reason("too-soon", {**about, "seconds": ceil(search.retry_at - now), "until": search.retry_at})


def _most_free(pool: NodePool, within: int) -> int:
    """Return the largest number of free GPUs on one of these nodes."""
    roomiest = next(pool.roomiest_first(within), None)
    return 0 if roomiest is None else roomiest.free.bit_count()


def _about_room(state: ClusterState, job: Job, project_node: ProjectNode, position: int) -> dict[str, Param]:
    """Return the job's needs, the free GPUs, and the usage and quota of ``project_node``."""
    pool = state.pool
    within = pool.suitable(job.gpu_types, job.per_gpu)
    about: dict[str, Param] = {
        "project": job.project,
        "place": position,
        "at": project_node.name,
        "held": project_node.held,
        "quota": quota_of(project_node),
        "fair_share": project_node.share,
        "gpus": job.gpus,
        "workers": job.min_workers,
        "gpu_types": tuple(job.gpu_types),
        "require": job.require,
        "free": pool.free,
        "node_free": _most_free(pool, within),
        "room": pool.slots(job.gpus, within),
        "reserved": pool.reserved,
        "idle_reserved": pool.idle_reserved,
    }
    if state.goes_by_run_times:
        about["usual_runtime"] = job.usual_runtime
    if within != pool.all:
        about |= {**_cores_and_memory(job, job.per_gpu), "rdma": int(job.per_gpu.rdma > 0)}
        about |= {"suitable": within.bit_count(), "nodes": pool.all.bit_count()}
    return about


def _cores_and_memory(job: Job, per_gpu: PerGpu) -> dict[str, Param]:
    """Return the cores and the memory of one worker."""
    return {"cpus": per_gpu.cpus * job.gpus, "memory": per_gpu.memory * job.gpus}


def _lacking_per_gpu(pool: NodePool, job: Job) -> Reason:
    """Return what every node lacks: RDMA, or enough cores and memory for each GPU."""
    offered = [pool.node_states[index].node.per_gpu for index in bits(pool.all)]
    with_rdma = [per_gpu for per_gpu in offered if per_gpu.holds(PerGpu(rdma=job.per_gpu.rdma))]
    if not with_rdma:
        return Reason("no-rdma")
    most = _cores_and_memory(job, nearest(job.per_gpu, with_rdma))
    request = _cores_and_memory(job, job.per_gpu)
    return Reason("per-gpu-too-large", {**request, "most_cpus": most["cpus"], "most_memory": most["memory"]})
