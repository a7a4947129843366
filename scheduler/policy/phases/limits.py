"""Lowered limits: pause jobs of projects above them (docs/policy.md, The rules and their places)."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.eviction.candidates import VictimCandidates
from springtide.scheduler.policy.eviction.rules import LimitRule
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.state.projects import ProjectNode


def enforce_limits(builder: PlanBuilder) -> None:
    """Pause or shrink preemptible jobs of projects that hold more than their limit, in the victims' order."""
    for project in builder.state.tree.limited:
        beyond = _reserved_in_turn(builder, project)
        held = project.claimed - beyond
        if held <= project.limit:
            continue
        victims: dict[str, Job] = {}
        candidates = VictimCandidates(builder, None, LimitRule(project))
        for unit in candidates.units_in_order():
            builder.take(unit.job, unit.taken, unit.left)
            candidates.usage_changed()
            victims[unit.job.id] = unit.job
            if project.claimed - beyond <= project.limit:
                break
        for job in victims.values():
            keeps = len(builder.workers_planned(job))
            spared = candidates.spared(job)
            why = reasons.above_limit(builder.state, job, project, held=held, keeps=keeps, spared=spared)
            builder.decide_eviction(job, None, why)
        builder.retry(candidates.retry_at)


def _reserved_in_turn(builder: PlanBuilder, project: ProjectNode) -> int:
    """Return the number of GPUs reserved for the job with the turn, which may be beyond the limit for now."""
    job = builder.state.jobs.get(builder.turn or "")
    if job is None or project not in builder.state.leaf_of(job).path:
        return 0
    return len(builder.reserved_for(job)) * job.gpus
