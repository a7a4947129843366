"""Who makes a request, as the hub says."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """A user or service of the hub.

    ``groups`` are the hub's groups at most a minute ago, and so the projects. ``admin`` means all of the pool:
    a hub admin, or a holder of the unfiltered scope ``custom:springtide:admin``. ``spawner`` is the hub itself,
    holding the service's own token. ``token`` acts on the hub in the caller's name.
    """

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False
    service: bool = False
    spawner: bool = False
    token: str = field(default="", repr=False)
