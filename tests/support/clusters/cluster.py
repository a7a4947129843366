"""A real Kubernetes cluster for tests and benchmarks: a local one on loopback, or the one of ``KUBECONFIG``."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import ssl
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import httpx
import yaml
from clusters.audit import Request, requests_about
from clusters.cluster_tools import tools
from clusters.control_plane import NODE_GRACE_S, ControlPlane, Daemon, until, write_kubeconfig
from patience import PATIENCE_S

__all__ = ["Cluster", "ClusterError", "tools", "until"]

POOL_LABEL = "springtide.io/pool"
FAKE_LABEL = "springtide.io/fake"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_AT_ONCE = 4
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class ClusterError(Exception):
    """The API server refused a request; ``status`` is the HTTP status, the message is the server's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Cluster:
    """A cluster, with administrator access and fault injection."""

    def __init__(self, directory: Path, kubeconfig: Path, plane: ControlPlane | None) -> None:
        self.directory = directory
        self.kubeconfig = kubeconfig
        self._plane = plane
        self._access = access = _Access(kubeconfig, directory)
        self.url = access.url
        self.ca = access.ca
        self._token = access.token
        self._client = self.client(httpx.Timeout(PATIENCE_S))

    def client(self, timeout: httpx.Timeout) -> httpx.Client:
        """Return a new client of the API server, as the administrator."""
        access = self._access
        return httpx.Client(
            base_url=access.url, verify=access.tls, headers=access.headers, trust_env=False, timeout=timeout
        )

    @classmethod
    def start(
        cls,
        directory: Path,
        programs: Path,
        *,
        node_grace_s: int = NODE_GRACE_S,
        go: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Start a local cluster whose files and logs are in ``directory``.

        A node without a heartbeat for ``node_grace_s`` seconds counts as lost; ``go`` are environment variables
        for the runtime of Go, such as GOMAXPROCS.
        """
        plane = ControlPlane(directory, programs, secrets.token_hex(16), node_grace_s, go)
        plane.start()
        try:
            cluster = cls(directory, plane.kubeconfig, plane)
            until(lambda: cluster.exists("/api/v1/namespaces/default/serviceaccounts/default"), "controllers work")
        except BaseException:
            plane.stop()
            raise
        return cluster

    @classmethod
    def attach(cls, directory: Path, kubeconfig: Path) -> Self:
        """Use an existing cluster; tests that need fake nodes or faults fail there with a message."""
        return cls(directory, kubeconfig, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End a local cluster; leave an existing one unchanged."""
        self._client.close()
        if self._plane is not None:
            self._plane.stop()

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        if self._token is None:
            raise RuntimeError(f"The user of {self.kubeconfig} has no token, but another way to log in")
        return self._token

    @property
    def kubelet_client(self) -> Path:
        """The client certificate of the API server that kubelets trust."""
        return self._ours("have real nodes of the tests").kubelet_client

    @property
    def env(self) -> dict[str, str]:
        """The environment of programs that use the cluster as its administrator."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    # Requests, as the administrator.

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str | None = None,
        *,
        as_user: str | None = None,
        **query: str | Sequence[str],
    ) -> Any:
        """Return the API server's decoded answer; raise ClusterError for a refusal. A PATCH is a merge patch.

        ``as_user`` is whom to impersonate, such as ``system:serviceaccount:NAMESPACE:NAME``.
        """
        usual = MERGE_PATCH if method == "PATCH" else "application/json"
        headers = {"Content-Type": content_type or usual}
        if as_user is not None:
            headers["Impersonate-User"] = as_user
        answer = self._client.request(method, path, json=body, headers=headers, params=query)
        decoded = answer.json() if "json" in answer.headers.get("content-type", "") else answer.text
        if answer.is_error:
            message = decoded.get("message", "") if isinstance(decoded, dict) else decoded
            raise ClusterError(answer.status_code, f"{method} {path}: {message}")
        return decoded

    def exists(self, path: str) -> bool:
        """Return whether the API server has an object at ``path``."""
        try:
            self.request("GET", path)
        except ClusterError as error:
            if error.status == 404:
                return False
            raise
        return True

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return the objects of a list; ``labelSelector`` and other parameters are those of the API."""
        items: list[dict[str, Any]] = self.request("GET", path, **query)["items"]
        return items

    def may_list(self, path: str) -> bool:
        """Return whether the user may list these objects: a new role is known to the API server a moment later."""
        try:
            self.items(path)
        except ClusterError as error:
            if error.status == 403:
                return False
            raise
        return True

    def requests_about(self, namespace: str, name: str) -> list[Request]:
        """Return who asked for what to be done to a pod, or to a node in the namespace ``""``.

        Bindings, evictions and deletions are there; of an existing cluster nothing is known.
        """
        return [] if self._plane is None else requests_about(self._plane.audit_log, namespace, name)

    # Namespaces and the accounts in them.

    @contextlib.contextmanager
    def namespace(self, labels: Mapping[str, str] | None = None) -> Iterator[str]:
        """Yield a new namespace; at the end delete its pods (with or without finalizers) and its nodes.

        An existing cluster gets rid of the namespace too. A local one, which ends soon, keeps it: the deletion of
        a namespace takes more processor time than most tests take.
        """
        name = f"test-{secrets.token_hex(4)}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels or {})}})
        try:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            until(lambda: self.exists(account), f"{name} has its default service account")
            yield name
        finally:
            self._remove_namespace(name)

    def _remove_namespace(self, name: str) -> None:
        self._undo_faults()
        self.remove_nodes(self.nodes_of(name))
        pods = f"/api/v1/namespaces/{name}/pods"
        if self._plane is None:
            self.request("DELETE", f"/api/v1/namespaces/{name}")
        self.request("DELETE", pods, gracePeriodSeconds="0")
        for pod in self.items(pods):
            if pod["metadata"].get("finalizers"):
                with contextlib.suppress(ClusterError):
                    self.request("PATCH", f"{pods}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})

    def token_of(self, namespace: str, service_account: str) -> str:
        """Return a bearer token of a service account, valid for an hour."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        return str(self.request("POST", path, body)["status"]["token"])

    def kubeconfig_for(self, token: str, path: Path) -> Path:
        """Write a kubeconfig for the bearer of ``token``."""
        write_kubeconfig(path, self.url, self.ca, token)
        return path

    # Fake nodes, which run no programs but report pods as kubelets do.

    def add_fake_nodes(
        self,
        count: int,
        gpus: int = 8,
        labels: Mapping[str, str] | None = None,
        prefix: str = "fake",
        resources: Mapping[str, int] | None = None,
    ) -> list[str]:
        """Add nodes ``<prefix>-0``, ``<prefix>-1``, ... and wait until they are ready; return their names.

        ``resources`` are numbers of GPUs by extended resource, in place of ``gpus`` of ``nvidia.com/gpu``.
        """
        self._ours("have fake nodes")
        names = [f"{prefix}-{number}" for number in range(count)]
        given = {"nvidia.com/gpu": gpus} if resources is None else resources
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "250"} | {k: str(v) for k, v in given.items()}

        def add(name: str) -> None:
            own = {FAKE_LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            metadata = {"name": name, "labels": own | dict(labels or {})}
            status = {"capacity": capacity, "allocatable": capacity}
            self.request("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})

        with ThreadPoolExecutor(_AT_ONCE) as together:
            list(together.map(add, names))
        until(lambda: set(names) <= self.ready_nodes(), f"{count} fake nodes are ready", timeout_s=PATIENCE_S)
        return names

    def ready_nodes(self) -> set[str]:
        """Return the names of nodes that are ready and accept pods."""
        return {node["metadata"]["name"] for node in self.items("/api/v1/nodes") if _takes_pods(node)}

    def nodes_of(self, namespace: str) -> list[str]:
        """Return the names of the nodes that belong to a test by the label of its namespace."""
        nodes = self.items("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={namespace}")
        return [node["metadata"]["name"] for node in nodes]

    def remove_nodes(self, names: Sequence[str]) -> None:
        """Remove nodes; ignore those that do not exist."""

        def remove(name: str) -> None:
            with _absence_allowed():
                self.request("DELETE", f"/api/v1/nodes/{name}")

        with ThreadPoolExecutor(_AT_ONCE) as together:
            list(together.map(remove, names))

    def silence_node(self, name: str) -> None:
        """Stop the heartbeat of a fake node, which counts as lost after ``node_grace_s`` seconds."""
        self._ours("lose a node")
        self.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {FAKE_LABEL: "silent"}}})

    def lose_node(self, name: str) -> None:
        """Stop the heartbeat of a fake node, and let it count as lost at once; its taints are the cluster's."""
        self.silence_node(name)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
        change = {"status": {"conditions": [unknown]}}
        self.request("PATCH", f"/api/v1/nodes/{name}/status", change, STRATEGIC_PATCH)
        until(lambda: name not in self.ready_nodes(), f"{name} is lost")

    def return_node(self, name: str) -> None:
        """Resume the heartbeat of a node, and wait until the node is ready.

        A node that returns while the cluster still taints it as lost can be without pods for a moment after that.
        """
        self.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {FAKE_LABEL: "true"}}})
        until(lambda: name in self.ready_nodes(), f"{name} is ready again")

    def end_pod(self, namespace: str, name: str, exit_code: int, message: str = "") -> None:
        """End the containers of a pod on a fake node with an exit code and a termination message."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        statuses = self.request("GET", path)["status"]["containerStatuses"]
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "message": message}
        for status in statuses:
            status |= {"ready": False, "started": False, "state": {"terminated": ended}}
        phase = "Failed" if exit_code else "Succeeded"
        self.request("PATCH", f"{path}/status", {"status": {"phase": phase, "containerStatuses": statuses}})

    # Faults.

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend the API server in this block, like a hung machine: connections stay open without an answer."""
        with self._ours("freeze").api.suspended():
            yield

    def stop_api(self) -> None:
        """Kill the API server; its stored objects stay."""
        self._ours("lose its API server").api.kill()

    def return_api(self) -> None:
        """Start the API server again, at the same address; its clients notice by themselves, within a minute."""
        self._ours("start its API server").start_api()

    def start_api(self) -> None:
        """Start the API server again, at the same address, and wait until it and its fake nodes work.

        A kwok that starts ignores changes of pods until it holds the leases of their nodes, and ignores them for
        good: no test may change a pod before that.
        """
        plane = self._ours("start its API server")
        plane.kwok.kill()
        plane.start_api()
        self.request("DELETE", NODE_LEASES)  # a new kwok would wait until they expire
        plane.restart_clients()
        until(self._nodes_are_leased, "kwok holds the leases of the fake nodes")

    def _nodes_are_leased(self) -> bool:
        nodes = self.items("/api/v1/nodes", labelSelector=f"{FAKE_LABEL}=true")
        leases = {lease["metadata"]["name"] for lease in self.items(NODE_LEASES)}
        return {node["metadata"]["name"] for node in nodes} <= leases

    @contextlib.contextmanager
    def pause_kwok(self) -> Iterator[None]:
        """Suspend kwok in this block: fake nodes neither start nor end pods, and send no heartbeats."""
        with self._ours("pause its fake nodes").kwok.suspended():
            yield

    def _undo_faults(self) -> None:
        """Start the API server that a failed test left stopped."""
        if self._plane is not None and not self._plane.api.runs():
            self.start_api()

    def daemons(self) -> list[Daemon]:
        """The processes of a local cluster; none for an existing one."""
        return self._plane.daemons if self._plane else []

    def _ours(self, wish: str) -> ControlPlane:
        if self._plane is None:
            raise RuntimeError(f"The cluster of KUBECONFIG cannot {wish}: unset KUBECONFIG to run this on our own")
        return self._plane


class _Access:
    """The current context of a kubeconfig: address, authority and credentials."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        context = _named(content, "context", content["current-context"])
        where = _named(content, "cluster", context["cluster"])
        user = _named(content, "user", context["user"])
        self.url = str(where["server"])
        self.ca = _file(where, "certificate-authority", kubeconfig, directory)
        self.tls = ssl.create_default_context(cafile=str(self.ca))
        self.token: str | None = user.get("token")
        self.headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.token is None:
            certificate = _file(user, "client-certificate", kubeconfig, directory)
            self.tls.load_cert_chain(certificate, _file(user, "client-key", kubeconfig, directory))


def _named(content: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(entry[kind] for entry in content[f"{kind}s"] if entry["name"] == name)
    return found


def _file(entry: Mapping[str, str], key: str, kubeconfig: Path, directory: Path) -> Path:
    """Return the file that an entry names, or one in ``directory`` with the data of the entry."""
    if key in entry:
        return kubeconfig.parent / entry[key]
    if f"{key}-data" not in entry:
        raise RuntimeError(f"{kubeconfig}: its context has neither {key} nor {key}-data, and nothing else will do")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{key}.pem"
    path.touch(mode=0o600)
    path.write_bytes(base64.b64decode(entry[f"{key}-data"]))
    return path


def _takes_pods(node: Mapping[str, Any]) -> bool:
    ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", [])
    )
    return ready and not node["spec"].get("taints") and not node["spec"].get("unschedulable")


@contextlib.contextmanager
def _absence_allowed() -> Iterator[None]:
    try:
        yield
    except ClusterError as error:
        if error.status != 404:
            raise
