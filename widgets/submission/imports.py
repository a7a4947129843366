"""The modules that a function or a cell needs, found without running anything."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from springtide.scheduler.capture.imports import Imports, imports_of_tree
from springtide.widgets.submission.explain import parts

MAX_VALUES = 2_000
"""Maximum number of inspected values."""
MAX_ITEMS = 100
"""Maximum length of a container whose items are inspected."""


def needed_modules(values: Iterable[Any], own: Collection[str]) -> Imports:
    """Return the modules that pickled values need when they are loaded, and those that their functions import.

    ``own`` are the names of the user's own modules, which are sent by value as the notebook's code is.
    """
    pending, seen = list(values), dict[int, Any]()
    found = Imports()
    while pending and len(seen) < MAX_VALUES:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        module = _module_of(value)
        if module in own:
            found |= imports_of_function(value) if isinstance(value, FunctionType) else Imports()
            pending.extend(_parts_of_own(value))
        else:
            found |= Imports(frozenset({module} - {"builtins", ""}))
            pending.extend(_parts_of_other(value))
    return found


def _module_of(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    named = value if isinstance(value, FunctionType | type) else type(value)
    module = getattr(named, "__module__", "")
    return module if isinstance(module, str) else ""


def _parts_of_own(value: Any) -> Iterable[Any]:
    """Return the values that are pickled with the user's own function or class, or with an object of one."""
    if isinstance(value, FunctionType):
        return [part for _, part in parts(value)]
    if isinstance(value, type):
        return [part for part in vars(value).values() if isinstance(part, FunctionType)]
    return [] if isinstance(value, ModuleType) else [type(value)]


def _parts_of_other(value: Any) -> Iterable[Any]:
    if isinstance(value, MethodType | partial):
        return [part for _, part in parts(value)]
    if isinstance(value, list | tuple | set | dict) and len(value) <= MAX_ITEMS:
        return [part for _, part in parts(value)]
    return []


def imports_of_function(function: FunctionType) -> Imports:
    """Return the imports of a function when it is called, by its text, or by its code if it has no text."""
    try:
        return imports_of_tree(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return Imports(optional=frozenset(lazy_imports(function.__code__)))


def lazy_imports(code: CodeType) -> Iterator[str]:
    """Yield the modules that code imports when it runs, functions in it included."""
    pending = [code]
    while pending:
        code = pending.pop()
        pending.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
        yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
