"""Time zones by their names, such as ``Europe/Berlin``, or by their offsets, such as ``+02:00``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from springtide.scheduler.settings import SettingError
from springtide.scheduler.wording import given

MAX_ZONE: Final = 64
"""Maximum length of a time zone, in characters."""
LOCAL_TIME: Final = Path("/etc/localtime")
_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d")


def zone_of(name: str) -> tzinfo | None:
    """Return a time zone, None for an empty name: the system's. Raises `ValueError` for an unknown one."""
    if not name:
        return None
    try:
        if _OFFSET.fullmatch(name):
            return datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo
        return ZoneInfo(name) if len(name) <= MAX_ZONE else _unknown(name)
    except (KeyError, OSError):
        return _unknown(name)


def _unknown(name: str) -> tzinfo:
    raise ValueError(name)


def own_zone(environment: Mapping[str, str] = os.environ, link: Path = LOCAL_TIME) -> str:
    """Return the time zone of this process: its name if that is known, else its present offset."""
    named = environment.get("TZ")
    if named is None:
        named = os.readlink(link) if link.is_symlink() else ""  # noqa: PTH115 - the target as it is written
    name = named.removeprefix(":").rpartition("zoneinfo/")[2]
    try:
        zone = zone_of(name)
    except ValueError:
        zone = None
    return f"{datetime.now().astimezone():%z}" if zone is None else name


def pool_zone(name: str) -> tzinfo:
    """Return the time zone of the setting `time_zone`. Raises `SettingError` for an unknown one."""
    try:
        return zone_of(name) or UTC
    except ValueError:
        message = f"Springtide.time_zone: {given(name)} is no time zone known here, such as UTC or Europe/Berlin."
        raise SettingError(message) from None
