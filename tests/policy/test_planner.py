"""What the policy decides, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from springtide.scheduler.model import (
    Drop,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    Node,
    NodesChanged,
    Order,
    Pause,
    Phase,
    Project,
    ProjectsChanged,
    Reserve,
    Settings,
    Snapshot,
    Start,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.lines import SERVICE_STEP
from springtide.scheduler.policy.reasons import render

NOW = 10_000.0
NODE = Node("dgx", 8)
CALM = Settings(order=Order.FIRST_COME)
ROTATING = Settings(order=Order.LEAST_SERVED)


def on(node, *gpus: int, rank=0):
    return (Worker(rank, node, gpus),)


def running(name, project, placement, started=0.0, **more: Any):
    gpus = len(placement[0].gpus)
    return Job(
        name,
        project,
        name=name,
        gpus=gpus,
        workers=more.pop("workers", len(placement)),
        min_workers=more.pop("min_workers", len(placement)),
        phase=Phase.RUNNING,
        placement=placement,
        started=started,
        submitted=started,
        **more,
    )


def waiting(name, project, gpus=1, workers=1, **more: Any):
    more = {"min_workers": workers, "submitted": NOW, **more}
    return Job(name, project, name=name, gpus=gpus, workers=workers, **more)


def pool(*jobs: Job, nodes=(NODE,), quotas=None, settings=CALM, projects=None):
    projects = projects or tuple(
        Project(name, quota=quota, age=age)
        for age, (name, quota) in enumerate((quotas or {"a": 4, "b": 4}).items())
    )
    return Snapshot(NOW, tuple(nodes), projects, jobs, settings)


def plan(*jobs: Job, now=NOW, **more: Any):
    return Planner(pool(*jobs, **more)).plan(now)


def kinds(decided):
    return [(type(decision).__name__, decision.job) for decision in decided.decisions]


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

    def test_growth_comes_after_waiting_jobs_of_the_project(self):
        elastic = running("e", "a", on("dgx", 0, 1, 2, 3), workers=2, min_workers=1)

        assert kinds(plan(elastic, waiting("w", "a", 4))) == [("Start", "w")]


class TestPlacement:
    RACKS = tuple(Node(f"n{i}", 4, labels={"rack": f"r{i // 2}", "zone": "z"}) for i in range(4))

    def test_a_gang_sits_in_the_tightest_domain_that_holds_it(self):
        blocker = running("r", "b", on("n0", 0))

        decided = plan(blocker, waiting("gang", "a", 4, 2), nodes=self.RACKS)

        assert {worker.node for worker in decided.decisions[0].placement} == {"n2", "n3"}

    def test_a_required_level_is_not_given_up(self):
        blockers = (running("r0", "b", on("n0", 0)), running("r2", "b", on("n2", 0)))
        gang = waiting("gang", "a", 4, 2)

        assert kinds(plan(*blockers, gang, nodes=self.RACKS)) == [("Start", "gang")]
        demanding = replace(gang, require="rack", preemptible=True)
        assert ("Start", "gang") not in kinds(
            plan(*blockers, demanding, nodes=self.RACKS, quotas={"a": 0, "b": 8})
        )

    def test_a_gang_does_not_mix_gpu_types_and_takes_its_first_choice(self):
        nodes = (Node("v1", 4, "v100"), Node("h1", 4, "h100"), Node("h2", 4, "h100"))

        one = plan(waiting("w", "a", 4, gpu_types=("h100",)), nodes=nodes).decisions[0]
        gang = plan(waiting("gang", "a", 4, 2), nodes=nodes).decisions[0]
        none = plan(waiting("big", "a", 4, 3), nodes=nodes)

        assert one.placement[0].node == "h1"
        assert {worker.node for worker in gang.placement} == {"h1", "h2"}
        assert not none.decisions

    def test_a_worker_gets_gpus_with_a_fast_link_between_them(self):
        node = replace(NODE, islands=((0, 1, 2, 3), (4, 5, 6, 7)))

        decided = plan(running("r", "b", on("dgx", 0)), waiting("w", "a", 4), nodes=(node,))

        assert decided.decisions[0].placement == on("dgx", 4, 5, 6, 7)

    def test_a_gang_that_requires_an_island_waits_for_one(self):
        node = replace(NODE, islands=((0, 1, 2, 3), (4, 5, 6, 7)))
        blockers = (running("x", "b", on("dgx", 0)), running("y", "b", on("dgx", 4)))

        gang = waiting("gang", "a", 2, 2, require="island")

        assert kinds(plan(blockers[0], gang, nodes=(node,))) == [("Start", "gang")]
        assert kinds(plan(*blockers, gang, nodes=(node,))) == []


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


class TestReclaiming:
    def test_a_borrowed_job_is_paused_only_together_with_the_reservation_it_makes_possible(self):
        decided = plan(running("r", "b", on("dgx", *range(8))), waiting("w", "a", 4))

        assert kinds(decided) == [("Pause", "r"), ("Reserve", "w")]
        assert decided.decisions[0].beneficiary == "w"
        assert render(decided.decisions[0].reason) == "a asked for its 4 GPUs back: paused for w"

    def test_a_project_within_its_quota_loses_nothing(self):
        assert not plan(
            running("r", "b", on("dgx", 0, 1, 2, 3)), running("x", "a", on("dgx", 4, 5, 6, 7)), waiting("w", "a")
        ).decisions

    def test_nobody_is_taken_from_while_gpus_are_getting_free_anyhow(self):
        stopping = replace(running("p", "b", on("dgx", 0, 1)), phase=Phase.PAUSING)
        borrowed = running("r", "b", on("dgx", 2, 3, 4, 5, 6, 7))

        decided = plan(stopping, borrowed, waiting("w", "a", 2))

        assert kinds(decided) == [("Reserve", "w")]
        assert decided.decisions[0].placement == on("dgx", 0, 1)

    def test_least_work_is_lost(self):
        old = running("old", "b", on("dgx", 0, 1, 2, 3), started=0.0)
        saved = running("saved", "b", on("dgx", 4, 5, 6, 7), started=0.0, saved=NOW - 5)

        assert kinds(plan(old, saved, waiting("w", "a", 4)))[0] == ("Pause", "saved")

    def test_no_more_gpus_are_paused_than_needed_even_if_that_loses_more_work(self):
        small = running("small", "b", on("dgx", 0), started=0.0)
        large = running("large", "b", on("dgx", 1, 2, 3, 4, 5, 6, 7), started=NOW - 60)

        assert kinds(plan(small, large, waiting("w", "a")))[0] == ("Pause", "small")

    def test_an_elastic_job_gives_up_workers_before_it_is_paused(self):
        workers = tuple(Worker(rank, "dgx", (2 * rank, 2 * rank + 1)) for rank in range(4))
        elastic = running("e", "b", workers, min_workers=1)

        decided = plan(elastic, waiting("w", "a", 4))

        assert kinds(decided) == [("Move", "e"), ("Reserve", "w")]
        assert decided.decisions[0].placement == workers[:2]
        assert decided.decisions[1].placement == on("dgx", 4, 5, 6, 7)

    def test_nobody_is_taken_from_within_the_minimum_run_time(self):
        settings = Settings(order=Order.FIRST_COME, min_runtime=600)
        young = running("r", "b", on("dgx", *range(8)), started=NOW - 100)

        decided = plan(young, waiting("w", "a", 4), settings=settings)

        assert not decided.decisions
        assert decided.wake_at == NOW + 500
        assert kinds(plan(young, waiting("w", "a", 4), settings=settings, now=NOW + 500))[0] == ("Pause", "r")

    def test_a_job_that_is_not_preemptible_does_not_wait_for_the_minimum_run_time(self):
        young = running("r", "b", on("dgx", *range(8)), started=NOW - 100)

        decided = plan(
            young,
            waiting("w", "a", 4, preemptible=False),
            settings=Settings(order=Order.FIRST_COME, min_runtime=600),
        )

        assert kinds(decided)[0] == ("Pause", "r")

    def test_a_job_that_is_not_preemptible_is_never_a_victim(self):
        firm = running("r", "b", on("dgx", *range(8)), preemptible=False)

        assert not plan(firm, waiting("w", "a", 4)).decisions


class TestReservations:
    RESERVED = waiting("w", "a", 4, reserved=on("dgx", 0, 1, 2, 3))

    def test_a_job_starts_where_it_has_a_reservation_once_all_is_free(self):
        decided = plan(self.RESERVED)

        assert [(type(each), each.job, each.placement) for each in decided.decisions] == [
            (Start, "w", self.RESERVED.reserved)
        ]

    def test_it_waits_while_an_attempt_still_holds_a_part(self):
        stopping = replace(running("p", "b", on("dgx", 3)), phase=Phase.PAUSING)

        assert not plan(stopping, self.RESERVED).decisions

    def test_others_do_not_get_reserved_gpus(self):
        stopping = replace(running("p", "b", on("dgx", 3)), phase=Phase.PAUSING)

        decided = plan(stopping, self.RESERVED, waiting("x", "b", 4))

        assert [each.placement for each in decided.decisions] == [on("dgx", 4, 5, 6, 7)]

    def test_a_reservation_on_a_lost_node_is_dropped_and_the_job_placed_anew_later(self):
        nodes = (replace(NODE, available=False), Node("other", 8))

        decided = plan(self.RESERVED, nodes=nodes)

        assert [type(each) for each in decided.decisions] == [Drop]


class TestPromises:
    FIRM = running("f", "b", on("dgx", 0, 1), preemptible=False)

    def test_a_job_that_waited_for_long_gets_gpus_set_aside_that_others_still_use(self):
        decided = plan(self.FIRM, waiting("w", "a", 8, submitted=0.0), quotas={"a": 8, "b": 8})

        assert kinds(decided) == [("Reserve", "w")]
        assert decided.decisions[0].reason.code == "promised"
        assert not plan(self.FIRM, waiting("w", "a", 8), quotas={"a": 8, "b": 8}).decisions

    def test_others_do_not_start_there_and_it_starts_when_they_ended(self):
        job = waiting("w", "a", 8, submitted=0.0, reserved=on("dgx", *range(8)))

        assert not plan(self.FIRM, job, waiting("x", "b"), quotas={"a": 8, "b": 8}).decisions
        assert kinds(plan(job, waiting("x", "b"), quotas={"a": 8, "b": 8})) == [("Start", "w")]

    def test_it_starts_elsewhere_if_that_is_sooner(self):
        job = waiting("w", "a", 8, submitted=0.0, reserved=on("dgx", *range(8)))

        decided = plan(self.FIRM, job, nodes=(NODE, Node("new", 8)), quotas={"a": 8, "b": 8})

        assert [(each.job, each.placement[0].node) for each in decided.decisions] == [("w", "new")]


class TestPreempting:
    FULL = running("r", "a", on("dgx", *range(8)), priority=50)

    def test_a_higher_priority_goes_first_within_the_project(self):
        assert kinds(plan(self.FULL, waiting("w", "a", 2, priority=75))) == [("Pause", "r"), ("Reserve", "w")]
        assert not plan(self.FULL, waiting("w", "a", 2, priority=50)).decisions

    def test_a_job_that_had_much_service_gives_way_to_one_that_had_none(self):
        decided = plan(self.FULL, waiting("w", "a", 2), settings=ROTATING)

        assert kinds(decided) == [("Pause", "r"), ("Reserve", "w")]
        assert decided.decisions[0].reason.code == "rotated"

    def test_not_if_it_asked_not_to_be_rotated(self):
        assert not plan(replace(self.FULL, rotate=False), waiting("w", "a", 2), settings=ROTATING).decisions

    def test_the_plan_says_when_time_alone_will_rotate(self):
        started = NOW - 10.0
        decided = plan(replace(self.FULL, started=started), waiting("w", "a", 2), settings=ROTATING)

        assert not decided.decisions
        assert decided.wake_at == started + SERVICE_STEP / 8

    def test_a_job_that_waited_for_long_is_not_passed_for_ever(self):
        old = waiting("old", "a", 8, served=8 * 3600.0, submitted=NOW)
        new = waiting("new", "a", 8, submitted=NOW + 10 * 86_400)

        assert kinds(plan(old, new, now=NOW + 60, settings=ROTATING))[0] == ("Start", "new")
        assert kinds(plan(old, new, now=NOW + 11 * 86_400, settings=ROTATING))[0] == ("Start", "old")


class TestConsolidating:
    NODES = (Node("n0", 4), Node("n1", 4))

    def test_a_job_is_moved_so_that_another_fits(self):
        decided = plan(
            running("x", "b", on("n0", 0, 1)),
            running("y", "b", on("n1", 0)),
            waiting("w", "a", 4),
            nodes=self.NODES,
        )

        assert kinds(decided) == [("Move", "y"), ("Reserve", "w")]
        assert decided.decisions[0].placement == on("n0", 2)
        assert decided.decisions[0].beneficiary == "w"

    def test_not_if_it_would_not_land_again(self):
        jobs = (running("x", "b", on("n0", 0, 1)), running("y", "a", on("n1", 0, 1, 2)))

        assert not plan(*jobs, waiting("w", "b", 3), nodes=self.NODES, quotas={"a": 4, "b": 2}).decisions

    def test_a_job_within_its_quota_moves_to_what_is_taken_back(self):
        """No node is free for the job when the borrower stops, unless the other leaves its node for that place."""
        borrower = running("r", "b", on("n0", 0, 1))
        guaranteed = running("g", "c", on("n1", 0, 1))
        fixed = running("f", "c", on("n0", 2, 3), preemptible=False)

        decided = plan(
            borrower, guaranteed, fixed, waiting("w", "a", 4), nodes=self.NODES, quotas={"a": 4, "b": 0, "c": 4}
        )

        assert kinds(decided) == [("Pause", "r"), ("Move", "g"), ("Reserve", "w")]
        assert [each.beneficiary for each in decided.decisions[:2]] == ["w", "w"]
        assert decided.decisions[1].placement == on("n0", 0, 1)
        assert decided.decisions[2].placement == on("n1", 0, 1, 2, 3)

    def test_nobody_who_is_within_a_quota_moves_for_one_who_would_borrow(self):
        borrower = running("r", "b", on("n0", 0, 1))
        guaranteed = running("g", "c", on("n1", 0, 1))
        fixed = running("f", "c", on("n0", 2, 3), preemptible=False)

        assert not plan(
            borrower, guaranteed, fixed, waiting("w", "a", 4), nodes=self.NODES, quotas={"a": 2, "b": 0, "c": 4}
        ).decisions

    def test_only_the_workers_in_the_way_leave_their_node(self):
        spread = running("e", "a", (*on("n0", 0, 1), *on("n1", 0, 1, rank=1)), workers=2, min_workers=2)

        decided = plan(spread, waiting("w", "b", 4), nodes=self.NODES)

        assert kinds(decided) == [("Move", "e"), ("Reserve", "w")]
        assert len({worker.node for worker in decided.decisions[0].placement}) == 1


class TestGangs:
    def test_a_gang_that_lost_a_worker_gets_another(self):
        broken = running("g", "a", on("dgx", 0, 1), workers=2, min_workers=2)

        decided = plan(broken)

        assert [(type(each), len(each.placement)) for each in decided.decisions] == [(Move, 2)]

    def test_or_stops_if_there_is_no_room(self):
        broken = running("g", "a", on("dgx", 0, 1), workers=2, min_workers=2)
        firm = running("f", "b", on("dgx", 2, 3, 4, 5, 6, 7), preemptible=False)

        assert kinds(plan(broken, firm)) == [("Pause", "g")]


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
        for change in (
            NodesChanged(end.nodes),
            ProjectsChanged(end.projects),
            JobRemoved("gone"),
            *(JobChanged(job) for job in reversed(end.jobs)),
        ):
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

        assert [planner.place(name) for name in ("high", "early", "late", "elsewhere", "r", "nobody")] == [
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
        stopping = replace(running("r", "b", on("dgx", *range(8))), phase=Phase.PAUSING)

        after = plan(stopping, waiting("w", "a", 4, reserved=reserve.placement))

        assert not after.decisions
