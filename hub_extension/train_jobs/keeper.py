"""Reconciles one train job with its job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from springtide.hub_extension.train_jobs import happenings, status
from springtide.hub_extension.train_jobs.announcer import Announcer
from springtide.hub_extension.train_jobs.cluster import Cluster, claimed_elsewhere, finalized
from springtide.hub_extension.train_jobs.converter import Converter, job_of
from springtide.hub_extension.train_jobs.happenings import Happening
from springtide.hub_extension.train_jobs.kinds import SPRINGTIDE_JOB, TRAIN_JOB, Kind
from springtide.hub_extension.train_jobs.ledger import Entry, Ledger
from springtide.hub_extension.train_jobs.manifest import in_manifest, kept_for, priority, submission_of, suspended
from springtide.hub_extension.train_jobs.owner import Owner, owner_of, person_of, served, with_person
from springtide.scheduler import wire
from springtide.scheduler.engine import Engine
from springtide.scheduler.kube import ApiError
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import UNKNOWN, Refusal
from springtide.scheduler.wording import given

WORDS_EVERY_S: Final = 10.0
"""Minimum interval of writes for a changed sentence while nothing happens to the job, in seconds."""
LONGEST_WAIT_S: Final = 86_400.0
"""Longest time until a train job with a time to live is looked at again, in seconds."""
LOG_BYTES: Final = 8_192
"""Size of the end of a log that is read for the status of a failed job, in bytes."""
ELSEWHERE: Final = frozenset({404, 409, 422})
"""Status codes of a write when the object is not the one that was read."""

GONE: Final = frozenset({"ended", UNKNOWN})
"""Codes of refusals for jobs that nothing more can be asked of."""


class Keeper:
    """Reconciler of train jobs. `keep` may be called at any time, but not concurrently for one train job.

    ``clock`` returns seconds since the epoch, ``ticks`` seconds of a monotonic clock; ``later`` queues a train job
    again after that many seconds. ``policies`` are the names of the admission policies that vouch for the users
    whom objects of a kind name, where there is one. ``ended`` counts jobs that ended, which make room for train
    jobs refused as one too many, and ``namespaces`` the changes of each namespace, which may admit those in it.
    """

    def __init__(
        self,
        engine: Engine,
        cluster: Cluster,
        announcer: Announcer,
        ledger: Ledger,
        pool: str,
        *,
        converter: Converter,
        policies: Mapping[Kind, str],
        later: Callable[[str, float], None],
        clock: Callable[[], float],
        ticks: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._announcer = announcer
        self._ledger = ledger
        self._converter = converter
        self._pool = pool
        self._policies = policies
        self._later = later
        self._clock = clock
        self._ticks = ticks
        self.ended = 0
        self.namespaces = Counter[str]()

    async def keep(self, uid: str) -> None:
        """Reconcile a train job with its job. Raises `ApiError` or `Refusal` if it has to be called again."""
        entry = self._ledger.entries.get(uid)
        if entry is None:
            return
        try:
            if entry.gone or entry.deleting:
                await self._end(entry)
            elif await self._is_ours(entry):
                await self._keep_existing(entry)
        except ApiError as error:
            if error.status in ELSEWHERE:
                await self._look_again(entry)
            raise

    async def _is_ours(self, entry: Entry) -> bool:
        """Return whether this pool has the job of a train job, or no other pool has claimed it."""
        if entry.job is None and claimed_elsewhere(entry.object, self._pool):
            return await self._job_of(entry) is not None
        return True

    # ---------- while the object exists

    async def _keep_existing(self, entry: Entry) -> None:
        earlier = entry.kind is TRAIN_JOB
        if earlier and await self._converter.settle(entry):
            return
        await self._follow(entry)
        if not await self._expire(entry) and earlier:
            await self._converter.convert(entry)

    async def _follow(self, entry: Entry) -> None:
        self._ledger.wait_no_more(entry)
        if entry.job is None and status.finished(entry.status):
            await self._release(entry)
            return
        if entry.kind is SPRINGTIDE_JOB and entry.job is None and await self._converter.succeeds(entry):
            return
        if entry.missed and entry.job is not None:
            entry.missed = False
            self._ledger.job(entry, await self._engine.job(entry.job.id))
        if entry.job is None and entry.refusal is None and (known := await self._job_of(entry)) is not None:
            self._ledger.job(entry, known)
        if entry.job is None and "jobId" in entry.status:
            if not status.finished(entry.status):  # an object that succeeds another gets its status meanwhile
                await self._write(entry, status.of_forgotten(entry.status, entry.generation))
            await self._release(entry)
            return
        if entry.job is None and entry.refusal is None and not entry.left:
            await self._admit(entry)
        if entry.job is not None:
            await self._show_job(entry, entry.job)
        elif entry.refusal is not None:
            await self._show_refusal(entry, entry.refusal)

    async def _show_job(self, entry: Entry, job: wire.Job) -> None:
        if not JobState(job.state).final:
            entry.see(await self._cluster.claim(entry.object, self._pool, job.user))
        wished = suspended(entry.object)
        if wished != bool(entry.status.get("suspended")):
            job = await self._suspend(entry, job, wished=wished)
        job, carried_out, kept = await self._prioritize(entry, job)
        log = await self._log_end(entry, job)
        happened = [*happenings.of_job(entry.status, job), *kept]
        new = status.of_job(job, entry.generation, suspended=wished, priority=carried_out, log=log)
        await self._write(entry, new, happened)
        if entry.ended:
            await self._release(entry)

    async def _show_refusal(self, entry: Entry, refusal: Refusal) -> None:
        new = status.of_refusal(refusal, entry.generation, entry.owner)
        await self._write(entry, new, happenings.of_refusal(entry.status, new, refusal))
        if not status.temporary(refusal):
            await self._release(entry)
        elif refusal.status != 429:
            self._ledger.unrefuse(entry)
            raise refusal

    async def _suspend(self, entry: Entry, job: wire.Job, *, wished: bool) -> wire.Job:
        """Pause or resume the job after a change of ``suspend``; a pause from elsewhere is left alone."""
        change = self._engine.pause if wished else self._engine.resume
        try:
            self._ledger.job(entry, await change(job.id, _by("suspend", entry)))
        except Refusal as refusal:
            if refusal.code not in GONE:
                raise
        return entry.job or job

    async def _prioritize(self, entry: Entry, job: wire.Job) -> tuple[wire.Job, str | None, list[Happening]]:
        """Change the job's priority after a change of ``priority``; one that was changed elsewhere is left alone.

        Returns the job, the priority that was carried out, and that it cannot be had. A job that runs gets it when
        it next waits.
        """
        wished, known = priority(entry.object), entry.status.get("priority")
        if known is None or wished is None or wished == known or JobState(job.state).final:
            return job, wished, []
        edit = wire.JobEdit(priority=int(wished) if wished.isdigit() else wished)
        try:
            self._ledger.job(entry, await self._engine.edit(job.id, edit, _by("priority", entry)))
        except Refusal as refusal:
            if refusal.code == "runs":
                return job, known, []
            if refusal.status >= 500 or refusal.status == 429:
                raise
            return job, wished, [happenings.of_kept_priority(in_manifest(refusal))]
        return entry.job or job, wished, []

    async def _log_end(self, entry: Entry, job: wire.Job) -> str:
        """Return the last lines of the log of a failed job's first worker."""
        if job.state != JobState.FAILED:
            return ""
        known: str = entry.status.get("log") or ""
        if known or status.finished(entry.status):
            return known
        try:
            end = await self._engine.log(job.id, 0, -LOG_BYTES, LOG_BYTES, 0.0)
        except Refusal:
            return ""
        return status.log_end(end.text)

    async def _expire(self, entry: Entry) -> bool:
        """Delete a train job that has finished as long ago as it says; return whether it was deleted."""
        kept, ended = kept_for(entry.object), status.finished_at(entry.status)
        if kept is None or ended is None or entry.left or finalized(entry.metadata):
            return False
        rest = ended + kept - self._clock()
        if rest > 0:
            self._later(entry.uid, min(rest, LONGEST_WAIT_S))
            return False
        await self._cluster.delete(entry.object)
        return True

    async def _write(self, entry: Entry, new: status.Status, happened: Sequence[Happening] = ()) -> None:
        if status.same(new, entry.status):
            return
        waits = entry.wrote_at + WORDS_EVERY_S - self._ticks()
        if waits > 0 and status.same_but_words(new, entry.status):
            self._later(entry.uid, waits)
            return
        timed = status.timed(new, entry.status, self._clock())
        gone = dict.fromkeys(entry.status.keys() - timed.keys())
        entry.see(await self._cluster.write_status(entry.object, {**gone, **timed}))
        entry.wrote_at = self._ticks()
        await self._announcer.announce(entry.object, happened)

    async def _release(self, entry: Entry) -> None:
        if finalized(entry.metadata):
            entry.see(await self._cluster.release(entry.object))

    # ---------- the job

    async def _job_of(self, entry: Entry) -> wire.Job | None:
        return await job_of(self._engine, entry.object)

    async def _admit(self, entry: Entry) -> None:
        """Submit the job, or record why it is refused."""
        self._ledger.unrefuse(entry)
        entry.owner = None
        ended, changes = self.ended, self.namespaces[entry.namespace]
        try:
            namespace = await self._cluster.namespace(entry.namespace)
            if not served(namespace, self._pool):
                self._ledger.leave(entry)
                self._look_again_after(entry, self.namespaces[entry.namespace] != changes)
                return
            entry.owner = owner = await self._owner(entry, owner_of(namespace))
            self._check_project(owner)
            submission = submission_of(entry.object, owner)
            entry.see(await self._cluster.claim(entry.object, self._pool, owner.user))
            paused_by = _by("suspend", entry) if suspended(entry.object) else ""
            job = await self._engine.submit(submission, owner.user, owner.project, paused_by=paused_by)
        except Refusal as refusal:
            self._ledger.refuse(entry, in_manifest(refusal))
            was_full = refusal.status == 429 and self.ended != ended
            self._look_again_after(entry, was_full or self.namespaces[entry.namespace] != changes)
            return
        self._ledger.job(entry, job)
        self._ledger.job(entry, await self._engine.job(job.id))

    def _look_again_after(self, entry: Entry, change: bool) -> None:
        """Check a refused entry again if a change meanwhile may admit it: its event found no refusal to lift."""
        if change:
            self._ledger.unrefuse(entry)
            self._later(entry.uid, 0.0)

    async def _owner(self, entry: Entry, owner: Owner) -> Owner:
        """Return the owner of a train job: its person, if it names one and the cluster vouches for that."""
        policy = self._policies.get(entry.kind, "")
        if not policy or person_of(entry.object) in {None, owner.user}:
            return owner
        return with_person(owner, entry.object, await self._cluster.policy(policy))

    def _check_project(self, owner: Owner) -> None:
        if not self._engine.has_project(owner.project):
            raise Refusal(
                422,
                "unknown_project",
                f"The namespace {given(owner.namespace)} belongs to project {given(owner.project)}, unknown to "
                "this pool.",
                hint="An administrator of the hub can create it and give it a quota.",
            )
        if not self._engine.has_quota(owner.project):
            raise Refusal(
                422,
                "no_quota",
                f"The project {given(owner.project)} has no quota, so nothing is guaranteed to train jobs of "
                f"namespace {given(owner.namespace)}.",
                hint="An administrator of the hub can give it one.",
            )

    # ---------- deletion

    async def _end(self, entry: Entry) -> None:
        """Cancel the job, then remove the object's finalizer."""
        if entry.job is None and not status.finished(entry.status):
            job = await self._job_of(entry)
            if job is not None:
                self._ledger.job(entry, job)
        await self._converter.end(entry)
        if entry.job is not None and not entry.ended:
            await self._cancel(entry, entry.job)
        if entry.gone:
            self._ledger.drop(entry)
            self._announcer.forget(entry.uid)
        else:
            await self._release(entry)

    async def _cancel(self, entry: Entry, job: wire.Job) -> None:
        try:
            self._ledger.job(entry, await self._engine.cancel(job.id, _by("the deletion", entry)))
        except Refusal as refusal:
            if refusal.code not in GONE:
                raise

    async def _look_again(self, entry: Entry) -> None:
        found = await self._cluster.look(entry.kind, entry.namespace, entry.name, entry.uid)
        if found is None:
            entry.gone = True
        else:
            entry.see(found)


def _by(what: str, entry: Entry) -> str:
    """Return by whom the pool says that a job was changed."""
    return f"{what} of {entry.kind.name} {entry.namespace}/{entry.name}"
