"""The cluster that the other tests stand on is a real one, and does what they rely on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusters.cluster import POOL_LABEL, Cluster, ClusterError, tools, until
from machines.processes import alive

SUPPORT = Path(__file__).parents[1] / "support"
FINALIZER = "springtide.io/recorded"

# Starts what a test process starts, says so, and waits to be killed.
PARENT = """
import sys, threading
from pathlib import Path
from clusters.control_plane import Daemon
daemon = Daemon(["sleep", "1000"], Path(sys.argv[1]), {"PATH": "/usr/bin:/bin"})
thread = threading.Thread(target=daemon.start)
thread.start()
thread.join()
print(daemon.pid, daemon.runs(), flush=True)
threading.Event().wait()
"""
PARENT_THAT_ENDS_AT_ONCE = """
import os, signal, sys
from pathlib import Path
from clusters.control_plane import Daemon
daemon = Daemon(["sleep", "1000"], Path(sys.argv[1]), {"PATH": "/usr/bin:/bin"})
daemon.start()
daemon.signal(signal.SIGSTOP)
os.write(1, str(daemon.pid).encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def nodes(cluster: Cluster, namespace: str) -> list[str]:
    return cluster.add_fake_nodes(2, gpus=2, labels={POOL_LABEL: namespace}, prefix=namespace)


def pod(name: str, node: str, **metadata: Any) -> dict[str, Any]:
    """A pod with one GPU that the scheduler may bind to one node only."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    container = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "restartPolicy": "Never",
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "containers": [container],
        },
    }


class Pods:
    """The pods of a namespace, in few words."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, node: str, **metadata: Any) -> None:
        self._cluster.request("POST", self.path, pod(name, node, **metadata))

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._cluster.request("GET", f"{self.path}/{name}")
        return found

    def becomes(self, name: str, phase: str) -> dict[str, Any]:
        until(lambda: self.get(name)["status"]["phase"] == phase, f"{name} is {phase}")
        return self.get(name)

    def delete(self, name: str) -> None:
        self._cluster.request("DELETE", f"{self.path}/{name}")

    def gone(self, name: str) -> None:
        until(lambda: not self._cluster.exists(f"{self.path}/{name}"), f"{name} is gone")


@pytest.fixture
def pods(cluster: Cluster, namespace: str) -> Pods:
    return Pods(cluster, namespace)


def exit_code(found: dict[str, Any]) -> int:
    return int(found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"])


def test_it_says_the_version_that_is_pinned(cluster: Cluster) -> None:
    assert cluster.request("GET", "/version")["gitVersion"].startswith("v1.34.")


def test_the_scheduler_binds_pods_where_they_must_go_and_counts_gpus(pods: Pods, nodes: list[str]) -> None:
    three = ("one", "two", "three")
    for name in three:
        pods.create(name, nodes[0])
    pods.create("elsewhere", nodes[1])
    until(lambda: sum("nodeName" in pods.get(name)["spec"] for name in three) == 2, "two are bound")
    assert pods.becomes("elsewhere", "Running")["spec"]["nodeName"] == nodes[1]
    [waiting] = [name for name in three if "nodeName" not in pods.get(name)["spec"]]
    until(lambda: "conditions" in pods.get(waiting)["status"], "the third is told why")
    assert "Insufficient nvidia.com/gpu" in pods.get(waiting)["status"]["conditions"][0]["message"]


def test_who_asked_for_the_end_of_a_pod_is_known(
    cluster: Cluster, namespace: str, pods: Pods, nodes: list[str]
) -> None:
    pods.create("one", nodes[0])
    pods.becomes("one", "Running")
    cluster.request("DELETE", f"{pods.path}/one", gracePeriodSeconds="7")
    pods.gone("one")
    until(lambda: len(cluster.requests_about(namespace, "one")) == 3, "all requests are logged")
    bound, asked, ended = cluster.requests_about(namespace, "one")
    assert (bound.by.partition("/")[0], bound.binds, bound.removes) == ("kube-scheduler", True, False)
    assert (asked.by.partition("/")[0], asked.removes, asked.grace) == ("python-httpx", True, 7)
    assert (ended.by.partition("/")[0], ended.removes, ended.grace) == ("kwok", True, 0)
    assert bound.received <= bound.answered < asked.received <= asked.answered


def test_a_deleted_pod_ends_and_is_kept_until_its_end_is_recorded(
    cluster: Cluster, pods: Pods, nodes: list[str]
) -> None:
    pods.create("kept", nodes[0], finalizers=[FINALIZER], annotations={"springtide.io/fake-stop-code": "7"})
    pods.becomes("kept", "Running")
    pods.delete("kept")
    ended = pods.becomes("kept", "Failed")
    assert exit_code(ended) == 7
    assert ended["metadata"]["finalizers"] == [FINALIZER]
    cluster.request("PATCH", f"{pods.path}/kept", {"metadata": {"finalizers": None}})
    pods.gone("kept")


def test_a_deleted_pod_takes_the_time_that_it_is_told_to_take(pods: Pods, nodes: list[str]) -> None:
    pods.create("slow", nodes[0], annotations={"springtide.io/fake-stop-after": "1h"})
    pods.create("quick", nodes[0])
    for name in ("slow", "quick"):
        pods.becomes(name, "Running")
        pods.delete(name)
    pods.gone("quick")
    assert pods.get("slow")["status"]["phase"] == "Running"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_a_pod_ends_with_the_code_that_a_test_wants(
    cluster: Cluster, namespace: str, pods: Pods, nodes: list[str], code: int, phase: str
) -> None:
    pods.create("ends", nodes[0])
    pods.becomes("ends", "Running")
    cluster.end_pod(namespace, "ends", code)
    ended = pods.becomes("ends", phase)
    assert exit_code(ended) == code
    pods.delete("ends")
    pods.gone("ends")


def test_a_silent_node_is_lost_and_comes_back(cluster: Cluster, nodes: list[str]) -> None:
    cluster.silence_node(nodes[0])
    until(lambda: nodes[0] not in cluster.ready_nodes(), "the node is lost")
    assert nodes[1] in cluster.ready_nodes()
    cluster.return_node(nodes[0])
    until(lambda: set(nodes) <= cluster.ready_nodes(), "both nodes are ready")


def test_paused_nodes_start_no_pods(cluster: Cluster, pods: Pods, nodes: list[str]) -> None:
    with cluster.pause_kwok():
        pods.create("waits", nodes[0])
        until(lambda: "nodeName" in pods.get("waits")["spec"], "the pod is bound")
        assert pods.get("waits")["status"]["phase"] == "Pending"
    pods.becomes("waits", "Running")


def test_a_frozen_api_server_says_nothing_and_then_goes_on(cluster: Cluster) -> None:
    with (
        cluster.frozen(),
        httpx.Client(verify=False, trust_env=False, timeout=0.5) as client,
        pytest.raises(httpx.TimeoutException),
    ):
        client.get(f"{cluster.url}/readyz")
    until(lambda: is_ready(cluster), "the server is ready again")


def is_ready(cluster: Cluster) -> bool:
    try:
        return bool(cluster.request("GET", "/readyz") == "ok")
    except ClusterError:
        return False


def test_a_service_account_may_do_what_its_role_says_and_no_more(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    cluster.request("POST", f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding = {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role}
    cluster.request("POST", f"{rbac}/rolebindings", binding)
    theirs = cluster.kubeconfig_for(cluster.token_of(namespace, "default"), tmp_path / "kubeconfig")
    with Cluster.attach(tmp_path, theirs) as limited:
        until(lambda: limited.may_list(f"/api/v1/namespaces/{namespace}/pods"), "the role is known")
        with pytest.raises(ClusterError, match=r'403: .*cannot list resource "secrets"'):
            limited.items(f"/api/v1/namespaces/{namespace}/secrets")


def test_a_namespace_is_left_without_pods_and_nodes(cluster: Cluster) -> None:
    with cluster.namespace() as name:
        [node] = cluster.add_fake_nodes(1, labels={POOL_LABEL: name}, prefix=name)
        pods = Pods(cluster, name)
        pods.create("held", node, finalizers=[FINALIZER])
        pods.becomes("held", "Running")
    assert cluster.nodes_of(name) == []
    until(lambda: not cluster.items(f"/api/v1/namespaces/{name}/pods"), "its pods are gone")


def test_helm_talks_to_it(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: one, version: 0.0.1, kubeVersion: '>=1.34.0-0'}")
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "from-helm"},
        "data": {"key": "value"},
    }
    (chart / "templates" / "settings.yaml").write_text(json.dumps(settings))
    command = [str(tools() / "helm"), "install", "one", str(chart), "--namespace", namespace, "--wait"]
    done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/from-helm")
    assert found["data"] == settings["data"]


def test_a_cluster_that_is_there_is_used_but_not_harmed(cluster: Cluster, tmp_path: Path) -> None:
    with Cluster.attach(tmp_path, cluster.kubeconfig) as theirs:
        with theirs.namespace({"springtide.io/project": "theirs"}) as name:
            found = theirs.request("GET", f"/api/v1/namespaces/{name}")
            assert found["metadata"]["labels"]["springtide.io/project"] == "theirs"
        until(lambda: not cluster.exists(f"/api/v1/namespaces/{name}"), "the namespace is gone")
        for fault in (lambda: theirs.frozen().__enter__(), theirs.stop_api, lambda: theirs.add_fake_nodes(1)):
            with pytest.raises(RuntimeError, match="unset KUBECONFIG"):
                fault()
    assert cluster.request("GET", "/readyz") == "ok"


def test_a_patch_is_a_merge_patch_unless_it_says_otherwise(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    cluster.request("PATCH", path, {"metadata": {"labels": {"a": "1"}}})
    add = [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]
    cluster.request("PATCH", path, add, "application/json-patch+json")
    changed = cluster.request("PATCH", path, {"metadata": {"labels": {"a": None}}})
    labels = changed["metadata"]["labels"]
    assert "a" not in labels
    assert labels["b"] == "2"


def test_its_processes_end_with_the_test_process_even_when_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    env = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, runs = parent.stdout.readline().split()
        assert runs == "True"  # although the thread that asked for it has ended
        parent.kill()
    until(lambda: not alive(int(pid)), "the process has ended")


def test_a_process_ends_although_its_parent_was_killed_before_it_had_begun(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT_THAT_ENDS_AT_ONCE, str(tmp_path / "log")]
    env = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    pids = [int(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False).stdout) for _ in range(5)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    until(lambda: not any(map(alive, pids)), "the processes have ended")
