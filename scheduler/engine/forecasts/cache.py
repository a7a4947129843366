"""Forecasts of the starts of waiting jobs, computed in the background for the jobs that are looked at."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from springtide.scheduler import model, wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.forecasts.accuracy import ForecastRecord
from springtide.scheduler.engine.forecasts.missed import Expectation, widened
from springtide.scheduler.engine.forecasts.run_history import RunHistory
from springtide.scheduler.engine.forecasts.worker_client import ForecastClient, ForecastError
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.pace import expected_course
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.engine.views.diagnoses import Diagnoses
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.forecast import AT_ONCE, FAR, HORIZON, NEVER, UNMEASURED, Outlook, StopTime, Window
from springtide.scheduler.model import Phase, Snapshot
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.sentences.budgets import is_limit
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.wording import SOON

logger = logging.getLogger(__name__)

MAX_WAITING_JOBS = 5_000
"""Maximum number of waiting jobs in a forecast, those next in line."""
MAX_ASKED_JOBS = 500
"""Maximum number of jobs whose start is computed in one forecast; the others come in the next."""
MAX_WANTED_JOBS = 5_000
"""Maximum number of jobs that wait for their starts to be computed, those that were asked for last."""
COMPUTING_TIME = 9.0
"""Maximum computing time of one forecast, in seconds."""
MIN_PAUSE = 1.0
"""Minimum pause between two forecasts of the pool as it is, in seconds."""
PAUSE_FACTOR = 5.0
"""Pause after a forecast, as a multiple of its duration: forecasts use at most a sixth of one core."""
FRESH = 60.0
"""Seconds after which a start is computed again although nothing has changed, because jobs keep running. A start
in the past is never fresh."""
RENEWED_S = 2 * FRESH
"""Seconds within which a start that is looked at is computed again."""
MAX_AGE = 900.0
"""Seconds for which a start that could not be renewed is shown."""
NOTABLE_CHANGE = 0.1
"""Minimum change of a start to publish, as a part of the time left."""
MIN_HORIZON = 60.0
"""Seconds: a forecast that reached less far into the future is reported as too large to compute."""
MAX_QUESTIONS = 8
"""Maximum number of what-if questions that wait for one another."""

GROWS, OCCUPIED = "grows", "occupied"
"""Codes of starts that nodes to come, or the end of processes outside the pool, would allow."""


class ForecastCache:
    """Keeps forecasts of the starts of jobs that are looked at in ``starts``, by job.

    ``diagnoses`` has what lets these jobs start. ``publish`` is called with the ids of jobs of which either has
    changed; ``record`` has the starts that are shown from then on.
    """

    def __init__(
        self,
        read_model: ReadModel,
        run_history: RunHistory,
        starts: dict[str, wire.Starts],
        diagnoses: Diagnoses,
        clock: Callable[[], float],
        *,
        publish: Callable[[Collection[str]], None],
        record: ForecastRecord,
    ) -> None:
        self._read_model = read_model
        self._planner = read_model.planner
        self._run_history = run_history
        self._starts = starts
        self._diagnoses = diagnoses
        self._clock = clock
        self._publish = publish
        self._record = record
        self._client = ForecastClient()
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._version_of: dict[str, int] = {}
        self._expectations: dict[tuple[str, int], Expectation] = {}
        """By job and number of its attempts."""
        self._requested = asyncio.Event()
        self._renewed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._took = 0.0
        self._began: float | None = None
        self._free_at = 0.0
        self._questions = 0

    # ---------- the pool as it is

    async def request(self, job_ids: Collection[str], timeout: float) -> bool:  # noqa: ASYNC109 - no error
        """Have the starts of these jobs computed, if they are unknown or out of date.

        Waits at most ``timeout`` seconds for unknown ones, and not for the others; not at all if the last forecast
        took longer, or the next one begins later. Returns whether any were unknown.
        """
        now = self._clock()
        stale = [job_id for job_id in job_ids if not self._is_fresh(job_id, now) and self._is_waiting(job_id)]
        if not stale:
            return False
        self._wanted |= dict.fromkeys(stale[:MAX_ASKED_JOBS])
        while len(self._wanted) > MAX_WANTED_JOBS:
            self._wanted.popitem(last=False)
        self._requested.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="forecasts")
        unknown = [job_id for job_id in stale if job_id not in self._starts]
        if not unknown:
            return False
        renewed, present = self._renewed, asyncio.get_running_loop().time()
        if max(present, self._free_at) + self._expected_duration(present) <= present + timeout:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await renewed.wait()
        pending = unknown_start("working", now)
        self._store({job_id: pending for job_id in unknown if job_id not in self._starts}, -1)
        return True

    def _expected_duration(self, present: float) -> float:
        """Return how long a forecast takes, in seconds: as the last one, or as the present one so far."""
        return max(self._took, 0.0 if self._began is None else present - self._began)

    def _is_fresh(self, job_id: str, now: float) -> bool:
        known = self._starts.get(job_id)
        if known is None or self._version_of[job_id] != self._read_model.version:
            return False
        passed = known.likely is not None and known.likely < now
        return not passed and now - known.at < FRESH

    async def _run(self) -> None:
        running = asyncio.get_running_loop()
        while True:
            await self._requested.wait()
            self._requested.clear()
            self._began = began = running.time()
            self._free_at = began + self._took + _pause_after(self._took)
            wanted = list(self._wanted)[:MAX_ASKED_JOBS]
            for job_id in wanted:
                del self._wanted[job_id]
            try:
                await self._renew([job_id for job_id in wanted if self._is_waiting(job_id)])
            except Exception:
                logger.exception("The starts of waiting jobs could not be forecast.")
                failed = unknown_start("failed", self._clock())
                self._store(dict.fromkeys(wanted, failed), self._read_model.version)
            self._renewed.set()
            self._renewed = asyncio.Event()
            self._took, self._began = running.time() - began, None
            pause = _pause_after(self._took)
            self._free_at = running.time() + pause
            await asyncio.sleep(pause)
            if self._wanted:
                self._requested.set()

    def _is_waiting(self, job_id: str) -> bool:
        return self._wait_of(job_id) is not None

    async def _renew(self, wanted: list[str]) -> None:
        if not wanted:
            return
        now, version, planned = self._clock(), self._read_model.version, self._planner.version
        outlook = await self._forecast(self._planner.snapshot(now), wanted, diagnosed=wanted)
        await self._show(outlook, now, version, planned)

    async def _show(self, outlook: Outlook, now: float, version: int, planned: int) -> dict[str, wire.Starts]:
        """Keep the starts of an outlook, made at ``now`` with these versions of pool and planner; return them.

        One that hardly differs from the shown one leaves that in place, so that all who look read the same. Jobs
        that have not started when they were expected have wider ones, and in the end none.
        """
        code, waits = never_code(self._read_model.nodes), self._read_model.waiting_reason
        found, changed = {}, []
        for job_id, window in outlook.starts.items():
            known = self._starts.get(job_id)
            why = never_of(code, waits(job_id) if window.why else None)
            start = as_promised(starts_of(window, now, outlook.until, why), known)
            start = self._widened(job_id, start)
            if known is None or differs(known, start, now):
                changed.append(job_id)
            else:
                start = replace(known, at=start.at)
            found[job_id] = start
        rediagnosed = self._diagnoses.store(outlook.starts_if, planned)
        self._store(found, version)
        for job_id in [
            job_id
            for job_id, start in self._starts.items()
            if start.at < now - MAX_AGE or not self._is_waiting(job_id)
        ]:
            del self._starts[job_id], self._version_of[job_id]
        for wait in [wait for wait in self._expectations if self._wait_of(wait[0]) != wait]:
            del self._expectations[wait]
        self._publish([*changed, *(rediagnosed - set(changed))])
        await self._record.add({job_id: found[job_id] for job_id in changed})
        return found

    def _widened(self, job_id: str, start: wire.Starts) -> wire.Starts:
        """Return a start as it may be shown after the earlier ones of the job."""
        wait = self._wait_of(job_id)
        if wait is None:
            return start
        shown, expectation = widened(self._expectations.get(wait), start)
        if expectation is not None:
            self._expectations[wait] = expectation
        return shown

    def _wait_of(self, job_id: str) -> tuple[str, int] | None:
        """Return the job and the number of its attempts, None if it does not wait."""
        job = self._planner.job(job_id)
        return (job_id, job.attempts) if job is not None and job.phase is Phase.WAITING else None

    def _store(self, found: Mapping[str, wire.Starts], version: int) -> None:
        self._starts.update(found)
        self._version_of.update(dict.fromkeys(found, version))

    async def look(
        self, snapshot: Snapshot, asked: list[str], diagnosed: Sequence[str]
    ) -> tuple[Outlook, dict[str, wire.Starts]]:
        """Return the outlook from the present snapshot, and the starts of jobs as they are shown from now on.

        ``diagnosed`` are waiting jobs of which is found what lets them start. Raises `Refusal` (503) if it cannot
        be computed now.
        """
        version, planned = self._read_model.version, self._planner.version
        outlook = await self.what_if(snapshot, asked, diagnosed=diagnosed)
        return outlook, await self._show(outlook, snapshot.now, version, planned)

    # ---------- the pool as it might be

    def expected_run_time(self, spec: JobSpec) -> float | None:
        """Return how long a job is expected to run by those like it, in seconds; None if nothing is known."""
        return self._run_history.expected.of(spec)

    async def what_if(
        self, snapshot: Snapshot, asked: list[str], horizon: float = HORIZON, *, diagnosed: Sequence[str] = ()
    ) -> Outlook:
        """Return the outlook from another snapshot. Raises `Refusal` (503) if it cannot be computed now.

        ``horizon`` is in seconds; 0 asks for the next decisions only. ``diagnosed`` are waiting jobs of which is
        found what lets them start.
        """
        if self._questions >= MAX_QUESTIONS:
            raise Refusal(503, "busy", "Too many ask what would be, just now.", hint="Try again in a moment.")
        self._questions += 1
        try:
            return await self._forecast(snapshot, asked, horizon, diagnosed=diagnosed)
        except ForecastError as error:
            logger.warning("%s", error)
            hint = "Try again; an administrator finds more in the service's log."
            raise Refusal(503, "unforeseen", "What would be could not be worked out.", hint=hint) from error
        finally:
            self._questions -= 1

    async def _forecast(
        self, snapshot: Snapshot, asked: list[str], horizon: float = HORIZON, *, diagnosed: Sequence[str]
    ) -> Outlook:
        await self._run_history.loaded()
        jobs, stop_times = self._read_model.state.jobs, self._run_history.stop_times
        return await self._client.ask(
            expected_course(snapshot, jobs),
            asked,
            self._run_history.run_times,
            max_waiting=MAX_WAITING_JOBS,
            horizon=horizon,
            computing_time=COMPUTING_TIME,
            diagnosed=list(diagnosed),
            stop_of=self._stop_of,
            stopping=list(stop_times.stopping(jobs.values(), snapshot.now)),
        )

    def _stop_of(self, job: model.Job) -> StopTime:
        """Return how long a pause of a job takes; none of one that is not submitted."""
        known = self._read_model.state.jobs.get(job.id)
        return AT_ONCE if known is None else self._run_history.stop_times.of(known)

    async def stop(self) -> None:
        """Stop forecasting, and end the process that computes."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.stop()


def _pause_after(took: float) -> float:
    return max(MIN_PAUSE, PAUSE_FACTOR * took)


def never_code(nodes: ObservedNodes) -> str:
    """Return the code of a start that these nodes do not allow, not even when all that runs has ended.

    No start is impossible if nodes may come, or if processes outside the pool use GPUs.
    """
    if nodes.groups:
        return GROWS
    return OCCUPIED if any(node.taken for node in nodes.train()) else NEVER


def never_of(code: str, waits: model.Reason | None) -> model.Reason:
    """Return that a job does not start on the present nodes: a ``code`` of `never_code`, and why it waits now.

    Until drains end that stand in its way, or a new month's budget begins, no start is foreseen.
    """
    if waits is not None and is_limit(waits.params):
        return messages.starts_after_month(waits)
    if code == NEVER and waits is not None and waits.params.get("drained"):
        return messages.starts_after_drains(waits)
    return messages.starts_unknown(code)


def starts_of(window: Window, now: float, until: float, never: model.Reason) -> wire.Starts:
    """Return the view of a window; ``until`` is how far the forecast reached, in seconds since the epoch.

    ``never`` is the reason of a start that the nodes do not allow, as of `never_of`.
    """
    why: model.Reason | None = None
    if window.why == FAR:
        seen = until - now
        why = (
            messages.starts_unknown(FAR, seen / 86_400)
            if seen >= MIN_HORIZON
            else messages.starts_unknown("large")
        )
    elif window.why == UNMEASURED:
        why = messages.starts_unmeasured(None if window.latest is None else window.latest - now)
    elif window.why:
        why = never if window.why == NEVER else messages.starts_unknown(window.why)
    return wire.Starts(
        earliest=_rounded(window.earliest),
        likely=_rounded(window.likely),
        latest=_rounded(window.latest),
        why=job_view.reason(why),
        at=now,
    )


def as_promised(found: wire.Starts, known: wire.Starts | None) -> wire.Starts:
    """Return a start that is expected at once with the time at which it was first expected at once.

    Else a job that something keeps from starting would be said to start any moment for as long as that lasts.
    """
    if known is None or known.likely is None or found.likely is None or found.at - known.at > RENEWED_S:
        return found
    if found.likely - found.at >= SOON or known.likely >= found.likely:
        return found
    return replace(found, earliest=known.likely, likely=known.likely)


def unknown_start(why: str, now: float) -> wire.Starts:
    """Return the view of an unknown start; ``why`` is the end of the reason's code."""
    return wire.Starts(
        earliest=None, likely=None, latest=None, why=job_view.reason(messages.starts_unknown(why)), at=now
    )


def differs(known: wire.Starts, found: wire.Starts, now: float) -> bool:
    """Return whether a start has changed enough to be shown anew. All times that have passed are alike."""
    if known.why != found.why:
        return True
    times = ((known.earliest, found.earliest), (known.likely, found.likely), (known.latest, found.latest))
    return any(_apart(before, after, now) for before, after in times)


def _apart(before: float | None, after: float | None, now: float) -> bool:
    if before is None or after is None:
        return before is not after
    left = max(0.0, after - now)
    return abs(left - max(0.0, before - now)) > max(5.0, NOTABLE_CHANGE * left)


def _rounded(at: float | None) -> float | None:
    return None if at is None else float(round(at))
