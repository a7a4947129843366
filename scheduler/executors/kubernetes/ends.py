"""The end of a worker, from the state of its pod; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes.objects.api_types import ContainerStateTerminated, Pod
from springtide.scheduler.executors.supervisor.pod import RAN_ALREADY, REFUSED, SIGNALLED

NOT_STARTED = "It was asked to stop before it started."
REJECTED = "Pod was rejected: "
"""Prefix of a kubelet's message if it does not admit a pod."""
OUT_OF_MEMORY = "It used more memory than it may."
EVICTED = "Evicted"
"""Reason of an eviction by a kubelet, because the node or the pod itself uses too much."""
_OWN_DISK_USE = re.compile(
    r"Usage of EmptyDir volume|Container .* exceeded its local ephemeral storage limit"
    r"|Pod ephemeral local storage usage exceeds"
)
"""Messages of an eviction by a kubelet because of the pod's own use of the node's disk."""
CLOCK_DIFFERENCE = 2.0
"""Largest difference between a worker's own end time and its node's for which the worker's is used, in seconds."""
_OF_LOST_NODES = ("DeletionByPodGC", "DeletionByTaintManager")
"""Reasons of `DisruptionTarget` with which a cluster deletes the pods of an unreachable node."""
DELETED = "Its pod was deleted from outside the pool."
LONGEST_DETAIL = 1000
"""Maximum length of what a record says of an end, in characters."""
_RECORDED = (ExitKind.EXITED, ExitKind.REFUSED, ExitKind.BLOCKED, ExitKind.OVER_DISK)
"""The kinds of ends that supervisors in pods record."""
_NOT_STARTABLE = ("StartError", "ContainerCannotRun")


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The end of one worker; ``killed``: it did not stop within its grace period.

    ``paused``: a pause was requested before its end, None if its supervisor did not report it. ``refused_by`` is
    the node that did not start it.
    """

    kind: ExitKind
    at: float
    code: int | None = None
    signal: int | None = None
    killed: bool = False
    detail: str = ""
    refused_by: str = ""
    paused: bool | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the worker exited with 0."""
        return self.kind is ExitKind.EXITED and self.code == 0


class TerminationMessage(msgspec.Struct, frozen=True):
    """The message of a supervisor in the termination log of its container."""

    kind: ExitKind
    at: float
    code: int | None = None
    signal: int | None = None
    killed: bool = False
    detail: str = ""
    paused: bool = False


def lost(at: float, why: str) -> WorkerEnd:
    """Return the end of a vanished worker."""
    return WorkerEnd(ExitKind.LOST, at, detail=why)


def started_of(pod: Pod) -> float | None:
    """Return when the worker started, in seconds since the epoch; None if it has not."""
    state = pod.state
    if state.running is not None:
        return _seconds(state.running.started_at)
    if state.terminated is not None:
        return _seconds(state.terminated.started_at) or _seconds(state.terminated.finished_at)
    return None


def end_of(pod: Pod) -> WorkerEnd | None:
    """Return the end of the worker, None while it is not proven."""
    if not (pod.ended or pod.outlived):
        return None
    deleted = _seconds(pod.metadata.deletion_timestamp)
    terminated = pod.state.terminated
    at = (_seconds(terminated.finished_at) if terminated else None) or deleted or _last_transition(pod)
    if not pod.spec.node_name:
        return WorkerEnd(ExitKind.EXITED, at, detail=NOT_STARTED)
    if pod.status.reason == EVICTED and _OWN_DISK_USE.match(pod.status.message):
        return WorkerEnd(ExitKind.OVER_DISK, at, detail=f"The cluster ended its pod: {pod.status.message.strip()}")
    if pod.status.reason and not (terminated or pod.state.running) and deleted is None:
        return _refusal(pod, at)
    known = terminated is not None and terminated.reason != "ContainerStatusUnknown"
    if pod.status.reason:
        why = f"The cluster ended its pod: {pod.status.message or pod.status.reason}"
        evicted = WorkerEnd(ExitKind.EVICTED, at, detail=why)
        own = _container_end(terminated, at) if terminated is not None and known else evicted
        return replace(own, kind=ExitKind.EVICTED, detail=why)
    if not (terminated or pod.state.running) and deleted is None and (failed := _failed_init(pod)) is not None:
        return WorkerEnd(ExitKind.BLOCKED, at, detail=failed)
    if deleted is not None and not (known or pod.state.running) and _never_began(pod):
        return WorkerEnd(ExitKind.EXITED, at, detail=NOT_STARTED)
    if terminated is None or not known:
        why = f"Its pod is gone from its node {pod.spec.node_name}{_disruption_target(pod)}."
        return WorkerEnd(ExitKind.EVICTED if _is_eviction(pod) else ExitKind.LOST, at, detail=why)
    return _container_end(terminated, at)


def _refusal(pod: Pod, at: float) -> WorkerEnd:
    """Return the end of a worker refused by its node, mostly for lack of cores or memory."""
    node = pod.spec.node_name
    why = pod.status.message.removeprefix(REJECTED).rstrip(".") or pod.status.reason
    detail = f"The node {node} did not start its pod: {why} ({pod.status.reason})."
    return WorkerEnd(ExitKind.BLOCKED, at, detail=detail, refused_by=node)


def _failed_init(pod: Pod) -> str | None:
    """Return how an init container that an admin added has failed, None if none has."""
    for container in pod.status.init_container_statuses:
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            said = ended.message.strip()[-1000:]
            how = f"with exit code {ended.exit_code}{f': {said}' if said else '.'}"
            return f"The init container {container.name}, which an admin of the pool added, ended {how}"
    return None


def _container_end(terminated: ContainerStateTerminated, at: float) -> WorkerEnd:
    code = terminated.exit_code
    if terminated.reason in _NOT_STARTABLE:
        why = terminated.message or terminated.reason
        return WorkerEnd(ExitKind.REFUSED, at, detail=f"The job's container cannot be started: {why}")
    message = _termination_message(terminated)
    if message is not None:
        own_time = abs(message.at - at) <= CLOCK_DIFFERENCE
        detail = message.detail or (OUT_OF_MEMORY if terminated.reason == "OOMKilled" else "")
        return WorkerEnd(
            message.kind,
            message.at if own_time else at,
            message.code,
            message.signal,
            message.killed,
            detail,
            paused=message.paused,
        )
    if code == RAN_ALREADY:
        return lost(at, "It had run already, and nothing is known of how it ended.")
    detail = OUT_OF_MEMORY if terminated.reason == "OOMKilled" else terminated.message.strip()[-1000:]
    if code > SIGNALLED:
        killed = code == SIGNALLED + 9
        return WorkerEnd(ExitKind.EXITED, at, signal=code - SIGNALLED, killed=killed, detail=detail)
    return WorkerEnd(ExitKind.EXITED, at, code=code, detail=detail)


def _termination_message(terminated: ContainerStateTerminated) -> TerminationMessage | None:
    """Return the supervisor's message, None if there is none or the container's exit code contradicts it."""
    try:
        message = msgspec.json.decode(terminated.message, type=TerminationMessage)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    if message.kind is ExitKind.EXITED:
        expected = (message.code or 0) if message.signal is None else SIGNALLED + message.signal
    else:
        expected = REFUSED
    return message if terminated.exit_code == expected else None


def recorded_end(record: bytes, now: float) -> WorkerEnd | None:
    """Return the end in a supervisor's exit record, None if it is none; its time is not later than ``now``."""
    try:
        message = msgspec.json.decode(record, type=TerminationMessage)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    if message.kind not in _RECORDED:
        return None
    return WorkerEnd(
        message.kind,
        min(message.at, now),
        message.code,
        message.signal,
        message.killed,
        message.detail[:LONGEST_DETAIL],
        paused=message.paused,
    )


def disruption(pod: Pod) -> str:
    """Return a sentence with the reason why something other than the executor deletes the pod."""
    return f"Its pod was deleted from outside the pool{_disruption_target(pod)}."


def _never_began(pod: Pod) -> bool:
    """Return whether the kubelet of a deleted pod had not created its container.

    A kubelet says that the state of such a container is unknown, as of one that it has lost.
    """
    condition = pod.condition("DisruptionTarget")
    told_by_kubelet = condition is None or condition.reason not in _OF_LOST_NODES
    return told_by_kubelet and bool(pod.status.container_statuses) and not pod.main.container_id


def _is_eviction(pod: Pod) -> bool:
    """Return whether the cluster ends the pod for another reason than the loss of its node."""
    condition = pod.condition("DisruptionTarget")
    return condition is not None and condition.status == "True" and condition.reason not in _OF_LOST_NODES


def _disruption_target(pod: Pod) -> str:
    condition = pod.condition("DisruptionTarget")
    if condition is None or condition.status != "True":
        return ""
    return f" ({(condition.message or condition.reason).rstrip('.')})"


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _last_transition(pod: Pod) -> float:
    """Return the last time in the pod's status, in seconds since the epoch."""
    transitions = [condition.last_transition_time for condition in pod.status.conditions]
    times = [_seconds(moment) for moment in (*transitions, pod.metadata.creation_timestamp)]
    return max((moment for moment in times if moment is not None), default=0.0)
