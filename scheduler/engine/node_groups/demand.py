"""Which nodes of which groups jobs wait for: the plan as it would be with all nodes that may come; pure.

The policy itself decides, so that a node is asked for only where quotas, limits, shares, order and topology let a
job use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from springtide.scheduler.model import Job, Move, Node, Phase, Reserve, Snapshot, Start
from springtide.scheduler.policy.memo.memo import NoMemo
from springtide.scheduler.policy.planner import Planner


@dataclass(frozen=True, slots=True)
class Demand:
    """How many more nodes of each group the plan would use, and the group that each waiting job would use."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, str] = field(default_factory=dict)


def demand(snapshot: Snapshot, addable: tuple[Node, ...]) -> Demand:
    """Return what the plan would use of nodes that are not there but could be."""
    waiting = {job.id for job in snapshot.jobs if job.phase is Phase.WAITING}
    if not addable or not waiting:
        return Demand()
    group_of = {node.name: node.group for node in addable}
    jobs = tuple(map(_at_least, snapshot.jobs))
    plan = Planner(replace(snapshot, nodes=(*snapshot.nodes, *addable), jobs=jobs), NoMemo).plan(snapshot.now)
    used: set[str] = set()
    served: dict[str, str] = {}
    for decision in plan.decisions:
        if isinstance(decision, Start | Move | Reserve):
            nodes = [worker.node for worker in decision.placement if worker.node in group_of]
            used.update(nodes)
            if nodes and decision.job in waiting:
                served[decision.job] = group_of[nodes[0]]
    return Demand(Counter(group_of[name] for name in used), served)


def _at_least(job: Job) -> Job:
    """Return the job with the workers that it needs to run: for more of them no node is asked for."""
    return structs.replace(job, workers=max(job.min_workers, len(job.placement)))
