"""Frozen projects: their jobs are on hold, as are those that are submitted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.endings import check_kept, check_until
from springtide.scheduler.engine.state.lineage import lineage
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal, checked_reason, unknown_project
from springtide.scheduler.store.records import Hold
from springtide.scheduler.store.tables import POOL, FreezeRecord
from springtide.scheduler.wording import given, quoted


def freeze(transaction: Transaction, project: str, request: wire.FreezeRequest, by: str) -> None:
    """Let no job of a project, or of one inside it, start; those that run are paused unless they may ``finish``.

    A frozen one gets the new reason and end. Raises `Refusal` for an unknown project, a reason that is
    no line of text, an end that has passed, and one before the end of another person's freeze.
    """
    if project not in transaction.projects:
        raise unknown_project(project)
    why = checked_reason(request.why)
    check_until(request.until, transaction.now)
    before = transaction.freezes.get(project)
    check_kept(before, request.until, by, f"frozen {given(project)}", "unfreeze it")
    since = transaction.now if before is None else before.since
    _put(transaction, FreezeRecord(project, by, since, why, request.finish, request.until))


def _put(transaction: Transaction, record: FreezeRecord) -> None:
    project, before = record.project, transaction.freezes.get(record.project)
    if record != before:
        transaction.freezes.put(record)
        transaction.add_audit_entry(
            record.by, "project.freeze", project, _shown(before), _shown(record), project=project
        )
    follow(transaction)
    if not record.finish:
        _pause(transaction, project)


def unfreeze(transaction: Transaction, project: str, by: str) -> None:
    """Let the jobs of a project start again. Raises `Refusal`: 404 for an unknown project, 409 if not frozen."""
    if project not in transaction.projects:
        raise unknown_project(project)
    before = transaction.freezes.get(project)
    if before is None:
        raise _not_frozen(project, hold_of(transaction, project))
    transaction.freezes.remove(project)
    transaction.add_audit_entry(by, "project.unfreeze", project, _shown(before), {}, project=project)


def recorded(transaction: Transaction, project: str) -> dict[str, object]:
    """Return the freeze of a project as the audit trail has it; nothing without one."""
    return _shown(transaction.freezes.get(project))


def restore(transaction: Transaction, project: str, values: Mapping[str, Any], by: str) -> None:
    """Give a project the freeze with the ``values`` that the audit trail has of it, none without values."""
    if not values:
        unfreeze(transaction, project, by)
        return
    before = transaction.freezes.get(project)
    _put(transaction, FreezeRecord(project, by, transaction.now if before is None else before.since, **values))


def end_freezes(transaction: Transaction) -> None:
    """Unfreeze the projects whose freezes have ended by now."""
    for record in list(transaction.freezes.values()):
        if record.until is not None and record.until <= transaction.now:
            unfreeze(transaction, record.project, POOL)


def follow(transaction: Transaction) -> None:
    """Put the unfinished jobs of frozen projects on hold, and release those that were on hold for that.

    Doing it again changes nothing. A hold of a job itself stays.
    """
    if not (transaction.freezes or transaction.freezes.changes):
        return
    changed = transaction.freezes.changes or transaction.projects.changes
    jobs = {**transaction.state.jobs, **transaction.jobs} if changed else dict(transaction.jobs)
    holds = {name: hold_of(transaction, name) for name in {job.spec.project for job in jobs.values()}}
    for job in jobs.values():
        hold, wanted = job.standing.hold, holds[job.spec.project]
        if job.state.final or (hold is not None and not hold.project):
            continue
        if wanted is None:
            transaction.apply(lifecycle.release(job, POOL, transaction.now))
        elif wanted != hold:
            transaction.apply(lifecycle.put_on_hold(job, wanted, transaction.now))


def hold_of(transaction: Transaction, project: str) -> Hold | None:
    """Return the hold of the jobs of a project by its freeze or the nearest one above it, None without one."""
    frozen = next((each for each in _above(transaction, project) if each in transaction.freezes), None)
    if frozen is None:
        return None
    record = transaction.freezes[frozen]
    return Hold(record.by, record.why, record.since, frozen, record.until)


def _above(transaction: Transaction, project: str) -> tuple[str, ...]:
    """Return a project and those that it is in, nearest first."""
    return lineage(project, {name: record.project.parent for name, record in transaction.projects.items()})


def _not_frozen(project: str, by: Hold | None) -> Refusal:
    """Return that a project cannot be unfrozen: nothing froze it, or a project above it is frozen."""
    message = f"The project {quoted(project)} is not frozen"
    if by is None:
        return Refusal(409, "not_frozen", f"{message}.", hint="The page Projects and quotas shows those that are.")
    return Refusal(
        409,
        "not_frozen",
        f"{message} itself: {quoted(by.project)} is, which it is in.",
        hint=f"Unfreeze {quoted(by.project)}.",
    )


def _pause(transaction: Transaction, project: str) -> None:
    for job in [transaction.job(each.id) for each in transaction.state.live_jobs()]:
        if job is None or job.live is None or job.standing.stopping:
            continue
        if (hold := hold_of(transaction, job.spec.project)) is not None and hold.project == project:
            transaction.apply(lifecycle.pause(job, messages.paused_for_hold(hold), transaction.now))


def _shown(record: FreezeRecord | None) -> dict[str, object]:
    if record is None:
        return {}
    shown = {"why": record.why, "finish": record.finish}
    return shown if record.until is None else {**shown, "until": record.until}
