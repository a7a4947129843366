"""Jobs in pods on a real node read datasets, and nobody writes to these through them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench, restricted_bench
from clusters.cluster import Cluster
from clusters.real_node import RealNode, volume

from springtide.scheduler.datasets import Dataset

READS = """
from springtide.training import current_job

job = current_job()
for name in ("digits", "whole"):
    place = job.dataset(name)
    print(place, [(file.name, file.read_text()) for file in place.rglob("*.csv")])
    try:
        (place / "new").write_text("x")
    except OSError as error:
        print(error.strerror)
"""


@pytest.fixture
async def bench(cluster: Cluster, namespace: str, real_node: RealNode, tmp_path: Path) -> AsyncIterator[KubeBench]:
    async with restricted_bench(cluster, namespace, tmp_path / "state", real_node) as bench:
        yield bench


async def test_a_job_reads_its_datasets_and_cannot_write_although_the_files_are_its_own(
    bench: KubeBench, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / "digits").mkdir(parents=True)
    (data / "digits" / "train.csv").write_text("1,2,3")
    for path in data.rglob("*"):
        path.chmod(0o777)
    datasets = (
        Dataset("digits", claim="data", sub_path="digits"),
        Dataset("whole", claim="data"),
    )
    with volume(cluster, data, claim=(namespace, "data")):
        spec = bench.spec(("python3", "-c", READS), datasets=datasets)
        ended = (await bench.run(spec)).exit
        assert ended is not None
        log = await bench.log(spec.key.job)
        assert (ended.code, ended.detail) == (0, ""), log
    assert log.splitlines() == [
        "/datasets/digits [('train.csv', '1,2,3')]",
        "Read-only file system",
        "/datasets/whole [('train.csv', '1,2,3')]",
        "Read-only file system",
    ]
    assert [path.name for path in data.rglob("*")] == ["digits", "train.csv"]
