"""The declaration of a setting, from which its trait, its check, its message and its documentation follow.

`setting` is the default of a field of a *group*: a frozen dataclass beside the code that reads it. A field of a
group may be a group itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Meta

T = TypeVar("T")

MINUTE: Final = 60.0
DAY: Final = 86_400.0
MIB: Final = 1 << 20
GIB: Final = 1 << 30


class SettingError(Exception):
    """A setting is invalid; the message is a sentence that names it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the service. ``type`` has the bounds of its values, ``unit`` names the unit of a number."""

    name: str
    type: Any
    default: Any
    help: str
    unit: str


def setting(
    default: T,
    help: str,  # noqa: A002 - as traitlets and click name it
    *,
    unit: str = "",
    ge: float | None = None,
    le: float | None = None,
    service_default: Any = UNSET,
) -> T:
    """Return a field that is a setting, with the bounds of a number.

    ``service_default`` is given if the service's default differs from that of simulations.
    """
    metadata = {
        "help": help,
        "unit": unit,
        "bounds": None if ge is None and le is None else Meta(ge=ge, le=le),
        "default": default if service_default is UNSET else service_default,
    }
    if default == {}:
        made: Any = field(default_factory=dict, metadata=metadata)
    else:
        made = field(default=default, metadata=metadata)
    return made  # type: ignore[no-any-return] # a dataclass makes an attribute of it


def declared(*groups: type) -> Iterator[Setting]:
    """Yield the settings of groups, and of the groups in them."""
    for group in groups:
        for name, kind, metadata in _fields(group):
            if metadata:
                bounds = metadata["bounds"]
                bounded = kind if bounds is None else Annotated[kind, bounds]
                yield Setting(name, bounded, metadata["default"], metadata["help"], metadata["unit"])
            elif isinstance(kind, type) and is_dataclass(kind):
                yield from declared(kind)


def read(group: type[T], values: Mapping[str, Any]) -> T:
    """Return a group, and the groups in it, with values of their settings; other fields have their defaults."""
    own = {setting.name: msgspec.convert(values[setting.name], setting.type) for setting in declared(group)}
    fields_of_group: dict[str, Any] = {}
    for name, kind, metadata in _fields(group):  # type: ignore[arg-type] # mypy takes the class for an instance
        if metadata:
            fields_of_group[name] = own[name]
        elif isinstance(kind, type) and is_dataclass(kind) and any(declared(kind)):
            fields_of_group[name] = read(kind, values)
    return group(**fields_of_group)


@cache
def _fields(group: Any) -> tuple[tuple[str, Any, Mapping[str, Any]], ...]:
    """Return name, type and metadata of each field; only settings have metadata."""
    hints = get_type_hints(group, include_extras=True)
    return tuple((each.name, hints[each.name], each.metadata) for each in fields(group))


def entries_by_name(
    entries: Iterable[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]], setting: str
) -> dict[str, dict[str, Any]]:
    """Return the fields of each entry of a setting by its name; the setting is a list, or a mapping by name.

    Raises `SettingError` for an entry of a list without a name.
    """
    if isinstance(entries, Mapping):
        return {name: dict(fields) for name, fields in entries.items()}
    return dict(_named(entries, setting))


def _named(entries: Iterable[Mapping[str, Any]], setting: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in entries:
        if not isinstance(entry.get("name"), str):
            raise SettingError(f"Springtide.{setting}: {entry} has no name.")
        yield entry["name"], {key: value for key, value in entry.items() if key != "name"}
