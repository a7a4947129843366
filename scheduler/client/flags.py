"""The options of a job as flags of a command line: those of ``springtide submit`` and of ``%%train``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from springtide.scheduler.wire import OPTIONS, BadOption, Option, Surface
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wire.submission import offered

Command = TypeVar("Command", bound=Callable[..., Any])

METAVARS = {
    Kind.WHOLE: "N",
    Kind.DURATION: "TIME",
    Kind.CORES: "CORES",
    Kind.MEMORY: "SIZE",
    Kind.TEXT: "TEXT",
    Kind.TEXTS: "NAME,...",
    Kind.PRIORITY: "NAME|N",
    Kind.VARIABLES: "NAME=VALUE",
}
REPEATED = frozenset({Kind.TEXTS, Kind.VARIABLES})
"""The kinds whose flags may be given several times."""


def flag(option: Option) -> click.Option:
    """Return the flag of an option. Its value is None, or empty, if it is not given."""
    words = f"{option.help}  [default: {option.default_words}]"
    if option.kind is Kind.SWITCH:
        return click.Option([f"{option.flag}/{option.off}"], default=None, help=words)
    return click.Option(
        [option.name, *option.flags, option.flag],
        type=_reader(option),
        multiple=option.kind in REPEATED,
        metavar=METAVARS[option.kind],
        help=words,
    )


def flags(surface: Surface) -> list[click.Parameter]:
    """Return the flags of all options that a surface offers."""
    return [flag(option) for option in offered(surface)]


def given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among a command's parameters that were given, with their values."""
    found = {name: value for name, value in parameters.items() if name in OPTIONS and value not in (None, ())}
    return {name: _joined(value) if OPTIONS[name].kind in REPEATED else value for name, value in found.items()}


def _reader(option: Option) -> Callable[[Any], Any]:
    """Return the parser of a flag's text; it raises `click.UsageError` with the expected form."""

    def read(value: Any) -> Any:
        try:
            return option.read(value) if isinstance(value, str) else value
        except BadOption as error:
            raise click.UsageError(str(error).replace(option.name, option.flag, 1)) from error

    return read


def _joined(values: Iterable[Any]) -> Any:
    """Return the values of a repeated flag as one."""
    parts = list(values)
    if isinstance(parts[0], dict):
        return {name: value for part in parts for name, value in part.items()}
    return tuple(value for part in parts for value in part)
