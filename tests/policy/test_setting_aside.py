"""GPUs that are set aside for a job, and what becomes of them."""

from __future__ import annotations

from msgspec.structs import replace
from pools.small_pools import NODE, kinds, on, plan, running, waiting

from springtide.scheduler.model import Drop, Node, Phase, Start


class TestReservations:
    RESERVED = waiting("w", "a", 4, reserved=on("dgx", 0, 1, 2, 3))

    def test_a_job_starts_where_it_has_a_reservation_once_all_is_free(self):
        decided = plan(self.RESERVED)

        assert [(type(each), each.job, each.placement) for each in decided.decisions] == [
            (Start, "w", self.RESERVED.reserved)
        ]

    def test_it_waits_while_an_attempt_still_holds_a_part(self):
        stopping = replace(running("p", "b", on("dgx", 3)), phase=Phase.PAUSING)

        assert not plan(stopping, self.RESERVED, running("x", "b", on("dgx", 4, 5, 6, 7))).decisions

    def test_an_owner_starts_on_gpus_that_are_free_before_a_borrower_does(self):
        stopping = replace(running("p", "b", on("dgx", 0, 1, 2, 3)), phase=Phase.PAUSING)

        decided = plan(stopping, self.RESERVED, waiting("x", "b", 4), quotas={"a": 4, "b": 2})

        assert [(each.job, each.placement) for each in decided.decisions if isinstance(each, Start)] == [
            ("w", on("dgx", 4, 5, 6, 7))
        ]

    def test_an_owner_without_room_elsewhere_keeps_what_it_waits_for(self):
        stopping = replace(running("p", "b", on("dgx", 0, 1, 2, 3)), phase=Phase.PAUSING)
        other = running("o", "b", on("dgx", 4, 5))

        decided = plan(stopping, other, self.RESERVED, waiting("x", "b", 2), quotas={"a": 4, "b": 4})

        assert [(each.job, each.placement) for each in decided.decisions] == [("x", on("dgx", 6, 7))]

    def test_others_do_not_get_reserved_gpus(self):
        stopping = replace(running("p", "b", on("dgx", 3)), phase=Phase.PAUSING)
        large = waiting("w", "a", 6, reserved=on("dgx", 0, 1, 2, 3, 4, 5))

        decided = plan(stopping, large, waiting("x", "b", 2), waiting("y", "b", 2), quotas={"a": 6, "b": 2})

        assert [each.placement for each in decided.decisions] == [on("dgx", 6, 7)]

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
