"""Which waiting jobs start, and what keeps others from it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from pools.small_pools import NODE, NOW, kinds, on, plan, pool, running, waiting

from springtide.scheduler.model import Node, Phase, Project
from springtide.scheduler.policy import Planner


class TestStarting:
    def test_a_job_starts_on_the_lowest_free_gpus(self):
        decided = plan(running("r", "a", on("dgx", 0, 2)), waiting("w", "a", 2))

        assert [decision.placement for decision in decided.decisions] == [on("dgx", 1, 3)]

    def test_gpus_that_something_else_uses_are_left_alone(self):
        node = replace(NODE, taken=frozenset({0, 1}))

        decided = plan(waiting("w", "a", 2), nodes=(node,))

        assert decided.decisions[0].placement == on("dgx", 2, 3)

    def test_a_job_goes_to_the_fullest_node_that_holds_it(self):
        nodes = (Node("n1", 8), Node("n2", 8), Node("n3", 8))

        decided = plan(running("r", "a", on("n2", 0, 1, 2, 3)), waiting("w", "a", 3), nodes=nodes)

        assert decided.decisions[0].placement[0].node == "n2"

    def test_a_gang_starts_as_a_whole_or_not_at_all(self):
        gang = waiting("gang", "a", 2, 4)

        assert kinds(plan(gang)) == [("Start", "gang")]
        assert kinds(plan(gang, running("r", "b", on("dgx", 0)))) == []

    def test_nothing_starts_on_a_node_that_is_not_available(self):
        assert not plan(waiting("w", "a"), nodes=(replace(NODE, available=False),)).decisions

    def test_a_job_waits_for_its_back_off_and_the_plan_says_until_when(self):
        decided = plan(waiting("w", "a", not_before=NOW + 30))

        assert not decided.decisions
        assert decided.wake_at == NOW + 30
        assert kinds(plan(waiting("w", "a", not_before=NOW + 30), now=NOW + 30)) == [("Start", "w")]

    def test_a_job_that_its_user_paused_asks_for_nothing(self):
        snapshot = pool(waiting("w", "a", phase=Phase.HELD))

        assert not Planner(snapshot).plan(NOW).decisions
        assert Planner(snapshot).standing()["a"].request == 0

    def test_an_elastic_job_starts_with_all_the_workers_that_fit(self):
        decided = plan(running("r", "b", on("dgx", 0, 1, 2)), waiting("w", "a", 2, 6, min_workers=1))

        assert [len(decision.placement) for decision in decided.decisions] == [2]

    def test_a_running_elastic_job_grows_onto_idle_gpus(self):
        decided = plan(running("e", "a", on("dgx", 0, 1), workers=3, min_workers=1))

        assert kinds(decided) == [("Move", "e")]
        assert [worker.rank for worker in decided.decisions[0].placement] == [0, 1, 2]
        assert decided.decisions[0].placement[0].gpus == (0, 1)

    def test_a_job_that_is_not_preemptible_keeps_the_workers_that_it_started_with(self):
        assert not plan(running("e", "a", on("dgx", 0), workers=3, min_workers=1, preemptible=False)).decisions

    def test_growth_comes_after_waiting_jobs_of_the_project(self):
        elastic = running("e", "a", on("dgx", 0, 1, 2, 3), workers=2, min_workers=1)

        assert kinds(plan(elastic, waiting("w", "a", 4))) == [("Start", "w")]


class TestGates:
    @pytest.mark.parametrize("above", [False, True])
    def test_nobody_exceeds_a_limit_of_the_project_or_of_one_above_it(self, above):
        projects = (
            Project("top", quota=8, limit=2 if above else None),
            Project("a", "top", limit=None if above else 2),
        )

        assert not plan(waiting("w", "a", 3), projects=projects).decisions
        assert plan(waiting("w", "a", 2), projects=projects).decisions

    def test_gpus_of_stopping_attempts_count_towards_the_limit(self):
        stopping = replace(running("p", "a", on("dgx", 0, 1)), phase=Phase.PAUSING)

        decided = plan(stopping, waiting("w", "a"), projects=(Project("a", quota=2, limit=2),))

        assert ("Start", "w") not in kinds(decided)

    def test_jobs_that_are_not_preemptible_stay_within_the_quota_together(self):
        firm = running("f", "a", on("dgx", 0, 1, 2), preemptible=False)

        assert plan(firm, waiting("w", "a", 1, preemptible=False)).decisions
        assert not plan(firm, waiting("w", "a", 2, preemptible=False)).decisions
        assert plan(firm, waiting("w", "a", 2)).decisions
