"""Jobs that ask for cores and memory run where their GPUs come with them, never at the cost of another GPU."""

from __future__ import annotations

from typing import Any

from pools.resting_pool import at_rest, nodes_of_jobs, told

from springtide.scheduler.simulate import Rest

SMALL = {"name": "small", "gpus": 4, "cpus": 16, "memory": "64Gi"}
LARGE = {"name": "large", "gpus": 4, "cpus": 64, "memory": "512Gi"}


def rest(jobs: list[dict[str, Any]], *nodes: dict[str, Any], **quotas: int) -> Rest:
    """Where a pool comes to rest whose projects have these quotas, by default one with all GPUs."""
    return at_rest(jobs, nodes or (SMALL, LARGE), quotas)


def test_a_job_goes_where_its_gpus_come_with_what_it_asks_for() -> None:
    found = rest(
        [{"name": "a", "cpus": 5}, {"name": "b", "memory": "17Gi"}, {"name": "c", "cpus": 4, "memory": "16Gi"}]
    )
    assert nodes_of_jobs(found) == {"a": ["large"], "b": ["large"], "c": ["large"]}, (
        "packed onto the fullest that fits"
    )
    assert nodes_of_jobs(rest([{"name": "a", "cpus": "4000m"}], SMALL)) == {"a": ["small"]}
    assert nodes_of_jobs(rest([{"name": "a", "gpus": 2, "cpus": 8}], SMALL)) == {"a": ["small"]}, "of two GPUs"


def test_jobs_that_take_their_whole_share_fill_every_gpu() -> None:
    jobs = [{"name": f"j{at}", "cpus": 4, "memory": "16Gi"} for at in range(8)]
    assert all(nodes_of_jobs(rest(jobs)).values()), "no GPU is left without cores or memory"


def test_a_job_waits_for_a_suitable_node_though_other_gpus_are_free_and_says_so() -> None:
    full = {"name": "full", "gpus": 4, "cpus": 64, "placed": ["large"], "priority": 100}
    found = rest([full, {"name": "a", "cpus": 16, "memory": "100Gi"}, {"name": "b"}])
    assert nodes_of_jobs(found) == {"full": ["large"], "a": [], "b": ["small"]}
    assert "Only 1 of 2 nodes has 16 cores and 100 GiB of memory for 1 GPU." in told(found, "a")
    assert "Waiting for 1 GPU: none is free." in told(found, "a")


def test_a_job_that_no_node_has_enough_for_waits_and_says_how_much_there_is() -> None:
    found = rest([{"name": "a", "cpus": 17, "gpus": 1}, {"name": "b", "memory": "2Ti", "gpus": 4, "workers": 2}])
    assert nodes_of_jobs(found) == {"a": [], "b": []}
    assert told(found, "a") == (
        "It needs 17 cores with 1 GPU, and no node has that for 1 GPU: the nearest has 16 cores and 128 GiB of "
        "memory. "
        "The pool as it is can never run it."
    )
    assert "Each worker needs 2048 GiB of memory with 4 GPUs, and no node has that" in told(found, "b")


def test_a_job_that_fits_elsewhere_moves_away_for_one_that_does_not() -> None:
    small = {"name": "other", "gpus": 3, "placed": ["large"], "rotate": False}
    full = {"name": "full", "gpus": 1, "placed": ["large"], "rotate": False}
    found = rest([small, full, {"name": "a", "gpus": 3, "cpus": 40}])
    assert nodes_of_jobs(found) == {"other": ["small"], "full": ["large"], "a": ["large"]}


def test_what_is_reclaimed_is_on_suitable_nodes() -> None:
    borrowed = [
        {"name": "x", "project": "q", "gpus": 4, "placed": ["small"]},
        {"name": "y", "project": "q", "gpus": 4, "placed": ["large"]},
    ]
    found = rest([*borrowed, {"name": "mine", "gpus": 4, "cpus": 64}], p=4, q=4)
    assert nodes_of_jobs(found) == {"x": ["small"], "y": [], "mine": ["large"]}


def test_a_gang_is_spread_over_suitable_nodes_only() -> None:
    another = {**LARGE, "name": "larger"}
    found = rest([{"name": "g", "gpus": 4, "workers": 2, "cpus": 64}], SMALL, LARGE, another, p=12)
    assert sorted(nodes_of_jobs(found)["g"]) == ["large", "larger"]


def test_an_elastic_job_grows_onto_suitable_nodes_only() -> None:
    found = rest([{"name": "g", "gpus": 2, "workers": 4, "min_workers": 1, "cpus": 20}])
    assert nodes_of_jobs(found) == {"g": ["large", "large"]}


def test_a_node_of_which_nothing_is_known_holds_every_job() -> None:
    assert nodes_of_jobs(rest([{"name": "a", "cpus": 500, "memory": "9Ti"}], {"name": "n", "gpus": 1})) == {
        "a": ["n"]
    }
