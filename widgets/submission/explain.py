"""The reason why a value cannot be pickled, by the name the user knows it under."""

from __future__ import annotations

import io
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from springtide.scheduler.wording import article
from springtide.widgets.submission.definitions import StrictPickler

HINT = "Make it inside the function instead, or pass the values needed to make it (a path, an address, a number)."
DEPTH = 6
ATTEMPTS = 300


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest part that fails at a step, such as being sent: its path, its value, and the error."""

    path: tuple[str, ...]
    value: Any
    error: Exception | str
    step: str = "sent"

    def __str__(self) -> str:
        kind = type(self.value)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return f"{' → '.join(self.path)} is {article(name)} and cannot be {self.step} ({self.error})"


def find_culprit(value: Any, name: str) -> Culprit | None:
    """Return the innermost part of ``value`` that cannot be pickled; None if all of it can."""
    return _Search().find(value, (name,), DEPTH)


def find_unloadable(
    candidates: Sequence[tuple[str, Any]], load: Callable[[Sequence[Any]], Mapping[int, str]]
) -> Culprit | None:
    """Return the innermost part of the candidates that cannot be loaded; None if each of them can.

    ``load`` returns the errors of loading values, by their place: it is called once for each level.
    """
    culprit: Culprit | None = None
    level = list(candidates)
    for _ in range(DEPTH):
        errors = load([value for _, value in level[:ATTEMPTS]])
        if not errors:
            break
        place = min(errors)
        label, value = level[place]
        path = (*culprit.path, label) if culprit else (label,)
        culprit = Culprit(path, value, errors[place], "loaded in a job")
        level = list(itertools.islice(parts(value), ATTEMPTS))
    return culprit


class _Search:
    def __init__(self) -> None:
        self._left = ATTEMPTS
        self._seen: dict[int, Any] = {}

    def find(self, value: Any, path: tuple[str, ...], depth: int) -> Culprit | None:
        if id(value) in self._seen or not self._left:
            return None
        self._seen[id(value)] = value
        self._left -= 1
        error = try_pickle(value)
        if isinstance(error, bytes):
            return None
        if depth:
            for label, child in parts(value):
                inner = self.find(child, (*path, label), depth - 1)
                if inner is not None:
                    return inner
        return Culprit(path, value, error)


def try_pickle(value: Any) -> bytes | Exception:
    """Return ``value`` pickled, or the error of pickling it: a user's class may raise anything."""
    file = io.BytesIO()
    try:
        StrictPickler(file).dump(value)
    except Exception as error:  # noqa: BLE001 - reported in words
        return error
    return file.getvalue()


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of ``value``, each with the name a user knows it under."""
    if isinstance(value, types.MethodType):
        yield "its object", value.__self__
        value = value.__func__
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    elif isinstance(value, partial):
        yield "the function", value.func
        yield from ((f"argument {place}", item) for place, item in enumerate(value.args, 1))
        yield from ((f"argument `{name}`", item) for name, item in value.keywords.items())
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r:.40}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    else:
        yield from ((f"attribute `{name}`", item) for name, item in _attributes(value))


def used_globals(function: types.FunctionType) -> dict[str, Any]:
    """Return the globals that the function's code mentions, nested functions included."""
    names: set[str] = set()
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"variable `{name}`", cell.cell_contents
        except ValueError:
            continue
    yield from ((f"global `{name}`", value) for name, value in used_globals(function).items())
    yield from ((f"default {place}", value) for place, value in enumerate(function.__defaults__ or (), 1))
    yield from ((f"default of `{name}`", value) for name, value in (function.__kwdefaults__ or {}).items())


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    names = dict.fromkeys(vars(value)) if hasattr(value, "__dict__") else {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.update(dict.fromkeys([slots] if isinstance(slots, str) else slots))
    for name in names:
        try:
            yield name, getattr(value, name)
        except Exception:  # noqa: BLE001, S112 - a property of the user's may raise anything
            continue
