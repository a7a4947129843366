"""Reads and writes of train jobs in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from springtide.hub_extension.train_jobs.kinds import Kind, kind_of
from springtide.hub_extension.train_jobs.status import Status
from springtide.scheduler.kube import (
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
    NAMESPACES,
    Api,
    ApiError,
    Object,
    Resource,
)

FINALIZER: Final = "springtide.io/cancel"
"""Keeps a deleted train job in the cluster until its job is cancelled."""
CLAIMED_BY: Final = "springtide.io/claimed-by"
CLAIMED_FOR: Final = "springtide.io/claimed-for"
"""Annotations: the pool that has claimed a train job, and the user for whom it submitted the job."""


def claimed_elsewhere(job: Object, pool: str) -> bool:
    """Return whether another pool has claimed a train job.

    A claim comes with the finalizer, and leaves a job's id in the status: people may write the annotation, too.
    """
    claimed = (job["metadata"].get("annotations") or {}).get(CLAIMED_BY) not in {None, pool}
    return claimed and (finalized(job["metadata"]) or "jobId" in (job.get("status") or {}))


def finalized(metadata: Mapping[str, Any]) -> bool:
    """Return whether deleting the train job waits for this service."""
    return FINALIZER in (metadata.get("finalizers") or ())


def deleting(metadata: Mapping[str, Any]) -> bool:
    """Return whether the deletion of a train job was requested."""
    return "deletionTimestamp" in metadata


def touched(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether another client changed a train job except its status."""
    return _theirs(before["metadata"]) != _theirs(after["metadata"])


class Cluster:
    """Reads and writes; every method raises `ApiError`. Writes never hit another object of the same name."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def namespace(self, name: str) -> Object:
        """Fetch a namespace: the owner of its train jobs is never cached."""
        return await self._api.get(NAMESPACES, None, name)

    async def policy(self, name: str) -> tuple[Object | None, Object | None]:
        """Fetch an admission policy and its binding, which has the same name; None for one that is not there."""
        return await self._find(ADMISSION_POLICIES, name), await self._find(ADMISSION_BINDINGS, name)

    async def _find(self, resource: Resource, name: str) -> Object | None:
        try:
            return await self._api.get(resource, None, name)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def look(self, kind: Kind, namespace: str, name: str, uid: str) -> Object | None:
        """Fetch a train job; return None if it is gone, also if another one has its name."""
        try:
            found = await self._api.get(kind.resource, namespace, name)
        except ApiError as error:
            if error.status == 404 and error.reason == "NotFound":
                return None
            raise
        return found if found["metadata"]["uid"] == uid else None

    async def named(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Fetch the train job of a name; return None if there is none, also if the cluster has no such kind."""
        try:
            return await self._api.get(kind.resource, namespace, name)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, job: Object) -> Object:
        """Create a train job; raises 409 if there is one of this name."""
        return await self._api.create(kind_of(job).resource, job["metadata"]["namespace"], job)

    async def change(self, job: Object, change: Object) -> Object:
        """Merge a change into a train job."""
        metadata = job["metadata"]
        return await self._api.patch(
            kind_of(job).resource, metadata["namespace"], metadata["name"], change, uid=metadata["uid"]
        )

    async def claim(self, job: Object, pool: str, user: str) -> Object:
        """Claim a train job for a pool, with a finalizer; raises 409 if it changed since it was read."""
        claim = {CLAIMED_BY: pool, CLAIMED_FOR: user}
        metadata = job["metadata"]
        if finalized(metadata) and claim.items() <= (metadata.get("annotations") or {}).items():
            return job
        finalizers = [*(f for f in metadata.get("finalizers") or () if f != FINALIZER), FINALIZER]
        return await self._patch(job, {"annotations": claim, "finalizers": finalizers})

    async def release(self, job: Object) -> Object:
        """Remove the finalizer of a train job; raises 409 if it changed since it was read."""
        left = [name for name in job["metadata"].get("finalizers") or () if name != FINALIZER]
        return await self._patch(job, {"finalizers": left or None})

    async def write_status(self, job: Object, status: Status) -> Object:
        """Replace the status; fields that are None are removed."""
        metadata = job["metadata"]
        return await self._api.patch_status(
            kind_of(job).resource, metadata["namespace"], metadata["name"], status, uid=metadata["uid"]
        )

    async def delete(self, job: Object, *, unchanged: bool = False) -> None:
        """Delete a train job; with ``unchanged`` raises 409 if it changed since it was read."""
        metadata = job["metadata"]
        await self._api.delete(
            kind_of(job).resource,
            metadata["namespace"],
            metadata["name"],
            uid=metadata["uid"],
            version=metadata["resourceVersion"] if unchanged else None,
        )

    async def _patch(self, job: Object, change: Object) -> Object:
        metadata = job["metadata"]
        body = {"metadata": {**change, "resourceVersion": metadata["resourceVersion"]}}
        return await self.change(job, body)


def _theirs(metadata: Mapping[str, Any]) -> tuple[object, ...]:
    annotations = metadata.get("annotations") or {}
    return (
        metadata.get("generation"),
        metadata.get("labels") or {},
        {key: value for key, value in annotations.items() if key not in {CLAIMED_BY, CLAIMED_FOR}},
    )
