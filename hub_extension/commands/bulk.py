"""Commands that act on several things: what can be done is done, and what cannot is said at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from springtide.hub_extension.commands.text import one_line
from springtide.scheduler.client import PoolError
from springtide.scheduler.wording import given

T = TypeVar("T")


def refused(thing: str, error: PoolError) -> str:
    """Return why a thing was refused on one line that names it, once."""
    words = one_line(str(error))
    return words if given(thing) in words else f"{thing}: {words}"


def on_each(things: Sequence[T], act: Callable[[T], None]) -> None:
    """Act on each thing. One that is refused does not keep the others; then the exit code is 1.

    Raises `click.ClickException` with all refusals, and `PoolError` if the only thing is refused.
    """
    problems = []
    for thing in things:
        try:
            act(thing)
        except PoolError as error:
            if len(things) == 1:
                raise
            problems.append(one_line(str(error)))
    if problems:
        raise click.ClickException("\n".join(problems))
