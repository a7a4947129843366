"""The product on two real nodes, one of each environment, and two people of two projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.cluster import Cluster
from clusters.kube_product import Member, Product, member, product
from clusters.real_node import RealNode


@pytest.fixture
def installed(
    cluster: Cluster, real_node: RealNode, real_build_node: RealNode, tmp_path: Path
) -> Iterator[Product]:
    nodes = {node.name: node for node in (real_node, real_build_node)}
    with product(cluster, nodes, tmp_path, {"vision": ["susan"], "speech": ["joe"]}) as made:
        yield made


@pytest.fixture
def susan(installed: Product) -> Iterator[Member]:
    with member(installed, "susan") as somebody:
        yield somebody


@pytest.fixture
def joe(installed: Product) -> Iterator[Member]:
    with member(installed, "joe") as somebody:
        yield somebody
