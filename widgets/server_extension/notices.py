"""Notices in JupyterLab: each is shown by one page; those of a burst are counted over all pages of the server."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from springtide.scheduler.wire import Problem
from springtide.widgets.server_extension.pool_gate import GateError

MOST_KEPT: Final = 20_000
"""Number of claimed notices that are remembered, the latest ones."""

NoticeId = Annotated[str, Meta(min_length=1, max_length=600)]


CALM_S: Final = 10.0
"""Time after which a burst is over, in seconds."""
MOST_SINGLE: Final = 3
"""Number of notices within that time that are shown one by one."""


class Notice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A notification that a page would show."""

    id: NoticeId
    event: Annotated[str, Meta(pattern=r"^[a-z-]{1,40}$")]


class Notices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The notifications that a page would show."""

    notices: Annotated[list[Notice], Meta(max_length=1_000)]


class Claimed(msgspec.Struct, frozen=True):
    """The ids of the notices that a page is to show.

    In a burst ``counts`` are the events of all of it, over all pages, and ``burst`` is its number from 1 on.
    ``replaced`` are the ids of the notices before that pages show one by one, which it counts as well.
    """

    ids: list[str]
    burst: int = 0
    counts: dict[str, int] = {}
    replaced: list[str] = []


class Claims:
    """The notices that pages have shown or are about to show."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._claimed: OrderedDict[str, None] = OrderedDict()
        self._singles: list[tuple[float, Notice]] = []
        self._bursts = 0
        self._burst_at: float | None = None
        self._counts: Counter[str] = Counter()

    def claim(self, body: bytes, now: float) -> Claimed:
        """Return the notices of the body that no page has claimed before, at a steady time. Raises `GateError`."""
        try:
            wanted = msgspec.json.decode(body, type=Notices).notices
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise GateError(Problem(status=422, code="invalid", message=f"No notices: {error}.")) from None
        new = {each.id: each for each in wanted if each.id not in self._claimed}
        self._claimed.update(dict.fromkeys(new))
        while len(self._claimed) > self._most:
            self._claimed.popitem(last=False)
        if not new:
            return Claimed([])
        singles = [(at, notice) for at, notice in self._singles if now - at < CALM_S]
        goes_on = self._burst_at is not None and now - self._burst_at < CALM_S
        if not goes_on and len(singles) + len(new) <= MOST_SINGLE:
            self._singles = [*singles, *((now, notice) for notice in new.values())]
            return Claimed(list(new))
        replaced = [] if goes_on else [notice for _, notice in singles]
        if not goes_on:
            self._bursts += 1
            self._counts.clear()
        self._singles, self._burst_at = [], now
        self._counts.update(notice.event for notice in (*replaced, *new.values()))
        return Claimed(list(new), self._bursts, dict(self._counts), [notice.id for notice in replaced])
