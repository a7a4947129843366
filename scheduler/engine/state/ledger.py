"""The ledger: what a transaction changes of who holds which GPUs, and of the facts of the pool; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from springtide.scheduler.engine.state.borrowing import Borrowing, holds_the_same
from springtide.scheduler.engine.state.lifecycle import RUN_AGAIN
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import limit_of, quota_of
from springtide.scheduler.model import Environment, Project
from springtide.scheduler.store.ledger import (
    WORKSPACE,
    EndedFact,
    FactKey,
    FactKind,
    Held,
    Holding,
    HoldingKey,
    PoolFact,
)
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord
from springtide.scheduler.store.tables import WorkspaceRecord

_GPUS = {Environment.TRAIN: FactKind.GPUS, Environment.BUILD: FactKind.BUILD_GPUS}


def follow(transaction: Transaction) -> None:
    """Add what a transaction changes of held GPUs and quotas to its holdings, facts and entries of the ledger.

    Attempts that end get the spans in which they borrowed. Call it once, when nothing else changes any more.
    """
    _end_attempts(transaction)
    _follow_jobs(transaction)
    for user, server in list(transaction.workspaces.changes):
        _follow_workspace(transaction, user, server)
    if transaction.changes_quotas:
        follow_facts(transaction)


def follow_all(transaction: Transaction) -> None:
    """Add all that is held, and all facts, as they are now: a store may have had no ledger, prices may be new."""
    borrowing = transaction.borrowing()
    for project in {job.spec.project for job in transaction.state.live_jobs()}:
        for job in transaction.live_in(project):
            _put(transaction, job, borrowing)
    for user, server in list(transaction.workspaces):
        _follow_workspace(transaction, user, server)
    follow_facts(transaction)
    if transaction.holdings.changes:
        transaction.require_commit()


# ---------- jobs


def _end_attempts(transaction: Transaction) -> None:
    """Close the holdings of attempts that end."""
    for job in list(transaction.jobs.values()):
        before = transaction.state.jobs.get(job.id)
        live = None if before is None else before.live
        if live is None or (job.live is not None and job.live.number == live.number):
            continue
        ended = next(each for each in job.attempts if each.number == live.number)
        end = transaction.now if ended.ended is None else ended.ended
        _put_wait(transaction, job, ended)
        holding = _close(transaction, _key(ended), end, ended=ended.state.value, lost=lost_work(ended))
        if holding is not None:
            transaction.put_job(job.with_attempt(structs.replace(ended, borrowing=holding.borrowed(end))))


def _follow_jobs(transaction: Transaction) -> None:
    """Follow the jobs that begin to hold GPUs or hold others, and those that borrow more or less by that."""
    changed = [(transaction.state.jobs.get(job.id), job) for job in transaction.jobs.values()]
    moved = {job.spec.project for before, job in changed if not _is_held_alike(before, job)}
    if transaction.changes_quotas:
        moved |= transaction.state.live_by_project.keys()
    for before, job in changed:
        if job.live is not None and job.spec.project not in moved and _started(before) != _started(job):
            _put_wait(transaction, job, job.live)
    if not moved:
        return
    borrowing = transaction.borrowing()
    for project in moved:
        for job in list(_whose_borrowing_changes(transaction, project, borrowing)):
            _put(transaction, job, borrowing)


def _whose_borrowing_changes(transaction: Transaction, project: str, borrowing: Borrowing) -> Iterator[JobRecord]:
    """Yield the changed live jobs of a project, and those from where its quotas ended to where they end now."""
    changed = [job for job in transaction.jobs.values() if job.spec.project == project and job.live is not None]
    yield from changed
    live = transaction.state.live_by_project.get(project)
    if live is None:
        return
    former, types = transaction.state.borrowing(), {job.attempts[-1].gpu_type for job in changed}
    for gpu_type in types.union(transaction.types.train or ("",), transaction.state.types.train):
        ends = former.bound(project, gpu_type), borrowing.bound(project, gpu_type)
        if ends[0] != ends[1]:
            orders = [end[0] for end in ends if end is not None]
            last = max(orders) if None not in ends else None
            between = live.irange_key(min(orders), last)
            yield from (
                job for job in between if job.id not in transaction.jobs and job.attempts[-1].gpu_type == gpu_type
            )


def _is_held_alike(before: JobRecord | None, job: JobRecord) -> bool:
    """Return whether nothing changes of what a job holds, and for whom."""
    return holds_the_same(before, job) and (before is None or before.spec.user == job.spec.user)


def _started(job: JobRecord | None) -> float | None:
    return None if job is None or job.live is None else job.live.started


def _put(transaction: Transaction, job: JobRecord, borrowing: Borrowing) -> None:
    """Follow what a live job holds, unless it holds no GPUs."""
    attempt = job.attempts[-1]
    if not attempt.gpus:
        return
    key, borrowed, price = _key(attempt), borrowing.of(job), transaction.state.prices.get(attempt.gpu_type)
    present = transaction.holdings.get(key)
    if present is None:
        present = Holding(*key, 0.0, None, ())
    elif job.id not in transaction.jobs and _same(present.pieces[-1].held, borrowed, price):
        return
    held = Held(
        project=job.spec.project,
        user=job.spec.user,
        kind=job.workload.name.lower(),
        gpu_type=attempt.gpu_type,
        nodes=_nodes(attempt),
        borrowed=borrowed,
        price=price,
    )
    after = present.held_from(transaction.now if present.pieces else attempt.created, held)
    if after is not present:
        transaction.holdings.put(after)
    _put_wait(transaction, job, attempt)


def _same(held: Held, borrowed: int, price: float | None) -> bool:
    return held.borrowed == borrowed and held.price == price


def _put_wait(transaction: Transaction, job: JobRecord, attempt: AttemptRecord) -> None:
    """Note how long a job has waited for its first start, if that is the start of this attempt."""
    present, wait = transaction.holdings.get(_key(attempt)), _wait(job, attempt)
    if present is not None and present.wait != wait:
        transaction.holdings.put(replace(present, wait=wait))


def _wait(job: JobRecord, attempt: AttemptRecord) -> float | None:
    if attempt.started is None or job.standing.started != attempt.started:
        return None
    return max(0.0, attempt.started - job.spec.submitted)


def lost_work(attempt: AttemptRecord) -> float:
    """Return the GPU-seconds since the last known checkpoint of an attempt that was paused or lost."""
    if attempt.state not in {AttemptState.PAUSED, AttemptState.LOST} or attempt.exit_code == RUN_AGAIN:
        return 0.0
    if attempt.started is None or attempt.ended is None:
        return 0.0
    saved = attempt.started if attempt.saved is None else max(attempt.started, attempt.saved)
    return max(0.0, attempt.ended - saved) * attempt.gpus


def _nodes(attempt: AttemptRecord) -> Mapping[str, int]:
    nodes: Counter[str] = Counter()
    for worker in attempt.placement:
        nodes[worker.node] += len(worker.gpus)
    return dict(nodes)


def _key(attempt: AttemptRecord) -> HoldingKey:
    return (attempt.job, attempt.number, "", "")


# ---------- workspaces


def _follow_workspace(transaction: Transaction, user: str, server: str) -> None:
    """Follow what a workspace holds; another reservation of the same name is another holding."""
    key: HoldingKey = ("", 0, user, server)
    present, record = transaction.holdings.get(key), transaction.workspaces.get((user, server))
    if present is not None and (record is None or not record.gpus or record.since != present.since):
        _close(transaction, key, transaction.now)
        present = None
    if record is None or not record.gpus:
        return
    if present is None:
        present = Holding(*key, record.since, None, ())
    held = _held_by(record, transaction.state.prices)
    after = present.held_from(transaction.now if present.pieces else min(record.since, transaction.now), held)
    if after is not present:
        transaction.holdings.put(after)


def _held_by(record: WorkspaceRecord, prices: Mapping[str, float]) -> Held:
    return Held(
        project="",
        user=record.user,
        kind=WORKSPACE,
        gpu_type=record.gpu_type,
        nodes={record.node: len(record.gpus)},
        price=prices.get(record.gpu_type),
    )


def _close(
    transaction: Transaction, key: HoldingKey, end: float, *, ended: str = "", lost: float = 0.0
) -> Holding | None:
    """Make entries of a holding that has ended, and return it."""
    holding = transaction.holdings.get(key)
    if holding is not None:
        first = transaction.state.last_entry + len(transaction.entries) + 1
        transaction.entries += holding.entries(end, ended=ended, lost=lost, first_id=first)
        transaction.holdings.remove(key)
    return holding


# ---------- facts


def follow_facts(transaction: Transaction) -> None:
    """Follow the quotas and limits of projects, the GPUs of the pool and their prices, by GPU type."""
    found, now = _facts(transaction), transaction.now
    for key, fact in list(transaction.pool_facts.items()):
        if key in found and found[key] == fact.value:
            del found[key]
            continue
        number = transaction.state.last_fact + len(transaction.ended_facts) + 1
        ended = EndedFact(number, fact.kind, fact.project, fact.gpu_type, fact.value, fact.since, now)
        if now > fact.since:
            transaction.ended_facts.append(ended)
        if key not in found:
            transaction.pool_facts.remove(key)
    for (kind, project, gpu_type), value in found.items():
        transaction.pool_facts.put(PoolFact(kind, project, gpu_type, value, now))


def _own_quotas(transaction: Transaction, types: Sequence[str]) -> Iterator[tuple[FactKey, float | None]]:
    """Yield the parts of quotas that no project inside has, of projects that have some inside."""
    inside: dict[str, list[Project]] = defaultdict(list)
    present = transaction.present_projects()
    for project in present.values():
        if project.parent is not None:
            inside[project.parent].append(project)
    for name, projects in inside.items():
        parent = present.get(name)
        if parent is None:
            continue
        for gpu_type in types:
            quota = quota_of(parent, gpu_type, types)
            passed_on = [quota_of(each, gpu_type, types) for each in projects]
            if quota is not None:
                quota = 0 if None in passed_on else max(0, quota - sum(each or 0 for each in passed_on))
            yield (FactKind.OWN_QUOTA, name, gpu_type), quota


def _facts(transaction: Transaction) -> dict[FactKey, float | None]:
    types = transaction.types.train or ("",)
    found: dict[FactKey, float | None] = {}
    for name, project in transaction.present_projects().items():
        for gpu_type in types:
            found[FactKind.QUOTA, name, gpu_type] = quota_of(project, gpu_type, types)
            found[FactKind.LIMIT, name, gpu_type] = limit_of(project, gpu_type, types)
    found.update(_own_quotas(transaction, types))
    gpus: Counter[FactKey] = Counter()
    for node in transaction.nodes.all:
        if node.gpus:
            gpus[_GPUS[node.environment], "", node.gpu_type] += node.gpus
    prices = {(FactKind.PRICE, "", gpu_type): price for gpu_type, price in transaction.state.prices.items()}
    return {**found, **gpus, **prices}
