"""The client of the Kubernetes API, on the package ``kubernetes``: plain objects, informers and leases."""

from springtide.scheduler.kube.api import Api, Object, connect
from springtide.scheduler.kube.errors import ApiError
from springtide.scheduler.kube.informer import Informer
from springtide.scheduler.kube.lease import Lease, LeaseLostError
from springtide.scheduler.kube.resources import (
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
    CLAIM_TEMPLATES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    SPRINGTIDE_JOBS,
    TRAIN_JOBS,
    VOLUME_CLAIMS,
    Resource,
)

__all__ = [
    "ADMISSION_BINDINGS",
    "ADMISSION_POLICIES",
    "CLAIM_TEMPLATES",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NETWORK_POLICIES",
    "NODES",
    "PODS",
    "RESOURCE_CLAIMS",
    "RESOURCE_SLICES",
    "SERVICES",
    "SPRINGTIDE_JOBS",
    "TRAIN_JOBS",
    "VOLUME_CLAIMS",
    "Api",
    "ApiError",
    "Informer",
    "Lease",
    "LeaseLostError",
    "Object",
    "Resource",
    "connect",
]
