"""Pods are created as fast as kubelets acknowledge them: what others wait for is not behind a pool of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from benches.kube_bench import KubeBench
from clusters.cluster import Cluster
from patience import PATIENCE_S

from springtide.scheduler.executors.kubernetes import pods
from springtide.scheduler.executors.kubernetes.pods import CreationWindow

LONG = 3600.0


@pytest.fixture(autouse=True)
def _two_pods_at_a_time(monkeypatch: pytest.MonkeyPatch, within: float) -> None:
    monkeypatch.setattr(pods, "CREATED_TOGETHER", 2)
    monkeypatch.setattr(pods, "ACKNOWLEDGED_WITHIN", within)


@pytest.mark.parametrize("within", [LONG])
async def test_pods_wait_until_the_kubelets_have_acknowledged_those_before_them(
    bench: KubeBench, cluster: Cluster
) -> None:
    with cluster.pause_kwok():
        jobs = [bench.job(f"job{slot}", slot=slot) for slot in range(4)]
        launches = [asyncio.create_task(bench.executor.launch(job)) for job in jobs]
        created = asyncio.as_completed(launches, timeout=PATIENCE_S)
        await next(created)
        await next(created)
        assert sum(launch.done() for launch in launches) == 2
        assert len(bench.pods()) == 2
    await asyncio.gather(*launches)
    assert len(bench.pods()) == 4


@pytest.mark.parametrize("within", [0.2])
async def test_a_silent_kubelet_delays_the_pods_of_others_for_a_moment_only(
    bench: KubeBench, cluster: Cluster
) -> None:
    with cluster.pause_kwok():
        await asyncio.gather(*(bench.executor.launch(bench.job(f"job{slot}", slot=slot)) for slot in range(6)))
        assert len(bench.pods()) == 6


@pytest.mark.parametrize("within", [LONG])
async def test_a_full_batch_ends_once_each_of_its_pods_is_acknowledged_or_refused(within: float) -> None:
    window = CreationWindow(3, within)
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(2):
            async with window.place("acknowledged before the answer"):
                window.acknowledge("acknowledged before the answer")
            with suppress(ValueError):
                async with window.place("refused"):
                    raise ValueError
        for name in ("first", "second", "third"):
            async with window.place(name):
                pass
        other = asyncio.create_task(_occupy(window))
        for name in ("first", "first", "unknown", "second"):
            window.acknowledge(name)
            await asyncio.sleep(0)
            assert not other.done()
        window.acknowledge("third")
        await other


async def _occupy(window: CreationWindow) -> None:
    async with window.place("other"):
        pass
