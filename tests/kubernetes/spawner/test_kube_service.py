"""The service beside a cluster: one at work at a time, and plain words where it cannot be."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import Cluster
from kube_hub import START_TIMEOUT_S, KubeHub, until


@contextmanager
def another(hub: KubeHub, directory: Path, **more: Any) -> Iterator[KubeHub]:
    """Another service of the same pool, with a store of its own."""
    directory.mkdir()
    other = KubeHub(directory, hub.cluster, hub.namespace, **more)
    try:
        other.begin_service()
        yield other
    finally:
        other.close()


def test_the_pool_is_what_the_nodes_say(hub: KubeHub, place: str) -> None:
    nodes = {node.name: (node.environment, len(node.gpus)) for node in hub.pool.pool().nodes}
    build = {f"{place}-build-{number}": ("build", 2) for number in range(2)}
    assert nodes == {**build, f"{place}-train-0": ("train", 2)}


def test_one_service_is_at_work_and_others_wait_leave_when_told_and_take_over(
    hub: KubeHub, tmp_path: Path
) -> None:
    first = hub.holder()
    with another(hub, tmp_path / "second") as second, another(hub, tmp_path / "third") as third:
        waiting = f"Waiting for the service {first}"
        until("the second one to wait", lambda: waiting in second.log("service"))
        until("the third one to wait", lambda: waiting in third.log("service"))
        leaves = third.process("service")
        leaves.signal(signal.SIGTERM)
        until("the third one's end", lambda: not leaves.runs(), seconds=START_TIMEOUT_S)
        assert hub.holder() == first

        hub.stop("service")
        second.until_service_answers()
        assert hub.holder() not in {first, ""}

        hub.hold("somebody-else")
        takes_over = second.process("service")
        until("the second one's end", lambda: not takes_over.runs(), seconds=START_TIMEOUT_S)
        said = "springtide: The service somebody-else is at work on the pool 'springtide' now."
        assert said in second.log("service")
        hub.hold("")


def test_a_service_that_the_cluster_does_not_allow_says_so(hub: KubeHub, tmp_path: Path) -> None:
    token = hub.cluster.token_of(hub.namespace, "default")
    config = hub.cluster.kubeconfig_for(token, tmp_path / "nobody.yaml")
    with another(hub, tmp_path / "nobody", kubeconfig=config) as nobody:
        process = nobody.process("service")
        until("its end", lambda: not process.runs(), seconds=START_TIMEOUT_S)
        said = nobody.log("service").splitlines()[-1]
    assert said.startswith("springtide: The cluster does not let this service work: ")
    assert "leases" in said


def train_job(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "springtide.io/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}}
    return {**head, "spec": {"command": ["python", "train.py"], **spec}}


def test_a_train_job_runs_in_an_image_of_the_list_and_no_other(hub: KubeHub, cluster: Cluster, place: str) -> None:
    jobs = f"/apis/springtide.io/v1alpha1/namespaces/{place}/trainjobs"
    cluster.request("POST", jobs, train_job("good", image="lab/torch:2", gpus=2))
    cluster.request("POST", jobs, train_job("bad", image="evil/miner:1"))

    def conditions(name: str) -> dict[str, str]:
        found = cluster.request("GET", f"{jobs}/{name}").get("status", {}).get("conditions", [])
        return {one["type"]: one["message"] for one in found if one["status"] != "Unknown"}

    said = until("the refusal", lambda: conditions("bad").get("Accepted"))
    assert "'evil/miner:1' is not on this pool's list: lab/notebook:1, lab/*" in said
    pods = f"/api/v1/namespaces/{place}/pods"
    [pod] = until("the pod", lambda: cluster.items(pods))
    assert pod["spec"]["containers"][0]["image"] == "lab/torch:2"
    assert pod["metadata"]["annotations"]["springtide.io/project"] == "vision"
    for name in ("good", "bad"):
        cluster.request("DELETE", f"{jobs}/{name}")
    until("the end of both", lambda: not cluster.items(jobs) and not cluster.items(pods))
