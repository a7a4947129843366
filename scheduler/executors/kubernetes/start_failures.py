"""Objects that the API refuses, and pods that do not start: when to give up an attempt; pure."""

from __future__ import annotations

import re

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes.attempts import Attempt, Verdict
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import ApiError
from springtide.scheduler.model import Block, BlockScope

UNAUTHORIZED = 401
TOO_LARGE = 413
INVALID = 422
TOO_MANY_REQUESTS = 429

_INVALID_IMAGE = re.compile(r"\bspec\.containers\[0\]\.image\b")
_NAMED = (
    re.compile(r"exceeded quota: (?P<name>[^,]+)"),
    re.compile(r"admission webhook \"(?P<name>[^\"]+)\" denied"),
    re.compile(r"failed calling webhook \"(?P<name>[^\"]+)\""),
    re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"),
    re.compile(r"violates PodSecurity \"(?P<name>[^\"]+)\""),
)
"""Messages that name what refuses an object; the rest of them differs from object to object."""
_REFUSED_OBJECT = re.compile(r"^\S+ \"[^\"]*\" is (?:forbidden|invalid): ")
"""The start of a message, before its cause: it names an object of one job, and others wait for the same cause."""
_VARIABLE = re.compile(r"\"[^\"]*\"|'[^']*'|\d+(\.\d+)?")
"""Names and quantities in a message, which differ from object to object."""


UNSCHEDULABLE_PATIENCE = 30.0
"""Time for the cluster's scheduler to place a pod on the planned node after it failed to, in seconds."""
IMAGE_PATIENCE = 45.0
"""Time for an image to be pulled after pulling failed, in seconds.

A kubelet pulls again after 10 and 30 seconds, the next time after 70. The job says within a minute why it waits.
"""
CONTAINER_PATIENCE = 30.0
"""Time for a container to be created after that failed, in seconds."""
PREPARATION_PATIENCE = 180.0
"""Time for a node to attach and mount the volumes of a pod that it has, and to give it a network, in seconds."""
CLAIM_PATIENCE = 60.0
"""Time for the cluster to make the claim of a pod's GPUs, in seconds."""
START_PATIENCE = 1800.0
"""Time for a pod to run if nothing is reported to fail, in seconds."""
_INVALID_NAME = "InvalidImageName"
_UNUSABLE_IMAGE = (_INVALID_NAME, "ErrImageNeverPull")
_NO_SUCH_IMAGE = re.compile(r"code = NotFound|manifest unknown|(?i:\bno such image\b)")
"""Messages of an answering registry without an image of this name."""
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError")
_CRASHING = "CrashLoopBackOff"
"""Reason of a sidecar that ends again and again."""
_CONTAINER = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CreatePodSandboxError")


def verdict_of(error: ApiError) -> Verdict:
    """Return the verdict on an attempt if the API refuses one of its objects.

    The job is to blame only for an object that no cluster accepts: with an invalid image name, or too large.
    """
    detail = f"The cluster refused the job's pod: {_REFUSED_OBJECT.sub('', error.message)}"
    if error.status == TOO_LARGE or (error.status == INVALID and _INVALID_IMAGE.search(error.message)):
        return Verdict(ExitKind.REFUSED, detail)
    return Verdict(ExitKind.BLOCKED, detail, block=Block(BlockScope.POOL, _cause(error), checkable=True))


def says_nothing(error: ApiError) -> bool:
    """Return whether the answer to a dry run does not predict the answer to a creation."""
    return error.status in (0, UNAUTHORIZED, TOO_MANY_REQUESTS)


def _cause(error: ApiError) -> str:
    """Return the common part of the same refusal of different objects."""
    named = next((found for pattern in _NAMED if (found := pattern.search(error.message))), None)
    return named.group() if named is not None else _VARIABLE.sub("#", error.message)


def start_failure(attempt: Attempt, now: float) -> Verdict | None:
    """Return why the attempt is given up, None while it may still start.

    ``now`` is of the clock of `Attempt.launched_at`. Updates `Attempt.failing_since`.
    """
    worst: tuple[float, Verdict] | None = None
    for rank, pod in attempt.live_pods:
        worker = attempt.workers.get(rank)
        planned = worker.node if worker is not None and worker.gpus else ""
        failure = None if rank in attempt.started else _pod_failure(pod, planned)
        if failure is not None and (worst is None or failure[0] < worst[0]):
            worst = failure
    if worst is None:
        attempt.failing_since = None
        if now - attempt.launched_at < START_PATIENCE:
            return None
        return Verdict(ExitKind.BLOCKED, f"Its pods did not start within {START_PATIENCE / 60:g} minutes.")
    if attempt.failing_since is None:
        attempt.failing_since = now
    patience, verdict = worst
    return verdict if now - attempt.failing_since >= patience else None


def _pod_failure(pod: Pod, planned: str) -> tuple[float, Verdict] | None:
    """Return the obstacle to the pod's start, with the seconds to wait for its removal; None if there is none.

    ``planned`` is the pool's name of its node, empty for any node. The job is to blame only for the name of a
    missing image.
    """
    added = _added_failure(pod)
    if added is not None:
        return added
    waiting = pod.state.waiting
    if waiting is not None:
        why = waiting.message or waiting.reason
        if waiting.reason in _UNUSABLE_IMAGE or waiting.reason in _IMAGE:
            patience = 0.0 if waiting.reason in _UNUSABLE_IMAGE else IMAGE_PATIENCE
            detail = f"The image of the job cannot be pulled: {why}"
            if waiting.reason == _INVALID_NAME or _NO_SUCH_IMAGE.search(why):
                return patience, Verdict(ExitKind.REFUSED, detail)
            image = Block(BlockScope.IMAGE, pod.image)
            return patience, Verdict(ExitKind.BLOCKED, detail, block=image)
        if waiting.reason in _CONTAINER:
            return CONTAINER_PATIENCE, Verdict(ExitKind.BLOCKED, f"The job's container cannot be created: {why}")
        return _unprepared(pod)
    if len(pod.status.resource_claim_statuses) < len(pod.spec.resource_claims):
        detail = f"The cluster made no claim of its GPUs within {CLAIM_PATIENCE:g} s."
        return CLAIM_PATIENCE, Verdict(ExitKind.BLOCKED, detail, unprepared=True)
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    if "persistentvolumeclaim" in scheduled.message:
        return 0.0, Verdict(ExitKind.BLOCKED, f"A volume of the job is missing: {scheduled.message}")
    why = scheduled.message or scheduled.reason
    where = f"the planned node {machine_of(planned)}" if planned else "any node"
    detail = f"The cluster did not place its pod on {where}: {why}"
    return UNSCHEDULABLE_PATIENCE, Verdict(ExitKind.BLOCKED, detail, machine_of(planned))


def _unprepared(pod: Pod) -> tuple[float, Verdict] | None:
    """Return that the node of a pod does not prepare it, with the seconds to wait; None if it has.

    The condition is false until volumes and network are there, and does not wait for images. Clusters before
    version 1.29 do not have it.
    """
    prepared = pod.condition("PodReadyToStartContainers")
    if prepared is None or prepared.status != "False":
        return None
    detail = (
        f"The node {pod.spec.node_name} did not prepare its pod within {PREPARATION_PATIENCE / 60:g} minutes: "
        "a volume cannot be attached or mounted there, or the network does not answer."
    )
    return PREPARATION_PATIENCE, Verdict(ExitKind.BLOCKED, detail, unprepared=True)


def _added_failure(pod: Pod) -> tuple[float, Verdict] | None:
    """Return the obstacle to the start of a container that an admin added, with the seconds to wait."""
    for container in pod.status.init_container_statuses:
        waiting = container.state.waiting
        if waiting is None:
            continue
        patience = IMAGE_PATIENCE if waiting.reason in (*_UNUSABLE_IMAGE, *_IMAGE) else CONTAINER_PATIENCE
        if patience == IMAGE_PATIENCE or waiting.reason in (*_CONTAINER, _CRASHING):
            why = waiting.message or waiting.reason
            detail = f"The container {container.name}, which an admin of the pool added, does not start: {why}"
            return patience, Verdict(ExitKind.BLOCKED, detail)
    return None
