"""Where else the reports of a job are shown."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer


class TrackerLink(Answer, frozen=True, kw_only=True):
    """The address at which a tracker, such as MLflow, shows a job; None while that is not known."""

    name: str
    url: str | None


class TrackerLinks(Answer, frozen=True, kw_only=True):
    """The trackers that an administrator has set, which may be none."""

    items: list[TrackerLink]
