"""The API objects of an attempt, as a function of its launch record; pure."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from math import floor, inf
from pathlib import PurePosixPath
from typing import Any

import msgspec

from springtide.scheduler import datasets
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, BlockedError
from springtide.scheduler.executors.environment import gpu_environment
from springtide.scheduler.executors.kubernetes.homes import Home
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import ANY
from springtide.scheduler.executors.kubernetes.pod_template import PodTemplate, shaped, template_of
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import Object
from springtide.scheduler.model import HomeAccess, Worker
from springtide.scheduler.resources import device_claims
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

JOB_ROOT = PurePosixPath("/springtide/job")
PROGRAM = PurePosixPath("/springtide/program")
SUPERVISOR = ("python3", "-I", "-S", f"{PROGRAM}/supervisor")
TERMINATION_LOG = "/dev/termination-log"
KILL_MARGIN = 5
"""Time between the end of an attempt's grace period and the cluster's own kill, in seconds."""
RENDEZVOUS_PORT = 29500
"""Port of a gang's rendezvous; each pod has an address of its own."""
WORKER_PORT = 2222
NODE_LOSS_TOLERATIONS: tuple[Object, ...] = tuple(
    {"key": f"node.kubernetes.io/{condition}", "operator": "Exists", "effect": "NoExecute"}
    for condition in ("not-ready", "unreachable")
)
"""Tolerations against eviction from unreachable nodes: the executor decides when their pods are lost."""


class LaunchRecord(msgspec.Struct, frozen=True):
    """An attempt to launch: its spec, and the facts looked up for it.

    ``image`` is the image of its pods, ``home`` the volume claim of its user's home (None: no home), ``program``
    the supervisor's path in the volume of jobs, ``digest`` identifies all of these. ``resources``
    are the resources of the workers' GPUs in the order of the placement, empty in records of earlier
    versions. ``per_gpu`` are the known cores, memory and RDMA for each GPU of a worker, by worker; the most
    of its default without GPUs. ``bound``: pods with GPUs are created on their nodes; otherwise the cluster binds
    them. ``access`` is how they have the home.
    """

    spec: AttemptSpec
    image: str
    home: str | None
    program: str
    digest: str
    resources: tuple[str, ...] = ()
    per_gpu: tuple[PerGpu, ...] = ()
    bound: bool = False
    access: HomeAccess = HomeAccess.USUAL

    @property
    def key(self) -> AttemptKey:
        """The attempt that the pods are of."""
        return self.spec.key

    @property
    def gang(self) -> bool:
        """Whether it has several workers, which have to reach each other."""
        return self.spec.workers > 1

    @property
    def hosts(self) -> list[str]:
        """The host names of its workers, in the order of the placement."""
        service = names.gang_name(self.key)
        return [f"{names.host_name(index)}.{service}" for index in range(len(self.spec.placement))]


def claims(record: LaunchRecord, settings: KubernetesSettings) -> list[str]:
    """Return the names of the volume claims of an attempt's first pod, those made for it included."""
    added = template(record, settings).volumes
    own = (volume.get("persistentVolumeClaim") for volume in _volumes(record, settings))
    mounted = (*own, *(volume.persistent_volume_claim for volume in added))
    made = [f"{names.pod_name(record.key, 0)}-{volume.name}" for volume in added if volume.ephemeral is not None]
    return [*(claim["claimName"] for claim in mounted if claim is not None), *made]


def choose_image(requested: str | None, settings: KubernetesSettings) -> str:
    """Return the requested image, or the default one. Raises `BlockedError` if there is neither."""
    if requested:
        return requested
    if not settings.images or "*" in settings.images[0]:
        raise BlockedError("The job names no image, and the admin has set no default one (images[0]).")
    return settings.images[0]


def digest(spec: AttemptSpec, image: str, home: Home) -> str:
    """Return a digest of the sources of the pods, to compare a pod of the same name with."""
    placed = [{"rank": worker.rank, "node": worker.node, "gpus": worker.gpus} for worker in spec.placement]
    options = spec.options
    parts: tuple[object, ...] = (
        *(spec.argv, options.env, spec.cwd, placed, spec.workers, spec.grace, image, home.claim),
        *((home.access,) if home.access is HomeAccess.READ_ONLY else ()),
        *spec.datasets,
        *(("tree", spec.tree.root, spec.tree.digest) if spec.tree is not None else ()),
        *((options.cpus or 0.0, options.memory or 0) if options.cpus or options.memory else ()),
        *(("rdma",) if options.rdma else ()),
        *(("secrets", *(each.name for each in spec.secrets)) if spec.secrets else ()),
    )
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:16]


def read_access(text: str) -> HomeAccess:
    """Return how a pod has its user's home, from its annotation."""
    return HomeAccess(text) if text in tuple(HomeAccess) else HomeAccess.USUAL


def read_worker(text: str) -> Worker | None:
    """Return a worker's placement from its pod's annotation, None if the annotation is not one."""
    try:
        return msgspec.json.decode(text, type=Worker)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def service(record: LaunchRecord, settings: KubernetesSettings) -> Object:
    """Return the headless Service under which the workers of a gang reach each other, ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.gang_name(record.key),
            "namespace": settings.namespace,
            "labels": _labels(record, settings),
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.JOB: record.key.job, names.ATTEMPT: str(record.key.attempt)},
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT}],
        },
    }


def network_policy(record: LaunchRecord, settings: KubernetesSettings) -> Object:
    """Return the policy that lets the workers of a gang reach each other, and nothing else reach them."""
    gang = {"matchLabels": {names.JOB: record.key.job, names.ATTEMPT: str(record.key.attempt)}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": names.gang_name(record.key),
            "namespace": settings.namespace,
            "labels": _labels(record, settings),
        },
        "spec": {
            "podSelector": gang,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": gang}]}],
        },
    }


def namespace_owner(namespace: Object) -> Object:
    """Return the reference by which pods declare a namespace to be their controller.

    `kubectl drain` takes pods without a controller for such that nothing would replace.
    """
    meta = namespace["metadata"]
    return {"apiVersion": "v1", "kind": "Namespace", "name": meta["name"], "uid": meta["uid"], "controller": True}


def pod(record: LaunchRecord, index: int, settings: KubernetesSettings, *, owner: Object | None = None) -> Object:
    """Return the pod of the worker at this position of the placement, for its node alone, as the admin shapes it.

    A worker without GPUs goes to any node that the settings select, rather to one without GPUs of the pool.
    ``owner`` is a reference to the pod's controller.
    """
    worker = record.spec.placement[index]
    grace = max(1, round(record.spec.grace)) + KILL_MARGIN
    networks = settings.rdma_networks if record.spec.options.rdma else ""
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **(_on_node(machine_of(worker.node), bound=record.bound) if worker.gpus else _on_any_node(settings)),
        "tolerations": pod_tolerations(settings) if worker.gpus else base_tolerations(settings),
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
            **_identity(settings),
        },
        "containers": [_container(record, index, settings)],
        "volumes": _volumes(record, settings),
    }
    resource = _resource(record, index, settings)
    if worker.gpus and device_claims.is_claimed(resource):
        spec["resourceClaims"] = device_claims.pod_claims(resource, len(worker.gpus))
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if record.gang:
        spec |= {"hostname": names.host_name(index), "subdomain": names.gang_name(record.key)}
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(record.key, worker.rank),
            "namespace": settings.namespace,
            "labels": {**_labels(record, settings), names.RANK: str(worker.rank)},
            "annotations": {
                names.PROJECT: record.spec.project,
                names.USER: record.spec.user,
                names.SPEC: record.digest,
                names.WORKER: msgspec.json.encode(worker).decode(),
                names.SIZE: str(len(record.spec.placement)),
                names.GRACE: f"{record.spec.grace:g}",
                names.SAFE_TO_EVICT: "false",
                names.DO_NOT_DISRUPT: "true",
                **({names.NETWORKS: networks} if networks else {}),
                **({names.HOME: record.access} if record.access else {}),
            },
            **({} if owner is None else {"ownerReferences": [owner]}),
        },
        "spec": spec,
    }
    return shaped(made, template(record, settings), gpus=len(worker.gpus))


def template(record: LaunchRecord, settings: KubernetesSettings) -> PodTemplate:
    """Return what the admin adds to the pods of an attempt."""
    lineage = (record.spec.project, *record.spec.outer_projects)
    return template_of(lineage, settings.pod_template, settings.project_pod_templates)


def _identity(settings: KubernetesSettings) -> Object:
    """Return the user and groups of a pod; empty if the cluster assigns them."""
    if settings.run_as is None:
        return {}
    return {"runAsUser": settings.run_as, "runAsGroup": settings.fs_group, "fsGroup": settings.fs_group}


def pod_tolerations(settings: KubernetesSettings) -> list[Object]:
    """Return the tolerations of pods with GPUs, those of the node groups among them."""
    of_groups = (toleration for group in settings.node_groups for toleration in group.get("tolerations", ()))
    of_template = msgspec.to_builtins(settings.pod_template.tolerations)
    return [*base_tolerations(settings), *(dict(toleration) for toleration in of_groups), *of_template]


def base_tolerations(settings: KubernetesSettings) -> list[Object]:
    """Return the tolerations of all pods of jobs: nodes with GPUs are often tainted with a resource's name."""
    keys = [resource for resource in settings.gpu_resources if ANY not in resource]
    own: list[Object] = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
    return [*own, *NODE_LOSS_TOLERATIONS, *(dict(toleration) for toleration in settings.tolerations)]


def _labels(record: LaunchRecord, settings: KubernetesSettings) -> dict[str, str]:
    return {
        names.MANAGED_BY: "springtide",
        names.POOL: settings.pool,
        names.JOB: record.key.job,
        names.ATTEMPT: str(record.key.attempt),
        names.EPOCH: str(record.spec.epoch),
    }


def _on_node(node: str, *, bound: bool) -> Object:
    """Return the node's name, or the affinity by which the cluster's scheduler binds a pod to it or not at all."""
    if bound:
        return {"nodeName": node}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _on_any_node(settings: KubernetesSettings) -> Object:
    """Return the selector and the affinity of a pod without GPUs."""
    outside = {"matchExpressions": [{"key": settings.environment_label, "operator": "DoesNotExist"}]}
    preferred = [{"weight": 100, "preference": outside}]
    return {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        **({"nodeSelector": dict(settings.node_selector)} if settings.node_selector else {}),
    }


def relay_command(key: AttemptKey, rank: int) -> list[str]:
    """Return the command that relays a session in the container of a worker."""
    return [*SUPERVISOR, "session", f"{JOB_ROOT}/attempts/{key.attempt}", str(rank)]


def tool_command(name: str) -> list[str]:
    """Return the command of a tool of the supervisor's directory, in a container."""
    return ["python3", "-I", "-S", f"{PROGRAM}/supervisor/{name}"]


def _container(record: LaunchRecord, index: int, settings: KubernetesSettings) -> Object:
    worker = record.spec.placement[index]
    directory = f"{JOB_ROOT}/attempts/{record.key.attempt}"
    container: Object = {
        "name": names.CONTAINER,
        "image": record.image,
        "command": [*SUPERVISOR, directory, str(worker.rank)],
        "resources": _resources(record, index, settings),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": _mounts(record, settings),
    }
    if settings.image_pull_policy:
        container["imagePullPolicy"] = settings.image_pull_policy
    variables = {} if record.home is None else {"HOME": settings.home_path}
    if record.home is None and settings.run_as is None:
        variables = {"HOME": str(JOB_ROOT / "work")}
    if not worker.gpus:
        variables |= gpu_environment([])  # on a node with GPUs an image may ask its runtime for all of them
    if record.spec.secrets:
        container["envFrom"] = [{"secretRef": {"name": each.secret}} for each in record.spec.secrets]
    if variables:
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    return container


def _resources(record: LaunchRecord, index: int, settings: KubernetesSettings) -> Object:
    """Return the resources of a worker: the job's request, else the settings' part for each GPU.

    The settings' part is bounded by the GPUs' part of their node, so that the other GPUs stay usable, and without
    GPUs by what a node has.
    """
    options, gpus = record.spec.options, len(record.spec.placement[index].gpus)
    per_gpu = record.per_gpu[index] if record.per_gpu else UNSPECIFIED
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    resource = _resource(record, index, settings)
    is_claimed = bool(gpus) and device_claims.is_claimed(resource)
    if gpus and not is_claimed:
        requests[resource] = limits[resource] = str(gpus)
    if options.rdma:
        devices = {name: str(number) for name, number in settings.rdma_resources.items()}
        requests |= devices
        limits |= devices
    if milli := _milli_cores(record, index, settings):
        requests["cpu"] = f"{milli}m"
    mib = _default(settings.memory_per_gpu, per_gpu.memory / (1 << 30), gpus, 1024)
    if options.memory or mib:
        requests["memory"] = limits["memory"] = str(options.memory) if options.memory else f"{mib}Mi"
    if settings.disk_limit:
        requests["ephemeral-storage"], limits["ephemeral-storage"] = "0", settings.disk_limit
    claims = {"claims": device_claims.container_claims()} if is_claimed else {}
    return {"requests": requests, "limits": limits, **claims}


def _resource(record: LaunchRecord, index: int, settings: KubernetesSettings) -> str:
    """Return the resource of the GPUs of a worker."""
    return record.resources[index] if record.resources else settings.gpu_resources[0]


def _milli_cores(record: LaunchRecord, index: int, settings: KubernetesSettings) -> int:
    """Return the requested thousandths of cores of a worker, 0 for none."""
    gpus, per_gpu = (
        len(record.spec.placement[index].gpus),
        record.per_gpu[index] if record.per_gpu else UNSPECIFIED,
    )
    asked = round((record.spec.options.cpus or 0.0) * 1000)
    return asked or _default(settings.cpu_per_gpu, per_gpu.cpus, gpus, 1000)


def cores(record: LaunchRecord, settings: KubernetesSettings) -> float:
    """Return the cores of a worker: those that its pod requests, else its GPUs' part of the node's; 0: unknown."""
    gpus = len(record.spec.placement[0].gpus)
    per_gpu = record.per_gpu[0] if record.per_gpu else UNSPECIFIED
    return _milli_cores(record, 0, settings) / 1000 or per_gpu.cpus * gpus


def _default(chosen: float | None, most_per_gpu: float, gpus: int, parts: int) -> int:
    """Return the default of a worker in ``parts`` of the unit of the others, 0 if nothing is ``chosen``.

    A worker without GPUs has that of one.
    """
    if not chosen:
        return 0
    counted = max(1, gpus)
    most = floor(most_per_gpu * parts * counted) if most_per_gpu else inf
    return int(min(round(chosen * parts) * counted, most))


def _mounts(record: LaunchRecord, settings: KubernetesSettings) -> list[Object]:
    """Return one mount per path of the job: in a single mount, it could replace files that are read by links."""
    job = f"jobs/{record.key.job}"
    attempt = f"attempts/{record.key.attempt}"
    paths = ("code", "work", "checkpoints", "output", "reports.jsonl", attempt)
    mounts = [
        {"name": "jobs", "mountPath": f"{JOB_ROOT}/{path}", "subPath": _sub_path(settings, f"{job}/{path}")}
        for path in paths
    ]
    program: Object = {"mountPath": str(PROGRAM), "subPath": _sub_path(settings, record.program), "readOnly": True}
    mounts.append({"name": "jobs", **program})
    if settings.shared_memory != "runtime":
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})  # noqa: S108 - frameworks expect it there
    if record.home is not None:
        mounts.append({"name": "home", "mountPath": settings.home_path, **_read_only(record)})
    return [*mounts, *datasets.mounts(record.spec.datasets)]


def _sub_path(settings: KubernetesSettings, path: str) -> str:
    return posixpath.join(settings.jobs_sub_path, path) if settings.jobs_sub_path else path


def _volumes(record: LaunchRecord, settings: KubernetesSettings) -> list[Object]:
    volumes: list[Object] = [{"name": "jobs", **_jobs_volume(settings)}]
    if settings.shared_memory != "runtime":
        memory: Object = {"emptyDir": {"medium": "Memory"}}
        given = settings.shared_memory
        volumes.append({"name": "shared-memory", **(memory if isinstance(given, str) else given)})
    if record.home is not None:
        claim = {"claimName": record.home, **_read_only(record)}
        volumes.append({"name": "home", "persistentVolumeClaim": claim})
    return [*volumes, *datasets.volumes(record.spec.datasets)]


def _read_only(record: LaunchRecord) -> Object:
    return {"readOnly": True} if record.access is HomeAccess.READ_ONLY else {}


def _jobs_volume(settings: KubernetesSettings) -> Mapping[str, Any]:
    if settings.jobs_claim:
        return {"persistentVolumeClaim": {"claimName": settings.jobs_claim}}
    return {"hostPath": {"path": settings.jobs_host_path, "type": "Directory"}}
