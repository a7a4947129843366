"""Measured use of the pool's GPUs: samples, their holders, records, answers, and stretches without use."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.engine.gpu_faults import GpuFaults
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.views import usage_view
from springtide.scheduler.engine.views.broadcast import Broadcast
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.executors.base import Executor, ExecutorError
from springtide.scheduler.store import StoreError, gpu_usage_writing
from springtide.scheduler.store.gpu_usage import DAY, FINE, UsageKey, UsageRecord, step_for
from springtide.scheduler.store.queries import usage as queries
from springtide.scheduler.store.tables import WorkspaceKey
from springtide.scheduler.telemetry.sample import GpuSample

logger = logging.getLogger(__name__)
UNUSED_BELOW = 0.1
"""Mean utilization of a job's GPUs below which they count as hardly used."""
UNUSED_AFTER = 600.0
"""Duration after which a job's view says that it hardly uses its GPUs, in seconds."""
WORKSPACE_USED_FROM = 0.01
"""Utilization of a GPU of a workspace from which the workspace counts as used."""
LONGEST_GAP = 60.0
"""Maximum time without a measurement within a stretch, in seconds; a clock that goes back further ends it, too."""
KINDS = {"gpu": ("job", "workspace", "foreign", ""), "workspace": ("workspace",), "person": ("job", "workspace")}
"""Kinds of holders whose use counts; for anything else that of jobs."""
FIELDS = {
    "gpu": ("gpu",),
    "job": ("job", "user", "project"),
    "workspace": ("user", "server"),
    "person": ("user", "project"),
    "project": ("project",),
}
"""The groupings of a usage report, and their fields of `UsageKey`."""


def attributed(samples: Iterable[GpuSample], pool: wire.PoolView, at: int) -> list[UsageRecord]:
    """Return the use in the interval from ``at``, by GPU and holder.

    A GPU that is lost, or that the pool does not have, is left out. Of several samples of a GPU the first counts.
    """
    holders = {cell.uuid: cell.holder for node in pool.nodes for cell in node.gpus}
    found: dict[str, GpuSample] = {}
    for sample in samples:
        if sample.uuid in holders and not sample.reading.lost:
            found.setdefault(sample.uuid, sample)
    return [
        UsageRecord(
            step=FINE,
            at=at,
            seconds=FINE,
            key=_key(uuid, holders[uuid]),
            simulated=sample.simulated,
            memory_peak=sample.reading.memory_used,
            reading=sample.reading,
        )
        for uuid, sample in found.items()
    ]


def _key(gpu: str, holder: wire.Holder | None) -> UsageKey:
    if holder is None:
        return UsageKey(gpu)
    server = holder.name if holder.kind == "workspace" else ""
    return UsageKey(gpu, holder.kind, holder.job, holder.user, server, holder.project)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time of hardly used GPUs, from ``since`` to ``end``, in seconds since the epoch.

    ``measured`` is the time that was measured, ``used`` the part of it in which the GPUs computed, in seconds.
    """

    since: float
    end: float
    measured: float
    used: float

    @property
    def length(self) -> float:
        """Duration in seconds."""
        return self.end - self.since

    @property
    def share(self) -> float:
        """Mean utilization, from 0 to 1."""
        return self.used / self.measured


def extended(before: Stretch | None, at: float, seconds: float, utilization: float | None) -> Stretch | None:
    """Return the stretch after the interval of ``seconds`` from ``at``; None once the GPUs are used or unknown."""
    if utilization is None or utilization >= UNUSED_BELOW:
        return None
    if before is None or abs(at - before.end) > LONGEST_GAP:
        before = Stretch(at, at, 0.0, 0.0)
    return Stretch(before.since, at + seconds, before.measured + seconds, before.used + seconds * utilization)


def stretch_of(intervals: Iterable[tuple[float, float, float | None]]) -> Stretch | None:
    """Return the stretch that intervals end with: their begin, seconds and utilization, in the order of time."""
    found = None
    for at, seconds, utilization in intervals:
        found = extended(found, at, seconds, utilization)
    return found


class GpuUsage:
    """Samples the GPUs every ten seconds, beside the engine's loop, and serves the measurements.

    ``jobs`` is the present use by job, which the read model shows. ``workspaces`` is when the GPUs of workspaces
    were last used, by user and server.
    """

    def __init__(
        self,
        executor: Executor,
        store: StoreThreads,
        read_model: ReadModel,
        broadcast: Broadcast,
        *,
        faults: GpuFaults,
        jobs: dict[str, wire.JobUsage],
        workspaces: dict[WorkspaceKey, float],
        clock: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._threads = store
        self._read_model = read_model
        self._broadcast = broadcast
        self._faults = faults
        self._jobs = jobs
        self._workspaces = workspaces
        self._clock = clock
        self._stretches: dict[str, Stretch] = {}
        self._samples: Sequence[GpuSample] = ()
        self._at: float | None = None
        self.unrecorded = ""
        """Why the latest readings were not recorded; empty if they were."""

    # ---------- sampling

    async def run(self) -> None:
        """Sample at the end of every interval, until cancelled; returns at once if nothing is measured."""
        if not self._executor.measures_gpus:
            return
        try:
            await self.recall()
        except StoreError as error:
            logger.warning("Earlier measurements are not known: %s", error)
        while True:
            now = self._clock()
            interval = int(now) // FINE * FINE
            await asyncio.sleep(interval + FINE - now)
            await self.record(interval)

    async def record(self, interval: int) -> None:
        """Read all GPUs and store the readings of the interval; a failure is noted in `unrecorded` and the log."""
        try:
            await self.sample(interval)
        except (ExecutorError, StoreError) as error:
            self.unrecorded = str(error)
            logger.warning("The use of GPUs was not recorded: %s", error)
        except Exception as error:
            self.unrecorded = f"It could not be measured ({type(error).__name__}); the service's log has more."
            logger.exception("The use of GPUs could not be measured.")
        else:
            self.unrecorded = ""

    async def sample(self, interval: int) -> None:
        """Read all GPUs, drain faulty ones, notify subscribers, and store the readings of the interval."""
        samples = await self._executor.gpu_samples(self._read_model.state.workspace_places())
        now = self._clock()
        self._samples, self._at = samples, now
        await self._faults.check(samples)
        records = attributed(samples, self._read_model.pool(), interval)
        retold = self._take_in(records, now)
        self._broadcast.publish_usage(self.pool(), self._jobs)
        self._broadcast.publish_jobs(retold)
        if records:
            await self._threads.write(self._threads.store.write, gpu_usage_writing.save, records, now)

    def _take_in(self, records: Sequence[UsageRecord], now: float) -> list[str]:
        """Update the present use; return the jobs of which something else is to be said than before."""
        before = {job: _unused(usage) for job, usage in self._jobs.items()}
        stretches: dict[str, Stretch] = {}
        found: dict[str, wire.JobUsage] = {}
        for job, group in _by_job(records).items():
            stretch = extended(self._stretches.get(job), group[0].at, FINE, usage_view.mean_utilization(group))
            if stretch is not None:
                stretches[job] = stretch
            unused = (stretch.length, stretch.share) if stretch and stretch.length >= UNUSED_AFTER else None
            found[job] = usage_view.job_usage(group, now, unused)
        self._take_in_workspaces(records)
        self._stretches = stretches
        self._jobs.clear()
        self._jobs.update(found)
        return [job for job in {*before, *found} if before.get(job) != _unused(found.get(job))]

    def _take_in_workspaces(self, records: Sequence[UsageRecord]) -> None:
        held = self._read_model.state.workspaces
        for gone in self._workspaces.keys() - held.keys():
            del self._workspaces[gone]
        for record in records:
            key = record.key
            if key.kind == "workspace" and (record.reading.utilization or 0.0) >= WORKSPACE_USED_FROM:
                self._workspaces[key.user, key.server] = float(record.at + record.seconds)

    async def recall(self) -> None:
        """Continue from the measurements before a restart. Raises `StoreError`."""
        self._faults.recall(await self._threads.read(queries.newest))
        self._workspaces.update(await self._threads.read(queries.workspaces_used, WORKSPACE_USED_FROM))
        now = self._clock()
        for job in list(self._read_model.state.live_jobs()):
            start = max(now - DAY, job.attempts[-1].created)
            records = await self._threads.read(queries.of_job, job.id, FINE, start, now)
            groups: dict[int, list[UsageRecord]] = defaultdict(list)
            for record in records:
                groups[record.at].append(record)
            stretch = stretch_of((at, FINE, usage_view.mean_utilization(group)) for at, group in groups.items())
            if stretch is not None:
                self._stretches[job.id] = stretch

    # ---------- answers

    def pool(self) -> wire.PoolUsage:
        """Return the latest readings of the pool's GPUs."""
        model = self._read_model
        readings = usage_view.readings(
            self._samples, model.pool(), model.nodes.all, self._at, measured=self._executor.measures_gpus
        )
        return structs.replace(readings, unrecorded=self.unrecorded)

    def unused(self, at_least: float) -> dict[str, float]:
        """Return since when running jobs have hardly used their GPUs, of those for which that is so long."""
        return {job: stretch.since for job, stretch in self._stretches.items() if stretch.length >= at_least}

    async def of_job(self, job_id: str, start: float, end: float) -> wire.UsageSeries:
        """Return the use of a job's GPUs in the intervals from ``start`` to ``end``, at most `MOST_POINTS`."""
        step = step_for(start, end, self._clock())
        found = await self._threads.read(queries.of_job, job_id, step, start // step * step, end)
        return usage_view.series(found, step)

    async def report(self, by: str, start: float, end: float) -> wire.UsageReport:
        """Return the use from ``start`` to ``end`` by one of `FIELDS`, the most held first."""
        step = step_for(start, end, self._clock())
        kinds = KINDS.get(by, ("job",))
        found = await self._threads.read(queries.sums, FIELDS[by], step, start // step * step, end, kinds=kinds)
        return wire.UsageReport(start=start, end=end, items=[usage_view.share(each) for each in found])


def _by_job(records: Sequence[UsageRecord]) -> Mapping[str, list[UsageRecord]]:
    found: dict[str, list[UsageRecord]] = defaultdict(list)
    for record in records:
        if record.key.job:
            found[record.key.job].append(record)
    return found


def _unused(usage: wire.JobUsage | None) -> tuple[int, int] | None:
    """Return the displayed facts about unused GPUs: the percentage, and the minutes."""
    if usage is None or usage.unused_for is None or usage.unused_share is None:
        return None
    return round(100 * usage.unused_share), int(usage.unused_for // 60)
