"""Bookings: nodes and GPUs set apart from a start to an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from springtide.scheduler.model import Amount
from springtide.scheduler.wire.events import Problem
from springtide.scheduler.wire.forecast import Shift
from springtide.scheduler.wire.shapes import Answer, ProjectName, Quantity, Request, Until


class Weekly(Request, frozen=True, kw_only=True):
    """Times that come again: ``days`` such as ``sat,sun`` or ``mon-fri``, from a time of day to another.

    ``closes`` is on the next day if it is not later than ``opens``. ``zone`` is such as ``Europe/Berlin``.
    """

    days: Annotated[str, Meta(max_length=100)]
    opens: Annotated[str, Meta(max_length=5)]
    closes: Annotated[str, Meta(max_length=5)]
    zone: Annotated[str, Meta(min_length=1, max_length=100)] = "UTC"


class BookingRequest(Request, frozen=True, kw_only=True):
    """Whole ``nodes`` to reserve for a maintenance, or ``gpus`` for a ``project``; from now on without ``start``.

    It has an ``end``, or comes again and again. ``lends`` are the GPUs by which the quotas of other projects are
    lower meanwhile. One that ``replaces`` a booking of this number changes it to all of this; without ``start`` it
    goes on if it holds already.
    """

    end: Until | None = None
    every: Weekly | None = None
    start: Until | None = None
    why: Annotated[str, Meta(max_length=500)] = ""
    nodes: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...], Meta(max_length=1000)] = ()
    project: ProjectName | None = None
    gpus: Quantity = 0
    lends: Annotated[dict[ProjectName, Quantity], Meta(max_length=100)] = {}
    replaces: Annotated[int, Meta(ge=1)] | None = None


class BookingView(Answer, frozen=True, kw_only=True):
    """A booking with its times in seconds since the epoch; ``begun``: it holds now.

    One that comes ``every`` week says so in words (``repeats``), and has its present or next time; ``times`` are
    those of two weeks.
    """

    number: int
    by: str
    start: float
    end: float
    why: str
    nodes: tuple[str, ...]
    project: str
    gpus: Amount
    lends: Mapping[str, Amount]
    begun: bool
    repeats: str = ""
    every: Weekly | None = None
    times: tuple[tuple[float, float], ...] = ()


class NewBooking(Answer, frozen=True, kw_only=True):
    """A booking that was made or changed; ``notes`` say whose work it costs, and whose quota.

    ``entry`` is the number of its entry in the audit trail, by which it can be taken back.
    """

    booking: BookingView
    notes: tuple[str, ...]
    entry: int


class CancelledBooking(Answer, frozen=True, kw_only=True):
    """A booking was cancelled; ``entry`` is the number of the entry in the audit trail that brings it back."""

    entry: int


class BookingPreview(Answer, frozen=True, kw_only=True):
    """What a booking would do, in sentences; nothing is made.

    One that would be refused has the refusal in ``refused``, and in ``fits_from`` the nearest start at which it
    fits, in seconds since the epoch: None if there is none, or if the time is not at fault. ``displaced`` are
    jobs that would be paused or moved if it began now and its project used all of its quota.
    """

    said: tuple[str, ...] = ()
    displaced: tuple[Shift, ...] = ()
    refused: Problem | None = None
    fits_from: float | None = None


class Bookings(Answer, frozen=True, kw_only=True):
    """The bookings that hold or are to come, the first to begin first."""

    items: tuple[BookingView, ...]
