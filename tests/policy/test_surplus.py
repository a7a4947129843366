"""Surplus ``least-served``: GPUs beyond what quotas use go to the jobs of least service, of any project."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from pools.small_pools import NOW, kinds, on, plan, pool, running, waiting

from springtide.scheduler.model import Job, Node, Order, Phase, Project, Settings, Surplus
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.state.fair_share import divide
from springtide.scheduler.policy.state.projects import ProjectNode

HOUR = 3600.0
LINE = Settings(order=Order.LEAST_SERVED, surplus=Surplus.LEAST_SERVED)
FAIR = replace(LINE, surplus=Surplus.FAIR)
ONE = (Node("n0", 1),)
FIRST = (Project("a", priority=200), Project("b", age=1))


def served(job: Job, hours: float) -> Job:
    return structs.replace(job, served=hours * HOUR)


def test_idle_gpus_go_to_the_job_that_had_least_whatever_its_project() -> None:
    jobs = (served(waiting("much", "a"), 100), waiting("none", "b"))

    assert kinds(plan(*jobs, nodes=ONE, projects=FIRST, settings=LINE)) == [("Start", "none")]
    assert kinds(plan(*jobs, nodes=ONE, projects=FIRST, settings=FAIR)) == [("Start", "much")]


def test_a_borrowed_job_that_had_much_gives_way_to_one_that_had_none() -> None:
    jobs = (served(running("much", "a", on("n0", 0)), 100), waiting("none", "b"))

    assert kinds(plan(*jobs, nodes=ONE, projects=FIRST, settings=LINE)) == [("Pause", "much"), ("Reserve", "none")]
    assert kinds(plan(*jobs, nodes=ONE, projects=FIRST, settings=FAIR)) == []


def test_a_job_within_its_quota_gives_way_to_no_borrower() -> None:
    jobs = (served(running("own", "a", on("n0", 0)), 100), waiting("none", "b"))

    assert kinds(plan(*jobs, nodes=ONE, quotas={"a": 1, "b": 0}, settings=LINE)) == []


@pytest.mark.parametrize("settings", [LINE, FAIR], ids=["least served", "fair"])
def test_nobody_is_entitled_to_what_the_limit_of_a_team_cuts_off(settings) -> None:
    """Nor does the quota of its department count for it: others are entitled to these GPUs."""
    projects = (Project("dept", quota=2), Project("team", "dept", limit=1, age=1), Project("other", age=2))
    mine = [waiting(f"mine{number}", "team") for number in range(3)]
    others = [served(waiting(f"other{number}", "other"), 5) for number in range(4)]
    planner = Planner(pool(*mine, *others, nodes=(Node("n0", 4),), projects=projects, settings=settings))

    planner.plan(NOW)

    assert {name: each.fair_share for name, each in planner.standing().items()} == {
        "dept": 1,
        "team": 1,
        "other": 3,
    }


def test_jobs_within_quota_come_before_the_line() -> None:
    jobs = (served(waiting("own", "a"), 100), waiting("none", "b"))

    assert kinds(plan(*jobs, nodes=ONE, quotas={"a": 1, "b": 0}, settings=LINE)) == [("Start", "own")]


def test_a_borrower_of_equal_service_keeps_its_gpus_until_its_next_step_of_service() -> None:
    jobs = (running("first", "b", on("n0", 0), started=NOW), waiting("second", "a"))
    quotas = {"b": 0, "a": 0}
    decided = plan(*jobs, nodes=ONE, quotas=quotas, settings=LINE)

    assert (kinds(decided), decided.wake_at) == ([], NOW + HOUR)  # when it has waited for long
    later = plan(*jobs, now=NOW + 4 * HOUR, nodes=ONE, quotas=quotas, settings=LINE)
    assert kinds(later) == [("Pause", "first"), ("Reserve", "second")]


def test_what_waiting_made_up_for_counts_in_the_shares_until_the_job_has_its_gpus_and_beyond() -> None:
    """Else each reservation takes a project's share away, and jobs of two projects pause each other for ever."""
    since = NOW - 4 * 4 * 24 * HOUR - 40 * HOUR - 1
    old = served(waiting("old", "a", submitted=since), 40)
    newer = served(waiting("newer", "b"), 5)
    phases = {
        "waits": old,
        "reserved": structs.replace(old, reserved=on("n0", 0)),
        "runs": structs.replace(old, phase=Phase.RUNNING, placement=on("n0", 0), started=NOW),
    }
    shares = {}
    for phase, job in phases.items():
        planner = Planner(pool(job, newer, nodes=ONE, quotas={"a": 0, "b": 0}, settings=LINE))
        planner.plan(NOW)
        shares[phase] = {name: each.fair_share for name, each in planner.standing().items()}

    assert shares == {phase: {"a": 1, "b": 0} for phase in phases}


def project(name: str, quota: int, requests: dict[int, int], **fields: int) -> ProjectNode:
    weight = fields.pop("weight", 1_000_000)
    node = ProjectNode(name, quota, fields.pop("limit", 1000), weight, 100, fields.pop("age", 0))
    node.request = node.permitted = sum(requests.values())
    node.requests = requests
    return node


@pytest.mark.parametrize(
    ("total", "projects", "shares"),
    [
        (10, [project("a", 4, {0: 4, 3: 6}), project("b", 0, {0: 5, 3: 5})], [4 + 1, 5]),
        (10, [project("a", 4, {3: 8}), project("b", 0, {1: 20})], [4, 6]),
        (9, [project("a", 0, {0: 8}), project("b", 0, {0: 8}, age=1)], [5, 4]),
        (8, [project("a", 0, {0: 8}, weight=3_000_000), project("b", 0, {0: 8})], [6, 2]),
        (8, [project("a", 0, {0: 8}, limit=3), project("b", 0, {0: 2, 2: 8})], [3, 5]),
        (8, [project("a", 8, {5: 8}), project("b", 0, {0: 8})], [8, 0]),
    ],
)
def test_shares_by_service(total: int, projects: list[ProjectNode], shares: list[int]) -> None:
    divide(total, projects, by_service=True)

    assert [each.share for each in projects] == shares
