"""Comparison of the committed intents with the executor's report, and the present places of held GPUs; pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import structs

from springtide.scheduler.engine.loop.actuator import never_started
from springtide.scheduler.engine.state.lifecycle import ACTION_FOR, Action, Effect
from springtide.scheduler.engine.state.places import identities, identities_of, is_unmatched, same
from springtide.scheduler.engine.state.state import has_no_place
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, Exit, ExitKind
from springtide.scheduler.model import Environment, Node, Placement, Worker
from springtide.scheduler.store.records import AttemptRecord, JobRecord
from springtide.scheduler.store.tables import WorkspaceRecord
from springtide.scheduler.wording import given

logger = logging.getLogger(__name__)


def numbering(nodes: Iterable[Node]) -> dict[str, tuple[object, ...]]:
    """Return what the places of GPUs depend on, by node."""
    return {
        node.name: (
            *(node.environment, node.gpus, node.gpu_type),
            () if node.resource else tuple((gpu.uuid, gpu.index) for gpu in node.devices),
        )
        for node in nodes
    }


def match_gpus(transaction: Transaction, running: Mapping[AttemptKey, Placement] | None = None) -> None:
    """Change the places of what holds or awaits GPUs to where these are on the observed nodes.

    ``running`` are the placements that the executor reports at the start of the engine. Without it, attempts
    that it has not reported yet are left as they are: their launch is under way.
    """
    held: set[str] = set()
    jobs = [job for each in list(transaction.state.live_jobs()) if (job := transaction.job(each.id)) is not None]
    reported = running or {}
    for job in sorted(jobs, key=lambda each: (_key(each) not in reported, each.attempts[-1].created, each.id)):
        if job.live is not None:
            _match_attempt(transaction, job, running, held)
    for each in list(transaction.state.reserved.values()):
        _match_reservation(transaction, transaction.job(each.id) or each)
    workspaces = transaction.workspaces.values()
    for workspace in sorted(workspaces, key=lambda record: (record.since, record.user, record.server)):
        _match_workspace(transaction, workspace, held)


def _match_attempt(
    transaction: Transaction,
    job: JobRecord,
    running: Mapping[AttemptKey, Placement] | None,
    held: set[str],
) -> None:
    attempt, nodes = job.attempts[-1], transaction.nodes
    known = attempt.placement
    if running is not None:
        reported = running.get(_key(job), ())
        known = nodes.places.identified(_with_uuids(known, reported))
    if running is not None or attempt.seen:
        placement = nodes.places.fitted(known, Environment.TRAIN, job.id, held)
        if not same(placement, attempt.placement):
            gpu_type = nodes.type_of(placement) or attempt.gpu_type
            job = job.with_attempt(structs.replace(attempt, placement=placement, gpu_type=gpu_type))
            transaction.put_job(job)
        elif (gpu_type := nodes.type_of(placement) or attempt.gpu_type) != attempt.gpu_type:
            job = job.with_attempt(structs.replace(attempt, gpu_type=gpu_type))
            transaction.put_job(job)
    held.update(identities_of(job.attempts[-1].placement))
    if has_no_place(job) and (running is not None or not is_unmatched(attempt.placement[0].node)):
        _warn(f"Attempt {attempt.number} of the job {job.id}", identities_of(known))


def _key(job: JobRecord) -> AttemptKey:
    return AttemptKey(job.id, job.attempts[-1].number)


def _with_uuids(known: Placement, reported: Placement) -> Placement:
    """Return a placement with the UUIDs that its workers run on, as far as the executor reports them."""
    uuids = {each.rank: each.uuids for each in reported if each.uuids}
    if {each.rank for each in known} != {each.rank for each in reported}:
        return known
    return tuple(
        Worker(each.rank, each.node, each.gpus, own)
        if len(own := uuids.get(each.rank, ())) == len(each.gpus) and own
        else each
        for each in known
    )


def _match_reservation(transaction: Transaction, job: JobRecord) -> None:
    """Change where the GPUs are that are reserved for a job; the reservation ends if one of them has no place."""
    places = transaction.nodes.places
    reserved = places.fitted(places.identified(job.standing.reserved), Environment.TRAIN, job.id)
    if any(is_unmatched(each.node) for each in reserved):
        reserved = ()
    if not same(reserved, job.standing.reserved):
        transaction.put_job(job.with_standing(reserved=reserved))


def _match_workspace(transaction: Transaction, record: WorkspaceRecord, held: set[str]) -> None:
    matched = transaction.nodes.workspace_matched(record, held)
    held.update(identities(matched.node, matched.gpus, matched.uuids))
    if matched != record:
        transaction.workspaces.put(matched)
    if is_unmatched(matched.node) and not is_unmatched(record.node):
        _warn(f"The notebook {given(record.server)} of {record.user}", matched.uuids)


def _warn(what: str, gpus: Iterable[str]) -> None:
    logger.error(
        "%s runs on GPUs that have no place among the pool's present ones: %s. Nothing else starts on them until "
        "it has ended.",
        what,
        ", ".join(gpus),
    )


def settle_intents(
    jobs: Iterable[JobRecord], statuses: Iterable[AttemptStatus], now: float
) -> tuple[list[AttemptStatus], list[Effect]]:
    """Return the observations of the first tick after a start, and the effects to repeat.

    A live attempt that the executor does not know is launched if it was never seen and its GPUs have a place,
    and lost otherwise. An attempt that was asked to stop is asked again. ``statuses``, all that the executor
    knows, are among the observations.
    """
    known = {status.key: status for status in statuses}
    observations = list(known.values())
    effects: list[Effect] = []
    for job in jobs:
        attempt = job.live
        if attempt is None:
            continue
        status = known.get(AttemptKey(job.id, attempt.number))
        if status is None:
            _settle_unknown(attempt, now, observations, effects)
        elif status.phase is not AttemptPhase.GONE and attempt.asked is not None:
            effects.append(Effect(ACTION_FOR[attempt.asked], attempt.job, attempt.number))
    return observations, effects


def _settle_unknown(
    attempt: AttemptRecord, now: float, observations: list[AttemptStatus], effects: list[Effect]
) -> None:
    key = AttemptKey(attempt.job, attempt.number)
    if attempt.seen:
        lost = Exit(ExitKind.LOST, now, detail="Nothing of it was found after a restart.")
        observations.append(AttemptStatus(key, AttemptPhase.GONE, exit=lost))
    elif any(is_unmatched(worker.node) for worker in attempt.placement):
        detail = "Its GPUs had no place in the pool any more before it was started."
        observations.append(AttemptStatus(key, AttemptPhase.GONE, exit=Exit(ExitKind.LOST, now, detail=detail)))
    elif attempt.asked is None:
        effects.append(Effect(Action.LAUNCH, attempt.job, attempt.number))
    else:
        observations.append(never_started(key, now, "It was stopped before it could be started."))


class UnexpectedAttempt(StrEnum):
    """Kinds of attempts that are not the live one of their job."""

    GONE = "gone"
    """It has ended; only its end has to be acknowledged."""
    SUPERSEDED = "its end is on record"
    """It belongs to a known job that has gone on without it; it is killed."""
    UNKNOWN = "no record knows it"
    """It belongs to no known job; it is left alone, and its GPUs are not used."""


def classify_unexpected(status: AttemptStatus, job: JobRecord | None) -> UnexpectedAttempt:
    """Return the kind of an unexpected attempt; ``job`` is None if no record has its id."""
    if status.phase is AttemptPhase.GONE:
        return UnexpectedAttempt.GONE
    if job is not None and status.key.attempt <= job.standing.attempt:
        return UnexpectedAttempt.SUPERSEDED
    return UnexpectedAttempt.UNKNOWN
