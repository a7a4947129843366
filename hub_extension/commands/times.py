"""Options of commands that are times."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from springtide.scheduler.wire.moments import EXAMPLES, moment

Command = TypeVar("Command", bound=Callable[..., Any])

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Moment(click.ParamType[float]):
    """A time as people write it, in the time zone of this machine; in seconds since the epoch."""

    name = "time"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the time, or fail with the given text and examples."""
        if not isinstance(value, str):
            return value
        try:
            return moment(value, datetime.now())  # noqa: DTZ005 - local times change their offset over the year
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class LastMoment(Moment):
    """The end of a span of time as people write it; a day is part of the span."""

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the time, or the end of the day; or fail with the given text and examples."""
        at = super().convert(value, param, ctx)
        if not isinstance(value, str) or DAY.fullmatch(value.strip()) is None:
            return at
        return (datetime.fromtimestamp(at) + timedelta(days=1)).timestamp()  # noqa: DTZ006 - as above


def until_option(command: Command) -> Command:
    """Add ``--until``, as the parameter of that name."""
    text = f"Time at which it ends by itself: {EXAMPLES}."
    return click.option("--until", type=Moment(), metavar="TIME", help=text)(command)


def local(at: float) -> str:
    """Return a time with its day and its offset from UTC, as this machine's clock has it."""
    return datetime.fromtimestamp(at).astimezone().isoformat(" ", "minutes")


def with_weekday(at: float) -> str:
    """Return the same for an answer to who wrote a time: ``2026-12-04 18:00+01:00 (Friday)``."""
    return f"{local(at)} ({datetime.fromtimestamp(at).astimezone():%A})"
