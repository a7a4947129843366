"""The options of a job in the arguments of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springtide.hub_extension.commands.agents.questions import OFFERED
from springtide.scheduler.wire.options import unknown_option
from springtide.scheduler.wire.submission import checked


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as jobs carry them; those that are null are left out. Raises `BadOption`."""
    for name in options:
        if name not in OFFERED:
            raise unknown_option(name, OFFERED)
    return checked({name: value for name, value in options.items() if value is not None})
