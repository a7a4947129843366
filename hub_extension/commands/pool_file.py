"""``springtide export``, ``apply`` and ``copy-rules``: projects, people and rules as a file, and their copies."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from springtide.hub_extension.commands.text import json_option, one_line, print_json, say
from springtide.scheduler.client import Client
from springtide.scheduler.resources.quantities import shown_memory
from springtide.scheduler.scenario.document import ScenarioError, check_size, decode, load
from springtide.scheduler.wire import (
    OPTIONS,
    JobRanges,
    PoolFile,
    PoolFileDifference,
    PoolFileEdit,
    PoolFileView,
    RulesCopy,
)
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wording import count, given

LARGEST = 1 << 20
"""Maximum size of a file, in bytes."""
STANDARD = "-"
"""The standard input or output in place of a file."""
HEADER = (
    "Projects, people and rules of the pool, from `springtide export`.",
    "`springtide apply -f FILE` shows what another state of this file changes, asks, and applies it.",
    "A field that is left out stays as it is.",
)
WITH_UNITS = frozenset({Kind.MEMORY, Kind.DURATION, Kind.PRIORITY})
"""The kinds of options whose values a file has as people write them."""
PLAIN = (str, int, float, bool, type(None))


class FileError(click.ClickException):
    """A file cannot be applied; nothing has changed."""

    exit_code = 2


@click.command()
@click.option("-o", "--output", metavar="FILE", default=STANDARD, help="Write to this file instead of the output.")
@json_option
def export(*, output: str, as_json: bool) -> None:
    """Write projects, quotas, members and rules as a file, to keep it under version control."""
    with Client() as client:
        view = client.pool_file()
    text = msgspec.json.encode(plain(view.file)).decode() + "\n" if as_json else as_yaml(view)
    if output == STANDARD:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from error
    say(f"{count(len(view.file.projects), 'project')} written to {output}.")


@click.command()
@click.option("-f", "--file", "name", metavar="FILE", required=True, help="The file; - is the standard input.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--prune", is_flag=True, help="Delete projects and numbers of people that the file leaves out.")
@click.option("--yes", is_flag=True, help="Do not ask whether to apply the changes.")
@json_option
def apply(*, name: str, dry_run: bool, prune: bool, yes: bool, as_json: bool) -> None:
    """Make projects, quotas, members and rules as a file has them, all or nothing: springtide apply -f pool.yaml.

    Shows each change first and asks. A file with an error changes nothing.
    """
    if name == STANDARD and not (yes or dry_run):
        raise click.UsageError("A file from the standard input needs --yes or --dry-run: nothing can be asked.")
    shown = "standard input" if name == STANDARD else name
    content = _read(name, shown)
    with Client() as client:
        applied(client, content, shown, dry_run=dry_run, yes=yes, as_json=as_json, prune=prune)


@click.command("copy-rules")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", is_flag=True, help="Do not ask whether to apply the changes.")
@json_option
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy_rules(*, source: str, target: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Give a project the rules of another one, all or nothing: springtide copy-rules vision robots.

    Its limit, weight, priority, ranges, rule for idle workspaces and presets become those of the other; quotas and
    members stay. A project that does not exist is made, where the other one is. Shows each change first and asks.
    """
    copy = RulesCopy(source=source, dry_run=True)
    with Client() as client:
        found = client.copy_rules(target, copy)
        if found.problems:
            raise FileError(_refused(found, f"The copy of the rules of {source}"))
        if not as_json:
            _show(found, f"{target} has the rules of {source} already.")
        if found.changes and not dry_run:
            _ask(found, yes=yes, as_json=as_json)
            agreed = msgspec.structs.replace(copy, dry_run=False, version=found.version)
            found = client.copy_rules(target, agreed)
            _say_applied(found, as_json=as_json)
    if as_json:
        print_json(found)


def applied(
    client: Client,
    content: dict[str, Any],
    shown: str,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    prune: bool = False,
    version: str | None = None,
    partial: bool = False,
) -> None:
    """Show what the content of a file changes, ask, and apply it. Raises `FileError` with all that is wrong.

    ``version`` is that of the pool from which the content was made, if it was. ``partial`` content leaves projects
    out on purpose.
    """
    edit = PoolFileEdit(file=content, name=Path(shown).name, prune=prune, partial=partial, dry_run=True)
    found = client.apply_pool_file(edit)
    if found.problems:
        raise FileError(_refused(found, shown))
    if not as_json:
        _show(found, f"The pool is as {shown} has it.")
    if found.changes and not dry_run:
        _ask(found, yes=yes, as_json=as_json)
        found = client.apply_pool_file(
            msgspec.structs.replace(edit, dry_run=False, version=version or found.version)
        )
        _say_applied(found, as_json=as_json)
    if as_json:
        print_json(found)


def _ask(found: PoolFileDifference, *, yes: bool, as_json: bool) -> None:
    """Ask whether to apply the changes, unless ``yes``. Raises `click.Abort` if not."""
    if not yes:
        click.confirm(f"Apply {_these(found)}?", abort=True, err=as_json)


def _say_applied(found: PoolFileDifference, *, as_json: bool) -> None:
    if not as_json:
        click.echo(f"{count(len(found.changes), 'change')} applied.")


def _these(found: PoolFileDifference) -> str:
    return "this change" if len(found.changes) == 1 else f"these {len(found.changes)} changes"


def _show(found: PoolFileDifference, nothing: str) -> None:
    """Print the changes, or ``nothing`` if there are none, and what stays."""
    for change in found.changes:
        click.echo(one_line(change.text))
    if not found.changes:
        click.echo(one_line(nothing))
    for sentence in found.kept:
        say(one_line(sentence))


def _refused(found: PoolFileDifference, shown: str) -> str:
    reasons = (
        one_line(" ".join(filter(None, (f"{each.field}:", each.message, each.hint)))) for each in found.problems
    )
    what = count(len(found.problems), "reason")
    return "\n".join([f"{shown} is refused as a whole, for {what}; nothing has changed.", *reasons])


# ---------- the file


def plain(file: PoolFile) -> dict[str, Any]:
    """Return the content of a file as plain data: of ranges those that bound something, memory in units."""
    data: dict[str, Any] = msgspec.to_builtins(file)
    unbounded = msgspec.to_builtins(JobRanges())
    for part in data.get("projects", {}).values():
        ranges = {key: value for key, value in part["ranges"].items() if value != unbounded[key]}
        if isinstance(memory := ranges.get("max_memory"), int):
            ranges["max_memory"] = shown_memory(memory)
        part["ranges"] = ranges
    for part in (data, *data.get("projects", {}).values()):
        if "presets" in part:
            part["presets"] = {name: _plain_preset(preset) for name, preset in part["presets"].items()}
    return data


def _plain_preset(preset: dict[str, Any]) -> dict[str, Any]:
    """Return a preset with its options as people write them: amounts of memory and times with units."""
    shown = {
        name: OPTIONS[name].text(value) if OPTIONS[name].kind in WITH_UNITS else value
        for name, value in preset["options"].items()
    }
    return {**({"about": preset["about"]} if preset["about"] else {}), "options": shown}


def as_yaml(view: PoolFileView) -> str:
    """Return the file as YAML, with what it cannot change as comments at the top."""
    comments = "".join(f"# {one_line(line)}\n" for line in (*HEADER, *view.locked))
    data = plain(view.file)
    ordered = {key: data[key] for key in ("idle", "presets", "projects", "people") if key in data}
    return comments + yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, default_flow_style=False)


def _read(name: str, shown: str) -> dict[str, Any]:
    """Return the content of a YAML or JSON file. Raises `FileError` that names the place of a mistake."""
    try:
        raw = sys.stdin.buffer.read() if name == STANDARD else load(Path(name), shown, LARGEST)
        check_size(len(raw), shown, LARGEST)
        data = decode(raw, shown, as_yaml=Path(name).suffix.lower() != ".json")
    except ScenarioError as error:
        raise FileError(str(error)) from error
    if not isinstance(data, dict):
        raise FileError(f"{shown}: expected the tables projects and people, got {given(data)}.")
    wrong = next(_odd(data, ""), None)
    if wrong is not None:
        raise FileError(f"{shown}: {wrong}")
    return data


def _odd(value: Any, place: str) -> Iterator[str]:
    """Yield what JSON has no words for: names that are no text, dates, sets, NaN."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                yield f"{place or 'top'}: the name {given(key)} is no text; write it in quotes."
            yield from _odd(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _odd(part, f"{place}[{at}]")
    elif not isinstance(value, PLAIN) or (isinstance(value, float) and not math.isfinite(value)):
        yield f"{place}: {given(value)} is neither text nor a number; write a text in quotes."
