"""Node groups of the settings, and the placeholder pods for which an autoscaler adds nodes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from springtide.scheduler import wording
from springtide.scheduler.executors.base import ExecutorError, NodeGroup, NodeRequest
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import ANY
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import PODS, Api, ApiError, Informer, Object
from springtide.scheduler.model import Environment, Node
from springtide.scheduler.resources import quantities
from springtide.scheduler.resources.per_gpu import per_gpu_of

REQUIRED = {"name", "gpu_type", "gpus", "max_nodes", "node_selector"}
OPTIONAL = {"tolerations", "resource", "cpus", "memory", "rdma"}
EXPECTED = (
    "Expected name (at most 40 small letters, digits and dashes), gpu_type, gpus (of one node, from 1), max_nodes "
    "(from 1) and node_selector (at least one label of its nodes), and optionally tolerations, resource (one "
    "name), cpus and memory (of one node) and rdma (how many workers may have RDMA on one)."
)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """A node group: what the plan knows of it, and the labels by which its nodes and its placeholders agree."""

    group: NodeGroup
    labels: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...] = ()

    def has(self, labels: Mapping[str, str], resource: str) -> bool:
        """Return whether a node with these labels and GPUs of this resource belongs to the group."""
        return resource == self.group.node.resource and self.labels.items() <= labels.items()


def cluster_groups(settings: KubernetesSettings) -> tuple[ClusterGroup, ...]:
    """Return the node groups of the settings. Raises `ExecutorError` for one that is not well-formed."""
    groups = tuple(_group(given, settings) for given in settings.node_groups)
    names = [each.group.name for each in groups]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ExecutorError(
            f"node_groups: {wording.given(twice)} is listed twice. Expected one entry for each name."
        )
    for one in groups:
        for other in groups:
            if one is not other and other.has(one.labels, one.group.node.resource):
                raise ExecutorError(
                    f"node_groups: a node of {wording.given(one.group.name)} would be one of "
                    f"{wording.given(other.group.name)}, too. Expected a node_selector that tells them apart."
                )
    if groups and settings.static_nodes:
        raise ExecutorError(
            "node_groups and static_nodes are both set: which nodes have joined is seen only where the service "
            "lists the cluster's nodes. Leave one of them out."
        )
    return groups


def _group(given: Mapping[str, Any], settings: KubernetesSettings) -> ClusterGroup:
    wrong = ", ".join(
        [*sorted(set(given) - REQUIRED - OPTIONAL), *(f"no {key}" for key in sorted(REQUIRED - set(given)))]
    )
    if wrong:
        raise ExecutorError(f"node_groups: {wording.given(dict(given))} is not a node group ({wrong}). {EXPECTED}")
    name, selector, resource = (
        given["name"],
        given["node_selector"],
        given.get("resource", settings.gpu_resources[0]),
    )
    faults = {
        "name": not isinstance(name, str) or not _NAME.fullmatch(name),
        "gpu_type": not isinstance(given["gpu_type"], str) or not given["gpu_type"],
        "gpus": not _is_count(given["gpus"]),
        "max_nodes": not _is_count(given["max_nodes"]),
        "node_selector": not _is_table_of_text(selector) or not selector,
        "tolerations": not isinstance(given.get("tolerations", []), list | tuple)
        or not all(isinstance(each, Mapping) for each in given.get("tolerations", [])),
        "resource": not isinstance(resource, str) or ANY in resource,
        "rdma": "rdma" in given and not _is_count(given["rdma"]),
    }
    bad = next((key for key, is_bad in faults.items() if is_bad), None)
    try:
        cpus, memory = quantities.cores(given.get("cpus", 0)), quantities.memory(given.get("memory", 0))
    except (ValueError, TypeError) as error:
        raise ExecutorError(
            f"node_groups: {wording.given(name)} is not a node group ({error}). {EXPECTED}"
        ) from error
    if bad is not None:
        what = f"{bad} is {wording.given(given.get(bad, resource))}"
        raise ExecutorError(f"node_groups: {wording.given(name)} is not a node group ({what}). {EXPECTED}")
    labels = {**settings.node_selector, **selector, settings.environment_label: Environment.TRAIN.value}
    node = Node(
        f"~{name}",
        given["gpus"],
        settings.types.of(given["gpu_type"]),
        labels={level: labels[label] for label, level in settings.topology.items() if label in labels},
        resource=resource,
        per_gpu=per_gpu_of(cpus, memory, given["gpus"], given.get("rdma", 0)),
        group=name,
    )
    tolerations = tuple(dict(each) for each in given.get("tolerations", ()))
    return ClusterGroup(NodeGroup(name, node, given["max_nodes"]), labels, tolerations)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_table_of_text(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)


log = logging.getLogger(__name__)

NOT_FOUND = 404
CONFLICT = 409
UNPRIVILEGED = 65_534
"""User and group of the container, which does nothing."""
END_TIME = 1
"""Grace period of a placeholder that was bound, in seconds; its GPUs count as taken until it is gone."""


class Placeholders:
    """Keeps as many pods waiting as nodes are asked for. ``on_bound_change`` gets the changes of bound ones."""

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        groups: Collection[ClusterGroup],
        on_bound_change: Callable[[Pod | None, Pod | None], None],
    ) -> None:
        self._settings = settings
        self._api = api
        self._groups = {each.group.name: each for each in groups}
        self._on_bound_change = on_bound_change
        self._errors: dict[str, str] = {}
        self._owner: Object | None = None
        self._informer: Informer[Pod] = Informer(
            api,
            PODS,
            settings.namespace,
            labels=f"{names.POOL}={settings.pool},{names.PLACEHOLDER}",
            decode_as=Pod,
            on_change=self._changed,
        )

    async def start(self) -> None:
        """List the placeholders that exist, and follow them. Raises `ApiError`."""
        self._owner = await self._find_owner()
        await self._informer.start()

    async def close(self) -> None:
        """Stop following; the placeholders stay."""
        await self._informer.stop()

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        was, now = (pod if pod is not None and pod.spec.node_name else None for pod in (before, after))
        if was is not None or now is not None:
            self._on_bound_change(was, now)

    async def request(self, numbers: Mapping[str, int] | None) -> Mapping[str, NodeRequest]:
        """Keep so many placeholders of each group, and return since when they wait; None changes nothing.

        One that was bound has served: its node is there. Of too many, those that have waited longest stay.
        """
        if numbers is not None and self._informer.fresh:
            pods = self._informer.items.values()
            await self._delete(
                pod for pod in pods if pod.spec.node_name or pod.ended or _group_of(pod) not in numbers
            )
            for name, number in numbers.items():
                waiting = self._waiting(name)
                await self._delete(waiting[number:])
                await self._create(self._groups[name], number - len(waiting))
        return {
            name: NodeRequest(tuple(map(_created, self._waiting(name))), self._errors.get(name, ""))
            for name in self._groups
        }

    def _waiting(self, group: str) -> list[Pod]:
        """Return the placeholders of a group that wait for a node, the oldest first."""
        pods = self._informer.items.values()
        found = [pod for pod in pods if _group_of(pod) == group and not pod.spec.node_name and not pod.ended]
        return sorted(found, key=lambda pod: (_created(pod), pod.metadata.name))

    async def _create(self, group: ClusterGroup, number: int) -> None:
        """Create placeholders under the first names that are free: one that exists unseen is not made twice."""
        name, used = group.group.name, {pod.metadata.name for pod in self._informer.items.values()}
        free = (
            each
            for each in (names.placeholder_name(self._settings.pool, name, index) for index in count())
            if each not in used
        )
        error = ""
        for pod_name in islice(free, max(0, number)):
            try:
                await self._api.create(PODS, self._settings.namespace, self._pod(group, pod_name))
            except ApiError as refused:
                if refused.status != CONFLICT:
                    error = refused.message or str(refused)
                    break
        if error and error != self._errors.get(name):
            log.warning("No node of the group %s can be asked for: %s", name, error)
        if number > 0 or error:
            self._errors[name] = error

    async def _delete(self, pods: Iterable[Pod]) -> None:
        for pod in list(pods):
            meta = pod.metadata
            if meta.deletion_timestamp is None:
                try:
                    await self._api.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace=END_TIME)
                except ApiError as error:
                    if error.status not in (NOT_FOUND, CONFLICT):
                        log.warning("The pod %s, which waits for a node, cannot be deleted: %s", meta.name, error)

    async def _find_owner(self) -> Object | None:
        """Return what owns the pod of the service: with that the placeholders go, and no node is asked for."""
        if not self._settings.service_pod:
            return None
        try:
            pod = await self._api.get(PODS, self._settings.namespace, self._settings.service_pod)
        except ApiError as error:
            log.warning("The pod of the service, %s, cannot be read: %s", self._settings.service_pod, error)
            return None
        return next(
            (each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None
        )

    def _pod(self, group: ClusterGroup, name: str) -> Object:
        settings, node = self._settings, group.group.node
        gpus = {node.resource: str(node.gpus)}
        spec: Object = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": END_TIME,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "nodeSelector": dict(group.labels),
            "tolerations": manifests.pod_tolerations(settings),
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
                **({} if settings.run_as is None else {"runAsUser": UNPRIVILEGED, "runAsGroup": UNPRIVILEGED}),
            },
            "containers": [
                {
                    "name": "pause",
                    "image": settings.placeholder_image,
                    "resources": {"requests": gpus, "limits": gpus},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        }
        if settings.placeholder_priority_class:
            spec["priorityClassName"] = settings.placeholder_priority_class
        if settings.image_pull_secrets:
            spec["imagePullSecrets"] = [{"name": each} for each in settings.image_pull_secrets]
        metadata: Object = {
            "name": name,
            "namespace": settings.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "springtide",
                names.POOL: settings.pool,
                names.PLACEHOLDER: group.group.name,
            },
            "annotations": {names.SAFE_TO_EVICT: "true"},
        }
        if self._owner is not None:
            metadata["ownerReferences"] = [
                {**{key: self._owner[key] for key in ("apiVersion", "kind", "name", "uid")}, "controller": False}
            ]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _group_of(pod: Pod) -> str:
    return pod.metadata.labels.get(names.PLACEHOLDER, "")


def _created(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return 0.0 if created is None else created.timestamp()
