"""Pods of jobs that a webhook of the cluster has changed on their way."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benches.kube_bench import KubeBench, eventually
from clusters.webhooks import admission

from springtide.scheduler.executors.base import AttemptKey, ExitKind
from springtide.scheduler.executors.kubernetes import monitor
from springtide.scheduler.executors.kubernetes.objects.manifests import KILL_MARGIN

KEY = AttemptKey("job", 1)
LABELS = "/metadata/labels/springtide.io~1job"
GPUS = "/spec/containers/0/resources"
MESH = {"name": "a-mesh", "image": "mesh:1"}

STAYS = {"op": "add", "path": "/metadata/annotations/springtide.io~1fake-stop-after", "value": "1s"}
"""Has a pod stay for some scans after its deletion."""

Changing = Callable[..., AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "SCAN_INTERVAL", 0.2)
    monkeypatch.setattr(monitor, "VANISHED_PATIENCE", -KILL_MARGIN)  # the grace period alone


@pytest.fixture
def changing(bench: KubeBench, tmp_path: Path) -> Changing:
    """Have a webhook change the pods of the namespace in this block."""

    @contextmanager
    def change(*operations: Mapping[str, Any]) -> Iterator[None]:
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        answer = {"patchType": "JSONPatch", "patch": patch}
        with admission(bench.cluster, bench.namespace, tmp_path, lambda *_: answer, kinds={"mutating": "Fail"}):
            yield

    return change


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        ({"op": "remove", "path": LABELS}, "the label springtide.io/job"),
        ({"op": "replace", "path": LABELS, "value": "another"}, "the label springtide.io/job"),
        ({"op": "remove", "path": GPUS}, "the number of GPUs"),
    ],
)
async def test_a_job_whose_pod_loses_what_it_is_known_by_or_its_gpus_waits_with_a_sentence_and_leaves_no_pod(
    bench: KubeBench, changing: Changing, operation: Mapping[str, Any], changed: str
) -> None:
    said = (
        f"The cluster changed {changed} of the job's pod: a webhook or policy of the namespace {bench.namespace}"
    )
    with changing(operation, STAYS):
        beforehand = await bench.executor.check(bench.job("other"))
        ended = (await bench.run(bench.job(grace=1.0))).exit
    for found in (beforehand, ended):
        assert found is not None
        assert found.kind is ExitKind.BLOCKED
        assert found.detail.startswith(said)
    await eventually(lambda: not bench.pods(), "no pod is left")


async def test_a_job_whose_pod_the_cluster_puts_on_another_node_is_ended_there(
    bench: KubeBench, changing: Changing
) -> None:
    (other,) = bench.cluster.add_fake_nodes(1, prefix=f"elsewhere-{bench.namespace}")
    bench.cluster.request("PATCH", f"/api/v1/nodes/{bench.train_node}", {"spec": {"unschedulable": True}})
    with changing({"op": "replace", "path": "/spec/affinity", "value": {"nodeAffinity": to_host(other)}}):
        ended = (await bench.run(bench.job())).exit
    assert ended is not None
    assert ended.kind is ExitKind.BLOCKED
    assert ended.detail.startswith(
        f"The cluster put the job's pod on the node {other} instead of {bench.train_node}:"
    )
    await eventually(lambda: not bench.pods(), "no pod is left")
    bench.cluster.remove_nodes([other])


def to_host(name: str) -> dict[str, Any]:
    is_it = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [is_it]}]}
    }


async def test_a_job_ends_with_its_own_container_though_one_that_a_webhook_has_added_runs_on(
    bench: KubeBench, changing: Changing
) -> None:
    with changing({"op": "add", "path": "/spec/containers/0", "value": MESH}):
        await bench.up(bench.job(gpus=2))
    pod = bench.pod()
    assert [each["name"] for each in pod["spec"]["containers"]] == ["a-mesh", "job"]
    statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    over = {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": now, "finishedAt": now}}
    patched = [statuses["a-mesh"], {**statuses["job"], "ready": False, "state": over}]
    bench.cluster.request(
        "PATCH", f"{bench.path('st-job-1-0')}/status", {"status": {"containerStatuses": patched}}
    )
    ended = (await bench.gone(KEY)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EXITED, 3)
    await bench.executor.discard(KEY)
    await eventually(lambda: not bench.pods(), "the pod is gone with what runs on in it")
