"""When and how an attempt of pods started and ended, by what kubelets and supervisors tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from springtide.scheduler.executors.base import AttemptKey, Exit, ExitKind
from springtide.scheduler.executors.kubernetes.attempts import Attempt
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod

END = 1_795_505_501.94


def test_an_attempt_that_ended_at_once_did_not_start_after_its_end() -> None:
    """A kubelet tells whole seconds of its own, the supervisor in the pod the exact time of the end."""
    message = msgspec.json.encode({"kind": "exited", "code": 0, "at": END}).decode()
    second = datetime.fromtimestamp(1_795_505_502, UTC)
    terminated = {"startedAt": second, "finishedAt": second, "exitCode": 0, "message": message}
    status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": terminated}}]}
    pod = msgspec.convert({"spec": {"nodeName": "real"}, "status": status}, Pod)
    attempt = Attempt(AttemptKey("job", 1), 1, grace=30.0)

    attempt.observe_pod(0, pod, None)
    attempt.update_phase()
    attempt.conclude(END + 5, complete=False, returned=None)

    assert attempt.status.exit is not None
    assert (attempt.status.started, attempt.status.exit.at) == (END, END)


ENDED = datetime.fromtimestamp(END, UTC)


def pod_of(code: int, *, paused: bool, reason: str = "", condition: str = "", leaving: bool = False) -> Pod:
    """Return the pod of a worker that has ended, with what its supervisor told."""
    said = msgspec.json.encode({"kind": "exited", "code": code, "at": END, "paused": paused}).decode()
    terminated = {"startedAt": ENDED, "finishedAt": ENDED, "exitCode": code, "message": said}
    status: dict[str, Any] = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": terminated}}]}
    status |= {"reason": reason, "message": "The node was low on memory." if reason else ""}
    if condition:
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": condition}]
    metadata = {"deletionTimestamp": ENDED} if leaving else {}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "real"}, "status": status}, Pod)


def end_of_attempt(*pods: Pod, requested: str | None = None, complete: bool = False) -> Exit:
    attempt = Attempt(AttemptKey("job", 1), len(pods), grace=30.0, requested=requested)
    for rank, pod in enumerate(pods):
        attempt.observe_pod(rank, pod, None)
    attempt.conclude(END + 5, complete=complete, returned=None)
    assert attempt.status.exit is not None
    return attempt.status.exit


@pytest.mark.parametrize("complete", [False, True])
def test_a_worker_that_a_cluster_stops_and_that_ends_with_0_was_evicted(*, complete: bool) -> None:
    evicted = end_of_attempt(pod_of(0, paused=True, leaving=True), complete=complete)
    assert (evicted.kind, evicted.code, evicted.complete) == (ExitKind.EVICTED, 0, complete)
    assert "deleted from outside the pool" in evicted.detail
    short_of_memory = end_of_attempt(pod_of(0, paused=True, reason="Evicted"), complete=complete)
    assert (short_of_memory.kind, short_of_memory.code) == (ExitKind.EVICTED, 0)
    assert "low on memory" in short_of_memory.detail


def test_a_worker_that_had_ended_before_its_pod_was_deleted_was_not_evicted() -> None:
    ended = end_of_attempt(pod_of(0, paused=False, leaving=True))
    assert (ended.kind, ended.code, ended.paused) == (ExitKind.EXITED, 0, False)


def test_a_gang_of_which_one_ends_with_0_and_another_does_not_has_not_ended_with_0() -> None:
    mixed = pod_of(0, paused=True, leaving=True), pod_of(75, paused=True)
    assert (end_of_attempt(*mixed).kind, end_of_attempt(*mixed).code) == (ExitKind.EVICTED, 75)
    asked = end_of_attempt(pod_of(0, paused=True), pod_of(75, paused=True), requested="pause")
    assert (asked.kind, asked.code, asked.paused) == (ExitKind.EXITED, 75, True)


def test_a_request_that_came_after_the_end_did_not_ask_for_it() -> None:
    assert not end_of_attempt(pod_of(0, paused=False), requested="pause").paused
    assert end_of_attempt(pod_of(0, paused=True), requested="pause").paused


def test_a_pause_that_reached_the_pod_counts_although_no_service_knows_of_it() -> None:
    assert end_of_attempt(pod_of(0, paused=True)).paused


UNKNOWN = {
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "exitCode": 137,
}
"""What a kubelet says of the container of a deleted pod that it does not have."""


def pod_of_unknown_end(*, container: str = "", condition: str = "") -> Pod:
    """Return a deleted pod of which the kubelet does not know how its ``container`` ended."""
    status: dict[str, Any] = {"phase": "Failed"}
    status["containerStatuses"] = [{"state": {"terminated": UNKNOWN}, "containerID": container}]
    status["conditions"] = (
        [{"type": "DisruptionTarget", "status": "True", "reason": condition}] if condition else []
    )
    return msgspec.convert(
        {"metadata": {"deletionTimestamp": ENDED}, "spec": {"nodeName": "real"}, "status": status}, Pod
    )


def test_a_pod_that_is_paused_while_it_waits_for_its_image_has_not_started_and_is_not_lost() -> None:
    attempt = Attempt(AttemptKey("job", 1), 1, grace=30.0, requested="pause")
    attempt.observe_pod(0, pod_of_unknown_end(), None)
    attempt.update_phase()
    attempt.conclude(END + 5, complete=False, returned=None)
    ended = attempt.status.exit
    assert ended is not None
    assert (ended.kind, ended.paused, attempt.status.started) == (ExitKind.EXITED, True, None)


def test_a_pod_that_somebody_deletes_while_it_waits_for_its_image_was_evicted() -> None:
    assert end_of_attempt(pod_of_unknown_end()).kind is ExitKind.EVICTED


@pytest.mark.parametrize(
    "pod",
    [pod_of_unknown_end(container="containerd://1"), pod_of_unknown_end(condition="DeletionByPodGC")],
    ids=["its container was created", "its node is gone"],
)
def test_a_pod_that_may_have_started_is_lost_if_its_end_is_unknown(pod: Pod) -> None:
    assert end_of_attempt(pod, requested="pause").kind is ExitKind.LOST


@pytest.mark.parametrize(
    ("condition", "kind"),
    [("PreemptionByScheduler", ExitKind.EVICTED), ("DeletionByPodGC", ExitKind.LOST), ("", ExitKind.LOST)],
)
def test_a_pod_that_is_gone_was_evicted_if_its_cluster_says_so_and_lost_otherwise(
    condition: str, kind: ExitKind
) -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": condition}] if condition else []
    given = {"phase": "Failed", "conditions": conditions}
    pod = msgspec.convert({"spec": {"nodeName": "real"}, "status": given}, Pod)
    assert end_of_attempt(pod).kind is kind
