"""What an admin declares by name for all projects or for some: datasets and secrets; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class Declared:
    """A declaration with a ``name``. ``projects`` may use it, with the projects inside them; None is all."""

    __slots__ = ()

    name: str
    projects: tuple[str, ...] | None

    def is_for(self, lineage: Iterable[str]) -> bool:
        """Return whether a project may use it; ``lineage`` is the project and its ancestors."""
        return self.projects is None or not set(self.projects).isdisjoint(lineage)


@dataclass(frozen=True, slots=True)
class NamedSecret(Declared):
    """Environment variables that jobs get by the name of a secret, and their storage; never their values.

    On one machine it is a ``file`` of ``NAME=value`` lines, on a cluster the ``secret`` of that name in the
    namespace of jobs. Without both it no longer exists.
    """

    name: str
    file: str = ""
    secret: str = ""
    projects: tuple[str, ...] | None = None

    @property
    def is_there(self) -> bool:
        """Whether the secret exists."""
        return bool(self.file or self.secret)
