"""What the cluster refuses: the job waits for what is not in it, and fails for what is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benches.kube_bench import KubeBench, eventually
from clusters.cluster import Cluster
from patience import PATIENCE_S

from springtide.scheduler.engine import Engine, EngineSettings, Retries, open_engine
from springtide.scheduler.engine.loop import launch_stops
from springtide.scheduler.executors.base import AttemptKey, Exit, ExitKind
from springtide.scheduler.executors.kubernetes import monitor, pods, start_failures
from springtide.scheduler.executors.kubernetes.ends import end_of
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.start_failures import verdict_of
from springtide.scheduler.kube import ApiError
from springtide.scheduler.model import Block, BlockScope, Settings
from springtide.scheduler.store import Store
from springtide.scheduler.wire import Job, Submission

KEY = AttemptKey("job", 1)
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(start_failures, "IMAGE_PATIENCE", 0.5)
    monkeypatch.setattr(start_failures, "CONTAINER_PATIENCE", 0.5)
    monkeypatch.setattr(pods, "PATIENCE", 1.0)
    monkeypatch.setattr(launch_stops, "FIRST_DELAY", 0.5)
    monkeypatch.setattr(launch_stops, "LONGEST_DELAY", 0.5)


# ---------- what the API refuses


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, "maximum memory usage per Container is 1Gi", ExitKind.BLOCKED),
        (422, "spec.priorityClassName: Invalid value", ExitKind.BLOCKED),
        (422, 'spec.containers[0].image: Invalid value: "a b"', ExitKind.REFUSED),
        (413, "Request entity too large: limit is 3145728", ExitKind.REFUSED),
        (404, 'namespaces "train" not found', ExitKind.BLOCKED),
        (400, "the server rejected our request for an unknown reason", ExitKind.BLOCKED),
        (500, 'Internal error occurred: failed calling webhook "a.b": connection refused', ExitKind.BLOCKED),
    ],
)
def test_only_an_object_that_no_cluster_takes_is_the_fault_of_its_job(
    status: int, message: str, kind: ExitKind
) -> None:
    verdict = verdict_of(ApiError(status, "Forbidden", message))
    assert verdict.kind is kind
    assert verdict.detail == f"The cluster refused the job's pod: {message}"
    assert (verdict.block is not None) == (kind is ExitKind.BLOCKED)


@pytest.mark.parametrize(
    ("named", "cause"),
    [
        ('pods "st-a-1-0" is forbidden: ', "exceeded quota: small, requested: pods=1, limited: pods=1"),
        ('services "st-a" is forbidden: ', "exceeded quota: small, requested: services=1, limited: services=1"),
        ('Pod "st-a-1-0" is invalid: ', 'spec.containers[0].image: Invalid value: "a b"'),
        ('pods "st-a-1-0" is forbidden: ', 'violates PodSecurity "restricted:latest": runAsNonRoot != true'),
    ],
)
def test_a_refusal_names_no_object_of_the_job_that_it_hit(named: str, cause: str) -> None:
    verdict = verdict_of(ApiError(403, "Forbidden", f"{named}{cause}"))
    assert verdict.detail == f"The cluster refused the job's pod: {cause}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            'pods "st-a-1-0" is forbidden: maximum memory usage per Container is 1Gi, but limit is 8Gi',
            'pods "st-b-1-0" is forbidden: maximum memory usage per Container is 1Gi, but limit is 16.5Gi',
            True,
        ),
        (
            'pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1',
            'pods "b" is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=1, limited: cpu=1',
            True,
        ),
        ('pods "a" is forbidden: exceeded quota: one, r', 'pods "a" is forbidden: exceeded quota: two, r', False),
        (
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'costs' with binding 'b' denied: susan owes",
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'costs' with binding 'b' denied: joe owes",
            True,
        ),
        (
            'admission webhook "a.b" denied the request: no',
            'admission webhook "c.d" denied the request: no',
            False,
        ),
    ],
)
def test_the_same_refusal_is_known_again_whatever_job_it_hits(one: str, other: str, same: bool) -> None:
    first, second = (verdict_of(ApiError(403, "Forbidden", each)).block for each in (one, other))
    assert (first == second) is same


def limit_range(bench: KubeBench) -> str:
    limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
    body = {"metadata": {"name": "small"}, "spec": {"limits": limits}}
    bench.cluster.request("POST", bench.path(kind="limitranges"), body)
    return bench.path("small", "limitranges")


async def blocked(bench: KubeBench, **job: Any) -> Exit:
    ended = (await bench.run(bench.job(**job))).exit
    assert ended is not None
    assert (ended.kind, bench.pods()) == (ExitKind.BLOCKED, [])
    return ended


async def test_a_limit_range_blocks_what_is_larger(bench: KubeBench) -> None:
    limit_range(bench)
    ended = await blocked(bench, memory=2 << 30)
    assert "maximum memory usage per Container is 1Gi" in ended.detail
    again = await blocked(bench, job="other", memory=3 << 30)
    assert again.block == ended.block
    assert ended.block is not None
    assert (ended.block.scope, ended.block.checkable) == (BlockScope.POOL, True)
    await bench.up(bench.job("small", memory=1 << 29, slot=2))


@contextmanager
def policy(bench: KubeBench, expression: str) -> Iterator[None]:
    """Have the cluster refuse pods of the namespace for which the expression is false."""
    name = f"costs-{bench.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "pods need a cost centre"}],
    }
    within = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bench.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": within}
    bench.cluster.request("POST", POLICIES, {"metadata": {"name": name}, "spec": spec})
    bench.cluster.request("POST", BINDINGS, {"metadata": {"name": name}, "spec": binding})
    try:
        yield
    finally:
        bench.cluster.request("DELETE", f"{BINDINGS}/{name}")
        bench.cluster.request("DELETE", f"{POLICIES}/{name}")


async def test_an_admission_policy_blocks_in_its_own_words(bench: KubeBench) -> None:
    with policy(bench, "'cost-centre' in object.metadata.labels"):
        await eventually(lambda: _refuses(bench), "the policy holds")
        ended = await blocked(bench)
    assert "pods need a cost centre" in ended.detail


async def test_a_webhook_that_is_away_blocks_after_a_time(bench: KubeBench) -> None:
    name = f"away-{bench.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "away.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bench.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    bench.cluster.request("POST", WEBHOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        await eventually(lambda: _refuses(bench), "the webhook is asked")
        told = await bench.executor.check(bench.job())
        ended = await blocked(bench)
    finally:
        bench.cluster.request("DELETE", f"{WEBHOOKS}/{name}")
    assert told is not None
    assert told.block == ended.block
    assert "failed calling webhook" in ended.detail
    assert ended.block is not None
    assert ended.block.name == 'failed calling webhook "away.example.com"'


async def test_the_executor_tells_beforehand_what_would_be_refused_and_creates_nothing(bench: KubeBench) -> None:
    large = bench.job("large", memory=2 << 30)
    assert await bench.executor.check(large) is None
    path = limit_range(bench)
    told = await bench.executor.check(large)
    assert told is not None
    assert (told.kind, "maximum memory usage per Container is 1Gi" in told.detail) == (ExitKind.BLOCKED, True)
    ended = await blocked(bench, job="large", memory=2 << 30)
    assert (told.detail, told.block) == (ended.detail, ended.block)
    assert await bench.executor.check(bench.job("small", memory=1 << 29)) is None
    bench.cluster.request("DELETE", path)
    await eventually(lambda: not bench.cluster.exists(path), "the range is gone")
    assert bench.pods() == []


async def test_a_job_is_known_to_start_where_its_pod_exists_already(bench: KubeBench) -> None:
    await bench.up(bench.job())
    assert await bench.executor.check(bench.job()) is None


async def test_a_limit_range_that_stands_for_a_while_fails_none_of_the_jobs_that_start_again(
    bench: KubeBench, tmp_path: Path
) -> None:
    await bench.executor.stop()
    bench.executor = bench.make()
    state = tmp_path / "store"
    state.mkdir()
    store = Store.open(f"sqlite:///{state}/springtide.sqlite", state)
    settings = EngineSettings(policy=Settings(grace=2.0), retries=Retries(first=0.2, longest=1.0))
    engine = await open_engine(store, bench.executor, settings, projects={"vision": {"quota": 8}})
    try:
        jobs = [
            (await engine.submit(Submission(argv=["train"], memory=2 << 30), "susan", "vision")).id
            for _ in range(5)
        ]
        await _until(engine, jobs, lambda job: job.state == "running")
        path = limit_range(bench)
        for job in jobs:
            await engine.pause(job, "susan")
        await _until(engine, jobs, lambda job: job.state == "paused")
        for job in jobs:
            await engine.resume(job, "susan")
        await _until(engine, jobs, lambda job: "could not be started" in job.reason.text)
        await eventually(lambda: engine.pool().launch_stops, "launching has stopped")
        (stop,) = engine.pool().launch_stops
        assert (stop.kept >= 3, "maximum memory usage per Container is 1Gi" in stop.detail) == (True, True)
        small = await engine.submit(Submission(argv=["train"], memory=1 << 28), "susan", "vision")
        await _until(engine, [small.id], lambda job: job.state == "running")
        bench.cluster.request("DELETE", path)
        await _until(engine, jobs, lambda job: job.state == "running")
        assert engine.pool().launch_stops == []
        for job in jobs:
            found = await engine.job(job)
            assert (found.failures, [each.state for each in found.attempts[-1:]]) == (0, ["running"])
        tries = [len((await engine.job(job)).attempts) for job in jobs]
        assert max(tries) <= 4, "a start, at most two refusals before launching stopped, and a start"
    finally:
        await engine.stop()
        store.close()


async def _until(engine: Engine, jobs: Sequence[str], holds: Callable[[Job], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not all([holds(await engine.job(job)) for job in jobs]):
            await asyncio.sleep(0.05)


def _refuses(bench: KubeBench) -> bool:
    body = {"metadata": {"generateName": "probe-"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    try:
        bench.cluster.request("POST", bench.path(), body, dryRun="All")
    except Exception:  # noqa: BLE001 - whatever the refusal looks like
        return True
    return False


# ---------- what the kubelet refuses


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: code = Unavailable', ExitKind.BLOCKED),
        ("ErrImagePull", "rpc error: code = NotFound desc = failed to resolve reference", ExitKind.REFUSED),
        ("ErrImagePull", "rpc error: code = Unknown desc = 401 Unauthorized", ExitKind.BLOCKED),
        ("InvalidImageName", "couldn't parse image name", ExitKind.REFUSED),
        ("CreateContainerConfigError", 'secret "tokens" not found', ExitKind.BLOCKED),
    ],
)
async def test_only_an_image_that_there_is_not_is_the_fault_of_its_job(
    bench: KubeBench, reason: str, message: str, kind: ExitKind
) -> None:
    waiting = {"name": "job", "state": {"waiting": {"reason": reason, "message": message}}}
    status = {"phase": "Pending", "containerStatuses": [{**CONTAINER, **waiting}]}
    with bench.cluster.pause_kwok():
        await bench.executor.launch(bench.job())
        await eventually(lambda: bench.pod()["spec"].get("nodeName"), "the pod is bound")
        bench.cluster.request("PATCH", f"{bench.path('st-job-1-0')}/status", {"status": status})
        await eventually(lambda: bench.pod()["metadata"].get("deletionTimestamp"), "it is given up")
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is kind
    assert message in ended.detail
    if "pulling" in message:
        assert ended.block == Block(BlockScope.IMAGE, "registry.test/train:1")


CONTAINER = {"image": "x", "imageID": "", "ready": False, "restartCount": 0}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ('Usage of EmptyDir volume "shared-memory" exceeds the limit "1Gi". ', ExitKind.OVER_DISK),
        ('Container job exceeded its local ephemeral storage limit "1Gi". ', ExitKind.OVER_DISK),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", ExitKind.OVER_DISK),
        (
            "The node was low on resource: ephemeral-storage. Container job was using 4Gi, request is 0. ",
            ExitKind.EVICTED,
        ),
    ],
)
@pytest.mark.parametrize("state", ["terminated", "running"])
def test_a_pod_that_its_kubelet_evicts_for_its_own_disk_use_is_over_its_disk(
    message: str, kind: ExitKind, state: str
) -> None:
    states = {
        "terminated": {"exitCode": 137, "reason": "Error", "finishedAt": "2026-01-01T00:00:10Z"},
        "running": {"startedAt": "2026-01-01T00:00:00Z"},
    }
    containers = [{"name": "job", "state": {state: states[state]}}]
    status = {"phase": "Failed", "reason": "Evicted", "message": message, "containerStatuses": containers}
    pod = {
        "metadata": {"name": "st-job-1-0", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n", "containers": []},
        "status": {**status, "startTime": "2026-01-01T00:00:00Z"},
    }
    end = end_of(msgspec.convert(pod, Pod))
    assert end is not None
    assert end.kind is kind
    assert message.strip().rstrip(".") in end.detail


async def test_a_job_over_its_own_disk_ends_with_the_words_of_the_kubelet(bench: KubeBench) -> None:
    await bench.up(bench.job(size=2))
    said = 'Container job exceeded its local ephemeral storage limit "1Gi". '
    status = {"phase": "Failed", "reason": "Evicted", "message": said}
    with bench.cluster.pause_kwok():
        bench.cluster.request("PATCH", f"{bench.path('st-job-1-1')}/status", {"status": status})
        await eventually(lambda: bench.pod()["metadata"].get("deletionTimestamp"), "the other worker is ended")
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert ended.kind is ExitKind.OVER_DISK
    assert "exceeded its local ephemeral storage limit" in ended.detail


# ---------- one incident


@pytest.fixture
async def direct(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[KubeBench]:
    bench = KubeBench(cluster, namespace, tmp_path / "state", bind_directly=True)
    bench.add_nodes(1)
    await bench.open()
    yield bench
    await bench.shut()


async def test_four_pods_that_a_node_refuses_at_once_count_as_one_refusal(
    direct: KubeBench, caplog: pytest.LogCaptureFixture
) -> None:
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
    with direct.cluster.pause_kwok():
        for slot in range(4):
            await direct.executor.launch(direct.job(f"job{slot}", slot=slot))
        await eventually(lambda: len(direct.pods()) == 4, "there are pods")
        for slot in range(4):
            direct.cluster.request("PATCH", f"{direct.path(f'st-job{slot}-1-0')}/status", {"status": refused})
        for slot in range(4):
            await direct.gone(AttemptKey(f"job{slot}", 1))
    said = [record.getMessage() for record in caplog.records if "did not take a pod" in record.getMessage()]
    assert [each.rsplit("for ")[-1] for each in said] == ["30 s."]
