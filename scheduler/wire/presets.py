"""Presets: options of jobs under a name, which administrators and leads define for the pool or for a project."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta, structs

from springtide.scheduler.wire.options import Kind, Option, Surface, unknown_option
from springtide.scheduler.wire.shapes import Answer, ProjectName, Request
from springtide.scheduler.wire.submission import OPTIONS, Wish, offered

PRESET_OPTIONS: Final = {option.name: option for option in offered(Surface.PRESET)}
"""The options that presets may have, by name."""
VARIABLES: Final = "env"
"""The option whose values are added to those of a job, one by one."""
MAX_TYPED: Final = 10_000
"""Maximum length of an option as it is typed, in characters."""
MAX_PRESETS: Final = 100
"""Maximum number of presets of one project, and of those of the pool."""

PresetName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x20\x7f,/]+(?!\n)$")]
"""The name of a preset: one word."""

W = TypeVar("W", bound=Wish)


class PresetPart(Request, frozen=True, kw_only=True):
    """The content of a preset: its options as requests have them, and a sentence about it."""

    options: Annotated[dict[str, Any], Meta(max_length=100)]
    about: Annotated[str, Meta(max_length=200)] = ""


class PresetRequest(PresetPart, frozen=True, kw_only=True):
    """A preset to define, or to replace as a whole: of a project, or with ``project`` None of the pool.

    ``typed`` are further options as texts, as a form has them; an empty one is none of the preset's.
    """

    options: Annotated[dict[str, Any], Meta(max_length=100)] = {}
    typed: Annotated[dict[str, Annotated[str, Meta(max_length=MAX_TYPED)]], Meta(max_length=100)] = {}
    project: ProjectName | None = None

    @property
    def part(self) -> PresetPart:
        """The content of the preset. Raises `BadOption` for a typed option that cannot be read."""
        read = {name: _known(name).read(text) for name, text in self.typed.items() if text.strip()}
        return PresetPart(options={**read, **self.options}, about=self.about)


class PresetView(Answer, frozen=True, kw_only=True):
    """A preset of a project and of those inside it, or with ``project`` None of the pool.

    ``values`` are its options as people type them, ``text`` all of them in a line. ``projects`` are those of the
    caller whose jobs get it by its name: a preset of a nearer project comes first. ``obstacle`` says why a job of
    the project, or of any project, with these options alone would be refused now.
    """

    name: str
    project: str | None
    about: str
    options: dict[str, Any]
    values: dict[str, str]
    text: str
    by: str
    at: float
    projects: list[str] = []
    obstacle: str = ""


class PresetList(Answer, frozen=True, kw_only=True):
    """Presets: those of the pool first, then those of projects, by name."""

    items: list[PresetView]


def checked_preset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a preset as records and requests have them; those that are None are left out.

    Raises `BadOption` for a wrong value, and for an option that no preset has.
    """
    found = {name: _known(name).check(value) for name, value in options.items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _known(name: str) -> Option:
    """Return an option that presets may have. Raises `BadOption` for any other name."""
    if name not in PRESET_OPTIONS:
        raise unknown_option(name, PRESET_OPTIONS)
    return PRESET_OPTIONS[name]


def supplied(options: Mapping[str, Any], given: Collection[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that a preset fills in beside those ``given``, by name.

    Its variables are added to the ``variables`` of the job, which stay.
    """
    known = {name: OPTIONS[name].check(value) for name, value in options.items() if name in OPTIONS}
    found = {name: value for name, value in known.items() if name not in given}
    return {**found, VARIABLES: {**known[VARIABLES], **variables}} if VARIABLES in known else found


def filled(wish: W, options: Mapping[str, Any]) -> W:
    """Return a request with the options of a preset, except those that it gives itself."""
    own = {name for name, option in OPTIONS.items() if getattr(wish, name) != option.default}
    return structs.replace(wish, **supplied(options, {*wish.given, *own}, wish.env))


def values_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a preset as people type them into forms, by name."""
    return {option.name: _typed(option, options[option.name]) for option in _set(options)}


def preset_words(options: Mapping[str, Any]) -> str:
    """Return the options of a preset in a line: ``GPUs 4, Time limit 2h``."""
    parts = (f"{option.title} {_typed(option, options[option.name])}" for option in _set(options))
    return ", ".join(" ".join(part.split()) for part in parts) or "no options"


def _set(options: Mapping[str, Any]) -> Iterable[Option]:
    return (option for name, option in PRESET_OPTIONS.items() if name in options)


def _typed(option: Option, value: Any) -> str:
    if option.kind is Kind.VARIABLES:
        return "\n".join(f"{name}={text}" for name, text in value.items())
    return option.text(value)
