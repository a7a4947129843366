"""Draining of nodes and of single GPUs: nothing new starts there, and running jobs continue elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from springtide.scheduler import sentences, wire, wording
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.placements.slow import NodeSpeeds
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.endings import check_kept, check_until
from springtide.scheduler.engine.state.line_without_gpus import out_of_service
from springtide.scheduler.engine.state.places import GpuKey
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Exit, ExitKind
from springtide.scheduler.model import Environment, Gpu, Node, Reason
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import POOL, DrainRecord, GpuDrainRecord
from springtide.scheduler.wording import given
from springtide.scheduler.workload import Line


def drain(transaction: Transaction, request: wire.DrainRequest, by: str) -> None:
    """Drain a node, or one of its GPUs, for the admin ``by``.

    The jobs that run there are paused and resume elsewhere by themselves; with ``finish`` they run to their end.
    Where all nodes of one machine are drained, so is what runs there without GPUs.
    Workspaces there stay. A drained one gets the new reason and end, and its jobs are paused if they
    were to finish before. Raises `Refusal`: 404 for an unknown node or GPU, 409 for a GPU that the node itself
    gives out and for an end before that of another person's drain, 422 for an end that has passed.
    """
    node, now = node_named(transaction, request.node), transaction.now
    check_until(request.until, now)
    said = (request.why.strip(), request.finish, request.until)
    if request.gpu is None:
        known = transaction.drains.get(node.name)
        before = None if known is None or known.booking is not None else known  # a booking goes on by itself
        check_kept(before, request.until, by, f"drained {given(node.name)}", "undrain it")
        _drain_node(transaction, node, DrainRecord(node.name, by, now, *said))
    else:
        gpu = _gpu(node, request.gpu)
        of_gpu = transaction.gpu_drains.get(gpu.uuid)
        check_kept(of_gpu, request.until, by, f"drained GPU {gpu.index} of {given(node.name)}", "undrain it")
        _drain_gpu(transaction, node, gpu, GpuDrainRecord(gpu.uuid, by, now, *said))


def drain_faulty(transaction: Transaction, faults: Mapping[str, Reason]) -> None:
    """Drain the GPUs with these UUIDs because of their faults, except unknown ones and those that are drained.

    A node that itself gives out its GPUs is drained as a whole: nothing keeps the next pod off the GPU.
    """
    drained = transaction.gpu_drains
    for node in transaction.nodes.all:
        for gpu in node.devices:
            if gpu.uuid in faults and gpu.uuid not in drained:
                why = sentences.text(faults[gpu.uuid])
                if node.resource:
                    _drain_node_of(transaction, node, gpu, why)
                else:
                    _drain_gpu(transaction, node, gpu, GpuDrainRecord(gpu.uuid, POOL, transaction.now, why))


def _drain_node_of(transaction: Transaction, node: Node, gpu: Gpu, fault: str) -> None:
    """Drain the node of a faulty GPU: the job on that GPU continues elsewhere, jobs on others run to their end."""
    if node.name not in transaction.drains:
        why = f"{sentences.text(Reason('faulty-gpu', {'gpu': gpu.index, 'uuid': gpu.uuid}))} {fault}"
        _drain_node(transaction, node, DrainRecord(node.name, POOL, transaction.now, why, finish=True))
    if node.environment is Environment.TRAIN:
        reason = messages.gpu_drained(gpu.index, node.name, "", fault)
        _pause(transaction, reason, lambda place: place == (node.name, gpu.index))


def drain_slow(transaction: Transaction, speeds: NodeSpeeds) -> None:
    """Drain nodes that are slower than their equals; their jobs continue elsewhere.

    No further one is drained once the pool itself has drained a tenth of the train nodes of a GPU type, or one:
    what slows more than that at a time is not the hardware of single nodes.
    """
    slow = speeds.slow(transaction.drains.keys())
    for node in transaction.nodes.train() if slow else ():
        if node.name not in slow:
            continue
        equals = {each.name for each in transaction.nodes.train() if each.gpu_type == node.gpu_type}
        drained = [record for name, record in transaction.drains.items() if name in equals]
        if sum(record.by == POOL for record in drained) < max(1, len(equals) // 10):
            why = sentences.text(Reason("slow-node", slow[node.name]._asdict()))
            _drain_node(transaction, node, DrainRecord(node.name, POOL, transaction.now, why))


def undrain(transaction: Transaction, request: wire.UndrainRequest, by: str) -> None:
    """Let jobs start again on a node, except on its GPUs that are drained one by one, or on one of its GPUs.

    Does nothing if it is not drained. Raises `Refusal` (404) for an unknown node or GPU.
    """
    if request.gpu is None:
        before = transaction.drains.get(request.node)
        if before is None:
            node_named(transaction, request.node)
            return
        if before.booking is not None:
            raise Refusal(
                409,
                "booked",
                f"The node {given(request.node)} is drained for booking {before.booking}.",
                field="node",
                hint="Cancel the booking to end it.",
            )
        end_drain(transaction, before, by)
        return
    node = node_named(transaction, request.node)
    gpu = _gpu(node, request.gpu)
    of_gpu = transaction.gpu_drains.get(gpu.uuid)
    if of_gpu is not None:
        _end_gpu_drain(transaction, of_gpu, _subject(node, gpu), by)


def recorded(transaction: Transaction, name: str) -> dict[str, object]:
    """Return the drain of a node as the audit trail has it; nothing if it is not drained."""
    return _shown(transaction.drains.get(name))


def restore(transaction: Transaction, name: str, values: Mapping[str, Any], by: str) -> None:
    """Give a node the drain with the ``values`` that the audit trail has of it, none without values.

    One for a booking comes back by itself while the booking holds. Raises `Refusal` (404) for an unknown node.
    """
    if values and "booking" not in values:
        _drain_node(transaction, node_named(transaction, name), DrainRecord(name, by, transaction.now, **values))
    else:
        end_drain(transaction, transaction.drains[name], by)


def recorded_of_gpu(transaction: Transaction, subject: str) -> dict[str, object] | None:
    """Return the drain of a GPU, by the ``subject`` of its entries, as `recorded`; None for an unknown GPU."""
    place = _place_of(transaction, subject)
    return None if place is None else _shown(transaction.gpu_drains.get(place[1].uuid))


def restore_gpu(transaction: Transaction, subject: str, values: Mapping[str, Any], by: str) -> None:
    """Give a GPU of the pool, by the ``subject`` of its entries, a drain as `restore` does for a node."""
    place = _place_of(transaction, subject)
    assert place is not None
    node, gpu = place
    if values:
        _drain_gpu(transaction, node, gpu, GpuDrainRecord(gpu.uuid, by, transaction.now, **values))
    else:
        _end_gpu_drain(transaction, transaction.gpu_drains[gpu.uuid], subject, by)


def _place_of(transaction: Transaction, subject: str) -> tuple[Node, Gpu] | None:
    places = ((node, gpu) for node in transaction.nodes.all for gpu in node.devices)
    return next(((node, gpu) for node, gpu in places if _subject(node, gpu) == subject), None)


def _end_gpu_drain(transaction: Transaction, record: GpuDrainRecord, subject: str, by: str) -> None:
    transaction.gpu_drains.remove(record.gpu)
    transaction.add_audit_entry(by, "gpu.undrain", subject, _shown(record), {})


def _drain_node(transaction: Transaction, node: Node, record: DrainRecord) -> None:
    before = transaction.drains.get(node.name)
    if before is not None:
        record = replace(record, since=before.since)
        if replace(before, by=record.by) == record:
            return
    transaction.drains.put(record)
    by = record.by if record.booking is None else POOL
    transaction.add_audit_entry(by, "node.drain", node.name, _shown(before), _shown(record))
    if not record.finish:
        _empty(transaction, node, record)


def _empty(transaction: Transaction, node: Node, record: DrainRecord) -> None:
    """Pause what runs on a train node for a drain, and what runs without GPUs on a machine without other nodes."""
    if node.environment is not Environment.TRAIN:
        return
    reason = messages.node_drained(node.name, record.by, record.why)
    _pause(transaction, reason, lambda place: place[0] == node.name)
    if out_of_service(transaction.nodes.train(), transaction.drains):
        reason = messages.node_drained(node.name, record.by, record.why, gpus=False)
        _pause_without_gpus(transaction, reason)


def _drain_gpu(transaction: Transaction, node: Node, gpu: Gpu, record: GpuDrainRecord) -> None:
    before = transaction.gpu_drains.get(gpu.uuid)
    if before is not None:
        record = replace(record, since=before.since)
        if replace(before, by=record.by) == record:
            return
    transaction.gpu_drains.put(record)
    transaction.add_audit_entry(record.by, "gpu.drain", _subject(node, gpu), _shown(before), _shown(record))
    if not record.finish and node.environment is Environment.TRAIN:
        by = "" if record.by == POOL else record.by
        reason = messages.gpu_drained(gpu.index, node.name, by, record.why)
        _pause(transaction, reason, lambda place: place == (node.name, gpu.index))


def drain_for_booking(transaction: Transaction, node: Node, record: DrainRecord) -> None:
    """Drain a node for a booking that has begun; it ends with that.

    Another drain stays, but its jobs do not run to their end any more.
    """
    known = transaction.drains.get(node.name)
    if known is None or known.booking == record.booking:
        _drain_node(transaction, node, record)
    elif known.finish:
        emptied = replace(known, finish=False)
        transaction.drains.put(emptied)
        transaction.add_audit_entry(POOL, "node.drain", node.name, _shown(known), _shown(emptied))
        _empty(transaction, node, record)


def end_drain(transaction: Transaction, record: DrainRecord, by: str) -> None:
    """Let jobs start again on a drained node; the audit trail has the end of each drain that it has."""
    transaction.drains.remove(record.node)
    transaction.add_audit_entry(by, "node.undrain", record.node, _shown(record), {})


def node_named(transaction: Transaction, name: str) -> Node:
    """Return a node. Raises `Refusal` (404) for an unknown one."""
    nodes = transaction.nodes.all
    found = next((node for node in nodes if node.name == name), None)
    if found is None:
        names = wording.listed([wording.labelled(node.name) for node in nodes]) or "none"
        raise Refusal(
            404,
            "unknown_node",
            f"There is no node {wording.given(name)}.",
            field="node",
            hint=f"Nodes of the pool: {names}.",
        )
    return found


def _gpu(node: Node, index: int) -> Gpu:
    """Return a GPU of a node. Raises `Refusal` for an unknown one, and for one that the pool does not choose."""
    if node.resource:
        raise Refusal(
            409,
            "gpu_not_chosen",
            f"The node {wording.given(node.name)} itself chooses the GPUs of a pod, so no single one can be "
            "drained.",
            field="gpu",
            hint="Drain the whole node.",
        )
    found = next((gpu for gpu in node.devices if gpu.index == index), None)
    if found is None:
        numbers = f"from 0 to {node.gpus - 1}" if node.gpus else "none"
        message = f"The node {wording.given(node.name)} has no GPU {index}."
        raise Refusal(404, "unknown_gpu", message, field="gpu", hint=f"Its GPUs: {numbers}.")
    return found


def _pause(transaction: Transaction, reason: Reason, concerns: Callable[[GpuKey], bool]) -> None:
    """Pause the jobs with a GPU that is concerned, unless they were asked to stop already."""
    keys = transaction.nodes.places.keys
    for job in _running(transaction):
        placement = job.attempts[-1].placement
        if any(concerns(place) for each in placement for place in keys(each.node, each.gpus, each.uuids)):
            transaction.apply(lifecycle.pause(job, reason, transaction.now))


def _pause_without_gpus(transaction: Transaction, reason: Reason) -> None:
    """Pause the jobs without GPUs, unless they were asked to stop already."""
    for job in _running(transaction):
        if job.line is Line.WITHOUT_GPUS:
            transaction.apply(lifecycle.pause(job, reason, transaction.now))


def _running(transaction: Transaction) -> list[JobRecord]:
    """Return the jobs that run and were not asked to stop."""
    live = (transaction.job(job.id) for job in list(transaction.state.live_jobs()))
    return [job for job in live if job is not None and job.live is not None and job.live.asked is None]


def _subject(node: Node, gpu: Gpu) -> str:
    return f"GPU {gpu.index} of {node.name} ({gpu.uuid})"


def _shown(record: DrainRecord | GpuDrainRecord | None) -> dict[str, object]:
    if record is None:
        return {}
    shown: dict[str, object] = {"why": record.why, "finish": record.finish}
    if isinstance(record, DrainRecord) and record.booking is not None:
        shown["booking"] = record.booking
    return shown if record.until is None else {**shown, "until": record.until}


def end_drains(transaction: Transaction) -> None:
    """Undrain the nodes and GPUs whose drains have ended by now."""
    for drained in list(transaction.drains.values()):
        if drained.booking is None and drained.until is not None and drained.until <= transaction.now:
            end_drain(transaction, drained, POOL)
    for single in list(transaction.gpu_drains.values()):
        if single.until is not None and single.until <= transaction.now:
            places = ((node, gpu) for node in transaction.nodes.all for gpu in node.devices)
            subjects = (_subject(node, gpu) for node, gpu in places if gpu.uuid == single.gpu)
            subject = next(subjects, f"GPU {single.gpu}")
            _end_gpu_drain(transaction, single, subject, POOL)


def find(unmatched: Sequence[wire.UnmatchedView], holder: str) -> wire.UnmatchedView:
    """Return what keeps GPUs out of the pool by its name. Raises `Refusal` (404) for another."""
    found = next((each for each in unmatched if each.holder == holder), None)
    if found is None:
        names = ", ".join(each.holder for each in unmatched)
        raise Refusal(
            404,
            "unknown_holder",
            f"Nothing called {given(holder)} keeps GPUs out of the pool.",
            field="holder",
            hint=f"What does: {names}." if names else "Nothing does.",
        )
    return found


def attempt_of(found: wire.UnmatchedView) -> AttemptKey:
    """Return the attempt that a holder is."""
    job, _, number = found.holder.rpartition(".")
    return AttemptKey(job, int(number))


def still_runs(found: wire.UnmatchedView, alive: str) -> Refusal:
    """Return the refusal to take GPUs from what lives; ``alive`` says what does."""
    return Refusal(
        409,
        "still_runs",
        f"{given(found.holder)} has not ended ({alive}). Its GPUs are free only when it has.",
        field="holder",
        hint="End it first.",
    )


def leave(transaction: Transaction, found: wire.UnmatchedView, by: str) -> None:
    """Pause a job, so that it continues on GPUs of the pool, for the admin ``by``."""
    job = transaction.job(found.job)
    if job is not None and job.live is not None and job.live.asked is None:
        transaction.apply(lifecycle.pause(job, messages.moved_off(by), transaction.now))
    record(transaction, found, by, end=True)


def record(transaction: Transaction, found: wire.UnmatchedView, by: str, *, end: bool) -> None:
    """Add the admin's word to the audit trail."""
    what = "gpu.end_holder" if end else "gpu.free"
    transaction.add_audit_entry(by, what, found.holder, {"gpus": found.gpus, "why": found.why}, {})


def gone(key: AttemptKey, by: str, now: float) -> AttemptStatus:
    """Return the observation that an attempt has ended, by the word of the admin ``by``."""
    detail = f"Nothing of it was left, and {given(by)} said that its GPUs are free."
    return AttemptStatus(key, AttemptPhase.GONE, exit=Exit(ExitKind.LOST, now, detail=detail))
