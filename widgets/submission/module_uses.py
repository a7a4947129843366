"""The attributes of the user's own modules that code uses, by its text: nothing is executed."""

from __future__ import annotations

import dis
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any, TypeGuard


class ModuleUses:
    """Collects which attributes of ``modules`` are used by code: ``ef.b.fb`` by ``import ef.b`` or any other way.

    Code uses the modules that its globals, imports and texts name, such as in ``import_module("ef.b")``, their
    attributes of the names that it mentions, and so on in the modules among these.
    """

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self._modules = modules
        self._words: list[frozenset[str]] = []
        self._named: list[tuple[ModuleType, frozenset[str]]] = []
        self._values: dict[str, ModuleType] = {}
        self._seen: set[tuple[str, str]] = set()

    def add_code(self, code: CodeType, variables: Mapping[str, Any]) -> None:
        """Take code in, with the globals that it runs with."""
        if not self._modules:
            return
        codes = list(_nested(code))
        words = frozenset(word for each in codes for word in _words(each))
        package = str(variables.get("__package__") or "")
        names = {*words, *(name for each in codes for name in _imports(each, package))}
        found = [self._modules[name] for name in names if name in self._modules]
        found += filter(self._is_own, (variables.get(name) for name in words))
        self._words.append(words)
        self._named.extend((module, words) for module in found)

    def add_module(self, module: ModuleType) -> None:
        """Take in a module that is a value, such as an argument: all code may use it."""
        self._values[module.__name__] = module

    def new(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the module, the name and the value of each attribute that is used, once."""
        known = {module.__name__ for module, _ in self._named}
        values = [module for name, module in self._values.items() if name not in known]
        pending = [*self._named, *((module, words) for module in values for words in self._words)]
        seen = set()
        while pending:
            module, words = pending.pop()
            if (module.__name__, words) in seen:
                continue
            seen.add((module.__name__, words))
            for name in words & vars(module).keys():
                value = vars(module)[name]
                if self._is_own(value):
                    pending.append((value, words))
                if name.startswith("__") or (module.__name__, name) in self._seen:
                    continue
                self._seen.add((module.__name__, name))
                yield module.__name__, name, value

    def _is_own(self, value: Any) -> TypeGuard[ModuleType]:
        return isinstance(value, ModuleType) and self._modules.get(value.__name__) is value


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _words(code: CodeType) -> Iterator[str]:
    """Yield the names in code, and its texts, which may be names in ``getattr`` and ``import_module``."""
    yield from code.co_names
    yield from code.co_freevars
    yield from _texts(code.co_consts)


def _texts(constants: Iterable[object]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from _texts(constant)


def _imports(code: CodeType, package: str) -> Iterator[str]:
    """Yield the absolute names of the modules that code imports, and of what it imports from them."""
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level = next((each.argval for each in reversed(steps[:place]) if isinstance(each.argval, int)), 0)
        try:
            base = importlib.util.resolve_name("." * level + str(step.argval), package)
        except ImportError:
            continue
        yield base
        for following in steps[place + 1 :]:
            if following.opname == "IMPORT_NAME":
                break
            if following.opname == "IMPORT_FROM":
                yield f"{base}.{following.argval}"
