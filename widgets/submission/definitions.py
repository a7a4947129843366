"""The pickling of a notebook's code: by value, with the names that it has in ``__main__``.

`springtide.training.names` reads what is written here, and says what the job does with the names.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

import cloudpickle

from springtide.training.names import CACHED, NAMED, TYPING, Namespace, cached, name_of, typed


def payload_dumps(
    function: Any,
    call: Mapping[str, Any],
    namespaces: Iterable[dict[str, Any]] = (),
    modules: Iterable[types.ModuleType] = (),
) -> bytes:
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
    return file.getvalue()


def namespace_of(function: Any) -> list[dict[str, Any]]:
    """Return the variables of the notebook that a function was defined in; none for one of a module."""
    is_of_notebook = isinstance(function, types.FunctionType) and function.__module__ == "__main__"
    return [function.__globals__] if is_of_notebook else []


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value as cloudpickle does, and collects the names of the functions and classes, by module."""

    def __init__(self, file: io.BytesIO, namespaces: Iterable[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(file)
        self._namespaces: dict[str, list[dict[str, Any]]] = {}
        self._names: dict[str, dict[str, Any]] = {}
        self._done: set[tuple[str, str]] = set()
        for module, variables in namespaces:
            self._namespaces.setdefault(module, []).append(variables)
            self.globals_ref[id(variables)] = Namespace(module)

    def new_names(self) -> dict[str, dict[str, Any]]:
        """Return what was found since the last call, by module and name."""
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
