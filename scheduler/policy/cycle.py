"""One plan: the order of the phases, from the gentlest means to the hardest (docs/policy.md, How a plan is made).

Each GPU type is planned separately. A job that accepts several types is tried on each in its order: first within
the quota of its project on any of them, then beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from math import inf

from springtide.scheduler.model import Decision, Drop, Plan
from springtide.scheduler.policy.memo import Memo
from springtide.scheduler.policy.phases.clearing import clear_closing_nodes
from springtide.scheduler.policy.phases.elastic import repair_gangs
from springtide.scheduler.policy.phases.limits import enforce_limits
from springtide.scheduler.policy.phases.moving import MoveJobs
from springtide.scheduler.policy.phases.preempting import PreemptJobs
from springtide.scheduler.policy.phases.reclaiming import GrowIntoQuota, ReclaimGpus
from springtide.scheduler.policy.phases.reservations import (
    ReserveAhead,
    ReserveGuaranteed,
    backfill,
    fulfil_reservations,
    replace_reservations,
    start_elsewhere,
)
from springtide.scheduler.policy.phases.starting import FreeGpus
from springtide.scheduler.policy.phases.turns import ReclaimInTurn, Turns
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.state.cluster_state import ClusterState

ByRank = Sequence[tuple[int | None, PlanBuilder]]
"""Builders, each with the rank of its type among those that the considered jobs accept; None for all jobs."""


def plan(memos: Iterable[Memo], now: float) -> Plan:
    """Return the plan for ``now``, in seconds. The states change during the call and are restored."""
    shared: dict[str, str] = {}
    builders = [PlanBuilder(memo, now, shared) for memo in memos if memo.state.jobs]
    for builder in builders:
        builder.state.pass_time(now)
    if _all_served(builders):
        return _plan_again_at(min((builder.state.next_due() for builder in builders), default=inf))
    for builder in builders:
        builder.state.update_shares()
        builder.memo.begin_plan(now)
    with ExitStack() as trials:
        for builder in builders:
            trials.enter_context(builder.state.undo.trial())
        _run_phases(builders)
    decisions = [decision for builder in builders for decision in builder.decisions()]
    retry_at = min(min(builder.retry_at, builder.state.next_due()) for builder in builders)
    decisions.sort(key=lambda decision: not isinstance(decision, Drop))
    return _plan_again_at(retry_at, decisions)


def _all_served(builders: Iterable[PlanBuilder]) -> bool:
    """Return whether no job is left for which a plan could decide anything."""
    return all(builder.leaves_nothing for builder in builders)


def _may_serve_more(builder: PlanBuilder, decided: int) -> bool:
    """Return whether free GPUs may serve more than their first offer, after which ``decided`` jobs were decided.

    Without a later decision they have no room for anybody else, except for running jobs that want workers: these
    may grow beyond quotas now.
    """
    return bool(builder.state.partial) or len(builder.decided) > decided


def _plan_again_at(at: float, decisions: Iterable[Decision] = ()) -> Plan:
    return Plan(tuple(decisions), at if at < inf else None)


def _run_phases(builders: Sequence[PlanBuilder]) -> None:
    by_rank = _by_rank(builders)
    turns = [Turns(builder) for builder in builders]
    for turn in turns:
        turn.find()
    for builder in builders:
        clear_closing_nodes(builder)
        fulfil_reservations(builder)
        repair_gangs(builder)
    for builder in builders:
        start_elsewhere(builder)
    replace_reservations(builders, FreeGpus)
    if by_rank[-1][0] or any(builder.state.tree.oversubscribed for builder in builders):
        _serve_guaranteed(builders, by_rank)
    for builder in _in_turn(by_rank):
        FreeGpus(builder).serve()
    if _all_served(builders):
        return
    decided = len(builders[0].decided)
    for builder in builders:
        backfill(builder)
        _free_pausing(builder.state)
        enforce_limits(builder)
    for builder in _in_turn(by_rank):
        MoveJobs(builder).serve()
    replace_reservations(builders, MoveJobs, ReclaimGpus, PreemptJobs, ReclaimInTurn)
    for builder in _in_turn(by_rank):
        ReclaimGpus(builder).serve()
        if not builder.rank:
            GrowIntoQuota(builder).serve()
        PreemptJobs(builder).serve()
    for builder in _in_turn(by_rank):
        if builder.is_calm and _may_serve_more(builder, decided):
            FreeGpus(builder, borrowing=True).serve()
    for turn in turns:
        turn.take()
    for builder in _in_turn(by_rank):
        ReserveGuaranteed(builder).serve()
        ReserveAhead(builder).serve()


def _serve_guaranteed(builders: Sequence[PlanBuilder], by_rank: ByRank) -> None:
    """Serve requests within quota, so that no job borrows GPUs of one type while another owes it GPUs.

    Nor does a job borrow GPUs that its parent owes to another child if quotas do not add up.
    """
    for builder in _in_turn(by_rank, guaranteed=True):
        FreeGpus(builder).serve()
    for builder in builders:
        _free_pausing(builder.state)
    for builder in _in_turn(by_rank, guaranteed=True):
        MoveJobs(builder).serve()
        ReclaimGpus(builder).serve()
    for builder in builders:
        for job in builder.state.pausing.values():
            builder.state.pool.occupy(job.id, job.placement)


def _by_rank(builders: Sequence[PlanBuilder]) -> ByRank:
    """Return the builders with the ranks that they consider; the waiting jobs stay the same during a plan.

    If jobs accept several types, each builder comes once for every rank that its type has among the types that
    waiting jobs accept, first ranks first.
    """
    ranks = {builder: builder.state.ranks for builder in builders}
    last = max(map(max, ranks.values()))
    in_order = ((rank, builder) for rank in range(1 + last) for builder in builders if rank in ranks[builder])
    return [(rank if last else None, builder) for rank, builder in in_order]


def _in_turn(by_rank: ByRank, *, guaranteed: bool = False) -> Iterator[PlanBuilder]:
    """Yield the builders, each with the waiting jobs that it considers selected."""
    for rank, builder in by_rank:
        builder.rank, builder.guaranteed = rank, guaranteed
        yield builder


def _free_pausing(state: ClusterState) -> None:
    """Count the GPUs of stopping attempts as free: from here on, placements are reserved, not started."""
    for job in state.pausing.values():
        state.pool.vacate(job.id, job.placement)
