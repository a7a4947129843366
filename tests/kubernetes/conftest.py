"""The cluster that all tests in this folder share, a namespace for each, and logs for failed tests."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from clusters.cluster import Cluster, tools
from clusters.control_plane import ONE_THREAD
from clusters.real_node import NodeNetwork, RealNode
from clusters.train_job_definition import define

HERE = Path(__file__).parent
GROUP = "cluster"
CHART = "chart"
REAL_NODES = {"real_node", "real_build_node", "gpu_node"}
REAL_NODES_TIMEOUT_S = 900  # on a busy machine a node takes minutes to start
_CLUSTER = pytest.StashKey[Cluster]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all modules that need a cluster in one worker, so that there is one, and all that render the chart."""
    here = [(item, set(getattr(item, "fixturenames", ()))) for item in items if item.path.is_relative_to(HERE)]
    sharing = {item.path for item, needed in here if "cluster" in needed}
    for item, needed in here:
        if item.path in sharing:
            item.add_marker(pytest.mark.xdist_group(GROUP))
        elif "template" in needed:
            item.add_marker(pytest.mark.xdist_group(CHART))
        if REAL_NODES & needed:
            item.add_marker(pytest.mark.timeout(REAL_NODES_TIMEOUT_S))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    kubeconfig = os.environ.get("KUBECONFIG")
    with (
        Cluster.attach(directory, Path(kubeconfig))
        if kubeconfig
        else Cluster.start(directory, tools(), go=ONE_THREAD) as cluster
    ):
        request.config.stash[_CLUSTER] = cluster
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def crd(cluster: Cluster) -> None:
    """The custom resource, as the chart brings it."""
    define(cluster)


@pytest.fixture(scope="session")
def node_network(cluster: Cluster) -> Iterator[NodeNetwork]:
    with NodeNetwork.start(cluster, tools()) as network:
        yield network


@pytest.fixture(scope="session")
def _train_node(node_network: NodeNetwork) -> Iterator[RealNode]:
    with node_network.node("real-train", gpus=2, labels={"springtide.io/environment": "train"}) as node:
        yield node


@pytest.fixture(scope="session")
def _build_node(node_network: NodeNetwork) -> Iterator[RealNode]:
    with node_network.node("real-build", gpus=2, labels={"springtide.io/environment": "build"}) as node:
        yield node


@pytest.fixture(scope="module")
def real_node(_train_node: RealNode) -> Iterator[RealNode]:
    """A train node that runs its pods, and takes those of this module only."""
    with _train_node.in_use():
        yield _train_node


@pytest.fixture(scope="module")
def real_build_node(_build_node: RealNode) -> Iterator[RealNode]:
    """A build node that runs its pods, and takes those of this module only."""
    with _build_node.in_use():
        yield _build_node


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = item.config.stash.get(_CLUSTER, None)
    if report.failed and cluster is not None and item.path.is_relative_to(HERE):
        for daemon in cluster.daemons():
            report.sections.append((f"End of {daemon.log}", daemon.tail()))
    return report
