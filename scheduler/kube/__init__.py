"""The one small client of the Kubernetes API: plain objects in and out, and a mirror of what is there."""

from springtide.scheduler.kube.api import Api, Object
from springtide.scheduler.kube.connect import connect
from springtide.scheduler.kube.errors import ApiError
from springtide.scheduler.kube.lease import Lease, LeaseLostError
from springtide.scheduler.kube.mirror import Mirror
from springtide.scheduler.kube.resources import (
    CLAIMS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SERVICES,
    TRAIN_JOBS,
    Resource,
)

__all__ = [
    "CLAIMS",
    "LEASES",
    "NAMESPACES",
    "NETWORK_POLICIES",
    "NODES",
    "PODS",
    "SERVICES",
    "TRAIN_JOBS",
    "Api",
    "ApiError",
    "Lease",
    "LeaseLostError",
    "Mirror",
    "Object",
    "Resource",
    "connect",
]
