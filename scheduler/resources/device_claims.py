"""How a pod asks for GPUs that a driver for dynamic resource allocation gives out (DRA).

It names a ResourceClaimTemplate of the pool, from which the cluster makes a claim that belongs to the pod. The
first part of the template's name is the resource of the pool's nodes, where others have an extended resource.
"""

from __future__ import annotations

from typing import Any, Final

CLAIM: Final = "gpus"
"""Name by which the containers of a pod have the claim, and of the only request in it."""


def is_claimed(resource: str) -> bool:
    """Return whether GPUs of this resource are claimed: the name of an extended resource has a slash."""
    return bool(resource) and "/" not in resource


def template_name(resource: str, gpus: int) -> str:
    """Return the name of the ResourceClaimTemplate for this number of GPUs."""
    return f"{resource}-{gpus}"


def pod_claims(resource: str, gpus: int) -> list[dict[str, Any]]:
    """Return the ``resourceClaims`` of a pod with GPUs of a claimed resource."""
    return [{"name": CLAIM, "resourceClaimTemplateName": template_name(resource, gpus)}]


def container_claims() -> list[dict[str, str]]:
    """Return the ``resources.claims`` of the container that uses the GPUs."""
    return [{"name": CLAIM}]
