"""The options of a job in the arguments of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from springtide.hub_extension.commands.agents.questions import OFFERED
from springtide.scheduler.wire import BadOption
from springtide.scheduler.wire.submission import checked
from springtide.scheduler.wording import given


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as jobs carry them; those that are null are left out. Raises `BadOption`."""
    for name in options:
        if name not in OFFERED:
            close = get_close_matches(name, OFFERED, n=1)
            hint = f"Use {close[0]}." if close else f"The options are {', '.join(OFFERED)}."
            raise BadOption(name, f"There is no option {given(name)}.", hint)
    return checked({name: value for name, value in options.items() if value is not None})
