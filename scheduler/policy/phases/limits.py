"""Lowered limits: pause the jobs that a project holds beyond its limit (DESIGN §1, limit)."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.preemption.candidates import SearchCache, VictimCandidates
from springtide.scheduler.policy.preemption.rules import LimitRule


def enforce_limits(builder: PlanBuilder) -> None:
    """Pause or shrink preemptible jobs of projects that hold more than their limit, in the victims' order."""
    for project in builder.state.tree.limited:
        held = project.claimed
        if held <= project.limit:
            continue
        victims: dict[str, Job] = {}
        candidates = VictimCandidates(builder, None, LimitRule(project), SearchCache())
        while project.claimed > project.limit and (unit := candidates.next_unit()) is not None:
            builder.take(unit.job, unit.taken, unit.left)
            candidates.usage_changed()
            victims[unit.job.id] = unit.job
        for job in victims.values():
            keeps = len(builder.workers_left(job))
            why = reasons.above_limit(builder.state, job, project, held=held, keeps=keeps)
            builder.decide_eviction(job, None, why)
        builder.retry(candidates.retry_at)
