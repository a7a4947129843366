"""Feeds of cards and of `Job.wait`: data in events is used as it is, all other data is fetched."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Event, Job, Point, PoolView
from springtide.widgets.display.document import job_data
from springtide.widgets.display.live_job import FINAL, LiveJob

T = TypeVar("T")

LOG_LINES: Final = 200
LOG_BYTES: Final = 64 * 2**10
POINTS: Final = 400
"""Maximum number of points of a card's curve."""
TRIAL_POINTS: Final = 30
"""Maximum number of points of the curve of a trial in the table of a sweep."""
TRIALS_PER_S: Final = 100
"""Trials that the card of a sweep fetches for each second between two fetches."""
PAGE: Final = 1000
FETCH_PACE_S: Final = 1.0
"""Minimum time between two requests of one card for more of the log, or for more points."""
START_PACE_S: Final = 20.0
"""Interval at which a waiting job's card asks when the job starts, while the pool changes."""
UNKNOWN_START_PACE_S: Final = 2.0
"""The same interval while no start is known."""


class JobFeed:
    """Calls ``seen`` with the job now and after each change, until it has ended; on the listener's thread.

    Calls it with an error instead if the job can no longer be fetched.
    """

    due = math.inf

    def __init__(self, client: Client, job_id: str, seen: Callable[[Job | Exception], None]) -> None:
        self._job = LiveJob(client, job_id)
        self._seen = seen

    def hear(self, event: Event) -> bool:
        """Handle an event; return whether it is about the job."""
        return self._job.hear(event)

    def forget(self) -> None:
        """Note that events may have been missed."""
        self._job.forget()

    def refresh(self) -> bool:
        """Pass on the job; return whether it can still change."""
        job = self._job.current()
        self._seen(job)
        return job.state not in FINAL

    def failed(self, error: Exception) -> None:
        """Pass on the error."""
        self._seen(error)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log: at most the last 200 lines and 64 KiB. ``next`` is the offset of the next read."""

    text: str = ""
    next: int = -LOG_BYTES

    def plus(self, text: str, following: int) -> Tail:
        """Return the tail with further text."""
        lines = (self.text + text)[-LOG_BYTES:].splitlines(keepends=True)
        return Tail("".join(lines[-LOG_LINES:]), following)


class _Paced:
    """Data that a card fetches at a limited rate: whether there is more, and the earliest time to fetch it."""

    def __init__(self) -> None:
        self.wanted = True
        self._free_at = -math.inf

    @property
    def due(self) -> float:
        """The earliest time of the next request; infinity if there is nothing to fetch."""
        return self._free_at if self.wanted else math.inf

    def take(self, now: float, *, at_once: bool = False, pace: float = FETCH_PACE_S) -> bool:
        """Return whether to fetch now, and if so record the fetch: the next one is ``pace`` seconds later."""
        if not at_once and now < self.due:
            return False
        self.wanted, self._free_at = False, now + pace
        return True


class CardFeed:
    """The content of a live card, as plain data: calls ``show`` with the changed parts.

    Keys are the card's: ``job``, ``points``, ``log``, ``trials``, ``notice``, ``colour``, ``simulated``. The job
    is drawn from events. For log and points they only announce more data, so these are fetched, once a second; and
    so are the trials of a sweep, less often the more there are.
    """

    def __init__(self, client: Client, job_id: str, show: Callable[[dict[str, Any]], None]) -> None:
        self._client = client
        self._id = job_id
        self._show = show
        self._job = LiveJob(client, job_id)
        self._points: list[Point] = []
        self._after = 0
        self._tail = Tail()
        self._more_points = _Paced()
        self._more_log = _Paced()
        self._more_trials = _Paced()
        self._about: dict[str, Any] = {}
        self._ask_start_at = math.inf

    @property
    def due(self) -> float:
        """When to refresh next even if no event comes, on the monotonic clock."""
        return min(self._more_points.due, self._more_log.due, self._more_trials.due)

    def hear(self, event: Event) -> bool:
        """Handle an event; return whether it changes the card.

        After a change of the pool the card of a waiting job requests its expected start again.
        """
        if event.kind == "pool":
            is_time = time.monotonic() > self._ask_start_at
            if is_time:
                self._job.forget()
            return is_time
        if event.kind == "log" and self._job.concerns(event):
            self._more_log.wanted = True
            return True
        if event.kind == "job" and event.data.get("sweep") == self._id:
            self._more_trials.wanted = True
            return False
        self._more_points.wanted |= event.kind == "progress" and self._job.concerns(event)
        return self._job.hear(event)

    def forget(self) -> None:
        """Note that events may have been missed."""
        self._job.forget()
        self._more_points.wanted = self._more_log.wanted = self._more_trials.wanted = True

    def refresh(self) -> bool:
        """Show the job from events, with the fetched data; return whether it can still change."""
        job = self._job.current()
        is_final = job.state in FINAL
        changed = {"job": job_data(job), **self._colours(job)}
        now = time.monotonic()
        if job.trials is None:
            self._more_trials.wanted = False
            if self._more_points.take(now, at_once=is_final):
                changed["points"] = self._fetch_points()
            if self._more_log.take(now, at_once=is_final):
                changed["log"] = self._fetch_log(to_end=is_final)
        else:
            self._more_points.wanted = self._more_log.wanted = False
            pace = FETCH_PACE_S + job.trials.number / TRIALS_PER_S
            if self._more_trials.take(now, at_once=is_final, pace=pace):
                changed["trials"] = self._fetch_trials()
        self._ask_start_at = now + _start_pace(job)
        self._show(changed)
        return not is_final

    def failed(self, error: Exception) -> None:
        """Show the error."""
        self._show({"notice": f"No longer live: {error}"})

    def _colours(self, job: Job) -> dict[str, Any]:
        """Return the project's colour, and whether GPUs are simulated, the first time."""
        if self._about:
            return {}
        pool = self._client.pool()
        colours = {project.name: project.colour for project in pool.projects}
        self._about = {"simulated": pool.simulated, "colour": colours.get(job.project)}
        return self._about

    def _fetch_points(self) -> list[dict[str, Any]]:
        while True:
            page = self._client.points(self._id, after=self._after, limit=PAGE)
            self._points.extend(page.items)
            self._after = page.next
            if len(page.items) < PAGE:
                break
        self._points = thin(self._points)
        return [msgspec.to_builtins(point) for point in self._points]

    def _fetch_trials(self) -> list[dict[str, Any]]:
        rows = self._client.all_trials(self._id)
        return [msgspec.to_builtins(replace(row, curve=thin(row.curve, TRIAL_POINTS))) for row in rows]

    def _fetch_log(self, *, to_end: bool) -> str:
        """Read from the tail on: one piece, and more while pieces are large, or to the end."""
        while True:
            chunk = self._client.log(self._id, offset=self._tail.next)
            self._tail = self._tail.plus(chunk.text, chunk.next)
            is_short = chunk.next - chunk.offset < LOG_BYTES // 2
            if not chunk.text or (is_short and not to_end):
                return self._tail.text


class PoolFeed:
    """The content of the pool at a glance: calls ``show`` with the pool now and after each change."""

    due = math.inf

    def __init__(
        self, client: Client, show: Callable[[PoolView], None], failed: Callable[[Exception], None]
    ) -> None:
        self._client = client
        self._show = show
        self.failed = failed
        self._pushed: PoolView | None = None

    def hear(self, event: Event) -> bool:
        """Handle an event; return whether it changes the pool."""
        if event.kind == "pool":
            self._pushed = msgspec.convert(event.data, PoolView)
        elif event.kind == "admin":
            self._pushed = None
        return event.kind in {"pool", "admin"}

    def forget(self) -> None:
        """Note that events may have been missed."""
        self._pushed = None

    def refresh(self) -> bool:
        """Show the pool; it never ends."""
        self._show(self._pushed or self._client.pool())
        return True


def thin(points: Sequence[T], most: int = POINTS) -> list[T]:
    """Return at most ``most`` of the points, evenly spread, first and last among them."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(place * step)] for place in range(most)]


def _start_pace(job: Job) -> float:
    """Return the seconds after which a change of the pool makes the card request the job's start again."""
    if job.state not in {"queued", "paused"}:
        return math.inf
    return UNKNOWN_START_PACE_S if job.starts is None else START_PACE_S
