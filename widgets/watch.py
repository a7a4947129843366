"""Looking at one job: what a card shows of it, and what waiting for it needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Event, Job, Point

FINAL = frozenset({"succeeded", "failed", "cancelled"})
"""The states after which nothing happens to a job any more."""
LOG_LINES = 200
LOG_BYTES = 64 * 2**10
POINTS = 400
PAGE = 1000
LOOK_AGAIN_S = 20.0
"""Seconds after which a change of the pool makes a waiting job's card ask when it starts."""


class JobWatch:
    """Tells ``seen`` the job now and after each change, until it has ended; on the listener's thread.

    An error is told instead if the job cannot be asked for any more.
    """

    def __init__(self, client: Client, job_id: str, seen: Callable[[Job | Exception], None]) -> None:
        self._client = client
        self._id = job_id
        self._seen = seen

    def hears(self, event: Event) -> bool:
        """Whether the event is about the job."""
        return event.kind in {"job", "progress"} and concerns(event, self._id)

    def refresh(self) -> bool:
        """Fetch the job and tell."""
        job = self._client.job(self._id)
        self._seen(job)
        return job.state not in FINAL

    def failed(self, error: Exception) -> None:
        """Tell the error."""
        self._seen(error)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log: at most the last 200 lines and 64 KiB. ``next`` is where to read on."""

    text: str = ""
    next: int = -LOG_BYTES

    def plus(self, text: str, following: int) -> Tail:
        """The tail after more was written."""
        lines = (self.text + text)[-LOG_BYTES:].splitlines(keepends=True)
        return Tail("".join(lines[-LOG_LINES:]), following)


class CardFeed:
    """What a live card shows, as plain data: tells ``show`` which of it has changed.

    Keys are the card's: ``job``, ``points``, ``log``, ``notice``, ``colour``, ``simulated``.
    """

    def __init__(self, client: Client, job_id: str, show: Callable[[dict[str, Any]], None]) -> None:
        self._client = client
        self._id = job_id
        self._show = show
        self._points: list[Point] = []
        self._after = 0
        self._tail = Tail()
        self._about: dict[str, Any] = {}
        self._look_again = math.inf

    def hears(self, event: Event) -> bool:
        """Whether the event is about the job; the pool now and then is, as long as it makes the job wait."""
        if event.kind == "pool":
            return time.monotonic() > self._look_again
        return event.kind in {"job", "progress", "log"} and concerns(event, self._id)

    def refresh(self) -> bool:
        """Fetch what has changed and show it."""
        job = self._client.job(self._id)
        self._look_again = time.monotonic() + LOOK_AGAIN_S if job.starts is not None else math.inf
        if not self._about:
            pool = self._client.pool()
            colours = {project.name: project.colour for project in pool.projects}
            self._about = {"simulated": pool.simulated, "colour": colours.get(job.project)}
        self._show({"job": job_data(job), "points": self._more_points(), "log": self._more_log(), **self._about})
        return job.state not in FINAL

    def failed(self, error: Exception) -> None:
        """Show the error."""
        self._show({"notice": f"No longer live: {error}"})

    def _more_points(self) -> list[dict[str, Any]]:
        while True:
            page = self._client.points(self._id, after=self._after, limit=PAGE)
            self._points.extend(page.items)
            self._after = page.next
            if len(page.items) < PAGE:
                break
        self._points = thin(self._points)
        return [msgspec.to_builtins(point) for point in self._points]

    def _more_log(self) -> str:
        while True:
            chunk = self._client.log(self._id, offset=self._tail.next)
            self._tail = self._tail.plus(chunk.text, chunk.next)
            if not chunk.text:
                return self._tail.text


def thin(points: Sequence[Point], most: int = POINTS) -> list[Point]:
    """At most ``most`` of the points, evenly spread, first and last among them."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(place * step)] for place in range(most)]


def job_data(job: Job) -> dict[str, Any]:
    """The job as the card's trait: without its source, which no card shows."""
    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(job, source="", argv=[]))
    return data


def concerns(event: Event, job_id: str) -> bool:
    """Whether an event of a job is about this one."""
    return job_id == event.data.get("id", event.data.get("job"))
