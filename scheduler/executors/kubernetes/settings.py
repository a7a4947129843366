"""What an admin says about the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Where and how jobs run on a cluster.

    ``namespace`` is where the pods are made, ``pool`` names this installation among others of the cluster. The
    files of jobs lie in ``jobs/`` below ``state_dir``, on a volume that pods reach too: the claim ``jobs_claim``,
    or for a cluster of one node the directory ``jobs_host_path`` of that node; ``jobs_sub_path`` is where
    ``state_dir`` lies within the volume.

    ``images`` are patterns (``*`` stands for anything); the first is the default and has none. ``gpu_resource`` is
    what nodes call their GPUs. ``node_selector`` chooses the nodes of the pool by labels, ``environment_label``
    says what a node is for (``train`` or ``build``), ``gpu_type_labels`` are tried in turn for the type of its
    GPUs, ``topology`` maps labels to levels. ``static_nodes`` (``name``, ``gpus`` and if need be ``gpu_type``,
    ``environment``, ``labels``) stand for the nodes where listing them is not allowed.

    ``run_as`` and ``fs_group`` are user and group of a job's processes; the service runs as the same user, or as
    root. A job gets ``cpu_per_gpu`` cores and ``memory_per_gpu`` GiB for each GPU. ``home_path`` is where homes
    are mounted, in notebooks and jobs. An unreachable node's pods count as running until the node is deleted or
    tainted ``out-of-service``; where something else makes sure that such a node stands still, ``lost_after`` is
    the number of seconds after which they are taken for gone. Where the admin lets nobody reach the pods of jobs,
    ``network_policy`` lets those of a gang reach each other.
    """

    namespace: str
    pool: str
    state_dir: Path
    images: tuple[str, ...]
    jobs_claim: str | None = None
    jobs_host_path: str | None = None
    jobs_sub_path: str = ""
    gpu_resource: str = "nvidia.com/gpu"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, str] = field(
        default_factory=lambda: {"topology.kubernetes.io/zone": "zone", "springtide.io/rack": "rack"}
    )
    environment_label: str = "springtide.io/environment"
    gpu_type_labels: tuple[str, ...] = ("springtide.io/gpu-type", "nvidia.com/gpu.product")
    static_nodes: tuple[Mapping[str, Any], ...] = ()
    priority_class: str | None = None
    run_as: int = 1000
    fs_group: int = 100
    tolerations: tuple[Mapping[str, Any], ...] = ()
    cpu_per_gpu: float | None = None
    memory_per_gpu: float | None = None
    home_path: str = "/home/jovyan"
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    network_policy: bool = False
    lost_after: float | None = None
