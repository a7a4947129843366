"""Homes in the pods of jobs, by the access modes of their claims; pure.

Notebooks and jobs are on different nodes. A volume that one node only can attach would keep a job from starting as
long as the notebook runs, and the notebook as long as the job runs: it is left out, wherever the notebook is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple, TypeAlias

from springtide.scheduler.model import HomeAccess

HomeRule: TypeAlias = Literal["auto", "mount", "read-only", "none"]
"""How pods of jobs get homes: as their claims allow, always, at most to read, or not at all."""

USER: Final = "hub.jupyter.org/username"
"""Annotation by which KubeSpawner notes on a claim whose home it is."""
SERVER: Final = "hub.jupyter.org/servername"
MANY: Final = "ReadWriteMany"
MANY_READ: Final = "ReadOnlyMany"


class Home(NamedTuple):
    """The home of a job's user: the claim that its pods mount, None for none, and how they have it."""

    claim: str | None = None
    access: HomeAccess = HomeAccess.USUAL


def home_in_jobs(claim: str, modes: Collection[str], rule: HomeRule) -> Home:
    """Return how the pods of jobs have the home of this claim, whose volume has these access modes."""
    access = access_by_rule(modes, rule)
    mounted = access in (HomeAccess.USUAL, HomeAccess.READ_ONLY)
    return Home(claim if mounted else None, access)


def access_by_rule(modes: Collection[str], rule: HomeRule) -> HomeAccess:
    """Return how pods on any node have a volume with these access modes."""
    if rule == "none":
        return HomeAccess.LEFT_OUT
    if set(modes) == {MANY_READ}:
        return HomeAccess.READ_ONLY
    if rule == "mount":
        return HomeAccess.USUAL
    if MANY in modes:
        return HomeAccess.READ_ONLY if rule == "read-only" else HomeAccess.USUAL
    return HomeAccess.READ_ONLY if MANY_READ in modes else HomeAccess.ONE_NODE
