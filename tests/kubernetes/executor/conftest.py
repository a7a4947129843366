"""An executor on the fake nodes of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench
from clusters.cluster import Cluster


@pytest.fixture
async def bench(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[KubeBench]:
    """A started executor, and one train node."""
    bench = KubeBench(cluster, namespace, tmp_path / "state")
    bench.add_nodes(1)
    await bench.open()
    yield bench
    await bench.shut()
