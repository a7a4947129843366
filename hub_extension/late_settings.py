"""Settings that a hub's file has after `configure(c)`, which would undo what Springtide has set or pass it by.

A hub that lost its spawner class that way would start notebooks without a quota, so it does not start.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy

from jupyterhub.app import JupyterHub
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

Configure = Callable[[Config], None]
"""`configure` with the overrides of its call."""


def refuse_late_settings(c: Config, configure: Configure) -> None:
    """End the hub that is loading ``c`` with a message if its complete configuration has late settings.

    A program that reads a configuration and starts no hub is left alone.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    loop.call_soon(_refuse, deepcopy(c), configure)


def late_settings(configured: Config, final: Config, configure: Configure) -> list[str]:
    """Return the settings of ``final`` after which ``configure`` would have set other values, sorted.

    ``configured`` is the configuration as `configure` left it. A setting is named as in the file, such as
    ``c.JupyterHub.spawner_class``.
    """
    return sorted(
        f"c.{section}.{name}"
        for section, name, value in _changed(configured, final)
        if _matters(configured, section, name, value, configure)
    )


def _refuse(configured: Config, configure: Configure) -> None:
    if not JupyterHub.initialized():
        return
    late = late_settings(configured, JupyterHub.instance().config, configure)
    if late:
        sys.exit(
            f"springtide: configure(c) comes before {', '.join(late)} in the hub's configuration, so Springtide "
            "would not have its quotas, roles or settings. Move configure(c) to the end of the file."
        )


def _changed(configured: Config, final: Config) -> Iterator[tuple[str, str, object]]:
    before = _plain(configured)
    for section, settings in _plain(final).items():
        for name, value in settings.items():
            if before.get(section, {}).get(name) != value:
                yield section, name, final[section][name]


def _matters(configured: Config, section: str, name: str, value: object, configure: Configure) -> bool:
    changed = deepcopy(configured)
    changed[section][name] = value
    again = deepcopy(changed)
    try:
        configure(again)
    except (ValueError, TypeError):
        return True
    return _plain(again) != _plain(changed)


def _plain(c: Config) -> dict[str, dict[str, object]]:
    """Return the settings by section; additions to a default as what they add, since they equal nothing."""
    return {
        section: {
            name: value.to_dict() if isinstance(value, LazyConfigValue) else value
            for name, value in settings.items()
            if not isinstance(value, LazyConfigValue) or value.to_dict()
        }
        for section, settings in c.items()
        if isinstance(settings, Config) and settings
    }
