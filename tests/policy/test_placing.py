"""Where jobs sit: on which nodes, in which domains, and what becomes of gangs that lost a worker."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from pools.small_pools import NODE, kinds, on, plan, running, waiting

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


class TestWithinANode:
    """Two sockets with two pairs of linked GPUs each, unless a test says otherwise."""

    PAIRS = replace(NODE, islands=((0, 1), (2, 3), (4, 5), (6, 7)), sockets=((0, 1, 2, 3), (4, 5, 6, 7)))
    UNLINKED = replace(NODE, sockets=PAIRS.sockets)

    def seats(self, job: Job, *taken: int, node: Node = PAIRS) -> list[tuple[int, ...]]:
        others = [running(f"r{gpu}", "b", on("dgx", gpu)) for gpu in taken]
        decided = plan(*others, job, nodes=(node,), quotas={"a": 8, "b": 8}).decisions
        return [worker.gpus for each in decided for worker in each.placement]

    def test_a_worker_that_no_island_holds_sits_on_one_socket(self):
        assert self.seats(waiting("w", "a", 3), 0, 1) == [(4, 5, 6)]
        assert self.seats(waiting("w", "a", 3), 0, node=self.UNLINKED) == [(1, 2, 3)]

    def test_an_island_is_better_than_a_fuller_socket(self):
        assert self.seats(waiting("w", "a", 2), 0, 2) == [(4, 5)]

    def test_it_gets_the_socket_that_it_fills_best(self):
        assert self.seats(waiting("w", "a", 2), 4, node=self.UNLINKED) == [(5, 6)]
        assert self.seats(waiting("w", "a", 2), 4, 0, 1, node=self.UNLINKED) == [(2, 3)]

    def test_it_waits_for_no_socket(self):
        assert self.seats(waiting("w", "a", 4), 0, 4) == [(1, 2, 3, 5)]

    def test_a_gang_stays_on_the_socket_that_holds_it_and_its_workers_on_islands(self):
        assert self.seats(waiting("gang", "a", 2, 2), 0) == [(4, 5), (6, 7)]
        assert self.seats(waiting("gang", "a", 1, 3), 4, 0, 1, node=self.UNLINKED) == [(5,), (6,), (7,)]

    def test_a_gang_stays_on_its_island_although_another_has_as_many_gpus_left(self):
        node = replace(NODE, islands=((0, 1, 2), (3, 4, 5, 6)))

        assert self.seats(waiting("gang", "a", 1, 4), node=node) == [(3,), (4,), (5,), (6,)]

    def test_a_gang_that_no_socket_holds_leaves_one_with_room_for_the_rest(self):
        assert self.seats(waiting("gang", "a", 1, 6), node=self.UNLINKED) == [(0,), (1,), (4,), (5,), (6,), (7,)]

    def test_within_an_island_of_several_sockets_one_socket_is_better(self):
        linked = replace(self.UNLINKED, islands=(tuple(range(8)),))

        assert self.seats(waiting("w", "a", 4), 0, node=linked) == [(4, 5, 6, 7)]
        assert self.seats(waiting("w", "a", 4), 0, 4, node=linked) == [(1, 2, 3, 5)]

    def test_a_gang_that_requires_a_socket_waits_for_one(self):
        gang = waiting("gang", "a", 2, 2, require="socket")

        assert self.seats(gang, 0) == [(4, 5), (6, 7)]
        assert self.seats(gang, 0, 4) == []
        assert self.seats(gang, 0, 4, node=NODE) == [(1, 2), (3, 5)]

    def test_who_requires_a_socket_gets_an_island_of_it_if_there_is_one(self):
        assert self.seats(waiting("w", "a", 2, require="socket"), 0, 2) == [(4, 5)]

    def test_a_preferred_socket_is_taken_on_an_emptier_node_but_not_waited_for(self):
        other = replace(self.PAIRS, name="other")
        busy = [running(f"r{gpu}", "b", on("dgx", gpu)) for gpu in (0, 4)]
        one = waiting("w", "a", 4)

        def node_of(job: Job, *nodes: Node) -> str:
            return plan(*busy, job, nodes=nodes, quotas={"a": 8, "b": 8}).decisions[0].placement[0].node

        assert node_of(one, self.PAIRS, other) == "dgx"
        assert node_of(replace(one, prefer="socket"), self.PAIRS, other) == "other"
        assert node_of(replace(one, fastest=Spread("socket", 1)), self.PAIRS, other) == "other"
        assert node_of(replace(one, prefer="socket"), self.PAIRS) == "dgx"

    def test_a_job_that_requires_a_socket_grows_on_it_or_not_at_all(self):
        small = running("g", "a", on("dgx", 0), workers=3, require="socket")

        assert self.seats(small, 1) == [(0,), (2,), (3,)]
        assert self.seats(small, 1, 2, 3) == []


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
