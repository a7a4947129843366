"""The executor while the API server is unreachable, overloaded, failing or silent: nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster
from clusters.faulty_api import FaultyApi
from jobs.supervisor_records import leave_exit
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, ExecutorError, ExitKind
from springtide.scheduler.executors.kubernetes import api_stalls, monitor, pods
from springtide.scheduler.executors.kubernetes.objects.manifests import KILL_MARGIN
from springtide.scheduler.kube import connect
from springtide.scheduler.model import Worker

KEY = AttemptKey("job", 1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(monitor, "LONGEST_DELAY", 0.5)
    monkeypatch.setattr(pods, "LONGEST_DELAY", 0.5)


@pytest.fixture
async def faults(cluster: Cluster, tmp_path: Path) -> AsyncIterator[FaultyApi]:
    async with FaultyApi(cluster, tmp_path / "faulty.kubeconfig") as faults:
        yield faults


@pytest.fixture
def timeout() -> float:
    """Time-out of the executor's requests, in seconds."""
    return 10.0


@pytest.fixture
async def bench(
    cluster: Cluster, namespace: str, tmp_path: Path, faults: FaultyApi, timeout: float
) -> AsyncIterator[KubeBench]:
    api = connect(faults.kubeconfig, timeout=timeout, watch_seconds=1, watch_overdue=2)
    bench = KubeBench(cluster, namespace, tmp_path / "state", api)
    bench.add_nodes(1)
    await bench.open()
    yield bench
    await bench.shut()


def writes(request: web.Request) -> bool:
    return request.method in ("POST", "PATCH", "DELETE")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_gang_gets_through_a_storm_of_refusals(bench: KubeBench, faults: FaultyApi, when: str) -> None:
    """Three of four writes are refused, ``before`` they are carried out or ``after`` that."""
    statuses = itertools.cycle((429, 500, 503, None))

    def storm(request: web.Request) -> int | None:
        return next(statuses) if writes(request) else None

    setattr(faults, when, storm)
    await bench.up(bench.job(size=4))
    assert len(bench.pods()) == 4
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await bench.executor.pause(KEY)
            except ExecutorError:
                await asyncio.sleep(0.1)
            else:
                break
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.paused
    faults.before = faults.after = lambda _: None
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pods are gone")


async def test_a_watch_that_died_without_a_word_is_noticed(bench: KubeBench, faults: FaultyApi) -> None:
    await bench.up(bench.job())
    faults.mute = True
    bench.end_pod(3)
    await eventually(lambda: faults.withheld, "the end is on its way and does not arrive")
    faults.mute = False
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.code == 3


async def test_what_happened_before_a_watch_became_too_old_is_seen(bench: KubeBench, faults: FaultyApi) -> None:
    for job, slot in (("ends", 0), ("vanishes", 1), ("stays", 2)):
        await bench.up(bench.job(job, slot=slot))
    faults.mute = True
    bench.end_pod(0, "ends")
    leave_exit(bench, AttemptKey("vanishes", 1), code=75, paused=True)
    bench.cluster.request("DELETE", bench.path("st-vanishes-1-0"))
    await eventually(lambda: len(bench.pods()) == 2, "the pod has vanished")
    faults.expire()
    faults.mute = False
    ended = (await bench.gone(AttemptKey("ends", 1))).exit
    vanished = (await bench.gone(AttemptKey("vanishes", 1))).exit
    assert ended is not None
    assert ended.code == 0
    assert vanished is not None
    assert (vanished.kind, vanished.code) == (ExitKind.EVICTED, 75)
    stays = await bench.status(AttemptKey("stays", 1))
    assert stays is not None
    assert stays.phase is AttemptPhase.RUNNING


@pytest.mark.parametrize("timeout", [2.0])
async def test_while_the_api_is_frozen_acts_wait_and_then_happen_once(bench: KubeBench, faults: FaultyApi) -> None:
    def tries() -> int:
        return faults.requests.count(("POST", f"/api/v1/namespaces/{bench.namespace}/services"))

    await bench.up(bench.job("before", slot=7))
    with bench.cluster.frozen():
        launch = asyncio.create_task(bench.executor.launch(bench.job(size=2)))
        await eventually(lambda: tries() >= 2, "the first try had no answer in time, and there is a second")
        assert not launch.done()
    await launch
    await bench.phase(KEY, AttemptPhase.RUNNING)
    assert len(bench.pods()) == 3
    assert [each.phase for each in await bench.executor.attempts()] == [AttemptPhase.RUNNING] * 2


async def test_a_server_that_dies_and_comes_back_changes_nothing(bench: KubeBench) -> None:
    running = await bench.up(bench.job("before", slot=7))
    bench.cluster.stop_api()
    launch = asyncio.create_task(bench.executor.launch(bench.job(size=2)))
    await eventually(lambda: bench.executor._stalls.waiting, "the launch waits")
    with pytest.raises(ExecutorError, match="cannot be asked"):
        await bench.executor.pause(AttemptKey("before", 1))
    await asyncio.to_thread(bench.cluster.start_api)
    await launch
    await bench.phase(KEY, AttemptPhase.RUNNING)
    assert len(bench.pods()) == 3
    await bench.executor.pause(AttemptKey("before", 1))
    ended = await bench.gone(AttemptKey("before", 1))
    assert ended.started == running.started


async def test_an_outage_is_told_once_and_its_end_too_however_many_pods_wait(
    bench: KubeBench, faults: FaultyApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == api_stalls.__name__]

    def tries() -> int:
        return sum(method == "POST" and path.endswith("/pods") for method, path in faults.requests)

    caplog.set_level(logging.INFO, api_stalls.__name__)
    monkeypatch.setattr(api_stalls, "REPORT_AFTER", 3600.0)
    faults.before = lambda _: 503
    jobs = [bench.job(f"job{slot}", slot=slot) for slot in range(3)]
    launches = asyncio.gather(*(bench.executor.launch(job) for job in jobs))
    await eventually(lambda: bench.executor._stalls.waiting == 3, "all of them wait")
    assert told() == []
    monkeypatch.setattr(api_stalls, "REPORT_AFTER", 0.0)
    before = tries()
    await eventually(lambda: tries() >= before + 9, "they are tried again and again")
    (begun,) = told()
    assert "does not take 3 requests yet" in begun
    faults.before = lambda _: None
    await launches
    (_, over) = told()
    assert "3 did" in over
    for job in jobs:
        await bench.phase(job.key, AttemptPhase.RUNNING)


async def test_a_service_that_died_within_a_gang_completes_it(bench: KubeBench, faults: FaultyApi) -> None:
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
    faults.before = lambda _: None
    bench.executor = bench.make()
    await bench.open()
    (known,) = await bench.executor.attempts()
    assert known.phase is AttemptPhase.STARTING
    await bench.phase(KEY, AttemptPhase.RUNNING)
    assert len(bench.pods()) == 5
    assert [each.phase for each in bench.of_kind(AttemptStatus) if each.key == KEY][-1] is AttemptPhase.RUNNING


async def test_a_pod_of_a_refused_gang_ends_before_its_gpus_are_given_back_though_no_watch_tells_of_it(
    bench: KubeBench, faults: FaultyApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "VANISHED_PATIENCE", -KILL_MARGIN)  # the grace period alone
    faults.mute = True

    def refuse_second(request: web.Request) -> int | None:
        return 403 if request.method == "POST" and faults.requests.count((request.method, pods_path)) > 1 else None

    pods_path = bench.path()
    faults.before = refuse_second
    await bench.executor.launch(bench.job(size=2, grace=3.0))
    refused = ("POST", pods_path)
    await eventually(lambda: faults.requests.count(refused) > 1 and not bench.pods(), "its pod has ended")
    status = await bench.status(KEY)
    assert status is not None
    assert status.phase is AttemptPhase.STARTING
    faults.mute = False
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED


async def test_a_pod_is_known_though_its_creation_was_not_answered_and_it_is_not_wanted_any_more(
    bench: KubeBench, faults: FaultyApi
) -> None:
    faults.mute = True
    faults.after = lambda request: 500 if request.method == "POST" else None
    known: list[tuple[int, str]] = []
    await bench.executor._pods.create_pods(
        bench.executor._make_record(bench.job()),
        [0],
        wanted=lambda: not any(method == "POST" for method, _ in faults.requests),
        created=lambda rank, pod: known.append((rank, pod.metadata.name)),
    )
    assert known == [(0, "st-job-1-0")]


async def test_a_pod_that_appears_after_the_end_of_its_attempt_is_ended(bench: KubeBench) -> None:
    await bench.up(bench.job("other"))
    await bench.run(bench.job(placement=(Worker(0, "nowhere", (0,)),)))
    late = bench.pod("other")
    meta = {name: late["metadata"][name] for name in ("labels", "annotations")}
    labels = {name: "job" if value == "other" else value for name, value in meta["labels"].items()}
    late = {"metadata": {**meta, "name": "st-job-1-0", "labels": labels}, "spec": late["spec"]}
    with bench.cluster.pause_kwok():
        bench.cluster.request("POST", bench.path(), late)
        await eventually(lambda: "deletionTimestamp" in bench.pod()["metadata"], "its node is asked to end it")
        await bench.executor.discard(KEY)
        assert "st-job-1-0" in [pod["metadata"]["name"] for pod in bench.pods()]
    await eventually(lambda: [pod["metadata"]["name"] for pod in bench.pods()] == ["st-other-1-0"], "it is gone")


async def test_a_pod_that_is_gone_is_not_deleted_again(bench: KubeBench, faults: FaultyApi) -> None:
    await bench.up(bench.job())
    await bench.executor.pause(KEY)
    await bench.gone(KEY)
    await eventually(lambda: not bench.executor._monitor._informer.items, "the watch has told that it is gone")
    await bench.executor.discard(KEY)
    assert [path for method, path in faults.requests if method == "DELETE"] == [bench.path("st-job-1-0")]


async def lists_again(bench: KubeBench, faults: FaultyApi) -> None:
    """Have the executor list pods whose changes no watch has told of; then what follows is told."""
    before = len(faults.requests)

    def too_old(request: web.Request) -> int | None:
        lists = [path for _, path in faults.requests[before:] if path.startswith(f"{bench.path()}?")]
        listed = any("watch" not in path for path in lists)
        return 410 if request.path == bench.path() and "watch" in request.query and not listed else None

    faults.before = too_old
    faults.expire()
    faults.mute = False


async def test_the_end_of_a_pod_is_found_that_came_and_went_before_any_watch_told_of_it(
    bench: KubeBench, faults: FaultyApi
) -> None:
    faults.mute = True
    await bench.executor.launch(bench.job())
    leave_exit(bench, KEY, code=0)
    bench.cluster.request("DELETE", bench.path("st-job-1-0"))
    await eventually(lambda: not bench.pods(), "the pod is gone")
    await lists_again(bench, faults)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EXITED, 0)
    await bench.executor.discard(KEY)


@pytest.mark.parametrize("ran", [True, False])
async def test_a_pod_that_had_no_node_when_it_was_last_seen_may_have_run_since(
    bench: KubeBench, faults: FaultyApi, ran: bool
) -> None:
    node = f"/api/v1/nodes/{bench.train_node}"
    bench.cluster.request("PATCH", node, {"spec": {"unschedulable": True}})
    await bench.executor.launch(bench.job())
    shown = bench.executor._monitor._informer.items
    await eventually(lambda: (bench.namespace, "st-job-1-0") in shown, "the pod is seen")
    faults.mute = True
    if ran:
        bench.cluster.request("PATCH", node, {"spec": {"unschedulable": False}})
        await eventually(lambda: bench.pod()["status"].get("phase") == "Running", "the pod runs")
        leave_exit(bench, KEY, code=0)
    bench.cluster.request("DELETE", bench.path("st-job-1-0"))
    await eventually(lambda: not bench.pods(), "the pod is gone")
    await lists_again(bench, faults)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is (ExitKind.EXITED if ran else ExitKind.EVICTED)
    await bench.executor.discard(KEY)


async def test_what_is_told_late_of_a_released_pod_brings_no_attempt_back(
    bench: KubeBench, faults: FaultyApi
) -> None:
    await bench.up(bench.job())
    bench.end_pod(0)
    await bench.gone(KEY)
    faults.mute = True
    bench.note(stop_code="0")
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pod is gone")
    told = len([each for each in bench.of_kind(AttemptStatus) if each.key == KEY])
    faults.mute = False
    await bench.up(bench.job("other", slot=1))
    assert [each.key.job for each in await bench.executor.attempts()] == ["other"]
    assert len([each for each in bench.of_kind(AttemptStatus) if each.key == KEY]) == told


async def test_nothing_new_is_planned_on_what_is_stale(bench: KubeBench, faults: FaultyApi) -> None:
    assert [node.available for node in await bench.executor.inventory()] == [True]
    faults.before = lambda _: 503
    watch = bench.executor._monitor
    async with asyncio.timeout(PATIENCE_S):
        while (await bench.executor.inventory())[0].available:
            watch._informer._last_contact -= 100  # again, should an open watch have told something meanwhile
    faults.before = lambda _: None
    async with asyncio.timeout(PATIENCE_S):
        while not (await bench.executor.inventory())[0].available:
            await asyncio.sleep(0.1)
