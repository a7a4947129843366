"""Names, labels and annotations of the executor's objects in the cluster."""

from __future__ import annotations

import re

from springtide.scheduler.executors.base import AttemptKey, ExecutorError
from springtide.scheduler.wording import given

JOB = "springtide.io/job"
ATTEMPT = "springtide.io/attempt"
RANK = "springtide.io/rank"
EPOCH = "springtide.io/epoch"
POOL = "springtide.io/pool"
PROJECT = "springtide.io/project"
USER = "springtide.io/user"
SPEC = "springtide.io/spec"
WORKER = "springtide.io/worker"
SIZE = "springtide.io/size"
GRACE = "springtide.io/grace"
HOME = "springtide.io/home"
"""Annotation for how a pod has its user's home, if it is not as in the user's notebooks."""
MANAGED_BY = "app.kubernetes.io/managed-by"
WORKSPACE = "springtide.io/workspace"
"""Label of the pods of notebooks whose GPUs are reserved in the pool."""
PLACEHOLDER = "springtide.io/placeholder"
"""Label of placeholder pods; its value is the name of the node group."""
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotation for whether the cluster autoscaler may end a pod to remove its node."""
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""Annotation that keeps Karpenter from removing the node of a pod."""
NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation by which a pod asks Multus for further networks."""
RECORDED = "springtide.io/recorded"
"""Finalizer of the pods of earlier versions, which kept them until their ends were recorded in the store."""

CONTAINER = "job"
"""Name of the container that runs the job."""

_JOB_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def check_job(job: str) -> str:
    """Return the id if it can be part of a name in the cluster. Raises `ExecutorError` otherwise."""
    if not _JOB_ID.fullmatch(job):
        raise ExecutorError(
            f"{given(job)} cannot be the id of a job on a cluster: expected small letters, digits and “-”, 40 "
            "at most."
        )
    return job


def gang_name(key: AttemptKey) -> str:
    """Return the name of the Service under which the workers of an attempt reach each other."""
    return f"st-{key.job}-{key.attempt}"


def pod_name(key: AttemptKey, rank: int) -> str:
    """Return the name of a worker's pod."""
    return f"st-{key.job}-{key.attempt}-{rank}"


def placeholder_name(pool: str, group: str, index: int) -> str:
    """Return the name of a placeholder pod for a node of a group."""
    return f"{pool}-awaits-{group}-{index}"


def host_name(index: int) -> str:
    """Return the host name of a worker within its gang; ``index`` is its position in the placement."""
    return f"w{index}"
