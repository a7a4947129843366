"""Choice of the spawner class: the hub's own, with the build quota mixed in."""

from __future__ import annotations

from importlib.metadata import entry_points
from types import new_class

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner
from traitlets.utils.importstring import import_item

from springtide.scheduler.wording import given
from springtide.spawner.local import LocalBuildSpawner, SimpleBuildSpawner
from springtide.spawner.quota import BuildQuota

KUBE = ("kubespawner", "KubeSpawner")
"""Package and name of the class KubeSpawner, which is imported only if the hub's spawner derives from it."""


def with_quota(chosen: str | type | None) -> type:
    """Return a spawner class that behaves as the ``chosen`` one and enforces the build quota.

    ``chosen`` is a value of ``c.JupyterHub.spawner_class``; None means the hub's default. Raises `TypeError` for a
    value that names no spawner.
    """
    cls = spawner_class(chosen)
    if BuildQuota in cls.__mro__:
        return cls
    if cls is LocalProcessSpawner:
        return LocalBuildSpawner
    if cls is SimpleLocalProcessSpawner:
        return SimpleBuildSpawner
    if SimpleLocalProcessSpawner in cls.__mro__:
        return new_class(f"Build{cls.__name__}", (SimpleBuildSpawner, cls))
    if any((base.__module__.partition(".")[0], base.__name__) == KUBE for base in cls.__mro__):
        from springtide.spawner.kube import KubeBuildSpawner  # noqa: PLC0415 - the extra may be missing

        return (
            KubeBuildSpawner
            if cls.__name__ == KUBE[1]
            else new_class(f"Build{cls.__name__}", (KubeBuildSpawner, cls))
        )
    return new_class(f"Build{cls.__name__}", (BuildQuota, cls))


def spawner_class(chosen: str | type | None) -> type:
    """Return the class that a hub's setting names: a class, its import path, or the name of an entry point.

    Raises `TypeError` for a value that names no spawner.
    """
    cls: object = LocalProcessSpawner if chosen is None else chosen
    if isinstance(chosen, str):
        found = [entry for entry in entry_points(group="jupyterhub.spawners") if entry.name == chosen.lower()]
        cls = found[0].load() if found else import_item(chosen)
    if isinstance(cls, type) and Spawner in cls.__mro__:
        return cls
    raise TypeError(f"c.JupyterHub.spawner_class is {given(chosen)}; expected a spawner's class or name.")
