"""Lowered limits: pause the jobs that a project holds beyond its limit (DESIGN §1, limit)."""

from __future__ import annotations

from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.preemption.candidates import SearchCache, VictimCandidates
from springtide.scheduler.policy.preemption.eviction_units import TentativeEvictions
from springtide.scheduler.policy.preemption.rules import LimitRule
from springtide.scheduler.policy.state.projects import ProjectNode


def enforce_limits(builder: PlanBuilder) -> None:
    """Pause or shrink preemptible jobs of projects that hold more than their limit, in the victims' order."""
    for project in builder.state.tree.limited:
        if project.claimed > project.limit:
            _evict_beyond_limit(builder, project)


def _evict_beyond_limit(builder: PlanBuilder, project: ProjectNode) -> None:
    held = project.claimed
    tentative = TentativeEvictions(builder)
    rule = LimitRule(project)
    candidates = VictimCandidates(builder, tentative, None, rule, SearchCache())
    while project.claimed > project.limit and (unit := candidates.next_unit()) is not None:
        tentative.take(unit)
        candidates.usage_changed()
    evictions = tentative.evictions(rule.reason_code)
    tentative.undo()
    for eviction in evictions:
        why = reasons.above_limit(builder.state, eviction.job, project, held=held, keeps=len(eviction.left))
        builder.evict(eviction, why)
    builder.retry(candidates.retry_at)
