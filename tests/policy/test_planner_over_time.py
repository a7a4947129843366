"""A planner that hears of changes plans as one that knew at once, and comes to rest."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs
from pools.small_pools import NOW, ROTATING, on, plan, pool, running, waiting

from springtide.scheduler.model import (
    Change,
    JobChanged,
    JobRemoved,
    NodesChanged,
    Pause,
    Phase,
    ProjectsChanged,
    Reserve,
)
from springtide.scheduler.policy import Planner


class TestChanges:
    def test_a_planner_that_learnt_by_and_by_plans_as_one_that_knew_at_once(self):
        end = pool(
            running("r", "b", on("dgx", *range(6))),
            waiting("w", "a", 4),
            waiting("x", "b", 2, served=9000.0),
            settings=ROTATING,
        )
        planner = Planner(
            pool(waiting("gone", "a"), waiting("w", "a", 1), nodes=(), quotas={"z": 1}, settings=ROTATING)
        )
        changes: tuple[Change, ...] = (
            NodesChanged(end.nodes),
            ProjectsChanged(end.projects),
            JobRemoved("gone"),
            *(JobChanged(job) for job in reversed(end.jobs)),
        )
        for change in changes:
            planner.apply(change)
            planner.plan(NOW)

        assert planner.plan(NOW) == Planner(end).plan(NOW)
        assert planner.standing() == Planner(end).standing()

    def test_planning_changes_nothing(self):
        planner = Planner(
            pool(running("r", "b", on("dgx", *range(8))), waiting("w", "a", 4), waiting("x", "a", 8))
        )

        assert planner.plan(NOW) == planner.plan(NOW)

    def test_the_plan_does_not_depend_on_the_order_of_the_snapshot(self):
        snapshot = pool(
            running("r", "b", on("dgx", *range(4))),
            waiting("w", "a", 4),
            waiting("x", "a", 8),
            waiting("y", "b", 1),
        )
        turned = replace(snapshot, jobs=snapshot.jobs[::-1], projects=snapshot.projects[::-1])

        assert Planner(turned).plan(NOW) == Planner(snapshot).plan(NOW)

    def test_place_counts_those_before_in_the_project(self):
        planner = Planner(
            pool(
                waiting("late", "a", 8, submitted=5.0),
                waiting("early", "a", 4, submitted=1.0),
                waiting("high", "a", 2, priority=75, submitted=9.0),
                waiting("elsewhere", "b", submitted=0.0),
                running("r", "b", on("dgx", 0)),
            )
        )

        assert [planner.position(name) for name in ("high", "early", "late", "elsewhere", "r", "nobody")] == [
            1,
            2,
            3,
            1,
            None,
            None,
        ]

    def test_a_reservation_and_its_victims_come_to_rest(self):
        decided = plan(running("r", "b", on("dgx", *range(8))), waiting("w", "a", 4))
        reserve = decided.decisions[1]
        assert isinstance(reserve, Reserve)
        assert isinstance(decided.decisions[0], Pause)
        stopping = structs.replace(running("r", "b", on("dgx", *range(8))), phase=Phase.PAUSING)

        after = plan(stopping, waiting("w", "a", 4, reserved=reserve.placement))

        assert not after.decisions
