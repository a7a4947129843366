"""Jobs whose workers need RDMA run where there is enough of it, in whole gangs, and say so while they wait."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pools.resting_pool import at_rest, nodes_of_jobs, told

from springtide.scheduler.simulate import Rest

PLAIN = {"name": "plain", "gpus": 8}
FIRST = {"name": "rdma-1", "gpus": 8, "rdma": 8}
SECOND = {"name": "rdma-2", "gpus": 8, "rdma": 8}
FEW = {"name": "few", "gpus": 8, "rdma": 2}


def rest(jobs: list[dict[str, Any]], *nodes: dict[str, Any]) -> Rest:
    """Where a pool of these nodes comes to rest, by default two with RDMA and one without."""
    return at_rest(jobs, nodes or (PLAIN, FIRST, SECOND), {})


def test_a_gang_with_rdma_is_on_nodes_that_have_it_only() -> None:
    found = rest([{"name": "g", "gpus": 8, "workers": 2, "rdma": True}, {"name": "other", "gpus": 8}])
    assert {name: sorted(on) for name, on in nodes_of_jobs(found).items()} == {
        "g": ["rdma-1", "rdma-2"],
        "other": ["plain"],
    }


def test_a_job_without_rdma_may_be_anywhere() -> None:
    found = rest([{"name": "g", "gpus": 8, "workers": 3}])
    assert sorted(nodes_of_jobs(found)["g"]) == ["plain", "rdma-1", "rdma-2"]


def test_a_gang_waits_for_a_node_with_rdma_though_another_is_free_and_says_so() -> None:
    full = {"name": "full", "gpus": 8, "placed": ["rdma-1"], "priority": 100}
    found = rest([full, {"name": "g", "gpus": 8, "workers": 2, "rdma": True}])
    assert nodes_of_jobs(found) == {"full": ["rdma-1"], "g": []}
    assert told(found, "g").startswith(
        "Waiting for 2 workers with 8 GPUs each: room for 1 now. Only 2 of 3 nodes have RDMA. "
    )


def test_what_is_asked_for_besides_is_told_together() -> None:
    large = {**FIRST, "cpus": 64}
    full = {"name": "full", "gpus": 8, "placed": ["rdma-1"], "priority": 100}
    found = rest([full, {"name": "a", "cpus": 8, "rdma": True}], {**PLAIN, "cpus": 32}, large)
    assert "Only 1 of 2 nodes has 8 cores for 1 GPU and RDMA." in told(found, "a")


def test_without_any_rdma_a_job_waits_and_says_so() -> None:
    found = rest([{"name": "g", "gpus": 8, "workers": 2, "rdma": True}, {"name": "a", "rdma": True}], PLAIN)
    assert nodes_of_jobs(found) == {"g": [], "a": []}
    assert told(found, "g") == (
        "Each worker with 8 GPUs needs RDMA, and no node that can be used now has it for a worker of that size. "
        "The pool as it is can never run it."
    )
    assert told(found, "a").startswith("It needs RDMA, and no node that can be used now has it")


def test_a_gang_larger_than_the_nodes_with_rdma_says_how_many_workers_they_hold() -> None:
    found = rest([{"name": "g", "gpus": 8, "workers": 3, "rdma": True}])
    assert "and all nodes with RDMA together have room for 2." in told(found, "g")


def test_devices_are_counted_by_the_gpus_that_come_with_them() -> None:
    found = rest([{"name": f"j{at}", "gpus": 4, "rdma": True} for at in range(3)], FEW)
    assert nodes_of_jobs(found) == {"j0": ["few"], "j1": ["few"], "j2": []}
    small = rest([{"name": "small", "gpus": 2, "rdma": True}, {"name": "beside", "gpus": 6}], FEW)
    assert nodes_of_jobs(small) == {"small": [], "beside": ["few"]}
    assert "for a worker of that size" in told(small, "small")


def test_a_job_that_needs_no_rdma_moves_away_for_one_that_does() -> None:
    other = {"name": "other", "gpus": 5, "placed": ["rdma-1"], "rotate": False}
    found = rest([other, {"name": "a", "gpus": 8, "rdma": True}], PLAIN, FIRST)
    assert nodes_of_jobs(found) == {"other": ["plain"], "a": ["rdma-1"]}


def test_an_elastic_job_grows_onto_nodes_with_rdma_only() -> None:
    found = rest([{"name": "g", "gpus": 4, "workers": 6, "min_workers": 1, "rdma": True}], PLAIN, FIRST)
    assert nodes_of_jobs(found) == {"g": ["rdma-1", "rdma-1"]}


NODES = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 12)), min_size=1, max_size=4)
JOBS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.booleans()), max_size=8)


@settings(max_examples=150)
@given(NODES, JOBS)
def test_no_node_ever_has_more_workers_with_rdma_than_devices(
    of_nodes: list[tuple[int, int]], of_jobs: list[tuple[int, int, bool]]
) -> None:
    own = [{"name": f"n{at}", "gpus": gpus, "rdma": rdma} for at, (gpus, rdma) in enumerate(of_nodes)]
    asked = [
        {"name": f"j{at}", "gpus": gpus, "workers": workers, "min_workers": 1, "rdma": rdma}
        for at, (gpus, workers, rdma) in enumerate(of_jobs)
    ]
    found = rest(asked, *own)
    with_rdma = {f"j{at}" for at, (_, _, rdma) in enumerate(of_jobs) if rdma}
    on = [node for name, there in nodes_of_jobs(found).items() if name in with_rdma for node in there]
    for at, (_, devices) in enumerate(of_nodes):
        assert on.count(f"n{at}") <= devices
