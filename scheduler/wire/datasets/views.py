"""The datasets that a caller may use."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer


class DatasetView(Answer, frozen=True, kw_only=True):
    """A dataset: ``path`` is the directory in which jobs find it, ``projects`` the caller's that may use it."""

    name: str
    path: str
    projects: list[str]


class DatasetList(Answer, frozen=True, kw_only=True):
    """Datasets, by name."""

    items: list[DatasetView]
