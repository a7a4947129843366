"""The API resources that Springtide reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API, such as ``pods``; ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of the object ``name``, or of its subresource such as ``status``.

        ``namespace`` None means all namespaces, or a resource that is cluster-scoped.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
        names = "".join(f"/{quote(word, safe='')}" for word in (name, subresource) if word)
        return f"{root}{scope}/{self.plural}{names}"


PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
NODES = Resource("", "v1", "nodes")
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims")
EVENTS = Resource("", "v1", "events")
SECRETS = Resource("", "v1", "secrets")
CONFIG_MAPS = Resource("", "v1", "configmaps")
NAMESPACES = Resource("", "v1", "namespaces")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS_OF_OTHERS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")
ADMISSION_POLICIES = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
ADMISSION_BINDINGS = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses")
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims")
CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates")
SPRINGTIDE_JOBS = Resource("springtide.io", "v1alpha1", "springtidejobs")
TRAIN_JOBS = Resource("springtide.io", "v1alpha1", "trainjobs")
"""The earlier name of SpringtideJobs."""
