"""Notices in JupyterLab: every page lists them, and the first page that asks for one shows it in front."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from springtide.scheduler.wire import Problem
from springtide.widgets.server_extension.pool_gate import GateError

MOST_KEPT: Final = 20_000
"""Number of claimed notices that are remembered, the latest ones."""

NoticeId = Annotated[str, Meta(min_length=1, max_length=600)]


class Notices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ids of the notifications that a page has heard of."""

    notices: Annotated[list[NoticeId], Meta(max_length=1_000)]


class Claimed(msgspec.Struct, frozen=True):
    """The ids of the notices that no other page has claimed."""

    ids: list[str]


class Claims:
    """The notices that pages have claimed."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._claimed: OrderedDict[str, None] = OrderedDict()

    def claim(self, body: bytes) -> Claimed:
        """Return the notices of the body that no page has claimed before. Raises `GateError`."""
        try:
            wanted = msgspec.json.decode(body, type=Notices).notices
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise GateError(Problem(status=422, code="invalid", message=f"No notices: {error}.")) from None
        new = {each: None for each in wanted if each not in self._claimed}
        self._claimed.update(new)
        while len(self._claimed) > self._most:
            self._claimed.popitem(last=False)
        return Claimed(list(new))
