"""Whether a value fits the declared type of a parameter, as far as programs fail otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from springtide.scheduler.wording import given

PLAIN: Final = (bool, int, float, str)
"""Types of values that are compared: the meaning of others is known to the program alone."""
Expected: TypeAlias = Mapping[str, tuple[str, tuple[type, ...]]]
"""The expected values of parameters by their declared types, in words and as types."""
OF_FUNCTIONS: Final[Expected] = {
    "int": ("a whole number", (int, bool)),
    "float": ("a number", (float, int, bool)),
    "bool": ("True or False", (bool, int)),
}
"""As Python has it, where True is 1."""
OF_NOTEBOOKS: Final[Expected] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (float, int)),
    "bool": ("True or False", (bool,)),
    "str": ("a text", (str,)),
}
"""As the defaults are that a notebook writes out."""


def only_kind(declared: str) -> str:
    """Return the kind of values that a type such as ``int`` or ``float | None`` has, empty if it has several."""
    kinds = [kind.strip() for kind in declared.split("|") if kind.strip() != "None"]
    return kinds[0] if len(kinds) == 1 else ""


def misfit(name: str, declared: str, value: Any, types: Expected) -> str:
    """Return why a value does not fit a type such as ``int`` or ``float | None``; empty if it may fit."""
    expected = types.get(only_kind(declared))
    if expected is None or type(value) not in PLAIN or type(value) in expected[1]:
        return ""
    return f"{name} is {given(value)}; expected {expected[0]}."
