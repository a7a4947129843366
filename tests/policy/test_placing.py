"""Where jobs sit: on which nodes, in which domains, and what becomes of gangs that lost a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from small_pools import NODE, kinds, on, plan, running, waiting

from springtide.scheduler.model import Job, Move, Node, Spread, Worker


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


class TestHistory:
    """Those like the job ran fastest when they sat in a certain way."""

    RACKS = TestPlacement.RACKS

    def seats(self, job: Job, *others: Job, nodes: Sequence[Node] = RACKS) -> list[str]:
        decided = plan(*others, job, nodes=nodes, quotas={"a": 16, "b": 0}).decisions
        return [worker.node for worker in decided[-1].placement]

    def test_a_gang_is_spread_over_two_nodes_if_that_was_faster(self):
        gang = waiting("gang", "a", 1, 4)

        assert self.seats(gang) == ["n0", "n0", "n0", "n0"]
        assert self.seats(replace(gang, fastest=Spread("rack", 2))) == ["n0", "n0", "n1", "n1"]

    def test_it_still_goes_where_it_is_tightest(self):
        nearly_full = [running(f"r{at}", "b", on(f"n{at}", 0, 1, 2)) for at in (2, 3)]

        assert self.seats(waiting("gang", "a", 1, 2, fastest=Spread("rack", 2)), *nearly_full) == ["n2", "n3"]

    def test_workers_that_do_not_divide_evenly_sit_as_evenly_as_can_be(self):
        assert self.seats(waiting("gang", "a", 1, 3, fastest=Spread("", 2))) == ["n0", "n0", "n1"]

    def test_it_does_not_wait_for_that(self):
        full = running("r", "b", (Worker(0, "n1", (0, 1, 2, 3)), Worker(1, "n3", (0, 1, 2, 3))))

        assert self.seats(waiting("gang", "a", 2, 2, fastest=Spread("rack", 2)), full) == ["n0", "n0"]

    def test_what_the_user_prefers_counts_more(self):
        assert self.seats(waiting("gang", "a", 2, 2, prefer="node", fastest=Spread("rack", 2))) == ["n0", "n0"]

    def test_a_worker_waits_for_no_link_but_takes_one_if_that_was_faster(self):
        split = Node("split", 4, islands=((0, 1), (2, 3)))
        whole = replace(split, name="whole")
        taken = running("r", "b", (Worker(0, "split", (0,)), Worker(1, "split", (2,))))
        one = waiting("w", "a", 2)

        assert self.seats(one, taken, nodes=(split, whole)) == ["split"]
        assert self.seats(replace(one, fastest=Spread("island", 1)), taken, nodes=(split, whole)) == ["whole"]
        assert self.seats(replace(one, fastest=Spread("island", 1)), taken, nodes=(split,)) == ["split"]


class TestGangs:
    def test_a_gang_that_lost_a_worker_gets_another(self):
        broken = running("g", "a", on("dgx", 0, 1), workers=2, min_workers=2)

        decided = plan(broken)

        assert [(type(each), len(each.placement)) for each in decided.decisions] == [(Move, 2)]

    def test_or_stops_if_there_is_no_room(self):
        broken = running("g", "a", on("dgx", 0, 1), workers=2, min_workers=2)
        firm = running("f", "b", on("dgx", 2, 3, 4, 5, 6, 7), preemptible=False)

        assert kinds(plan(broken, firm)) == [("Pause", "g")]
