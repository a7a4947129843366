"""Runs as rows of a table: their values by name, conditions on them, and their order; pure.

A condition is text such as ``lr > 0.1 and val_loss < 0.3``. Names are those of arguments, of metrics (their last
value), and of `FIELDS`; ``best.NAME``, ``last.NAME`` and ``argument.NAME`` say which is meant. A name of `FIELDS`
alone is always that column, whatever arguments a run has. A value that is not finite equals ``nan``, ``inf`` or
``-inf``; ``nan`` is neither smaller nor larger than anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from difflib import get_close_matches
from enum import Enum
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from springtide.scheduler.arguments import Argument, Value, read
from springtide.scheduler.metrics import Extremes, Values, best_of, goal_of
from springtide.scheduler.model import SHOWN_STATES
from springtide.scheduler.time_zones import zone_of
from springtide.scheduler.wording import given

MAX_CONDITION: Final = 500
"""Maximum length of a condition, in characters."""
MAX_DEPTH: Final = 20
"""Maximum depth of brackets in a condition."""
EXAMPLE: Final = "Example: lr > 0.01 and best.val_loss < 0.3"
LIST_EXAMPLE: Final = "A list is found by a part of its text: layers ~ 2; one of several values: lr in (0.1, 0.2)."
UNITS: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
ARGUMENT, LAST, BEST = "argument.", "last.", "best."

_NAME = r"(?:[^\W\d]|\*)[\w*@/:-]*(?:\.[\w*@/:-]+)*"
NAME = re.compile(_NAME)
"""A name of a value, as conditions have it without quotes."""
_LEFT, _RIGHT = "\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}"
_QUOTED = rf"'[^']*'|\"[^\"]*\"|“[^”]*”|{_LEFT}[^{_RIGHT}]*{_RIGHT}"
_MINUS = "\N{MINUS SIGN}"
_UNIT = "(?:s|min|m|h|d)"
_PART = rf"\d+(?:\.\d+)?\s*{_UNIT}"
_TOKEN = re.compile(
    rf"\s*(?:(?P<date>\d{{4}}-\d{{1,2}}-\d{{1,2}}(?:T[\d:.]*\d(?:Z|[+-]\d\d:?\d\d)?)?(?![\w.]))"
    rf"|(?P<number>(?P<amount>[+\-{_MINUS}]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+\-{_MINUS}]?\d+)?)"
    rf"(?:\s*(?P<unit>{_UNIT})(?P<more>(?:\s*{_PART})*))?(?![\w.]))"
    rf"|(?P<operator>==|!=|<=|>=|[=<>~≤≥≠])|(?P<bracket>[()\[\],])|(?P<quoted>{_QUOTED})"
    rf"|(?P<prefixed>(?:argument|last|best)\.(?:{_QUOTED}))|(?P<name>{_NAME})|(?P<word>[^\s()\[\],<>=!~≤≥≠]+))"
)
_SAME: Final = {"==": "=", "≤": "<=", "≥": ">=", "≠": "!="}
"""Other ways to write operators."""
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
"""Operators as they are when the name comes after the value."""
_LISTS: Final = {"(": ")", "[": "]"}
"""The brackets around the values of a list."""
_VALUES: Final = frozenset({"number", "date", "quoted", "name", "word"})
_EQUALITY: Final = frozenset({"=", "!="})
_ORDERING: Final = frozenset({"<", "<=", ">", ">="})
_CONSTANTS: Final[Mapping[str, Value]] = {
    "true": True,
    "false": False,
    "none": None,
    "null": None,
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
}


class Run(Struct, frozen=True, kw_only=True):
    """A job as a row of the table. ``state`` is the shown one; ``gpus`` are those of all its workers.

    ``forked_from`` has the id and the name of the job from whose checkpoint, of the step ``fork_step``, it began;
    ``generation`` and ``member`` are of a trial of a population; that population has its present generation.
    """

    id: str
    seq: int
    name: str
    user: str
    project: str
    state: str
    submitted: float
    started: float | None = None
    ended: float | None = None
    gpus: int = 0
    tags: tuple[str, ...] = ()
    note: str = ""
    preset: str | None = None
    step: float | None = None
    forked_from: tuple[str, ...] = ()
    fork_step: float | None = None
    generation: int | None = None
    member: int | None = None
    arguments: Mapping[str, Argument] = {}
    values: Values = {}
    extremes: Mapping[str, Extremes] = {}


_STATES: Final = ("running", "starting", "pausing", "cancelling", "ending", "paused", "queued")
"""The states of unfinished jobs, in the order of lists that begin with running ones."""


class Secret(Enum):
    """The value of a hidden argument: there is one, and nothing is known of it."""

    HIDDEN = "hidden"


Texts: TypeAlias = tuple[str, ...]
Cell: TypeAlias = Value | Texts | Secret
"""A value of a run; a tuple holds several words, of which any one may match."""

FIELDS: Final[Mapping[str, Callable[[Run, float], Cell]]] = {
    "id": lambda run, _: run.id,
    "name": lambda run, _: run.name,
    "user": lambda run, _: run.user,
    "project": lambda run, _: run.project,
    "state": lambda run, _: run.state,
    "active": lambda run, _: _STATES.index(run.state) if run.state in _STATES else len(_STATES),
    "gpus": lambda run, _: run.gpus,
    "tag": lambda run, _: run.tags,
    "note": lambda run, _: run.note,
    "preset": lambda run, _: run.preset,
    "step": lambda run, _: run.step,
    "forked_from": lambda run, _: run.forked_from,
    "fork_step": lambda run, _: run.fork_step,
    "generation": lambda run, _: run.generation,
    "member": lambda run, _: run.member,
    "submitted": lambda run, _: run.submitted,
    "started": lambda run, _: run.started,
    "latest": lambda run, _: math.inf if run.ended is None else run.ended,
    "duration": lambda run, now: None if run.started is None else (run.ended or now) - run.started,
}
"""The names that every run has. ``duration`` is the time from its first start to its end, else to now, in s."""


class UnknownNameError(Exception):
    """A name that none of the runs has; ``near`` is the most similar of those that ``known`` are, if any is."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.name = name
        self.known = known
        self.near = next(iter(get_close_matches(name, known, 1)), None)


class NoNumberError(Exception):
    """An order by a text, of a value that is a number in all runs that have it."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(name)
        self.name = name
        self.value = value


class ConditionError(Exception):
    """A condition that cannot be read. ``message`` names the mistake and its place, ``hint`` gives an example."""

    def __init__(self, message: str, place: int, hint: str = EXAMPLE) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint


def value_of(run: Run, name: str, now: float) -> Cell:
    """Return a value of a run by its name in conditions and orders; None if it has none."""
    if name in FIELDS:
        return FIELDS[name](run, now)
    if name in run.arguments:
        return _shown(run.arguments[name])
    if name in run.values:
        return run.values[name]
    if name.startswith(ARGUMENT):
        argument = run.arguments.get(name.removeprefix(ARGUMENT))
        return None if argument is None else _shown(argument)
    if name.startswith(LAST):
        return run.values.get(name.removeprefix(LAST))
    if name.startswith(BEST):
        metric = name.removeprefix(BEST)
        extremes = run.extremes.get(metric)
        return None if extremes is None else best_of(extremes, goal_of(metric)).value
    return None


def _may_be_none(run: Run, name: str) -> bool:
    """Return whether none is the value of a run by this name: of a column, or of an argument that is there."""
    return name in FIELDS or name in run.arguments or name.removeprefix(ARGUMENT) in run.arguments


def _shown(argument: Argument) -> Value | Secret:
    return Secret.HIDDEN if argument.hidden else argument.value


def check_names(names: Iterable[str], runs: Sequence[Run]) -> None:
    """Raise `UnknownNameError` for a name that is not in `FIELDS`, and no argument or metric of the runs.

    Names with ``argument.``, ``last.`` or ``best.`` before them may be those of later runs.
    """
    asked = [name for name in names if name not in FIELDS and not name.startswith((ARGUMENT, LAST, BEST))]
    if not asked:
        return
    known = dict.fromkeys(name for run in runs for name in (*run.arguments, *run.values))
    for name in asked:
        if runs and name not in known:
            raise UnknownNameError(name, [*known, *FIELDS])


class Absent(NamedTuple):
    """A metric or an argument that none of some runs has; ``known`` are those that they have."""

    kind: str
    name: str
    known: tuple[str, ...]

    @property
    def near(self) -> str | None:
        """The most similar of those that are known, if any is."""
        return next(iter(get_close_matches(self.name, self.known, 1)), None)


def absent(names: Iterable[str], runs: Sequence[Run]) -> list[Absent]:
    """Return the metrics and arguments, named as such, that none of the runs has; nothing without runs.

    A metric that a condition or an order asks for may be one of later runs, so that this is no error of theirs.
    """
    arguments = tuple(dict.fromkeys(name for run in runs for name in run.arguments))
    metrics = tuple(dict.fromkeys(name for run in runs for name in (*run.values, *run.extremes)))
    kinds = {ARGUMENT: ("argument", arguments), LAST: ("metric", metrics), BEST: ("metric", metrics)}
    asked = [
        Absent(kind, name.removeprefix(prefix), known)
        for name in names
        for prefix, (kind, known) in kinds.items()
        if name.startswith(prefix)
    ]
    return [each for each in dict.fromkeys(asked) if runs and each.name not in each.known]


def check_values(condition: Condition, runs: Sequence[Run], now: float) -> None:
    """Raise `NoNumberError` for a text that is compared with numbers of all runs."""
    for each in comparisons_of(condition):
        if each.operator not in _ORDERING or not isinstance(each.value, str):
            continue
        cells = [cell for run in runs if (cell := value_of(run, each.name, now)) is not None]
        if cells and all(map(_is_number, cells)):
            raise NoNumberError(each.name, each.value)


def names_of(condition: Condition) -> Iterator[str]:
    """Yield the names in a condition."""
    return (each.name for each in comparisons_of(condition))


def comparisons_of(condition: Condition) -> Iterator[Comparison]:
    """Yield the comparisons in a condition."""
    match condition:
        case Comparison():
            yield condition
        case Both(parts) | Either(parts):
            for part in parts:
                yield from comparisons_of(part)
        case Not(part):
            yield from comparisons_of(part)


# ---------- conditions


class Comparison(Struct, frozen=True, tag=True):
    """``name operator value``; without an operator the run has the value, and it is not false.

    ``from_now``: the value is in seconds from now on.
    """

    name: str
    operator: str = ""
    value: Value = None
    from_now: bool = False


class Both(Struct, frozen=True, tag=True):
    """All of the conditions hold."""

    parts: tuple[Condition, ...]


class Either(Struct, frozen=True, tag=True):
    """One of the conditions holds."""

    parts: tuple[Condition, ...]


class Not(Struct, frozen=True, tag=True):
    """The condition does not hold."""

    part: Condition


Condition: TypeAlias = Comparison | Both | Either | Not


def holds(condition: Condition, run: Run, now: float) -> bool:
    """Return whether a condition holds. A comparison of a value that the run does not have never does."""
    match condition:
        case Comparison(name, operator, value, from_now):
            moment = now + value if from_now and isinstance(value, float) else value
            cell = value_of(run, name, now)
            return (cell is not None or _may_be_none(run, name)) and _compared(cell, operator, moment)
        case Both(parts):
            return all(holds(part, run, now) for part in parts)
        case Either(parts):
            return any(holds(part, run, now) for part in parts)
        case Not(part):
            return not holds(part, run, now)


def _compared(cell: Cell, operator: str, value: Value) -> bool:
    if isinstance(cell, Secret):
        return not operator or (operator == "!=" and value is None)
    if isinstance(cell, tuple):
        if operator == "!=":
            return all(_compared(word, operator, value) for word in cell)
        return bool(cell) if not operator else any(_compared(word, operator, value) for word in cell)
    if not operator:
        return cell is not None and cell is not False
    if cell is None or value is None:
        same = cell is value
        return same if operator == "=" else not same if operator == "!=" and value is None else False
    if operator == "~":
        return str(value).lower() in str(cell).lower() or (_is_number(cell) and _compared(cell, "=", value))
    if _is_number(cell) or _is_number(value):
        one, other = _numbers(operator, cell, value)
        if one is not None and other is not None:
            return _ordered(operator, one, other)
        if operator not in _EQUALITY:
            return False
    return _ordered(operator, _text(cell), _text(value))


def _ordered(operator: str, one: float | str, other: float | str) -> bool:
    match operator:
        case "=":
            return one == other or (one != one and other != other)  # noqa: PLR0124 - nan
        case "!=":
            return not _ordered("=", one, other)
        case "<":
            return one < other  # type: ignore[operator]
        case "<=":
            return one <= other  # type: ignore[operator]
        case ">":
            return one > other  # type: ignore[operator]
        case _:
            return one >= other  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(operator: str, *values: Value) -> list[float | None]:
    """Return values as numbers, None for others. Texts count as equal to numbers: 1, 1.0 and 1e0 are one."""
    found = (read(each) if operator in _EQUALITY and isinstance(each, str) else each for each in values)
    return [each if isinstance(each, int | float) and not isinstance(each, bool) else None for each in found]


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


class _Token(NamedTuple):
    kind: str
    text: str
    value: Value
    place: int
    unit: str = ""


def parse(text: str, zone: str = "") -> Condition:
    """Return the condition in a text. Raises `ConditionError` with the place of the mistake, counted from 1.

    Dates without a time zone are in ``zone``, as `zone_of` has it.
    """
    if len(text) > MAX_CONDITION:
        message = f"The condition has {len(text)} characters; at most {MAX_CONDITION} are read."
        raise ConditionError(message, MAX_CONDITION)
    reader = _Reader([*_tokens(text), _Token("end", "", None, len(text) + 1)], zone)
    found = reader.either(0)
    rest = reader.token
    if rest.kind != "end":
        message = f"The condition before character {rest.place} is complete; {given(rest.text)} cannot follow it."
        raise ConditionError(message, rest.place, f"Put and or or between two conditions. {EXAMPLE}")
    return found


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            place += len(text[place:]) - len(text[place:].lstrip())
            raise ConditionError(f"{given(text[place])} at character {place + 1} has no meaning here.", place + 1)
        kind = str(found.lastgroup) if found.lastgroup != "unit" else "number"
        unit = found["unit"] or ""
        if kind == "word" and found[kind][0] in f"'\"“{_LEFT}":
            at = found.start(kind) + 1
            raise ConditionError(f"The quote at character {at} is not closed.", at)
        word, place_of = found[kind], found.start(kind) + 1
        value: Value = word
        if kind == "number":
            word = word.replace(_MINUS, "-")
            number = _number_of(found["amount"].replace(_MINUS, "-"), unit, found["more"] or "")
            if not math.isfinite(number):
                raise ConditionError(f"The number at character {place_of} is too large.", place_of)
            value = number
        elif kind == "quoted":
            value = word[1:-1]
        elif kind == "prefixed":
            prefix = word.partition(".")[0]
            kind, value = "quoted", f"{prefix}.{word[len(prefix) + 2 : -1]}"
        elif word.lower() in _CONSTANTS:
            value = _CONSTANTS[word.lower()]
        yield _Token(kind, word, value, place_of, unit)
        place = found.end()


def _number_of(amount: str, unit: str, more: str) -> float:
    """Return the number of a token; a length of time such as ``2 h 5 min`` in seconds, its sign for all parts."""
    parts = re.findall(rf"([\d.]+)\s*({_UNIT})", more)
    rest = sum(float(number) * UNITS[of] for number, of in parts)
    return float(amount) * UNITS.get(unit, 1) + (-rest if amount.startswith("-") else rest)


def _unexpected(token: _Token, expected: str) -> ConditionError:
    if token.kind == "end":
        return ConditionError(f"The condition ends too early: expected {expected}.", token.place)
    message = f"Expected {expected} at character {token.place}, not {given(token.text)}."
    return ConditionError(message, token.place)


def _check_state(token: _Token) -> None:
    text = str(token.value).lower()
    if text in SHOWN_STATES:
        return
    near = get_close_matches(text, SHOWN_STATES, 1)
    hint = f"Did you mean {near[0]}?" if near else f"States are {', '.join(SHOWN_STATES)}."
    message = f"{given(token.text, 40)} at character {token.place} is no state of a job. {hint}"
    raise ConditionError(message, token.place)


_TIMES: Final = frozenset({"submitted", "started"})
_NUMBERS: Final = frozenset({"active", "gpus", "step", "fork_step", "generation", "member"})


def _holds_numbers(name: str) -> bool:
    """Return whether all values by this name are numbers."""
    return name in _NUMBERS or name == "duration" or name.startswith((LAST, BEST))


def _compare(name: str, operator: str, token: _Token, zone: str) -> Comparison:
    """Return a comparison with a value of the kind that a column or a metric has. Raises `ConditionError`."""
    if operator == "~" and token.kind != "quoted" and not _holds_numbers(name):
        token = token._replace(kind="word", value=token.text, unit="")
    if name == "state" and operator in _EQUALITY:
        _check_state(token)
    if token.kind != "quoted" and token.value is None and operator not in _ORDERING:
        return Comparison(name, operator, None)
    if name in _TIMES:
        return _compare_time(name, operator, token, zone)
    if name == "duration":
        return Comparison(name, operator, _number(name, token, "a duration in s, min, h or d", f"{name} > 2h"))
    if name in _NUMBERS and token.unit:
        raise _wrong_value(name, token, "a number", f"{name} > 2")
    if _holds_numbers(name):
        return Comparison(name, operator, _number(name, token, "a number", f"{name} > 2"))
    if token.unit == "m":  # minutes are those of times: elsewhere it is a text, as any other
        token = token._replace(kind="word", value=token.text)
    if operator in _ORDERING and token.kind not in {"quoted", "date"} and not _is_number(token.value):
        raise _wrong_value(name, token, "a number, or a text in quotes", f"{name} > 0.3")
    return Comparison(name, operator, token.value)


def _number(name: str, token: _Token, kind: str, example: str) -> Value:
    if _is_number(token.value):
        return token.value
    try:
        return float(token.value) if isinstance(token.value, str) else float("no number")
    except ValueError:
        raise _wrong_value(name, token, kind, example) from None


def _compare_time(name: str, operator: str, token: _Token, zone: str) -> Comparison:
    example = f"{name} > 2026-11-26, or {name} > -2h: later than two hours ago"
    if operator not in _ORDERING:
        message = f"{given(operator)} before character {token.place} compares no times: use <, <=, > or >=."
        raise ConditionError(message, token.place, f"Example: {example}")
    if token.unit and _is_number(token.value) and token.text.startswith("-"):
        return Comparison(name, operator, token.value, from_now=True)
    try:
        at = datetime.fromisoformat(token.value.strip() if isinstance(token.value, str) else "")
        local = at if at.tzinfo is not None else at.replace(tzinfo=_zone(zone, token))
        return Comparison(name, operator, local.timestamp())
    except (ValueError, OverflowError):
        kind = "a date such as 2026-11-26T18:00, or an age such as -10min, -2h or -7d"
        raise _wrong_value(name, token, kind, example) from None


def _zone(zone: str, token: _Token) -> tzinfo | None:
    try:
        return zone_of(zone)
    except ValueError:
        message = f"The pool does not know the time zone {given(zone, 40)} of the date at character {token.place}."
        raise ConditionError(message, token.place, "Write the zone as 2026-11-26T18:00+01:00.") from None


def _wrong_value(name: str, token: _Token, kind: str, example: str) -> ConditionError:
    message = (
        f"{given(name, 40)} is compared with {kind}, not with {given(token.text, 40)} at character {token.place}."
    )
    return ConditionError(message, token.place, f"Example: {example}")


class _Reader:
    def __init__(self, tokens: Sequence[_Token], zone: str) -> None:
        self._tokens = tokens
        self._zone = zone
        self._at = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._at]

    def either(self, depth: int) -> Condition:
        parts = [self._both(depth)]
        while self._takes("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self, depth: int) -> Condition:
        parts = [self._one(depth)]
        while self._takes("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _one(self, depth: int) -> Condition:
        token = self.token
        if depth > MAX_DEPTH:
            raise ConditionError(f"There are more than {MAX_DEPTH} brackets inside each other.", token.place)
        if self._takes("not"):
            return Not(self._one(depth + 1))
        if token.text == "(" and token.kind == "bracket":
            self._at += 1
            inside = self.either(depth + 1)
            if self.token.text != ")":
                raise _unexpected(self.token, "a closing bracket")
            self._at += 1
            return inside
        return self._comparison()

    def _comparison(self) -> Condition:
        if self.token.kind in {"number", "date"} and self._tokens[self._at + 1].kind == "operator":
            return self._between()
        name = self._name()
        if self._is_word("in"):
            return self._listed(name)
        if self._is_word("not") and self._is_word("in", ahead=1):
            self._at += 1
            return self._listed(name, without=True)
        if self.token.kind != "operator":
            return Comparison(name)
        operator = self._operator()
        return _compare(name, operator, self._value(f"a value after {given(operator)}"), self._zone)

    def _between(self) -> Condition:
        """Return the condition of ``0.05 < lr < 0.5``, or of ``0.05 < lr``."""
        value, place = self._value("a value"), self.token.place
        operator = self._operator()
        if operator not in _MIRRORED:
            message = f"{given(operator)} at character {place} comes after a name, not before one."
            raise ConditionError(message, place, "Example: name ~ resnet")
        name = self._name()
        first = _compare(name, _MIRRORED[operator], value, self._zone)
        if self.token.kind != "operator":
            return first
        further = self._operator()
        return Both((first, _compare(name, further, self._value(f"a value after {given(further)}"), self._zone)))

    def _listed(self, name: str, *, without: bool = False) -> Condition:
        """Return the condition of ``lr in (0.1, 0.2)``, or of ``lr not in (0.1, 0.2)``."""
        self._at += 1
        begins = self.token
        if begins.text not in _LISTS or begins.kind != "bracket":
            raise _unexpected(begins, "a list of values in brackets after “in”")
        if name in _TIMES:
            message = f"“in” before character {begins.place} compares no times: use <, <=, > or >=."
            raise ConditionError(message, begins.place, f"Example: {name} > 2026-11-26, or {name} > -2h")
        self._at += 1
        parts = []
        while True:
            value = self._value(f"a value of the list of {given(name, 40)}")
            parts.append(_compare(name, "!=" if without else "=", value, self._zone))
            if self.token.text == _LISTS[begins.text]:
                break
            if self.token.text != ",":
                raise _unexpected(self.token, f"a comma or {given(_LISTS[begins.text])}")
            self._at += 1
        self._at += 1
        return Both(tuple(parts)) if without else Either(tuple(parts))

    def _name(self) -> str:
        name = self.token
        if name.kind not in {"name", "quoted"} or self._is_word("and", "or", "not", "in"):
            raise _unexpected(name, "the name of an argument, a metric or a column")
        self._at += 1
        return str(name.value) if name.kind == "quoted" else name.text

    def _operator(self) -> str:
        self._at += 1
        return _SAME.get(self._tokens[self._at - 1].text, self._tokens[self._at - 1].text)

    def _value(self, expected: str) -> _Token:
        value = self.token
        if value.kind not in _VALUES:
            wrong = _unexpected(value, expected)
            raise ConditionError(wrong.message, value.place, LIST_EXAMPLE) if value.text in _LISTS else wrong
        self._at += 1
        return value

    def _is_word(self, *words: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return token.kind == "name" and token.text.lower() in words

    def _takes(self, word: str) -> bool:
        if not self._is_word(word):
            return False
        self._at += 1
        return True


# ---------- order


def ordered(runs: Iterable[Run], name: str, now: float, *, reverse: bool) -> list[Run]:
    """Return the runs in the order by a value: numbers, nan, texts, runs without it; equal ones newest first."""
    numbers: list[tuple[float, Run]] = []
    not_numbers: list[Run] = []
    texts: list[tuple[str, Run]] = []
    without: list[Run] = []
    for run in sorted(runs, key=lambda run: -run.seq):
        cell = value_of(run, name, now)
        if isinstance(cell, tuple):
            cell = " ".join(cell) or None
        if isinstance(cell, Secret):
            cell = None
        if isinstance(cell, float) and math.isnan(cell):
            not_numbers.append(run)
        elif isinstance(cell, bool | int | float):
            numbers.append((float(cell), run))
        elif cell is not None:
            texts.append((cell, run))
        else:
            without.append(run)
    numbers.sort(key=itemgetter(0), reverse=reverse)
    texts.sort(key=itemgetter(0), reverse=reverse)
    return [*(run for _, run in numbers), *not_numbers, *(run for _, run in texts), *without]
