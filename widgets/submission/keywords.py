"""The keywords of ``pool.submit``: options of the job, and arguments of the function."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from springtide.scheduler.capture import known_parameters, names_notebook
from springtide.scheduler.wire import OPTIONS, Option, Surface
from springtide.scheduler.wire.options import Kind, unknown_option
from springtide.scheduler.wire.submission import offered
from springtide.widgets.errors import OptionError

Method = TypeVar("Method", bound=Callable[..., Any])

NAMES = frozenset(option.name for option in offered(Surface.SUBMIT))
LIKE = 0.8
"""Similarity of a name to an option from which it is taken for a wrong one, from 0 to 1."""
TYPES = {
    Kind.WHOLE: "int",
    Kind.DURATION: "float | str | timedelta",
    Kind.CORES: "float | str",
    Kind.MEMORY: "int | str",
    Kind.SWITCH: "bool",
    Kind.TEXT: "str",
    Kind.TEXTS: "str | Sequence[str]",
    Kind.PRIORITY: "str | int",
    Kind.VARIABLES: "Mapping[str, str]",
}
"""The Python types of the kinds of options, as a signature shows them."""


def takes_options(method: Method) -> Method:
    """Show the options of a job in the method's signature and docstring, for completion and help.

    The method itself takes them as ``**keywords``. ``{options}`` in its docstring is replaced by the list.
    """
    signature = inspect.signature(method)
    own = [part for part in signature.parameters.values() if part.kind is not part.VAR_KEYWORD]
    rest = [
        part for part in signature.parameters.values() if part.kind is part.VAR_KEYWORD and part.name != "options"
    ]
    shown = [_parameter(option) for option in offered(Surface.SUBMIT)]
    method.__signature__ = signature.replace(parameters=[*own, *shown, *rest])  # type: ignore[attr-defined]
    method.__doc__ = (method.__doc__ or "").replace("{options}", _list())
    return method


def split_keywords(
    work: object, kwargs: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the options among the keywords, and the function's own. Raises `OptionError` if that is unclear."""
    options = {name: value for name, value in keywords.items() if name in NAMES}
    others = {name: value for name, value in keywords.items() if name not in NAMES}
    kind = "notebook" if names_notebook(work) else "function"
    own = _parameters(work)
    if kwargs is None:
        for name in options:
            if name in own:
                msg = (
                    f"`{name}` is an option of submit and a parameter of the {kind} too. Pass the {kind}'s "
                    f"keywords as kwargs={{{name!r}: …}} (or kwargs={{}}); then {name}=… is the option."
                )
                raise OptionError(msg)
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values())
        takes_any = takes_any or (not own and (callable(work) or _takes(work, others)))
        unknown = [name for name in others if not (takes_any or name in own)]
    else:
        unknown = list(others)
    check_names(unknown, kind, [name for name in own if kwargs is None])
    return options, others if kwargs is None else kwargs


def check_own(
    work: object, kwargs: Mapping[str, Any] | None, space: object, given: Iterable[str], method: str = "sweep"
) -> None:
    """Raise `OptionError` for a ``given`` argument of the method that may be meant for the function."""
    own = _parameters(work) if kwargs is None else {}
    for name in given:
        if name in own and not (isinstance(space, Mapping) and name in space):
            msg = (
                f"`{name}` is an argument of {method} and a parameter of the function too. Pass the function's "
                f"keywords as kwargs={{{name!r}: …}} (or kwargs={{}}); then {name}=… is that of {method}."
            )
            raise OptionError(msg)


def check_names(unknown: Iterable[str], kind: str = "", own: Sequence[str] = ()) -> None:
    """Raise `OptionError` for the first of the names, which are no options.

    They are no parameters of the work of this ``kind`` either, which are its ``own``.
    """
    for name in unknown:
        raise OptionError(str(unknown_option(name, NAMES, kind, own)))


def _parameter(option: Option) -> inspect.Parameter:
    kind = TYPES[option.kind] + (" | None" if option.default is None else "")
    default = option.stated_default if isinstance(option.default, str | int) else None
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _list() -> str:
    """Return the options as lines of a docstring."""
    lines = (f"- ``{name}``: {option.help} Default: {option.default_words}." for name, option in OPTIONS.items())
    text = "\n".join(
        textwrap.fill(line, 107, initial_indent=" " * 8, subsequent_indent=" " * 10) for line in lines
    )
    return text.lstrip()


def _takes(work: object, names: Iterable[str]) -> bool:
    """Return whether a notebook that lists no parameters may have these: not if one looks like an option."""
    return names_notebook(work) and not any(difflib.get_close_matches(name, NAMES, 1, LIKE) for name in names)


def _parameters(work: object) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function or a notebook, none for other work."""
    if names_notebook(work):
        known = known_parameters(Path(str(work)))
        return {name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in known}
    try:
        return inspect.signature(work).parameters if callable(work) else {}
    except (TypeError, ValueError):
        return {}
