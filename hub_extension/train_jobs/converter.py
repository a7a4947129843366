"""Replaces TrainJobs by SpringtideJobs that go on with their jobs.

The steps: a SpringtideJob is created; it gets the status; the job gets its uid as key, in the store; the TrainJob
is deleted, if it is unchanged. A service that dies between two of them goes on where it was, by what it
finds: the job answers to one of the two uids at any time, and no SpringtideJob gets a job of its own while the
TrainJob that it succeeds is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from springtide.hub_extension.train_jobs import conversion, happenings, status
from springtide.hub_extension.train_jobs.announcer import Announcer
from springtide.hub_extension.train_jobs.cluster import (
    CLAIMED_BY,
    CLAIMED_FOR,
    Cluster,
    deleting,
    finalized,
)
from springtide.hub_extension.train_jobs.kinds import SPRINGTIDE_JOB, TRAIN_JOB
from springtide.hub_extension.train_jobs.ledger import Entry, Ledger
from springtide.hub_extension.train_jobs.owner import person_of
from springtide.scheduler import wire
from springtide.scheduler.engine import Engine
from springtide.scheduler.kube import ApiError, Object
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wording import given

TRY_AGAIN_S: Final = 600.0
"""Time after which the cluster is asked again to take a SpringtideJob that it refused, in seconds."""
MOST_TRIES: Final = 10
REFUSALS: Final = frozenset({400, 403, 413, 422})
"""Status codes of a creation that the cluster refuses, and would refuse again."""


async def job_of(engine: Engine, found: Object) -> wire.Job | None:
    """Return the job that was submitted for this very object, or adopted by it.

    The users in annotations and status are only hints: no other job has the object's uid as its key.
    """
    metadata = found["metadata"]
    annotations = metadata.get("annotations") or {}
    hints = (annotations.get(CLAIMED_FOR), (found.get("status") or {}).get("user"))
    for user in dict.fromkeys(hints):
        if user and (job := await engine.job_of_key(user, metadata["uid"])) is not None:
            return job
    return None


class Converter:
    """Replaces TrainJobs by SpringtideJobs, once ``open`` says that the cluster knows these.

    ``later`` queues a train job again after that many seconds, ``ticks`` returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        engine: Engine,
        cluster: Cluster,
        announcer: Announcer,
        ledger: Ledger,
        pool: str,
        *,
        later: Callable[[str, float], None],
        ticks: Callable[[], float],
    ) -> None:
        self.open = False
        self._engine = engine
        self._cluster = cluster
        self._announcer = announcer
        self._ledger = ledger
        self._pool = pool
        self._later = later
        self._ticks = ticks

    # ---------- a TrainJob that exists

    async def settle(self, old: Entry) -> bool:
        """Finish the conversion of a TrainJob whose job another object has, and check one that has no job yet.

        Return whether the TrainJob is settled by that. One whose name is taken is refused.
        """
        if old.job is not None or old.refusal is not None:
            return False
        if (job := await job_of(self._engine, old.object)) is not None:
            self._ledger.job(old, job)
            return False
        found = await self._named(old)
        if found is None:
            return False
        if conversion.succeeds(found, old.object) or await self._has_adopted(found, old):
            await self._finish(old, found, begun=True)
            return True
        if "jobId" in old.status or status.finished(old.status):
            return False
        if conversion.repeats(old.object, found):
            await self._cluster.delete(old.object, unchanged=True)
            return True
        self._ledger.refuse(old, _name_taken(old.name))
        return False

    async def convert(self, old: Entry) -> None:
        """Replace a TrainJob by a SpringtideJob that goes on with its job. Raises `ApiError` and `Refusal`."""
        if not self.open or not _may_be_converted(old) or self._ticks() < old.convert_at:
            return
        found = await self._named(old)
        made = found is None
        found = await self._create(old) if found is None else await self._accepted(old, found)
        if found is not None:
            await self._finish(old, found, begun=not made and old.job is None)

    async def _named(self, old: Entry) -> Object | None:
        """Return the SpringtideJob of a TrainJob's name, None if this service can see none yet."""
        try:
            return await self._cluster.named(SPRINGTIDE_JOB, old.namespace, old.name)
        except ApiError as error:
            if self.open or error.status != 403:
                raise
            return None

    async def _create(self, old: Entry) -> Object | None:
        """Make the SpringtideJob of a TrainJob; return None if the cluster refuses it.

        None, too, if the TrainJob is being deleted, maybe because its SpringtideJob was.
        """
        seen = await self._cluster.look(TRAIN_JOB, old.namespace, old.name, old.uid)
        if seen is None or deleting(seen["metadata"]):
            return None
        claim = {} if old.job is None else {CLAIMED_BY: self._pool, CLAIMED_FOR: old.job.user}
        unfinished = old.job is not None and not old.ended
        try:
            return await self._cluster.create(conversion.converted(old.object, claim, unfinished=unfinished))
        except ApiError as error:
            if error.status not in REFUSALS:
                raise
            await self._put_off(old, f"The cluster refuses the SpringtideJob: {error}")
            return None

    async def _accepted(self, old: Entry, found: Object) -> Object | None:
        """Return the SpringtideJob of a TrainJob's name if it succeeds the TrainJob, and None otherwise."""
        if not conversion.succeeds(found, old.object):
            await self._put_off(old, "A SpringtideJob of its name is another train job.")
            return None
        if deleting(found["metadata"]):
            await self._cluster.delete(old.object)
            return None
        return found

    async def _put_off(self, old: Entry, why: str) -> None:
        old.convert_at = self._ticks() + TRY_AGAIN_S
        self._later(old.uid, TRY_AGAIN_S)
        await self._announcer.announce(old.object, [happenings.of_unconverted(why)])

    async def _finish(self, old: Entry, found: Object, *, begun: bool) -> None:
        """Give status and job of a TrainJob to the SpringtideJob that succeeds it, and delete the TrainJob.

        ``begun`` says that an earlier call may have asked for this deletion.
        """
        metadata = found["metadata"]
        if old.status and not found.get("status"):
            shown = status.of_successor(old.status, int(metadata.get("generation", 1)))
            found = await self._cluster.write_status(found, shown)
        if old.job is not None:
            if not old.ended:
                found = await self._cluster.claim(found, self._pool, old.job.user)
            await self._engine.rekey(old.job.id, old.uid, metadata["uid"])
            self._ledger.hand_over(old)
        await self._let_go(old, found, begun=begun)
        self._later(metadata["uid"], 0.0)
        await self._announcer.announce(found, [happenings.CONVERTED])

    async def _let_go(self, old: Entry, found: Object, *, begun: bool) -> None:
        """Delete a TrainJob, whose last changes the SpringtideJob gets.

        If it is deleted by others first, the job is to be cancelled: the SpringtideJob goes, too. Where an
        earlier call may have been the one, the job goes on.
        """
        own: set[int] = set()
        for _ in range(MOST_TRIES):
            change = conversion.changed_since(found, old.object, own)
            if change is not None:
                found = await self._cluster.change(found, change)
                own.add(int(found["metadata"]["generation"]))
            try:
                await self._cluster.delete(old.object, unchanged=True)
            except ApiError as error:
                if error.status not in {404, 409}:
                    raise
                seen = await self._cluster.look(TRAIN_JOB, old.namespace, old.name, old.uid)
                if seen is None or deleting(seen["metadata"]):
                    if not begun:
                        await self._cluster.delete(found)
                    return
                old.see(seen)
            else:
                return
        raise ApiError(409, "Conflict", f"The TrainJob {old.namespace}/{old.name} changes all the time.")

    async def _has_adopted(self, found: Object, old: Entry) -> bool:
        """Return whether a SpringtideJob has the job of a TrainJob already."""
        if conversion.origin(found) != old.uid:
            return False
        job = await job_of(self._engine, found)
        return job is not None and job.id == old.status.get("jobId")

    # ---------- the SpringtideJob

    async def succeeds(self, entry: Entry) -> bool:
        """Return whether a SpringtideJob waits for the conversion of the TrainJob that it succeeds.

        The ledger knows that it waits before the cluster is asked: a change meanwhile queues it again.
        """
        self._ledger.wait_for_name(entry)
        old = await self._origin(entry)
        if old is None or (deleting(old["metadata"]) and not finalized(old["metadata"])):
            self._ledger.wait_no_more(entry)
            return False
        return True

    async def _origin(self, entry: Entry) -> Object | None:
        if conversion.origin(entry.object) is None:
            return None
        old = await self._cluster.named(TRAIN_JOB, entry.namespace, entry.name)
        return old if old is not None and conversion.succeeds(entry.object, old) else None

    # ---------- deletion

    async def end(self, entry: Entry) -> None:
        """Delete the other one, too, if a TrainJob or its SpringtideJob goes before the job changes hands."""
        if entry.kind is TRAIN_JOB and entry.job is not None:
            found = await self._named(entry)
            if found is not None and conversion.succeeds(found, entry.object):
                await self._cluster.delete(found)
        if entry.kind is SPRINGTIDE_JOB and entry.job is None:
            old = await self._origin(entry)
            if old is not None and not deleting(old["metadata"]):
                await self._cluster.delete(old)


def _may_be_converted(old: Entry) -> bool:
    """Return whether a TrainJob can be replaced: the service has looked at it, and vouches for whom it names.

    The person of one without a job is not verified. As a SpringtideJob it would be made by the service, whom
    the cluster trusts with names.
    """
    if old.left or old.refused_as == "name_taken":
        return False
    person = person_of(old.object)
    if old.job is not None:
        return person in {None, old.job.user}
    return person is None and (old.refusal is not None or status.finished(old.status))


def _name_taken(name: str) -> Refusal:
    return Refusal(
        409,
        "name_taken",
        f"The namespace has a SpringtideJob {given(name)}, which asks for something else or for another user.",
        field="metadata.name",
        hint="Change that one, or give this one another name, and write kind: SpringtideJob.",
    )
