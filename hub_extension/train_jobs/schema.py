"""The fields of a TrainJob's spec, from the table of options: the struct that checks them, and the CRD's schema.

`make generate` writes `properties` into the chart's CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from springtide.scheduler import wire
from springtide.scheduler.resources import quantities
from springtide.scheduler.wire import Option, Surface, durations
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wire.shapes import MAX_NAME, Request
from springtide.scheduler.wire.submission import offered

OPTIONS: Final = offered(Surface.TRAIN_JOB)
OWN_FIELDS: Final = {"argv": "command", "cwd": "workingDirectory", "files": "files"}
"""The fields that are no options, by their names in a submission."""
MAX_TEXT: Final = 131_072
"""Maximum number of characters of a word of the command, or of a variable's value."""
MAX_VARIABLES: Final = 1000
MAX_FILES: Final = 200
MAX_FILE: Final = 1_000_000
"""Maximum number of characters of a file."""


def old_name(option: Option) -> str:
    """Return the attribute of `TrainJobSpec` that holds the value of the option's earlier name."""
    return f"{option.name}_seconds"


def _fields() -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    types = {field.name: field for field in msgspec.structs.fields(wire.Submission)}
    yield "command", types["argv"].type
    for option in OPTIONS:
        yield option.name, types[option.name].type, option.stated_default
        if option.old_field:
            low: dict[str, Any] = {"gt" if option.exclusive else "ge": option.least}
            yield old_name(option), Annotated[float, Meta(le=option.most, **low)] | None, None
    yield "cwd", types["cwd"].type, None
    yield "files", dict[str, str], {}


TrainJobSpec: Any = msgspec.defstruct(
    "TrainJobSpec",
    list(_fields()),
    bases=(Request,),
    rename={
        **{option.name: option.field for option in OPTIONS},
        **{old_name(option): option.old_field for option in OPTIONS if option.old_field},
        "cwd": OWN_FIELDS["cwd"],
    },
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    module=__name__,
)
"""The spec of a TrainJob: the fields of `wire.Submission`, under their names in manifests."""


def properties() -> dict[str, dict[str, Any]]:
    """Return the schema of each field of the spec, for the CustomResourceDefinition."""
    found: dict[str, dict[str, Any]] = {
        "command": {
            "description": "The command and its arguments, run without a shell in each worker. {code} in a word, "
            "or in the value of a variable, stands for the directory that files are written to.",
            "type": "array",
            "minItems": 1,
            "maxItems": 4096,
            "items": {"type": "string", "maxLength": MAX_TEXT},
        }
    }
    for option in OPTIONS:
        found[option.field] = _property(option)
        if option.old_field:
            found[option.old_field] = _old_property(option)
    found["workingDirectory"] = {
        "description": "Where it starts, an absolute path. The default is a directory of the job's own.",
        "type": "string",
        "minLength": 1,
        "maxLength": 4096,
    }
    found["files"] = {
        "description": "Files that it runs, by relative path: text that is written to {code} before each attempt.",
        "type": "object",
        "maxProperties": MAX_FILES,
        "additionalProperties": {"type": "string", "maxLength": MAX_FILE},
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
            return {"x-kubernetes-int-or-string": True, "maxLength": durations.MAX_LENGTH}
        case Kind.CORES | Kind.MEMORY:
            return {"x-kubernetes-int-or-string": True, "maxLength": quantities.MAX_LENGTH}
        case Kind.PRIORITY:
            return {"x-kubernetes-int-or-string": True, "maxLength": MAX_NAME}
        case Kind.SWITCH:
            return {"type": "boolean"}
        case Kind.TEXTS:
            items = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
            return {"type": "array", "maxItems": option.most, "items": items}
        case Kind.VARIABLES:
            values = {"type": "string", "maxLength": MAX_TEXT}
            return {"type": "object", "maxProperties": MAX_VARIABLES, "additionalProperties": values}
        case Kind.TEXT:
            return {"type": "string", "minLength": 1, "maxLength": option.most}


def _old_property(option: Option) -> dict[str, Any]:
    exclusive = {"exclusiveMinimum": True} if option.exclusive else {}
    return {
        "description": f"Earlier name of {option.field}, a number of seconds. Only one of the two can be set.",
        "type": "number",
        "minimum": option.least,
        **exclusive,
        "maximum": option.most,
    }
