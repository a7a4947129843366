"""The judge of days on a cluster finds what a pool could do wrong, from the events of the API server alone."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from cluster_day.judge import GPU, Judge, Wanted
from clusters.audit import Request

VERSIONS = count(1)
"""The changes of the store of a cluster, of nodes and pods alike."""


def node(
    name: str = "n", *, ready: str = "True", unschedulable: bool = False, taint: str = "", uid: str = "first"
) -> dict[str, Any]:
    spec: dict[str, Any] = {"unschedulable": unschedulable, "taints": [{"key": taint}] if taint else []}
    conditions = [{"type": "Ready", "status": ready}]
    status = {"allocatable": {GPU: "4"}, "conditions": conditions}
    meta = {"name": name, "uid": uid, "resourceVersion": str(next(VERSIONS))}
    return {"metadata": meta, "spec": spec, "status": status}


BEGUN = {"startTime": "2026-01-01T00:00:00Z"}


def pod(
    job: str,
    slots: tuple[int, ...] = (0,),
    *,
    attempt: int = 1,
    project: str = "vision",
    phase: str = "Running",
    code: int | None = None,
    on: str = "n",
    of: tuple[int, int] = (0, 1),
) -> dict[str, Any]:
    """A pod of a job; ``of`` are its rank and the number of workers."""
    rank, size = of
    notes = {"project": project, "size": str(size), "worker": json.dumps({"gpus": slots})}
    labels = {"job": job, "attempt": str(attempt), "rank": str(rank)}
    states = [] if code is None else [{"state": {"terminated": {"exitCode": code}}}]
    return {
        "metadata": {
            "name": f"st-{job}-{attempt}-{rank}",
            "uid": f"{job}-{attempt}-{rank}",
            "resourceVersion": str(next(VERSIONS)),
            "labels": {f"springtide.io/{name}": value for name, value in labels.items()},
            "annotations": {f"springtide.io/{name}": value for name, value in notes.items()},
        },
        "spec": {"nodeName": on, "containers": [{"resources": {"requests": {GPU: str(len(slots))}}}]},
        "status": {"phase": phase, "containerStatuses": states} | ({} if phase == "Pending" else BEGUN),
    }


@pytest.fixture
def judge() -> Judge:
    judge = Judge({"vision": 2, "speech": 2}, limit=10.0)
    judge.see_node("ADDED", node())
    return judge


def test_jobs_beside_each_other_and_one_after_the_other_are_no_problem(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a", (0, 1)))
    judge.see_pod("ADDED", pod("b", (2, 3)))
    judge.see_pod("MODIFIED", pod("a", (0, 1), phase="Failed", code=143))
    judge.see_pod("ADDED", pod("c", (0, 1)))
    judge.see_pod("DELETED", pod("a", (0, 1), phase="Failed", code=143))
    judge.see_pod("MODIFIED", pod("b", (2, 3), phase="Succeeded", code=0))
    judge.see_pod("ADDED", pod("a", (2, 3), attempt=2))
    assert (judge.problems, judge.completed) == ([], {"b": 1})


def test_a_gpu_that_two_pods_have_is_found(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a", (0, 1)))
    judge.see_pod("ADDED", pod("b", (1, 2)))
    assert judge.problems == ["GPU 1 of n is bound 2 times: st-a-1-0, st-b-1-0"]


def test_more_gpus_than_a_node_has_are_found(judge: Judge) -> None:
    for job in "ab":
        found = pod(job, (0, 1, 2))
        del found["metadata"]["annotations"]["springtide.io/worker"]
        judge.see_pod("ADDED", found)
    assert judge.problems == ["n has 4 GPUs, and more are bound: st-a-1-0, st-b-1-0"]


def test_two_attempts_at_once_are_found(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a", (0,)))
    judge.see_pod("ADDED", pod("a", (1,), attempt=2))
    assert judge.problems == ["two attempts run at once: st-a-1-0, st-a-2-0"]


def test_a_job_that_runs_to_its_end_twice_is_found(judge: Judge) -> None:
    for attempt in (1, 2):
        judge.see_pod("ADDED", pod("a", attempt=attempt, phase="Succeeded", code=0))
    assert judge.problems == ["the job a ran to its end 2 times"]


def test_a_gang_has_run_to_its_end_when_all_workers_of_one_attempt_have(judge: Judge) -> None:
    judge.see_pod("MODIFIED", pod("a", (0,), of=(0, 2), phase="Succeeded", code=0))
    judge.see_pod("MODIFIED", pod("a", (1,), of=(1, 2), phase="Failed", code=143))
    assert judge.completed["a"] == 0
    for rank in (0, 1):
        judge.see_pod("MODIFIED", pod("a", (rank,), attempt=2, of=(rank, 2), phase="Succeeded", code=0))
    assert (judge.completed["a"], judge.problems) == (1, [])


def test_a_pod_that_is_removed_while_it_runs_on_a_node_that_is_up_is_found(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a"))
    judge.see_pod("DELETED", pod("a"))
    assert judge.problems == ["st-a-1-0 was removed from n, which is up, before it had ended"]


def test_a_pod_that_is_removed_while_it_is_being_bound_runs_nothing(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a", phase="Pending"))
    judge.see_pod("DELETED", pod("a", phase="Pending"))
    judge.see_pod("ADDED", pod("a", attempt=2))
    assert judge.problems == []


def request(verb: str, subresource: str = "", *, at: float, grace: int | None = None, code: int = 200) -> Request:
    """A request about the pod of the job a, which took a second."""
    return Request(verb, "jobs", "st-a-1-0", subresource, "springtide", at, at + 1, code, grace)


BOUND = request("create", "binding", at=100.0)


@pytest.mark.parametrize("asked", [request("delete", at=100.5, grace=9), request("create", "eviction", at=99.5)])
def test_a_pod_that_the_api_server_removes_at_once_as_it_is_bound_has_its_time_to_end(
    judge: Judge, asked: Request
) -> None:
    judge.see_pod("ADDED", pod("a"))
    judge.see_pod("DELETED", pod("a"), at=101.0, requests=[BOUND, asked])
    assert (judge.problems, judge.cut_short) == ([], 1)
    judge.see_node("MODIFIED", node())
    judge.look(130.0, excused=False)
    assert judge.ghosts
    judge.look(131.0, excused=False)
    judge.see_pod("ADDED", pod("a", attempt=2))
    assert judge.problems == []


def test_a_second_attempt_while_the_first_has_its_time_to_end_is_found(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a"))
    asked = request("delete", at=100.5, grace=9)
    judge.see_pod("DELETED", pod("a"), at=101.0, requests=[BOUND, asked])
    judge.look(130.0, excused=False)
    judge.see_pod("ADDED", pod("a", attempt=2))
    assert judge.problems == [
        "GPU 0 of n is bound 2 times: st-a-1-0, st-a-2-0",
        "two attempts run at once: st-a-1-0, st-a-2-0",
    ]


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [BOUND],
        [request("delete", at=100.5, grace=9)],
        [BOUND, request("delete", at=101.5, grace=9)],
        [BOUND, request("delete", at=100.5, grace=0)],
        [BOUND, request("delete", at=100.5, grace=9, code=409)],
        [BOUND, request("delete", at=100.5, grace=9), request("delete", at=100.7, grace=0)],
    ],
    ids=["unknown", "nobody", "bound by itself", "bound before", "by force", "refused", "one by force"],
)
def test_a_pod_that_somebody_removes_before_it_has_ended_is_found(judge: Judge, requests: list[Request]) -> None:
    judge.see_pod("ADDED", pod("a"))
    judge.see_pod("DELETED", pod("a"), requests=requests)
    assert judge.problems == ["st-a-1-0 was removed from n, which is up, before it had ended"]
    assert judge.cut_short == 0


@pytest.mark.parametrize("seen", ["in order", "late", "as another one"])
def test_a_pod_whose_node_was_removed_meanwhile_does_not_run_on_the_next_of_its_name(
    judge: Judge, seen: str
) -> None:
    bound, gone = pod("a"), node()
    if seen != "late":
        judge.see_pod("ADDED", bound)
    if seen != "as another one":
        judge.see_node("DELETED", gone)
    judge.see_node("ADDED", node(uid="second"))
    if seen == "late":
        judge.see_pod("ADDED", bound)
    judge.see_pod("DELETED", pod("a"))
    assert judge.problems == []


def test_a_pod_that_is_bound_to_the_next_node_of_a_name_runs_there(judge: Judge) -> None:
    judge.see_node("DELETED", node())
    judge.see_pod("ADDED", pod("a"))
    judge.see_node("ADDED", node(uid="second"))
    judge.see_pod("DELETED", pod("a"))
    assert judge.problems == ["st-a-1-0 was removed from n, which is up, before it had ended"]


def test_what_a_watch_tells_after_a_look_that_knew_more_changes_nothing(judge: Judge) -> None:
    up, lost = node(), node(ready="Unknown")
    judge.see_node("MODIFIED", lost)
    judge.see_node("MODIFIED", up)
    assert not judge.nodes["n"].up
    told, gone = node(), node()
    judge.see_node("DELETED", gone)
    judge.see_node("MODIFIED", told)
    assert judge.nodes == {}


def test_a_problem_has_the_story_of_its_pods_and_nodes(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a", phase="Pending"), at=99.0)
    judge.see_pod("ADDED", pod("b", (1,)), at=99.5)
    judge.see_pod("MODIFIED", pod("a"), at=100.0)
    judge.see_node("MODIFIED", node(unschedulable=True, taint="being-drained"), at=101.0)
    judge.see_pod("DELETED", pod("a"), at=103.0)
    (uids,) = judge.about.values()
    assert judge.trail.subjects(uids) == {("", "st-a-1-0"), ("", "n")}
    by = request("delete", at=102.0, grace=0)
    lines = [line.split(" ", 1)[1] for line in judge.trail.story(uids, [by])]
    assert [line.split(" at version")[0] for line in lines] == [
        "st-a-1-0 ADDED",
        "st-a-1-0 MODIFIED",
        "n MODIFIED",
        "springtide asked to delete st-a-1-0 within 0 s: 200 after 1000 ms",
        "st-a-1-0 DELETED",
    ]
    assert "Pending on n" in lines[0]
    assert "begun 2026-01-01T00:00:00Z" in lines[1]
    assert lines[2].endswith("uid first, Ready=True, unschedulable, being-drained:")


@pytest.mark.parametrize("way", ["fenced", "deleted", "back"])
def test_a_pod_that_is_removed_from_a_silent_node_may_run_until_the_node_is_off_or_back(
    judge: Judge, way: str
) -> None:
    judge.see_pod("ADDED", pod("a"))
    judge.see_node("MODIFIED", node(ready="Unknown"))
    judge.see_pod("DELETED", pod("a"))
    assert judge.ghosts
    if way == "fenced":
        judge.see_node("MODIFIED", node(ready="Unknown", taint="node.kubernetes.io/out-of-service"))
    elif way == "deleted":
        judge.see_node("DELETED", node())
    else:
        judge.see_node("MODIFIED", node())
    judge.see_node("ADDED", node("m"))
    judge.see_pod("ADDED", pod("a", attempt=2, on="m"))
    assert judge.problems == []


def test_a_second_attempt_beside_one_on_a_silent_node_is_found(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a"))
    judge.see_node("MODIFIED", node(ready="Unknown"))
    judge.see_pod("DELETED", pod("a"))
    judge.see_node("ADDED", node("m"))
    judge.see_pod("ADDED", pod("a", attempt=2, on="m"))
    assert judge.problems == ["two attempts run at once: st-a-1-0, st-a-2-0"]


# ---------- words


def test_words_that_come_too_late_are_found() -> None:
    judge = Judge({}, said_within=60.0)
    judge.hear("the page", 60.0)
    assert judge.problems == []
    judge.hear("the jobs", 61.2)
    assert judge.problems == ["the jobs said what happened after 61 s, not within 60 s"]
    assert judge.said_after == {"the page": [60.0], "the jobs": [61.2]}


# ---------- quotas


def look(judge: Judge, *, excused: bool = False) -> list[str]:
    """Look at the start and after the limit; return the problems."""
    for now in (0.0, 11.0):
        judge.look(now, excused=excused)
    return judge.problems


def test_an_owner_who_waits_while_others_borrow_is_found_after_the_limit(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("a", (0, 1)))
    judge.see_pod("ADDED", pod("b", (2, 3)))
    judge.accept(Wanted("c", "speech", 2))
    judge.look(0.0, excused=False)
    judge.look(9.0, excused=False)
    assert (judge.problems, judge.longest) == ([], 9.0)
    assert look(judge) == ["speech waited for more than 10 s within its quota"]


def test_an_owner_who_waits_while_gpus_are_free_is_found_after_the_limit(judge: Judge) -> None:
    judge.accept(Wanted("c", "speech", 2))
    assert look(judge) == ["speech waited for more than 10 s within its quota"]


def test_a_pod_of_others_without_gpus_takes_no_room(judge: Judge) -> None:
    judge.see_pod("ADDED", pod("foreign", (), project=""))
    judge.accept(Wanted("c", "speech", 2))
    assert look(judge) == ["speech waited for more than 10 s within its quota"]


@pytest.mark.parametrize(
    "why", ["excused", "beyond its quota", "no room", "closed", "silent", "runs", "small", "over"]
)
def test_nobody_waits_in_vain_whose_wish_cannot_or_need_not_be_met(judge: Judge, why: str) -> None:
    judge.accept(Wanted("c", "speech", 3 if why == "beyond its quota" else 2))
    if why == "no room":  # both have what is theirs
        for job, slots in (("a", (0, 1)), ("d", (2,))):
            judge.see_pod("ADDED", pod(job, slots))
        judge.see_pod("ADDED", pod("foreign", (3,), project=""))
    elif why == "small":  # a single job of vision that borrows one GPU; without it vision would have too few
        judge.see_pod("ADDED", pod("a", (0, 1, 2)))
    elif why == "runs":
        judge.see_pod("ADDED", pod("c", (0, 1), project="speech"))
    elif why == "over":
        judge.see_pod("ADDED", pod("c", (0, 1), project="speech", phase="Succeeded", code=0))
    elif why in ("closed", "silent"):
        judge.see_node(
            "MODIFIED", node(ready="Unknown" if why == "silent" else "True", unschedulable=why == "closed")
        )
    assert look(judge, excused=why == "excused") == []
