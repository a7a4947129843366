"""The objects that make an attempt, as a function of what is wanted; pure."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import msgspec

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExecutorError
from springtide.scheduler.executors.kubernetes import names
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import Object
from springtide.scheduler.model import Worker

JOB_ROOT = PurePosixPath("/springtide/job")
PROGRAM = PurePosixPath("/springtide/program")
MESSAGE = "/dev/termination-log"
MARGIN = 5
"""Seconds between the end of an attempt's grace period and the cluster's own kill."""
PORT = 29500
"""Where gangs meet; each pod has an address of its own."""
WORKER_PORT = 2222
CONTAINER = "job"
FOR_EVER: tuple[Object, ...] = tuple(
    {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": "NoExecute"}
    for trouble in ("not-ready", "unreachable")
)
"""A node out of sight is no reason to give up what runs there: we decide when it is lost."""


@dataclass(frozen=True, slots=True)
class Order:
    """An attempt that is to run: what was asked for, and what was found out for it.

    ``image`` is what its pods run, ``home`` the claim of its user's home (None: without), ``program`` where in the
    volume of jobs the supervisor lies, ``digest`` names all that.
    """

    spec: AttemptSpec
    image: str
    home: str | None
    program: str
    digest: str

    @property
    def key(self) -> AttemptKey:
        return self.spec.key

    @property
    def gang(self) -> bool:
        """Whether its workers have to find each other."""
        return self.spec.workers > 1

    @property
    def hosts(self) -> list[str]:
        """The names of its workers, by place."""
        service = names.gang_name(self.key)
        return [f"{names.host_name(place)}.{service}" for place in range(len(self.spec.placement))]


def choose_image(wanted: str | None, settings: KubernetesSettings) -> str:
    """The image to run. Raises `ExecutorError` if none is known."""
    if wanted:
        return wanted
    if not settings.images or "*" in settings.images[0]:
        raise ExecutorError("The job names no image, and the admin has set no default one (images[0]).")
    return settings.images[0]


def digest(spec: AttemptSpec, image: str, home: str | None) -> str:
    """Names what was ordered, so that a pod of the same name can be compared."""
    said = (spec.argv, spec.env, spec.cwd, spec.placement, spec.workers, spec.grace, image, home)
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()[:16]


def read_worker(text: str) -> Worker | None:
    """Where a worker sits, as its pod's annotation tells it; None if it tells nothing."""
    try:
        return msgspec.json.decode(text, type=Worker)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def service(order: Order, settings: KubernetesSettings) -> Object:
    """The headless Service by which the workers of a gang find each other, ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.gang_name(order.key),
            "namespace": settings.namespace,
            "labels": _labels(order, settings),
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.JOB: order.key.job, names.ATTEMPT: str(order.key.attempt)},
            "ports": [{"name": "meeting", "port": PORT}],
        },
    }


def network_policy(order: Order, settings: KubernetesSettings) -> Object:
    """Lets the workers of a gang reach each other, where nobody else may reach them."""
    gang = {"matchLabels": {names.JOB: order.key.job, names.ATTEMPT: str(order.key.attempt)}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": names.gang_name(order.key),
            "namespace": settings.namespace,
            "labels": _labels(order, settings),
        },
        "spec": {
            "podSelector": gang,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": gang}]}],
        },
    }


def pod(order: Order, place: int, settings: KubernetesSettings) -> Object:
    """The pod of one worker, on its node and no other."""
    worker = order.spec.placement[place]
    grace = max(1, round(order.spec.grace)) + MARGIN
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": _on(worker.node)},
        "tolerations": pod_tolerations(settings),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.run_as,
            "runAsGroup": settings.fs_group,
            "fsGroup": settings.fs_group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(order, worker, settings)],
        "volumes": _volumes(order, settings),
    }
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if order.gang:
        spec |= {"hostname": names.host_name(place), "subdomain": names.gang_name(order.key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(order.key, worker.rank),
            "namespace": settings.namespace,
            "labels": {**_labels(order, settings), names.RANK: str(worker.rank)},
            "annotations": {
                names.PROJECT: order.spec.project,
                names.USER: order.spec.user,
                names.SPEC: order.digest,
                names.WORKER: msgspec.json.encode(worker).decode(),
                names.SIZE: str(len(order.spec.placement)),
                names.GRACE: f"{order.spec.grace:g}",
            },
            "finalizers": [names.RECORDED],
        },
        "spec": spec,
    }


def pod_tolerations(settings: KubernetesSettings) -> list[Object]:
    """Which marks of nodes do not keep our pods away."""
    own: Object = {"key": settings.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}
    return [own, *FOR_EVER, *(dict(each) for each in settings.tolerations)]


def _labels(order: Order, settings: KubernetesSettings) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "springtide",
        names.POOL: settings.pool,
        names.JOB: order.key.job,
        names.ATTEMPT: str(order.key.attempt),
        names.EPOCH: str(order.spec.epoch),
    }


def _on(node: str) -> Object:
    """Nowhere else: the cluster's scheduler binds it there, or not at all."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}


def _container(order: Order, worker: Worker, settings: KubernetesSettings) -> Object:
    directory = JOB_ROOT / "attempts" / str(order.key.attempt)
    container: Object = {
        "name": CONTAINER,
        "image": order.image,
        "command": ["python3", "-I", "-S", str(PROGRAM / "supervisor"), str(directory), str(worker.rank)],
        "resources": _resources(len(worker.gpus), settings),
        "terminationMessagePath": MESSAGE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": _mounts(order, settings),
    }
    if settings.image_pull_policy:
        container["imagePullPolicy"] = settings.image_pull_policy
    if order.home is not None:
        container["env"] = [{"name": "HOME", "value": settings.home_path}]
    return container


def _resources(gpus: int, settings: KubernetesSettings) -> Object:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if gpus:
        requests[settings.gpu_resource] = limits[settings.gpu_resource] = str(gpus)
    if settings.cpu_per_gpu:
        requests["cpu"] = f"{round(settings.cpu_per_gpu * 1000) * max(1, gpus)}m"
    if settings.memory_per_gpu:
        requests["memory"] = limits["memory"] = f"{round(settings.memory_per_gpu * 1024) * max(1, gpus)}Mi"
    return {"requests": requests, "limits": limits}


def _mounts(order: Order, settings: KubernetesSettings) -> list[Object]:
    """The job's own places one by one, so that it cannot put links in the way of who reads beside it."""
    job = f"jobs/{order.key.job}"
    attempt = f"attempts/{order.key.attempt}"
    places = ("code", "work", "checkpoints", "output", "reports.jsonl", attempt)
    mounts = [
        {"name": "jobs", "mountPath": str(JOB_ROOT / place), "subPath": _within(settings, f"{job}/{place}")}
        for place in places
    ]
    program: Object = {"mountPath": str(PROGRAM), "subPath": _within(settings, order.program), "readOnly": True}
    mounts.append({"name": "jobs", **program})
    mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})  # noqa: S108 - where frameworks expect it
    if order.home is not None:
        mounts.append({"name": "home", "mountPath": settings.home_path})
    return mounts


def _within(settings: KubernetesSettings, path: str) -> str:
    return posixpath.join(settings.jobs_sub_path, path)


def _volumes(order: Order, settings: KubernetesSettings) -> list[Object]:
    volumes: list[Object] = [
        {"name": "jobs", **_jobs_volume(settings)},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
    ]
    if order.home is not None:
        volumes.append({"name": "home", "persistentVolumeClaim": {"claimName": order.home}})
    return volumes


def _jobs_volume(settings: KubernetesSettings) -> Mapping[str, Any]:
    if settings.jobs_claim:
        return {"persistentVolumeClaim": {"claimName": settings.jobs_claim}}
    return {"hostPath": {"path": settings.jobs_host_path, "type": "Directory"}}
