"""Draining of nodes by an admin: nothing new starts there, and what runs there goes on elsewhere."""

from __future__ import annotations

from dataclasses import asdict, replace

from springtide.scheduler import wire, wording
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Environment, Node
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import DrainRecord, JobRecord


def drain(transaction: Transaction, request: wire.DrainRequest, by: str) -> None:
    """Drain a node for the admin ``by``.

    The jobs that run there are paused and resume elsewhere by themselves; with ``finish`` they run to their end.
    Workspaces there stay. A node that is drained already gets the new reason, and pauses its jobs if it let them
    finish before. Raises `Refusal` (404) for an unknown node.
    """
    name, why, finish = request.node, request.why.strip(), request.finish
    node = _node(transaction, name)
    before = transaction.all_drains().get(name)
    since = transaction.now if before is None else before.since
    record = DrainRecord(name, by, since, why, finish)
    if before is not None and replace(before, by=by) == record:
        return
    transaction.put_drain(name, record)
    transaction.add_audit_entry(by, "node.drain", name, _shown(before), _shown(record))
    if not finish and node.environment is Environment.TRAIN:
        reason = messages.node_drained(name, by, why)
        for job in _running_on(transaction, name):
            transaction.apply(lifecycle.pause(job, reason, transaction.now))


def undrain(transaction: Transaction, name: str, by: str) -> None:
    """Let jobs start on a node again. Does nothing if it is not drained; raises `Refusal` for an unknown node."""
    before = transaction.all_drains().get(name)
    if before is None:
        _node(transaction, name)
        return
    transaction.put_drain(name, None)
    transaction.add_audit_entry(by, "node.undrain", name, _shown(before), {})


def _node(transaction: Transaction, name: str) -> Node:
    nodes = transaction.nodes.all
    found = next((node for node in nodes if node.name == name), None)
    if found is None:
        names = wording.listed([wording.quoted(node.name) for node in nodes]) or "none"
        raise Refusal(
            404, "unknown_node", f"There is no node {name!r}.", field="node", hint=f"Nodes of the pool: {names}."
        )
    return found


def _running_on(transaction: Transaction, name: str) -> list[JobRecord]:
    """Return the jobs with an attempt on the node that was not asked to stop."""
    live = (transaction.job(job.id) for job in list(transaction.state.live_jobs()))
    return [
        job
        for job in live
        if job is not None
        and job.live is not None
        and job.live.asked is None
        and any(worker.node == name for worker in job.live.placement)
    ]


def _shown(record: DrainRecord | None) -> dict[str, object]:
    return {} if record is None else {key: asdict(record)[key] for key in ("why", "finish")}
