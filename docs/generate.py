"""Write the parts of the docs and of the chart that come from code: options, settings, calls of the API, formats.

Run `make generate` after a change of either. With ``--check`` nothing is written: the exit code is 1 if a part
is not up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import NODEFAULT, UNSET, Struct, inspect
from traitlets import TraitType
from traitlets.config import Configurable

from springtide.hub_extension.api.permissions import TABLE, Role
from springtide.hub_extension.api.routes import Route
from springtide.hub_extension.notifications.channels import KINDS
from springtide.hub_extension.service.service import Springtide
from springtide.hub_extension.service.settings import ServiceSettings
from springtide.hub_extension.service.site import ROUTES
from springtide.hub_extension.train_jobs import schema
from springtide.scheduler.executors.rendezvous import GANG, LAUNCHER, Rendezvous, template, worker_environment
from springtide.scheduler.gpu_reading import METRICS
from springtide.scheduler.scenario.shape import KEYS, Document
from springtide.scheduler.settings import declared
from springtide.scheduler.wire import OPTIONS, Option
from springtide.scheduler.wire.options import Kind
from springtide.spawner.local import LocalNotebook
from springtide.spawner.quota import BuildQuota

ROOT = Path(__file__).parents[1]
INDENT = 14
"""Indentation of the parts of a SpringtideJob's spec in the chart's file."""
WIDTH = 118
OWN_FIELDS = {
    "command": "The command and its arguments; `{code}` is the directory of `files`.",
    "workingDirectory": "Where it starts, an absolute path.",
    "files": "Files by relative path, as text. The whole manifest stays below 1 MiB.",
    "suspend": "Whether the job is paused, or does not start. It can be changed at any time.",
    "ttlSecondsAfterFinished": "Seconds until a finished SpringtideJob is deleted. It can be changed at any time.",
}
"""The fields of a SpringtideJob's spec that are no options."""


def option_table() -> list[str]:
    """Return the table of options for notebooks and terminals."""
    rows = [(f"`{o.name}`", f"`{_flag(o)}`", o.help, o.default_words) for o in OPTIONS.values()]
    return _table(("option", "in a terminal and for `%%train`", "meaning", "default"), rows)


def field_table() -> list[str]:
    """Return the table of the fields of a SpringtideJob's spec."""
    options = [(f"`{o.field}`", o.help, o.default_words) for o in schema.OPTIONS]
    defaults = {"suspend": "no", "ttlSecondsAfterFinished": "never"}
    command, *others = ((f"`{name}`", text, defaults.get(name, "")) for name, text in OWN_FIELDS.items())
    return _table(("field of `spec`", "meaning", "default"), [command, *options, *others])


def spec_schema() -> list[str]:
    """Return rules and properties of the schema of a SpringtideJob's spec."""
    text = yaml.safe_dump(schema.spec(), sort_keys=False, width=WIDTH - INDENT)
    return [f"{' ' * INDENT}{line}" for line in text.splitlines()]


def settings_schema() -> list[str]:
    """Return the service's settings as properties of the chart's schema; those of traitlets take any value."""
    settings = list(declared(ServiceSettings, *KINDS))
    schemas, components = msgspec.json.schema_components([setting.type for setting in settings])
    known = {each.name: _draft_7(schema, components) for each, schema in zip(settings, schemas, strict=True)}
    names = sorted(Springtide.class_trait_names(config=True))
    lines = (f'        "{name}": {json.dumps(known.get(name, {}))}' for name in names)
    return ['      "properties": {', *",\n".join(lines).splitlines(), "      },"]


def _draft_7(schema: Any, components: dict[str, Any]) -> Any:
    """Return a schema in the chart's JSON Schema draft, without constraints that the service does not have."""
    if isinstance(schema, list):
        return [_draft_7(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"enum": components[schema["$ref"].rpartition("/")[2]]["enum"]}
    if "prefixItems" in schema:
        schema = {**schema, "items": schema["prefixItems"]}
    kept = schema.keys() - {"uniqueItems", "prefixItems"}
    return {name: _draft_7(value, components) for name, value in schema.items() if name in kept}


def api_table() -> list[str]:
    """Return the table of the calls of the API."""
    heads = ("call", "what it does", "who", "takes", "answers")
    return _table(heads, [(f"`{_call(r)}`", r.summary, r.callers, _takes(r), _answers(r)) for r in ROUTES])


def gpu_metric_table() -> list[str]:
    """Return the table of the Prometheus gauges that show the readings of GPUs."""
    gauges = [(f"`{metric.gauge}`", metric.help) for metric in METRICS.values() if metric.gauge]
    return _table(("metric", "meaning"), gauges)


def role_table() -> list[str]:
    """Return the table of what each role in a project may do."""
    rows = []
    for action, rule in TABLE.items():
        own = [rule.own is not None and role >= rule.own for role in Role]
        cells = [
            "yes" if rule.role is not None and role >= rule.role else "one's own" if own[role] else ""
            for role in Role
        ]
        rows.append((str(action), *cells))
    return _table(("", *(role.words for role in Role)), rows)


CONFIGURABLES: dict[type[Configurable], str] = {
    Springtide: "The service and the pool.",
    BuildQuota: "Notebooks with a build quota, on one machine and on a cluster.",
    LocalNotebook: "Notebooks on one machine.",
}
PARTS_OF_SCENARIOS = {"": Document, **KEYS}


def configuration_tables() -> list[str]:
    """Return a table of the settings of each configurable class."""
    lines = []
    for configurable, use in CONFIGURABLES.items():
        traits = sorted(own_traits(configurable).items())
        rows = [(f"`{name}`", _code(trait.default_value_repr()), trait.help) for name, trait in traits]
        lines += [f"## c.{configurable.__name__}", use, "", *_table(("setting", "default", "meaning"), rows), ""]
    return lines[:-1]


def own_traits(configurable: type[Configurable]) -> dict[str, TraitType[Any, Any]]:
    """Return the settings of a class, with those of its parts that have no section of their own."""
    parts = [each for each in configurable.__mro__ if each.__module__.startswith("springtide.")]
    mine = [each for each in parts if each is configurable or not issubclass(each, Configurable)]
    return {name: trait for part in mine for name, trait in part.class_own_traits(config=True).items()}


def scenario_tables() -> list[str]:
    """Return a table of the keys of each part of a scenario."""
    lines: list[str] = []
    for part, shape in PARTS_OF_SCENARIOS.items():
        lines += [f"### {part}" if part else "### Top level", cleandoc(shape.__doc__ or "").replace("``", "`"), ""]
        info = inspect.type_info(shape)
        assert isinstance(info, inspect.StructType)
        rows = [(f"`{field.name}`", _words(field.type), _default(field)) for field in info.fields]
        lines += [*_table(("key", "value", "default"), rows), ""]
    return lines[:-1]


def rendezvous_table() -> list[str]:
    """Return the table of the variables by which workers find each other, those of the third of four."""
    hosts = tuple(f"w{place}.st-job-1" for place in range(4))
    meeting = Rendezvous(hosts[0], 29500, tuple(f"{host}:2222" for host in hosts), gpus=2)
    values = worker_environment(template(meeting, gang=True), 2)
    shown = {name: f"`{value}`" if value else "empty" for name, value in values.items()}
    rows = [(f"`{each.name}`", shown[each.name], each.readers) for each in (*LAUNCHER, *GANG)]
    return _table(("variable", "value", "read by"), rows)


PARTS = {
    "docs/admin.md": role_table,
    "docs/guide.md": option_table,
    "docs/operations.md": gpu_metric_table,
    "docs/reference/api.md": api_table,
    "docs/reference/configuration.md": configuration_tables,
    "docs/reference/files.md": scenario_tables,
    "docs/training.md": rendezvous_table,
    "docs/trainjob.md": field_table,
    "helm/springtide/crds/springtidejob.yaml": spec_schema,
    "helm/springtide/crds/trainjob.yaml": spec_schema,
    "helm/springtide/values.schema.json": settings_schema,
}


def _words(kind: inspect.Type) -> str:
    """Return a type of a scenario's value in words."""
    match kind:
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return f"list of {_words(item)}"
        case inspect.TupleType(item_types=items):
            return f"list of {len(items)}: {', '.join(_words(item) for item in items)}"
        case inspect.DictType(value_type=value):
            return f"table of {_words(value)}"
        case inspect.UnionType(types=types):
            return " or ".join(_words(each) for each in types)
        case inspect.StructType(cls=cls):
            return next(f"[{part}](#{part})" for part, shape in PARTS_OF_SCENARIOS.items() if shape is cls)
        case inspect.EnumType(cls=cls):
            return " or ".join(f"`{each.value}`" for each in cls)
        case inspect.IntType(ge=least):
            return f"whole number from {least}"
        case inspect.FloatType(gt=float() | int() as least):
            return f"number above {least:g}"
        case inspect.FloatType(ge=least):
            return f"number from {least:g}"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case _:
            return "text"


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    if field.default is UNSET:
        return "as it is"
    if field.default is NODEFAULT:
        return "empty"
    if isinstance(field.default, bool) or field.default is None:
        return {True: "true", False: "false", None: "null"}[field.default]
    if isinstance(field.default, Struct):
        return "empty"
    return f"`{field.default}`" if field.default not in ("", ()) else "empty"


def _code(text: str) -> str:
    return f"`{text}`"


def _flag(option: Option) -> str:
    values = {Kind.SWITCH: f"/{option.off}", Kind.VARIABLES: " NAME=VALUE"}
    typed = {Kind.DURATION, Kind.CORES, Kind.MEMORY}
    return option.flag + (f" {option.example}" if option.kind in typed else values.get(option.kind, ""))


def _call(route: Route) -> str:
    fields = route.query.__struct_fields__ if route.query else ()
    query = "?" + "&".join(f"{name}=" for name in fields) if fields else ""
    return f"{route.method} {route.path.replace(':path', '')}{query}"


def _takes(route: Route) -> str:
    return f"`{route.body.__name__}`" if route.body else ""


def _answers(route: Route) -> str:
    status = "" if route.status == 200 else str(route.status)
    if route.status == 204:
        return status
    body = f"`{route.answer.__name__}`" if route.answer else f"`{route.media}`"
    return f"{status} {body}".strip() + "".join(f", or {other}" for other in route.also)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines]


def _renewed(text: str, part: Sequence[str]) -> str:
    """Return the text with what stands between its two marks replaced."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if "generated by `make generate`" in line)
    end = next(at for at, line in enumerate(lines) if "end of the generated part" in line)
    return "\n".join([*lines[: start + 1], *part, *lines[end:]]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the parts, or say which are not up to date."""
    stale = 0
    for name, make in PARTS.items():
        path = ROOT / name
        old = path.read_text()
        new = _renewed(old, make())
        if new == old:
            continue
        if "--check" in arguments:
            sys.stderr.write(f"{name} is not what the code says. Run `make generate`.\n")
            stale = 1
        else:
            path.write_text(new)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
