"""Gang placement: packed onto the fullest nodes, in the tightest topology domain that holds the gang."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, islice

from springtide.scheduler.model import WITHIN_NODES, Job, Placement
from springtide.scheduler.policy.state.nodes import NODE, NodePool, NodeState, bits, mask_of, workers_of

EVERYWHERE = -1
"""Mask of all nodes."""

Allocation = list[tuple[NodeState, int]]
"""One entry per worker: the node and the mask of GPUs on it."""


def place_gang(pool: NodePool, job: Job, workers: int, within: int = EVERYWHERE) -> Allocation | None:
    """Return free GPUs for ``workers`` workers of ``job``, on these nodes or anywhere; None without room."""
    nodes = pool.suitable(job.gpu_types, job.per_gpu, job.avoid) & within
    if pool.slots(job.gpus, nodes) < workers:
        return None
    if job.require is not None:
        return _at_level(pool, job, workers, nodes, job.require)
    if job.prefer is None and (parts := _as_ran_fastest(pool, job, workers, nodes)) is not None:
        return parts
    above = by_tightness(pool.levels)
    first = (job.prefer, NODE) if job.prefer in WITHIN_NODES else (NODE, job.prefer)
    for level in (*first, *above):
        if level is not None and (parts := _at_level(pool, job, workers, nodes, level)) is not None:
            return parts
    return _fill(pool, job.gpus, workers, nodes, above)


def by_tightness(domains: Mapping[str, Collection[object]]) -> list[str]:
    """Return the topology levels above nodes by their domains: the tightest, with the most domains, first."""
    return sorted(domains, key=lambda level: (-len(domains[level]), level))


def _as_ran_fastest(pool: NodePool, job: Job, workers: int, nodes: int) -> Allocation | None:
    """Return room for the spread of the fastest similar jobs, with the workers evenly on its nodes, if any."""
    if job.fastest is None or job.fastest.nodes > workers or workers < job.workers:
        return None
    level, count = job.fastest
    if level in WITHIN_NODES or level == NODE:
        return _at_level(pool, job, workers, nodes, level)
    on_each = -(-workers // count)
    domains = pool.levels.get(level, {}) if level else {"": nodes}
    enough = range(job.gpus * on_each, len(pool.buckets))
    found: list[tuple[int, str, list[NodeState]]] = []
    for name, domain in domains.items():
        fullest = list(islice(pool.with_free(enough, domain & nodes), count))
        if len(fullest) == count:
            found.append((pool.slots(job.gpus, domain & nodes), name, fullest))
    if not found:
        return None
    node_states = min(found, key=lambda option: option[:2])[2]
    whole, more = divmod(workers, count)
    parts = (_on_node(node, job.gpus, whole + (at < more)) for at, node in enumerate(node_states))
    return list(chain.from_iterable(parts))


def _at_level(pool: NodePool, job: Job, workers: int, nodes: int, level: str) -> Allocation | None:
    """Return room in one group or on one node, the fullest with enough, or in the domain of the best fit.

    If a level within nodes does not divide a node, all GPUs of the node are one group.
    """
    if level not in WITHIN_NODES and level != NODE:
        if all(pool.slots(job.gpus, domain & nodes) < workers for domain in pool.levels.get(level, {}).values()):
            return None
        above = by_tightness(pool.levels)
        return _fill(pool, job.gpus, workers, nodes, above[: above.index(level) + 1])
    need = job.gpus * workers
    for node in pool.with_free(range(need, len(pool.buckets)), nodes):
        groups = (group & node.free for group in node.groups.get(level, (node.allocatable,)))
        if group := _tightest(node, groups, need):
            return _on_node(node, job.gpus, workers, group)
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


def _tightest(node: NodeState, sets: Iterable[int], need: int) -> int:
    """Return the smallest set of at least ``need`` GPUs: the tightest group of a node within one of these sets.

    The sets themselves if no group within them is large enough; 0 if no set is.
    """
    rooms = [gpus for gpus in sets if gpus.bit_count() >= need]
    for groups in node.groups.values():
        tighter = [group & room for room in rooms for group in groups if (group & room).bit_count() >= need]
        rooms = tighter or rooms
    return min(rooms, key=lambda gpus: (gpus.bit_count(), gpus), default=0)


def _on_node(node: NodeState, gpus: int, workers: int, free: int | None = None) -> Allocation:
    """Place workers on free GPUs of a node with enough of them, in one group if all remaining ones fit into it.

    Each gets the lowest GPUs of the tightest group.
    """
    left = node.free if free is None else free
    parts: Allocation = []
    for remaining in range(workers, 0, -1):
        if node.groups:
            left = _tightest(node, (left,), gpus * remaining)
        tightest = _tightest(node, (left,), gpus) if node.groups else left
        mask = mask_of(islice(bits(tightest), gpus))
        left &= ~mask
        parts.append((node, mask))
    return parts


def place_more(
    pool: NodePool, job: Job, held: Placement, workers: int = 1, within: int = EVERYWHERE
) -> Allocation | None:
    """Return free GPUs for more workers of a job, as near to those ``held`` already as it requires."""
    first = pool.by_name.get(held[0].node)
    if first is not None and job.require in first.groups:
        mine = mask_of(held[0].gpus)
        free = next((group & first.free for group in first.groups[job.require] if group & mine), 0)
        fits = within >> first.index & 1 and free.bit_count() >= job.gpus * workers
        return _on_node(first, job.gpus, workers, free) if fits else None
    nodes = nodes_for_growth(pool, job, held) & within
    mine = pool.nodes_of(held)
    parts: Allocation = []
    with pool.undo.trial():
        while len(parts) < workers:
            node = _next_node(pool, job.gpus, 1, nodes & mine) or _next_node(pool, job.gpus, 1, nodes)
            if node is None:
                return None
            parts += _on_node(node, job.gpus, 1)
            pool.reserve(workers_of(parts[-1:]))
    return parts


def nodes_for_growth(pool: NodePool, job: Job, held: Placement) -> int:
    """Return the nodes on any GPUs of which more workers of the job may run."""
    first = pool.by_name.get(held[0].node)
    if first is None or job.require in first.groups:
        return 0
    within = pool.suitable((), job.per_gpu, job.avoid)
    if job.require == NODE or job.require in WITHIN_NODES:
        return within & 1 << first.index
    if job.require is not None:
        domain = first.node.labels.get(job.require)
        return within & pool.levels.get(job.require, {}).get(domain, 0) if domain is not None else 0
    return within
