"""What a notebook's pod asks for, and what becomes of it, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from springtide.spawner import pods

GPU = "nvidia.com/gpu"
NOW = 1_790_000_000.0


def pod(phase: str = "Pending", node: str | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": "jupyter-susan", "uid": "u1", "creationTimestamp": "2026-09-21T12:00:00Z"}
    spec = {} if node is None else {"nodeName": node}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, "spec": spec, "status": {"phase": phase, **more}}


def event(reason: str, message: str = "", at: str = "2026-09-21T12:00:01Z", uid: str = "u1") -> dict[str, Any]:
    about = {"name": "jupyter-susan", "uid": uid}
    return {"reason": reason, "message": message, "lastTimestamp": at, "involvedObject": about, "metadata": {}}


# ---------- what it asks for


PATTERNS = (GPU, "nvidia.com/mig-*", "amd.com/gpu")
SLICE = "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize("gpus", [0, 3])
def test_the_gpus_are_those_reserved_whatever_was_asked_for_before(gpus: int) -> None:
    found = {"limits": {GPU: "8", "cpu": "2"}, "requests": {GPU: "8", "memory": "1G"}}
    told = pods.resources(found, PATTERNS, {GPU: gpus})
    assert told["limits"] == {GPU: str(gpus), "cpu": "2"}
    assert told["requests"] == {GPU: str(gpus), "memory": "1G"}
    assert found["limits"][GPU] == "8"


def test_gpus_of_other_kinds_than_the_reserved_ones_are_not_asked_for() -> None:
    told = pods.resources({"limits": {GPU: "8", "nvidia.com/mig-7g.40gb": "1"}}, PATTERNS, {SLICE: 2})
    asked = {GPU: "0", "nvidia.com/mig-7g.40gb": "0", SLICE: "2"}
    assert told == {"limits": asked, "requests": asked}
    sidecar = pods.resources({"limits": {GPU: "1", "cpu": "1"}}, PATTERNS, {})
    assert sidecar == {"limits": {GPU: "0", "cpu": "1"}, "requests": {GPU: "0"}}


def test_gpus_are_said_where_nothing_was_asked_for() -> None:
    assert pods.resources({}, PATTERNS, {GPU: 0}) == {"limits": {GPU: "0"}, "requests": {GPU: "0"}}


def terms(affinity: dict[str, Any]) -> list[dict[str, Any]]:
    found = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert isinstance(found, list)
    return found


HERE = {"key": "metadata.name", "operator": "In", "values": ["dgx-1"]}


def test_a_pod_is_pinned_to_the_node_of_its_gpus() -> None:
    assert terms(pods.pinned({}, "dgx-1")) == [{"matchFields": [HERE]}]


def test_what_was_required_before_is_still_required() -> None:
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    big = {"key": "size", "operator": "Exists"}
    before = {
        "podAffinity": {"x": 1},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [ssd]}, {"matchExpressions": [big]}]
            },
        },
    }
    told = pods.pinned(before, "dgx-1")
    assert terms(told) == [
        {"matchExpressions": [ssd], "matchFields": [HERE]},
        {"matchExpressions": [big], "matchFields": [HERE]},
    ]
    assert told["podAffinity"] == {"x": 1}
    assert told["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == [{"weight": 1}]


# ---------- how it ends


def test_an_evicted_pod_has_ended_though_no_container_says_so() -> None:
    evicted = pod("Failed", "n1", reason="Evicted", message="The node was low on resource: memory.")
    why = pods.over(evicted, NOW)
    assert why == "Its pod has ended: it was evicted from its node (The node was low on resource: memory.)."
    assert pods.ended_by_itself(evicted)


def test_a_server_that_ended_is_told_with_its_exit_code() -> None:
    ended = {"name": "notebook", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    assert "exit code 137 (OOMKilled)" in str(pods.over(pod("Failed", "n1", containerStatuses=[ended]), NOW))


def test_a_pod_that_should_long_be_gone_is_lost_with_its_node() -> None:
    leaving = pod("Running", "n1", metadata={"deletionTimestamp": "2026-09-21T12:00:00Z"})
    at = datetime(2026, 9, 21, 12, tzinfo=UTC).timestamp()
    assert pods.over(leaving, at + 5) is None
    assert "n1 that it ran on does not answer" in str(pods.over(leaving, at + 1000))
    assert not pods.ended_by_itself(leaving)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_may_still_run_has_not_ended(phase: str) -> None:
    assert pods.over(pod(phase, "n1"), NOW) is None


@pytest.mark.parametrize(
    ("waiting", "says"),
    [
        ({"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}, "back-off 10s restarting"),
        ({"reason": "InvalidImageName", "message": 'couldn\'t parse image "??"'}, "couldn't parse image"),
        ({"reason": "CreateContainerConfigError"}, "CreateContainerConfigError"),
    ],
)
def test_a_container_that_will_not_start_is_not_waited_for(waiting: dict[str, str], says: str) -> None:
    status = {"name": "notebook", "state": {"waiting": waiting}, "lastState": {"terminated": {"exitCode": 2}}}
    why = pods.hopeless(pod("Pending", "n1", containerStatuses=[status]))
    assert says in str(why)
    assert "exit code 2" in str(why)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "ErrImagePull", "ImagePullBackOff"])
def test_a_container_that_may_start_is_waited_for(reason: str) -> None:
    status = {"name": "notebook", "state": {"waiting": {"reason": reason}}}
    assert pods.hopeless(pod("Pending", "n1", containerStatuses=[status])) is None


# ---------- how it starts

LACKING = (
    "0/6 nodes are available: 1 Insufficient memory, 2 node(s) didn't match Pod's node affinity/selector, "
    "2 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }. "
    "preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling."
)


def test_why_no_node_has_room_is_told_in_words() -> None:
    assert pods.no_room(LACKING) == (
        "No node has room for your notebook yet: 1 node has too little free memory, 2 nodes have no place for "
        "this kind of notebook, 2 nodes have too few free GPUs, 1 node has stopped answering."
    )


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ('0/3 nodes are available: persistentvolumeclaim "claim-susan" not found.', "volume claim-susan that"),
        ("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "still being made"),
        ("no nodes available to schedule pods", "No node takes your notebook yet: no nodes available"),
        ("0/1 nodes are available: 1 something new.", "1 node has said: something new"),
        ("", "No node takes your notebook yet"),
    ],
)
def test_other_reasons_are_told_too(message: str, says: str) -> None:
    assert says in pods.no_room(message)


def test_a_pod_without_a_node_has_a_place_in_line() -> None:
    def waiting(uid: str, at: int, **more: Any) -> dict[str, Any]:
        created = f"2026-09-21T12:00:{at:02}Z"
        return pod(metadata={"uid": uid, "creationTimestamp": created}, **more)

    first, mine, later = waiting("a", 1), waiting("b", 2), waiting("c", 3)
    placed = waiting("d", 0, node="n1")
    others = [later, placed, mine, first]
    assert pods.place_in_line(mine, others) == 2
    assert pods.place_in_line(placed, others) is None
    assert pods.news(mine, [event("FailedScheduling", LACKING)], 2).endswith("Your notebook is number 2 in line.")


def test_news_follow_the_pod() -> None:
    assert "being made" in pods.news(None, [], None)
    assert "waits for a node" in pods.news(pod(), [], 1)
    assert "adding a node" in pods.news(pod(), [event("FailedScheduling"), event("TriggeredScaleUp")], 1)
    placed = pod(node="dgx-1")
    assert pods.news(placed, [], None) == "Your notebook has a place on dgx-1 and is starting there."
    pulling = event("Pulling", 'Pulling image "lab/notebook:1"')
    assert 'fetched: Pulling image "lab/notebook:1".' in pods.news(placed, [event("Scheduled"), pulling], None)


def test_a_message_cannot_bring_more_than_a_line_of_text() -> None:
    told = pods.news(pod(node="n"), [event("Failed", "a\n\x1b[31mb\u202e" + "x" * 10_000)], None)
    assert told.isprintable()
    assert len(told) < 500


def test_only_events_of_this_very_pod_count_in_order() -> None:
    found = [event("B", at="2026-09-21T12:00:02Z"), event("A"), event("Old", uid="another")]
    timeless = {**event("First"), "lastTimestamp": None, "eventTime": None}
    assert [each["reason"] for each in pods.events_of(pod(), [*found, timeless])] == ["First", "A", "B"]
