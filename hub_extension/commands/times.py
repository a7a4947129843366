"""Options of commands that are times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from springtide.scheduler.wire.moments import EXAMPLES, last_moment, moment
from springtide.scheduler.wording import end_of_day, weekday, with_offset

Command = TypeVar("Command", bound=Callable[..., Any])


class Moment(click.ParamType[float]):
    """A time as people write it, in the time zone of this machine; in seconds since the epoch."""

    name = "time"
    read = staticmethod(moment)

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the time, or fail with the given text and examples."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value, datetime.now())  # noqa: DTZ005 - local times change their offset over the year
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class LastMoment(Moment):
    """The end of a span of time as people write it; a day is part of the span."""

    read = staticmethod(last_moment)


def until_option(command: Command) -> Command:
    """Add ``--until``, as the parameter of that name."""
    text = f"Time at which it ends by itself, a day at its end: {EXAMPLES}."
    return click.option("--until", type=LastMoment(), metavar="TIME", help=text)(command)


def with_weekday(at: float, *, precise: bool = False) -> str:
    """Return a time for an answer to who wrote it: ``2026-12-04 18:00+01:00 (Friday)``."""
    return f"{with_offset(at, precise=precise)} ({weekday(at)})"


def end_words(at: float, *, precise: bool = False) -> str:
    """Return the same for an end, which at midnight is that of a day: ``the end of Friday, 2026-12-04``."""
    return end_of_day(at) or with_weekday(at, precise=precise)
