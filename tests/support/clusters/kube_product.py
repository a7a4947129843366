"""The complete product on real nodes: installed by Helm, used through the proxy's port."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clusters.chart import RELEASE, UNCHECKED, Helm
from clusters.chart_machine import Person, logged_in
from clusters.cluster import Cluster
from clusters.control_plane import until
from clusters.node_images import image
from clusters.real_node import RealNode, volume
from hubs.kernel_notebook import PATIENCE_S, KernelNotebook

from springtide.scheduler import wire
from springtide.scheduler.client import Client, PoolError, Unreachable

ENVIRONMENT = "springtide.io/environment"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass(frozen=True)
class Product:
    """One release on real nodes; its components and the pods of all users are in ``namespace``."""

    cluster: Cluster
    nodes: Mapping[str, RealNode]
    helm: Helm
    namespace: str

    def install(self, values: Mapping[str, Any]) -> None:
        """Install the chart and wait until service, hub and proxy are ready."""
        self._helm("install", values)

    def upgrade(self, values: Mapping[str, Any]) -> None:
        """Change some values and wait until the changed components are ready."""
        self._helm("upgrade", values, "--reuse-values")

    def uninstall(self) -> None:
        """Uninstall the release."""
        self.helm.run("uninstall", RELEASE, "-n", self.namespace, "--ignore-not-found")

    def _helm(self, command: str, values: Mapping[str, Any], *options: str) -> None:
        waiting = (UNCHECKED, "--wait", "--timeout", f"{PATIENCE_S}s")
        where = (RELEASE, str(self.helm.chart), "-n", self.namespace)
        try:
            self.helm.run(command, *where, *waiting, *options, values=values)
        except Exception as error:
            error.add_note(self.words())
            raise

    @property
    def url(self) -> str:
        """The URL for users: the proxy's port on a node."""
        [port] = self.get(f"services/{RELEASE}-proxy")["spec"]["ports"]
        return f"http://{next(iter(self.nodes.values())).address}:{port['nodePort']}"

    @property
    def password(self) -> str:
        """The login password that the chart's notes name."""
        return base64.b64decode(self.get(f"secrets/{RELEASE}")["data"]["user-password"]).decode()

    def get(self, path: str) -> dict[str, Any]:
        """Return an object of the namespace."""
        found: dict[str, Any] = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/{path}")
        return found

    def pods(self, **labels: str) -> list[dict[str, Any]]:
        """Return the pods with these Springtide labels that are not being deleted."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self.cluster.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def part(self, component: str) -> dict[str, Any]:
        """Return the one pod of a component of the product."""
        [pod] = self.pods(**{"app.kubernetes.io/component": component})
        return pod

    def train_pods(self, job: str) -> list[dict[str, Any]]:
        """Return the pods of a job."""
        return self.pods(**{"springtide.io/job": job})

    def kill(self, component: str) -> None:
        """Kill the container of a component with SIGKILL, bypassing the cluster."""
        pod = self.part(component)
        [status] = pod["status"]["containerStatuses"]
        container = status["containerID"].removeprefix("containerd://")
        node = self.nodes[pod["spec"]["nodeName"]]
        node.run("ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)

    def words(self) -> str:
        """Return the state of all pods and the ends of their logs, for failure messages."""
        path = f"/api/v1/namespaces/{self.namespace}"
        said = []
        for pod in self.cluster.items(f"{path}/pods"):
            name, status = pod["metadata"]["name"], pod["status"]
            states = [each["state"] for each in status.get("containerStatuses", [])]
            said.append(f"--- {name}: {status['phase']} {json.dumps(states)}")
            with contextlib.suppress(Exception):
                said.append(str(self.cluster.request("GET", f"{path}/pods/{name}/log", tailLines="25")))
        events = self.cluster.items(f"{path}/events", fieldSelector="type=Warning")
        said += [f"{each['involvedObject']['name']}: {each['reason']}: {each['message']}" for each in events]
        return "\n".join(said)


@contextlib.contextmanager
def product(
    cluster: Cluster,
    nodes: Mapping[str, RealNode],
    directory: Path,
    projects: Mapping[str, list[str]],
    values: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Product]:
    """Yield the chart with its hub, in a namespace that accepts restricted pods only; a project owns one GPU.

    ``values`` are further ones of the chart.
    """
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(cluster.namespace(RESTRICTED))
        for name in ("store", "jobs", "hub", "home"):
            stack.enter_context(volume(cluster, directory / name, storage_class=f"{namespace}-{name}"))
        made = Product(cluster, nodes, Helm(directory / "helm", cluster.env), namespace)
        stack.callback(made.uninstall)
        made.install(_joined(_values(namespace, projects), values))
        yield made


def _joined(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**values, **more}
    for name in values.keys() & more.keys():
        if isinstance(values[name], Mapping):
            joined[name] = _joined(values[name], more[name])
    return joined


def _values(namespace: str, projects: Mapping[str, list[str]]) -> dict[str, Any]:
    def image_of(name: str) -> dict[str, str]:
        repository, _, tag = image(name).rpartition(":")
        return {"repository": repository, "tag": tag}

    def storage(name: str) -> dict[str, str]:
        return {"storageClassName": f"{namespace}-{name}", "size": "1Gi"}

    groups = {name: {"users": users} for name, users in projects.items()}
    return {
        "images": {name: image_of(name) for name in ("service", "notebook")},
        "service": {
            "projects": [{"name": name, "quota": 1, "build_quota": 1} for name in projects],
            "settings": {"min_runtime": 0},
            "storage": storage("store"),
        },
        "train": {"jobs": storage("jobs"), "cpuPerGpu": 0.1, "memoryPerGpu": 0.5},
        "hub": {"config": {"JupyterHub": {"load_groups": groups}}, "storage": storage("hub")},
        "notebooks": {"storage": storage("home")},
        "proxy": {"type": "NodePort"},
    }


class Member:
    """A member of a project, logged in at the hub."""

    def __init__(self, product: Product, user: str, person: Person) -> None:
        self._product = product
        self.token = person.token
        self.pool = Client(f"{product.url}/services/springtide", person.token, timeout=PATIENCE_S)
        self.notebook = KernelNotebook(product.url, user, person.token)

    def until(self, what: str, job: str, holds: Callable[[wire.Job], bool]) -> wire.Job:
        """Return the job as soon as the condition holds; the service may be unavailable meanwhile."""
        seen: list[wire.Job] = []

        def look() -> bool:
            with contextlib.suppress(PoolError, Unreachable):
                seen[:] = [self.pool.job(job)]
            return bool(seen) and holds(seen[0])

        try:
            until(look, what, timeout_s=PATIENCE_S)
        except TimeoutError as error:
            error.add_note(f"{seen}\n{self._product.words()}")
            raise
        return seen[0]


@contextlib.contextmanager
def member(product: Product, user: str) -> Iterator[Member]:
    """Log a user in through the login page."""
    with logged_in(product.url, user, product.password) as person:
        somebody = Member(product, user, person)
        with somebody.pool, somebody.notebook:
            yield somebody
