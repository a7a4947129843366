"""Jobs without GPUs start, within the transaction that makes room for them."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.line_without_gpus import LineName, LineView, line_of, out_of_service
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Worker
from springtide.scheduler.workload import Line

ANYWHERE = (Worker(0, "", ()),)
"""Placement of a job without GPUs: one worker on no GPU; the executor chooses the node."""


def line_view(transaction: Transaction, default: int) -> LineView:
    """Return the lines after the changes so far; ``default`` is the pool's number of jobs at a time."""
    closed = out_of_service(transaction.nodes.train(), transaction.drains)
    return LineView(
        transaction.state.without_gpus, transaction.jobs, transaction.projects.get, default, closed=closed
    )


def start_waiting(transaction: Transaction, default: int, lines: Iterable[LineName]) -> int:
    """Start jobs without GPUs as far as their projects have room; return how many.

    Looks at the given ``lines``, and at all if projects or drains change; doing it again starts no more.
    """
    if transaction.projects.changes or transaction.drains.changes:
        lines = {*lines, *transaction.state.without_gpus.lines}
    changed = {line_of(job) for job in transaction.jobs.values() if job.line is Line.WITHOUT_GPUS}
    started, view = 0, line_view(transaction, default)
    for line in sorted({*lines, *changed}):
        for job in view.next_starts(line, transaction.now):
            transaction.apply(lifecycle.start(job, ANYWHERE, messages.started_without_gpus(), transaction.now))
            started += 1
    return started
