"""``springtide groups``: which groups of an identity provider are which projects, and what other rules do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, say
from springtide.scheduler.client import Client
from springtide.scheduler.scenario.document import ScenarioError, decode, load
from springtide.scheduler.wire import GroupRule, GroupRulesView
from springtide.scheduler.wire.wrong_values import wrong
from springtide.scheduler.wording import count, given

HEADER = ("GROUP", "PEOPLE", "PROJECT", "ROLE", "JOIN AT LOG-IN", "POOL HAS IT")
SETTING = "group_rules"
NO_GROUPS = "The hub knows no group of these rules yet."
NO_RULES = "There are no rules: a group of the hub is the project of the same name."
UNMANAGED = "The hub's authenticator does not decide about groups (manage_groups): rules do nothing."


class RulesError(click.ClickException):
    """A file with rules cannot be read; nothing has changed."""

    exit_code = 2


@click.command()
@click.option("--rules", "file", metavar="FILE", help="Show what the rules of this file (YAML or JSON) would do.")
@click.option("--missing", is_flag=True, help="Write the projects that the pool lacks, as a file for apply.")
@json_option
def groups(*, file: str | None, missing: bool, as_json: bool) -> None:
    """Show which groups of your identity provider are which projects, and who joins at the next log-in.

    The rules are the setting group_rules. With --rules nothing changes: springtide groups --rules rules.yaml
    """
    rules = None if file is None else _read(file)
    with Client() as client:
        view = client.group_rules() if rules is None else client.preview_group_rules(rules)
    if missing:
        part = msgspec.to_builtins(view.missing)
        click.echo(msgspec.json.encode(part) if as_json else _yaml(part), nl=as_json)
    elif as_json:
        print_json(view)
    else:
        _show(view, preview=rules is not None)


def _yaml(part: Any) -> str:
    return yaml.safe_dump(part, sort_keys=False, allow_unicode=True, default_flow_style=False)


def _show(view: GroupRulesView, *, preview: bool) -> None:
    for each in view.rules:
        click.echo(one_line(each.text))
    if view.rules:
        click.echo()
    print_table(HEADER, _rows(view), empty=NO_GROUPS if view.rules else NO_RULES)
    for each in view.rules:
        for effect in each.effects:
            if effect.problem:
                say(one_line(f"{effect.group}: {effect.problem}"))
    for project, people in view.loses.items():
        say(one_line(f"At the next log-in {given(project)} loses {', '.join(people)}."))
    lacking = len(view.missing.projects)
    if lacking:
        say(f"The pool lacks {count(lacking, 'project')}: springtide groups --missing writes a file for apply.")
    if view.rules and not view.managed:
        say(UNMANAGED)
    if preview:
        say("Nothing has changed. To use these rules, put them into the hub's configuration and restart the hub:")
        click.echo(one_line(view.python))


def _rows(view: GroupRulesView) -> Iterator[Sequence[object]]:
    for each in view.rules:
        for effect in each.effects:
            joins = ", ".join(effect.joins) or "-"
            there = "yes" if effect.exists else "no"
            yield effect.group, len(effect.people), effect.project or "-", each.rule.role, joins, there


def _read(name: str) -> list[GroupRule]:
    """Return the rules of a YAML or JSON file. Raises `RulesError` that names the place of a mistake."""
    try:
        data = decode(load(Path(name), name), name, as_yaml=Path(name).suffix.lower() != ".json")
    except ScenarioError as error:
        raise RulesError(str(error)) from error
    rules = data.get(SETTING) if isinstance(data, dict) else data
    if not isinstance(rules, list):
        raise RulesError(f"{name}: expected a list of rules, or the table {SETTING}, got {given(data)}.")
    found = []
    for at, rule in enumerate(rules):
        try:
            found.append(msgspec.convert(rule, GroupRule))
        except msgspec.ValidationError as error:
            refusal = wrong(str(error), GroupRule, rule)
            raise RulesError(f"{name}: rule {at + 1}: {refusal.message} {refusal.hint}".strip()) from error
    return found
