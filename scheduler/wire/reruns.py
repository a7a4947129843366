"""Jobs that run again: the request, and the first run."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from springtide.scheduler import wording
from springtide.scheduler.arguments import MAX_ARGUMENTS, MAX_TYPED, Typed
from springtide.scheduler.wire.options import BadOption
from springtide.scheduler.wire.shapes import MAX_NAME, Answer, Request
from springtide.scheduler.wire.submission import OPTIONS, Submission

NO_ARGUMENTS: Typed = MappingProxyType({})
_TYPES = get_type_hints(Submission, include_extras=True)

Again = msgspec.defstruct(
    "Again",
    [
        *((name, _TYPES[name] | UnsetType, UNSET) for name in OPTIONS),
        ("typed", dict[str, str], {}),
        (
            "arguments",
            Annotated[
                dict[Annotated[str, Meta(max_length=MAX_NAME)], Annotated[str, Meta(max_length=MAX_TYPED)] | None],
                Meta(max_length=MAX_ARGUMENTS),
            ],
            {},
        ),
        ("key", Annotated[str, Meta(max_length=MAX_NAME)] | None, None),
    ],
    bases=(Request,),
    frozen=True,
    kw_only=True,
    module=__name__,
    namespace={"__doc__": "What a run again and a fork may change: options, and arguments as they are typed."},
)

Rerun = msgspec.defstruct(
    "Rerun",
    [("from_start", bool, False)],
    bases=(Again,),
    frozen=True,
    kw_only=True,
    module=__name__,
    namespace={
        "__doc__": "A run again of a job.\n\n"
        "That of a fork continues from the same checkpoint, unless ``from_start``. The other fields are options "
        "that differ from the first run; one left out stays as it was. Variables of ``env`` are added to those of "
        "the first run. ``typed`` are options as texts, as a form has them; an empty one is at its default. "
        "``arguments`` are those of its function, command or notebook that change, by name, as people type them; "
        "null removes an option of a command. ``key`` makes the request safe to repeat, as that of a submission."
    },
)


def rerun(
    changes: dict[str, Any], key: str | None = None, arguments: Typed = NO_ARGUMENTS, *, from_start: bool = False
) -> Struct:
    """Return the request for options as requests carry them, those of `OPTIONS`, and for typed ``arguments``."""
    return Rerun(**changes, arguments=dict(arguments), key=key, from_start=from_start)


def arguments_of(request: Struct) -> dict[str, str | None]:
    """Return the arguments that a request to run a job again changes, as they are typed."""
    return dict(getattr(request, "arguments"))  # noqa: B009 - made from the table, unknown to type checkers


def changes_of(request: Struct) -> dict[str, Any]:
    """Return the options that a request to run a job again names, by name. Raises `BadOption`."""
    typed: dict[str, str] = getattr(request, "typed")  # noqa: B009 - made from the table, unknown to type checkers
    given = ((name, getattr(request, name)) for name in OPTIONS)
    return {**_read(typed), **{name: value for name, value in given if value is not UNSET}}


def _read(typed: dict[str, str]) -> dict[str, Any]:
    unknown = typed.keys() - OPTIONS.keys()
    if unknown:
        raise BadOption("typed", f"Unknown option {wording.given(min(unknown), MAX_NAME)}.")
    return {
        name: OPTIONS[name].read(text) if text.strip() else OPTIONS[name].default for name, text in typed.items()
    }


class OptionChange(Answer, frozen=True, kw_only=True):
    """An option or an argument that differs from the first run, as a person reads it.

    Of environment variables only the names are shown: ``before`` is empty then.
    """

    name: str
    before: str
    after: str


class ForkedFrom(Answer, frozen=True, kw_only=True):
    """The checkpoint of the first run from which a job continued: its name there, its step if it is known."""

    checkpoint: str
    step: float | None
    written: float


class RerunOf(Answer, frozen=True, kw_only=True):
    """The run that a job repeats. Code and files are those of it, and so is whatever ``changes`` leaves out.

    ``text`` says in words which run it is, and what differs. ``fork`` is the checkpoint that the job continued
    from; None if it began from the start. ``deleted``: that run was deleted.
    """

    job: str
    name: str
    changes: list[OptionChange]
    text: str
    fork: ForkedFrom | None = None
    deleted: bool = False
