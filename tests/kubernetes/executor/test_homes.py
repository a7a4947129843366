"""Homes of people in the pods of their jobs: where their volume can be attached, and in words where it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster
from patience import PATIENCE_S

from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes.homes import HomeRule
from springtide.scheduler.store import Store
from springtide.scheduler.wire import Submission


@asynccontextmanager
async def served(bench: KubeBench, state: Path) -> AsyncIterator[Engine]:
    """An engine on a new executor of the bench; its pods keep running after it."""
    state.mkdir(exist_ok=True)
    bench.executor = bench.make()
    store = Store.open(f"sqlite:///{state}/springtide.sqlite", state)
    engine = await open_engine(store, bench.executor, EngineSettings(), projects={"vision": {"quota": 8}})
    try:
        yield engine
    finally:
        await engine.stop()
        store.close()


@pytest.fixture
async def make_bench(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Any]:
    benches: list[KubeBench] = []

    def make(rule: HomeRule = "auto") -> KubeBench:
        benches.append(KubeBench(cluster, namespace, tmp_path / "state", home=rule))
        benches[-1].add_nodes(1)
        return benches[-1]

    yield make
    for bench in benches:
        await bench.api.close()


def home(bench: KubeBench, *modes: str) -> None:
    claim = {
        "metadata": {"name": "claim-susan", "annotations": {"hub.jupyter.org/username": "susan"}},
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": "1Gi"}}},
    }
    bench.cluster.request("POST", bench.path(kind="persistentvolumeclaims"), claim)


@contextmanager
def volume_of_home(bench: KubeBench, *modes: str) -> Iterator[None]:
    """A volume with these access modes for the claim of susan's home."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": list(modes),
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": bench.namespace, "name": "claim-susan"},
        "hostPath": {"path": "/nowhere"},
    }
    path, name = "/api/v1/persistentvolumes", f"home-{bench.namespace}"
    bench.cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    try:
        yield
    finally:
        bench.cluster.request("DELETE", f"{path}/{name}")


def volumes(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in pod["spec"]["volumes"] if each["name"] == "home"]


@pytest.mark.parametrize(
    ("modes", "rule", "says"),
    [
        pytest.param(
            ["ReadWriteOnce"],
            "auto",
            "It does not have the home of its user, whose volume one node only can attach.",
            id="one node",
        ),
        pytest.param(
            ["ReadWriteMany"],
            "read-only",
            "It can read the home of its user, and not write there.",
            id="read-only",
        ),
        pytest.param(
            ["ReadWriteMany"],
            "none",
            "It does not have the home of its user: the admin leaves homes out of jobs.",
            id="left out",
        ),
    ],
)
async def test_a_job_says_how_it_has_the_home_of_its_user(
    make_bench: Any, tmp_path: Path, modes: list[str], rule: HomeRule, says: str
) -> None:
    bench = make_bench(rule)
    home(bench, *modes)
    with volume_of_home(bench, *modes):
        async with served(bench, tmp_path / "store") as engine:
            job = (await engine.submit(Submission(argv=["train"]), "susan", "vision")).id
            assert says in await running(engine, job)
            [pod] = bench.pods()
            assert bool(volumes(pod)) == (rule == "read-only")
        bench.executor = bench.make()
        await bench.open()
        [found] = await bench.executor.attempts()
        await bench.executor.stop()
        assert found.home == pod["metadata"]["annotations"]["springtide.io/home"], "its pod is the record"
        async with served(bench, tmp_path / "store") as engine:
            assert says in await running(engine, job)


async def running(engine: Engine, job: str) -> str:
    """Wait until a job runs; return its reason."""
    async with asyncio.timeout(PATIENCE_S):
        while (found := await engine.job(job)).state != "running":
            await asyncio.sleep(0.05)
    return found.reason.text


async def test_a_directory_in_a_home_that_jobs_do_not_have_is_refused_in_words(make_bench: Any) -> None:
    bench = make_bench()
    home(bench, "ReadWriteOnce")
    await bench.open()
    try:
        ended = (await bench.run(bench.job(cwd="/home/jovyan/project"))).exit
    finally:
        await bench.executor.stop()
    assert ended is not None
    assert ended.kind is ExitKind.REFUSED
    assert "is not mounted in jobs, because one node only can attach its volume." in ended.detail
    assert "leave out cwd" in ended.detail


async def test_a_home_counts_as_what_its_volume_offers_once_it_has_one(make_bench: Any) -> None:
    bench = make_bench()
    home(bench, "ReadWriteOnce")
    await bench.open()
    try:
        cluster = bench.executor._monitor.cluster
        await eventually(lambda: cluster.home_of("susan").access == "one-node", "the claim is known")
        with volume_of_home(bench, "ReadWriteOnce", "ReadWriteMany"):
            await eventually(lambda: cluster.home_of("susan").claim == "claim-susan", "its volume is known")
            await bench.executor.launch(bench.job())
            assert volumes(await eventually(bench.pod, "there is a pod"))
    finally:
        await bench.executor.stop()
