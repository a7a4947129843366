"""Who is paused for whom: of another project that borrows, or of the same project."""

from __future__ import annotations

from msgspec.structs import replace
from pools.small_pools import NOW, ROTATING, kinds, on, plan, running, waiting

from springtide.scheduler.model import Node, Order, Pause, Phase, Settings, Worker
from springtide.scheduler.policy.phases.preempting import MAX_ROTATIONS, ROTATION_INTERVAL
from springtide.scheduler.policy.state.service import SERVICE_LEVEL
from springtide.scheduler.sentences import text


class TestReclaiming:
    def test_a_borrowed_job_is_paused_only_together_with_the_reservation_it_makes_possible(self):
        decided = plan(running("r", "b", on("dgx", *range(8))), waiting("w", "a", 4))

        assert kinds(decided) == [("Pause", "r"), ("Reserve", "w")]
        assert decided.decisions[0].beneficiary == "w"
        assert text(decided.decisions[0].reason) == "The project “a” asked for its 4 GPUs back, for the job “w”."

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

        assert kinds(decided) == [("Reserve", "w")]
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
        assert decided.wake_at == started + SERVICE_LEVEL / 8

    def test_the_plan_says_when_another_one_can_be_rotated_if_those_that_can_are_too_small(self):
        """The waiting job has a reservation, and is not among those that wait in the project's queue."""
        rested = running("rested", "a", on("dgx", 0, 1, 2, 3), started=NOW - 10, served=SERVICE_LEVEL)
        young = running("young", "a", on("dgx", 4, 5, 6, 7), started=NOW - 10, served=SERVICE_LEVEL - 4 * 110)
        promised = waiting("w", "a", 8, submitted=NOW - 7200, reserved=on("dgx", *range(8)), turn=True)

        decided = plan(rested, young, promised, settings=ROTATING)

        assert (kinds(decided), decided.wake_at) == ([], NOW + 100)
        then = plan(rested, young, promised, settings=ROTATING, now=NOW + 100)
        assert {("Pause", "rested"), ("Pause", "young")} <= set(kinds(then))

    def test_the_plan_says_when_to_go_on_if_more_are_to_be_rotated_than_at_once(self):
        nodes = tuple(Node(f"n{at}", 8) for at in range(MAX_ROTATIONS // 8 + 1))
        full = [
            running(f"r-{node.name}-{gpu}", "a", on(node.name, gpu), served=10.0 * SERVICE_LEVEL)
            for node in nodes
            for gpu in range(8)
        ]
        queue = [waiting(f"w{at}", "a") for at in range(len(full))]

        decided = plan(*full, *queue, nodes=nodes, settings=ROTATING)

        assert len([each for each in decided.decisions if isinstance(each, Pause)]) == MAX_ROTATIONS
        assert decided.wake_at == NOW + ROTATION_INTERVAL

    def test_a_job_that_waited_for_long_is_not_passed_for_ever(self):
        old = waiting("old", "a", 8, served=8 * 3600.0, submitted=NOW)
        new = waiting("new", "a", 8, submitted=NOW + 10 * 86_400)

        assert kinds(plan(old, new, now=NOW + 60, settings=ROTATING))[0] == ("Start", "new")
        assert kinds(plan(old, new, now=NOW + 11 * 86_400, settings=ROTATING))[0] == ("Start", "old")
