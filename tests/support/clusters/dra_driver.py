"""A driver for dynamic resource allocation that publishes simulated GPUs of fake nodes in ResourceSlices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from clusters.cluster import Cluster

API = "/apis/resource.k8s.io/v1"
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"

Device: TypeAlias = dict[str, Any]


def gpus(
    node: str, count: int, model: str = H100, *, first: int = 0, memory: str = "80Gi", **more: Any
) -> list[Device]:
    """Return devices as NVIDIA's driver publishes them."""
    return [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{number}"},
                "productName": {"string": model},
                "cudaComputeCapability": {"version": "9.0.0"},
            },
            "capacity": {"memory": {"value": memory}},
            **more,
        }
        for number in range(first, first + count)
    ]


def pool_slice(
    driver: str,
    node: str,
    devices: Sequence[Device],
    *,
    pool: str = "",
    generation: int = 1,
    of: int = 1,
    part: int = 0,
) -> dict[str, Any]:
    """Return a slice of a node's devices, one ``of`` several in its pool."""
    return {
        "metadata": {"name": f"{pool or node}-{driver}-{part}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": of},
            "nodeName": node,
            "devices": list(devices),
        },
    }


@dataclass
class DraDriver:
    """The driver of one test; ``name`` is that of the driver and of its DeviceClass."""

    cluster: Cluster
    name: str
    _slices: set[str] = field(default_factory=set)

    def publish(
        self, node: str, devices: Iterable[Device], *, generation: int = 1, of: int = 1, part: int = 0
    ) -> None:
        """Publish devices of a node, in place of what this part of its pool was before."""
        body = pool_slice(self.name, node, list(devices), generation=generation, of=of, part=part)
        name = body["metadata"]["name"]
        if name in self._slices:
            self.cluster.request("PATCH", f"{API}/resourceslices/{name}", {"spec": body["spec"]})
        else:
            self.cluster.request("POST", f"{API}/resourceslices", body)
            self._slices.add(name)

    def withdraw(self, node: str, part: int = 0) -> None:
        """Delete a slice."""
        name = f"{node}-{self.name}-{part}"
        self.cluster.request("DELETE", f"{API}/resourceslices/{name}")
        self._slices.remove(name)

    def claims(self, namespace: str) -> list[dict[str, Any]]:
        """Return the ResourceClaims of a namespace."""
        return self.cluster.items(f"{API}/namespaces/{namespace}/resourceclaims")

    def devices(self, namespace: str) -> dict[str, list[str]]:
        """Return the devices of the allocated claims of a namespace, by the pod that uses each."""
        return {
            claim["status"]["reservedFor"][0]["name"]: sorted(
                each["device"] for each in claim["status"]["allocation"]["devices"]["results"]
            )
            for claim in self.claims(namespace)
            if claim.get("status", {}).get("reservedFor")
        }

    def foreign_pod(self, namespace: str, name: str, node: str, count: int = 1) -> None:
        """Create a pod outside the pool with a claim of devices of this driver."""
        request = {"name": "any", "exactly": {"deviceClassName": self.name, "count": count}}
        claim = {"metadata": {"name": f"of-{name}"}, "spec": {"devices": {"requests": [request]}}}
        self.cluster.request("POST", f"{API}/namespaces/{namespace}/resourceclaims", claim)
        container = {"name": "x", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"of-{name}"}],
        }
        pod = {"metadata": {"name": name}, "spec": spec}
        self.cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


@contextlib.contextmanager
def dra_driver(cluster: Cluster, namespace: str) -> Iterator[DraDriver]:
    """Yield a driver with its DeviceClass, and delete the class and all slices at the end."""
    driver = DraDriver(cluster, f"gpu.{namespace}.test")
    selectors = [{"cel": {"expression": f'device.driver == "{driver.name}"'}}]
    device_class = {"metadata": {"name": driver.name}, "spec": {"selectors": selectors}}
    cluster.request("POST", f"{API}/deviceclasses", device_class)
    try:
        yield driver
    finally:
        for name in driver._slices:
            cluster.request("DELETE", f"{API}/resourceslices/{name}")
        cluster.request("DELETE", f"{API}/deviceclasses/{driver.name}")
