"""Real nodes for a test cluster: kubelets on containerd, in separate namespaces, whose pods run.

    with NodeNetwork.start(cluster, tools()) as network, network.node("train", gpus=2) as node: ...

Pods of all nodes reach each other by IP, Services by ClusterIP and by name, and the API server by
``kubernetes.default``; this machine reaches pods by IP and Services by NodePort at ``node.address``. The GPUs are
simulated: they are only counted and allocated.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from clusters import cluster_tools
from clusters.cluster import Cluster, ClusterError
from clusters.control_plane import Daemon, until
from clusters.enclosure import Enclosure, directory_of_its_own
from clusters.node_images import copy_images, images, start_containerd
from programs.commands import run, search_path

DOMAIN = "cluster.local"
GPU_RESOURCE = "nvidia.com/gpu"
SIMULATED_LABEL = "springtide.io/simulated-gpus"
OWNER, GROUP = 1000, 100
READY_TIMEOUT_S = 120.0
MOST_NODES = 4
KUBELET_PORT = 10250


@dataclass(frozen=True, slots=True)
class Subnets:
    """The addresses of one network of nodes, number 0 to 255."""

    number: int

    @property
    def link(self) -> str:
        """The name of this machine's end of the virtual cable to the nodes."""
        return f"springtide{self.number}"

    @property
    def machine(self) -> str:
        """The address of this machine for the nodes."""
        return f"10.213.{self.number}.1"

    def node(self, place: int) -> str:
        """Return the address of the node at a place from 0 to ``MOST_NODES`` - 1."""
        return f"10.213.{self.number}.{2 + place}"

    @property
    def pods(self) -> str:
        """The addresses of all pods of the network."""
        return f"10.214.{self.number}.0/24"

    def pods_of(self, place: int) -> str:
        """Return the addresses of the pods of the node at a place."""
        return f"10.214.{self.number}.{place * 256 // MOST_NODES}/{24 + (MOST_NODES - 1).bit_length()}"


class NodeNetwork:
    """The shared parts of a cluster's real nodes: network, addresses and names of Services, route to the API."""

    def __init__(self, cluster: Cluster, programs: Path, directory: Path, unpacked: Path) -> None:
        self._cluster = cluster
        self._programs = programs
        self._unpacked = unpacked
        self._places = iter(range(MOST_NODES))
        self._relay: Daemon | None = None
        self._daemons: list[Daemon] = []
        self._cache = directory.parent
        self.enclosure = Enclosure(directory, programs / "pause")
        self.subnets = Subnets(0)

    @classmethod
    @contextlib.contextmanager
    def start(cls, cluster: Cluster, programs: Path) -> Iterator[Self]:
        """Yield a network for the nodes of ``cluster``, which is removed from this machine at the end.

        Raise NoRealNodeError when this machine cannot run nodes.
        """
        cache = cluster_tools.cache()
        with images(programs) as unpacked, directory_of_its_own(cache / "nodes") as directory:
            network = cls(cluster, programs, directory, unpacked)
            try:
                network._start()
                yield network
            finally:
                network._stop()

    @contextlib.contextmanager
    def node(self, name: str, gpus: int = 0, labels: Mapping[str, str | None] | None = None) -> Iterator[RealNode]:
        """Yield a ready node with the images and ``gpus`` simulated GPUs; it is removed at the end.

        Without simulated GPUs it has those that a device plugin gives it.
        """
        with directory_of_its_own(self._cache) as directory:
            node = RealNode(self._cluster, self._programs, self, directory, name, next(self._places))
            if node.is_first:
                self._start_proxy(name)
            with node.running(self._unpacked):
                until(self._serves, "Services have their addresses")
                node.label({SIMULATED_LABEL: "true", **(labels or {})})
                node.gpus = gpus
                if gpus:
                    node.set_gpus(gpus)
                yield node

    def _start(self) -> None:
        self.enclosure.start()
        self._connect()
        self._open_way_to_api()
        self._announce_api()
        corefile = self.enclosure.directory / "Corefile"
        corefile.write_text(self._corefile())
        self._daemons.append(self.enclosure.daemon(self._programs / "coredns", "-conf", corefile))

    def _start_proxy(self, node: str) -> None:
        """Serve the addresses of Services on all nodes, as the first node, for which the proxy waits."""
        config = self.enclosure.directory / "kube-proxy.json"
        config.write_text(json.dumps(self._proxy(node), indent=2))
        self._daemons.append(self.enclosure.daemon(self._programs / "kube-proxy", "--config", config))

    def _serves(self) -> bool:
        for daemon in self._daemons:
            if not daemon.runs():
                raise RuntimeError(f"{daemon.log.name} of the nodes' network ends with:\n{daemon.tail()}")
        return "default/kubernetes:https" in self.enclosure.run("iptables-save", "-t", "nat")

    def _connect(self) -> None:
        """Connect this machine and the nodes by a virtual cable with unused addresses."""
        for number in range(256):
            self.subnets = Subnets(number)
            with contextlib.suppress(RuntimeError):
                end = ("peer", "name", "eth0", "netns", str(self.enclosure.pid))
                run("ip", "link", "add", self.subnets.link, "type", "veth", *end)
                break
        else:
            raise RuntimeError("No virtual cable to the nodes can be made: `ip link add type veth` fails")
        here, inside = self.subnets, self.enclosure
        run("ip", "address", "add", f"{here.machine}/24", "dev", here.link)
        run("ip", "link", "set", here.link, "up")
        for place in range(MOST_NODES):
            inside.run("ip", "address", "add", f"{here.node(place)}/24", "dev", "eth0")
        inside.run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", here.pods, "via", here.node(0))

    def _open_way_to_api(self) -> None:
        """Make the API server on this machine's loopback reachable at the same port of the nodes."""
        socket = self.enclosure.directory / "api.socket"
        port = self._api_port
        self._relay = Daemon(
            ["socat", f"UNIX-LISTEN:{socket},fork", f"TCP:127.0.0.1:{port}"],
            self.enclosure.directory / "relay.log",
            {"PATH": search_path()},
        )
        self._relay.start()
        until(socket.exists, "the way to the API server is open")
        self.enclosure.daemon("socat", f"TCP-LISTEN:{port},fork,reuseaddr", f"UNIX-CONNECT:{socket}")

    @property
    def _api_port(self) -> int:
        return int(self._cluster.url.rpartition(":")[2])

    def _announce_api(self) -> None:
        """Write the endpoint of the Service ``kubernetes`` with the address that pods can reach."""
        name = f"kubernetes-{self.subnets.link}"
        slice_of_one = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [self.subnets.node(0)], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": self._api_port, "protocol": "TCP"}],
        }
        self._cluster.request("POST", SLICES, slice_of_one)

    def _stop(self) -> None:
        with contextlib.suppress(ClusterError):
            self._cluster.request("DELETE", f"{SLICES}/kubernetes-{self.subnets.link}")
        if self._relay is not None:
            self._relay.kill()
        with contextlib.suppress(RuntimeError):
            run("ip", "link", "delete", self.subnets.link)
        self.enclosure.stop()

    def _proxy(self, node: str) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self._cluster.kubeconfig)},
            "clusterCIDR": self.subnets.pods,
            "mode": "iptables",
            "iptables": {"minSyncPeriod": "100ms"},
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "hostnameOverride": node,
        }

    def _corefile(self) -> str:
        return (
            ".:53 {\n"
            "    errors\n"
            f"    kubernetes {DOMAIN} {{\n"
            f"        kubeconfig {self._cluster.kubeconfig}\n"
            "        ttl 1\n"
            "    }\n"
            "}\n"
        )


SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


class RealNode:
    """A node that runs its pods."""

    def __init__(
        self, cluster: Cluster, programs: Path, network: NodeNetwork, directory: Path, name: str, place: int
    ) -> None:
        self._cluster = cluster
        self._programs = programs
        self._network = network
        self._place = place
        self._enclosure = Enclosure(directory, programs / "pause", network.enclosure)
        self.name = name
        self.gpus = 0
        self.address = network.subnets.node(place)
        self.is_first = place == 0

    @contextlib.contextmanager
    def running(self, unpacked: Path) -> Iterator[None]:
        """Run the node while the block lasts."""
        library = self._enclosure.directory / "lib"
        copy_images(unpacked, library / "containerd")
        (library / "cni-networks").mkdir()
        (library / "cni-networks" / "pods.conflist").write_text(json.dumps(self._pod_network()))
        try:
            self._enclosure.start()
            start_containerd(self._enclosure)
            self._start_kubelet()
            yield
        finally:
            self._enclosure.stop()
            with contextlib.suppress(ClusterError):
                self._cluster.request("DELETE", f"/api/v1/nodes/{self.name}")

    def label(self, labels: Mapping[str, str | None]) -> None:
        """Set labels of the node; None removes one."""
        self._cluster.request("PATCH", f"/api/v1/nodes/{self.name}", {"metadata": {"labels": dict(labels)}})

    def set_gpus(self, count: int) -> None:
        """Set the number of the node's simulated GPUs."""
        counted = {GPU_RESOURCE: str(count)}
        path = f"/api/v1/nodes/{self.name}"
        self._cluster.request("PATCH", f"{path}/status", {"status": {"capacity": counted, "allocatable": counted}})

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Let pods that are not pinned elsewhere run here in this block; restore the node's GPUs first."""
        path = f"/api/v1/nodes/{self.name}"
        self.set_gpus(self.gpus)
        self._cluster.request("PATCH", path, {"spec": {"unschedulable": False}})
        try:
            yield
        finally:
            self._cluster.request("PATCH", path, {"spec": {"unschedulable": True}})

    @property
    def root(self) -> Path:
        """The root of the node's file system."""
        return self._enclosure.root

    def run(self, *command: str) -> str:
        """Run a command on the node as its administrator."""
        return self._enclosure.run(*command)

    def logs(self) -> list[Path]:
        """Return the logs that help to find errors of the node."""
        return [self._enclosure.directory / f"{name}.log" for name in ("kubelet", "containerd")]

    def _start_kubelet(self) -> None:
        directory = self._enclosure.directory
        config = directory / "kubelet.json"
        (directory / "resolv.conf").write_text(f"nameserver {self._network.subnets.node(0)}\n")
        config.write_text(json.dumps(self._kubelet(), indent=2))
        daemon = self._enclosure.daemon(
            self._programs / "kubelet",
            f"--config={config}",
            f"--kubeconfig={self._cluster.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        )

        def ready() -> bool:
            if not daemon.runs():
                raise RuntimeError(f"The kubelet ended while it started:\n{daemon.tail()}")
            return self.name in self._cluster.ready_nodes()

        try:
            until(ready, f"the node {self.name} is ready", timeout_s=READY_TIMEOUT_S)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{daemon.tail()}") from error

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": KUBELET_PORT,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._cluster.kubelet_client)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._enclosure.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": ["none"],
            "clusterDNS": [self._network.subnets.node(0)],
            "clusterDomain": DOMAIN,
            "resolvConf": str(self._enclosure.directory / "resolv.conf"),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "maxPods": 256 // MOST_NODES - 4,
            "nodeStatusUpdateFrequency": "2s",
            "nodeStatusReportFrequency": "1m",  # of an unchanged status
            "makeIPTablesUtilChains": False,
            "nodeLeaseDurationSeconds": 8,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
        }

    def _pod_network(self) -> dict[str, Any]:
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": self._network.subnets.pods_of(self._place)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        return {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}],
        }


@contextlib.contextmanager
def volume(
    cluster: Cluster,
    directory: Path,
    *,
    storage_class: str = "",
    claim: tuple[str, str] | None = None,
    own: bool = True,
) -> Iterator[str]:
    """Create a PersistentVolume for a directory of this machine that every real node sees; return its name.

    It is for the ``claim`` (namespace, name), which is created as well and bound, or for any of ``storage_class``.
    Its owner becomes the user of the images, unless it is not ``own``: of others, and only read.
    """
    if own:
        directory.mkdir(parents=True, exist_ok=True)
        run("chown", f"{OWNER}:{GROUP}", directory)
    name = f"test-{secrets.token_hex(4)}"
    modes = ["ReadWriteOnce", "ReadWriteMany"]
    spec: dict[str, Any] = {
        "capacity": {"storage": "10Gi"},
        "accessModes": modes,
        "hostPath": {"path": str(directory), "type": "Directory"},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
    }
    if claim is not None:
        spec["claimRef"] = {"namespace": claim[0], "name": claim[1]}
    volumes = "/api/v1/persistentvolumes"
    cluster.request("POST", volumes, {"metadata": {"name": name}, "spec": spec})
    try:
        if claim is not None:
            wanted = {
                "accessModes": modes,
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": name,
            }
            path = f"/api/v1/namespaces/{claim[0]}/persistentvolumeclaims"
            cluster.request("POST", path, {"metadata": {"name": claim[1]}, "spec": wanted})
            bound = f"{path}/{claim[1]}"
            until(lambda: cluster.request("GET", bound)["status"].get("phase") == "Bound", f"{claim[1]} is bound")
        yield name
    finally:
        with contextlib.suppress(ClusterError):
            cluster.request("DELETE", f"{volumes}/{name}")
            cluster.request("PATCH", f"{volumes}/{name}", {"metadata": {"finalizers": None}})
