"""One plan: the phases in their order, and the means from the gentlest to the hardest (DESIGN §4, cycle)."""

from __future__ import annotations

from math import inf

from springtide.scheduler.model import Plan
from springtide.scheduler.policy.memo.memo import NoMemo
from springtide.scheduler.policy.phases.backfill import backfill
from springtide.scheduler.policy.phases.elastic import repair_gangs
from springtide.scheduler.policy.phases.limits import enforce_limits
from springtide.scheduler.policy.phases.moving import MoveJobs
from springtide.scheduler.policy.phases.preempting import PreemptJobs
from springtide.scheduler.policy.phases.reclaiming import GrowIntoQuota, ReclaimGpus
from springtide.scheduler.policy.phases.reservations import (
    fulfil_reservations,
    improve_reservations,
    reserve_ahead,
)
from springtide.scheduler.policy.phases.starting import FreeGpus, PostponedGrowth
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.state.cluster_state import ClusterState


def plan(state: ClusterState, memo: NoMemo, now: float) -> Plan:
    """Return what to do at ``now``, in seconds. The state is changed meanwhile, and restored."""
    state.pass_time(now)
    state.update_shares()
    memo.begin_plan(now)
    builder = PlanBuilder(state, memo, now)
    mark = state.mark()
    _run_phases(builder)
    state.roll_back(mark)
    decisions = builder.decisions()
    memo.end_plan(empty=not decisions)
    builder.retry(state.next_back_off_end())
    return Plan(decisions, builder.retry_at if builder.retry_at < inf else None)


def _run_phases(builder: PlanBuilder) -> None:
    fulfil_reservations(builder)
    repair_gangs(builder)
    free = FreeGpus(builder)
    free.serve()
    backfill(builder)
    _free_pausing(builder.state)
    enforce_limits(builder)
    move, reclaim = MoveJobs(builder), ReclaimGpus(builder)
    move.serve()
    improve_reservations(builder, (move, reclaim))
    reclaim.serve()
    GrowIntoQuota(builder).serve()
    PreemptJobs(builder).serve()
    if free.postponed and not builder.frees_gpus and not builder.state.pausing:
        PostponedGrowth(builder, free.postponed).serve()
    reserve_ahead(builder)


def _free_pausing(state: ClusterState) -> None:
    """Count the GPUs of attempts that are stopping as free: from here on, placements are reserved, not started."""
    for job in state.pausing.values():
        state.pool.vacate(job.id, job.placement)
