"""Launch records of attempts on a cluster, of which the executor makes pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs.job_options import with_options

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec
from springtide.scheduler.executors.kubernetes.homes import Home
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.objects import manifests
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Node, Worker
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

SETTINGS = KubernetesSettings("pool", "springtide", Path("/state"), ("hub/train:1", "hub/*"), jobs_claim="jobs")

NO_HOME = Home()

GPU_NODE = Node("n1", 8, resource="nvidia.com/gpu", per_gpu=PerGpu(2.0, 1 << 30))


def spec(**more: Any) -> AttemptSpec:
    given: dict[str, Any] = {
        "placement": (Worker(0, "n1", (0, 1)), Worker(1, "n2", (4, 5))),
        "workers": 2,
        "argv": ("train",),
        **more,
    }
    known = {"epoch": 7, "name": "a job", "project": "vision", "user": "susan", "grace": 20.0}
    return with_options(AttemptSpec, key=AttemptKey("abc", 3), **known, **given)


def record(
    settings: KubernetesSettings = SETTINGS,
    home: Home = NO_HOME,
    resources: tuple[str, ...] = ("nvidia.com/gpu", "nvidia.com/gpu"),
    per_gpu: PerGpu = UNSPECIFIED,
    **more: Any,
) -> manifests.LaunchRecord:
    nodes = [
        Node(f"n{place}", 8, resource=name, per_gpu=per_gpu) if name else None
        for place, name in enumerate(resources, 1)
    ]
    return LaunchRecords(settings, None).make_record(spec(**more), "hub/train:1", home, nodes, per_gpu)
