"""Creation and deletion of pods; each request looks at what exists and may be repeated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import msgspec

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.executors.base import AttemptKey, BlockedError, ExecutorError
from springtide.scheduler.executors.kubernetes.api_stalls import ApiStalls
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import gpus_of
from springtide.scheduler.executors.kubernetes.objects.manifests import LaunchRecord
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import (
    EVENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    Api,
    ApiError,
    Object,
    Resource,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
UNSCHEDULED = "FailedScheduling"
"""Reason of the warnings of the cluster's scheduler."""
INVALID = 422
UNAUTHORIZED = 401
TOO_MANY_REQUESTS = 429
PATIENCE = 20.0
"""Time for which the API may answer a creation with errors before these count as a refusal, in seconds."""
CREATED_TOGETHER = 24
"""Number of pods of jobs of one worker that are created together, before kubelets have acknowledged all of them.

Urgent pods wait behind no more pods than these in the queues of API server and kubelets: while a pool fills, a
reclaimed GPU runs the owner's job within a second (`benchmarks/bench_cluster.py`). Creations in batches cost API
server and kubelets less than single ones.
"""
ACKNOWLEDGED_WITHIN = 0.2
"""Time after which a created pod counts as acknowledged, in seconds: a slow kubelet delays no other pod."""
DELETION_TRIES = 5
"""Number of requests to delete a pod without a node, which may be bound and started meanwhile."""
CONCURRENT_GANG_CREATIONS = 24
"""Maximum number of objects of gangs that are created at a time: a gang runs when its last pod does."""


class CreationWindow:
    """Has pods created in batches of ``size``: after a full one, the next begins when all of it is acknowledged.

    A pod counts as acknowledged ``within`` seconds after its creation.
    """

    def __init__(self, size: int, within: float) -> None:
        self._size = size
        self._within = within
        self._batch: dict[str, asyncio.TimerHandle | None] = {}
        self._open = asyncio.Event()
        self._open.set()

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[None]:
        """Wait for a place, and create the pod ``name`` in the block; a block that raises leaves the place."""
        while not self._open.is_set():
            await self._open.wait()
        self._batch[name] = None
        if len(self._batch) >= self._size:
            self._open.clear()
        try:
            yield
        except BaseException:
            self.acknowledge(name)
            raise
        if name in self._batch:
            self._batch[name] = asyncio.get_running_loop().call_later(self._within, self.acknowledge, name)

    def acknowledge(self, name: str) -> None:
        """Take the pod ``name`` out of the batch, if it is in it."""
        timer = self._batch.pop(name, None)
        if timer is not None:
            timer.cancel()
        if not self._batch:
            self._open.set()


def _is_refusal(error: ApiError) -> bool:
    """Return whether the API answered, and may give the same answer for long, as while a webhook is away."""
    return error.status not in (0, TOO_MANY_REQUESTS) and error.reason != "AlreadyExists"


class PodControl:
    """Creates and deletes the pods and Services of attempts; requests that wait are counted in ``stalls``.

    The caller reports pods that their kubelets have acknowledged to ``window``.
    """

    def __init__(self, api: Api, settings: KubernetesSettings, stalls: ApiStalls) -> None:
        self._api = api
        self._stalls = stalls
        self._settings = settings
        self._namespace = settings.namespace
        self._owner: Object | None = None
        self.window = CreationWindow(CREATED_TOGETHER, ACKNOWLEDGED_WITHIN)
        self._gang_creations = asyncio.Semaphore(CONCURRENT_GANG_CREATIONS)

    async def find_owner(self) -> None:
        """Look the controller of pods up: their namespace, which lives at least as long. Raises `ApiError`.

        Pods have none if the service may not read the namespace.
        """
        try:
            namespace = await self._api.get(NAMESPACES, None, self._namespace)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            log.warning(
                "The namespace %s may not be read: kubectl drain ends the pods of jobs with --force only.",
                self._namespace,
            )
        else:
            self._owner = manifests.namespace_owner(namespace)

    # ---------- creation

    async def create_pods(
        self,
        record: LaunchRecord,
        indexes: Iterable[int],
        *,
        wanted: Callable[[], bool],
        created: Callable[[int, Pod], None],
    ) -> None:
        """Create the pods of these workers, and for a gang its Service; adopt what exists.

        ``indexes`` are positions in the placement; ``created`` is called with the rank and the pod of each.
        Retries while the API is unreachable or overloaded, and for `PATIENCE` seconds while it answers with
        errors of its own; stops early when the attempt is not ``wanted`` any more. ``created`` has been called for
        every pod that exists at the return, also when others are refused.
        Raises `ApiError` if the cluster refuses an object, `ExecutorError` if it changes what a pod is known by or
        may use, or if another object has its name.
        """
        if record.gang:
            service = manifests.service(record, self._settings)
            await self._create_or_adopt(SERVICES, service, record, wanted, Object)
            if self._settings.network_policy:
                policy = manifests.network_policy(record, self._settings)
                await self._create_or_adopt(NETWORK_POLICIES, policy, record, wanted, Object)
        waiting = [self._create_pod(record, index, wanted, created) for index in indexes]
        if len(waiting) == 1:
            await waiting[0]
            return
        results = await asyncio.gather(*waiting, return_exceptions=True)
        failures = [result for result in results if result is not None]
        if failures:
            raise failures[0]

    async def check_pod(self, record: LaunchRecord) -> None:
        """Check by a dry run that the API would accept a pod of the attempt.

        Raises `ApiError` if it would not, or does not answer, `BlockedError` if it would be changed.
        """
        body = self._pod(record, 0)
        try:
            pod = await self._api.create(PODS, self._namespace, body, decode_as=Pod, dry_run=True)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            self._check_whole(pod, body)

    async def _create_pod(
        self, record: LaunchRecord, index: int, wanted: Callable[[], bool], created: Callable[[int, Pod], None]
    ) -> None:
        body = self._pod(record, index)
        pod = await self._create_or_adopt(PODS, body, record, wanted, Pod)
        if pod is not None:
            created(record.spec.placement[index].rank, pod)
            self._check_whole(pod, body)

    def _check_whole(self, pod: Pod, body: Object) -> None:
        """Check that admission has left the labels and GPUs of a pod as its ``body`` asks for them.

        Without its labels no watch reports a pod, and without its GPUs it would hold them in the pool alone.
        Raises `BlockedError`.
        """
        asked = msgspec.convert(body, Pod)
        mine, patterns = asked.metadata.labels, self._settings.gpu_resources
        lost = [label for label in mine if pod.metadata.labels.get(label) != mine[label]]
        gpus, wanted = gpus_of(pod, patterns), gpus_of(asked, patterns)
        changed = f"the label {lost[0]}" if lost else "the number of GPUs" if gpus != wanted else ""
        if changed:
            raise BlockedError(
                f"The cluster changed {changed} of the job's pod: a webhook or policy of the namespace "
                f"{self._namespace} has to leave it as it is."
            )

    def _pod(self, record: LaunchRecord, index: int) -> Object:
        return manifests.pod(record, index, self._settings, owner=self._owner)

    async def _create_or_adopt(
        self, resource: Resource, body: Object, record: LaunchRecord, wanted: Callable[[], bool], kind: type[T]
    ) -> T | None:
        """Create the object of ``body``, or return the same one that exists.

        Returns None if it is not ``wanted`` any more and does not exist: a request without an answer may have
        created it, so that the cluster is asked again before it counts as missing.
        """
        backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        may_exist = False
        failing_since: float | None = None
        with self._stalls.retrying() as record_failure:
            while wanted() or may_exist:
                try:
                    if not wanted():
                        return await self._adopt(resource, body, record.key, kind)
                    async with self._place(record, body["metadata"]["name"]):
                        return await self._api.create(resource, self._namespace, body, decode_as=kind)
                except ApiError as error:
                    if not error.transient and error.status not in (CONFLICT, UNAUTHORIZED):
                        raise
                    failure = error
                may_exist = may_exist or (failure.transient and failure.status != TOO_MANY_REQUESTS)
                now = asyncio.get_running_loop().time()
                failing_since = (failing_since or now) if _is_refusal(failure) else None
                refused = failing_since is not None and now - failing_since >= PATIENCE
                if refused or failure.reason == "AlreadyExists":
                    try:
                        existing = await self._adopt(resource, body, record.key, kind)
                    except ApiError:
                        refused = False
                    else:
                        if existing is not None:
                            return existing
                if refused:
                    raise failure
                record_failure(failure)
                await asyncio.sleep(backoff.next_delay(at_least=failure.retry_after or 0.0))
        return None

    def _place(self, record: LaunchRecord, name: str) -> AbstractAsyncContextManager[None]:
        """Return the context that limits the creation of this object."""
        return self._gang_creations if record.gang else self.window.place(name)

    async def _adopt(self, resource: Resource, body: Object, key: AttemptKey, kind: type[T]) -> T | None:
        """Return the object that has the name of ``body`` if it is the same; None if there is none.

        Raises `ApiError` if it cannot be read now, `ExecutorError` if it is another one.
        """
        name = body["metadata"]["name"]
        try:
            existing = await self._api.get(resource, self._namespace, name)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return None
        ours, theirs = body["metadata"], existing["metadata"]
        labels = theirs.get("labels") or {}
        same = all(labels.get(label) == ours["labels"][label] for label in (names.POOL, names.JOB, names.ATTEMPT))
        digest = (theirs.get("annotations") or {}).get(names.SPEC)
        if not same or digest != (ours.get("annotations") or {}).get(names.SPEC):
            raise ExecutorError(
                f"Attempt {key.attempt} of {key.job} cannot start: the namespace {self._namespace} has another "
                f"object called {name} ({resource.plural})."
            )
        return msgspec.convert(existing, kind)

    # ---------- deletion

    async def delete_pod(self, pod: Pod, grace: float) -> None:
        """Ask for the deletion of a pod within ``grace`` seconds; do nothing if it is gone. Raises `ApiError`."""
        meta = pod.metadata
        try:
            if grace > 0 and not pod.spec.node_name:
                await self._delete_unbound(pod, grace)
            else:
                await self._api.delete(PODS, self._namespace, meta.name, uid=meta.uid, grace=grace)
        except ApiError as error:
            if error.status != NOT_FOUND and not await self._is_replaced(error, pod):
                raise

    async def _delete_unbound(self, pod: Pod, grace: float) -> None:
        """Ask for the deletion of a pod that had no node when it was last seen. Raises `ApiError`.

        The API server removes a pod without a node at once, even one that is bound, and started, while it does so.
        A deletion that names the pod's version is refused instead, and repeated for what the pod is by then.
        """
        tries = DELETION_TRIES
        while True:
            found = await self._api.get(PODS, self._namespace, pod.metadata.name)
            if found["metadata"]["uid"] != pod.metadata.uid:
                return
            version = None if found["spec"].get("nodeName") else found["metadata"]["resourceVersion"]
            try:
                await self._api.delete(
                    PODS, self._namespace, pod.metadata.name, uid=pod.metadata.uid, version=version, grace=grace
                )
            except ApiError as error:
                tries -= 1
                if error.status != CONFLICT or version is None or not tries:
                    raise
            else:
                return

    async def last_warning(self, pod: Pod) -> str:
        """Return the last warning about a pod since it has a node; empty if no event of it can be read."""
        about = f"involvedObject.uid={pod.metadata.uid},type=Warning"
        try:
            found, _ = await self._api.list(EVENTS, self._namespace, fields=about)
        except ApiError:
            return ""
        last = max((each for each in found if each.get("reason") != UNSCHEDULED), key=_time_of, default=None)
        return "" if last is None else " ".join(str(last.get("message") or "").split())

    async def release_pod(self, pod: Pod) -> None:
        """Delete a pod whose end is recorded, with the finalizer of earlier versions. Raises `ApiError`."""
        meta = pod.metadata
        if names.RECORDED not in meta.finalizers:
            await self.delete_pod(pod, 0)
            return
        remaining = [name for name in meta.finalizers if name != names.RECORDED]
        body: Object = {"metadata": {"finalizers": remaining or None}}
        try:
            patched = await self._api.patch(PODS, self._namespace, meta.name, body, uid=meta.uid)
        except ApiError as error:
            if error.status == NOT_FOUND or await self._is_replaced(error, pod):
                return
            raise
        if not patched["metadata"].get("deletionTimestamp"):
            await self.delete_pod(pod, 0)

    async def delete_service(self, key: AttemptKey) -> None:
        """Delete the Service of a gang, and its network policy. Raises `ApiError`."""
        policies = [NETWORK_POLICIES] if self._settings.network_policy else []
        for resource in (*policies, SERVICES):
            try:
                await self._api.delete(resource, self._namespace, names.gang_name(key))
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise

    async def is_gone(self, pod: Pod) -> bool:
        """Return whether the cluster no longer has a pod; another may have its name. Raises `ApiError`."""
        try:
            existing = await self._api.get(PODS, self._namespace, pod.metadata.name)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return True
        return bool(existing["metadata"]["uid"] != pod.metadata.uid)

    async def _is_replaced(self, error: ApiError, pod: Pod) -> bool:
        """Return whether a conflict means that the pod is gone, and at most another has its name."""
        if error.status not in (CONFLICT, INVALID):
            return False
        try:
            return await self.is_gone(pod)
        except ApiError:
            return False


def _time_of(event: Object) -> str:
    """Return when an event happened last; the API's texts of times sort by time."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
