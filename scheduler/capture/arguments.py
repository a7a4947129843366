"""The arguments of a function or a notebook as data: plain values as they are, others as short texts with a type.

No code of the user's objects runs: nothing is asked for its text, and only plain containers are looked into.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import reprlib
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from springtide.scheduler.arguments import MAX_ARGUMENTS, WHOLE, Argument, bounded
from springtide.scheduler.wording import whole_characters

PLAIN: Final = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range)
"""Types of values that are shown by their text."""
MAX_DEPTH: Final = 3
"""Maximum depth of settings inside of an argument that have names of their own: ``config.optimizer.lr``."""
MAX_LOOKED: Final = 200
"""Maximum number of values in a container that are looked at."""

_short = reprlib.Repr()
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxfrozenset = 12
_short.maxstring = _short.maxother = _short.maxlong = 200


def rendered(values: Mapping[str, Any]) -> dict[str, Argument]:
    """Return values by name as arguments; the settings in dictionaries and dataclasses have names with a dot."""
    found: dict[str, Argument] = {}
    for name, value in values.items():
        for path, argument in _settings(name, value, MAX_DEPTH):
            if len(found) == MAX_ARGUMENTS:
                return bounded(found)
            found[whole_characters(path)] = argument
    return bounded(found)


def shown(value: object) -> str:
    """Return a plain value in short, and the type of any other: its text may be long to make."""
    return _written(value) if _is_plain(value, MAX_DEPTH) else f"<{type(value).__name__}>"


def _written(value: object) -> str:
    """Return a value as Python writes it, in short; of a number with too many digits for that its type."""
    try:
        return _short.repr(value)
    except ValueError:
        return f"<{type(value).__name__}>"


def _settings(name: str, value: Any, depth: int) -> Iterator[tuple[str, Argument]]:
    inside = _inside(value) if depth else None
    if not inside:
        yield name, _argument(value)
        return
    for key, part in inside.items():
        yield from _settings(f"{name}.{key}", part, depth - 1)


def _inside(value: Any) -> dict[str, Any] | None:
    """Return the named settings in a value, None for a value that has none."""
    if type(value) is dict:
        named = len(value) <= MAX_LOOKED and all(type(key) is str for key in value)
        return value if named else None
    if isinstance(value, argparse.Namespace):
        return dict(vars(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "__dict__", {})
        return {field.name: own[field.name] for field in dataclasses.fields(value) if field.name in own}
    return None


def _argument(value: Any) -> Argument:
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
        kind = type(value)
    if kind is str:
        return Argument(value=whole_characters(value))
    if value is None or kind is bool:
        return Argument(value=value)
    if kind is int and abs(value) <= WHOLE:
        return Argument(value=value)
    if kind is float and math.isfinite(value):
        return Argument(value=value)
    if isinstance(value, PurePath):
        return Argument(value=whole_characters(str(value)), type="path")
    if isinstance(value, Enum):
        return Argument(value=f"{kind.__name__}.{value.name}", type=kind.__name__)
    if kind in PLAIN and _is_plain(value, MAX_DEPTH):
        return Argument(value=_written(value), type=kind.__name__)
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and callable(value):
        return Argument(value=name, type="class" if isinstance(value, type) else "function")
    return Argument(value=f"<{kind.__name__}>", type=kind.__name__)


def _is_plain(value: object, depth: int) -> bool:
    """Return whether a value consists of plain ones, as far as its text shows it."""
    kind = type(value)
    if value is None or kind in {bool, int, float, complex, str, bytes, range}:
        return True
    if kind not in PLAIN or depth < 0 or len(value) > MAX_LOOKED:  # type: ignore[arg-type]
        return False
    if isinstance(value, dict):
        return all(_is_plain(part, depth - 1) for pair in value.items() for part in pair)
    return all(_is_plain(part, depth - 1) for part in value)  # type: ignore[attr-defined]
