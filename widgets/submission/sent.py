"""The part of a payload that runs in the job. Standard library only.

Both kinds bring their source lines along, so that a traceback in the job's log shows the code that failed, and
names the cell that it is in.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

CELL = "<%%train>"


@dataclass(frozen=True, slots=True)
class Source:
    """The text of notebook code, and how tracebacks call it: ``In [8]``."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Call:
    """Calls ``function``; ``sources`` are texts of code that is in no file, by the name it was compiled under.

    An ``async`` function is run to its end.
    """

    function: Callable[..., Any]
    sources: Mapping[str, Source]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the function."""
        show_sources(self.sources)
        value = self.function(*args, **kwargs)
        return asyncio.run(value) if inspect.iscoroutine(value) else value


@dataclass(frozen=True, slots=True)
class Cell:
    """Runs a notebook cell; its result is the value of the last line if that is an expression.

    ``anchor`` is an empty function from the notebook's namespace: pickled together with the notebook's functions,
    it comes back with the very globals they have, which is where the cell runs. ``label`` is how tracebacks call
    it.
    """

    source: str
    label: str
    anchor: FunctionType
    variables: Mapping[str, Any]
    sources: Mapping[str, Source]

    def __call__(self) -> Any:
        """Return the value of the last expression."""
        namespace = self._namespace()
        codes = compile_cell(self.source)
        if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
            return asyncio.run(_run(codes, namespace))
        value = None
        for code in codes:
            value = eval(code, namespace)  # noqa: S307 - the user's own cell
        return value

    def define(self) -> None:
        """Run the definitions of the cell as far as they succeed: functions, classes, imports and literals."""
        namespace = self._namespace()
        for statement in ast.parse(self.source, CELL).body:
            if _is_definition(statement):
                with suppress(Exception):  # one that needs the cell's work is missing
                    exec(compile(ast.Module([statement], []), CELL, "exec"), namespace)  # noqa: S102 - the user's

    def _namespace(self) -> dict[str, Any]:
        show_sources({**self.sources, CELL: Source(self.source, self.label)})
        namespace = self.anchor.__globals__
        namespace.update(self.variables)
        return namespace


def _is_definition(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        return isinstance(statement.value, ast.Lambda) or _is_literal(statement.value)
    return isinstance(
        statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    )


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def compile_cell(source: str) -> list[CodeType]:
    """Return the cell's code; the last piece yields its result. Raises SyntaxError."""
    tree = ast.parse(source, CELL)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    codes = [compile(tree, CELL, "exec", flags)]
    if isinstance(last, ast.Expr):
        codes.append(compile(ast.Expression(last.value), CELL, "eval", flags))
    return codes


def show_sources(sources: Mapping[str, Source]) -> None:
    """Let tracebacks find the texts, and stacks the names.

    A size without a time keeps the texts from being looked up on disk.
    """
    for name, source in sources.items():
        lines = source.text.splitlines(keepends=True)
        linecache.cache[name] = (len(source.text), None, lines, source.label)
    with suppress(ImportError):  # the library in the job's image is older
        from springtide.training.stacks import name_cells  # noqa: PLC0415 - sent to the job, which has the library

        name_cells({name: source.label for name, source in sources.items()})


async def _run(codes: list[CodeType], namespace: dict[str, Any]) -> Any:
    value = None
    for code in codes:
        value = eval(code, namespace)  # noqa: S307 - the user's own cell
        if code.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value
