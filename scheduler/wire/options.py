"""One option of a job: what it means, which values it takes, and where it is offered.

`Option` annotates a field of `JobOptions`, from which the table `OPTIONS` is read. The command line, the magic,
the form, ``pool.submit``, SpringtideJobs, the API's checks, the job's page and the docs' tables use it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, Flag, auto
from typing import Any, Final, assert_never

from springtide.scheduler import wording
from springtide.scheduler.model import PRIORITIES
from springtide.scheduler.resources import quantities
from springtide.scheduler.wire import durations


class Kind(Enum):
    """The kind of values that an option takes."""

    WHOLE = "whole number"
    DURATION = "duration"
    CORES = "number of cores"
    MEMORY = "amount of memory"
    SWITCH = "yes or no"
    TEXT = "text"
    TEXTS = "list of texts"
    PRIORITY = "name or number"
    VARIABLES = "names and values"


class Surface(Flag):
    """The places that offer options."""

    COMMAND = auto()
    """``springtide submit``."""
    MAGIC = auto()
    """``%%train``."""
    FORM = auto()
    """``pool.form()``."""
    SUBMIT = auto()
    """``pool.submit`` and ``pool.when``."""
    TRAIN_JOB = auto()
    """The spec of a SpringtideJob."""
    API = auto()
    """The bodies of requests."""
    PRESET = auto()
    """The presets of projects and of the pool."""


EVERYWHERE: Final = ~Surface(0)


class BadOption(ValueError):  # noqa: N818 - shown to users as OptionError
    """A value that an option does not take. ``name`` is the option's; ``hint`` says what to use instead."""

    def __init__(self, name: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".rstrip())
        self.name = name
        self.message = message
        self.hint = hint


def unknown_option(name: str, known: Collection[str], kind: str = "", own: Sequence[str] = ()) -> BadOption:
    """Return the refusal of a name that is none of the ``known`` options.

    It is no parameter of the work of this ``kind`` either, which are its ``own``.
    """
    near = get_close_matches(name, [*own, *sorted(known)], 1)
    hints = [f"Did you mean `{near[0]}`?"] if near else []
    if own:
        hints.append(f"The {kind} has the {wording.plural(len(own), 'parameter')} {', '.join(own)}.")
    elif not near:
        hints.append(f"Options are {', '.join(sorted(known))}.")
    more = f", which is no parameter of the {kind} either" if own else ""
    return BadOption(name, f"Unknown option `{name}`{more}.", " ".join(hints))


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a job.

    ``name``, ``default``, ``least``, ``most`` and ``exclusive`` are those of the annotated field: bounds of the
    number, or of the length of texts and lists; ``exclusive`` means that ``least`` itself is not allowed.
    """

    kind: Kind
    help: str
    """One or two sentences, the same wherever the option is offered."""
    label: str = ""
    """The label of its field in forms and on the job's page, if it is not the name."""
    default_text: str = ""
    """The default in words, if it is not a value."""
    example: str = ""
    flags: tuple[str, ...] = ()
    """Further spellings on the command line, besides ``--`` and the name."""
    off: str = ""
    """The command line's spelling of no, of a `Kind.SWITCH`."""
    old_field: str = ""
    """An earlier name in SpringtideJobs that stays accepted; its value is a number of seconds."""
    offered: Surface = EVERYWHERE

    name: str = ""
    called: str = ""
    """Its name in errors, if it is not ``name``: the label of its field where it was typed into one."""
    default: Any = None
    least: float | None = None
    most: float | None = None
    exclusive: bool = False

    @property
    def flag(self) -> str:
        """The option's spelling on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def field(self) -> str:
        """The option's name in the spec of a SpringtideJob."""
        head, *rest = self.name.split("_")
        return head + "".join(word.title() for word in rest)

    @property
    def title(self) -> str:
        """The label of its field."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def stated_default(self) -> Any:
        """The default as people write it: the name of a priority, else the value."""
        return self.text(self.default) if self.kind is Kind.PRIORITY else self.default

    @property
    def default_words(self) -> str:
        """The default as people read it; empty if there is none."""
        return self.default_text or (self.text(self.default) if isinstance(self.default, str | int) else "")

    @property
    def expected(self) -> str:
        """The accepted values, in words."""
        match self.kind:
            case Kind.WHOLE:
                return f"a whole number{self._bounds()}"
            case Kind.DURATION:
                low = "above 0" if self.exclusive else "from 0"
                return f"a duration {low} up to {durations.shown(self.most or 0)}, such as {durations.EXAMPLES}"
            case Kind.CORES:
                return f"a number of cores{self._bounds()}, such as {quantities.CORES_EXAMPLES}"
            case Kind.MEMORY:
                least, most = (quantities.shown_memory(int(bound or 0)) for bound in (self.least, self.most))
                return f"an amount of memory from {least} up to {most}, such as {quantities.MEMORY_EXAMPLES}"
            case Kind.SWITCH:
                return "True or False"
            case Kind.TEXT:
                return f"text of at most {self.most:g} characters" if self.most else "text"
            case Kind.TEXTS:
                return f"a list of at most {self.most} texts" if self.most else "a list of texts"
            case Kind.PRIORITY:
                return f"a name such as high, or a whole number{self._bounds()}"
            case Kind.VARIABLES:
                return "names and values, both text"
            case _:
                assert_never(self.kind)

    def check(self, value: Any) -> Any:
        """Return ``value`` as jobs carry it: durations in seconds, priorities as numbers, texts in a tuple.

        Raises `BadOption` with the given and the expected value.
        """
        if value is None and self.default is None:
            return None
        match self.kind:
            case Kind.WHOLE:
                return self._number(value)
            case Kind.DURATION:
                return self._quantity(value, durations.seconds)
            case Kind.CORES:
                return self._quantity(value, quantities.cores)
            case Kind.MEMORY:
                return self._quantity(value, quantities.memory)
            case Kind.SWITCH:
                fits, found = isinstance(value, bool), value
            case Kind.TEXT:
                fits, found = isinstance(value, str) and len(value) <= (self.most or len(value)), value
            case Kind.TEXTS:
                found = value.split(",") if isinstance(value, str) else value
                fits = _are_texts(found) and len(found) <= (self.most or len(found))
                found = tuple(text.strip() for text in found) if fits else found
            case Kind.PRIORITY:
                return self._priority(value)
            case Kind.VARIABLES:
                fits = isinstance(value, Mapping) and _are_texts([*value, *value.values()])
                found = dict(value) if fits else value
            case _:
                assert_never(self.kind)
        if not fits:
            raise self.refused(value)
        return found

    def read(self, text: str) -> Any:
        """Return the value that ``text`` means, as typed on a command line or into a form. Raises `BadOption`."""
        text = text.strip()
        match self.kind:
            case Kind.WHOLE if not _is_whole(text):
                raise self.refused(text)
            case Kind.WHOLE:
                return self.check(int(text))
            case Kind.SWITCH:
                if text not in {"yes", "no"}:
                    raise self.refused(text)
                return text == "yes"
            case Kind.VARIABLES:
                return self._variables(text)
            case _:
                return self.check(text)

    def text(self, value: Any) -> str:
        """Return a value of `check` as a person reads and types it."""
        match self.kind:
            case Kind.DURATION:
                return durations.shown(value)
            case Kind.CORES:
                return quantities.shown_cores(value)
            case Kind.MEMORY:
                return quantities.shown_memory(value)
            case Kind.SWITCH:
                return "yes" if value else "no"
            case Kind.TEXTS:
                return ", ".join(value)
            case Kind.PRIORITY:
                return next((name for name, number in PRIORITIES.items() if number == value), str(value))
            case Kind.VARIABLES:
                return ", ".join(value)
            case _:
                return str(value)

    def shown(self, value: Any) -> str:
        """Return a value of `check` as a person reads it: that of none in the words of the default."""
        return self.default_words or "none" if value is None or value == () else self.text(value)

    def refused(self, given: object) -> BadOption:
        """Return the error with the given and the expected value."""
        subject = self.called or self.name
        return BadOption(self.name, f"{subject} is {wording.given(given)}; expected {self.expected}.")

    def _number(self, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise self.refused(value) from None
        if isinstance(value, bool):
            raise self.refused(value)
        self._check_bounds(number, value)
        return number

    def _priority(self, value: Any) -> int:
        if not isinstance(value, str):
            return self._number(value)
        if value in PRIORITIES:
            return PRIORITIES[value]
        if not _is_whole(value):
            hint = f"Use {', '.join(PRIORITIES)}, or a number."
            raise BadOption(self.name, f"There is no priority {wording.given(value)}.", hint)
        return self._number(int(value[:10]))

    def _quantity(self, value: Any, parse: Callable[[Any], float]) -> float:
        try:
            number = parse(value)
        except ValueError:
            raise self.refused(value) from None
        self._check_bounds(number, value)
        return number

    def _check_bounds(self, number: float, given: object) -> None:
        below = self.least is not None and (number < self.least or (self.exclusive and number == self.least))
        if below or (self.most is not None and number > self.most):
            raise self.refused(given)

    def _bounds(self) -> str:
        low = "" if self.least is None else f" {'above' if self.exclusive else 'from'} {self.least:.12g}"
        return low if self.most is None else f"{low} up to {self.most:.12g}"

    def _variables(self, text: str) -> dict[str, str]:
        """Read ``NAME=VALUE``, one on each line."""
        found: dict[str, str] = {}
        for line in filter(str.strip, text.splitlines()):
            name, sign, value = line.strip().partition("=")
            if not (name and sign):
                subject = self.called or self.name
                raise BadOption(self.name, f"{subject} is {wording.given(line)}; expected NAME=VALUE.")
            found[name] = value
        return found


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


def _are_texts(values: object) -> bool:
    return isinstance(values, Sequence) and all(isinstance(value, str) for value in values)
