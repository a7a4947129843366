"""What the cluster and its other users do to attempts: lost nodes, evictions, quotas, pods that cannot start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster, until
from clusters.webhooks import admission
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, ExitKind, InventoryChanged
from springtide.scheduler.executors.kubernetes import monitor, start_failures
from springtide.scheduler.executors.kubernetes.objects.manifests import KILL_MARGIN
from springtide.scheduler.model import Environment, Node, Worker

KEY = AttemptKey("job", 1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(start_failures, "UNSCHEDULABLE_PATIENCE", 1.0)


@pytest.fixture
async def make_bench(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Any]:
    benches: list[KubeBench] = []

    async def make(**options: Any) -> KubeBench:
        bench = KubeBench(cluster, namespace, tmp_path / "state", **options)
        bench.add_nodes(1)
        await bench.open()
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        await bench.shut()


# ---------- nodes


async def test_a_node_that_is_removed_takes_its_jobs_with_it(bench: KubeBench) -> None:
    await bench.up(bench.job())
    bench.cluster.remove_nodes([f"train-{bench.namespace}-0"])
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.LOST
    assert f"train-{bench.namespace}-0" in ended.detail
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pod is gone")


async def test_a_node_that_is_removed_is_known_to_be_before_its_job_is_planned_again(bench: KubeBench) -> None:
    await bench.up(bench.job())
    known = asyncio.create_task(nodes_known_when_the_job_is_gone(bench))
    await asyncio.sleep(0)
    bench.cluster.remove_nodes([bench.train_node])
    await bench.gone(KEY)
    assert bench.train_node not in {node.name for node in await known}


async def test_a_job_on_a_node_that_was_removed_while_the_service_was_away_is_lost(bench: KubeBench) -> None:
    await bench.up(bench.job())
    await bench.executor.stop()
    bench.cluster.remove_nodes([f"train-{bench.namespace}-0"])
    bench.executor = bench.make()
    await bench.open()
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.LOST


async def test_a_silent_node_takes_nothing_new_and_keeps_what_it_has(bench: KubeBench) -> None:
    running = await bench.up(bench.job())
    name = f"train-{bench.namespace}-0"
    bench.cluster.lose_node(name)
    async with asyncio.timeout(PATIENCE_S):
        while (await bench.executor.inventory())[0].available:
            await asyncio.sleep(0.1)
    assert await bench.executor.attempts() == (running,)
    bench.cluster.return_node(name)
    async with asyncio.timeout(PATIENCE_S):
        while not (await bench.executor.inventory())[0].available:
            await asyncio.sleep(0.1)
    assert await bench.executor.attempts() == (running,)


async def test_where_silent_nodes_are_fenced_their_jobs_are_lost_in_time(make_bench: Any) -> None:
    bench = await make_bench(lost_after=1.0)
    await bench.up(bench.job())
    bench.cluster.lose_node(f"train-{bench.namespace}-0")
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.LOST
    assert "has been unreachable" in ended.detail


async def test_the_inventory_tells_types_topology_and_what_others_take(bench: KubeBench) -> None:
    bench.add_nodes(1, "build")
    own = {
        "springtide.io/gpu-type": "h200",
        "topology.kubernetes.io/zone": "a",
        "springtide.io/rack": "r1",
        "springtide.io/pool": bench.namespace,
        "springtide.io/environment": "train",
    }
    bench.cluster.add_fake_nodes(1, gpus=4, labels=own, prefix=f"big-{bench.namespace}")
    big = f"big-{bench.namespace}-0"
    await bench.until(lambda: len(bench.of_kind(InventoryChanged)), "news of the inventory")

    async def nodes(count: int) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while len(found := {node.name: node for node in await bench.executor.inventory()}) < count:
                await asyncio.sleep(0.1)
        return found

    node = (await nodes(3))[big]
    assert (node.gpus, node.gpu_type, node.labels) == (4, "h200", {"zone": "a", "rack": "r1"})
    assert {each.environment for each in (await nodes(3)).values()} == set(Environment)
    await bench.up(bench.job(placement=(Worker(0, big, (3,)),)))
    resources = {"limits": {"nvidia.com/gpu": "2"}}
    spec = {"nodeName": big, "containers": [{"name": "x", "image": "x", "resources": resources}]}
    bench.cluster.request("POST", bench.path(), {"metadata": {"name": "foreign"}, "spec": spec})

    async def taken(expected: set[int]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (await nodes(3))[big].taken != expected:
                await asyncio.sleep(0.1)

    await taken({1, 2})
    bench.cluster.request("DELETE", bench.path("foreign"), gracePeriodSeconds="0")
    await taken(set())


def foreign_pod(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "x", "image": "x", "resources": resources}], **spec},
    }


async def _taken(bench: KubeBench, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len((await bench.executor.inventory())[0].taken) != count:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("directly", [False, True])
async def test_gpus_that_are_freed_for_a_nominated_pod_are_taken(make_bench: Any, *, directly: bool) -> None:
    bench = await make_bench(bind_directly=directly)
    await bench.up(bench.job(gpus=2))
    bench.cluster.request("POST", bench.path(), foreign_pod("foreign", 4, schedulerName="nobody"))
    nominated = {"status": {"nominatedNodeName": bench.train_node}}
    bench.cluster.request("PATCH", f"{bench.path('foreign')}/status", nominated)
    await _taken(bench, 4)
    binding = {"metadata": {"name": "foreign"}, "target": {"kind": "Node", "name": bench.train_node}}
    bench.cluster.request("POST", f"{bench.path('foreign')}/binding", {"kind": "Binding", **binding})
    await eventually(lambda: bench.cluster.request("GET", bench.path("foreign"))["spec"].get("nodeName"), "bound")
    await _taken(bench, 4)
    bench.cluster.request("DELETE", bench.path("foreign"), gracePeriodSeconds="0")
    await _taken(bench, 0)


async def nodes_known_when_the_job_is_gone(bench: KubeBench) -> tuple[Node, ...]:
    """Read the nodes when they have changed, as the engine does; return them as known when a job is gone."""
    nodes, seen = await bench.executor.inventory(), 0
    while not any(each.phase is AttemptPhase.GONE for each in bench.of_kind(AttemptStatus)):
        changes = len(bench.of_kind(InventoryChanged))
        if changes > seen:
            seen = changes
            nodes = await bench.executor.inventory()
        await asyncio.sleep(0.01)
    return nodes


async def test_gpus_of_a_job_that_another_pod_preempts_are_not_given_to_the_next_job(bench: KubeBench) -> None:
    """The cluster's scheduler ends the job for the pod, and binds that once the job is gone."""
    priority = f"above-{bench.namespace}"
    body = {"metadata": {"name": priority}, "value": 1000}
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    bench.cluster.request("POST", classes, body)
    known = asyncio.create_task(nodes_known_when_the_job_is_gone(bench))
    try:
        await bench.up(bench.job(gpus=8))
        on = {"nodeSelector": {"springtide.io/pool": bench.namespace}}
        bench.cluster.request(
            "POST", bench.path(), foreign_pod("foreign", 6, priorityClassName=priority, tolerations=ANY, **on)
        )
        ended = (await bench.gone(KEY)).exit
        (before,) = await known
        (node,) = await bench.executor.inventory()
    finally:
        known.cancel()
        bench.cluster.request("DELETE", f"{classes}/{priority}")
    assert ended is not None
    assert ended.kind is ExitKind.EVICTED
    assert "preempt" in ended.detail
    assert before.taken == frozenset(range(8))
    assert len(node.taken) == 6


ANY = [{"operator": "Exists"}]


async def test_a_cordoned_node_takes_nothing_new(bench: KubeBench) -> None:
    name = f"train-{bench.namespace}-0"
    bench.cluster.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    async with asyncio.timeout(PATIENCE_S):
        while (await bench.executor.inventory())[0].available:
            await asyncio.sleep(0.1)


# ---------- others


@pytest.mark.parametrize("way", ["evicted", "deleted"])
async def test_a_pod_that_somebody_else_ends_is_evicted_and_no_failure(bench: KubeBench, way: str) -> None:
    await bench.up(bench.job(size=2))
    name = "st-job-1-1"
    if way == "evicted":
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        bench.cluster.request("POST", bench.path(name) + "/eviction", body)
    else:
        bench.cluster.request("DELETE", bench.path(name))
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.paused) == (ExitKind.EVICTED, False)
    assert "from outside the pool" in ended.detail
    await eventually(lambda: not bench.pods(), "nothing delays the deletion")


async def test_a_pod_that_vanishes_without_a_word_is_evicted(
    bench: KubeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "VANISHED_PATIENCE", -KILL_MARGIN)  # the grace period alone
    await bench.up(bench.job(grace=1.0))
    with bench.cluster.pause_kwok():
        bench.cluster.request("DELETE", bench.path("st-job-1-0"), gracePeriodSeconds="0")
        ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.EVICTED


async def test_a_pod_that_starts_while_it_is_deleted_has_its_time_to_end(bench: KubeBench, tmp_path: Path) -> None:
    """Asked to delete a pod without a node, an API server removes it at once, also if it runs by then."""
    node, pod = f"/api/v1/nodes/{bench.train_node}", bench.path("st-job-1-0")
    asked: list[bool] = []

    def start_first(_kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(request["dryRun"])
        if asked.count(False) == 1:
            bench.cluster.request("PATCH", node, {"spec": {"unschedulable": False}})
            until(lambda: bench.pod()["status"].get("phase") == "Running", "the pod runs")
        return {}

    def is_asked() -> bool:
        bench.cluster.request("DELETE", pod, dryRun="All")
        return bool(asked)

    bench.cluster.request("PATCH", node, {"spec": {"unschedulable": True}})
    await bench.executor.launch(bench.job())
    hooks = {"validating": "Fail"}
    with admission(
        bench.cluster, bench.namespace, tmp_path, start_first, kinds=hooks, operations=["DELETE"], timeout_s=30
    ):
        await eventually(is_asked, "the webhook is called")
        await bench.executor.pause(KEY)
        ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.signal, ended.paused) == (ExitKind.EXITED, 15, True)
    await bench.executor.discard(KEY)


async def test_the_pod_of_somebody_else_keeps_its_name_and_its_life(bench: KubeBench) -> None:
    spec = {"containers": [{"name": "x", "image": "x"}], "nodeName": f"train-{bench.namespace}-0"}
    bench.cluster.request("POST", bench.path(), {"metadata": {"name": "st-job-1-0"}, "spec": spec})
    ended = (await bench.run(bench.job())).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert "another object called st-job-1-0" in ended.detail
    assert bench.pod()["metadata"].get("deletionTimestamp") is None


async def test_a_stop_never_hits_a_pod_that_took_the_name(bench: KubeBench) -> None:
    await bench.up(bench.job())
    await bench.executor.stop()
    old = bench.pod()
    bench.cluster.request("DELETE", bench.path("st-job-1-0"), gracePeriodSeconds="0")
    await eventually(lambda: not bench.pods(), "the pod is gone")
    spec = {"containers": [{"name": "x", "image": "x"}], "nodeName": f"train-{bench.namespace}-0"}
    bench.cluster.request("POST", bench.path(), {"metadata": {"name": "st-job-1-0"}, "spec": spec})
    await bench.executor._pods.delete_pod(monitor.Pod(metadata=_meta(old)), 0)
    await bench.executor._pods.release_pod(monitor.Pod(metadata=_meta(old)))
    assert bench.pod()["metadata"].get("deletionTimestamp") is None
    bench.executor = bench.make()
    await bench.open()


def _meta(pod: dict[str, Any]) -> Any:
    meta = pod["metadata"]
    return monitor.Pod().metadata.__class__(
        name=meta["name"], uid=meta["uid"], finalizers=("springtide.io/recorded",)
    )


# ---------- what the cluster does not do


async def test_a_pod_that_finds_no_room_gives_its_gpus_back(bench: KubeBench) -> None:
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    name = f"train-{bench.namespace}-0"
    spec = {"nodeName": name, "containers": [{"name": "x", "image": "x", "resources": resources}]}
    bench.cluster.request("POST", bench.path(), {"metadata": {"name": "foreign"}, "spec": spec})
    ended = (await bench.run(bench.job())).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert "Insufficient nvidia.com/gpu" in ended.detail


async def test_a_node_nobody_has_heard_of_blocks_the_attempt(bench: KubeBench) -> None:
    ended = (await bench.run(bench.job(placement=(Worker(0, "nowhere", (0,)),)))).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert "“nowhere”" in ended.detail


async def test_a_missing_volume_is_told_in_words(make_bench: Any) -> None:
    bench = await make_bench(jobs_host_path=None, jobs_claim="no-such-claim")
    ended = (await bench.run(bench.job())).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert "volume" in ended.detail
    assert "no-such-claim" in ended.detail
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pod is gone")


async def test_a_job_without_gpus_starts_where_no_node_has_the_default_of_the_settings(make_bench: Any) -> None:
    bench = await make_bench(cpu_per_gpu=100.0, memory_per_gpu=1000.0)
    await bench.up(bench.job(placement=(Worker(0, "", ()),)))
    resources = bench.pod()["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "8", "memory": "64Gi"}, "as much as one of the 8 GPUs of its node"


async def test_what_the_cluster_forbids_is_told_in_its_words(bench: KubeBench) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    bench.cluster.request("PATCH", f"/api/v1/namespaces/{bench.namespace}", {"metadata": {"labels": labels}})
    ended = (await bench.run(bench.job(size=2))).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert "hostPath" in ended.detail
    assert bench.pods() == []


async def test_a_quota_of_the_namespace_that_is_used_up_is_no_failure_of_the_job(bench: KubeBench) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    bench.cluster.request("POST", bench.path(kind="resourcequotas"), quota)
    await eventually(
        lambda: bench.cluster.request("GET", bench.path("small", "resourcequotas")).get("status", {}).get("used"),
        "the quota is counted",
    )
    ended = (await bench.run(bench.job(size=3))).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert ended.detail.startswith("The cluster refused the job's pod: exceeded quota: small, requested: pods=1, ")
    await eventually(
        lambda: {pod["status"]["phase"] for pod in bench.pods()} <= {"Failed", "Pending"}, "all of it ended"
    )


# ---------- homes


async def test_a_job_finds_the_home_of_its_user(bench: KubeBench) -> None:
    claim = {
        "metadata": {"name": "claim-susan", "annotations": {"hub.jupyter.org/username": "susan"}},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    bench.cluster.request("POST", bench.path(kind="persistentvolumeclaims"), claim)
    async with asyncio.timeout(PATIENCE_S):
        while bench.executor._monitor.cluster.home_of("susan").claim is None:
            await asyncio.sleep(0.05)
    await bench.executor.launch(bench.job(cwd="/home/jovyan/project"))
    pod = await eventually(bench.pod, "there is a pod")
    assert {"name": "home", "persistentVolumeClaim": {"claimName": "claim-susan"}} in pod["spec"]["volumes"]
    await bench.executor.kill(KEY)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert "before it started" in ended.detail
    assert (await bench.status(KEY)) is not None


async def test_a_directory_in_a_home_that_is_not_there_is_refused(bench: KubeBench) -> None:
    ended = (await bench.run(bench.job(cwd="/home/jovyan/project"))).exit
    assert ended is not None
    assert ended.kind is ExitKind.REFUSED
    assert "susan has none" in ended.detail
    status = await bench.status(KEY)
    assert status is not None
    assert status.phase is AttemptPhase.GONE
