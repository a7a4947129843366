"""Jobs that move so that another fits."""

from __future__ import annotations

from pools.small_pools import kinds, on, plan, running, waiting

from springtide.scheduler.model import Node


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

    def test_a_borrower_goes_on_within_its_quota_in_another_rack(self):
        """It keeps as many GPUs as its quota has, but not on the node that the owner's job needs."""
        nodes = [Node(f"n{at}", gpus, labels={"rack": f"r{at % 2}"}) for at, gpus in enumerate((1, 1, 2, 1))]
        workers = (*on("n0", 0), *on("n2", 0, rank=1), *on("n2", 1, rank=2))
        elastic = running("e", "a", workers, workers=4, min_workers=1, require="rack")

        decided = plan(elastic, waiting("w", "b", 2), nodes=nodes, quotas={"a": 2, "b": 2})

        assert kinds(decided) == [("Move", "e"), ("Reserve", "w")]
        assert decided.decisions[0].placement == (*on("n1", 0), *on("n3", 0, rank=1))
        assert decided.decisions[0].reason.code == "reclaimed"
