"""The cluster that all tests of a group share, a namespace for each, and logs for failed tests."""

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
NODES, EXECUTOR, CLUSTER, CHART = "cluster-nodes", "cluster-executor", "cluster", "chart"
"""Groups of tests. Each but the last one has a cluster of its own: the tests of one run one after the other."""
REAL_NODES = {"real_node", "real_build_node", "gpu_node"}
REAL_NODES_TIMEOUT_S = 900  # on a busy machine a node takes minutes to start
_CLUSTER = pytest.StashKey[Cluster]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules that need a cluster into three groups, and tests that only render the chart into another one."""
    here = [(item, set(getattr(item, "fixturenames", ()))) for item in items if item.path.is_relative_to(HERE)]
    needed_by: dict[Path, set[str]] = {}
    for item, needed in here:
        needed_by.setdefault(item.path, set()).update(needed)
    for item, needed in here:
        if "cluster" in needed_by[item.path]:
            item.add_marker(pytest.mark.xdist_group(_group_of(item.path, needed_by[item.path])))
        elif "template" in needed:
            item.add_marker(pytest.mark.xdist_group(CHART))
        if REAL_NODES & needed:
            item.add_marker(pytest.mark.timeout(REAL_NODES_TIMEOUT_S))


def _group_of(module: Path, needed: set[str]) -> str:
    """Return the group of a module, of which there is one in a cluster that was there before."""
    if os.environ.get("KUBECONFIG"):
        return CLUSTER
    if "node_network" in needed:
        return NODES
    return EXECUTOR if module.parent.name == "executor" else CLUSTER


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
