"""The time zone of a pool, by its name in the database of time zones."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from springtide.scheduler.settings import SettingError
from springtide.scheduler.wording import given


def zone_named(name: str) -> tzinfo:
    """Return the time zone of a name such as ``Europe/Berlin``. Raises `SettingError` for an unknown one."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise SettingError(
            f"Springtide.time_zone: {given(name)} is no time zone known here, such as UTC or Europe/Berlin."
        ) from error
