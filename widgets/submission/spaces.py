"""The points of a sweep: items, grids, samples of grids, and how tables show their values."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

from springtide.scheduler import wording
from springtide.scheduler.arguments import Argument, Parameter
from springtide.scheduler.capture.arguments import shown
from springtide.scheduler.population import (
    MAX_BOUND,
    MAX_CHOICES,
    MAX_GENERATIONS,
    MAX_MEMBERS,
    MAX_SEED,
    MAX_SPACE,
    Choices,
    Population,
    Range,
)
from springtide.scheduler.wire import MAX_TRIALS
from springtide.scheduler.wording import article, count
from springtide.widgets.errors import OptionError

Points: TypeAlias = list[dict[str, Any]]
"""The parameters of each trial."""

LONG = 200
"""Maximum number of characters of an item as tables show it, and of a parameter of a sweep with very many."""
LONGEST = 2_000
"""Maximum number of characters of a parameter."""
WHOLE = 2**63
"""Bound of the whole numbers that are shown as numbers."""
SAMPLED = 4
"""A sample of less than one point in this number is drawn point by point."""


def uniform(low: float, high: float) -> Range:
    """Return the numbers from ``low`` to ``high`` as the space of a parameter, drawn uniformly."""
    return _range("uniform", low, high, log=False)


def loguniform(low: float, high: float) -> Range:
    """Return the numbers from ``low`` to ``high`` as the space of a parameter, drawn uniformly by logarithm."""
    return _range("loguniform", low, high, log=True)


def _range(name: str, low: float, high: float, *, log: bool) -> Range:
    bounds = [_python(low), _python(high)]
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not abs(bound) <= MAX_BOUND:
            msg = f"{name} got {wording.given(bound, 40)}; expected two numbers, such as {name}(0.001, 0.1)."
            raise OptionError(msg)
    written = f"{name}({wording.given(bounds[0], 40)}, {wording.given(bounds[1], 40)})"
    if not bounds[0] < bounds[1]:
        msg = f"{written} has nothing in it; the first number is the smaller one."
        raise OptionError(msg)
    if log and bounds[0] <= 0:
        msg = f"{written} begins at {wording.given(bounds[0], 40)}; a range by logarithm begins above 0."
        raise OptionError(msg)
    return Range(low=float(bounds[0]), high=float(bounds[1]), log=log)


EXPECTED: Final = {
    "members": f"the number of members, from 2 up to {MAX_MEMBERS}",
    "generations": f"the number of generations, from 1 up to {MAX_GENERATIONS}",
    "every": "a number of steps above 0",
    "space": (
        f"a range or up to {MAX_CHOICES} choices (numbers, texts, True, False or None) for each of up to "
        f"{MAX_SPACE} parameters"
    ),
    "quantile": "a number from 0 up to 0.5",
    "resample": "a probability from 0 up to 1",
    "factors": "two numbers above 0 and up to 1000, such as (0.8, 1.2)",
    "seed": f"a whole number from {-MAX_SEED:,} up to {MAX_SEED:,}",
}
"""What each field of a population takes, in words."""


def population_of(space: Any, **fields: Any) -> Population:
    """Return a population with a space and these fields. Raises `OptionError`, which names the wrong one."""
    known = {name: _python(value) for name, value in fields.items()}
    try:
        return msgspec.convert({**known, "space": _ranges_of(space)}, Population)
    except msgspec.ValidationError as error:
        name = re.split(r"[.\[]", str(error).partition(" - at ")[2].strip("`$."))[0]
        shown_name = {"members": "population"}.get(name, name)
        msg = f"{shown_name} is {wording.given(known.get(name, space), 60)}; expected {EXPECTED[name]}."
        raise OptionError(msg) from None


def _ranges_of(space: Any) -> dict[str, Range | Choices]:
    """Return the space of a population: a range or choices for each parameter. Raises `OptionError`."""
    if not isinstance(space, Mapping) or not space:
        msg = (
            f"The space of a population is {wording.given(space, 60)}; give a range or a list of choices for each "
            "parameter: {'rate': loguniform(0.001, 0.1), 'layers': [1, 2, 3]}."
        )
        raise OptionError(msg)
    _check_names(space)
    return {name: given if isinstance(given, Range) else _choices(name, given) for name, given in space.items()}


def _choices(name: str, given: Any) -> Choices:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        msg = (
            f"`{name}` is {article(type(given).__name__)}, {wording.given(given)}; a population has a range or a "
            f"list of choices for each parameter: {{{name!r}: uniform(0, 1)}} or {{{name!r}: [{given!r:.40}]}}."
        )
        raise OptionError(msg)
    found = [_python(choice) for choice in given]
    for choice in found:
        if not (choice is None or isinstance(choice, str | bool) or _is_number(choice)):
            msg = (
                f"A choice of `{name}` is {wording.given(choice)}, {article(type(choice).__name__)}. Choices are "
                "text, numbers, bools and None: give a name, and look up its value in the function."
            )
            raise OptionError(msg)
    return tuple(found)


def points_of(space: Any, trials: int | None, seed: int) -> Points:
    """Return the points of a space: all, or ``trials`` of them, chosen by ``seed``.

    ``space`` maps parameters to lists of values, of which all combinations are points, or it is a list of
    dictionaries. Raises `OptionError`.
    """
    if isinstance(space, Mapping):
        return _grid(space, trials, seed)
    points = _dictionaries(space)
    if not points:
        msg = "The space is empty: it has no points, so there is nothing to run."
        raise OptionError(msg)
    return [points[place] for place in _places(len(points), trials, seed)]


def listed(items: Iterable[Any]) -> list[Any]:
    """Return the items, one for each trial. Raises `OptionError`."""
    try:
        found = list(itertools.islice(items, MAX_TRIALS + 1))
    except TypeError:
        msg = f"The items are {article(type(items).__name__)}; give a list, with one trial for each item."
        raise OptionError(msg) from None
    if not found:
        msg = "There are no items, so there is nothing to run."
        raise OptionError(msg)
    if len(found) > MAX_TRIALS:
        msg = f"There are more than {MAX_TRIALS:,} items, and a sweep has at most {MAX_TRIALS:,} trials."
        raise OptionError(msg)
    return found


def _dictionaries(space: Any) -> list[dict[str, Any]]:
    if isinstance(space, str) or not isinstance(space, Iterable):
        msg = (
            f"The space is {article(type(space).__name__)}; give lists of values by parameter, "
            "{'lr': [0.1, 0.01]}, a list of dictionaries, or a study of Optuna."
        )
        raise OptionError(msg)
    points = list(space)
    for place, point in enumerate(points):
        if not isinstance(point, Mapping):
            msg = (
                f"Point {place} of the space is {article(type(point).__name__)}, {wording.given(point)}; each is "
                "a dictionary of parameters. For other items there is pool.map."
            )
            raise OptionError(msg)
        _check_names(point)
    return [dict(point) for point in points]


def _check_names(names: Iterable[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            msg = f"A parameter is called {wording.given(name)}; its name is that of a parameter of the function."
            raise OptionError(msg)


def _grid(space: Mapping[Any, Any], trials: int | None, seed: int) -> Points:
    _check_names(space)
    values: dict[str, list[Any]] = {}
    for name, given in space.items():
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            msg = (
                f"`{name}` is {article(type(given).__name__)}, {wording.given(given)}; a space has a list of "
                f"values for each parameter: {{{name!r}: [{given!r:.40}]}}."
            )
            raise OptionError(msg)
        values[name] = list(given)
        if not values[name]:
            msg = f"`{name}` has no values, so the space is empty. Leave it out or give it some."
            raise OptionError(msg)
    if not values:
        msg = "The space is empty: name parameters and their values, such as {'lr': [0.1, 0.01]}."
        raise OptionError(msg)
    total = math.prod(map(len, values.values()))
    return [_point(values, place) for place in _places(total, trials, seed)]


def _places(total: int, trials: int | None, seed: int) -> Iterable[int]:
    """Return the tried ones of ``total`` points: all in their order, or a sample."""
    if trials is None:
        if total > MAX_TRIALS:
            msg = (
                f"The space has {total:,} points, and a sweep has at most {MAX_TRIALS:,} trials. "
                "Say trials=… for a sample, or let a study of Optuna choose."
            )
            raise OptionError(msg)
        return range(total)
    number = number_of_trials(trials, "")
    if number > total:
        msg = (
            f"The space has only {count(total, 'point')}, so there cannot be {number:,} trials. Leave trials out."
        )
        raise OptionError(msg)
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    if number * SAMPLED > total:
        return chance.sample(range(total), number)
    chosen: dict[int, None] = {}
    while len(chosen) < number:
        chosen[chance.randrange(total)] = None
    return chosen


def bound_of_trials(at_most: Any) -> int | None:
    """Return the maximum number of unfinished trials, None for no bound. Raises `OptionError`."""
    bound = _python(at_most)
    if bound is None or (isinstance(bound, int) and not isinstance(bound, bool) and 1 <= bound <= MAX_TRIALS):
        return bound
    msg = (
        f"at_most is {wording.given(at_most, 40)}; expected the number of trials that are unfinished at a time, "
        f"from 1 up to {MAX_TRIALS}, or None for no bound."
    )
    raise OptionError(msg)


def number_of_trials(trials: int | None, missing: str) -> int:
    """Return the number of trials; raise `OptionError` if there is none, with ``missing``, or if it is invalid."""
    if trials is None:
        raise OptionError(missing)
    if isinstance(trials, bool) or not isinstance(trials, int) or not 1 <= trials <= MAX_TRIALS:
        msg = f"trials is {wording.given(trials, 40)}; expected a whole number from 1 to {MAX_TRIALS:,}."
        raise OptionError(msg)
    return trials


def _point(values: dict[str, list[Any]], place: int) -> dict[str, Any]:
    """Return a point of the grid; the last parameter changes fastest."""
    point: dict[str, Any] = {}
    for name in reversed(values):
        place, index = divmod(place, len(values[name]))
        point[name] = values[name][index]
    return {name: point[name] for name in values}


def parameter(name: str, value: Any, most: int = LONG) -> Parameter:
    """Return a value as tables and filters have it. Raises `OptionError` for one they could not have."""
    if not _is_plain(value):
        msg = (
            f"Parameter `{name}` has the value {wording.given(value)}, {article(type(value).__name__)}. "
            "Parameters of a sweep are text, numbers, bools, None, and lists of these: give a name, and look up "
            "in the function what it stands for. pool.map takes anything that can be pickled."
        )
        raise OptionError(msg)
    return as_shown(value, most)


def as_shown(value: Any, most: int = LONG) -> Parameter:
    """Return a value as JSON has it: text, numbers, bools and None as they are, anything else as text with a type.

    A text of more than ``most`` characters is shortened.
    """
    plain = _python(value)
    if plain is None or isinstance(plain, bool) or _is_number(plain):
        return cast("Parameter", plain)
    text = plain if isinstance(plain, str) else wording.as_python(plain) if _is_plain(plain) else shown(plain)
    text = wording.whole_characters(text)
    kind = "" if isinstance(plain, str) else type(plain).__name__
    if len(text) > most:
        return Argument(value=f"{text[: most - 1]}…", type=kind or "text")
    return Argument(value=text, type=kind) if kind else text


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(map(_is_plain, [*value, *value.values()]))
    return _python(value) is None or isinstance(_python(value), str | int | float)


def _python(value: Any) -> Any:
    """Return a scalar of NumPy as that of Python, also those in containers; anything else as it is."""
    if type(value) in {list, tuple}:
        return type(value)(map(_python, value))
    if type(value) is dict:
        return {_python(key): _python(part) for key, part in value.items()}
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def _is_number(value: Any) -> bool:
    """Return whether JSON can express the number."""
    if isinstance(value, int):
        return -WHOLE <= value < WHOLE
    return isinstance(value, float) and math.isfinite(value)
