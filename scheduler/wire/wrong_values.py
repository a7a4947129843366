"""Sentences about wrong values that name the field, the value and the expected one; pure.

The one translator of the messages of msgspec, for requests, settings and arguments of tools.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import inspect

from springtide.scheduler import wording
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources import quantities
from springtide.scheduler.wire import durations, shapes

SHOWN: Final = 60
"""Maximum number of characters of a value that a message repeats."""
LEFT_OUT: Final = {"/]": "“/”", "x20": "spaces", ",]": "commas"}
"""What a pattern leaves out if it has these signs, besides control characters."""

_TABLES = (inspect.DictType, inspect.ListType, inspect.VarTupleType, inspect.StructType)
_KEY_AT = re.compile(r" - at `key` in `\$")
_ANY = "[...]"
"""How msgspec names the place of a value, or of a name, in a table."""
SEARCHED: Final = 1000
"""Maximum size of a table in which the wrong value is searched."""
_AT = re.compile(r" - at `(?:key` in `)?\$\.?([^`]*)`$")
_ITEM = re.compile(r"(.+)\[\d+\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*?)`")
_MISSING = re.compile(r"^Object missing required field `(.*?)`")


def words(kind: inspect.Type) -> str:
    """Return the description of a type, such as ``a whole number from 1 up to 8 or nothing (null)``."""
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return ("a whole number" if isinstance(kind, inspect.IntType) else "a number") + _bounds(kind)
        case inspect.StrType(pattern=str(pattern)) if names := re.fullmatch(r"\^\(([\w|]+)\).*\$", pattern):
            return "one of " + ", ".join(names[1].split("|"))
        case inspect.StrType(pattern=shapes.KEPT_PATTERN):
            return "the name of a reported number, with :min or :max after it, such as loss or accuracy:max"
        case inspect.StrType(pattern=durations.PATTERN):
            return f"a duration such as {durations.EXAMPLES}"
        case inspect.StrType(pattern=quantities.CORES_PATTERN):
            return f"a number of cores such as {quantities.CORES_EXAMPLES}"
        case inspect.StrType(pattern=quantities.MEMORY_PATTERN):
            return f"an amount of memory such as {quantities.MEMORY_EXAMPLES}"
        case inspect.StrType():
            return f"text{_sizes(kind, 'character')}{_without(kind.pattern or '')}"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "nothing (null)"
        case inspect.BytesType():
            return "base64 text"
        case inspect.EnumType():
            return "one of " + ", ".join(str(each.value) for each in kind.cls)
        case inspect.LiteralType():
            return "one of " + ", ".join(map(str, kind.values))
        case inspect.TupleType():
            return "a list of " + " and ".join(map(words, kind.item_types))
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType():
            return f"a list{_sizes(kind)}, each item {words(kind.item_type)}"
        case inspect.DictType():
            return f"an object{_sizes(kind)}, each value {words(kind.value_type)}"
        case inspect.AnyType():
            return "anything"
        case inspect.StructType():
            return f"an object with {', '.join(_fields(kind))}"
        case inspect.Metadata():
            return words(kind.type)
        case inspect.UnionType():
            tables = [part for part in kind.types if isinstance(_bare(part), _TABLES)]
            return " or ".join(words(part) for part in (*(p for p in kind.types if p not in tables), *tables))
        case _:
            return "something else"


def _sizes(
    kind: inspect.StrType | inspect.ListType | inspect.VarTupleType | inspect.FrozenSetType | inspect.DictType,
    noun: str = "",
) -> str:
    least, most = kind.min_length, kind.max_length
    if least and most:
        return f" of {least} to {_counted(most, noun)}"
    bounds = (("least", least), ("most", most))
    return "".join(f" of at {which} {_counted(length, noun)}" for which, length in bounds if length)


def _counted(number: int, noun: str) -> str:
    return wording.count(number, noun) if noun else str(number)


def _without(pattern: str) -> str:
    """Return which characters a pattern leaves out, in words."""
    if not pattern:
        return ""
    others = [word for sign, word in LEFT_OUT.items() if sign in pattern]
    return f" without {', '.join(others)}{' or ' if others else ''}control characters"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    low = kind.ge if kind.ge is not None else kind.gt
    above = (
        " above" if kind.ge is None and kind.gt is not None else " from" if kind.le is not None else " of at least"
    )
    text = "" if low is None else f"{above} {low:.15g}"
    return text if kind.le is None else f"{text} up to {kind.le:.15g}"


def wrong(error: str, kind: type[msgspec.Struct], given: object) -> Refusal:
    """Return the refusal for an error message of msgspec; ``given`` is the parsed input, if it is available."""
    at = _AT.search(error)
    path = at[1] if at else ""
    steps = re.findall(r"\[[^\]]*\]|[^.\[]+", path)
    top = _fields(inspect.type_info(kind))
    inside = inspect.type_info(kind)
    if steps and steps[0] in top:
        inside = _descend(top[steps[0]], steps[1:], _value(given, steps[:1]))
    fields = _fields(inside)
    if found := _UNKNOWN.match(error):
        name = found[1]
        close = difflib.get_close_matches(name, fields, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known are: {', '.join(fields)}."
        where = f" in {path}" if steps else ""
        field = steps[0] if steps else name
        return Refusal(422, "unknown_field", f"There is no field {short(name)}{where}.", field=field, hint=hint)
    if found := _MISSING.match(error):
        name = f"{path}.{found[1]}" if steps else found[1]
        wanted = words(fields[found[1]])
        field = steps[0] if steps else found[1]
        return Refusal(422, "missing", f"{name} is missing; expected {wanted}.", field=field)
    if not steps or steps[0] not in top:
        return Refusal(
            422, "invalid", "The body must be a JSON object.", hint=f"Its fields are: {', '.join(top)}."
        )
    place = path.replace(_ANY, "")
    if _KEY_AT.search(error):
        name = _wrong_name(error, kind, given, steps)
        named = f"A name in {path} does not fit" if name is None else f"{path} has the name {short(name)}"
        table = next((part for part in _parts(inside) if isinstance(part, inspect.DictType)), None)
        wanted = words(inside if table is None else table.key_type)
        return Refusal(422, "invalid", f"{named}; expected {wanted}.", field=steps[0])
    value = _value(given, steps)
    if path.endswith(_ANY) and (name := _wrong_name(error, kind, given, steps[:-1])) is not None:
        path, value = f"{place}.{name}", _value(given, [*steps[:-1], name])
    if value is not None:
        got = _stated(path, value, inside)
    elif place != path:
        got = f"A value in {place} is of another kind"
    else:
        got = f"{path} does not fit" if given is None else f"{path} is null"
    return Refusal(422, "invalid", f"{got}; expected {words(inside)}.", field=steps[0])


def _wrong_name(error: str, kind: type[msgspec.Struct], given: object, steps: Sequence[str]) -> str | None:
    """Return the name in a table of ``given``, at the path ``steps``, of which an error is; None if unknown."""
    table = _value(given, steps)
    if not isinstance(table, dict) or len(table) > SEARCHED:
        return None
    for name, value in table.items():
        alone: object = {name: value}
        for step in reversed(steps):
            alone = {step: alone}
        try:
            msgspec.convert(alone, kind)
        except msgspec.ValidationError as found:
            if str(found) == error:
                return str(name)
    return None


def _stated(path: str, value: object, kind: inspect.Type) -> str:
    """Return the name of a field with its wrong value, an item of a list by itself; the length of a long text."""
    lengths = [part.max_length for part in _parts(kind) if isinstance(part, inspect.StrType) and part.max_length]
    is_long = isinstance(value, str) and bool(lengths) and len(value) > max(lengths)
    length = f" has {wording.count(len(value), 'character')}" if isinstance(value, str) and is_long else ""
    if item := _ITEM.fullmatch(path):
        return f"{item[1]}: {short(value)}{length or ' does not fit'}"
    return f"{path}{length}" if length else f"{path} is {short(value)}"


def _parts(kind: inspect.Type) -> Sequence[inspect.Type]:
    """Return the types of which a value may be."""
    kind = _bare(kind)
    return [_bare(part) for part in kind.types] if isinstance(kind, inspect.UnionType) else [kind]


def _fields(kind: inspect.Type) -> dict[str, inspect.Type]:
    """Return the fields of a struct's type, of kinds of structs the one that names the kind, else of the first."""
    kind = _bare(kind)
    if isinstance(kind, inspect.UnionType):
        if (tags := _tags(kind)) is not None:
            return {tags[0]: inspect.LiteralType(values=tags[1])}
        return next((fields for part in kind.types if (fields := _fields(part))), {})
    return {field.encode_name: field.type for field in kind.fields} if isinstance(kind, inspect.StructType) else {}


def _descend(kind: inspect.Type, steps: Sequence[str], given: object) -> inspect.Type:
    """Return the type of a part of ``given``: ``steps`` are names of fields, and ``[…]`` for items and values."""
    kind = _tagged(kind, given)
    for step in steps:
        parts = (kind, *kind.types) if isinstance(kind, inspect.UnionType) else (kind,)
        found = next((inner for part in parts if (inner := _part(part, step)) is not None), None)
        if found is None:
            return kind
        given = _value(given, [step])
        kind = _tagged(found, given)
    return kind


def _tagged(kind: inspect.Type, given: object) -> inspect.Type:
    """Return the type without descriptions, and of structs of several kinds the one that the input names."""
    kind = _bare(kind)
    if not isinstance(kind, inspect.UnionType) or not isinstance(given, dict):
        return kind
    tags = _tags(kind)
    return next((part for part in kind.types if tags and given.get(tags[0]) == _tag_of(part)), kind)


def _tags(kind: inspect.UnionType) -> tuple[str, tuple[str, ...]] | None:
    """Return the field that names the kind of a struct and the names of all kinds; None if there are none."""
    structs = [part for part in kind.types if isinstance(part, inspect.StructType) and part.tag_field is not None]
    return (str(structs[0].tag_field), tuple(str(part.tag) for part in structs)) if structs else None


def _tag_of(kind: inspect.Type) -> str | None:
    return str(kind.tag) if isinstance(kind, inspect.StructType) and kind.tag_field is not None else None


def _bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without descriptions of it."""
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _part(kind: inspect.Type, step: str) -> inspect.Type | None:
    kind = _bare(kind)
    if step.startswith("["):
        if isinstance(kind, inspect.DictType):
            return kind.value_type
        return kind.item_type if isinstance(kind, inspect.ListType | inspect.VarTupleType) else None
    return _fields(kind).get(step)


def _value(given: object, steps: Sequence[str]) -> object:
    """Return the value at the path ``steps``, None if there is none."""
    for step in steps:
        if isinstance(given, dict) and step in given:
            given = given[step]
        elif isinstance(given, list) and step[1:-1].isdigit() and int(step[1:-1]) < len(given):
            given = given[int(step[1:-1])]
        else:
            return None
    return given


def short(value: object) -> str:
    """Return a short text that describes or quotes a value."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    return wording.given(value, SHOWN) if isinstance(value, str) else json.dumps(value, default=str)[:SHOWN]
