"""Placeholder pods that wait for missing nodes: an autoscaler sees them and adds a node for each.

They are unbound, request all GPUs of a node, and belong to no job: the plan places jobs once the node exists. The
pods themselves record the requests and their times, so that nothing is lost with the service.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count, islice

from springtide.scheduler.executors.base import NodeRequest
from springtide.scheduler.executors.kubernetes.node_groups.groups import ClusterGroup
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.pod_template import marked
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import PODS, Api, ApiError, Informer, Object

log = logging.getLogger(__name__)

NOT_FOUND = 404
CONFLICT = 409
UNPRIVILEGED = 65_534
"""User and group of the container, which does nothing."""
END_TIME = 1
"""Grace period of a bound placeholder, in seconds; its GPUs count as taken until it is gone."""


class Placeholders:
    """Keeps a waiting pod for each requested node. ``on_bound_change`` gets the changes of bound ones."""

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        groups: Collection[ClusterGroup],
        on_bound_change: Callable[[Pod | None, Pod | None], None],
    ) -> None:
        self._settings = settings
        self._api = api
        self._groups = {group.group.name: group for group in groups}
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
        """Keep these numbers of placeholders by group, and return since when they wait; None changes nothing.

        A bound one is no longer needed: its node exists. If there are too many, those that have waited longest
        stay.
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
        """Return the waiting placeholders of a group, the oldest first."""
        pods = self._informer.items.values()
        found = [pod for pod in pods if _group_of(pod) == group and not pod.spec.node_name and not pod.ended]
        return sorted(found, key=lambda pod: (_created(pod), pod.metadata.name))

    async def _create(self, group: ClusterGroup, number: int) -> None:
        """Create placeholders under the first names that are free: one that exists unseen is not made twice."""
        name, used = group.group.name, {pod.metadata.name for pod in self._informer.items.values()}
        free = (
            candidate
            for candidate in (names.placeholder_name(self._settings.pool, name, index) for index in count())
            if candidate not in used
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
        """Return the owner of the service's pod: the placeholders are deleted with it, and request no nodes."""
        if not self._settings.service_pod:
            return None
        try:
            pod = await self._api.get(PODS, self._settings.namespace, self._settings.service_pod)
        except ApiError as error:
            log.warning("The pod of the service, %s, cannot be read: %s", self._settings.service_pod, error)
            return None
        return next(
            (owner for owner in pod["metadata"].get("ownerReferences") or () if owner.get("controller")), None
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
            spec["imagePullSecrets"] = [{"name": secret} for secret in settings.image_pull_secrets]
        metadata: Object = {
            "name": name,
            "namespace": settings.namespace,
            "labels": {
                names.MANAGED_BY: "springtide",
                names.POOL: settings.pool,
                names.PLACEHOLDER: group.group.name,
            },
            "annotations": {names.SAFE_TO_EVICT: "true"},
        }
        if self._owner is not None:
            metadata["ownerReferences"] = [
                {**{key: self._owner[key] for key in ("apiVersion", "kind", "name", "uid")}, "controller": False}
            ]
        return marked(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, settings.pod_template
        )


def _group_of(pod: Pod) -> str:
    return pod.metadata.labels.get(names.PLACEHOLDER, "")


def _created(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return 0.0 if created is None else created.timestamp()
