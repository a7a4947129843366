"""A job whose image no registry gives, on a real node: what its kubelet says of a container that never was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench, eventually, restricted_bench
from clusters.cluster import Cluster
from clusters.real_node import RealNode

from springtide.scheduler.executors.base import ExitKind

ABSENT = "registry.invalid/train:1"


@pytest.fixture
async def bench(cluster: Cluster, namespace: str, real_node: RealNode, tmp_path: Path) -> AsyncIterator[KubeBench]:
    async with restricted_bench(cluster, namespace, tmp_path / "state", real_node, images=(ABSENT,)) as bench:
        yield bench


async def test_a_job_that_is_paused_while_it_waits_for_its_image_has_not_started(bench: KubeBench) -> None:
    spec = bench.spec(("python3", "-c", "print('ran')"), image=ABSENT)
    await bench.executor.launch(spec)
    await eventually(lambda: _waits(bench), "its image cannot be pulled")
    await bench.executor.pause(spec.key)
    status = await bench.gone(spec.key)
    assert status.exit is not None
    assert (status.exit.kind, status.exit.paused, status.started) == (ExitKind.EXITED, True, None)


def _waits(bench: KubeBench) -> bool:
    states = [each["state"] for each in bench.pod()["status"].get("containerStatuses") or ()]
    return any(state.get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff") for state in states)
