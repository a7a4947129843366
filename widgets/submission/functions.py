"""Functions and cells as payloads: the code and the values of this moment, pickled by value."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from springtide.scheduler.arguments import Argument
from springtide.scheduler.capture import sources
from springtide.scheduler.capture.arguments import rendered
from springtide.scheduler.capture.imports import Imports, imports_of_tree, reached_imports
from springtide.scheduler.capture.parameter_types import OF_FUNCTIONS, misfit
from springtide.scheduler.wording import given, listed, plural
from springtide.widgets.errors import CaptureError
from springtide.widgets.submission.definitions import Parts, namespace_of
from springtide.widgets.submission.explain import HINT, find_culprit, parts, try_pickle, used_globals
from springtide.widgets.submission.imports import lazy_imports, needed_modules
from springtide.widgets.submission.loading import check_loading
from springtide.widgets.submission.magic_lines import lines_before, mistake_of, refusal_of
from springtide.widgets.submission.names import imported_names, needed_names
from springtide.widgets.submission.sent import CELL, Call, Cell, Source, compile_cell

LARGE = 2**20
LAMBDA = "<lambda>"
SETTING = (bool, int, float, str)
"""Types of the variables of a cell that are shown as its arguments."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Pickled work, with the source files that it may still import, its arguments, other imports, and notes."""

    data: bytes
    files: Mapping[str, bytes]
    source: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    imports: Imports = Imports()  # noqa: RUF009 - frozen


def pickle_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], workdir: Path
) -> Payload:
    """Return the call as a payload. Modules from ``workdir`` are sent by value, so later edits change nothing.

    Raises `CaptureError` if the arguments do not fit the function or something cannot be pickled, naming it.
    """
    check_arguments(function, args, kwargs)
    named = [(f"argument {place}", value) for place, value in enumerate(args, 1)]
    named += [(f"argument `{name}`", value) for name, value in kwargs.items()]
    call = {"args": tuple(args), "kwargs": dict(kwargs)}
    payload = pickle_payload(function, call, named, "", workdir)
    return replace(payload, arguments=call_arguments(function, args, kwargs))


def pickle_payload(
    function: Callable[..., Any],
    call: Mapping[str, Any],
    named: Sequence[tuple[str, Any]],
    words: str,
    workdir: Path,
) -> Payload:
    """Return the function and how it is called as a payload.

    ``named`` are the values sent with it, by the name the user knows them under, and ``words`` the lines that
    people read below the function. Raises `CaptureError` if something cannot be pickled, naming it.
    """
    name, modules = called(function), list(sources.local_modules(workdir))
    whole = Parts(
        function=Call(function, dict(_unfiled_sources(function))),
        call=call,
        namespaces=namespace_of(_plain(function)),
        modules=modules,
        workdir=workdir,
        name=name,
        labelled=[(name, function), *_labelled(name, named)],
    )
    data, notes = _pickle(whole)
    files, imports = sources_of(function, [value for _, value in named], workdir, modules)
    sizes = _sizes(data, {**dict(parts(_plain(function))), **dict(named)})
    return Payload(data, files, f"{source_of(function)}{words}", notes=notes, sizes=sizes, imports=imports)


def sources_of(
    function: Any, values: Iterable[Any], workdir: Path, modules: Sequence[types.ModuleType]
) -> tuple[dict[str, bytes], Imports]:
    """Return the files that a function may import from the directory, and its imports from elsewhere.

    ``values`` are its arguments, ``modules`` the ones that this process has from the directory.
    """
    plain = _plain(function)
    lazy = lazy_imports(plain.__code__) if isinstance(plain, types.FunctionType) else ()
    own = sources.module_files(modules)
    files = {**sources.imported_files(lazy, workdir), **own}
    needed = needed_modules([function, *values], {"__main__", *(module.__name__ for module in modules)})
    return files, reached_imports(files, own, needed)


def call_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Argument]:
    """Return the arguments of a call by the names of the function's parameters, defaults included."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return rendered({**{f"argument {place}": value for place, value in enumerate(args, 1)}, **kwargs})
    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
        elif kind is not inspect.Parameter.VAR_POSITIONAL:
            values[name] = value
        elif value:
            values[f"*{name}"] = value
    return rendered(values)


def pickle_cell(text: str, namespace: dict[str, Any], hidden: Iterable[str], workdir: Path) -> Payload:
    """Return a cell with the variables it reads from ``namespace``; ``hidden`` names are not the user's.

    Its lines are numbered as in the notebook, where a line with the magic may be before them.
    Raises `CaptureError` for code that is no plain Python and for variables that cannot be pickled.
    """
    body = "\n" * lines_before(_running_text()) + text
    try:
        compile_cell(body)
    except SyntaxError as error:
        msg = mistake_of(body, error)
        raise CaptureError(msg) from error
    if msg := refusal_of(body):
        raise CaptureError(msg)
    tree = ast.parse(text)
    wanted = needed_names(tree.body) - set(hidden)
    variables = {name: namespace[name] for name in sorted(wanted) if name in namespace}
    anchor = types.FunctionType(_nothing.__code__, namespace, "cell")
    texts = dict(pair for value in variables.values() for pair in _unfiled_sources(value))
    modules = list(sources.local_modules(workdir))
    named = [(f"variable `{name}`", value) for name, value in variables.items()]
    whole = Parts(
        function=Cell(body, _running_cell(), anchor, variables, texts),
        call={"args": (), "kwargs": {}},
        namespaces=[namespace],
        modules=modules,
        workdir=workdir,
        name="the cell",
        labelled=_labelled("the cell", named),
    )
    data, notes = _pickle(whole)
    own = sources.module_files(modules)
    files = {**sources.imported_files(imported_names(tree), workdir), **own}
    needed = needed_modules(variables.values(), {"__main__", *(module.__name__ for module in modules)})
    imports = reached_imports(files, own, needed | imports_of_tree(tree))
    note = f"Sent with the cell: {', '.join(variables) or 'no variables'}."
    values = {name: value for name, value in variables.items() if isinstance(value, SETTING)}
    return Payload(
        data,
        files,
        text,
        arguments=rendered(values),
        notes=(note, *notes),
        sizes=_sizes(data, dict(named)),
        imports=imports,
    )


def wrong_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, str]:
    """Return why plain values do not fit the annotations of a function's parameters, by parameter.

    Nothing is said of a call that does not fit the signature.
    """
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    found: dict[str, str] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        pairs = [(name, value)]
        if parameter.kind is parameter.VAR_POSITIONAL:
            pairs = [(name, each) for each in value]
        elif parameter.kind is parameter.VAR_KEYWORD:
            pairs = list(value.items())
        wrong = ((of, misfit(of, declared(parameter), each, OF_FUNCTIONS)) for of, each in pairs)
        found |= {of: words for of, words in wrong if words}
    return found


def declared(parameter: inspect.Parameter) -> str:
    """Return the annotation of a parameter as it is written, empty if there is none."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def check_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise `CaptureError` now if the call would fail in the job: for an argument, a name, or a type."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values())
    unknown = [name for name in kwargs if not takes_any and name not in signature.parameters]
    if unknown:
        msg = f"{called(function)}{signature} has no argument {listed([given(name) for name in unknown])}."
        raise CaptureError(msg)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        msg = f"{called(function)}{signature} cannot be called like this: {error}."
        raise CaptureError(msg) from None
    if wrong := wrong_arguments(function, args, kwargs):
        msg = f"{' '.join(wrong.values())} See {called(function)}{signature}."
        raise CaptureError(msg)


def source_of(function: Callable[..., Any]) -> str:
    """Return the function's text, empty if there is none."""
    try:
        return inspect.getsource(inspect.unwrap(_plain(function)))
    except (OSError, TypeError):
        return ""


def _pickle(whole: Parts) -> tuple[bytes, tuple[str, ...]]:
    """Return the payload and notes on it. Raises `CaptureError` for what cannot be sent or loaded, naming it."""
    pickled = whole.pickled()
    if isinstance(pickled, Exception):
        for label, value in whole.labelled:
            culprit = find_culprit(value, label)
            if culprit is not None:
                msg = f"{culprit}. {HINT}"
                raise CaptureError(msg)
        msg = f"{whole.name} cannot be sent: {pickled}. {HINT}"
        raise CaptureError(msg)
    notes = []
    if names := sorted(pickled.by_file):
        copied = plural(len(names), "was copied with the job, as it is", "were copied with the job, as they are")
        notes.append(f"{listed(names)} {copied} now.")
    whole = replace(whole, modules=[module for module in whole.modules if module.__name__ not in pickled.by_file])
    return pickled.data, (*notes, *check_loading(whole, pickled))


def _labelled(name: str, named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(f"{name}'s {label}", value) for label, value in named]


def _running_text() -> str:
    """Return the text of the cell that runs now, as it was typed; empty outside of IPython."""
    shell = _shell()
    return "" if shell is None else str(shell.history_manager.input_hist_raw[-1])


def _running_cell() -> str:
    """Return how tracebacks call the cell that runs now: ``In [8]``."""
    shell = _shell()
    return CELL if shell is None else f"In [{len(shell.history_manager.input_hist_parsed) - 1}]"


def _label(file: str) -> str:
    """Return how tracebacks call notebook code, by its compiled name: ``In [8]`` for a cell that has run."""
    name = None if (shell := _shell()) is None else shell.compile.format_code_name(file)
    return file if name is None else str(name[1]).replace("In[", "In [")


def _shell() -> Any:
    """Return the shell of IPython; None outside of one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def _unfiled_sources(function: Any) -> Iterator[tuple[str, Source]]:
    """Yield the texts of notebook code in the function and the functions it uses, by their compiled names."""
    pending, seen = [_plain(function)], set()
    while pending:
        value = pending.pop()
        if not isinstance(value, types.FunctionType) or value in seen:
            continue
        seen.add(value)
        file = value.__code__.co_filename
        cached = linecache.cache.get(file)
        if cached is not None and len(cached) == 4 and not Path(file).exists():
            yield file, Source("".join(cached[2]), _label(file))
        if value.__module__ == "__main__":
            pending.extend(used_globals(value).values())


def _plain(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function.__func__ if isinstance(function, types.MethodType) else function


def _sizes(data: bytes, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the bytes that each value takes, by its first name; nothing for a small payload."""
    if len(data) < LARGE:
        return {}
    names = {id(value): name for name, value in reversed(list(values.items()))}
    pickled = {name: try_pickle(value) for name, value in values.items() if names[id(value)] == name}
    return {name: len(part) for name, part in pickled.items() if isinstance(part, bytes)}


def called(function: Any) -> str:
    """Return the name of a function; for a lambda, the name of its variable."""
    plain = _plain(function)
    name = str(getattr(plain, "__name__", type(plain).__name__))
    if name != LAMBDA:
        return name
    return next(
        (found for found, value in plain.__globals__.items() if value is plain and found[0] != "_"), "lambda"
    )


def _nothing() -> None:
    """Do nothing: the code of a cell's anchor."""
