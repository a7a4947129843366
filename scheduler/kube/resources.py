"""What there is in a cluster, by name."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object of the API; ``group`` is empty for the core ones."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """What objects of this kind say in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "", part: str = "") -> str:
        """The path of all of them, or of one, or of a part of one such as ``status``.

        ``namespace`` None means all namespaces, and those objects that are in none.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
        names = "".join(f"/{quote(word, safe='')}" for word in (name, part) if word)
        return f"{root}{where}/{self.plural}{names}"


PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
NODES = Resource("", "v1", "nodes")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
NAMESPACES = Resource("", "v1", "namespaces")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
TRAIN_JOBS = Resource("springtide.io", "v1alpha1", "trainjobs")
