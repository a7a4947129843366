"""The files that a program reads and writes by names of its own, found in its text; nothing is executed.

A path is followed through constants, defaults of options, parameters of functions and joined parts. One that is
made while the program runs is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final, NamedTuple

READS: Final = frozenset(
    {
        "load", "load_model", "load_weights", "load_file", "load_checkpoint", "load_from_checkpoint", "load_state",
        "load_learner", "restore", "restore_checkpoint", "from_pretrained", "read_csv", "read_parquet",
        "read_pickle", "read_json", "loadtxt", "genfromtxt", "fromfile",
    }
)  # fmt: skip
"""Functions and methods that read the file that is their first argument."""
WRITES: Final = frozenset(
    {
        "save", "save_model", "save_weights", "save_checkpoint", "save_pretrained", "savez", "savez_compressed",
        "savetxt", "to_csv", "to_parquet", "to_pickle", "to_json", "tofile",
    }
)  # fmt: skip
"""Those that write it."""
SECOND: Final = frozenset({"torch.save", "dcp.save", "joblib.dump", "safetensors.torch.save_file", "save_file"})
"""Functions that write the file that is their second argument."""
BOTH: Final = frozenset({"h5py.File", "sqlite3.connect", "shelve.open", "zarr.open"})
"""Those that open a file to read and write it."""
MOVES: Final = frozenset(
    {"os.replace", "os.rename", "shutil.move", "shutil.copy", "shutil.copyfile", "shutil.copy2"}
)
MODULES_WITH_OPEN: Final = frozenset({"io", "gzip", "bz2", "lzma", "codecs", "fsspec", "shelve", "zarr"})
STREAMS: Final = frozenset({"open", "BytesIO", "StringIO"})
"""Calls whose results are open files: their paths are counted when they are opened."""
WRAPPERS: Final = frozenset({"Path", "PurePath", "str", "fspath", "abspath", "expanduser", "resolve", "absolute"})
JOINS: Final = frozenset({"join", "joinpath", "Path", "PurePath"})
ENVIRONMENT: Final = frozenset({"os.getenv", "os.environ.get", "os.environ"})
ADDED: Final = {"savez": ".npz", "savez_compressed": ".npz", "save": ".npy"}
"""Suffixes that functions of numpy add to names without them."""
DEPTH: Final = 6
"""Maximum number of steps by which a path is followed."""
MOST: Final = 100
"""Maximum number of paths that are derived from an expression."""

Path = str
"""A path as people read it: its text, or what it is made of, such as ``--out/last.pt``."""


@dataclass(frozen=True, slots=True)
class FileUse:
    """The files of a program: those that it ``keeps``, which it both reads and writes.

    ``unknown``: it reads and writes files, and some of their paths are not in its text.
    """

    keeps: tuple[Path, ...] = ()
    unknown: bool = False


Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class _Names:
    """The names in a program: the values that each is assigned, None for one that is not in the text.

    ``values`` are by the function that assigns them, None for those of modules, and by name.
    """

    values: dict[tuple[Function | None, str], list[ast.expr | None]] = field(default_factory=dict)
    options: dict[str, ast.expr | None] = field(default_factory=dict)
    calls: dict[str, list[tuple[Function | None, ast.Call]]] = field(default_factory=dict)


def file_use(trees: Sequence[ast.AST]) -> FileUse:
    """Return the files of a program with these texts."""
    names = _Names()
    for function, node in _nodes(trees):
        _gather(function, node, names)
    read, written = set[Path | None](), set[Path | None]()
    for function, call in (each for several in names.calls.values() for each in several):
        for use in _uses(call):
            if _is_stream(use.path, function, names):
                continue
            paths = _paths(use.path, function, names, DEPTH)
            if use.reads:
                read |= paths
            if use.writes:
                written |= {_with(path, use.added) for path in paths}
    keeps = sorted(path for path in read & written if path is not None)
    return FileUse(tuple(keeps), unknown=bool(read and written) and None in read | written)


def _with(path: Path | None, added: str) -> Path | None:
    return path if path is None or not added or path.endswith(added) else f"{path}{added}"


def _nodes(trees: Iterable[ast.AST]) -> Iterator[tuple[Function | None, ast.AST]]:
    """Yield all nodes with the functions that they are in."""
    pending: list[tuple[Function | None, ast.AST]] = [(None, tree) for tree in trees]
    while pending:
        function, node = pending.pop()
        yield function, node
        inner = node if isinstance(node, Function) else function
        pending += [(inner, child) for child in ast.iter_child_nodes(node)]


def _gather(function: Function | None, node: ast.AST, names: _Names) -> None:
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            names.values.setdefault((function, name), []).append(value)
        case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
            names.values.setdefault((function, name), []).append(value)
        case ast.Name(id=name, ctx=ast.Store()):
            names.values.setdefault((function, name), []).append(None)
        case ast.Call(func=func):
            last = _last(func)
            names.calls.setdefault(last, []).append((function, node))
            if last == "add_argument":
                _gather_option(node, names)


def _gather_option(call: ast.Call, names: _Names) -> None:
    words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    given = {each.arg: each.value for each in call.keywords}
    dest = given.get("dest")
    name = dest.value if isinstance(dest, ast.Constant) else max(words, key=len, default="")
    names.options[str(name).lstrip("-").replace("-", "_")] = given.get("default")


class _Use(NamedTuple):
    """A path that a call reads or writes, and the suffix that it adds."""

    path: ast.expr
    reads: bool
    writes: bool
    added: str = ""


def _uses(call: ast.Call) -> Iterator[_Use]:
    called = dotted(call.func)
    two, last = ".".join(called.split(".")[-2:]), _last(call.func)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    texts = [each for each in call.args if not isinstance(each, ast.Starred)]
    if two in BOTH:
        yield from (_Use(each, True, True) for each in texts[:1])
    elif last == "open":
        yield from _opened(call, owner, texts)
    elif two in MOVES:
        yield from (_Use(each, False, True) for each in texts[1:2])
    elif last in {"replace", "rename"} and owner is not None and len(texts) == 1:
        yield _Use(texts[0], False, True)
    elif last in {"read_text", "read_bytes"} and owner is not None:
        yield _Use(owner, True, False)
    elif last in {"write_text", "write_bytes"} and owner is not None:
        yield _Use(owner, False, True)
    elif two in SECOND or last in SECOND:
        yield from (_Use(each, False, True) for each in texts[1:2])
    elif last in READS:
        yield from (_Use(each, True, False) for each in texts[:1])
    elif last in WRITES:
        numpy = two.partition(".")[0] in {"np", "numpy", "jnp"}
        yield from (_Use(each, False, True, ADDED.get(last, "") if numpy else "") for each in texts[:1])


def _opened(call: ast.Call, owner: ast.expr | None, texts: Sequence[ast.expr]) -> Iterator[_Use]:
    """Yield the path of a call of ``open``, which is a function, or a method of the path."""
    named = {each.arg: each.value for each in call.keywords}
    if owner is None or (isinstance(owner, ast.Name) and owner.id in MODULES_WITH_OPEN):
        path, modes = texts[0] if texts else named.get("file"), texts[1:2]
    else:
        path, modes = owner, texts[:1]
    given = named.get("mode", modes[0] if modes else ast.Constant("r"))
    mode = given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else "r+"
    if path is not None:
        yield _Use(path, "r" in mode or "+" in mode, "r" not in mode or "+" in mode)


def _is_stream(node: ast.expr, function: Function | None, names: _Names) -> bool:
    """Return whether an expression is an open file, as far as the text says."""
    if isinstance(node, ast.Name):
        values = names.values.get((function, node.id)) or names.values.get((None, node.id)) or []
        return any(isinstance(value, ast.Call) and _last(value.func) in STREAMS for value in values)
    return isinstance(node, ast.Call) and _last(node.func) in STREAMS


def _paths(node: ast.expr, function: Function | None, names: _Names, depth: int) -> set[Path | None]:
    """Return the paths that may be the value of an expression; None for one that is not in the text."""
    if depth == 0:
        return {None}

    def of(part: ast.expr) -> set[Path | None]:
        return _paths(part, function, names, depth - 1)

    match node:
        case ast.Constant(value=str(value)):
            return {value}
        case ast.Name(id=name):
            return _of_name(name, function, names, depth)
        case ast.Attribute(attr=name) if name in names.options:
            default = names.options[name]
            shown = default.value if isinstance(default, ast.Constant) else None
            return {str(shown) if shown else f"--{name.replace('_', '-')}"}
        case ast.Attribute(attr=name, value=ast.Name(id="self")):
            return {f"self.{name}"}
        case ast.BinOp(left=left, op=ast.Div() | ast.Add() as sign, right=right):
            return _joined([of(left), of(right)], "/" if isinstance(sign, ast.Div) else "")
        case ast.JoinedStr(values=parts):
            return _joined(
                [of(each.value if isinstance(each, ast.FormattedValue) else each) for each in parts], ""
            )
        case ast.Call(func=func) | ast.Subscript(value=func) if dotted(func) in ENVIRONMENT:
            return {ast.unparse(node)}
        case ast.Call(func=ast.Attribute(attr="joinpath", value=value), args=parts):
            return _joined([of(each) for each in (value, *parts)], "/")
        case ast.Call(func=func, args=[_, *_] as parts) if _last(func) in JOINS:
            return _joined([of(each) for each in parts], "/")
        case ast.Call(func=func, args=[path]) if _last(func) in WRAPPERS:
            return of(path)
        case ast.Call(func=ast.Attribute(attr=name, value=value), args=[]) if name in WRAPPERS:
            return of(value)
    return {None}


def _of_name(name: str, function: Function | None, names: _Names, depth: int) -> set[Path | None]:
    if function is not None and name in _parameters(function):
        return _of_parameter(name, function, names, depth)
    place = function if (function, name) in names.values else None
    values = names.values.get((place, name), [])
    known = [value for value in values if value is not None]
    if not known or len(values) != 2 * len(known):  # each assignment is there with its value, and as a name
        return {None}
    return {path for value in known for path in _paths(value, place, names, depth - 1)}


def _parameters(function: Function) -> list[str]:
    """Return the names of a function's parameters, those by keyword alone last."""
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _of_parameter(name: str, function: Function, names: _Names, depth: int) -> set[Path | None]:
    """Return the paths that callers give for a parameter; without callers the parameter itself."""
    arguments = function.args
    by_place = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    defaults: dict[str, ast.expr | None] = dict(zip(by_place[::-1], arguments.defaults[::-1], strict=False))
    defaults |= {each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    if by_place[:1] in (["self"], ["cls"]):
        by_place = by_place[1:]
    found = set[Path | None]()
    for caller, call in names.calls.get(function.name, []):
        given = next((each.value for each in call.keywords if each.arg == name), defaults.get(name))
        if name in by_place and by_place.index(name) < len(call.args):
            given = call.args[by_place.index(name)]
        found |= {None} if given is None else _paths(given, caller, names, depth - 1)
    if found:
        return found
    default = defaults.get(name)
    return {f"{function.name}({name})"} if default is None else _paths(default, None, names, depth - 1)


def _joined(parts: Sequence[set[Path | None]], sign: str) -> set[Path | None]:
    """Return all paths that are made of one of each part."""
    if not parts or any(None in part for part in parts):
        return {None}
    return {sign.join(map(str, pieces)) for pieces in islice(product(*parts), MOST)}


def _last(node: ast.expr) -> str:
    """Return the last part of the name of the called function, also of the result of a call."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.expr) -> str:
    """Return the name of the called function, such as ``torch.save``; of the result of a call its last parts."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))
