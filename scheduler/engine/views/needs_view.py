"""What needs an administrator: the entries, their sentences and what can be done about them; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from springtide.scheduler import sentences, wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.requests import change_requests
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.endings import value_before
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.state.wanted import has_values
from springtide.scheduler.engine.views import pool_view
from springtide.scheduler.model import Reason
from springtide.scheduler.sentences import Role
from springtide.scheduler.sentences.sentence import Param
from springtide.scheduler.settings import DAY
from springtide.scheduler.store.records import Hold, JobRecord
from springtide.scheduler.store.tables import (
    POOL,
    DrainRecord,
    EndingKind,
    GpuDrainRecord,
    HubStanding,
    NeedRecord,
    WorkspaceKey,
)
from springtide.scheduler.wire import Need, NeedAction, NeedCall, NeedKind
from springtide.scheduler.wording import count

DRAINED_FOR: Final = DAY
"""Age at which a drain without an end needs attention, in seconds."""
SOON: Final = 7 * DAY
"""Time before the end of a change from which it is an entry, in seconds."""
MOST_AT_ONCE: Final = 100
"""Maximum number of jobs that one action releases or cancels."""
PROBLEMS: Final = frozenset(
    {NeedKind.STORE, NeedKind.LAUNCH, NeedKind.UNMATCHED, NeedKind.USAGE, NeedKind.NODES, NeedKind.STAYS}
)
"""Kinds of entries because of which work or records suffer."""
ORDER: Final = {kind: place for place, kind in enumerate(NeedKind)}
WORDS: Final[Mapping[EndingKind, str]] = {
    EndingKind.PERSON: "build quota",
    EndingKind.IDLE_RULE: "rule for idle workspaces",
    EndingKind.PARENT: "parent",
    EndingKind.QUOTA: "quota",
    EndingKind.LIMIT: "limit",
    EndingKind.WEIGHT: "weight",
    EndingKind.PRIORITY: "priority",
    EndingKind.BUILD_QUOTA: "build quota",
    EndingKind.RANGES: "job ranges",
}
"""The things that have another value for a time, in words."""


@dataclass(frozen=True, slots=True)
class Backup:
    """When the state was saved last, or since when that is watched if it was not saved ``ever`` since."""

    at: float
    ever: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts beside the committed state.

    ``trouble`` is why the store takes no writes, ``unrecorded`` why the use of GPUs is not recorded. ``backup`` is
    None unless backups are watched; it is too old after ``backup_after`` seconds. ``channels`` have since when,
    and why, messages by them do not arrive. ``idle_jobs`` and ``idle_workspaces`` have since when they have not
    used their GPUs.
    """

    pool: wire.PoolView
    trouble: str = ""
    unrecorded: str = ""
    backup: Backup | None = None
    backup_after: float = DAY
    channels: Mapping[str, tuple[float, Reason]] = field(default_factory=dict)
    idle_jobs: Mapping[str, float] = field(default_factory=dict)
    idle_workspaces: Mapping[WorkspaceKey, float] = field(default_factory=dict)


def found(state: State, nodes: ObservedNodes, facts: Facts, settings: EngineSettings, now: float) -> list[Need]:
    """Return what needs an administrator, the most urgent first.

    An entry of which only a `NeedRecord` knows since when it lasts has the time of that, or ``now``.
    """
    needs = [
        *_of_service(facts, now),
        *_of_pool(facts.pool, now),
        *_quotas(pool_view.sums(state, nodes, {}), now),
        *_endings(state, now),
        *_requests(Transaction(state, nodes, now), settings),
        *_leavers(state, now),
        *_handed_over(state),
        *_drains(state, nodes, now),
        *_idle_jobs(state, facts),
        *_idle_workspaces(state, facts),
    ]
    needs = [_known(need, state.needs.get(need.id)) for need in needs]
    return sorted(needs, key=lambda need: (ORDER[need.kind], need.since, need.id))


def listed(needs: Sequence[Need], now: float) -> wire.NeedList:
    """Return the entries, with those apart that administrators leave as they are for now."""
    left = [need for need in needs if need.left_until is not None and need.left_until > now]
    return wire.NeedList(items=[need for need in needs if need not in left], left=left)


def idle_while_waiting(pool: wire.PoolView) -> dict[str, int]:
    """Return how many train GPUs of each type are idle while waiting jobs ask for as many."""
    idle: Counter[str] = Counter()
    for node in pool.nodes:
        if node.environment == "train":
            idle[node.gpu_type] += node.free.get(wire.IDLE, 0)
    known = {project.name for project in pool.projects}
    waiting: Counter[str] = Counter()
    for project in pool.projects:
        if project.parent not in known:
            numbers = {name: of.waiting for name, of in project.by_type.items()}
            waiting.update(numbers or {next(iter(idle), ""): project.waiting})
    return {gpu_type: min(number, waiting[gpu_type]) for gpu_type, number in idle.items()}


def need_of(
    kind: NeedKind,
    key: str,
    params: Mapping[str, Param],
    since: float,
    *,
    name: str = "",
    until: float | None = None,
    user: str = "",
    project: str = "",
    job: str = "",
    actions: Sequence[NeedAction] = (),
) -> Need:
    """Return an entry about ``key``, with the sentences of its kind."""
    parts = sentences.render(Reason(f"need-{kind}", params))
    return Need(
        id=f"{kind}.{key}" if key else kind.value,
        kind=kind,
        object=name or key,
        since=since,
        said=sentences.joined(part for part in parts if part.role is not Role.CHANGE),
        remedy=sentences.joined(part for part in parts if part.role is Role.CHANGE),
        problem=kind in PROBLEMS,
        until=until,
        user=user,
        project=project,
        job=job,
        actions=list(actions),
    )


def _known(need: Need, record: NeedRecord | None) -> Need:
    if record is None:
        return need
    return replace(
        need,
        since=min(need.since, record.since),
        left_until=record.left_until,
        left_by=record.left_by,
        told=record.told,
        told_by=record.told_by,
    )


def _page(name: str, words: str, page: str) -> NeedAction:
    return NeedAction(name=name, words=words, page=page)


def _act(name: str, words: str, path: str, body: Mapping[str, object] | None, question: str = "") -> NeedAction:
    call = NeedCall(path=path, body=None if body is None else dict(body))
    return NeedAction(name=name, words=words, calls=[call], question=question)


def _of_service(facts: Facts, now: float) -> Iterator[Need]:
    if facts.trouble:
        yield need_of(NeedKind.STORE, "", {"detail": facts.trouble}, now)
    if facts.unrecorded:
        at_pool = [_page("open", "See the GPUs", "pool")]
        yield need_of(NeedKind.USAGE, "", {"detail": facts.unrecorded}, now, actions=at_pool)
    if facts.backup is not None:
        yield from backup_need(facts.backup, facts.backup_after, now)
    for channel, (since, why) in sorted(facts.channels.items()):
        params: dict[str, Param] = {"channel": channel, "detail": sentences.text(why)}
        at_choices = [_page("open", "Send a test message", "notifications")]
        yield need_of(NeedKind.CHANNEL, channel, params, since, actions=at_choices)


def backup_need(backup: Backup, after: float, now: float) -> Iterator[Need]:
    """Yield the entry of a backup that is older than this many seconds, or that is still missing by then."""
    if now - backup.at > after:
        yield need_of(NeedKind.BACKUP, "", {"ever": backup.ever, "after": after}, backup.at + after)


def _of_pool(pool: wire.PoolView, now: float) -> Iterator[Need]:
    for stop in pool.launch_stops:
        key = f"{stop.scope}.{stop.name}".rstrip(".")
        params: dict[str, Param] = {"jobs": stop.jobs, "detail": stop.detail}
        at_pool = [_page("open", "See why", "pool")]
        yield need_of(NeedKind.LAUNCH, key, params, now, name=stop.name or "the pool", actions=at_pool)
    for holder in pool.unmatched:
        yield unmatched(holder)
    for group in pool.node_groups:
        if group.error:
            yield need_of(NeedKind.NODES, group.name, {"name": group.name, "detail": group.error}, now)


def unmatched(holder: wire.UnmatchedView) -> Need:
    """Return the entry of something that keeps GPUs out of the pool."""
    end = {
        "job": ("Have it leave", "Have the job save and stop? It resumes on other GPUs."),
        "notebook": ("Stop it", "Stop the notebook server? Unsaved changes in it are lost."),
        "attempt": ("End it", "End all its processes?"),
    }[holder.kind]
    free = "Is nothing of it left? Its GPUs go back to the pool; this is refused while processes of it live."
    body = {"holder": holder.holder}
    return need_of(
        NeedKind.UNMATCHED,
        f"{holder.holder}.{holder.since:.0f}",
        {"detail": holder.why, "gpus": len(holder.gpus), "change": holder.change, "holder": holder.holder},
        holder.since,
        name=holder.name or holder.holder,
        user=holder.user,
        project=holder.project,
        job=holder.job,
        actions=[
            _act("end", end[0], "gpus/free", {**body, "end": True}, end[1]),
            _act("free", "Its GPUs are free", "gpus/free", {**body, "end": False}, free),
        ],
    )


def _quotas(sums: wire.Sums, now: float) -> Iterator[Need]:
    by_type = {name: (of.quota_sum, of.train_gpus) for name, of in sums.by_type.items()}
    for gpu_type, (total, room) in (by_type or {"": (sums.quota_sum, sums.train_gpus)}).items():
        if total > room:
            fit = _act(
                "fit",
                "Scale to fit",
                "quotas/fit",
                {"gpu_type": gpu_type},
                f"Lower the quotas of all projects in proportion, until they add up to {count(room, 'GPU')}? Each "
                "change is in the audit trail and can be taken back.",
            )
            yield need_of(
                NeedKind.QUOTAS,
                gpu_type,
                {"over": total - room, "room": room, "of_type": gpu_type or None},
                now,
                name=gpu_type,
                actions=[fit, _page("open", "Change them", "admin")],
            )


def _endings(state: State, now: float) -> Iterator[Need]:
    change = [_page("open", "Change it", "admin")]
    for each in state.endings.values():
        of_rule = each.kind is EndingKind.IDLE_RULE
        subject = each.subject.partition(" ")[2] if of_rule else each.subject
        params = {"what": WORDS[each.kind], "subject": subject, "before": value_before(each)}
        key = f"{each.kind}.{each.subject}.{each.until:.0f}"
        actions = [_page("open", "Change it", "workspaces")] if of_rule else change
        project = each.subject if each.kind not in {EndingKind.PERSON, EndingKind.IDLE_RULE} else ""
        if each.refused:
            yield need_of(
                NeedKind.STAYS,
                key,
                {**params, "detail": each.refused},
                each.until,
                name=subject,
                project=project,
                actions=actions,
            )
        elif each.until - now < SOON:
            yield need_of(
                NeedKind.ENDING,
                key,
                params,
                each.until - SOON,
                name=subject,
                until=each.until,
                project=project,
                actions=actions,
            )


def _requests(transaction: Transaction, settings: EngineSettings) -> Iterator[Need]:
    members = {group.project: group.members for group in transaction.hub_groups.values()}
    context = change_requests.RequestContext(members, settings)
    for record in transaction.change_requests.values():
        if record.pending:
            yield _request(change_requests.view(transaction, record, context))


def _request(asked: wire.ChangeRequestView) -> Need:
    number, path, values = asked.number, f"requests/{asked.number}", has_values(asked.wanted)
    return need_of(
        NeedKind.REQUEST,
        str(number),
        {
            "user": asked.user,
            "what": asked.what,
            "detail": asked.why,
            "present": asked.present,
            "obstacle": asked.obstacle,
            "number": number,
            "values": int(values),
        },
        asked.at,
        name=asked.what,
        user=asked.user,
        project=asked.project,
        actions=[
            NeedAction(
                name="approve",
                words="Approve",
                calls=[NeedCall(path=f"{path}/approve", body={})],
                question=f"Grant {asked.what}?",
                grants=True,
            ),
            NeedAction(
                name="refuse",
                words="Refuse",
                calls=[NeedCall(path=f"{path}/refuse", body={})],
                question=f"Refuse {asked.what}?",
                text="Reason",
            ),
            _page("open", "Other values" if values else "See it", f"admin#request-{number}"),
        ],
    )


def leaver(user: str, jobs: Sequence[str], now: float) -> Need:
    """Return the entry of a person who has left and has these unfinished jobs."""
    return need_of(
        NeedKind.LEAVER,
        user,
        {"user": user, "jobs": len(jobs)},
        now,
        user=user,
        actions=[_page("open", "Release or give them away", "admin"), _cancel(jobs, user)],
    )


def _cancel(jobs: Sequence[str], user: str) -> NeedAction:
    return NeedAction(
        name="cancel",
        words=f"Cancel {count(len(jobs), 'job')}",
        calls=_calls(jobs, "cancel"),
        question=f"Cancel {count(len(jobs[:MOST_AT_ONCE]), 'job')} of {user} for good?",
    )


def _calls(jobs: Sequence[str], what: str) -> list[NeedCall]:
    return [NeedCall(path=f"jobs/{quote(job, safe='')}/{what}") for job in jobs[:MOST_AT_ONCE]]


def _leavers(state: State, now: float) -> Iterator[Need]:
    left = {user.name for user in state.hub_users.values() if user.standing is HubStanding.LEFT}
    jobs: dict[str, list[str]] = {}
    for job in state.jobs.values() if left else ():
        if job.spec.user in left and job.sweep is None:
            jobs.setdefault(job.spec.user, []).append(job.id)
    for user in sorted(jobs):
        yield leaver(user, jobs[user], now)


def _handed_over(state: State) -> Iterator[Need]:
    kept: dict[tuple[str, str], list[tuple[str, Hold, Reason]]] = {}
    for job in state.jobs.values():
        hold, why = job.standing.hold, job.standing.reason
        if hold is not None and hold.by == POOL and why is not None and why.code == messages.CLOSED_TO_OWNER:
            kept.setdefault((job.standing.former, job.spec.user), []).append((job.id, hold, why))
    for (former, user), jobs in sorted(kept.items()):
        ids = [job for job, _, _ in jobs]
        since, detail = min((hold.at, str(why.params.get("detail") or "")) for _, hold, why in jobs)
        yield need_of(
            NeedKind.HANDED_OVER,
            f"{former}.{user}",
            {"former": former, "user": user, "jobs": len(jobs), "detail": detail},
            since,
            name=user,
            user=user,
            actions=[
                NeedAction(name="release", words="Try again", calls=_calls(ids, "release")),
                _page("open", "Give them to another person", "admin"),
                _cancel(ids, user),
            ],
        )


def _drains(state: State, nodes: ObservedNodes, now: float) -> Iterator[Need]:
    places = {gpu.uuid: (node.name, gpu.index) for node in nodes.all for gpu in node.devices}
    for record in state.drains.values():
        yield from _drain(record, record.node, None, now)
    for single in state.gpu_drains.values():
        if single.gpu in places:
            yield from _drain(single, *places[single.gpu], now)


def _drain(record: DrainRecord | GpuDrainRecord, node: str, gpu: int | None, now: float) -> Iterator[Need]:
    if record.until is not None or now - record.since < DRAINED_FOR:
        return
    identity = record.node if isinstance(record, DrainRecord) else record.gpu
    name = node if gpu is None else f"GPU {gpu} of {node}"
    yield need_of(
        NeedKind.DRAIN,
        f"{identity}.{record.since:.0f}",
        {"node": node, "gpu": gpu, "by": record.by, "fault": record.by == POOL, "detail": record.why},
        record.since,
        name=name,
        actions=[
            _act(
                "undrain",
                "Undrain",
                "nodes/undrain",
                {"node": node, "gpu": gpu},
                f"Let jobs start on {name} again?",
            ),
            _page("open", "See the node", "pool"),
        ],
    )


def _tell(need: str, whom: str) -> NeedAction:
    return _act("tell", f"Tell {whom}", "needs/tell", {"id": need})


def _idle_jobs(state: State, facts: Facts) -> Iterator[Need]:
    for job_id, since in facts.idle_jobs.items():
        job = state.jobs.get(job_id)
        if job is not None and job.live is not None:
            yield _idle_job(job, job.live.number, since)


def _idle_job(job: JobRecord, attempt: int, since: float) -> Need:
    spec, key = job.spec, f"{job.id}.{attempt}"
    held = sum(len(worker.gpus) for worker in job.attempts[-1].placement)
    path = f"jobs/{quote(job.id, safe='')}"
    return need_of(
        NeedKind.JOB,
        key,
        {"name": spec.name, "user": spec.user, "gpus": held},
        since,
        name=spec.name or job.id,
        user=spec.user,
        project=spec.project,
        job=job.id,
        actions=[
            _tell(f"{NeedKind.JOB}.{key}", spec.user),
            _act("pause", "Pause", f"{path}/pause", None, "Pause it at its next checkpoint, until it is resumed?"),
            _act("cancel", "Stop", f"{path}/cancel", None, "End it for good?"),
            _page("open", "Open", path),
        ],
    )


def _idle_workspaces(state: State, facts: Facts) -> Iterator[Need]:
    for (user, server), since in facts.idle_workspaces.items():
        record = state.workspaces.get((user, server))
        if record is None or not record.gpus:
            continue
        key = f"{user}/{server}.{record.since:.0f}"
        stop = f"workspaces/{quote(user, safe='')}/stop?{urlencode({'server': server})}"
        yield need_of(
            NeedKind.WORKSPACE,
            key,
            {"user": user, "server": server, "gpus": len(record.gpus)},
            since,
            name=f"{user}/{server}" if server else user,
            user=user,
            actions=[
                _tell(f"{NeedKind.WORKSPACE}.{key}", user),
                _act("stop", "Stop", stop, None, "Stop it? Saved files stay; unsaved changes are lost."),
                _page("open", "See workspaces", "workspaces"),
            ],
        )
