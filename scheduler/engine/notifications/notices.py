"""Notices of changed jobs for users, of faults and needs for administrators, of idle GPUs for owners; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from springtide.scheduler import sentences, wording
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle, wanted
from springtide.scheduler.engine.state.points_of_return import INTERRUPTED, left_behind, starts_over
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import JobState, Reason
from springtide.scheduler.notifications import (
    SOON,
    ChannelEvents,
    Notification,
    NotificationEvent,
    chosen_channels,
)
from springtide.scheduler.sentences.sentence import Param, Params
from springtide.scheduler.store.records import Asked, AttemptRecord, AttemptState, JobRecord
from springtide.scheduler.store.tables import POOL, BudgetRecord, ChangeRequestRecord, IdleRecord, NeedRecord

HELD = Reason("notify-held")
"""The next event after a pause by a person."""
MOST_NEEDS = 5
"""Number of things that one notification names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A GPU or node drained because of a fault, or a launch stop: a unique id, and the notification's text."""

    id: str
    title: Reason
    why: str
    next: Reason


def faults(transaction: Transaction) -> list[Fault]:
    """Return the GPUs and the nodes that the transaction drains because of a fault, and its launch stops."""
    drained = {
        gpu: record for gpu, record in transaction.gpu_drains.changes.items() if record and record.by == POOL
    }
    found = [
        Fault(
            f"{gpu.uuid}.{drained[gpu.uuid].since:.0f}",
            Reason("notify-gpu-drained", {"gpu": gpu.index, "node": node.name}),
            drained[gpu.uuid].why,
            Reason("notify-gpu-drained-next"),
        )
        for node in (transaction.nodes.all if drained else ())
        for gpu in node.devices
        if gpu.uuid in drained
    ]
    found += [
        Fault(
            f"{name}.{record.since:.0f}",
            Reason("notify-node-drained", {"node": name}),
            record.why,
            Reason("notify-node-drained-next", {"finish": record.finish}),
        )
        for name, record in transaction.drains.changes.items()
        if record and record.by == POOL
    ]
    found += [
        Fault(
            f"launch-stop.{stop.block.scope}.{stop.at:.3f}",
            Reason("notify-launch-stopped", {"scope": stop.block.scope.value, "name": stop.block.name}),
            stop.detail,
            Reason("notify-launch-stopped-next"),
        )
        for stop in transaction.launch_stops
    ]
    return found


def fault_notifications(user: str, found: Iterable[Fault], chosen: ChannelEvents) -> Sequence[Notification]:
    """Return a person's notifications of faults: none without a chosen channel."""
    channels = chosen_channels(NotificationEvent.FAULT, chosen)
    if not channels:
        return ()
    return [
        Notification(
            id=fault.id,
            user=user,
            job="",
            event=NotificationEvent.FAULT,
            title=sentences.text(fault.title),
            text=f"{fault.why} {sentences.text(fault.next)}",
            channels=channels,
        )
        for fault in found
    ]


def arisen(transaction: Transaction, besides: Collection[str]) -> list[NeedRecord]:
    """Return what the transaction records as needing administrators for the first time, of other kinds."""
    return [
        record
        for key, record in transaction.needs.changes.items()
        if record is not None and key not in transaction.state.needs and record.kind not in besides
    ]


def need_notifications(
    user: str, found: Sequence[NeedRecord], chosen: ChannelEvents, now: float
) -> Sequence[Notification]:
    """Return an administrator's one notification of new needs: none without a chosen channel."""
    if not found:
        return ()
    texts = [record.said for record in found[:MOST_NEEDS]]
    more = len(found) - len(texts)
    if more:
        texts.append(sentences.text(Reason("notify-needs-more", {"count": more})))
    title = texts[0] if len(found) == 1 else sentences.text(Reason("notify-needs", {"count": len(found)}))
    text = sentences.text(Reason("notify-needs-where")) if len(found) == 1 else " ".join(texts)
    return _notice(NotificationEvent.NEEDS, f"needs.{now:.3f}.{found[0].id}", user, (title, text), chosen)


def _notice(
    event: NotificationEvent,
    notice_id: str,
    user: str,
    words: tuple[Reason | str, Reason | str],
    chosen: ChannelEvents,
    *,
    job: str = "",
    month: str = "",
) -> Sequence[Notification]:
    """Return the notification of an event, its title and text in ``words``: none without a chosen channel."""
    channels = chosen_channels(event, chosen)
    if not channels:
        return ()
    title, text = (part if isinstance(part, str) else sentences.text(part) for part in words)
    return [
        Notification(
            id=notice_id, user=user, job=job, event=event, title=title, text=text, channels=channels, month=month
        )
    ]


def asked(transaction: Transaction) -> list[NeedRecord]:
    """Return the records of the transaction whose owner an administrator notifies of unused GPUs."""
    found = []
    for key, record in transaction.needs.changes.items():
        before = transaction.state.needs.get(key)
        if record is not None and record.told is not None and (before is None or before.told != record.told):
            found.append(record)
    return found


def asked_notifications(record: NeedRecord, chosen: ChannelEvents) -> Sequence[Notification]:
    """Return the owner's notification that an administrator asks about unused GPUs."""
    event, notice_id = NotificationEvent.WORKSPACE, f"asked.{record.id}.{record.told:.3f}"
    text = Reason("notify-asked", {"by": record.told_by})
    return _notice(event, notice_id, record.user, (record.said, text), chosen, job=record.job)


def changed(transaction: Transaction) -> list[IdleRecord]:
    """Return the idle records of the transaction whose owner is to be notified."""
    found = []
    for key, record in transaction.idle_records.changes.items():
        before = transaction.state.idle_records.get(key)
        if record is not None and _news(before, record):
            found.append(record)
    return found


def _news(before: IdleRecord | None, after: IdleRecord) -> bool:
    if after.stopped is not None:
        return before is None or before.stopped is None
    return after.told is not None and (before is None or before.told != after.told)


def idle_notifications(record: IdleRecord, chosen: ChannelEvents) -> Sequence[Notification]:
    """Return the owner's notifications: none without a chosen channel."""
    about: Params = {"server": record.server, "gpus": record.gpus, "unused": record.unused}
    if record.stopped is not None:
        title, text = Reason("notify-workspace-stopped", about), Reason("notify-workspace-stopped-next")
    else:
        title = Reason("notify-workspace-unused", about)
        notice: float | None = None if record.stops is None or record.told is None else record.stops - record.told
        text = Reason("notify-workspace-stays" if notice is None else "notify-workspace-stops", {"notice": notice})
    at = record.stopped if record.stopped is not None else record.told
    notice_id = f"workspace.{record.user}.{record.server}.{at:.0f}"
    return _notice(NotificationEvent.WORKSPACE, notice_id, record.user, (title, text), chosen)


def told_budgets(transaction: Transaction) -> list[BudgetRecord]:
    """Return the budgets of which people are to be notified, because a level is reached in their month."""
    found = []
    for project, record in transaction.budgets.changes.items():
        before = transaction.state.budgets.get(project)
        if record is None:
            continue
        known = before.told if before is not None and before.month == record.month else 0
        if record.told > known:
            found.append(record)
    return found


def budget_notification(
    user: str, record: BudgetRecord, chosen: ChannelEvents, currency: str
) -> Sequence[Notification]:
    """Return a person's notification of a budget that is nearly or wholly spent: none without a chosen channel."""
    about = {**messages.budget_words(record, currency), "level": record.told}
    codes = ("notify-budget-over", "notify-budget-over-next")
    if not record.is_over:
        codes = ("notify-budget-near", "notify-budget-near-next")
    title, text = (Reason(code, about) for code in codes)
    notice_id = f"budget.{record.project}.{record.month}.{record.told}.{record.since:.0f}"
    return _notice(NotificationEvent.BUDGET, notice_id, user, (title, text), chosen)


def new_requests(transaction: Transaction) -> list[ChangeRequestRecord]:
    """Return the requests that the transaction accepts."""
    known, changes = transaction.state.change_requests, transaction.change_requests.changes
    return [record for key, record in changes.items() if record and record.pending and key not in known]


def ended_requests(transaction: Transaction) -> list[ChangeRequestRecord]:
    """Return the requests of others that the transaction ends."""
    known = transaction.state.change_requests
    ended = [record for record in transaction.change_requests.changes.values() if record and not record.pending]
    return [each for each in ended if each.by != each.user and each.number in known and known[each.number].pending]


def request_notification(user: str, record: ChangeRequestRecord, chosen: ChannelEvents) -> Sequence[Notification]:
    """Return a person's notification of a request, her own or one to decide: none without a chosen channel."""
    about: dict[str, Param] = {
        "number": record.number,
        "values": int(wanted.has_values(record.wanted)),
        "user": record.user,
        "what": wanted.what(record.wanted, record.user),
        "given": "" if record.granted is None else wanted.what(record.granted, record.user),
        "state": record.state.value,
        "by": record.by,
        "detail": record.why if record.pending else record.answer,
    }
    codes = ("notify-request", "notify-request-next")
    if not record.pending:
        codes = ("notify-request-ended", "notify-request-ended-next")
    title, text = (Reason(code, about) for code in codes)
    notice_id = f"request.{record.number}.{record.state.value}"
    return _notice(NotificationEvent.REQUEST, notice_id, user, (title, text), chosen)


def reported_months(transaction: Transaction) -> list[str]:
    """Return the months whose reports the transaction announces, without empty ones."""
    return [
        month
        for month, record in transaction.monthly_reports.changes.items()
        if record is not None and not record.empty and month not in transaction.state.monthly_reports
    ]


def report_notification(
    user: str, month: str, chosen: ChannelEvents, *, whole_pool: bool
) -> Sequence[Notification]:
    """Return a person's notification of the report of a month: none without a chosen channel."""
    title = Reason("notify-report", {"month": wording.month(month)})
    text = Reason("notify-report-about", {"whole_pool": whole_pool})
    return _notice(NotificationEvent.REPORT, f"report.{month}", user, (title, text), chosen, month=month)


Told: TypeAlias = tuple[NotificationEvent, Reason, tuple[Reason, ...]]
"""An event, the reason that its title is made of, and those that its text is made of."""


def job_notifications(
    before: JobRecord | None, after: JobRecord, chosen: ChannelEvents, now: float
) -> list[Notification]:
    """Return the notifications of a job's change, of the events with a chosen channel.

    Trials of a sweep, and test runs, have none: their user waits for the sweep, and for the job.
    """
    found: list[Notification] = []
    if before is None or not after.rules.announced:
        return found
    for event, title, texts in _events(before, after, now):
        channels = chosen_channels(event, chosen)
        if channels:
            found.append(
                Notification(
                    id=_notice_id(after, event),
                    user=after.spec.user,
                    job=after.id,
                    event=event,
                    title=sentences.text(title),
                    text=" ".join(sentences.text(_apart(each, after)) for each in texts),
                    channels=channels,
                )
            )
    return found


def _apart(why: Reason, job: JobRecord) -> Reason:
    """Return a reason that names no jobs of other projects: the message goes where the pool checks no rights."""
    return sentences.without_names(why, job.spec.project.__eq__)


def _notice_id(job: JobRecord, event: NotificationEvent) -> str:
    edit = job.standing.edited
    again = f".{edit.at:.3f}" if event is NotificationEvent.EDITED and edit is not None else ""
    return f"{job.id}.{job.standing.attempt}.{event}{again}"


def _events(before: JobRecord, after: JobRecord, now: float) -> Iterator[Told]:
    ended = _ended_attempt(before, after)
    if after.state.final and not before.state.final:
        yield from _end(after, now)
    elif ended is not None:
        yield from _interruption(after, ended)
    elif after.standing.held and not before.standing.held and before.live is None:
        yield from _hold(after)
    edit, known = after.standing.edited, before.standing.edited
    if edit is not None and (known is None or edit.at != known.at):
        why = messages.edited(edit, after.spec.project)
        yield NotificationEvent.EDITED, _title("notify-edited", after, edit.by), (why,)
    if after.state is JobState.RUNNING and before.state is not JobState.RUNNING:
        yield from _resumption(after)
    if after.standing.warned and not before.standing.warned:
        limit = after.spec.options.time_limit or 0.0
        left = max(0.0, (lifecycle.deadline(after) or now) - now)
        title = Reason("notify-limit-near", {"name": after.spec.name, "seconds": left})
        yield NotificationEvent.TIME_LIMIT, title, (Reason("notify-limit", {"seconds": limit}),)


def _ended_attempt(before: JobRecord, after: JobRecord) -> AttemptRecord | None:
    """Return the attempt that was live before and is not any more, as it is now."""
    if before.live is None:
        return None
    number = before.live.number
    return next((each for each in after.attempts if each.number == number and not each.state.live), None)


def _end(job: JobRecord, now: float) -> Iterator[Told]:
    ran = (_ran(job),) if job.standing.ran >= 1 else ()
    why = (job.standing.reason,) if job.standing.reason is not None else ()
    if job.state is JobState.FAILED:
        yield NotificationEvent.FAILED, _title("notify-failed", job), (*why, *ran)
    elif job.state is JobState.SUCCEEDED and _finisher(job) != job.spec.user:
        soon = now - job.spec.submitted <= SOON
        event = NotificationEvent.SUCCEEDED_SOON if soon else NotificationEvent.ENDED
        yield event, _succeeded(job), ran if job.rules.runs else (*why, *ran)
    elif job.state is JobState.CANCELLED and job.standing.by != job.spec.user:
        by = job.standing.by
        yield NotificationEvent.ENDED, _title("notify-cancelled", job, by), ran if by else (*why, *ran)


def _ran(job: JobRecord) -> Reason:
    """Return the run time of an ended job, and the rest of its duration, in seconds."""
    ran, started, ended = job.standing.ran, job.standing.started, job.standing.ended
    paused = 0.0 if started is None or ended is None else max(0.0, ended - started - ran)
    return Reason("notify-ran", {"seconds": ran, "paused": paused})


def _interruption(job: JobRecord, ended: AttemptRecord) -> Iterator[Told]:
    why = (ended.ended_why,) if ended.ended_why is not None else ()
    if ended.state is AttemptState.FAILED:
        yield NotificationEvent.FAILED, _title("notify-attempt-failed", job), why
    elif ended.state in INTERRUPTED and not _asked_again(ended) and (by := _holder(ended)) != job.spec.user:
        texts = (*((HELD,) if by else why), *_saved(job), *_lost(job, ended))
        yield NotificationEvent.PAUSED, _title("notify-paused", job, by), texts


def _hold(job: JobRecord) -> Iterator[Told]:
    by, why = job.standing.by, job.standing.reason
    if by != job.spec.user:
        texts = (HELD,) if by else (why,) if why else ()
        yield NotificationEvent.PAUSED, _title("notify-paused", job, by), (*texts, *_saved(job))


def _resumption(job: JobRecord) -> Iterator[Told]:
    tried = [each for each in job.attempts if each.state is not AttemptState.BLOCKED]
    *_, last, live = (None, None, *tried)
    if last is None or live is None or last.state not in INTERRUPTED or _asked_again(last):
        return
    if _holder(last) != job.spec.user:
        title = _title("notify-resumed", job, from_start=starts_over(job, live))
        yield NotificationEvent.RESUMED, title, (*_lost(job, last), live.why)


def _asked_again(attempt: AttemptRecord) -> bool:
    return attempt.state is AttemptState.PAUSED and attempt.asked is not Asked.PAUSE


def _holder(ended: AttemptRecord) -> str:
    """Return the person whose pause ended the attempt, empty if the pool did."""
    why = ended.asked_why
    return str(why.params.get("by", "")) if why is not None and why.code == messages.HELD else ""


def _finisher(job: JobRecord) -> str:
    """Return the person who marked the job as finished, empty if its program ended."""
    why = job.standing.reason
    return str(why.params.get("by", "")) if why is not None and why.code == messages.FINISHED else ""


def _succeeded(job: JobRecord) -> Reason:
    sweep = job.standing.sweep
    failed = {} if sweep is None else {"failed": sweep.failed, "trials": sweep.number}
    return Reason("notify-succeeded", {"name": job.spec.name, **failed})


def _title(code: str, job: JobRecord, by: str | None = None, *, from_start: bool = False) -> Reason:
    return Reason(
        code, {"name": job.spec.name, **({"by": by} if by else {}), **({"from_start": 1} if from_start else {})}
    )


def _saved(job: JobRecord) -> tuple[Reason, ...]:
    step = job.standing.saved_step
    return () if step is None else (Reason("notify-saved", {"step": step}),)


def _lost(job: JobRecord, ended: AttemptRecord) -> tuple[Reason, ...]:
    """Return what an interrupted attempt lost, if no checkpoint was known at its end."""
    return tuple(why for why in left_behind(job, ended) if why.code == messages.NEVER_SAVED)
