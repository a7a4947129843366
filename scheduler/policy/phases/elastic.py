"""Gangs with fewer workers than they want: growth of elastic jobs, and repair of gangs that lost workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from springtide.scheduler.model import Job, Pause, Phase, Placement
from springtide.scheduler.policy import gang_placement, reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.phases.precedence import outranked
from springtide.scheduler.policy.plan_builder import PlanBuilder, Proposal
from springtide.scheduler.policy.state.nodes import workers_of
from springtide.scheduler.policy.state.projects import ProjectNode


def growing_jobs(
    builder: PlanBuilder, suitable: Callable[[ProjectNode, Job], bool]
) -> Iterator[tuple[ProjectNode, Job]]:
    """Yield the suitable running jobs that may restart with more workers.

    Their present workers must be able to stay. A job does not grow while a more urgent job of its project waits,
    nor within its minimum run time.
    """
    state = builder.state
    for leaf, job in builder.undecided(sorted(state.partial.values(), key=lambda job: job.project)):
        if (
            job.preemptible
            and suitable(leaf, job)
            and not outranked(state, job)
            and not builder.is_shrunk(job)
            and builder.may_restart(job)
            and state.pool.can_stay(job, job.placement)
        ):
            protected = builder.protected_until(job)
            builder.retry(protected)
            if protected <= builder.now:
                yield leaf, job


def one_more_worker(builder: PlanBuilder, job: Job, workers: Placement) -> tuple[Job, int]:
    """Return a job that requests one more worker beside ``workers``, and the nodes for it."""
    node = builder.state.pool.by_name[workers[0].node].node
    asks = replace(
        job,
        workers=1,
        min_workers=1,
        gpu_types=(node.gpu_type,),
        require=None,
        prefer=None,
        phase=Phase.WAITING,
        placement=(),
    )
    return asks, gang_placement.nodes_for_growth(builder.state.pool, job, workers)


def repair_gangs(builder: PlanBuilder) -> None:
    """Replace the lost workers of gangs, or pause the gangs: they run with enough workers or not at all."""
    state = builder.state
    incomplete = (job for job in state.partial.values() if len(job.placement) < job.min_workers)
    for job in sorted(incomplete, key=lambda job: job.id):
        leaf = state.tree.leaves.get(job.project)
        missing = job.min_workers - len(job.placement)
        allocation = gang_placement.place_more(state.pool, job, job.placement, missing)
        allowed = leaf is not None and admission.may_start(leaf, job, missing * job.gpus)
        if leaf is not None and allowed and allocation is not None and state.pool.can_stay(job, job.placement):
            more = workers_of(allocation, len(job.placement))
            why = reasons.gets_workers("gang-mended", job, job.placement + more)
            builder.accept(leaf, Proposal(job, more, why, grows=True))
        else:
            why = reasons.of("gang-broken", job, workers=len(job.placement), min_workers=job.min_workers)
            builder.decide(job, Pause(job.id, None, why))
