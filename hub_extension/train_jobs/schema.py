"""The fields of a train job's spec, from the table of options: the struct that checks them, and the CRD's schema.

`make generate` writes `spec` into the chart's CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, inspect

from springtide.hub_extension.train_jobs import rules
from springtide.scheduler import wire
from springtide.scheduler.resources import quantities
from springtide.scheduler.wire import Option, Surface, durations
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wire.shapes import MAX_NAME, Request
from springtide.scheduler.wire.submission import offered

OPTIONS: Final = offered(Surface.TRAIN_JOB)
OWN_FIELDS: Final = {
    "argv": "command",
    "cwd": "workingDirectory",
    "files": "files",
    "suspend": "suspend",
    "ttl": "ttlSecondsAfterFinished",
}
"""The fields that are no options, by their attributes of `SpringtideJobSpec`."""
PRIORITY: Final = wire.OPTIONS["priority"].field
CHANGEABLE: Final = frozenset({OWN_FIELDS["suspend"], OWN_FIELDS["ttl"], PRIORITY})
"""The fields that can be changed while the train job exists."""
MAX_TEXT: Final = 131_072
"""Maximum number of characters of a word of the command, or of a variable's value."""
MAX_VARIABLES: Final = 1000
MAX_FILES: Final = 200
MAX_FILE: Final = 1_000_000
"""Maximum number of characters of a file."""
MAX_TTL: Final = 10 * 365 * 86_400
"""Maximum time for which an ended train job is kept, in seconds."""


def old_name(option: Option) -> str:
    """Return the attribute of `SpringtideJobSpec` that holds the value of the option's earlier name."""
    return f"{option.name}_seconds"


_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(wire.Submission)}


def _fields() -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    yield "command", _TYPES["argv"]
    for option in OPTIONS:
        yield option.name, _TYPES[option.name], option.stated_default
        if option.old_field:
            low: dict[str, Any] = {"gt" if option.exclusive else "ge": option.least}
            yield old_name(option), Annotated[float, Meta(le=option.most, **low)] | None, None
    yield "cwd", _TYPES["cwd"], None
    yield "files", dict[str, str], {}
    yield "suspend", bool, False
    yield "ttl", Annotated[int, Meta(ge=0, le=MAX_TTL)] | None, None


SpringtideJobSpec: Any = msgspec.defstruct(
    "SpringtideJobSpec",
    list(_fields()),
    bases=(Request,),
    rename={
        **{option.name: option.field for option in OPTIONS},
        **{old_name(option): option.old_field for option in OPTIONS if option.old_field},
        **{name: field for name, field in OWN_FIELDS.items() if name != "argv"},
    },
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    module=__name__,
)
"""The spec of a train job: the fields of `wire.Submission` under their names in manifests, and its own."""


def spec() -> dict[str, Any]:
    """Return rules and properties of the spec's schema, for the CustomResourceDefinition."""
    found = properties()
    return {"x-kubernetes-validations": rules.of_spec(OPTIONS, found, CHANGEABLE), "properties": found}


def properties() -> dict[str, dict[str, Any]]:
    """Return the schema of each field of the spec."""
    found: dict[str, dict[str, Any]] = {
        "command": {
            "description": "The command and its arguments, run without a shell in each worker. {code} in a word, "
            "or in the value of a variable, means the directory that files are written to.",
            "type": "array",
            "minItems": 1,
            "maxItems": 4096,
            "items": {"type": "string", "maxLength": MAX_TEXT},
            "x-kubernetes-validations": [rules.rule('self[0] != ""', "There is no command to run.")],
        }
    }
    for option in OPTIONS:
        found[option.field] = _property(option)
        if option.old_field:
            found[option.old_field] = _old_property(option)
    found["workingDirectory"] = {
        "description": "Where it starts, an absolute path. The default is a directory of the job's own.",
        "type": "string",
        "maxLength": 4096,
        "x-kubernetes-validations": [rules.rule('self.startsWith("/")', "expected an absolute path, from /")],
    }
    found["files"] = {
        "description": "Files that it runs, by relative path: text that is written to {code} before each attempt.",
        "type": "object",
        "maxProperties": MAX_FILES,
        "additionalProperties": {"type": "string", "maxLength": MAX_FILE},
        "x-kubernetes-validations": [rules.FILE_NAMES],
    }
    found["suspend"] = {
        "description": "Whether the job is paused. Set to true it saves its work and gives its GPUs back, or does "
        "not start; set to false it waits for GPUs again. A pause from elsewhere, such as the job's page, stays.",
        "type": "boolean",
        "default": False,
    }
    found["ttlSecondsAfterFinished"] = {
        "description": "Time until the object is deleted once it has finished, in seconds. Its job stays in the "
        "pool, with its logs and outputs. The default is never.",
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_TTL,
    }
    return found


def _property(option: Option) -> dict[str, Any]:
    text = option.help
    if option.kind is Kind.DURATION:
        text += " A number of seconds, or text such as 10m, 2h or 1h30m."
    elif option.kind is Kind.CORES:
        text += ' A whole number, or text such as "0.5" or 500m.'
    elif option.kind is Kind.MEMORY:
        text += " Text such as 16Gi or 16GB, or a number of bytes."
    has_value = isinstance(option.default, str | int)
    if not has_value and option.default_text != "none":
        text += f" The default is {option.default_text}."
    return {"description": text, **_type(option), **({"default": option.stated_default} if has_value else {})}


def _type(option: Option) -> dict[str, Any]:
    match option.kind:
        case Kind.WHOLE:
            return {"type": "integer", "minimum": option.least, "maximum": option.most}
        case Kind.DURATION:
            return _number_or_text(option, durations.MAX_LENGTH)
        case Kind.CORES | Kind.MEMORY:
            return _number_or_text(option, quantities.MAX_LENGTH)
        case Kind.PRIORITY:
            return _number_or_text(option, MAX_NAME)
        case Kind.SWITCH:
            return {"type": "boolean"}
        case Kind.TEXTS:
            return {"type": "array", "maxItems": option.most, "items": _item(_TYPES[option.name])}
        case Kind.VARIABLES:
            values = {"type": "string", "maxLength": MAX_TEXT}
            known = {"type": "object", "maxProperties": MAX_VARIABLES, "additionalProperties": values}
            return {**known, "x-kubernetes-validations": [rules.VARIABLE_NAMES]}
        case Kind.TEXT:
            return {"type": "string", "maxLength": option.most}


def _number_or_text(option: Option, longest: int) -> dict[str, Any]:
    known = {"x-kubernetes-int-or-string": True, "maxLength": longest}
    return {**known, "x-kubernetes-validations": [rules.of_quantity(option)]}


def _item(of: Any) -> dict[str, Any]:
    """Return the schema of the items of a list of texts."""
    kind: Any = inspect.type_info(of)
    item = kind.item_type
    bounds = {"minLength": item.min_length, "maxLength": item.max_length}
    found = {"type": "string", **{name: bound for name, bound in bounds.items() if bound}}
    return found if item.pattern is None else {**found, "x-kubernetes-validations": [rules.of_text(item)]}


def _old_property(option: Option) -> dict[str, Any]:
    exclusive = {"exclusiveMinimum": True} if option.exclusive else {}
    return {
        "description": f"Earlier name of {option.field}, a number of seconds. Only one of the two can be set.",
        "type": "number",
        "minimum": option.least,
        **exclusive,
        "maximum": option.most,
    }
