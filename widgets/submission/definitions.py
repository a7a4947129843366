"""The pickling of a notebook's code: by value, with the names that it has in ``__main__``.

`springtide.training.names` reads this record, and says what the job does with the names.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle

from springtide.scheduler.wording import LONG_GIVEN, given
from springtide.training.names import CACHED, NAMED, TYPING, Namespace, cached, name_of, typed
from springtide.training.own_modules import module_of
from springtide.widgets.submission.module_uses import ModuleUses
from springtide.widgets.submission.sent import Cell, compile_cell

MOST_BY_FILE = 8
"""Maximum number of modules that are left to their files one by one."""
MAX_VALUE = 1 << 20
"""Maximum size of a value of a module that goes along with the code that uses it, in bytes."""
LOADING = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
MAKING = ("__new__", "__getattr__", "__getattribute__")
"""Methods of a class that run, or are looked up, while an object of it is loaded."""


@dataclass(frozen=True, slots=True)
class Pickled:
    """A payload. ``own_loading`` is true if loading it runs code of the user's own classes.

    ``by_file`` are the user's modules of which something is used that is not in it: the job runs their files.
    """

    data: bytes
    own_loading: bool
    by_file: frozenset[str] = frozenset()


def payload_dumps(
    function: Any,
    call: Mapping[str, Any],
    namespaces: Iterable[dict[str, Any]] = (),
    modules: Iterable[types.ModuleType] = (),
) -> Pickled:
    """Return a function and the rest of its call as a payload.

    ``namespaces`` are variables of the notebook besides those of ``__main__``, ``modules`` the ones whose
    functions and classes are pickled by value. Raises `NotPickledError` with the error of pickling a part.
    """
    file = io.BytesIO()
    mains = [("__main__", variables) for variables in (*namespaces, vars(sys.modules["__main__"]))]
    pickler = _Pickler(file, mains, modules)
    try:
        for part in (function, dict(call)):
            pickler.dump(part)
            names = pickler.new_names()
            while names:
                pickler.dump(names)
                names = pickler.new_names()
            pickler.dump({})
    except Exception as error:
        raise NotPickledError(error, pickler.last_module) from error
    return Pickled(file.getvalue(), pickler.own_loading, pickler.left_out)


class NotPickledError(Exception):
    """A part cannot be pickled, for ``error``; ``module`` is the user's one whose code came last, or empty."""

    def __init__(self, error: Exception, module: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.module = module


def namespace_of(function: Any) -> list[dict[str, Any]]:
    """Return the variables of the notebook that a function was defined in; none for one of a module."""
    is_of_notebook = isinstance(function, types.FunctionType) and function.__module__ == "__main__"
    return [function.__globals__] if is_of_notebook else []


def _has_own_loading(kind: type, own: Collection[str]) -> bool:
    """Return whether loading an object of the class runs code of the modules ``own``."""
    making = (*MAKING, "__init__") if issubclass(kind, BaseException) else MAKING
    return any(
        getattr(vars(base)[name], "__module__", None) in own
        for base in kind.__mro__
        for name in (*LOADING, *making)
        if name in vars(base)
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a payload, and how its sender knows them.

    ``function`` and ``call`` are pickled, ``namespaces`` variables of the notebook besides those of
    ``__main__``, ``modules`` the user's own ones in ``workdir``, which are pickled by value. ``name`` is that of
    the function, ``labelled`` the values sent with it by the names that the user knows them under.
    """

    function: Any
    call: Mapping[str, Any]
    namespaces: Sequence[dict[str, Any]]
    modules: Sequence[types.ModuleType]
    workdir: Path
    name: str
    labelled: Sequence[tuple[str, Any]]

    def pickled(self) -> Pickled | Exception:
        """Return the payload, or the error of pickling it.

        A module whose code cannot be pickled is left to its file; all of them are if that does not help.
        """
        left: list[str] = []
        made = self._pickled(left)
        while isinstance(made, NotPickledError):
            if len(left) == len(self.modules):
                return made.error
            is_culprit = made.module not in ("", *left) and len(left) < MOST_BY_FILE
            left = [*left, made.module] if is_culprit else [module.__name__ for module in self.modules]
            made = self._pickled(left)
        for name in left[:-1]:  # left out for the code of the last one, perhaps
            again = self._pickled([other for other in left if other != name])
            if isinstance(again, Pickled):
                made, left = again, [other for other in left if other != name]
        return replace(made, by_file=made.by_file | {name for name in left if name.encode() in made.data})

    def _pickled(self, left: Collection[str]) -> Pickled | NotPickledError:
        """Return the payload without the code of the modules that are ``left`` to their files, or the error."""
        modules = [module for module in self.modules if module.__name__ not in left]
        try:
            with _by_value(modules):
                return payload_dumps(self.function, self.call, self.namespaces, modules)
        except NotPickledError as error:
            return error


@contextmanager
def _by_value(modules: Sequence[types.ModuleType]) -> Iterator[None]:
    already = cloudpickle.list_registry_pickle_by_value()
    added = [module for module in modules if module.__name__ not in already]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


class StrictPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles as cloudpickle does, without open files, of which a job would get the content of this moment."""

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is pickled. Raises `pickle.PicklingError` for an open file."""
        if isinstance(value, types.CodeType):
            return _with_its_file(value)
        if isinstance(value, io.TextIOWrapper) and value not in (sys.stdin, sys.stdout, sys.stderr):
            msg = f"it is the open file {given(str(value.name), LONG_GIVEN)}"
            raise pickle.PicklingError(msg)
        return super().reducer_override(value)


def _with_its_file(code: types.CodeType) -> tuple[Any, tuple[Any, ...]]:
    """Return how code is pickled with the name of its file, by which errors name its cell.

    cloudpickle 3.1.3 and later put another name in its place, which is the first text of the values.
    """
    kind, values = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    place = next(place for place, value in enumerate(values) if isinstance(value, str))
    return kind, (*values[:place], code.co_filename, *values[place + 1 :])


class _Pickler(StrictPickler):
    """Pickles by value as cloudpickle does, and collects the names of the functions and classes, by module.

    The user's ``modules`` themselves are pickled by their names, and the attributes that pickled code uses of them
    are collected: the parts of a module that are used are sent, and nothing else of it.
    """

    def __init__(
        self,
        file: io.BytesIO,
        namespaces: Iterable[tuple[str, dict[str, Any]]],
        modules: Iterable[types.ModuleType] = (),
    ) -> None:
        super().__init__(file)
        self._modules = {module.__name__: module for module in modules}
        self._namespaces: dict[str, list[dict[str, Any]]] = {}
        self._names: dict[str, dict[str, Any]] = {}
        self._done: set[tuple[str, str]] = set()
        self._loading: dict[type, bool] = {}
        self._uses = ModuleUses(self._modules)
        self.last_module = ""
        self._left_out: set[str] = set()
        for module, variables in (*namespaces, *((name, vars(each)) for name, each in self._modules.items())):
            self._namespaces.setdefault(module, []).append(variables)
            self.globals_ref[id(variables)] = Namespace(module)

    @property
    def left_out(self) -> frozenset[str]:
        """The modules of which code uses a value that does not go along."""
        return frozenset(self._left_out)

    @property
    def own_loading(self) -> bool:
        """Whether the loading of an object runs code of the user's own classes."""
        return any(self._loading.values())

    def new_names(self) -> dict[str, dict[str, Any]]:
        """Return the findings since the last call, by module and name."""
        for module, name, value in self._uses.new():
            if isinstance(value, (*NAMED, types.ModuleType)) or _is_sent(value):
                self._names.setdefault(module, {}).setdefault(name, value)
            else:
                self._left_out.add(module)
        found = {
            module: {name: value for name, value in names.items() if (module, name) not in self._done}
            for module, names in self._names.items()
        }
        self._done.update((module, name) for module, names in found.items() for name in names)
        return {module: names for module, names in found.items() if names}

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is pickled, after a look at its name."""
        if isinstance(value, types.ModuleType) and self._modules.get(value.__name__) is value:
            self._uses.add_module(value)
            return module_of, (value.__name__,)
        if isinstance(value, types.FunctionType) and value.__module__ in self._namespaces:
            self._uses.add_code(value.__code__, value.__globals__)
        elif isinstance(value, Cell):
            for code in compile_cell(value.source):
                self._uses.add_code(code, value.variables)
        if isinstance(value, NAMED):
            if value.__module__ in self._modules:
                self.last_module = value.__module__
            self._collect(value)
        elif type(value).__module__ in self._namespaces and type(value) not in self._loading:
            self._loading[type(value)] = _has_own_loading(type(value), self._namespaces.keys())
        if isinstance(value, CACHED):
            settings = value.cache_parameters()
            return cached, (value.__wrapped__, settings["maxsize"], settings["typed"])
        if isinstance(value, TYPING) and getattr(value, "__module__", None) == "__main__":
            return _typed(value)
        return super().reducer_override(value)

    def _collect(self, value: Any) -> None:
        module = getattr(value, "__module__", None)
        if not isinstance(module, str):
            return
        for variables in self._namespaces.get(module, ()):
            name = name_of(value, variables, module)
            if not name:
                continue
            top, _, within = name.partition(".")
            names = self._names.setdefault(module, {})
            names.setdefault(top, variables[top])
            if within and isinstance(value, type):  # cloudpickle forgets its qualified name
                names.setdefault(name, value)
            return


def _is_sent(value: Any) -> bool:
    """Return whether a value of a module goes along: it can be pickled, and is not large."""
    file = io.BytesIO()
    try:
        StrictPickler(file).dump(value)
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return False
    return file.tell() <= MAX_VALUE


def _typed(value: Any) -> tuple[Any, ...]:
    kind, name = type(value).__name__, value.__name__
    if kind == "NewType":
        return typed, (kind, name, (value.__supertype__,), {})
    if kind == "TypeVar":
        options = {key: getattr(value, f"__{key}__") for key in ("bound", "covariant", "contravariant")}
        return typed, (kind, name, value.__constraints__, options)
    if kind == "TypeAliasType":
        return typed, (kind, name, (value.__value__,), {"type_params": value.__type_params__})
    return typed, (kind, name, (), {})
