"""One plan: start what fits, then make room by moving, reclaiming and preempting."""

from __future__ import annotations

from math import inf

from springtide.scheduler.model import Drop, Job, Move, Pause, Plan
from springtide.scheduler.policy import gates, placement, reasons
from springtide.scheduler.policy.backfill import backfill
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.pool import workers_of
from springtide.scheduler.policy.promising import is_promise, promise
from springtide.scheduler.policy.room import Room
from springtide.scheduler.policy.starting import Starting
from springtide.scheduler.policy.state import State
from springtide.scheduler.policy.tree import Seat


def plan(state: State, now: float) -> Plan:
    """What to do at ``now``. The state is changed on the way, and put back."""
    state.pass_time(now)
    state.share_out()
    desk = Desk(state, now)
    pool_mark, tree_mark = state.pool.mark(), state.tree.mark()
    _fulfil(desk)
    _mend(desk)
    starting = Starting(desk)
    starting.run()
    backfill(desk)
    Room(desk).run()
    starting.grow_after_all()
    promise(desk)
    state.pool.back_to(pool_mark)
    state.tree.back_to(tree_mark)
    decisions = desk.decisions()
    if decisions:
        state.loosened = True
    else:
        state.loosened = False
        state.touched.clear()
    times = [*desk.wake, *(at for at in (state.next_line_up(),) if at is not None)]
    return Plan(decisions, min((at for at in times if now < at < inf), default=None))


def _fulfil(desk: Desk) -> None:
    """Start the jobs whose reserved GPUs are free by now; let go of reservations that cannot be met."""
    for job in sorted(desk.state.awaiting.values(), key=lambda each: each.id):
        if not desk.state.pool.usable(job.reserved):
            desk.decide(job, Drop(job.id, reasons.node_gone(job)))
        elif job.not_before > desk.now:
            desk.wake.append(job.not_before)
        else:
            _fulfil_one(desk, job)


def _fulfil_one(desk: Desk, job: Job) -> None:
    state = desk.state
    leaf = state.tree.leaves.get(job.project)
    gpus = len(job.reserved) * job.gpus
    if leaf is None:
        return
    if not state.pool.vacant(job.reserved):
        _keep_promise(desk, leaf, job)
        return
    mark = state.tree.mark()
    state.tree.count(leaf, claimed=-gpus, firm=0 if job.preemptible else -gpus)
    if gates.refusal(leaf, job, gpus) is not None:
        desk.decide(job, Drop(job.id, reasons.refused_meanwhile(job)))
        desk.release(job)
        return
    if not gates.held_within_limit(leaf, gpus):
        state.tree.back_to(mark)
        return
    state.pool.unreserve(job.reserved)
    desk.start(leaf, job, job.reserved, reasons.fulfilled(job))


def _keep_promise(desk: Desk, leaf: Seat, job: Job) -> None:
    """Start a job elsewhere for which GPUs were set aside that others still use, or take the promise back."""
    state = desk.state
    if not is_promise(state, job):
        return
    gpus = len(job.reserved) * job.gpus
    lost = not gates.within_entitlement(leaf, 0)
    mark = state.tree.mark()
    state.tree.count(leaf, claimed=-gpus, firm=0 if job.preemptible else -gpus)
    if lost or gates.refusal(leaf, job, gpus) is not None:
        desk.decide(job, Drop(job.id, reasons.refused_meanwhile(job)))
        desk.release(job)
        return
    parts = placement.find(state.pool, job, job.min_workers)
    if parts is None or not gates.held_within_limit(leaf, gpus):
        state.tree.back_to(mark)
        return
    desk.release(job)
    desk.start(leaf, job, workers_of(parts), reasons.started(job, leaf))


def _mend(desk: Desk) -> None:
    """A gang that has lost workers gets others, or stops: it runs with enough workers or not at all."""
    state = desk.state
    for job in sorted(state.broken.values(), key=lambda each: each.id):
        leaf = state.tree.leaves.get(job.project)
        missing = job.min_workers - len(job.placement)
        need = missing * job.gpus
        parts = None
        allowed = leaf is not None and not gates.refusal(leaf, job, need) and gates.held_within_limit(leaf, need)
        if allowed and state.pool.keepable(job.placement):
            parts = placement.find_beside(state.pool, job, job.placement, missing)
        if parts is None or leaf is None:
            desk.decide(job, Pause(job.id, None, reasons.broken(job)))
            continue
        more = workers_of(parts, len(job.placement))
        desk.occupy(leaf, job, more)
        whole = placement.ranked(job.placement + more)
        desk.decide(job, Move(job.id, whole, None, reasons.mended(job, whole)))
