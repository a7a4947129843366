"""Several GPU types in one pool: quotas, order and reclaim of each by itself; jobs that accept several of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pools.small_pools import CALM, kinds, on, plan, running, waiting

from springtide.scheduler import sentences
from springtide.scheduler.model import Node, Project
from springtide.scheduler.scenario.read import checked
from springtide.scheduler.simulate import Rest, opening, settle

NODES = [{"name": "cheap", "gpus": 4, "gpu_type": "t4"}, {"name": "fast", "gpus": 4, "gpu_type": "a100"}]
BOTH = ["t4", "a100"]


def rest(jobs: list[dict[str, Any]], quotas: dict[str, Any], **scenario: Any) -> Rest:
    """Where a pool with four t4 and four a100 comes to rest; ``quotas`` are tables by project."""
    projects = [{"name": name, "quota": quota} for name, quota in quotas.items()]
    submitted = [{"submitted": at, **job} for at, job in enumerate(jobs)]
    data = {"nodes": NODES, "projects": projects, "jobs": submitted, "gpu_types": BOTH, **scenario}
    found = settle(opening(checked(data, "pool")))
    assert found.stable
    return found


def nodes(found: Rest) -> dict[str, str | None]:
    """The node of the first worker of each job, None if it waits."""
    return {job.id: job.placement[0].node if job.placement else None for job in found.jobs.values()}


def job(name: str, project: str, gpus: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "project": project, "gpus": gpus, **fields}


def test_a_project_within_its_quota_of_a_type_gets_gpus_of_that_type_whoever_borrowed_them() -> None:
    found = rest(
        [
            job("x", "b", 4, gpu_types=["t4"], placed=["cheap"]),
            job("y", "b", 4, gpu_types=["a100"], placed=["fast"]),
            job("mine", "a", 2, gpu_types=["a100"]),
        ],
        {"a": {"a100": 2}, "b": {"t4": 4}},
    )

    assert nodes(found) == {"x": "cheap", "y": None, "mine": "fast"}


def test_quota_of_one_type_is_no_quota_of_another() -> None:
    found = rest(
        [job("y", "b", 4, gpu_types=["a100"], placed=["fast"]), job("mine", "a", 2, gpu_types=["a100"])],
        {"a": {"t4": 4}, "b": {"a100": 4}},
    )

    assert nodes(found) == {"y": "fast", "mine": None}


def test_a_job_is_tried_within_quota_on_each_type_before_it_borrows() -> None:
    found = rest([job("mine", "a", 2)], {"a": {"a100": 2}, "b": {"t4": 4}})

    assert nodes(found) == {"mine": "fast"}


def test_gpus_within_quota_that_are_lent_come_before_borrowed_ones_that_are_idle() -> None:
    found = rest(
        [job("y", "b", 4, gpu_types=["a100"], placed=["fast"]), job("mine", "a", 2)],
        {"a": {"a100": 2}, "b": {"t4": 4}},
    )

    assert nodes(found) == {"y": None, "mine": "fast"}


def test_idle_gpus_within_quota_come_before_lent_ones() -> None:
    found = rest(
        [job("x", "b", 4, gpu_types=["t4"], placed=["cheap"]), job("mine", "a", 2)],
        {"a": {"t4": 2, "a100": 2}, "b": {"t4": 2}},
    )

    assert nodes(found) == {"x": "cheap", "mine": "fast"}


def test_a_job_borrows_in_the_order_of_its_types_and_without_them_in_that_of_the_pool() -> None:
    jobs = [job("any", "a"), job("picky", "a", gpu_types=["a100", "t4"])]

    assert nodes(rest(jobs, {"a": 0})) == {"any": "cheap", "picky": "fast"}
    assert nodes(rest(jobs, {"a": 0}, gpu_types=["a100"])) == {"any": "fast", "picky": "fast"}


def test_a_job_borrows_the_next_type_where_the_first_is_full() -> None:
    found = rest([job("x", "b", 4, gpu_types=["t4"]), job("next", "a", 2)], {"a": 0, "b": {"t4": 4}})

    assert nodes(found) == {"x": "cheap", "next": "fast"}


def test_all_workers_of_a_job_are_on_one_type() -> None:
    found = rest(
        [
            job("x", "b", 2, gpu_types=["t4"]),
            job("y", "b", 2, gpu_types=["a100"]),
            job("gang", "a", 2, workers=2),
        ],
        {"a": 0, "b": {"t4": 2, "a100": 2}},
    )

    assert nodes(found) == {"x": "cheap", "y": "fast", "gang": None}


def test_the_jobs_of_one_project_fill_the_quotas_of_all_types_before_they_borrow() -> None:
    found = rest([job(f"j{at}", "a") for at in range(6)], {"a": {"t4": 1, "a100": 2}, "b": {"t4": 3, "a100": 2}})

    assert list(nodes(found).values()) == ["cheap", "fast", "fast", "cheap", "cheap", "cheap"]


def test_a_paused_job_goes_on_on_another_type_that_it_accepts() -> None:
    found = rest(
        [job("wide", "b", 4, placed=["fast"]), job("mine", "a", 4, gpu_types=["a100"])],
        {"a": {"a100": 4}, "b": {"t4": 4}},
    )

    assert nodes(found) == {"wide": "cheap", "mine": "fast"}


def test_limits_are_of_each_type() -> None:
    jobs = [job(f"j{at}", "a", gpu_types=["t4"]) for at in range(3)] + [job("k", "a", 3, gpu_types=["a100"])]
    found = rest(jobs, {}, projects=[{"name": "a", "limit": {"t4": 2}}])

    assert nodes(found) == {"j0": "cheap", "j1": "cheap", "j2": None, "k": "fast"}


def test_a_waiting_job_requests_the_first_type_that_it_accepts() -> None:
    full = [job("x", "b", 4, gpu_types=["t4"]), job("y", "b", 4, gpu_types=["a100"])]
    found = rest([*full, job("w", "a", 2)], {"a": 0, "b": {"t4": 4, "a100": 4}})
    standing = found.planner.standing()["a"]

    assert {name: own.request for name, own in standing.by_type.items()} == {"t4": 2, "a100": 0}
    assert (standing.request, standing.waiting) == (2, 2)


def test_a_job_that_may_not_be_paused_fits_into_the_quota_of_the_type_that_it_gets() -> None:
    found = rest([job("firm", "a", 2, priority=100)], {"a": {"a100": 2}, "b": {"t4": 4}})

    assert nodes(found) == {"firm": "fast"}


def test_a_job_that_no_node_of_its_type_holds_waits_and_says_so() -> None:
    found = rest([job("huge", "a", 5, gpu_types=["a100"])], {"a": {"a100": 4}})

    assert nodes(found) == {"huge": None}
    assert "4" in sentences.text(found.planner.reason("huge", found.now))


def test_who_reclaims_within_quota_borrows_nothing_beyond_its_share_in_the_same_plan() -> None:
    types = (Node("full", 4, "t4"), Node("half", 2, "t4"), Node("other", 4, "a100"))
    decided = plan(
        running("x", "b", on("full", 0, 1, 2, 3)),
        running("y", "b", on("other", 0, 1, 2, 3)),
        waiting("elastic", "a", 1, 2, min_workers=1, priority=75),
        waiting("w", "a", 4, gpu_types=("t4", "a100")),
        nodes=types,
        projects=(Project("a", quota={"t4": 5}), Project("b", quota={"a100": 4}, priority=200, age=1)),
        settings=replace(CALM, gpu_types=("t4", "a100")),
    )

    assert kinds(decided) == [("Start", "elastic"), ("Pause", "x"), ("Reserve", "w")]
    assert decided.decisions[0].placement == on("half", 0)


def test_a_job_that_accepts_several_types_says_what_is_free_of_any_of_them() -> None:
    found = rest(
        [
            job("x", "b", 4, gpu_types=["t4"], placed=["cheap"]),
            job("y", "b", 3, gpu_types=["a100"], placed=["fast"]),
            job("wide", "a", 2, gpu_types=BOTH),
        ],
        {"a": {}, "b": {"t4": 4, "a100": 4}},
    )

    assert nodes(found)["wide"] is None
    said = sentences.text(found.planner.reason("wide", found.now))
    assert said.startswith("Waiting for 2 t4 or a100 GPUs on one node: no node has more than 1 free.")


def test_the_place_of_a_job_that_accepts_several_types_is_that_of_its_reason() -> None:
    found = rest(
        [
            job("x", "b", 4, gpu_types=["t4"], placed=["cheap"]),
            job("y", "b", 3, gpu_types=["a100"], placed=["fast"]),
            job("before", "a", 2, gpu_types=["t4"]),
            job("wide", "a", 2, gpu_types=BOTH),
        ],
        {"a": {}, "b": {"t4": 4, "a100": 4}},
    )

    why = found.planner.reason("wide", found.now)
    assert (why.params["of_type"], why.params["place"], found.planner.position("wide")) == ("a100", 1, 1)
