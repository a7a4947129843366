"""One hub with its service for all tests of a module: two build nodes with two GPUs each, one train node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from clusters.api_relay import ApiRelay
from clusters.cluster import POOL_LABEL, Cluster
from clusters.dra_driver import DraDriver, dra_driver
from clusters.kube_hub import ENVIRONMENT, KubeHub, notebooks, until
from clusters.real_node import volume

CONFIG = """
c.KubeSpawner.profile_list = [
    {"display_name": "Plain", "default": True},
    {
        "display_name": "Vision",
        "projects": ["vision"],
        "kubespawner_override": {
            "image": "lab/vision:1",
            "environment": {"FROM": "vision"},
            "extra_resource_limits": {"nvidia.com/gpu": "8", "example.com/fpga": "0"},
        },
        "profile_options": {
            "memory": {
                "display_name": "Memory",
                "choices": {
                    "little": {"display_name": "1 GB", "kubespawner_override": {"mem_limit": "1G"}},
                    "absurd": {"display_name": "1 EB", "kubespawner_override": {"mem_guarantee": "1000000T"}},
                },
            }
        },
    },
    {"display_name": "Speech", "projects": ["speech"]},
]
"""

DATASETS = {
    "digits": {"claim": "data", "sub_path": "digits", "projects": ["vision"]},
    "voices": {"claim": "data", "projects": ["robots"]},
}


@pytest.fixture(scope="module")
def place(cluster: Cluster, crd: None) -> Iterator[str]:
    """The namespace of the hub's notebooks and of the project vision's SpringtideJobs, with its nodes."""
    with cluster.namespace({"springtide.io/project": "vision"}) as name:
        for environment, count in (("build", 2), ("train", 1)):
            labels = {POOL_LABEL: name, ENVIRONMENT: environment}
            cluster.add_fake_nodes(count, gpus=2, labels=labels, prefix=f"{name}-{environment}")
        yield name


@pytest.fixture(scope="module")
def api_relay(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiRelay]:
    """The way of hub and service to the API server."""
    with ApiRelay.start(cluster, tmp_path_factory.mktemp("relay") / "kubeconfig") as relay:
        yield relay


@pytest.fixture(scope="module")
def driver(cluster: Cluster, place: str) -> Iterator[DraDriver]:
    """A driver whose published GPUs count in the pool; it has not published any."""
    with dra_driver(cluster, place) as driver:
        yield driver


@pytest.fixture(scope="module")
def running_hub(
    cluster: Cluster,
    place: str,
    driver: DraDriver,
    api_relay: ApiRelay,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KubeHub]:
    directory = tmp_path_factory.mktemp("hub")
    data = volume(cluster, directory / "data", claim=(place, "data"))
    devices = {"device_class": driver.name, "device_driver": driver.name}
    settings = {"train_jobs": [place], "datasets": DATASETS}
    hub = KubeHub(directory, cluster, place, CONFIG, api_relay.kubeconfig, devices, **settings)
    with data, notebooks() as url:
        try:
            hub.start(url)
            yield hub
        finally:
            hub.close()


@pytest.fixture
def hub(running_hub: KubeHub) -> Iterator[KubeHub]:
    """The hub; nobody has a notebook before and after a test."""
    running_hub.start_again()
    yield running_hub
    running_hub.start_again()
    for user in ("susan", "joe", "jemma"):
        for server in list(running_hub.api.get(f"/users/{user}").json()["servers"]):
            running_hub.stop_notebook(user, server)
    until("the release of all GPUs", lambda: not running_hub.held())
