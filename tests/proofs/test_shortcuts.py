"""Shortcuts of the policy change no plan: random histories with them and without.

A plan may end before its last phase, or offer free GPUs once, a search for victims may end before it looks at
nodes, a record that differs in estimates alone moves one job, and one that requests as much as before no share.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from histories.living import live_through
from msgspec import structs

from springtide.scheduler.model import Change, Job, JobChanged, Phase, Plan, Snapshot, Surplus
from springtide.scheduler.policy import Planner, cycle
from springtide.scheduler.policy.eviction.search import VictimSearch
from springtide.scheduler.policy.plan_builder import PlanBuilder

STEPS = 120
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"grouped": True},
    {"typed": True},
    {"surplus": Surplus.LEAST_SERVED},
    {"known": True},
)


class Shadowed(Planner):
    """A planner with a second one beside it that hears all changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.shadow = Planner(snapshot)

    def apply(self, change: Change) -> None:
        super().apply(change)
        self.shadow.apply(change)


class CompletelyPlanned(Shadowed):
    """Plans with all phases, too; ``short`` counts the plans that ended before."""

    short = 0

    def plan(self, now: float) -> Plan:
        plan = super().plan(now)
        ends: list[bool] = []
        all_served = cycle._all_served

        def observed(builders: Sequence[PlanBuilder]) -> bool:
            ends.append(all_served(builders))
            return not builders

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cycle, "_all_served", observed)
            complete = self.shadow.plan(now)
        type(self).short += any(ends)
        assert plan.decisions == complete.decisions
        assert plan.decisions or plan.wake_at == complete.wake_at
        return plan


class OfferedTwice(Shadowed):
    """Offers free GPUs twice in each plan, too; ``spared`` counts the plans that offered them once."""

    spared = 0

    def plan(self, now: float) -> Plan:
        plan = super().plan(now)
        offers: list[bool] = []
        may_serve_more = cycle._may_serve_more

        def observed(builder: PlanBuilder, decided: int) -> bool:
            offers.append(may_serve_more(builder, decided))
            return True

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cycle, "_may_serve_more", observed)
            complete = self.shadow.plan(now)
        type(self).spared += not all(offers)
        assert plan == complete
        return plan


class OftenDivided(Shadowed):
    """Divides all shares before each plan, too; ``kept`` counts the plans that took the last ones."""

    kept = 0

    def plan(self, now: float) -> Plan:
        for state in self.shadow._states.values():
            type(self).kept += not state.tree.dirty
            state.tree.dirty = True
            for project in (*state.tree.project_nodes.values(), *state.tree.leaves.values()):
                project.dirty = True
        plan = super().plan(now)
        assert plan == self.shadow.plan(now)
        assert self.standing() == self.shadow.standing()
        return plan


class OftenRenewed(Shadowed):
    """Hears new estimates of jobs and takes them back before each plan; ``renewed`` counts them."""

    renewed = 0

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.live = {job.id: job for job in snapshot.jobs}
        self.draw = random.Random(len(snapshot.nodes))

    def apply(self, change: Change) -> None:
        super().apply(change)
        if isinstance(change, JobChanged):
            self.live[change.job.id] = change.job

    def plan(self, now: float) -> Plan:
        for job in [job for job in self.live.values() if job.id in self._jobs][-8:]:
            for record in (self._renewed(job, now), job):
                assert job.is_renewed(record)
                Planner.apply(self, JobChanged(record))
                type(self).renewed += 1
        plan = super().plan(now)
        assert plan == self.shadow.plan(now)
        return plan

    def _renewed(self, job: Job, now: float) -> Job:
        saved = now if job.phase is Phase.RUNNING else None
        return structs.replace(job, usual_runtime=self.draw.choice([None, 60.0, 1e6]), saved=saved)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_plan_that_ends_early_is_the_one_of_all_phases(kind, first_seed):
    CompletelyPlanned.short = 0
    for seed in range(first_seed, first_seed + 2):
        live_through(seed, STEPS, CompletelyPlanned, **kind)

    assert CompletelyPlanned.short > 20


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_free_gpus_that_are_offered_again_without_a_decision_serve_nobody(kind, first_seed):
    OfferedTwice.spared = 0
    for seed in range(first_seed, first_seed + 2):
        live_through(seed, STEPS, OfferedTwice, **kind)

    assert OfferedTwice.spared > 20


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_shares_that_are_kept_are_those_of_another_division(kind, first_seed):
    OftenDivided.kept = 0
    for seed in range(first_seed, first_seed + 2):
        live_through(seed, STEPS, OftenDivided, **kind)

    assert OftenDivided.kept > 20


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_estimates_that_are_taken_back_leave_no_trace(kind, first_seed):
    OftenRenewed.renewed = 0
    for seed in range(first_seed, first_seed + 2):
        live_through(seed, STEPS, OftenRenewed, **kind)

    assert OftenRenewed.renewed > 500


def test_a_search_that_is_hopeless_finds_nothing_now_or_later(first_seed, monkeypatch):
    hopeless = VictimSearch._is_hopeless
    found = []

    def checked(search: VictimSearch) -> bool:
        ends = hopeless(search)
        if ends:
            monkeypatch.setattr(VictimSearch, "_is_hopeless", lambda _search: False)
            found.append(search.solve())
            assert search.retry_at == inf
            monkeypatch.setattr(VictimSearch, "_is_hopeless", checked)
        return ends

    monkeypatch.setattr(VictimSearch, "_is_hopeless", checked)
    for seed in range(first_seed, first_seed + 4):
        for kind in KINDS:
            live_through(seed, STEPS, **kind)

    assert len(found) > 5
    assert not any(found)
