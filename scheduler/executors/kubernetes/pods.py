"""Making pods and letting them go: each act looks at what is there first, and may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from springtide.scheduler.executors.base import AttemptKey, ExecutorError
from springtide.scheduler.executors.kubernetes import manifests, names
from springtide.scheduler.executors.kubernetes.backlog import Backlog
from springtide.scheduler.executors.kubernetes.manifests import Order
from springtide.scheduler.executors.kubernetes.seen import Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import NETWORK_POLICIES, PODS, SERVICES, Api, ApiError, Object, Resource

FIRST_WAIT = 0.2
LONGEST_WAIT = 5.0
NOT_FOUND = 404
CONFLICT = 409
INVALID = 422
UNAUTHORIZED = 401


class Pods:
    """The pods and Services of attempts, in one namespace; what has to wait is counted in the ``backlog``."""

    def __init__(self, api: Api, settings: KubernetesSettings, backlog: Backlog) -> None:
        self._api = api
        self._backlog = backlog
        self._settings = settings
        self._namespace = settings.namespace

    async def make(self, order: Order, places: Iterable[int], wanted: Callable[[], bool]) -> list[tuple[int, Pod]]:
        """Make the pods of these places, and for a gang what they meet by; what is there already is adopted.

        As long as the API is away, ill or busy this waits for it, and ends early if the attempt is not ``wanted``
        any more. Raises `ApiError` if the cluster refuses one of them, `ExecutorError` if something else is there.
        """
        if order.gang:
            await self._until_made(SERVICES, manifests.service(order, self._settings), order, wanted)
            if self._settings.network_policy:
                policy = manifests.network_policy(order, self._settings)
                await self._until_made(NETWORK_POLICIES, policy, order, wanted)
        made = await asyncio.gather(
            *(self._make_one(order, place, wanted) for place in places), return_exceptions=True
        )
        failed = [each for each in made if isinstance(each, BaseException)]
        if failed:
            raise failed[0]
        return [each for each in made if isinstance(each, tuple)]

    async def _make_one(self, order: Order, place: int, wanted: Callable[[], bool]) -> tuple[int, Pod] | None:
        body = manifests.pod(order, place, self._settings)
        made = await self._until_made(PODS, body, order, wanted)
        return None if made is None else (order.spec.placement[place].rank, msgspec.convert(made, Pod))

    async def _until_made(
        self, resource: Resource, body: Object, order: Order, wanted: Callable[[], bool]
    ) -> Object | None:
        wait = FIRST_WAIT
        with self._backlog.trying() as refused:
            while wanted():
                try:
                    return await self._api.create(resource, self._namespace, body)
                except ApiError as error:
                    if error.status == CONFLICT and error.reason == "AlreadyExists":
                        found = await self._adopt(resource, body, order.key)
                        if found is not None:
                            return found
                    elif not error.passing and error.status not in (CONFLICT, UNAUTHORIZED):
                        raise
                    refused(error)
                    pause = max(wait, min(LONGEST_WAIT, error.retry_after or 0.0))
                await asyncio.sleep(pause)
                wait = min(LONGEST_WAIT, wait * 2)
        return None

    async def _adopt(self, resource: Resource, body: Object, key: AttemptKey) -> Object | None:
        """What has the name that we wanted, if it is ours; None if it cannot be seen just now."""
        name = body["metadata"]["name"]
        try:
            found = await self._api.get(resource, self._namespace, name)
        except ApiError:
            return None
        ours, theirs = body["metadata"], found["metadata"]
        labels = theirs.get("labels") or {}
        same = all(labels.get(label) == ours["labels"][label] for label in (names.POOL, names.JOB, names.ATTEMPT))
        digest = (theirs.get("annotations") or {}).get(names.SPEC)
        if not same or digest != (ours.get("annotations") or {}).get(names.SPEC):
            raise ExecutorError(
                f"Attempt {key.attempt} of {key.job} cannot start: the namespace {self._namespace} has another "
                f"object called {name} ({resource.plural})."
            )
        return found

    async def stop(self, pod: Pod, grace: float) -> None:
        """Ask for a pod to end within ``grace`` seconds; one that is gone already is no matter."""
        meta = pod.metadata
        try:
            await self._api.delete(PODS, self._namespace, meta.name, uid=meta.uid, grace=grace)
        except ApiError as error:
            if error.status != NOT_FOUND and not await self._replaced(error, pod):
                raise

    async def release(self, pod: Pod) -> None:
        """The end of the pod is on record: let it disappear."""
        meta = pod.metadata
        kept = [name for name in meta.finalizers if name != names.RECORDED]
        body: Object = {"metadata": {"finalizers": kept or None}}
        try:
            now = await self._api.patch(PODS, self._namespace, meta.name, body, uid=meta.uid)
        except ApiError as error:
            if error.status == NOT_FOUND or await self._replaced(error, pod):
                return
            raise
        if not now["metadata"].get("deletionTimestamp"):
            await self.stop(pod, 0)

    async def remove_service(self, key: AttemptKey) -> None:
        """Delete what the workers of a gang met by."""
        policies = [NETWORK_POLICIES] if self._settings.network_policy else []
        for resource in (*policies, SERVICES):
            try:
                await self._api.delete(resource, self._namespace, names.gang_name(key))
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise

    async def _replaced(self, error: ApiError, pod: Pod) -> bool:
        """Whether a conflict is that the pod is gone, and another has its name at most."""
        if error.status not in (CONFLICT, INVALID):
            return False
        try:
            found = await self._api.get(PODS, self._namespace, pod.metadata.name)
        except ApiError as missing:
            return missing.status == NOT_FOUND
        return bool(found["metadata"]["uid"] != pod.metadata.uid)
