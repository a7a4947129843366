"""A request as its preset fills it in, for what a client says of a job before it sends it."""

from __future__ import annotations

from typing import TypeVar

from springtide.scheduler.wire import Me, PresetView, Wish
from springtide.scheduler.wire.presets import filled

W = TypeVar("W", bound=Wish)


def as_filled(wish: W, me: Me) -> W:
    """Return a request of this person with the options of its preset; as it is without one that is known."""
    preset = _preset_of(wish, me)
    return wish if preset is None else filled(wish, preset.options)


def _preset_of(wish: Wish, me: Me) -> PresetView | None:
    """Return the preset that a request means: that of its project, if the project is known before it is sent."""
    named = [each for each in me.presets if each.name == wish.preset]
    project = wish.project or me.default_project
    return next((each for each in named if project in each.projects), next(iter(named), None))
