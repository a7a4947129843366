"""Requests for changes that others decide: quota, build GPUs, membership, limits of jobs (docs/requests.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import to_builtins

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import editing, project_admin
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state import wanted as words
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal, checked_reason, invalid_field, unknown_project
from springtide.scheduler.settings import DAY
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import POOL, ChangeRequestRecord, HubStanding, RequestState
from springtide.scheduler.wire import BuildWanted, JobWanted, MembershipWanted, ProjectWanted, WantedChange
from springtide.scheduler.wording import given, listed, quoted


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What changes are checked against beside the state: the members by project, and the settings."""

    members: Mapping[str, Sequence[str]]
    settings: EngineSettings


EXPIRES_AFTER: Final = 14 * DAY
"""Time after which an undecided request expires, in seconds."""
MOST_PENDING: Final = 10
"""Maximum number of pending requests of one person."""
MOST_A_DAY: Final = 30
"""Maximum number of requests of one person in a day."""
MOST: Final = 1000
"""Maximum number of pending requests of all people."""
PASSING: Final = frozenset({"sums", "runs"})
"""The codes of refusals of a change that may be possible later."""
KINDS: Final = {
    RequestState.APPROVED: "request.approve",
    RequestState.REFUSED: "request.refuse",
    RequestState.WITHDRAWN: "request.withdraw",
    RequestState.EXPIRED: "request.expire",
    RequestState.OBSOLETE: "request.close",
}
"""The kind of audit entry of each end of a request."""


def ask(
    transaction: Transaction,
    request: wire.NewChangeRequest,
    user: str,
    context: RequestContext,
) -> int:
    """Accept a request of a person and return its number.

    A change that does not fit now is accepted, since whoever decides can make room for it. Raises `Refusal`: 404
    for an unknown project or job, 409 for a second request for the same and for too many, 422 for one that changes
    nothing.
    """
    why = checked_reason(request.why)
    if not why:
        raise invalid_field("why", "The request has no reason.", "Say in a sentence what it is for.")
    _check_fields(request.wanted)
    _check_room(transaction, request.wanted, user)
    _check_change(transaction, request.wanted, user, context)
    now, end = transaction.now, words.end_of(request.wanted)
    job = _job(transaction, request.wanted)
    project = words.project_of(request.wanted, job)
    shown = {"wanted": words.what(request.wanted, user), "reason": why}
    number = transaction.add_audit_entry(user, "request.make", user, {}, shown, project=project)
    expires = now + EXPIRES_AFTER if end is None else min(end, now + EXPIRES_AFTER)
    transaction.change_requests.put(ChangeRequestRecord(number, user, request.wanted, why, now, expires))
    return number


def withdraw(transaction: Transaction, number: int, by: str) -> None:
    """Take a pending request back, for the person who made it.

    Raises `Refusal`: 404 for an unknown one and another person's, 409 for one that has ended.
    """
    record = transaction.change_requests.get(number)
    if record is None or record.user != by:
        raise unknown_request(number)
    _end(transaction, _pending(transaction, number), RequestState.WITHDRAWN, by)


def withdraw_all(transaction: Transaction, user: str, by: str) -> int:
    """End the pending requests of a person who leaves, and return how many there were."""
    theirs = [each for each in transaction.change_requests.values() if each.pending and each.user == user]
    for record in theirs:
        _end(transaction, record, RequestState.OBSOLETE, by, answer=f"{quoted(user)} has left.")
    return len(theirs)


def refuse(transaction: Transaction, number: int, refusal: wire.ChangeRefusal, by: str) -> None:
    """Refuse a pending request with a reason. Raises `Refusal`: 404 for an unknown one, 409 if it has ended."""
    why = checked_reason(refusal.why)
    if not why:
        raise invalid_field("why", "The refusal has no reason.", "Say in a sentence why.")
    _end(transaction, _pending(transaction, number), RequestState.REFUSED, by, answer=why)


def approve(
    transaction: Transaction,
    number: int,
    approval: wire.ChangeApproval,
    by: str,
    context: RequestContext,
) -> None:
    """Make the change of a pending request, or the one that is granted instead, in the name of ``by``.

    Raises `Refusal`: 404 for an unknown request, 409 for one that has ended, 422 for another kind of change and
    for other values that hold already, and as the change itself does: the request stays then.
    """
    record = _pending(transaction, number)
    granted = granted_of(record, approval)
    answer = checked_reason(approval.why)
    _check_fields(granted)
    before = len(transaction.audit)
    try:
        _make(transaction, granted, record.user, by, context)
    except Refusal as refusal:
        message = f"Request {number} cannot be granted: {refusal.message}"
        raise Refusal(refusal.status, refusal.code, message, field=refusal.field, hint=refusal.hint) from refusal
    other = granted if granted != record.wanted else None
    if other is not None and len(transaction.audit) == before:
        raise _is_there(granted, record.user, "granted", "Grant other values, or refuse the request.")
    _end(transaction, record, RequestState.APPROVED, by, answer=answer, granted=other)


def granted_of(record: ChangeRequestRecord, approval: wire.ChangeApproval) -> WantedChange:
    """Return the change that an approval makes. Raises `Refusal` (422) for one that was not asked for."""
    granted = approval.granted or record.wanted
    if words.same_object(granted, record.wanted):
        return granted
    message = f"Request {record.number} is for {words.what(record.wanted, record.user)}, and for nothing else."
    raise invalid_field("granted", message, "Change the values and the end alone, or refuse it.")


def pending_request(requests: Mapping[int, ChangeRequestRecord], number: int) -> ChangeRequestRecord:
    """Return a pending request. Raises `Refusal`: 404 for an unknown one, 409 for one that has ended."""
    record = requests.get(number)
    if record is None:
        raise unknown_request(number)
    if not record.pending:
        by = "" if record.by in {"", POOL} else f" by {quoted(record.by)}"
        message = f"Request {number} is {record.state.value}{by} already."
        raise Refusal(409, "decided", message, hint="Look at the requests again.")
    return record


def unknown_request(number: int) -> Refusal:
    """Return the refusal for a request that there is not, or that the caller has nothing to do with."""
    hint = "`springtide request list` and the page of the pool show those that concern you."
    return Refusal(404, "unknown_request", f"There is no request {number}.", field="number", hint=hint)


def obstacle(transaction: Transaction, record: ChangeRequestRecord, context: RequestContext) -> str:
    """Return why a pending request cannot be granted as it is; empty if it can. Changes nothing."""
    try:
        _make(transaction.copy(), record.wanted, record.user, record.user, context)
    except Refusal as refusal:
        return refusal.message
    return ""


def follow(transaction: Transaction) -> None:
    """End the pending requests whose project or job is gone, or whose person has left."""
    for record in [each for each in transaction.change_requests.values() if each.pending]:
        gone = _gone(transaction, record)
        if gone:
            _end(transaction, record, RequestState.OBSOLETE, POOL, answer=gone)


def end_due(transaction: Transaction) -> None:
    """End the requests that have expired by now, and forget those that ended long ago."""
    for record in list(transaction.change_requests.values()):
        if record.due > transaction.now:
            continue
        if record.pending:
            _end(transaction, record, RequestState.EXPIRED, POOL, answer="It expired before a decision.")
        else:
            transaction.change_requests.remove(record.number)


def view(transaction: Transaction, record: ChangeRequestRecord, context: RequestContext) -> wire.ChangeRequestView:
    """Return a request as the API shows it to people who may not decide it."""
    job = _job(transaction, record.wanted)
    pending = record.pending
    return wire.ChangeRequestView(
        number=record.number,
        user=record.user,
        what=words.what(record.wanted, record.user),
        wanted=record.wanted,
        project=words.project_of(record.wanted, job),
        why=record.why,
        at=record.at,
        expires=record.expires,
        state=record.state.value,
        present=present(transaction, record) if pending else "",
        obstacle=obstacle(transaction, record, context) if pending else "",
        decided=record.decided,
        by=record.by,
        answer=record.answer,
        granted=record.granted,
        given="" if record.granted is None else words.what(record.granted, record.user),
    )


def present(transaction: Transaction, record: ChangeRequestRecord) -> str:
    """Return the present values of the wanted fields, in a sentence."""
    job = _job(transaction, record.wanted)
    return words.present(record.wanted, record.user, transaction.projects, transaction.people, job)


def _make(
    transaction: Transaction,
    wanted: WantedChange,
    user: str,
    by: str,
    context: RequestContext,
) -> None:
    """Make a change; that of a membership is checked alone, since the hub makes it."""
    match wanted:
        case ProjectWanted(project=project, edit=edit):
            project_admin.edit_project(transaction, project, edit, by, context.members)
        case BuildWanted(edit=edit):
            project_admin.edit_person(transaction, user, edit.build_quota, by, context.members, until=edit.until)
        case MembershipWanted(project=project):
            _check_project(transaction, project)
            after = {**context.members, project: sorted({*context.members.get(project, ()), user})}
            project_admin.check_members(transaction, context.members, after)
        case JobWanted(job=job_id, edit=edit):
            job = _job(transaction, wanted)
            if job is None:
                raise Refusal(404, "not_found", f"There is no unfinished job {given(job_id)}.", field="job")
            editing.edit_job(transaction, job, edit, by, context.settings, beyond_ranges=True)


def _check_change(transaction: Transaction, wanted: WantedChange, user: str, context: RequestContext) -> None:
    """Raise `Refusal` for a change that can never be made, and for one that would change nothing."""
    tried = transaction.copy()
    before = len(tried.audit)
    try:
        _make(tried, wanted, user, user, context)
    except Refusal as refusal:
        if refusal.code in PASSING:
            return
        raise
    is_there = len(tried.audit) == before
    if isinstance(wanted, MembershipWanted):
        is_there = user in context.members.get(wanted.project, ())
    if is_there:
        raise _is_there(wanted, user, "wanted", "Ask for something else.")


def _is_there(wanted: WantedChange, user: str, field: str, hint: str) -> Refusal:
    """Return the refusal of a change that would change nothing."""
    return invalid_field(field, f"There is {words.what(wanted, user)} already.", hint)


def _check_fields(wanted: WantedChange) -> None:
    """Raise `Refusal` for a change without values, and for values that cannot be requested."""
    if isinstance(wanted, ProjectWanted):
        known, about = words.NUMBERS, {"until"}
    elif isinstance(wanted, JobWanted):
        known, about = words.OPTIONS, {"reason"}
    else:
        return
    fields = to_builtins(wanted.edit).keys() - about
    others = sorted(fields - known.keys())
    if fields and not others:
        return
    message = f"{given(others[0])} cannot be asked for." if others else "The request names no value."
    raise invalid_field("wanted", message, f"Values to ask for: {listed(list(known))}.")


def _check_project(transaction: Transaction, project: str) -> None:
    if project not in transaction.projects:
        raise unknown_project(project, "project")


def _check_room(transaction: Transaction, wanted: WantedChange, user: str) -> None:
    """Raise `Refusal` (409) for a request like a pending one, and beyond the maximum numbers."""
    everyones = transaction.change_requests.values()
    theirs = [each for each in everyones if each.user == user]
    pending = [each for each in theirs if each.pending]
    same = next((each for each in pending if words.same_object(each.wanted, wanted)), None)
    if same is not None:
        message = f"Request {same.number} asks for {words.what(same.wanted, user)} and waits for a decision."
        raise Refusal(409, "exists", message, hint=f"Withdraw it first: springtide request withdraw {same.number}")
    lately = sum(each.at > transaction.now - DAY for each in theirs)
    everywhere = sum(each.pending for each in everyones)
    bounds = (
        (len(pending), MOST_PENDING, "You have", "pending requests"),
        (lately, MOST_A_DAY, "You have made", "requests within a day"),
        (everywhere, MOST, "The pool has", "pending requests"),
    )
    for number, most, whose, which in bounds:
        if number >= most:
            message = f"{whose} {number} {which}, the most there may be."
            raise Refusal(
                409, "too_many", message, hint="Withdraw one that you do not need, or wait for decisions."
            )


def _pending(transaction: Transaction, number: int) -> ChangeRequestRecord:
    return pending_request(transaction.change_requests, number)


def _end(
    transaction: Transaction,
    record: ChangeRequestRecord,
    state: RequestState,
    by: str,
    *,
    answer: str = "",
    granted: WantedChange | None = None,
) -> None:
    """End a request, with an entry of the audit trail."""
    ended = replace(record, state=state, decided=transaction.now, by=by, answer=answer, granted=granted)
    transaction.change_requests.put(ended)
    shown = {"wanted": words.what(record.wanted, record.user)}
    after = {} if granted is None else {"granted": words.what(granted, record.user)}
    if answer:
        after["reason"] = answer
    project = words.project_of(record.wanted, _job(transaction, record.wanted))
    transaction.add_audit_entry(by, KINDS[state], record.user, shown, after, project=project)


def _gone(transaction: Transaction, record: ChangeRequestRecord) -> str:
    """Return why a request concerns nothing any more, empty if it does."""
    person = transaction.hub_users.get(record.user)
    if person is not None and person.standing is HubStanding.LEFT:
        return f"{quoted(record.user)} is no longer a user of JupyterHub."
    wanted = record.wanted
    if isinstance(wanted, JobWanted) and _job(transaction, wanted) is None:
        return f"The job {quoted(wanted.job)} has ended."
    if isinstance(wanted, ProjectWanted | MembershipWanted) and wanted.project not in transaction.projects:
        return f"The project {quoted(wanted.project)} is gone."
    return ""


def _job(transaction: Transaction, wanted: WantedChange) -> JobRecord | None:
    """Return the unfinished job that a change is for, None for another change or an ended job."""
    if not isinstance(wanted, JobWanted):
        return None
    job = transaction.jobs.get(wanted.job) or transaction.state.jobs.get(wanted.job)
    return None if job is None or job.state.final else job
