"""The settings of the Kubernetes executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from springtide.scheduler.executors.kubernetes.homes import HomeRule
from springtide.scheduler.executors.kubernetes.pod_template import PodTemplate
from springtide.scheduler.gpu_types import DeclaredTypes

Positive = Annotated[float, Meta(gt=0, le=1e9)]


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The settings of jobs on a cluster.

    Pods are created in ``namespace``; ``pool`` distinguishes this installation from others in the cluster. The
    files of jobs are in ``jobs/`` below ``state_dir``, on a volume that pods mount too: the volume claim
    ``jobs_claim``, or for a cluster of one node the directory ``jobs_host_path`` of that node; ``jobs_sub_path``
    is the path of ``state_dir`` within the volume.

    ``images`` are patterns (``*`` matches any text); the first is the default image and has no ``*``.
    ``gpu_resources`` are the names of the extended resources of GPUs, or patterns with ``*`` for parts of GPUs.
    ``node_selector`` selects the nodes of the pool by labels; ``environment_label`` is the label that says whether
    a node is for ``train`` or ``build``; the first of ``gpu_type_labels`` that a node has is the model of its
    GPUs, and ``types`` says which type that is; ``topology`` maps labels to levels. ``static_nodes`` (``name``,
    ``gpus``, and optionally ``gpu_type``, ``resource``, ``environment``, ``labels``, ``cpus``, ``memory``,
    ``rdma``) are used in place of the cluster's nodes if the service may not list them.

    With a ``device_class`` the GPUs that the driver ``device_driver`` publishes in ResourceSlices count on nodes
    without ``gpu_resources``, and pods claim them by this DeviceClass: those of jobs, and notebooks in
    ``notebook_namespace`` (empty: in ``namespace``).

    ``run_as`` and ``fs_group`` are user and group of a job's processes; the service runs as the same user, or as
    root. Both are None if the cluster assigns them, as OpenShift does to all pods of a namespace, the service's
    among them. A job without a request of its own gets ``cpu_per_gpu`` cores and ``memory_per_gpu`` GiB for each
    GPU, or its GPUs' part of the node if that is less; without GPUs as much as with one. A worker that writes more
    than ``disk_limit``, a quantity of Kubernetes, to its node's disk is evicted. Homes are mounted at
    ``home_path``, in notebooks and, as ``home`` says, in jobs.
    Pods of an unreachable node count as running until the node is deleted or tainted ``out-of-service``; if
    something else shuts such nodes down, they count as ended after ``lost_after`` seconds. If the pods of jobs are
    isolated, ``network_policy`` lets the pods of a gang reach each other.

    With ``agent_port`` the agents of nodes are asked there for their GPUs: pods of ``agent_namespace`` (empty: of
    ``namespace``) with ``agent_labels``, which answer who sends the token in ``agent_token_file``.

    ``node_groups`` are groups of nodes that the cluster adds when a pod waits for one (``name``, ``gpu_type``,
    ``gpus``, ``max_nodes``, ``node_selector``, and optionally ``tolerations``, ``resource``, ``cpus``,
    ``memory``, ``rdma``). The pods that wait run ``placeholder_image`` if they are bound after all, have
    ``placeholder_priority_class``, and have the owner of the service's pod, ``service_pod``.

    ``rdma_resources`` are the extended resources that give RDMA to one worker, each with the number of devices; a
    node without one of them has no RDMA. Pods of workers with RDMA ask Multus for the networks ``rdma_networks``.

    ``pod_template`` is added to the pods of all jobs, that of ``project_pod_templates`` to those of a project and
    of the projects in it; `pod_template.merge` says how.

    ``shared_memory`` is what pods have as ``/dev/shm``: ``memory``, ``runtime`` (that of the container runtime,
    often 64 MiB), or a volume of the kind ``ephemeral``, ``csi`` or ``emptyDir``. ``kubectl drain`` ends pods with
    an ``emptyDir``, and so with ``memory``, only if asked to.

    With ``bind_directly`` the pods of jobs with GPUs name their planned node when they are created; otherwise the
    cluster's scheduler binds them to it. With ``sessions`` owners of jobs may open terminals in their pods.
    """

    namespace: str
    pool: str
    state_dir: Path
    images: tuple[str, ...]
    jobs_claim: str | None = None
    jobs_host_path: str | None = None
    jobs_sub_path: str = ""
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu", "nvidia.com/mig-*", "amd.com/gpu")
    device_class: Annotated[str, Meta(min_length=1)] | None = None
    device_driver: Annotated[str, Meta(min_length=1)] = "gpu.nvidia.com"
    notebook_namespace: str = ""
    types: DeclaredTypes = DeclaredTypes()  # noqa: RUF009 - frozen
    node_selector: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, str] = field(
        default_factory=lambda: {"topology.kubernetes.io/zone": "zone", "springtide.io/rack": "rack"}
    )
    environment_label: str = "springtide.io/environment"
    gpu_type_labels: tuple[str, ...] = (
        "springtide.io/gpu-type",
        "nvidia.com/gpu.product",
        "amd.com/gpu.product-name",
        "amd.com/gpu.family",
    )
    static_nodes: tuple[Mapping[str, Any], ...] = ()
    priority_class: str | None = None
    pod_template: PodTemplate = PodTemplate()  # noqa: RUF009 - frozen
    project_pod_templates: Mapping[str, PodTemplate] = field(default_factory=dict)
    run_as: Annotated[int, Meta(ge=1)] | None = 1000
    fs_group: Annotated[int, Meta(ge=0)] | None = 100
    tolerations: tuple[Mapping[str, Any], ...] = ()
    cpu_per_gpu: Positive | None = None
    memory_per_gpu: Positive | None = None
    disk_limit: str | None = None
    home_path: str = "/home/jovyan"
    home: HomeRule = "auto"
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    image_pull_secrets: tuple[str, ...] = ()
    network_policy: bool = False
    lost_after: Positive | None = None
    agent_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    agent_namespace: str = ""
    agent_labels: Mapping[str, str] = field(default_factory=dict)
    agent_token_file: str = ""
    shared_memory: Literal["memory", "runtime"] | Mapping[str, Any] = "memory"
    bind_directly: bool = False
    sessions: bool = True
    node_groups: tuple[Mapping[str, Any], ...] = ()
    rdma_resources: Mapping[str, int] = field(default_factory=dict)
    rdma_networks: str = ""
    placeholder_image: str = "registry.k8s.io/pause:3.10"
    placeholder_priority_class: str | None = None
    service_pod: str = ""

    @property
    def claim_namespaces(self) -> tuple[str, ...]:
        """The namespaces whose pods claim GPUs for the pool."""
        return tuple(dict.fromkeys((self.namespace, self.notebook_namespace or self.namespace)))
