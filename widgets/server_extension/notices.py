"""Notices in JupyterLab: each is shown by one page, however many pages of the notebook server are open."""

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
    """Ids of notifications: those that a page would show, or those that it is to show."""

    ids: Annotated[list[NoticeId], Meta(max_length=1_000)]


class Claims:
    """The notices that pages have shown or are about to show."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._claimed: OrderedDict[str, None] = OrderedDict()

    def claim(self, body: bytes) -> Notices:
        """Return the notices of the body that no page has claimed before. Raises `GateError`."""
        try:
            wanted = msgspec.json.decode(body, type=Notices).ids
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise GateError(Problem(status=422, code="invalid", message=f"No notices: {error}.")) from None
        new = [each for each in dict.fromkeys(wanted) if each not in self._claimed]
        self._claimed.update(dict.fromkeys(new))
        while len(self._claimed) > self._most:
            self._claimed.popitem(last=False)
        return Notices(new)
