"""Forwards the reports of jobs to a tracker, in the background.

Reports are read from the pool's own records, after the last one that the tracker has; the event stream only names
the jobs with new reports. So an unreachable tracker costs only an id for each waiting job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from springtide.hub_extension.tracking.tracker import NotTakenError, Run, Tracker, TrackerDownError, record
from springtide.scheduler.backoff import Backoff
from springtide.scheduler.engine import Engine, JobFilter
from springtide.scheduler.model import SHOWN_STATES
from springtide.scheduler.model import UNFINISHED as UNFINISHED_STATES
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Point

log = logging.getLogger("springtide")

INTERVAL_S: Final = 5.0
"""Time in which reports are gathered before they are sent, in seconds."""
FIRST_DELAY_S: Final = 1.0
MAX_DELAY_S: Final = 60.0
"""Delays before a tracker that is down is tried again, in seconds."""
PAGE: Final = 1_000
"""Maximum number of reports that are read at a time."""
JOBS_PAGE: Final = 500
MAX_WAITING: Final = 20_000
"""Maximum number of jobs with waiting reports; beyond it the longest waiting are left out until they change."""
REPLAYED: Final = 2_000
"""Number of recorded events that are read after a start, for jobs that have ended meanwhile."""
UNFINISHED: Final = frozenset(UNFINISHED_STATES)
FINAL: Final = frozenset(SHOWN_STATES) - UNFINISHED


class Forwarder:
    """Forwards to one tracker while `run` runs. ``interval`` is in seconds."""

    def __init__(
        self,
        engine: Engine,
        tracker: Tracker,
        *,
        interval: float = INTERVAL_S,
        backoff: Backoff | None = None,
    ) -> None:
        self._engine = engine
        self._tracker = tracker
        self._interval = interval
        self._backoff = backoff or Backoff(FIRST_DELAY_S, MAX_DELAY_S)
        self._runs: dict[str, Run] = {}
        self._not_taken: set[str] = set()
        self._waiting: dict[str, None] = {}
        self._arrived = asyncio.Event()
        self._down = False
        self._full = False

    async def run(self) -> None:
        """Forward until this is cancelled. Raises nothing else."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen(), name=f"{self._tracker.name}: news")
            tasks.create_task(self._send(), name=f"{self._tracker.name}: reports")

    # ---------- jobs with new reports

    async def _listen(self) -> None:
        waits = Backoff(FIRST_DELAY_S, MAX_DELAY_S)
        while True:
            try:
                await self._follow()
            except Exception:
                log.exception("The events of jobs cannot be read for %s", self._tracker.name)
                await asyncio.sleep(waits.next_delay())
            else:
                return

    async def _follow(self) -> None:
        """Note the jobs with reports: those that are unfinished, those of recent events, and those of new ones."""
        events = self._engine.events
        after = max(0, events.newest() - REPLAYED)
        await self._note_unfinished()
        async for some in events.stream(after):
            for event in some:
                if event.kind == "refetch":
                    await self._note_unfinished()
                elif event.kind == "job":
                    self._note(event.data["id"])
                elif event.kind == "progress":
                    self._note(event.data["job"])

    async def _note_unfinished(self) -> None:
        wanted, cursor = JobFilter(states=UNFINISHED, trials=True), None
        while True:
            page = await self._engine.jobs(wanted, cursor, JOBS_PAGE)
            for job in page.items:
                self._note(job.id)
            if page.next is None:
                return
            cursor = page.next

    def _note(self, job_id: str) -> None:
        if job_id not in self._waiting and len(self._waiting) >= MAX_WAITING:
            self._waiting.pop(next(iter(self._waiting)))
            if not self._full:
                self._full = True
                log.warning("%s: the reports of more than %d jobs wait", self._tracker.name, MAX_WAITING)
        self._waiting[job_id] = None
        self._arrived.set()

    # ---------- their reports

    async def _send(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(self._interval)
            self._arrived.clear()
            for job_id in tuple(self._waiting):
                self._waiting.pop(job_id, None)
                try:
                    await self._forward(job_id)
                except TrackerDownError as error:
                    self._note(job_id)
                    await self._wait_out(error)
                except NotTakenError as error:
                    self._not_taken.add(job_id)
                    log.warning("%s does not take what job %s reported: %s", self._tracker.name, job_id, error)
                except Refusal as refusal:
                    if refusal.status != 404:  # it cannot be read at present
                        self._note(job_id)
                except Exception:
                    log.exception("%s: what job %s reported was not forwarded", self._tracker.name, job_id)

    async def _wait_out(self, error: TrackerDownError) -> None:
        if not self._down:
            log.warning("%s is away: %s. Reports are kept and sent later", self._tracker.name, error)
        self._down = True
        await asyncio.sleep(self._backoff.next_delay())

    async def _forward(self, job_id: str) -> None:
        """Forward a job's new reports and its state; raises as `Tracker`."""
        try:
            job = await self._engine.job(job_id)
        except Refusal:
            self._forget(job_id)
            raise
        if job.progress.at is None and job_id not in self._runs:
            return
        if job.tests is None and job_id not in self._not_taken:
            if job_id not in self._runs:
                self._runs[job_id] = await self._tracker.open(job)

            async def reports(after: int) -> Sequence[Point]:
                return (await self._engine.points(job_id, after, PAGE)).items

            await record(self._runs[job_id], job, reports)
            self._answered()
        if job.state in FINAL:
            self._forget(job_id)

    def _answered(self) -> None:
        self._backoff.reset()
        self._full = self._full and len(self._waiting) >= MAX_WAITING
        if self._down:
            self._down = False
            log.info("%s takes reports again", self._tracker.name)

    def _forget(self, job_id: str) -> None:
        self._runs.pop(job_id, None)
        self._not_taken.discard(job_id)
