"""Nodes that close: pause what still runs there, early enough (docs/bookings.md)."""

from __future__ import annotations

from springtide.scheduler.model import Pause
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.plan_builder import PlanBuilder


def clear_closing_nodes(builder: PlanBuilder) -> None:
    """Pause the jobs that have to leave nodes that close; they continue elsewhere, or afterwards.

    Their GPUs are free for others only when they have stopped.
    """
    closing = builder.state.pool.closing
    for _, job in builder.undecided(sorted(builder.state.leaving.values(), key=lambda job: job.id)):
        nodes = tuple(sorted({worker.node for worker in job.placement if worker.node in closing}))
        builder.changed_nodes |= builder.state.pool.nodes_of(job.placement)
        builder.decide(job, Pause(job.id, None, reasons.of("node-closes", job, nodes=nodes)))
