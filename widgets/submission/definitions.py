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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from springtide.scheduler.wording import LONG_GIVEN, given
from springtide.training.names import CACHED, NAMED, TYPING, Namespace, cached, name_of, typed

LOADING = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
MAKING = ("__new__", "__getattr__", "__getattribute__")
"""Methods of a class that run, or are looked up, while an object of it is loaded."""


@dataclass(frozen=True, slots=True)
class Pickled:
    """A payload. ``own_loading`` is true if loading it runs code of the user's own classes."""

    data: bytes
    own_loading: bool


def payload_dumps(
    function: Any,
    call: Mapping[str, Any],
    namespaces: Iterable[dict[str, Any]] = (),
    modules: Iterable[types.ModuleType] = (),
) -> Pickled:
    """Return a function and the rest of its call as a payload.

    ``namespaces`` are variables of the notebook besides those of ``__main__``, ``modules`` the ones whose
    functions and classes are pickled by value. Raises whatever the pickling of a part raises.
    """
    file = io.BytesIO()
    mains = [("__main__", variables) for variables in (*namespaces, vars(sys.modules["__main__"]))]
    pickler = _Pickler(file, [*mains, *((module.__name__, vars(module)) for module in modules)])
    for part in (function, dict(call)):
        pickler.dump(part)
        names = pickler.new_names()
        while names:
            pickler.dump(names)
            names = pickler.new_names()
        pickler.dump({})
    return Pickled(file.getvalue(), pickler.own_loading)


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
        """Return the payload, or the error of pickling it."""
        try:
            with _by_value(self.modules):
                return payload_dumps(self.function, self.call, self.namespaces, self.modules)
        except Exception as error:  # noqa: BLE001 - reported in words
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
        if isinstance(value, io.TextIOWrapper) and value not in (sys.stdin, sys.stdout, sys.stderr):
            msg = f"it is the open file {given(str(value.name), LONG_GIVEN)}"
            raise pickle.PicklingError(msg)
        return super().reducer_override(value)


class _Pickler(StrictPickler):
    """Pickles by value as cloudpickle does, and collects the names of the functions and classes, by module."""

    def __init__(self, file: io.BytesIO, namespaces: Iterable[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(file)
        self._namespaces: dict[str, list[dict[str, Any]]] = {}
        self._names: dict[str, dict[str, Any]] = {}
        self._done: set[tuple[str, str]] = set()
        self._loading: dict[type, bool] = {}
        for module, variables in namespaces:
            self._namespaces.setdefault(module, []).append(variables)
            self.globals_ref[id(variables)] = Namespace(module)

    @property
    def own_loading(self) -> bool:
        """Whether the loading of an object runs code of the user's own classes."""
        return any(self._loading.values())

    def new_names(self) -> dict[str, dict[str, Any]]:
        """Return the findings since the last call, by module and name."""
        found = {
            module: {name: value for name, value in names.items() if (module, name) not in self._done}
            for module, names in self._names.items()
        }
        self._done.update((module, name) for module, names in found.items() for name in names)
        return {module: names for module, names in found.items() if names}

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is pickled, after a look at its name."""
        if isinstance(value, NAMED):
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
