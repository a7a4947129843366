"""Rules of a train job's spec that the API server checks, in CEL, from the table of options. Pure.

They refuse nothing that the service would accept. What depends on the pool, the service alone can check.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import Any, Final, TypeAlias

from msgspec import inspect

from springtide.scheduler.model import PRIORITIES
from springtide.scheduler.resources import quantities
from springtide.scheduler.wire import Option, durations
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wire.submission import NEEDS_GPUS
from springtide.scheduler.wire.wrong_values import words

Rule: TypeAlias = dict[str, str]

_TEXTS: Final = {
    Kind.DURATION: durations.PATTERN,
    Kind.CORES: quantities.CORES_PATTERN,
    Kind.MEMORY: quantities.MEMORY_PATTERN,
    Kind.PRIORITY: rf"^({'|'.join(PRIORITIES)}|[0-9]+)$",
}
"""The texts that are read as numbers."""
_STARTS_WITH_DIGIT: Final = "(?=[0-9])"
_DIGIT: Final = r"\d"
"""A digit in CEL, which estimates the cost of a rule by the length of its pattern."""


def rule(condition: str, message: str, field: str = "") -> Rule:
    """Return a rule with its message, of a ``field`` of the object on which it stands."""
    path = {"fieldPath": f".{field}"} if field else {}
    return {"rule": condition, "message": message, **path}


VARIABLE_NAMES: Final = rule(
    'self.all(name, name != "" && !name.contains("="))',
    "the name of an environment variable is not empty and has no equals sign",
)
FILE_NAMES: Final = rule(
    r'self.all(name, !name.contains("\\") && !name.matches("(^|/)\\.{0,2}(/|$)"))',
    "expected relative paths with forward slashes, without “.” and “..”",
)


def of_text(kind: inspect.StrType) -> Rule:
    """Return the rule of a text with a pattern."""
    return rule(_matches(kind.pattern or ""), f"expected {words(kind)}")


def of_quantity(option: Option) -> Rule:
    """Return the rule of an option that takes a number or a text for it."""
    low = f"self {'>' if option.exclusive else '>='} {ceil(option.least or 0)}"
    bounds = low if option.most is None else f"{low} && self <= {floor(option.most)}"
    return rule(f"type(self) == int ? {bounds} : {_matches(_TEXTS[option.kind])}", f"expected {option.expected}")


def of_spec(
    options: Sequence[Option], properties: Mapping[str, Mapping[str, Any]], changeable: Collection[str]
) -> list[Rule]:
    """Return the rules about several fields of a spec with these ``properties``, and about their changes."""
    by_name = {option.name: option for option in options}
    fixed = [_fixed(name, known) for name, known in properties.items() if name not in changeable]
    return [
        rule(
            "!has(self.minWorkers) || self.minWorkers <= self.workers",
            "minWorkers is larger than workers: raise workers, or lower minWorkers",
            "minWorkers",
        ),
        rule("self.gpus > 0 || self.workers == 1", "a job without GPUs has one worker", "workers"),
        *(_with_gpus(by_name[name]) for name in NEEDS_GPUS),
        rule(
            "self.gpus > 0 || !self.testRun",
            "a job without GPUs has no test run: it waits for no GPU that a mistake could waste",
            "testRun",
        ),
        *_old_names(options),
        *fixed,
    ]


def _with_gpus(option: Option) -> Rule:
    field = f"self.{option.field}"
    match option.kind:
        case Kind.SWITCH:
            left_out = f"!{field}"
        case Kind.TEXTS:
            left_out = f"!has({field}) || size({field}) == 0"
        case _:
            left_out = f'!has({field}) || {field} == ""'
    message = f"{option.field} is about GPUs, and the job asks for none: leave it out, or ask for GPUs"
    return rule(f"self.gpus > 0 || {left_out}", message, option.field)


def _old_names(options: Sequence[Option]) -> Iterator[Rule]:
    for option in options:
        if option.old_field:
            yield rule(
                f"!has(self.{option.field}) || !has(self.{option.old_field})",
                f"{option.field} and {option.old_field} are both set; they are the same option",
                option.old_field,
            )


def _fixed(name: str, known: Mapping[str, Any]) -> Rule:
    """Return the rule by which a field keeps its value."""
    same = f"self.{name} == oldSelf.{name}"
    if name != "command" and "default" not in known:
        same = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"
    return rule(same, f"{name} cannot be changed: delete the object and create it again", name)


def _matches(pattern: str) -> str:
    """Return that a text has a pattern, which the engine of CEL takes without looking ahead."""
    plain = pattern.replace(_STARTS_WITH_DIGIT, "").replace(r"(?!\n)", "").replace("(?:", "(")
    parts = ["^[0-9]", plain] if _STARTS_WITH_DIGIT in pattern else [plain]
    return " && ".join(f"self.matches({json.dumps(part.replace('[0-9]', _DIGIT))})" for part in parts)
