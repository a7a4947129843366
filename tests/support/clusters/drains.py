"""Drains of nodes by the rules and the requests of ``kubectl drain NODE --ignore-daemonsets``."""

from __future__ import annotations

from typing import Any

from clusters.cluster import Cluster, ClusterError, until

NOT_FOUND, TOO_MANY_REQUESTS = 404, 429


class DrainRefusedError(Exception):
    """A drain would end nothing, because it is not asked to end pods like some that are there."""


def drain(cluster: Cluster, node: str, *, emptied: bool = False) -> list[str]:
    """Cordon a node, and evict its pods; return their names once all are gone.

    ``emptied`` is the option ``--delete-emptydir-data``. Raises `DrainRefusedError` with kubectl's words for pods
    that need a further option of it.
    """
    cluster.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    here = cluster.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    leaving = [pod for pod in here if not _is_of_daemon_set(pod)]
    refused = sorted(filter(None, (_obstacle(pod, emptied=emptied) for pod in leaving)))
    if refused:
        raise DrainRefusedError("; ".join(refused))
    paths = [f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}" for meta in map(_meta, leaving)]
    for path, pod in zip(paths, leaving, strict=True):
        _evict(cluster, path, _meta(pod)["name"])
    until(lambda: not any(map(cluster.exists, paths)), f"the drained node {node} has no pods")
    return [_meta(pod)["name"] for pod in leaving]


def _evict(cluster: Cluster, path: str, name: str) -> None:
    """Evict a pod once that is allowed, if it has not gone by itself."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}

    def evicted() -> bool:
        try:
            cluster.request("POST", f"{path}/eviction", dict(body))
        except ClusterError as error:
            if error.status not in (TOO_MANY_REQUESTS, NOT_FOUND):
                raise
            return error.status == NOT_FOUND
        return True

    until(evicted, f"{name} may be evicted")


def _obstacle(pod: dict[str, Any], *, emptied: bool) -> str:
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return ""
    if not emptied and any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ()):
        return f"cannot delete Pods with local storage (use --delete-emptydir-data to override): {_name(pod)}"
    if _controller(pod) is None:
        return f"cannot delete Pods that declare no controller (use --force to override): {_name(pod)}"
    return ""


def _is_of_daemon_set(pod: dict[str, Any]) -> bool:
    owner = _controller(pod)
    return owner is not None and (owner["apiVersion"], owner["kind"]) == ("apps/v1", "DaemonSet")


def _controller(pod: dict[str, Any]) -> dict[str, Any] | None:
    return next((owner for owner in _meta(pod).get("ownerReferences") or () if owner.get("controller")), None)


def _meta(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["metadata"]
    return found


def _name(pod: dict[str, Any]) -> str:
    return f"{_meta(pod)['namespace']}/{_meta(pod)['name']}"
