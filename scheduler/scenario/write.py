"""The writing of a scenario: JSON of a document without the values that a reader fills in."""

from __future__ import annotations

from typing import Any

import msgspec

from springtide.scheduler.scenario.shape import Document


def written(document: Document) -> bytes:
    """Return the document as JSON, one job, node or change a line; `parse` reads the same from it."""
    parts = []
    for name, value in _given(document).items():
        if isinstance(value, list):
            lines = ",\n".join(msgspec.json.encode(each).decode() for each in value)
            parts.append(f'"{name}": [\n{lines}\n]')
        else:
            parts.append(f'"{name}": {msgspec.json.encode(value).decode()}')
    return ("{" + ",\n".join(parts) + "}\n").encode()


def _given(part: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a part whose values are no defaults, and those that have none."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if not field.required:
            default = field.default
            if default is msgspec.NODEFAULT:
                default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None
            if value == default:
                continue
        found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _given(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
