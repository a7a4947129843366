"""A job within its quota waits for one minimum run time at most, even while other jobs keep borrowing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from pools.small_pools import CALM, NOW, kinds, on, plan, pool, running, waiting

from springtide.scheduler.model import Job, Node, Pause, Phase, Plan, Project, Reserve, Settings, Snapshot, Worker
from springtide.scheduler.policy import Planner
from springtide.scheduler.sentences import headline, text
from springtide.scheduler.simulate.virtual import VirtualPool

MIN_RUNTIME = 300.0


@pytest.mark.parametrize(("runs", "every"), [(100.0, 6.0), (280.0, 17.0), (500.0, 31.0), (1000.0, 62.0)])
def test_jobs_that_borrow_one_after_another_do_not_keep_the_owner_waiting(runs: float, every: float) -> None:
    projects = (Project("owner", quota=8), Project("borrower", age=1))
    nodes = (Node("n0", 8), Node("n1", 8))
    virtual = VirtualPool(Planner(Snapshot(0.0, nodes, projects, (), Settings(min_runtime=MIN_RUNTIME))), now=0.0)
    for number in range(int(6000.0 / every)):
        virtual.submit(Job(f"b{number}", "borrower", submitted=number * every), runs)
    virtual.submit(Job("o", "owner", gpus=8, submitted=2000.0), 500.0)
    virtual.run()

    started = virtual.courses["o"].first_start
    assert started is not None
    assert started - 2000.0 <= MIN_RUNTIME


class TestReservation:
    """Two jobs borrow a node, one of which has just started; the owner of its GPUs needs all of them."""

    OWNER = waiting("w", "a", 4)
    RESERVED = structs.replace(OWNER, reserved=on("n0", 0, 1, 2, 3))
    NEW = running("new", "b", on("n0", 0, 1), started=NOW - 100)
    OLD = running("old", "b", on("n0", 2, 3))

    def snapshot(self, *jobs: Job) -> Snapshot:
        settings = replace(CALM, min_runtime=MIN_RUNTIME)
        return pool(*jobs, nodes=(Node("n0", 4),), quotas={"a": 4, "b": 0}, settings=settings)

    def plan_for(self, *jobs: Job, now: float = NOW) -> Plan:
        return Planner(self.snapshot(*jobs)).plan(now)

    def test_the_job_gets_one_until_the_minimum_run_time_is_over(self) -> None:
        decided = self.plan_for(self.NEW, self.OLD, self.OWNER)

        assert kinds(decided) == [("Reserve", "w")]
        assert decided.decisions[0].reason.code == "reserved-ahead"
        assert decided.wake_at == NOW + 200

    def test_then_the_borrowers_make_room(self) -> None:
        decided = self.plan_for(self.NEW, self.OLD, self.RESERVED, now=NOW + 200)

        assert set(kinds(decided)) == {("Drop", "w"), ("Pause", "new"), ("Pause", "old"), ("Reserve", "w")}

    def test_it_starts_before_if_they_end(self) -> None:
        assert kinds(self.plan_for(self.RESERVED)) == [("Start", "w")]

    @pytest.mark.parametrize("limit", [None, 60.0], ids=["unlimited", "with a time limit"])
    def test_nobody_borrows_meanwhile_what_becomes_free(self, limit: float | None) -> None:
        new = structs.replace(self.NEW, time_limit=3600.0)
        other = waiting("x", "b", 2, time_limit=limit)

        assert not self.plan_for(new, self.RESERVED, other).decisions
        assert kinds(self.plan_for(new, other)) == [("Start", "x")]

    def test_nor_does_another_job_of_the_owner_take_its_place(self) -> None:
        small = waiting("small", "a", 2, submitted=NOW + 1)

        assert not self.plan_for(self.NEW, self.OLD, self.RESERVED, small).decisions

    def test_a_more_urgent_job_of_the_owner_does_not_put_off_the_deadline(self) -> None:
        urgent = waiting("urgent", "a", 4, priority=75)

        assert not self.plan_for(self.NEW, self.OLD, self.RESERVED, urgent).decisions

    def test_the_job_tells_what_it_waits_for_and_for_how_long_at_most(self) -> None:
        planner = Planner(self.snapshot(self.NEW, self.OLD, self.RESERVED))

        assert text(planner.reason("w", NOW)) == (
            "It has a reservation for 4 GPUs. "
            "Running jobs can be paused for it in 3 min, when their minimum run time is over."
        )

    def test_it_names_the_jobs_that_can_be_paused_first_also_if_others_hold_the_reserved_gpus(self) -> None:
        first = running("first", "b", on("n0", 0, 1, 2, 3), started=NOW - 280)
        newest = running("newest", "b", on("n0", 4, 5), started=NOW - 100)
        asks = waiting("w", "a", 2)
        settings = replace(CALM, min_runtime=MIN_RUNTIME)

        def snapshot(owner: Job) -> Snapshot:
            return pool(first, newest, owner, nodes=(Node("n0", 6),), quotas={"a": 2, "b": 0}, settings=settings)

        (reserve,) = Planner(snapshot(asks)).plan(NOW).decisions
        assert isinstance(reserve, Reserve)
        reserved = snapshot(structs.replace(asks, reserved=reserve.placement))
        assert reserve.placement == on("n0", 4, 5)

        why = Planner(reserved).reason("w", NOW)
        assert "can be paused for it in 20 s, when their minimum run time is over." in text(why)
        assert headline(why) == "2 GPUs reserved: “first” can be paused in 20 s (minimum run time)."
        assert not Planner(reserved).plan(NOW + 19).decisions
        assert ("Pause", "first") in kinds(Planner(reserved).plan(NOW + 20))

    def test_it_waits_for_each_job_that_has_to_be_paused(self) -> None:
        old = structs.replace(self.OLD, started=NOW - 280)
        why = Planner(self.snapshot(self.NEW, old, self.RESERVED)).reason("w", NOW)

        assert "can be paused for it in 3 min" in text(why)

    def test_while_the_gpus_are_being_freed_it_says_so_and_names_no_minimum_run_time(self) -> None:
        stops = structs.replace(self.NEW, phase=Phase.PAUSING)
        small = structs.replace(self.RESERVED, gpus=2, reserved=on("n0", 0, 1))
        why = Planner(self.snapshot(stops, self.OLD, small)).reason("w", NOW)

        assert text(why) == (
            "It has a reservation for 2 GPUs. It starts as soon as the job “new” of “b” has stopped."
        )
        assert headline(why) == "2 GPUs are being freed for it by “new”."

    def test_nothing_is_reserved_for_a_job_that_borrows_itself(self) -> None:
        decided = plan(
            self.NEW,
            self.OLD,
            self.OWNER,
            nodes=(Node("n0", 4),),
            quotas={"a": 0, "b": 0},
            settings=replace(CALM, min_runtime=MIN_RUNTIME),
        )

        assert not decided.decisions

    def test_no_gpus_of_a_job_that_shrinks_in_the_same_plan_are_reserved(self) -> None:
        spread = (Worker(0, "n0", (0,)), Worker(1, "n0", (1,)))
        elastic = running("new", "b", spread, started=NOW - 100, min_workers=1)
        decided = plan(
            elastic,
            waiting("firm", "c", preemptible=False),
            waiting("w", "a"),
            nodes=(Node("n0", 2),),
            quotas={"a": 2, "b": 0, "c": 1},
            settings=replace(CALM, min_runtime=MIN_RUNTIME),
        )

        assert kinds(decided) == [("Move", "new"), ("Reserve", "firm")]

    def test_it_does_not_tell_that_a_job_can_be_paused_which_is_not_preemptible(self) -> None:
        firm = structs.replace(self.NEW, preemptible=False)

        assert "can be paused" not in text(Planner(self.snapshot(firm, self.OLD, self.RESERVED)).reason("w", NOW))


class TestSpared:
    """A job is paused, and not those that borrow, because these have only just started."""

    NODES = (Node("n0", 4),)
    SETTINGS = replace(CALM, min_runtime=MIN_RUNTIME)
    OLD = running("old", "b", on("n0", 0, 1))
    NEW = running("new", "b", on("n0", 2, 3), started=NOW - 100)

    def reason_of(self, paused: str, *jobs: Job, quotas: dict[str, int]) -> str:
        decided = plan(*jobs, nodes=self.NODES, quotas=quotas, settings=self.SETTINGS)
        (pause,) = (each for each in decided.decisions if isinstance(each, Pause))
        assert pause.job == paused
        return text(pause.reason)

    def test_an_older_job_of_the_project_that_borrows_says_which_one_was_spared(self) -> None:
        why = self.reason_of("old", self.OLD, self.NEW, waiting("w", "a", 2), quotas={"a": 2, "b": 2})

        assert why == (
            "The project “a” asked for its 2 GPUs back, for the job “w”. "
            "The job “new” of “b” was not paused instead: it was still within its minimum run time."
        )

    def test_a_less_urgent_job_of_the_same_project_says_which_borrower_was_spared(self) -> None:
        own = running("own", "a", on("n0", 0, 1))
        urgent = waiting("w", "a", 2, priority=75)
        why = self.reason_of("own", own, self.NEW, urgent, quotas={"a": 4, "b": 0})

        assert (
            "It made way for the job “w” of “a”, which has a higher priority. The job “new” of “b” was not" in why
        )

    def test_nobody_is_named_where_the_borrowers_minimum_run_time_is_not_the_reason(self) -> None:
        own = running("own", "a", on("n0", 0, 1))
        urgent = waiting("w", "a", 2, priority=75)

        assert "instead" not in self.reason_of("own", own, self.NEW, urgent, quotas={"a": 2, "b": 2})
        newest = structs.replace(self.NEW, started=NOW - MIN_RUNTIME)
        jobs = (self.OLD, newest, waiting("w", "a", 2))
        assert "instead" not in self.reason_of("new", *jobs, quotas={"a": 2, "b": 2})
