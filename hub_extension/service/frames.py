"""Encoding of events for the stream, done once for all readers with the same view of an event."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from springtide.hub_extension.api.permissions import visible_projects
from springtide.hub_extension.api.views import NodeEncoder
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.wire import Event

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of all cached frames, in bytes; streams are seldom further behind than the last few events."""

Audience: TypeAlias = "tuple[str, frozenset[str]] | None"
"""Readers with the same view of an event; None stands for all readers who may see the event."""


SPAWNER = "/"
"""Audience of the hub's spawner; no person has such a name."""


class Frames:
    """Encoder of events, with a cache of the latest frames for the other readers of the same audience."""

    def __init__(self, nodes: NodeEncoder | None = None, kept_bytes: int = KEPT_BYTES) -> None:
        self._nodes = nodes or NodeEncoder()
        self._kept: LruCache[tuple[int, Audience], tuple[Event, bytes]] = LruCache(
            kept_bytes, lambda kept: len(kept[1])
        )
        self._holdings: tuple[Event, dict[str, frozenset[str]]] | None = None
        self.encoded = 0

    def frame(self, event: Event, caller: Caller) -> bytes:
        """Return the event encoded for ``caller``, who must be permitted to see it."""
        audience = self._audience(event, caller)
        key = id(event), audience
        kept = self._kept.get(key)
        if kept is not None:  # the cache keeps the event alive, so no other object has its id
            return kept[1]
        data = event.data
        if event.kind == "pool":
            data = self._nodes.pool(caller, data)
        number = b"" if event.id is None else b"id: %d\n" % event.id
        encoded = number + b"event: " + event.kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
        self.encoded += 1
        self._kept.put(key, (event, encoded))
        return encoded

    def _audience(self, event: Event, caller: Caller) -> Audience:
        """Return the audience of the event that ``caller`` belongs to.

        Only ``pool`` events differ between readers: they name jobs only to callers who may see these jobs. Callers
        who see the same projects see the same, unless they hold something outside of these.
        """
        if event.kind != "pool":
            return None
        visible = visible_projects(caller)
        if visible is None:
            return None
        if caller.spawner:
            return SPAWNER, visible
        held = frozenset[str]() if caller.service else self.holdings(event).get(caller.name, frozenset())
        return caller.name if held - visible else "", visible

    def holdings(self, event: Event) -> dict[str, frozenset[str]]:
        """Return the projects in which each user holds GPUs, of a ``pool`` event."""
        if self._holdings is None or self._holdings[0] is not event:
            self._holdings = event, self._nodes.projects_by_user(event.data["nodes"])
        return self._holdings[1]
