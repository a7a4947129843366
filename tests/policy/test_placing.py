"""Where jobs sit: on which nodes, in which domains, and what becomes of gangs that lost a worker."""

from __future__ import annotations

from dataclasses import replace

from small_pools import NODE, kinds, on, plan, running, waiting

from springtide.scheduler.model import Move, Node


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


class TestGangs:
    def test_a_gang_that_lost_a_worker_gets_another(self):
        broken = running("g", "a", on("dgx", 0, 1), workers=2, min_workers=2)

        decided = plan(broken)

        assert [(type(each), len(each.placement)) for each in decided.decisions] == [(Move, 2)]

    def test_or_stops_if_there_is_no_room(self):
        broken = running("g", "a", on("dgx", 0, 1), workers=2, min_workers=2)
        firm = running("f", "b", on("dgx", 2, 3, 4, 5, 6, 7), preemptible=False)

        assert kinds(plan(broken, firm)) == [("Pause", "g")]
