"""Whether a value fits the declared type of a parameter, as far as programs fail otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from springtide.scheduler.wording import given

PLAIN: Final = (bool, int, float, str)
"""Types of values that are compared: what others stand for, only the program knows."""
EXPECTED: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "int": ("a whole number", (int, bool)),
    "float": ("a number", (float, int, bool)),
    "bool": ("True or False", (bool, int)),
}
"""What is expected of parameters by their declared types, in words and as types."""


def misfit(name: str, declared: str, value: Any) -> str:
    """Return why a value does not fit a type such as ``int`` or ``float | None``; empty if it may fit."""
    kinds = [kind.strip() for kind in declared.split("|") if kind.strip() != "None"]
    expected = EXPECTED.get(kinds[0]) if len(kinds) == 1 else None
    if expected is None or type(value) not in PLAIN or type(value) in expected[1]:
        return ""
    return f"{name} is {given(value)}; expected {expected[0]}."
