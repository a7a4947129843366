"""Pods that are created on their planned nodes, without the cluster's scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster
from clusters.faulty_api import FaultyApi
from patience import PATIENCE_S

from springtide.scheduler import model
from springtide.scheduler.engine import EngineSettings, open_engine
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, ExitKind
from springtide.scheduler.executors.kubernetes import cluster_resources, monitor
from springtide.scheduler.kube import connect
from springtide.scheduler.store import Store
from springtide.scheduler.wire import Submission

KEY = AttemptKey("job", 1)
REFUSED = {
    "phase": "Failed",
    "reason": "OutOfcpu",
    "message": "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 63000, "
    "capacity: 64000",
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(monitor, "LONGEST_DELAY", 0.5)


@pytest.fixture
async def faults(cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultyApi]:
    async with FaultyApi(cluster, tmp_path / "faulty.kubeconfig") as faults:
        yield faults


@pytest.fixture
async def make_bench(cluster: Cluster, namespace: str, tmp_path: Path, faults: FaultyApi) -> AsyncIterator[Any]:
    benches: list[KubeBench] = []

    async def make(nodes: int = 1, **options: Any) -> KubeBench:
        api = connect(faults.kubeconfig)
        bench = KubeBench(cluster, namespace, tmp_path / "state", api, bind_directly=True, **options)
        bench.add_nodes(nodes)
        await bench.open()
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        await bench.shut()


def bound_by_the_cluster(pod: dict[str, Any]) -> bool:
    """Return whether kube-scheduler bound a pod: it, and no fake node, sets this condition."""
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", []))


async def test_the_pods_of_a_gang_are_created_on_their_nodes(make_bench: Any) -> None:
    bench = await make_bench()
    await bench.up(bench.job(size=3, gpus=2))
    pods = bench.pods()
    assert [pod["spec"]["nodeName"] for pod in pods] == [bench.train_node] * 3
    assert not any(bound_by_the_cluster(pod) or "affinity" in pod["spec"] for pod in pods)


async def test_a_service_that_died_within_a_gang_completes_it_and_makes_nothing_twice(
    make_bench: Any, faults: FaultyApi
) -> None:
    bench = await make_bench()
    made = 0

    def refuse_more(request: web.Request) -> int | None:
        nonlocal made
        made += request.method == "POST" and request.path.endswith("/pods")
        return 500 if request.method == "POST" and made > 2 else None

    faults.before = refuse_more
    launch = asyncio.create_task(bench.executor.launch(bench.job(size=5)))
    await eventually(lambda: len(bench.pods()) == 2, "some pods are there")
    launch.cancel()
    await asyncio.gather(launch, return_exceptions=True)
    await bench.executor.stop()
    first = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bench.pods()}
    faults.before = lambda _: None
    bench.executor = bench.make()
    await bench.open()
    await bench.phase(KEY, AttemptPhase.RUNNING)
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bench.pods()}
    assert len(after) == 5
    assert first.items() <= after.items()
    assert [pod["spec"]["nodeName"] for pod in bench.pods()] == [bench.train_node] * 5


async def test_a_pod_that_was_created_without_an_answer_is_not_created_again(
    make_bench: Any, faults: FaultyApi
) -> None:
    bench = await make_bench()
    lost = 0

    def lose_answers(request: web.Request) -> int | None:
        nonlocal lost
        creates = request.method == "POST" and request.path.endswith("/pods")
        lost += creates
        return 504 if creates and lost < 3 else None

    faults.after = lose_answers
    await bench.up(bench.job())
    assert lost > 1
    assert [pod["spec"]["nodeName"] for pod in bench.pods()] == [bench.train_node]


async def test_a_pod_whose_claim_has_no_volume_yet_is_left_to_the_cluster(make_bench: Any) -> None:
    bench = await make_bench(jobs_host_path=None, jobs_claim="later")
    claim = {
        "metadata": {"name": "later"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    bench.cluster.request("POST", bench.path(kind="persistentvolumeclaims"), claim)
    await bench.executor.launch(bench.job())
    pod = await eventually(bench.pod, "there is a pod")
    assert "nodeName" not in pod["spec"]
    assert "affinity" in pod["spec"]


async def test_a_job_without_gpus_is_left_to_the_cluster(make_bench: Any) -> None:
    bench = await make_bench()
    await bench.up(bench.job(gpus=0))
    assert bound_by_the_cluster(bench.pod())


async def test_a_node_that_was_cordoned_after_the_plan_gets_no_pod(make_bench: Any) -> None:
    bench = await make_bench()
    node = bench.train_node
    bench.cluster.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    async with asyncio.timeout(PATIENCE_S):
        while (await bench.executor.inventory())[0].available:
            await asyncio.sleep(0.1)
    ended = (await bench.run(bench.job())).exit
    assert ended is not None
    assert (ended.kind, ended.detail) == (ExitKind.BLOCKED, f"The node {node} takes no new pods at present.")
    assert bench.pods() == []


async def test_a_quota_of_the_namespace_holds_for_pods_that_name_their_node(make_bench: Any) -> None:
    bench = await make_bench()
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    bench.cluster.request("POST", bench.path(kind="resourcequotas"), quota)
    await eventually(
        lambda: bench.cluster.request("GET", bench.path("small", "resourcequotas")).get("status", {}).get("used"),
        "the quota is counted",
    )
    ended = (await bench.run(bench.job(size=3))).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert "exceeded quota" in ended.detail


async def test_a_node_that_refuses_a_pod_gets_no_other_for_a_time(make_bench: Any) -> None:
    bench = await make_bench()
    node = bench.train_node
    with bench.cluster.pause_kwok():
        await bench.executor.launch(bench.job(gpus=2))
        await eventually(bench.pods, "there is a pod")
        bench.cluster.request("PATCH", f"{bench.path('st-job-1-0')}/status", {"status": REFUSED})
        status = await bench.gone(KEY)
        (seen,) = await bench.executor.inventory()
        await bench.executor.discard(KEY)
        await eventually(lambda: not bench.pods(), "the pod is gone")
    assert status.exit is not None
    assert status.exit.kind is ExitKind.BLOCKED
    assert status.exit.detail == (
        f"The node {node} did not start its pod: Node didn't have enough resource: cpu, requested: 4000, "
        "used: 63000, capacity: 64000 (OutOfcpu)."
    )
    assert (seen.available, seen.closure) == (False, model.Closure.SET_ASIDE)


async def test_pods_that_a_node_refuses_for_one_reason_count_once_however_late_it_says_so(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_resources, "FIRST_SET_ASIDE", 0.5)
    bench = await make_bench()
    jobs = ("first", "second", "third")

    async def available() -> bool:
        (node,) = await bench.executor.inventory()
        return node.available

    def set_aside() -> int:
        return caplog.text.count("did not take a pod")

    async def refuse(job: str) -> None:
        bench.cluster.request("PATCH", f"{bench.path(f'st-{job}-1-0')}/status", {"status": REFUSED})
        await bench.gone(AttemptKey(job, 1))

    with bench.cluster.pause_kwok():
        for job in jobs:
            await bench.executor.launch(bench.job(job, slot=jobs.index(job)))
        await eventually(lambda: len(bench.pods()) == len(jobs), "there are pods")
        await refuse("first")
        assert set_aside() == 1
        async with asyncio.timeout(PATIENCE_S):
            while not await available():
                await asyncio.sleep(0.05)
        await refuse("second")
        await refuse("third")
        assert set_aside() == 1
        assert await available()
        await bench.executor.launch(bench.job("later"))
        await eventually(lambda: len(bench.pods()) == len(jobs) + 1, "there is another pod")
        await refuse("later")
        assert set_aside() == 2
        for job in (*jobs, "later"):
            await bench.executor.discard(AttemptKey(job, 1))
        await eventually(lambda: not bench.pods(), "the pods are gone")


async def test_a_pod_that_starts_meanwhile_makes_no_second_incident_of_the_late_refusals(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_resources, "FIRST_SET_ASIDE", 0.5)
    bench = await make_bench()
    jobs = ("first", "starts", "late")
    with bench.cluster.pause_kwok():
        for job in jobs:
            await bench.executor.launch(bench.job(job, slot=jobs.index(job)))
        await eventually(lambda: len(bench.pods()) == len(jobs), "there are pods")
        bench.cluster.request("PATCH", f"{bench.path('st-first-1-0')}/status", {"status": REFUSED})
        await bench.gone(AttemptKey("first", 1))
        running = {"name": "job", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        status = {"phase": "Running", "containerStatuses": [{**running, "state": state}]}
        bench.cluster.request("PATCH", f"{bench.path('st-starts-1-0')}/status", {"status": status})
        await bench.phase(AttemptKey("starts", 1), AttemptPhase.RUNNING)
        async with asyncio.timeout(PATIENCE_S):
            while not (await bench.executor.inventory())[0].available:
                await asyncio.sleep(0.05)
        bench.cluster.request("PATCH", f"{bench.path('st-late-1-0')}/status", {"status": REFUSED})
        await bench.gone(AttemptKey("late", 1))
        assert (await bench.executor.inventory())[0].available
    assert caplog.text.count("did not take a pod") == 1


async def test_a_job_that_its_node_refuses_starts_on_another(
    make_bench: Any, tmp_path: Path, cluster: Cluster
) -> None:
    bench = await make_bench(2)
    await bench.executor.stop()
    executor = bench.make()
    bench.executor = executor
    state = tmp_path / "store"
    state.mkdir()
    store = Store.open(f"sqlite:///{state}/springtide.sqlite", state)
    settings = EngineSettings(policy=model.Settings(grace=2.0))
    engine = await open_engine(store, executor, settings, projects={"vision": {"quota": 8}})
    try:
        with cluster.pause_kwok():
            job = await engine.submit(Submission(argv=["train"]), "susan", "vision")
            first = (await eventually(bench.pods, "there is a pod"))[0]
            status = f"{bench.path(first['metadata']['name'])}/status"
            cluster.request("PATCH", status, {"status": REFUSED})
            second = await eventually(lambda: _of_attempt(bench, "2"), "the job starts again")
            await eventually(lambda: not _of_attempt(bench, "1"), "the first pod is gone")
        assert second["spec"]["nodeName"] not in ("", first["spec"]["nodeName"])
        async with asyncio.timeout(PATIENCE_S):
            while (view := await engine.job(job.id)).state != "running":
                await asyncio.sleep(0.1)
        assert view.attempts[0].state == "blocked"
        assert "did not start its pod" in view.attempts[0].ended_why.text
    finally:
        await engine.stop()
        store.close()


def _of_attempt(bench: KubeBench, number: str) -> dict[str, Any] | None:
    pods = [pod for pod in bench.pods() if pod["metadata"]["labels"]["springtide.io/attempt"] == number]
    return pods[0] if pods else None
