"""Where a gang goes: packed onto the fullest nodes, in the tightest topology domain that holds it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from springtide.scheduler.model import WITHIN_NODES, Job, Placement, Worker
from springtide.scheduler.policy.state.nodes import NodePool, NodeState, bits, mask_of

NODE = "node"
"""The level of a whole node, in requirements and wishes."""

Allocation = list[tuple[NodeState, int]]
"""One entry per worker: the node and the mask of GPUs on it."""


def place_gang(pool: NodePool, job: Job, workers: int, within: int | None = None) -> Allocation | None:
    """Free GPUs for ``workers`` workers of ``job``, on these nodes or anywhere; None if there is no room."""
    nodes = pool.mask_for(job.gpu_types, job.per_gpu)
    if within is not None:
        nodes &= within
    if pool.slots(job.gpus, nodes) < workers:
        return None
    if job.require is not None:
        return _at_level(pool, job, workers, nodes, job.require)
    if job.prefer is None and (parts := _as_ran_fastest(pool, job, workers, nodes)) is not None:
        return parts
    above = (job.prefer, *levels(pool)) if workers > 1 else ()
    for level in (job.prefer if job.prefer in WITHIN_NODES else None, NODE, *above):
        if level is not None and (parts := _at_level(pool, job, workers, nodes, level)) is not None:
            return parts
    for one_type in _by_type(pool, job, nodes) if workers > 1 else ():
        if pool.slots(job.gpus, one_type) >= workers:
            return _fill(pool, job.gpus, workers, one_type, levels(pool))
    return None


def levels(pool: NodePool) -> list[str]:
    """The topology levels above nodes, the tightest first."""
    return by_tightness(pool.levels)


def by_tightness(domains: Mapping[str, Collection[object]]) -> list[str]:
    """Topology levels above nodes, given the domains of each: the tightest first, which has the most of them."""
    return sorted(domains, key=lambda level: (-len(domains[level]), level))


def _by_type(pool: NodePool, job: Job, nodes: int) -> list[int]:
    """The nodes of each accepted GPU type, for a gang does not mix types; the job's first choice first."""
    types = job.gpu_types or tuple(sorted(pool.types))
    return [both for gpu_type in types if (both := pool.types.get(gpu_type, 0) & nodes)]


def _as_ran_fastest(pool: NodePool, job: Job, workers: int, nodes: int) -> Allocation | None:
    """Room to sit as those like this job did that ran fastest, with equally many workers on each node, if any."""
    if job.fastest is None or job.fastest.nodes > workers or workers < job.workers:
        return None
    level, count = job.fastest
    if level in WITHIN_NODES or level == NODE:
        return _at_level(pool, job, workers, nodes, level)
    on_each = -(-workers // count)
    for one_type in _by_type(pool, job, nodes):
        domains = pool.levels.get(level, {}) if level else {"": one_type}
        found = [
            (pool.slots(job.gpus, domain & one_type), name, node_states)
            for name, domain in domains.items()
            if (node_states := _fullest(pool, job.gpus * on_each, count, domain & one_type)) is not None
        ]
        if found:
            _, _, node_states = min(found, key=lambda each: each[:2])
            whole, more = divmod(workers, count)
            return [
                part
                for at, node in enumerate(node_states)
                for part in _on_node(node, job.gpus, whole + (at < more))
            ]
    return None


def _fullest(pool: NodePool, gpus: int, count: int, within: int) -> list[NodeState] | None:
    """So many of these nodes, the fullest ones that have ``gpus`` free each; None if there are fewer."""
    node_states = list(islice(pool.with_free(range(gpus, len(pool.buckets)), within), count))
    return node_states if len(node_states) == count else None


def _at_level(pool: NodePool, job: Job, workers: int, nodes: int, level: str) -> Allocation | None:
    """Room in one group, on one node, or in one domain of the level."""
    if level in WITHIN_NODES:
        return _in_one_group(pool, job.gpus, workers, nodes, level)
    if level == NODE:
        node_states = _fullest(pool, job.gpus * workers, 1, nodes)
        return None if node_states is None else _on_node(node_states[0], job.gpus, workers)
    return _in_domain(pool, job.gpus, workers, _by_type(pool, job, nodes), level)


def _in_domain(pool: NodePool, gpus: int, workers: int, by_type: list[int], level: str) -> Allocation | None:
    """Room in one domain of the level: the one that it fills best."""
    below = levels(pool)
    below = below[: below.index(level)] if level in below else []
    for nodes in by_type:
        rooms = [
            (slots, name)
            for name, domain in pool.levels.get(level, {}).items()
            if (slots := pool.slots(gpus, domain & nodes)) >= workers
        ]
        if rooms:
            _, name = min(rooms)
            return _fill(pool, gpus, workers, pool.levels[level][name] & nodes, below)
    return None


def _fill(pool: NodePool, gpus: int, workers: int, within: int, below: list[str]) -> Allocation:
    """Place workers that are known to fit, on as few domains of the levels below as possible."""
    parts: Allocation = []
    left = workers
    while left:
        piece, room = _next_piece(pool, gpus, left, within, below)
        within &= ~piece
        count = min(left, room)
        if piece.bit_count() == 1:
            parts.extend(_on_node(pool.node_states[piece.bit_length() - 1], gpus, count))
        else:
            parts.extend(_fill(pool, gpus, count, piece, below[:-1]))
        left -= count
    return parts


def _next_piece(pool: NodePool, gpus: int, left: int, within: int, below: list[str]) -> tuple[int, int]:
    """A part of the nodes and how many workers fit there: the tightest for all the rest, else the roomiest."""
    if below:
        rooms = [
            (slots, name, domain & within)
            for name, domain in pool.levels[below[-1]].items()
            if domain & within and (slots := pool.slots(gpus, domain & within))
        ]
        if rooms:
            enough = [room for room in rooms if room[0] >= left]
            slots, _, piece = min(enough) if enough else min(rooms, key=lambda room: (-room[0], room[1]))
            if piece != within:
                return piece, slots
            return _next_piece(pool, gpus, left, within, below[:-1])
    node = _next_node(pool, gpus, left, within)
    assert node is not None
    return 1 << node.index, node.free.bit_count() // gpus


def _next_node(pool: NodePool, gpus: int, left: int, within: int) -> NodeState | None:
    """The fullest node that holds all the rest; if none does, the one with the most room."""
    most = len(pool.buckets) - 1
    counts = (*range(gpus * left, most + 1), *range(min(gpus * left - 1, most), gpus - 1, -1))
    return next(pool.with_free(counts, within), None)


def _in_one_group(pool: NodePool, gpus: int, workers: int, within: int, level: str) -> Allocation | None:
    """Room in one group of a level within nodes, on the fullest node that has it."""
    need = gpus * workers
    for node in pool.with_free(range(need, len(pool.buckets)), within):
        if group := _tightest(node, _groups(node, level), need):
            return _on_node(node, gpus, workers, group)
    return None


def _groups(node: NodeState, level: str) -> list[int]:
    """The free GPUs of a node by group of a level; where it does not divide the node, all are alike."""
    return [group & node.free for group in node.groups.get(level, (node.allocatable,))]


def _tightest(node: NodeState, sets: Iterable[int], need: int) -> int:
    """The GPUs of the tightest group of a node, within one of these sets, that so many fit into and fill best.

    0 if no set has so many. Sets stand for themselves if no group within any of them has.
    """
    rooms = [each for each in sets if each.bit_count() >= need]
    for groups in node.groups.values():
        tighter = [group & room for room in rooms for group in groups if (group & room).bit_count() >= need]
        rooms = tighter or rooms
    return min(rooms, key=lambda each: (each.bit_count(), each), default=0)


def _on_node(node: NodeState, gpus: int, workers: int, free: int | None = None) -> Allocation:
    """The workers on free GPUs of a node that has enough: those stay in one group who all fit into it."""
    left = node.free if free is None else free
    parts: Allocation = []
    for remaining in range(workers, 0, -1):
        if node.groups:
            left = _tightest(node, (left,), gpus * remaining)
        mask = _choose(node, left, gpus)
        left &= ~mask
        parts.append((node, mask))
    return parts


def _choose(node: NodeState, free: int, gpus: int) -> int:
    """Which free GPUs of a node one worker gets, if there are enough: the lowest of the tightest group."""
    if node.groups:
        free = _tightest(node, (free,), gpus)
    mask = 0
    for _ in range(gpus):
        low = free & -free
        mask |= low
        free ^= low
    return mask


def place_more(
    pool: NodePool, job: Job, held: Placement, workers: int = 1, within: int | None = None
) -> Allocation | None:
    """Free GPUs for more workers of a job that sits on ``held`` already, as near to them as it demands."""
    first = pool.by_name.get(held[0].node)
    if first is not None and job.require in first.groups:
        here = within is None or within >> first.index & 1
        return _in_group_of(first, job, held, workers) if here else None
    nodes = nodes_for_growth(pool, job, held)
    if within is not None:
        nodes &= within
    parts: Allocation = []
    mark = pool.mark()
    mine = mask_of(pool.by_name[worker.node].index for worker in held if worker.node in pool.by_name)
    while len(parts) < workers:
        node = _next_node(pool, job.gpus, 1, nodes & mine) or _next_node(pool, job.gpus, 1, nodes)
        if node is None:
            pool.roll_back(mark)
            return None
        parts.append((node, _choose(node, node.free, job.gpus)))
        pool.reserve(workers_at(parts[-1:]))
    pool.roll_back(mark)
    return parts


def _in_group_of(node: NodeState, job: Job, held: Placement, workers: int) -> Allocation | None:
    """Free GPUs of the group that those sit in already, of the level within nodes that the job requires."""
    mine = mask_of(held[0].gpus)
    free = next((group & node.free for group in node.groups[str(job.require)] if group & mine), 0)
    return _on_node(node, job.gpus, workers, free) if free.bit_count() >= job.gpus * workers else None


def workers_at(parts: Allocation) -> Placement:
    """The parts as workers whose ranks do not matter."""
    return tuple(Worker(0, node.name, tuple(bits(mask))) for node, mask in parts)


def nodes_for_growth(pool: NodePool, job: Job, held: Placement) -> int:
    """The nodes where more workers of the job may sit, on any of their GPUs."""
    first = pool.by_name.get(held[0].node)
    if first is None or job.require in first.groups:
        return 0
    within = pool.mask_for((first.node.gpu_type,), job.per_gpu)
    if job.require == NODE or job.require in WITHIN_NODES:
        return within & 1 << first.index
    if job.require is not None:
        domain = first.node.labels.get(job.require)
        return within & pool.levels.get(job.require, {}).get(domain, 0) if domain is not None else 0
    return within
