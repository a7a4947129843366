"""Jobs in pods on a real node, shaped by the admin: variables, files, init containers, sidecars and secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from benches.kube_bench import KubeBench, restricted_bench
from clusters.cluster import Cluster
from clusters.node_images import image
from clusters.real_node import RealNode
from patience import PATIENCE_S

from springtide.hub_extension.cluster.settings import cluster_settings
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.base import ExitKind

VALUE = "s3cret-value-1234"
Shaped: TypeAlias = Callable[[dict[str, Any]], AbstractAsyncContextManager[KubeBench]]
LOOKS = """
import os, pathlib, time, urllib.request
print(os.environ["PLAIN"], os.environ["NODE"], os.environ["FROM_MAP"], len(os.environ["TOKEN"]))
print(pathlib.Path("/prepared/news").read_text())
print(urllib.request.urlopen("http://127.0.0.1:8123", timeout=120).read().decode())
print(os.environ.get("NVIDIA_VISIBLE_DEVICES"), pathlib.Path("/etc/own/ca").read_text())
"""
PREPARES = "import os; open('/prepared/news', 'w').write('prepared ' + os.environ['NVIDIA_VISIBLE_DEVICES'])"
SERVES = """
import http.server, signal, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the sidecar")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.HTTPServer(("127.0.0.1", 8123), Answer).serve_forever()
"""
ASKS = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8123', timeout=5)"


@pytest.fixture
def shaped(cluster: Cluster, namespace: str, real_node: RealNode, tmp_path: Path) -> Shaped:
    @asynccontextmanager
    async def opened(template: dict[str, Any]) -> AsyncIterator[KubeBench]:
        given = {"namespace": namespace, "jobs_claim": "jobs", "pod_template": template}
        parsed = cluster_settings(given, state_dir=tmp_path, images=("a",)).pod_template
        async with restricted_bench(
            cluster, namespace, tmp_path / "state", real_node, pod_template=parsed
        ) as bench:
            yield bench

    return opened


def make(cluster: Cluster, namespace: str, kind: str, name: str, data: dict[str, str]) -> None:
    key = "stringData" if kind == "secrets" else "data"
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/{kind}", {"metadata": {"name": name}, key: data})


async def test_a_job_finds_all_that_the_admin_adds_and_the_sidecar_ends_with_it(
    shaped: Shaped, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    make(cluster, namespace, "secrets", "tokens", {"token": VALUE})
    make(cluster, namespace, "configmaps", "map", {"FROM_MAP": "mapped", "ca": "certificate"})
    python = {"image": image("notebook"), "imagePullPolicy": "Never"}
    template = {
        "labels": {"example.com/cost-centre": "42"},
        "env": [
            {"name": "PLAIN", "value": "plain"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "token"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "map"}}],
        "volumes": [{"name": "prepared", "emptyDir": {}}, {"name": "own", "configMap": {"name": "map"}}],
        "volumeMounts": [
            {"name": "prepared", "mountPath": "/prepared"},
            {"name": "own", "mountPath": "/etc/own", "readOnly": True},
        ],
        "initContainers": [
            {
                **python,
                "name": "prepare",
                "command": ["python3", "-c", PREPARES],
                "volumeMounts": [{"name": "prepared", "mountPath": "/prepared"}],
            },
            {
                **python,
                "name": "proxy",
                "command": ["python3", "-c", SERVES],
                "restartPolicy": "Always",
                "startupProbe": {
                    "exec": {"command": ["python3", "-c", ASKS]},
                    "periodSeconds": 1,
                    "timeoutSeconds": 9,
                    "failureThreshold": 120,
                },
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            },
        ],
    }
    async with shaped(template) as bench:
        spec = bench.spec(("python3", "-c", LOOKS))
        ended = (await bench.run(spec)).exit
        log = await bench.log(spec.key.job)
        assert ended is not None
        assert (ended.kind, ended.code, ended.detail) == (ExitKind.EXITED, 0, ""), log
        assert log.splitlines()[:3] == [
            f"plain {namespace} mapped {len(VALUE)}",
            "prepared void",
            "from the sidecar",
        ]
        assert log.splitlines()[3].endswith("certificate")
        (pod,) = bench.pods()
        assert pod["metadata"]["labels"]["example.com/cost-centre"] == "42"
        assert [each["state"].keys() for each in pod["status"]["initContainerStatuses"]] == [{"terminated"}] * 2


async def test_a_job_has_the_secrets_that_it_names_and_the_volume_of_jobs_has_none(
    shaped: Shaped, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    make(cluster, namespace, "secrets", "wandb-token", {"WANDB_API_KEY": VALUE})
    program = "import os; print(len(os.environ['WANDB_API_KEY']), os.environ.get('OTHER'))"
    async with shaped({}) as bench:
        spec = bench.spec(("python3", "-c", program), secrets=(NamedSecret("wandb", secret="wandb-token"),))
        ended = (await bench.run(spec)).exit
        log = await bench.log(spec.key.job)
        assert ended is not None
        assert (ended.code, log) == (0, f"{len(VALUE)} None\n"), ended.detail
        assert VALUE not in str(bench.pods())
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if VALUE.encode() in path.read_bytes()]


async def test_an_init_container_that_fails_keeps_the_job_waiting_with_its_words(shaped: Shaped) -> None:
    broken = {
        "name": "prepare",
        "image": image("notebook"),
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", "import sys; print('no such bucket'); sys.exit(3)"],
    }
    async with shaped({"initContainers": [broken]}) as bench:
        ended = (await bench.run(bench.spec(("python3", "-c", "print('never')")))).exit
        assert ended is not None
        assert ended.kind is ExitKind.BLOCKED
        assert ended.detail == (
            "The init container prepare, which an admin of the pool added, ended with exit code 3: no such bucket"
        )


async def test_a_job_with_a_sidecar_is_paused_within_its_grace(shaped: Shaped) -> None:
    sidecar = {
        "name": "proxy",
        "image": image("notebook"),
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", SERVES],
        "restartPolicy": "Always",
    }
    waits = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(75)); time.sleep(600)"
    async with shaped({"initContainers": [sidecar]}) as bench:
        spec = bench.spec(("python3", "-c", waits))
        await bench.up(spec)
        await asyncio.sleep(1)
        await bench.executor.pause(spec.key)
        async with asyncio.timeout(PATIENCE_S):
            ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        assert (ended.paused, ended.code, ended.killed) == (True, 75, False)
