"""The traits of declared settings, which a configuration file, the command line and the docs use."""

from __future__ import annotations

import types
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec import inspect
from traitlets import (
    Bool,
    Dict,
    Enum,
    Float,
    HasTraits,
    Integer,
    List,
    TraitError,
    TraitType,
    Tuple,
    Unicode,
    Union,
)

from springtide.scheduler.settings import Setting
from springtide.scheduler.wire.wrong_values import words
from springtide.scheduler.wording import LONG_GIVEN, given


def traits_of(settings: Iterable[Setting]) -> type[HasTraits]:
    """Return a class with a trait for each setting."""
    body = {"__module__": __name__, **{setting.name: _trait(setting) for setting in settings}}
    return types.new_class("DeclaredTraits", (HasTraits,), exec_body=lambda namespace: namespace.update(body))


def expected(setting: Setting) -> str:
    """Return the values that a setting takes, in words."""
    text = words(inspect.type_info(setting.type)).replace("nothing (null)", "None")
    return text.replace("number", f"number of {setting.unit}", 1) if setting.unit else text


def _trait(setting: Setting) -> TraitType[Any, Any]:
    """Return the trait of a setting, whose check and its message are those of the declaration."""
    kind = inspect.type_info(setting.type)
    made = _made_as(kind)

    class Checked(made.func):  # type: ignore[name-defined] # the class depends on the setting
        def validate(self, obj: Any, value: Any) -> Any:
            try:
                msgspec.convert(value, setting.type)
                return super().validate(obj, value)
            except (TraitError, msgspec.ValidationError):
                shown = given(value, LONG_GIVEN)
                raise TraitError(f"Springtide.{setting.name} is {shown}; expected {expected(setting)}.") from None

    Checked.__name__ = made.func.__name__
    default = msgspec.to_builtins(setting.default)
    if isinstance(default, tuple) and not isinstance(kind, inspect.TupleType):
        default = list(default)
    trait: TraitType[Any, Any] = Checked(
        *made.args,
        default_value=sorted(default) if isinstance(setting.default, frozenset) else default,
        allow_none=any(isinstance(part, inspect.NoneType) for part in _parts(kind)),
        help=f"{setting.help}{_range(setting)}",
        config=True,
    )
    return trait


def _range(setting: Setting) -> str:
    """Return a sentence with the unit and the bounds of a number, and with the choices of an enumeration."""
    text = expected(setting)
    informative = "object" not in text and ("one of " in text or any(char.isdigit() for char in text))
    return f" {text[0].upper()}{text[1:]}." if setting.unit or informative else ""


def _parts(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _made_as(kind: inspect.Type) -> partial[Any]:
    """Return the constructor of a type's trait, with its arguments."""
    match kind:
        case inspect.BoolType():
            return partial(Bool)
        case inspect.IntType():
            return partial(Integer)
        case inspect.FloatType():
            return partial(Float)
        case inspect.StrType():
            return partial(Unicode)
        case inspect.EnumType():
            return partial(Enum, [each.value for each in kind.cls])
        case inspect.LiteralType():
            return partial(Enum, list(kind.values))
        case inspect.VarTupleType() | inspect.FrozenSetType():
            return partial(List, _made_as(kind.item_type)())
        case inspect.TupleType():
            return partial(Tuple, *(_made_as(item)() for item in kind.item_types))
        case inspect.DictType(value_type=inspect.AnyType()):
            return partial(Dict)
        case inspect.DictType():
            return partial(Dict, _made_as(kind.value_type)())
        case inspect.UnionType():
            parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
            return _made_as(parts[0]) if len(parts) == 1 else partial(Union, [_made_as(part)() for part in parts])
        case _:
            raise TypeError(kind)
