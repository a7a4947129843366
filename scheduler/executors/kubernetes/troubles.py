"""When a pod that does not start, or a node that is silent, has to be given up; pure."""

from __future__ import annotations

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes.attempts import Attempt, Verdict
from springtide.scheduler.executors.kubernetes.seen import Pod

NO_ROOM = 30.0
"""Seconds that the cluster's scheduler has to find that the planned node takes the pod after all."""
NO_IMAGE = 60.0
NO_CONTAINER = 30.0
NO_START = 1800.0
"""Seconds after which a pod that is neither refused nor running is given up."""

_NEVER = ("InvalidImageName", "ErrImageNeverPull")
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError")
_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CreatePodSandboxError")


def given_up(attempt: Attempt, now: float) -> Verdict | None:
    """Why an attempt that has not begun is not waited for any longer, None if it is; ``now`` as in its ``since``.

    Notes in the attempt since when it is in trouble.
    """
    worst: tuple[float, Verdict] | None = None
    for rank, pod in attempt.live:
        found = None if rank in attempt.started else _trouble(pod)
        if found is not None and (worst is None or found[0] < worst[0]):
            worst = found
    if worst is None:
        attempt.troubled = None
        if now - attempt.since < NO_START:
            return None
        return Verdict(ExitKind.LOST, f"Its pods did not start within {NO_START / 60:g} minutes.")
    if attempt.troubled is None:
        attempt.troubled = now
    patience, verdict = worst
    return verdict if now - attempt.troubled >= patience else None


def _trouble(pod: Pod) -> tuple[float, Verdict] | None:
    """What keeps a pod from starting, and how many seconds it is given."""
    waiting = pod.state.waiting
    if waiting is not None:
        said = waiting.message or waiting.reason
        if waiting.reason in _NEVER or waiting.reason in _IMAGE:
            patience = 0.0 if waiting.reason in _NEVER else NO_IMAGE
            return patience, Verdict(ExitKind.REFUSED, f"The image of the job cannot be had: {said}")
        if waiting.reason in _CONTAINER:
            return NO_CONTAINER, Verdict(ExitKind.REFUSED, f"The job's container cannot be made: {said}")
        return None
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    if "persistentvolumeclaim" in scheduled.message:
        return 0.0, Verdict(ExitKind.REFUSED, f"A volume of the job is missing: {scheduled.message}")
    why = scheduled.message or scheduled.reason
    return NO_ROOM, Verdict(ExitKind.LOST, f"The cluster did not place its pod on the planned node: {why}")
