"""The caller of a request, as identified by the hub."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """A user or service of the hub.

    ``groups`` are the caller's groups on the hub and therefore the caller's projects, at most one minute old.
    ``admin`` is true for a token with the unfiltered scope ``custom:springtide:admin``, which permits the
    administration of the whole pool. ``spawner`` is true for the hub itself, which uses the service's own token.
    ``token`` authorizes requests to the hub in the caller's name.
    """

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False
    service: bool = False
    spawner: bool = False
    token: str = field(default="", repr=False)
