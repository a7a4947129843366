"""Which nodes are asked for: the plan with all nodes that may come, and requests that do not flap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from springtide.scheduler.engine.node_groups import Demand, SteadyRequest, demand
from springtide.scheduler.engine.state.observed import Drained, ObservedNodes
from springtide.scheduler.executors.base import NodeGroup
from springtide.scheduler.model import Job, Node, Phase, Project, Settings, Snapshot, Worker

BIG = NodeGroup("big", Node("~big", 8, "h100", group="big"), most=3)
SMALL = NodeGroup("small", Node("~small", 1, "t4", group="small"), most=3)
VISION = Project("vision", quota={"h100": 8, "t4": 0})
SETTINGS = Settings(gpu_types=("t4", "h100"))


def job(name: str, **fields: Any) -> Job:
    return Job(name, "vision", **{"gpu_types": ("h100",), **fields})


def wanted(*jobs: Job, nodes: tuple[Node, ...] = (), project: Project = VISION, **fields: Any) -> Demand:
    observed = ObservedNodes(nodes, groups=(BIG, SMALL))
    drained = fields.pop("drained", Drained())
    snapshot = Snapshot(100.0, observed.train(drained), (project,), jobs, SETTINGS)
    return demand(snapshot, observed.addable(drained))


def test_workers_are_packed_onto_the_nodes_of_a_group() -> None:
    found = wanted(job("a", gpus=4, workers=3, min_workers=3), job("b", gpus=4))
    assert found == Demand({"big": 2}, {"a": "big", "b": "big"})


def test_a_job_goes_to_the_group_whose_gpus_it_accepts() -> None:
    assert wanted(job("a", gpu_types=("t4",))).nodes == {"small": 1}
    assert wanted(job("a", gpu_types=("v100",))) == Demand()


def test_nothing_is_wanted_for_what_fits_on_the_nodes_that_are_there() -> None:
    assert wanted(job("a", gpus=8), nodes=(Node("n", 8, "h100", group="big"),)) == Demand()


def test_growth_beyond_the_least_number_of_workers_wants_no_node() -> None:
    assert wanted(job("a", gpus=8, workers=3, min_workers=1)).nodes == {"big": 1}
    here = (Node("n", 8, "h100", group="big"),)
    runs = job("a", gpus=8, workers=3, min_workers=1, phase=Phase.RUNNING, started=1.0)
    assert wanted(structs.replace(runs, placement=(Worker(0, "n", tuple(range(8))),)), nodes=here) == Demand()


def test_a_limit_bounds_what_is_wanted() -> None:
    limited = replace(VISION, limit={"h100": 8, "t4": 0})
    assert wanted(job("a", gpus=8), job("b", gpus=8), project=limited).nodes == {"big": 1}
    assert wanted(job("a", gpu_types=("t4",)), project=limited) == Demand()


def test_jobs_that_may_not_run_now_want_nothing() -> None:
    assert wanted(job("a", phase=Phase.HELD), job("b", not_before=200.0)) == Demand()


def test_nodes_that_are_there_or_drained_count_and_those_that_join_do_not() -> None:
    present = tuple(Node(f"n{number}", 8, "h100", group="big", available=number == 0) for number in range(3))
    jobs = [job(str(number), gpus=8) for number in range(4)]
    assert wanted(*jobs, nodes=present).nodes == {"big": 2}
    assert wanted(*jobs, nodes=present, drained=Drained(nodes=("n1",))).nodes == {"big": 1}


def test_the_gpus_of_all_nodes_that_may_come_are_possible() -> None:
    observed = ObservedNodes((Node("n", 8, "h100", group="big"),), groups=(replace(BIG, closed=1),))
    assert [node.name for node in observed.possible()] == ["n", "~big-0000"]


def test_a_request_follows_what_stays_wanted() -> None:
    request = SteadyRequest(present=0, asked=0, window=5.0)
    assert [request.follow(0, more, now) for now, more in ((0, 0), (6, 1), (8, 0), (14, 0))] == [0, 0, 0, 0]
    assert [request.follow(0, 2, now) for now in (20, 22, 26)] == [0, 0, 2]
    assert [request.follow(0, more, now) for now, more in ((27, 0), (29, 2), (35, 2))] == [2, 2, 2]
    assert [request.follow(0, 0, now) for now in (36, 38, 42)] == [2, 2, 0]


def test_a_node_that_joins_is_asked_for_no_longer_at_once() -> None:
    request = SteadyRequest(present=0, asked=2, window=5.0)
    request.follow(0, 2, 0)
    assert request.follow(0, 2, 10) == 2
    assert request.follow(1, 2, 11) == 1, "the plan has not seen the node yet"
    assert request.follow(1, 1, 12) == 1
    assert request.follow(2, 0, 13) == 0


def test_a_node_that_leaves_idle_is_not_asked_for_again() -> None:
    request = SteadyRequest(present=1, asked=0, window=5.0)
    assert [request.follow(present, 0, now) for now, present in ((0, 1), (6, 1), (7, 0), (8, 0), (20, 0))] == [
        0
    ] * 5
    lost = SteadyRequest(present=1, asked=0, window=5.0)
    assert [lost.follow(1, 0, 0), lost.follow(1, 0, 6), lost.follow(0, 1, 7)] == [0, 0, 1], "its job waits again"


def test_what_was_asked_for_before_a_restart_stays_until_it_is_known_what_is_wanted() -> None:
    request = SteadyRequest(present=0, asked=1, window=5.0)
    assert [request.follow(0, 0, now) for now in (0, 2, 5)] == [1, 1, 0]
