"""Validation of untrusted input: returns a checked struct, or an error that names the wrong field and the reason.

msgspec validates; `springtide.scheduler.wire.wrong_values` writes the messages. Numbers are not
converted between kinds: ``2.0`` and ``true`` are not accepted as counts of GPUs, and ``NaN`` and ``1e309`` are not
accepted as numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire.wrong_values import short, words, wrong

T = TypeVar("T", bound=msgspec.Struct)

EXPLAINED: Final = 1 << 20
"""Maximum size of a body to parse a second time so that the message quotes the wrong value, in bytes."""


def body_of(data: bytes, kind: type[T]) -> T:
    """Return the body as a struct. Raises `Refusal`: 400 if it is no JSON, 422 naming the field that is wrong."""
    try:
        body: T = decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        raise wrong(str(error), kind, _loosely(data)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        loose = _loosely(data)
        path = _odd_number(loose)
        if path is not None:
            raise wrong(f"Not a number - at `$.{path}`", kind, loose) from None
        raise Refusal(400, "not_json", "The body is not JSON in UTF-8.") from None
    return body


def query_of(arguments: Mapping[str, Sequence[bytes]], kind: type[T]) -> T:
    """Return the query parameters as a struct. Raises `Refusal` 422 naming the parameter that is wrong."""
    given: dict[str, str] = {}
    for name, values in arguments.items():
        if len(values) > 1:
            raise Refusal(
                422, "invalid", f"{short(name)} is given {len(values)} times; once is enough.", field=name
            )
        try:
            given[name] = values[0].decode()
        except UnicodeDecodeError:
            raise Refusal(422, "invalid", f"{short(name)} is not UTF-8.", field=name) from None
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise wrong(str(error), kind, given) from None


def struct_of(value: object, kind: type[T]) -> T:
    """Return parsed input as a struct. Raises `Refusal` 422 naming the field that is wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise wrong(str(error), kind, value) from None


def checked(value: object, kind: Any, field: str) -> Any:
    """Return a value of a path or header, converted to an annotated type. Raises `Refusal` 422."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        wanted = words(inspect.type_info(kind))
        raise Refusal(422, "invalid", f"{field} is {short(value)}; expected {wanted}.", field=field) from None


@cache
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a struct, which is created once."""
    return msgspec.json.Decoder(kind)


def _loosely(data: bytes) -> object:
    """Return the body parsed as JSON without validation, for quoting it; None if that fails."""
    if len(data) > EXPLAINED:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _odd_number(value: object) -> str | None:
    """Return the path of the first number that JSON does not permit, None if there is none."""
    try:
        return next(_not_finite(value, ""), None)
    except RecursionError:
        return None


def _not_finite(value: object, path: str) -> Iterator[str]:
    """Yield the paths of numbers that JSON does not permit."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _not_finite(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _not_finite(part, f"{path}[{index}]")
