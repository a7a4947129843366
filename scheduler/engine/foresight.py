"""When waiting jobs are expected to start: worked out beside the engine, and only for those somebody looks at."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping

from springtide.scheduler import model, wire
from springtide.scheduler.engine import views, words
from springtide.scheduler.engine.foreseer import ForeseeError, Foreseer
from springtide.scheduler.engine.knowledge import Knowledge
from springtide.scheduler.forecast import FAR, HORIZON, Outlook, Window
from springtide.scheduler.model import Phase, Snapshot
from springtide.scheduler.refusal import Refusal

logger = logging.getLogger(__name__)

MOST_WAITING = 5_000
"""Waiting jobs that are looked at, those next in line."""
MOST_ASKED = 500
"""Jobs whose start is worked out at once; the rest comes next."""
BUDGET = 9.0
"""Seconds of computing for one forecast."""
REST = 1.0
"""The least seconds between two forecasts of the pool as it is."""
SHARE = 5.0
"""A forecast rests this many times as long as it took: at most a sixth of one core goes into looking ahead."""
FRESH = 60.0
"""Seconds after which a start is worked out again although nothing has changed: run times go on."""
KEPT = 900.0
"""Seconds for which a start that nobody could renew is still shown."""
NOTABLE = 0.1
"""The part of the time left by which a start has to change before it is told."""
LEAST_SEEN = 60.0
"""Seconds ahead from which on it is worth telling that nothing starts within them."""
LONGEST_LINE = 8
"""Questions about what would be that may wait for one another."""


class Foresight:
    """Keeps the starts of jobs that are looked at, in ``knowledge.starts``.

    ``tell`` hears of jobs whose start has changed.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        clock: Callable[[], float],
        tell: Callable[[Collection[str]], None],
    ) -> None:
        self._know = knowledge
        self._clock = clock
        self._tell = tell
        self._foreseer = Foreseer()
        self._wanted: dict[str, None] = {}
        self._seen_at: dict[str, int] = {}
        self._asked = asyncio.Event()
        self._next = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._line = 0

    # ---------- the pool as it is

    async def look(self, job_ids: Collection[str], patience: float) -> bool:
        """See that the starts of these jobs get known; those known already are renewed later, if need be.

        Waits ``patience`` seconds at most for those not known at all; whether it did.
        """
        now = self._clock()
        stale = [job_id for job_id in job_ids if not self._fresh(job_id, now) and self._waits(job_id)]
        if not stale:
            return False
        self._wanted |= dict.fromkeys(stale[:MOST_ASKED])
        self._asked.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="foresight")
        unheard = [job_id for job_id in stale if job_id not in self._know.starts]
        if not unheard:
            return False
        following = self._next
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await following.wait()
        self._keep({job_id: unknown("working", now) for job_id in unheard if job_id not in self._know.starts}, -1)
        return True

    def _fresh(self, job_id: str, now: float) -> bool:
        known = self._know.starts.get(job_id)
        return known is not None and self._seen_at[job_id] == self._know.seq and now - known.at < FRESH

    async def _run(self) -> None:
        running = asyncio.get_running_loop()
        while True:
            await self._asked.wait()
            self._asked.clear()
            began = running.time()
            wanted = list(self._wanted)[:MOST_ASKED]
            for job_id in wanted:
                del self._wanted[job_id]
            try:
                await self._renew([job_id for job_id in wanted if self._waits(job_id)])
            except Exception:
                logger.exception("When jobs start could not be worked out.")
                self._keep(dict.fromkeys(wanted, unknown("failed", self._clock())), self._know.seq)
            self._next.set()
            self._next = asyncio.Event()
            await asyncio.sleep(max(REST, SHARE * (running.time() - began)))
            if self._wanted:
                self._asked.set()

    def _waits(self, job_id: str) -> bool:
        job = self._know.planning.known(job_id)
        return job is not None and job.phase is Phase.WAITING

    async def _renew(self, wanted: list[str]) -> None:
        if not wanted:
            return
        now, seq = self._clock(), self._know.seq
        outlook = await self._ask(self._know.planning.snapshot(now), wanted)
        found = {job_id: starts_of(window, now, outlook.until) for job_id, window in outlook.starts.items()}
        known = self._know.starts
        changed = [job_id for job_id, start in found.items() if differs(known.get(job_id), start, now)]
        self._keep(found, seq)
        for job_id in [
            job_id for job_id, start in known.items() if start.at < now - KEPT or not self._waits(job_id)
        ]:
            del known[job_id], self._seen_at[job_id]
        self._tell(changed)

    def _keep(self, found: Mapping[str, wire.Starts], seq: int) -> None:
        self._know.starts.update(found)
        self._seen_at.update(dict.fromkeys(found, seq))

    # ---------- the pool as it might be

    async def what_if(self, snapshot: Snapshot, asked: list[str]) -> Outlook:
        """The outlook from another snapshot. Raises `Refusal` (503) if that cannot be worked out now."""
        if self._line >= LONGEST_LINE:
            raise Refusal(503, "busy", "Too many ask what would be, just now.", hint="Try again in a moment.")
        self._line += 1
        try:
            return await self._ask(snapshot, asked)
        except ForeseeError as error:
            logger.warning("%s", error)
            hint = "Try again; an administrator finds more in the service's log."
            raise Refusal(503, "unforeseen", "What would be could not be worked out.", hint=hint) from error
        finally:
            self._line -= 1

    async def _ask(self, snapshot: Snapshot, asked: list[str]) -> Outlook:
        await self._know.memory.recalled()
        return await self._foreseer.ask(
            snapshot, asked, self._know.memory.run_times, most=MOST_WAITING, horizon=HORIZON, budget=BUDGET
        )

    async def stop(self) -> None:
        """Look ahead no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._foreseer.stop()


def starts_of(window: Window, now: float, until: float) -> wire.Starts:
    """A window as the API tells it."""
    why: model.Reason | None = None
    if window.why == FAR:
        seen = until - now
        why = words.starts_unknown(FAR, seen / 86_400) if seen >= LEAST_SEEN else words.starts_unknown("large")
    elif window.why:
        why = words.starts_unknown(window.why)
    return wire.Starts(
        earliest=_whole(window.earliest),
        likely=_whole(window.likely),
        latest=_whole(window.latest),
        why=views.reason(why),
        at=now,
    )


def unknown(why: str, now: float) -> wire.Starts:
    """That nothing can be told of a start."""
    return wire.Starts(
        earliest=None, likely=None, latest=None, why=views.reason(words.starts_unknown(why)), at=now
    )


def differs(known: wire.Starts | None, found: wire.Starts, now: float) -> bool:
    """Whether what is known of a start has changed enough to tell."""
    if known is None or (known.likely is None) != (found.likely is None):
        return True
    if known.likely is None or found.likely is None:
        return known.why != found.why
    return abs(found.likely - known.likely) > max(5.0, NOTABLE * (found.likely - now))


def _whole(at: float | None) -> float | None:
    return None if at is None else float(round(at))
