"""The service beside a cluster: one at work at a time, and plain words where it cannot be."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import POOL_LABEL, Cluster, ClusterError
from kube_hub import ENVIRONMENT, START_TIMEOUT_S, KubeHub, until


@pytest.fixture
def pool(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[KubeHub]:
    """A service without a hub, for a pool of one build and one train node."""
    for environment in ("build", "train"):
        labels = {POOL_LABEL: namespace, ENVIRONMENT: environment}
        cluster.add_fake_nodes(1, gpus=4, labels=labels, prefix=f"{namespace}-{environment}")
    pool = KubeHub(tmp_path, cluster, namespace)
    yield pool
    pool.close()


def lease(pool: KubeHub) -> str:
    """Who is at work."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{pool.namespace}/leases/springtide-springtide"
    return str(pool.cluster.request("GET", path)["spec"]["holderIdentity"])


def test_the_pool_is_what_the_nodes_say(pool: KubeHub) -> None:
    pool.start_service()
    nodes = {node.name: (node.environment, len(node.gpus)) for node in pool.pool.pool().nodes}
    build, train = f"{pool.namespace}-build-0", f"{pool.namespace}-train-0"
    assert nodes == {build: ("build", 4), train: ("train", 4)}


def test_a_second_service_waits_and_takes_over(pool: KubeHub, tmp_path: Path) -> None:
    pool.start_service()
    first = lease(pool)
    second = KubeHub(tmp_path / "second", pool.cluster, pool.namespace)
    second.directory.mkdir()
    try:
        second.begin_service()
        until("it waits", lambda: f"Waiting for the service {first}" in second.log("service"))
        pool.stop("service")
        second.until_service_answers()
        assert lease(pool) not in {first, ""}
    finally:
        second.close()


def test_a_service_that_waits_leaves_when_it_is_told_to(pool: KubeHub, tmp_path: Path) -> None:
    pool.start_service()
    second = KubeHub(tmp_path / "second", pool.cluster, pool.namespace)
    second.directory.mkdir()
    try:
        process = second.begin_service()
        until("it waits", lambda: "Waiting for the service" in second.log("service"))
        process.signal(signal.SIGTERM)
        until("its end", lambda: not process.runs(), seconds=START_TIMEOUT_S)
        assert lease(pool)
    finally:
        second.close()


def test_a_service_that_is_no_longer_the_one_at_work_ends(pool: KubeHub) -> None:
    process = pool.begin_service()
    pool.until_service_answers()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{pool.namespace}/leases/springtide-springtide"
    pool.cluster.request("PATCH", path, {"spec": {"holderIdentity": "somebody-else"}})
    until("its end", lambda: not process.runs(), seconds=START_TIMEOUT_S)
    assert "springtide: The service somebody-else is at work on the pool 'springtide' now." in pool.log("service")


def test_a_cluster_that_is_away_for_long_does_not_end_the_service(pool: KubeHub) -> None:
    process = pool.begin_service()
    pool.until_service_answers()
    holder = lease(pool)
    pool.cluster.stop_api()
    try:
        until("the lease runs out", lambda: "could not be renewed" in pool.log("service"))
    finally:
        pool.cluster.start_api()
    until("the lease again", lambda: "No other service is at work on the pool" in pool.log("service"))
    assert process.runs()
    assert lease(pool) == holder


def test_a_service_that_the_cluster_does_not_allow_says_so(pool: KubeHub, tmp_path: Path) -> None:
    token = pool.cluster.token_of(pool.namespace, "default")
    config = pool.cluster.kubeconfig_for(token, tmp_path / "nobody.yaml")
    pool.service_env = {"KUBECONFIG": str(config)}
    process = pool.begin_service()
    until("its end", lambda: not process.runs(), seconds=START_TIMEOUT_S)
    said = pool.log("service").splitlines()[-1]
    assert said.startswith("springtide: The cluster does not let this service work: ")
    assert "leases" in said


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = Path(__file__).parents[3] / "helm/springtide/crds/trainjob.yaml"


def train_job(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "springtide.io/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}}
    return {**head, "spec": {"command": ["python", "train.py"], **spec}}


def served(cluster: Cluster, path: str) -> bool:
    """Whether the API server has this list by now."""
    try:
        return cluster.exists(path)
    except ClusterError:
        return False


def test_a_train_job_runs_in_an_image_of_the_list_and_no_other(pool: KubeHub) -> None:
    cluster, space = pool.cluster, pool.namespace
    with contextlib.suppress(ClusterError):
        cluster.request("POST", CRDS, yaml.safe_load(CRD.read_text()))
    jobs = f"/apis/springtide.io/v1alpha1/namespaces/{space}/trainjobs"
    until("the resource", lambda: served(cluster, jobs))
    cluster.request(
        "PATCH", f"/api/v1/namespaces/{space}", {"metadata": {"labels": {"springtide.io/project": "vision"}}}
    )
    pool.start_service(train_jobs=[space])
    cluster.request("POST", jobs, train_job("good", image="lab/torch:2", gpus=2))
    cluster.request("POST", jobs, train_job("bad", image="evil/miner:1"))

    def conditions(name: str) -> dict[str, str]:
        found = cluster.request("GET", f"{jobs}/{name}").get("status", {}).get("conditions", [])
        return {one["type"]: one["message"] for one in found if one["status"] != "Unknown"}

    said = until("the refusal", lambda: conditions("bad").get("Accepted"))
    assert "'evil/miner:1' is not on this pool's list: lab/notebook:1, lab/*" in said
    pods = f"/api/v1/namespaces/{space}/pods"
    [pod] = until("the pod", lambda: cluster.items(pods))
    assert pod["spec"]["containers"][0]["image"] == "lab/torch:2"
    assert pod["metadata"]["annotations"]["springtide.io/project"] == "vision"
    for name in ("good", "bad"):
        cluster.request("PATCH", f"{jobs}/{name}", {"metadata": {"finalizers": None}})
