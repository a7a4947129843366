"""How a worker's pod ended, from what the cluster says of it; pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes.seen import Pod, Terminated
from springtide.scheduler.executors.supervisor.pod import RAN_ALREADY, REFUSED, SIGNALLED

NOT_STARTED = "It was asked to stop before it started."
NO_CONTAINER = ("StartError", "ContainerCannotRun")
MEMORY = "It used more memory than it may."
NEAR = 2.0
"""Seconds by which a worker's own time may differ from its node's."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """How one worker ended; ``killed`` tells that it did not go by itself."""

    kind: ExitKind
    at: float
    code: int | None = None
    signal: int | None = None
    killed: bool = False
    detail: str = ""

    @property
    def clean(self) -> bool:
        """Whether the worker did what it was to do."""
        return self.kind is ExitKind.EXITED and self.code == 0


class Told(msgspec.Struct, frozen=True):
    """What a supervisor leaves as termination message."""

    kind: ExitKind
    at: float
    code: int | None = None
    signal: int | None = None
    killed: bool = False
    detail: str = ""


def lost(at: float, why: str) -> WorkerEnd:
    """The end of a worker that vanished."""
    return WorkerEnd(ExitKind.LOST, at, detail=why)


def started_of(pod: Pod) -> float | None:
    """When the worker was started, None if it was not yet."""
    state = pod.state
    if state.running is not None:
        return _seconds(state.running.started_at)
    if state.terminated is not None:
        return _seconds(state.terminated.started_at) or _seconds(state.terminated.finished_at)
    return None


def end_of(pod: Pod) -> WorkerEnd | None:
    """How the worker ended, None while it is not proven to have."""
    if not pod.ended:
        return None
    deleted = _seconds(pod.metadata.deletion_timestamp)
    terminated = pod.state.terminated
    at = (_seconds(terminated.finished_at) if terminated else None) or deleted or _latest(pod)
    if not pod.spec.node_name:
        return WorkerEnd(ExitKind.EXITED, at, detail=NOT_STARTED)
    if pod.status.reason:
        return lost(at, f"The cluster ended its pod: {pod.status.message or pod.status.reason}")
    if terminated is None or terminated.reason == "ContainerStatusUnknown":
        return lost(at, f"Its pod is gone from its node {pod.spec.node_name}{_disruption(pod)}.")
    return _own_end(terminated, at)


def _own_end(terminated: Terminated, at: float) -> WorkerEnd:
    code = terminated.exit_code
    if terminated.reason in NO_CONTAINER:
        why = terminated.message or terminated.reason
        return WorkerEnd(ExitKind.REFUSED, at, detail=f"The job's container cannot be started: {why}")
    told = _told(terminated)
    if told is not None:
        when = told.at if abs(told.at - at) <= NEAR else at
        detail = told.detail or (MEMORY if terminated.reason == "OOMKilled" else "")
        return WorkerEnd(told.kind, when, told.code, told.signal, told.killed, detail)
    if code == RAN_ALREADY:
        return lost(at, "It had run already, and nothing is known of how it ended.")
    said = MEMORY if terminated.reason == "OOMKilled" else terminated.message.strip()[-1000:]
    if code > SIGNALLED:
        return WorkerEnd(ExitKind.EXITED, at, signal=code - SIGNALLED, killed=code == SIGNALLED + 9, detail=said)
    return WorkerEnd(ExitKind.EXITED, at, code=code, detail=said)


def _told(terminated: Terminated) -> Told | None:
    """What the supervisor said, as far as the container's exit code bears it out."""
    try:
        told = msgspec.json.decode(terminated.message, type=Told)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    if told.kind is ExitKind.EXITED:
        expected = (told.code or 0) if told.signal is None else SIGNALLED + told.signal
    else:
        expected = REFUSED
    return told if terminated.exit_code == expected else None


def disruption(pod: Pod) -> str:
    """Why somebody else is ending the pod, in words."""
    return f"Its pod was deleted by somebody else{_disruption(pod)}."


def _disruption(pod: Pod) -> str:
    condition = pod.condition("DisruptionTarget")
    if condition is None or condition.status != "True":
        return ""
    return f" ({(condition.message or condition.reason).rstrip('.')})"


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _latest(pod: Pod) -> float:
    """The last time that the cluster noted of the pod."""
    noted = [each.last_transition_time for each in pod.status.conditions]
    times = [_seconds(moment) for moment in (*noted, pod.metadata.creation_timestamp)]
    return max((moment for moment in times if moment is not None), default=0.0)
