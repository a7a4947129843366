"""Attempts as pods of a cluster, from launch to discard."""

from __future__ import annotations

import asyncio

import pytest
from benches.kube_bench import IMAGE, KubeBench, eventually

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, ExecutorError, ExitKind
from springtide.scheduler.executors.kubernetes.start_failures import START_PATIENCE, start_failure
from springtide.scheduler.model import Worker

KEY = AttemptKey("job", 1)


async def test_a_job_runs_as_a_pod_on_its_planned_node(bench: KubeBench) -> None:
    running = await bench.up(bench.job(gpus=2))
    pod = bench.pod()
    assert pod["spec"]["nodeName"] == f"train-{bench.namespace}-0"
    assert pod["spec"]["containers"][0]["image"] == IMAGE
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert pod["metadata"]["labels"]["springtide.io/job"] == "job"
    assert (running.placement, running.started is not None) == (bench.job(gpus=2).placement, True)
    told = [each.phase for each in bench.of_kind(AttemptStatus)]
    assert told == [AttemptPhase.STARTING, AttemptPhase.RUNNING]
    assert await bench.executor.attempts() == (running,)


async def test_a_job_without_gpus_runs_on_a_node_of_the_clusters_choice_and_takes_no_gpu(bench: KubeBench) -> None:
    spec = bench.job(placement=(Worker(0, "", ()),))
    running = await bench.up(spec)
    pod = bench.pod()
    assert pod["spec"]["nodeName"] in bench.cluster.nodes_of(bench.namespace)
    assert pod["spec"]["containers"][0]["resources"] == {}
    assert running.placement == spec.placement
    assert all(not node.taken for node in await bench.executor.inventory())
    await bench.restart()
    assert await bench.executor.attempts() == (running,)
    bench.end_pod(0)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.code == 0


async def test_a_launch_that_is_repeated_makes_one_pod(bench: KubeBench) -> None:
    spec = bench.job()
    await asyncio.gather(*(bench.executor.launch(spec) for _ in range(5)))
    await bench.restart()
    await bench.executor.launch(spec)
    await bench.phase(KEY, AttemptPhase.RUNNING)
    assert len(bench.pods()) == 1


async def test_a_pause_frees_the_gpus_only_when_the_pod_has_ended(bench: KubeBench) -> None:
    await bench.up(bench.job())
    bench.note(stop_code="75")
    with bench.cluster.pause_kwok():
        await bench.executor.pause(KEY)
        pod = bench.pod()
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 25
        assert [each.phase for each in await bench.executor.attempts()] == [AttemptPhase.RUNNING]
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.code, ended.paused, ended.killed) == (75, True, False)


async def test_only_a_kill_now_leaves_less_time_than_the_pause_before_it(bench: KubeBench) -> None:
    await bench.up(bench.job(grace=600.0))
    bench.note(stop_code="137")
    with bench.cluster.pause_kwok():
        await bench.executor.pause(KEY)
        assert bench.pod()["metadata"]["deletionGracePeriodSeconds"] == 605
        await bench.executor.kill(KEY)
        assert bench.pod()["metadata"]["deletionGracePeriodSeconds"] == 605
        await bench.executor.kill(KEY, now=True)
        assert bench.pod()["metadata"]["deletionGracePeriodSeconds"] == 10
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.signal, ended.killed) == (9, True)


async def test_a_pod_that_ends_by_itself_stays_until_its_end_is_on_record(bench: KubeBench) -> None:
    await bench.up(bench.job())
    bench.end_pod(3)
    ended = (await bench.gone(KEY)).exit
    await bench.restart()
    assert [status.exit for status in await bench.executor.attempts()] == [ended]
    await bench.executor.discard(KEY)
    await bench.executor.discard(KEY)
    assert await bench.executor.attempts() == ()
    await eventually(lambda: not bench.pods(), "the pod is gone")
    await bench.restart()
    assert await bench.executor.attempts() == ()
    await bench.executor.launch(bench.job())
    assert [status.exit for status in await bench.executor.attempts()] == [ended]
    assert not bench.pods()


async def test_pods_that_have_not_started_keep_the_rest_of_their_time_when_the_service_restarts(
    bench: KubeBench,
) -> None:
    launched = asyncio.get_running_loop().time()
    with bench.cluster.pause_kwok():
        await bench.executor.launch(bench.job())
        await eventually(lambda: bench.pod()["spec"].get("nodeName"), "the pod is bound")
        await bench.restart()
        attempt = bench.executor._monitor.attempts[KEY]
        assert start_failure(attempt, launched + START_PATIENCE - 60.0) is None
        verdict = start_failure(attempt, asyncio.get_running_loop().time() + START_PATIENCE)
    assert verdict is not None
    assert verdict.detail == "Its pods did not start within 30 minutes."


async def test_an_end_while_the_service_is_away_is_told_afterwards(bench: KubeBench) -> None:
    await bench.up(bench.job())
    await bench.executor.stop()
    bench.end_pod(3)
    bench.executor = bench.make()
    await bench.open()
    (status,) = await bench.executor.attempts()
    assert status.exit is not None
    assert (status.phase, status.exit.code) == (AttemptPhase.GONE, 3)
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pod is gone")


async def test_a_gang_is_made_whole_with_a_place_to_meet(bench: KubeBench) -> None:
    await bench.up(bench.job(size=4, gpus=2))
    pods = bench.pods()
    assert [pod["spec"]["hostname"] for pod in pods] == ["w0", "w1", "w2", "w3"]
    assert {pod["spec"]["subdomain"] for pod in pods} == {"st-job-1"}
    service = bench.cluster.request("GET", bench.path("st-job-1", "services"))
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]


async def test_when_one_of_a_gang_fails_the_others_are_ended(bench: KubeBench) -> None:
    await bench.up(bench.job(size=3))
    bench.end_pod(7, rank=1)
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.code, ended.signal, ended.paused, ended.killed) == (7, None, False, False)
    assert {pod["status"]["phase"] for pod in bench.pods()} == {"Failed"}
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pods are gone")
    await eventually(lambda: not bench.cluster.exists(bench.path("st-job-1", "services")), "the service is gone")


async def test_a_failed_gang_is_told_as_failed_by_a_service_that_comes_back(bench: KubeBench) -> None:
    await bench.up(bench.job(size=3))
    bench.note(rank=0, stop_after="2s")
    bench.end_pod(7, rank=1)
    await eventually(lambda: bench.pod(rank=0)["metadata"].get("deletionTimestamp"), "the rest is asked to end")
    await bench.restart()
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.code, ended.killed) == (ExitKind.EXITED, 7, False)


async def test_a_job_without_an_end_cannot_be_discarded_or_removed(bench: KubeBench) -> None:
    await bench.up(bench.job())
    with pytest.raises(ExecutorError, match="not ended"):
        await bench.executor.discard(KEY)
    with pytest.raises(ExecutorError, match="not ended"):
        await bench.executor.remove("job")
    await bench.executor.kill(KEY)
    await bench.gone(KEY)
    await bench.executor.remove("job")
    assert await bench.executor.attempts() == ()
    assert not (bench.state / "jobs" / "job").exists()
    await eventually(lambda: not bench.pods(), "the pod is gone")
