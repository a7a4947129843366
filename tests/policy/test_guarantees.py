"""What is a project's own comes first: before what others borrow, grow by, or were promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from pools.small_pools import CALM, NOW, kinds, on, plan, running, waiting

from springtide.scheduler.model import Job, Node, Phase, Plan, Project, Settings, Worker
from springtide.scheduler.policy.phases.reservations import RESERVE_AFTER

PAIRS = tuple(Node(f"n{at}", 2) for at in range(3))


@pytest.mark.parametrize(
    ("owner", "guest"),
    [({"quota": 4}, {}), ({"quota": 0}, {"weight": 0.0}), ({"quota": 0}, {"priority": 50})],
    ids=["by quota", "by weight", "by priority"],
)
class TestReclaimingThroughAFullParent:
    """The parent holds all it is entitled to, but by another child that only borrows."""

    NODES = (Node("big", 4), Node("small", 2))

    def plan_for(self, gpus: int, owner: dict[str, Any], guest: dict[str, Any]) -> Plan:
        return plan(
            running("g1", "guest", on("small", 0)),
            running("g2", "guest", on("small", 1)),
            running("o", "other", on("big", 0, 1, 2, 3)),
            waiting("w", "owner", gpus),
            nodes=self.NODES,
            projects=(
                Project("team", quota=4),
                Project("owner", "team", age=1, **owner),
                Project("guest", "team", quota=0, age=2, **guest),
                Project("other", quota=2, age=3),
            ),
        )

    def test_the_borrowing_sibling_gives_way_so_that_others_can_be_asked(self, owner, guest):
        decided = self.plan_for(4, owner, guest)

        assert set(kinds(decided)) == {("Pause", "g1"), ("Pause", "g2"), ("Pause", "o"), ("Reserve", "w")}

    def test_no_more_of_the_siblings_jobs_than_needed(self, owner, guest):
        decided = self.plan_for(3, owner, guest)

        assert ("Pause", "o") in kinds(decided)
        assert len([job for kind, job in kinds(decided) if kind == "Pause" and job.startswith("g")]) == 1


class TestATeamOfWeightZero:
    """It has no quota; its department has one, and no other team that asks."""

    PROJECTS = (
        Project("dept", quota=4),
        Project("team", "dept", weight=0.0, age=1),
        Project("other", age=2),
    )

    def plan_for(self, *jobs: Job) -> Plan:
        return plan(*jobs, nodes=(Node("n", 4),), projects=self.PROJECTS)

    def test_free_gpus_within_the_quota_of_its_department_are_its_first(self):
        decided = self.plan_for(
            waiting("theirs", "other", 4, submitted=NOW - 20), waiting("mine", "team", 4, submitted=NOW - 10)
        )

        assert kinds(decided) == [("Start", "mine")]

    def test_it_keeps_them(self):
        assert kinds(self.plan_for(running("mine", "team", on("n", 0, 1, 2, 3)), waiting("w", "other", 4))) == []

    def test_it_takes_none_back_before_its_turn(self):
        theirs = running("theirs", "other", on("n", 0, 1, 2, 3))

        assert kinds(self.plan_for(theirs, waiting("w", "team", 4, submitted=NOW - 10))) == []
        assert kinds(self.plan_for(theirs, waiting("w", "team", 4, submitted=NOW - 2 * RESERVE_AFTER))) == [
            ("Pause", "theirs"),
            ("Reserve", "w"),
        ]

    def test_while_it_waits_the_quota_is_for_other_jobs_of_its_department(self):
        projects = (
            Project("idle", weight=0.0),
            Project("guest", "idle", age=1),
            Project("dept", quota=3, age=2),
            Project("group", "dept", quota=3, weight=0.0, age=3),
            Project("team", "group", weight=0.0, age=4),
        )
        jobs = (
            running("g", "guest", on("n", 0, 1)),
            waiting("team's", "team", 3, submitted=NOW - 20),
            waiting("own", "dept", 2, submitted=NOW - 10),
        )
        decided = plan(*jobs, nodes=(Node("n", 3),), projects=projects)

        assert kinds(decided) == [("Pause", "g"), ("Reserve", "own")]


def test_no_child_borrows_what_the_parent_has_to_take_back_at_once_for_another_whose_quota_does_not_add_up():
    projects = (
        Project("other", quota=9, weight=0.0),
        Project("team", quota=7, age=1),
        Project("owner", "team", quota=18, age=2),
        Project("guest", "team", quota=4, age=3),
    )
    decided = plan(
        running("o1", "other", on("big", 0, 1, 2, 3, 4, 5, 6, 7)),
        running("o2", "other", on("four", 0, 1, 2, 3), started=NOW - 100),
        running("g", "guest", on("team", 0, 1, 2, 3)),
        running("w", "owner", on("team", 4, 5, 6)),
        waiting("owned", "owner", 4),
        waiting("lent", "guest", 2),
        nodes=(Node("big", 8), Node("four", 4), Node("team", 7), Node("free", 2)),
        projects=projects,
    )

    assert kinds(decided) == [("Pause", "o2"), ("Reserve", "owned")]


class TestReservationsOfBorrowers:
    """GPUs that are becoming free are reserved for jobs that would borrow them."""

    NODES = (Node("n0", 2), Node("n1", 1))
    JOBS = (
        structs.replace(running("p", "b", on("n0", 0, 1)), phase=Phase.PAUSING),
        structs.replace(running("q", "b", on("n1", 0)), phase=Phase.PAUSING),
        waiting("wide", "b", 2, reserved=on("n0", 0, 1)),
        waiting("last", "b", reserved=on("n1", 0), submitted=NOW + 1),
    )

    def test_they_go_to_an_owner_instead_and_no_more_of_them_than_needed(self):
        decided = plan(*self.JOBS, waiting("w", "a", 2), nodes=self.NODES, quotas={"a": 3, "b": 0})

        assert kinds(decided) == [("Drop", "wide"), ("Reserve", "w")]

    def test_not_to_another_borrower(self):
        assert not plan(*self.JOBS, waiting("w", "a", 2), nodes=self.NODES, quotas={"a": 0, "b": 0}).decisions


class TestQuotasThatDoNotAddUp:
    """The quotas of a team's children are more than its own, and it holds more than that."""

    PROJECTS = (
        Project("team", quota=2),
        Project("owner", "team", quota=3, age=1),
        Project("guest", "team", quota=0, age=2),
        Project("other", quota=1, priority=200, age=3),
    )
    NODES = (Node("big", 3), Node("small", 1))

    def test_a_child_within_its_quota_keeps_its_gpus_while_another_borrows(self):
        owner, guest = running("o", "owner", on("big", 0, 1)), running("g", "guest", on("big", 2))

        assert not plan(owner, guest, waiting("w", "other", 2), nodes=self.NODES, projects=self.PROJECTS).decisions

    def test_but_not_what_its_parents_quota_has_no_room_for(self):
        owner, more = running("o", "owner", on("big", 0, 1)), running("more", "owner", on("big", 2))

        decided = plan(owner, more, waiting("w", "other", 2), nodes=self.NODES, projects=self.PROJECTS)

        assert ("Reserve", "w") in kinds(decided)


class TestGrowing:
    def test_who_borrows_does_not_grow_while_an_owner_waits(self):
        workers = (Worker(0, "n0", (1,)), Worker(1, "n1", (0,)), Worker(2, "n1", (1,)))
        decided = plan(
            running("e", "b", workers, workers=4, min_workers=1, started=NOW - 300),
            waiting("w", "a", 2, 2),
            nodes=PAIRS[:2],
            quotas={"a": 4, "b": 0},
            settings=replace(CALM, min_runtime=300.0),
        )

        assert kinds(decided) == [("Pause", "e"), ("Reserve", "w")]

    def test_nor_by_a_plan_in_which_another_borrower_gives_up_its_gpus(self):
        pools: dict[str, Any] = {"nodes": (Node("n0", 4), Node("n1", 2)), "quotas": {"a": 4, "b": 0, "c": 0}}
        elastic = running("e", "b", on("n1", 0), workers=2, min_workers=1)
        borrower = running("r", "c", on("n0", 0, 1, 2, 3))

        assert kinds(plan(elastic, borrower, **pools)) == [("Move", "e")]
        decided = plan(elastic, borrower, waiting("w", "a", 4), **pools)
        assert kinds(decided) == [("Pause", "r"), ("Reserve", "w")]

    def test_a_borrower_that_restarts_to_grow_gives_way_before_it_has_started(self):
        elastic = running("e", "b", on("n0", 0), workers=2, min_workers=1)
        restarting = structs.replace(elastic, phase=Phase.PAUSING, reserved=(*on("n0", 0), *on("n0", 1, rank=1)))

        decided = plan(
            restarting, waiting("w", "a", 2), nodes=(Node("n0", 2),), quotas={"a": 2, "b": 0}, settings=CALM
        )

        assert kinds(decided) == [("Drop", "e"), ("Reserve", "w")]

    def test_nor_while_the_owner_waits_for_the_end_of_a_minimum_run_time(self):
        """It would be protected from then on itself."""
        pools: dict[str, Any] = {
            "nodes": (Node("n0", 4), Node("n1", 4)),
            "quotas": {"a": 5, "b": 0, "c": 0},
            "settings": replace(CALM, min_runtime=300.0),
        }
        elastic = running("e", "c", on("n1", 0), workers=4, min_workers=1)
        new = running("r", "b", on("n0", 0, 1, 2, 3), started=NOW - 200)
        owner = waiting("w", "a", 1, 5)

        decided = plan(new, elastic, owner, **pools)

        assert kinds(decided) == [("Reserve", "w")]
        assert decided.wake_at == NOW + 100
        assert kinds(plan(new, elastic, **pools)) == [("Move", "e")]

    def test_but_it_does_if_nobody_can_make_room_for_the_owner(self):
        decided = plan(
            running("e", "b", on("n0", 0), workers=2, min_workers=1),
            waiting("w", "a", 2, 2),
            nodes=PAIRS[:1],
            quotas={"a": 4, "b": 0},
        )

        assert kinds(decided) == [("Move", "e")]

    def test_a_quota_that_the_parent_cannot_honour_is_no_reason_to_grow(self):
        decided = plan(
            running("e", "wide", on("n0", 0, 1), workers=2, min_workers=1),
            running("big", "other", (Worker(0, "n1", (0, 1)), Worker(1, "n2", (0, 1)))),
            waiting("w", "narrow"),
            nodes=PAIRS,
            projects=(
                Project("team", quota=3),
                Project("narrow", "team", quota=1, age=1),
                Project("wide", "team", quota=6, age=2),
                Project("other", quota=3, age=3),
            ),
        )

        assert kinds(decided) == [("Pause", "big"), ("Reserve", "w")]


class TestPromises:
    LONG_AGO = 0.0

    def stuck(self, *jobs: Job, projects: Sequence[Project]) -> Plan:
        """Two nodes on each of which a job that cannot be paused leaves one GPU free."""
        firm = [running(f"f{at}", "b", on(f"n{at}", 0), priority=100, preemptible=False) for at in (0, 1)]
        return plan(*firm, *jobs, nodes=PAIRS[:2], projects=projects)

    def test_an_urgent_job_that_can_never_start_does_not_keep_others_from_a_promise(self):
        decided = self.stuck(
            waiting("never", "a", 2, 2, priority=75),
            waiting("old", "a", 2, submitted=self.LONG_AGO),
            projects=(Project("a", quota=2, limit=2), Project("b", quota=2, age=1)),
        )

        assert kinds(decided) == [("Reserve", "old")]

    def test_nothing_is_promised_to_a_quota_that_the_parent_cannot_honour_beside_the_quotas_of_others(self):
        decided = self.stuck(
            waiting("next", "b"),
            waiting("old", "child", 2, submitted=self.LONG_AGO),
            projects=(
                Project("parent", quota=0, weight=0.0),
                Project("child", "parent", quota=2, age=1),
                Project("b", quota=3, age=2),
            ),
        )

        assert kinds(decided) == [("Start", "next")]

    def test_a_promise_that_the_quota_holds_no_longer_is_not_kept_elsewhere(self):
        promised = waiting("w", "a", 8, priority=100, preemptible=False)
        decided = plan(
            structs.replace(promised, reserved=on("n0", *range(8))),
            running("r", "b", on("n0", 0, 1)),
            nodes=(Node("n0", 8), Node("n1", 8)),
            quotas={"a": 0, "b": 8},
        )

        assert kinds(decided) == [("Drop", "w")]


def test_nobody_borrows_from_who_would_take_it_back_at_once_for_another_job():
    gang = tuple(Worker(rank, "dgx", (4 + rank,)) for rank in range(5))
    projects = (Project("a", quota=4), Project("b", quota=1, weight=0.0, age=1))
    pool: dict[str, Any] = {"nodes": (Node("dgx", 9),), "projects": projects}
    jobs = (running("own", "a", on("dgx", 0, 1, 2, 3)), running("gang", "b", gang), waiting("w", "a", 4))

    assert kinds(plan(*jobs, **pool)) == [("Pause", "gang"), ("Reserve", "w")]
    assert not plan(*jobs, waiting("small", "b"), **pool).decisions


def test_what_is_held_beyond_a_limit_can_be_taken_back_whatever_the_priority():
    decided = plan(
        running("r", "high", on("n0", 0, 1)),
        waiting("w", "low", 2),
        nodes=PAIRS[:1],
        projects=(Project("high", quota=0, limit=0, priority=200), Project("low", quota=0, age=1)),
        settings=Settings(order=CALM.order),
    )

    assert kinds(decided) == [("Pause", "r"), ("Reserve", "w")]


def test_only_who_is_in_the_way_moves():
    nodes = (Node("n0", 4), Node("n1", 2), Node("n2", 2))
    decided = plan(
        running("in the way", "a", on("n0", 0)),
        running("elsewhere", "a", on("n1", 1)),
        structs.replace(waiting("w", "b", 2, 2), require="node"),
        nodes=nodes,
        quotas={"a": 2, "b": 2},
    )

    assert kinds(decided) == [("Move", "in the way"), ("Reserve", "w")]


def test_who_may_be_asked_gives_way_where_the_cheapest_would_take_it_back_at_once():
    projects = (
        Project("a", quota=4),
        Project("a0", "a", quota=2, weight=2.0, age=1),
        Project("a1", "a", quota=2, age=2),
        Project("b", quota=3, weight=0.5, age=3),
    )
    decided = plan(
        running("guest", "a1", (*on("n1", 0, 1), *on("n1", 2, 3, rank=1)), priority=60),
        running("other", "b", (*on("n0", 0, 1), *on("n0", 2, 3, rank=1))),
        waiting("small", "b"),
        waiting("w", "a0"),
        nodes=(Node("n0", 4), Node("n1", 4)),
        projects=projects,
    )

    assert kinds(decided) == [("Pause", "guest"), ("Reserve", "w")]


class TestWaitingForAMinimumRunTime:
    """A borrower was paused before, so that its minimum run time is longer; a guaranteed job waits for its end."""

    def plan_for(self, borrower: Job, *others: Job) -> Plan:
        return plan(
            structs.replace(borrower, started=NOW - 400, attempts=3),
            *others,
            nodes=(Node("n0", 4),),
            quotas={"a": 1, "b": 0},
            settings=replace(CALM, min_runtime=300.0),
        )

    def test_a_job_that_ran_with_more_workers_waits_no_longer_for_it(self):
        asks = waiting("w", "a", workers=4, submitted=NOW - 2000, served=2400.0)
        decided = self.plan_for(running("r", "b", on("n0", 0, 1, 2, 3)), structs.replace(asks, min_workers=1))

        assert kinds(decided) == [("Pause", "r"), ("Reserve", "w")]

    def test_the_borrowers_own_project_does_not_replace_it_before(self):
        low, high = running("low", "b", on("n0", 0, 1, 2, 3)), waiting("high", "b", 4, priority=75)
        assert kinds(self.plan_for(low, high)) == [("Pause", "low"), ("Reserve", "high")]

        owner = waiting("w", "a", submitted=NOW - 100)
        decided = self.plan_for(low, owner)
        assert (kinds(decided), decided.wake_at) == ([("Reserve", "w")], NOW + 200)
        decided = self.plan_for(low, high, structs.replace(owner, reserved=on("n0", 0)))
        assert (kinds(decided), decided.wake_at) == ([], NOW + 200)
