"""Rules that make members and leads of projects out of the groups of an identity provider; pure.

The hub applies them whenever its authenticator says who is in which group: at each log-in and each refresh. A
person gets the group of each project beside the groups of the provider, so the hub, its spawners and the pool see
an ordinary member. Leads are the holders of a role of the hub that a rule adds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, inspect

from springtide.hub_extension.web.auth import PROJECT_ADMIN_SCOPE
from springtide.scheduler.settings import SettingError
from springtide.scheduler.wire.group_rules import (
    GroupEffect,
    GroupRule,
    GroupRulesView,
    GroupRuleView,
)
from springtide.scheduler.wire.pool_file import PoolFile, ProjectPart
from springtide.scheduler.wire.shapes import ProjectName
from springtide.scheduler.wire.wrong_values import words, wrong
from springtide.scheduler.wording import quoted

LEAD_ROLE: Final = "springtide-leads-"
"""Beginning of the names of the hub's roles that come from rules."""
SEPARATOR: Final = "/"
JOINED: Final = "-"

Members = Mapping[str, Sequence[str]]


class Target(NamedTuple):
    """A project that a rule names for a group, and the departments around it, the outermost first."""

    project: str
    departments: tuple[str, ...] = ()


def declared_rules(values: Sequence[Mapping[str, Any]]) -> tuple[GroupRule, ...]:
    """Return the rules of the setting ``group_rules``. Raises `SettingError` that names the one that is wrong."""
    found = []
    for at, value in enumerate(values):
        place = f"Springtide.group_rules[{at}]"
        try:
            rule = msgspec.convert(value, GroupRule)
        except msgspec.ValidationError as error:
            refusal = wrong(str(error), GroupRule, value)
            raise SettingError(f"{place}: {refusal.message} {refusal.hint}".strip()) from None
        problem = problem_of(rule)
        if problem:
            raise SettingError(f"{place}: {problem}")
        found.append(rule)
    return tuple(found)


def problem_of(rule: GroupRule) -> str:
    """Return a sentence about a rule's mistake; empty if it has none."""
    if bool(rule.group) == bool(rule.prefix):
        which = "both group and prefix" if rule.group else "neither group nor prefix"
        return f"The rule has {which}; give one of them."
    if rule.project is None and (rule.group or rule.role == "lead"):
        what = "for one group" if rule.group else "for leads"
        return f"A rule {what} needs a project."
    if rule.role == "lead" and rule.prefix:
        return "A rule for leads is for one group; give group in place of prefix."
    if rule.departments and rule.project is not None:
        return "With departments the groups' names are the projects; leave out project or departments."
    return ""


def sentence(rule: GroupRule) -> str:
    """Return what a rule does, in a sentence."""
    if rule.role == "lead":
        return f"Who is in {quoted(rule.group)} leads {quoted(rule.project or '')}."
    if rule.group:
        return f"Who is in {quoted(rule.group)} is a member of {quoted(rule.project or '')}."
    groups = f"a group that begins with {quoted(rule.prefix)}"
    if rule.project is not None:
        return f"Who is in {groups} is a member of {quoted(rule.project)}."
    if rule.departments:
        return f"The rest of {groups} is a project; “/” in it separates a department from its projects."
    return f"The rest of {groups} is a project."


def rules_for(rules: Iterable[GroupRule], group: str) -> list[GroupRule]:
    """Return the rules that count for a group: those that name it, else those of the longest prefix."""
    rules = tuple(rules)
    leads = [rule for rule in rules if rule.role == "lead" and rule.group == group]
    members = [rule for rule in rules if rule.role == "member"]
    named = [rule for rule in members if rule.group == group]
    if named:
        return [*leads, *named]
    begun = [rule for rule in members if rule.prefix and group.startswith(rule.prefix) and group != rule.prefix]
    longest = max((len(rule.prefix) for rule in begun), default=0)
    return [*leads, *(rule for rule in begun if len(rule.prefix) == longest)]


def target_of(rule: GroupRule, group: str) -> Target:
    """Return the project that a rule names for a group."""
    if rule.project is not None:
        return Target(rule.project)
    rest = group.removeprefix(rule.prefix)
    if not rule.departments:
        return Target(rest)
    parts = [part for part in rest.split(SEPARATOR) if part]
    names = tuple(JOINED.join(parts[: depth + 1]) for depth in range(len(parts)))
    return Target(names[-1], names[:-1]) if names else Target("")


def with_projects(rules: Sequence[GroupRule], groups: Iterable[str]) -> list[str]:
    """Return the groups of a person, and those of the projects that the rules make her a member of."""
    own = set(groups)
    return sorted(own | _joined(rules, own))


def lead_roles(rules: Iterable[GroupRule]) -> list[dict[str, Any]]:
    """Return the hub's roles by which members of groups lead projects, one for each project."""
    groups: dict[str, list[str]] = {}
    for rule in rules:
        if rule.role == "lead" and rule.project is not None:
            groups.setdefault(rule.project, []).append(rule.group)
    return [
        {
            "name": f"{LEAD_ROLE}{hashlib.sha256(project.encode()).hexdigest()[:16]}",
            "description": f"Lead the project {project} of Springtide, by the rules for groups",
            "scopes": [f"{PROJECT_ADMIN_SCOPE}!group={project}"],
            "users": [],
            "groups": sorted(set(of)),
        }
        for project, of in sorted(groups.items())
    ]


def preview(
    rules: Sequence[GroupRule],
    current: Sequence[GroupRule],
    members: Members,
    parents: Mapping[str, str | None],
    *,
    managed: bool,
) -> GroupRulesView:
    """Return what rules do with the hub's groups, compared with the ``current`` ones.

    ``parents`` maps each project of the pool to the one that it is in.
    """
    of_people = _provided(current, members)
    groups: dict[str, set[str]] = {name: set() for name in members}
    for person, own in of_people.items():
        for group in own:
            groups[group].add(person)
    views = [
        GroupRuleView(
            rule=rule,
            text=sentence(rule),
            effects=[
                _effect(rule, group, groups[group], members, parents)
                for group in sorted(groups)
                if (groups[group] or group not in parents) and rule in rules_for(rules, group)
            ],
        )
        for rule in rules
    ]
    plain = msgspec.to_builtins(list(rules))
    return GroupRulesView(
        managed=managed,
        rules=views,
        loses=_loses(rules, current, of_people, members),
        missing=_missing(views, parents),
        python=f"c.Springtide.group_rules = {plain!r}",
        chart=f"service: {json.dumps({'settings': {'group_rules': plain}})}",
    )


def _joined(rules: Sequence[GroupRule], groups: Iterable[str]) -> set[str]:
    """Return the projects that the rules make a person with these groups a member of."""
    targets = (
        target_of(rule, group).project
        for group in groups
        for rule in rules_for(rules, group)
        if rule.role == "member"
    )
    return {project for project in targets if _is_name(project)}


def _provided(current: Sequence[GroupRule], members: Members) -> dict[str, set[str]]:
    """Return the groups of each person that the identity provider names: not those that other groups bring."""
    found: dict[str, set[str]] = {}
    for group, people in members.items():
        for person in people:
            found.setdefault(person, set()).add(group)
    return {
        person: {group for group in own if group not in _joined(current, own - {group})}
        for person, own in found.items()
    }


def _effect(
    rule: GroupRule, group: str, people: set[str], members: Members, parents: Mapping[str, str | None]
) -> GroupEffect:
    project, departments = target_of(rule, group)
    joins = people - set(members.get(project, ())) if rule.role == "member" else ()
    fine = _is_name(project)
    problem = ""
    if not project:
        problem = f"Nothing of {quoted(group)} is left for the name of a project."
    elif not fine:
        problem = f"{quoted(project)} is no name of a project: expected {words(inspect.type_info(ProjectName))}."
        if SEPARATOR in project:
            problem += " With departments “/” separates a department from its projects."
    elif departments and parents.get(project, departments[-1]) != departments[-1]:
        where = parents[project]
        inside = "in no department" if where is None else f"in {quoted(where)}"
        problem = f"{quoted(project)} is {inside}, not in {quoted(departments[-1])}; its members join it there."
    return GroupEffect(
        group=group,
        project=project,
        department=departments[-1] if departments else None,
        people=sorted(people),
        joins=sorted(joins) if fine else [],
        exists=project in parents,
        problem=problem,
    )


def _loses(
    rules: Sequence[GroupRule],
    current: Sequence[GroupRule],
    of_people: Mapping[str, set[str]],
    members: Members,
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for person, own in sorted(of_people.items()):
        for project in sorted(_joined(current, own) - _joined(rules, own) - own):
            if person in members.get(project, ()):
                found.setdefault(project, []).append(person)
    return found


def _missing(views: Iterable[GroupRuleView], parents: Mapping[str, str | None]) -> PoolFile:
    """Return the projects that the pool lacks as a file, departments before their projects."""
    parts: dict[str, ProjectPart] = {}
    for view in views:
        for effect in view.effects:
            project, departments = target_of(view.rule, effect.group)
            if not _is_name(project):
                continue
            path = (*departments, project)
            for at, name in enumerate(path):
                if name not in parents and name not in parts:
                    parts[name] = ProjectPart(parent=path[at - 1] if at else UNSET, quota=0)
    return PoolFile(projects=parts)


def _is_name(project: str) -> bool:
    try:
        msgspec.convert(project, ProjectName)
    except msgspec.ValidationError:
        return False
    return True
