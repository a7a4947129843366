"""What the hub's own configuration decides about groups and roles: the pool shows it, and leaves it alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from springtide.hub_extension.group_rules import Members, declared_rules, lead_roles, sentence
from springtide.hub_extension.web.auth import PROJECT_ADMIN_SCOPE
from springtide.scheduler.engine.requests.pool_file import Memberships
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.settings import setting
from springtide.scheduler.wire import GroupRule, Lead
from springtide.scheduler.wording import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfiguration:
    """The parts of the hub's configuration that are about people, as `configure` has found them."""

    managed_groups: bool = setting(
        False,
        "Whether the hub's authenticator decides who is in which group (manage_groups), so that the pool changes "
        "no members. `configure(c)` finds it; set it for a service that runs by itself.",
    )
    configured_groups: Mapping[str, tuple[str, ...]] = setting(
        {},
        "The people whom the hub's configuration adds at each start (load_groups), by group. `configure(c)` finds "
        "them; set them for a service that runs by itself.",
    )
    configured_roles: tuple[Mapping[str, Any], ...] = setting(
        (),
        "The roles of the hub's configuration (load_roles) by which people administer projects: name, scopes, "
        "users and groups, to show who leads what and to notify leads of budgets. `configure(c)` finds them; set "
        "them for a service that runs by itself.",
    )
    group_rules: tuple[Mapping[str, Any], ...] = setting(
        (),
        "The rules that make members and leads of projects out of the groups of an authenticator with "
        "manage_groups: {'group': 'ml-vision', 'project': 'vision'}, with 'role': 'lead' for leads, or {'prefix': "
        "'gpu/', 'departments': True}. The hub applies them at each log-in.",
    )

    def rules(self) -> tuple[GroupRule, ...]:
        """Return the rules for groups. Raises `SettingError` for one that is wrong."""
        return declared_rules(self.group_rules)

    def rule_words(self) -> list[str]:
        """Return what each rule for groups does, in a sentence that says where the rule is set."""
        return [f"By group_rules of the hub's configuration: {sentence(rule)}" for rule in self.rules()]

    def memberships(self, members: Members) -> Memberships:
        """Return the members with what of them the pool does not decide."""
        return Memberships(members, self.managed_groups, self.configured_groups)

    def why_locked(self) -> str:
        """Return why groups of the hub cannot be changed here, empty if they can."""
        if not self.managed_groups:
            return ""
        why = "The hub's authenticator decides who is in which group: the next log-in would undo a change."
        if not self.group_rules:
            return why
        return f"{why} The rules for groups say which group is which project."

    def check_change(self, project: str, person: str, *, removed: bool) -> None:
        """Raise `Refusal` 409 for a change of members that the hub would undo."""
        if self.managed_groups:
            raise Refusal(409, "managed", self.why_locked(), hint="Change the group where people log in.")
        if removed and person in self.configured_groups.get(project, ()):
            raise Refusal(
                409,
                "managed",
                f"The hub's configuration puts {quoted(person)} into {quoted(project)} at each start.",
                hint="Take the name out of c.JupyterHub.load_groups first.",
            )

    def leads(self, members: Members) -> dict[str, list[Lead]]:
        """Return who administers which project by a role of the configuration; every project is the empty name."""
        found: dict[str, dict[str, Lead]] = {}
        for role in self._roles():
            for project in _projects(role):
                of = found.setdefault(project, {})
                for lead in self._people(role, members):
                    if lead.name not in of or of[lead.name].locked:
                        of[lead.name] = lead
        return {project: [of[name] for name in sorted(of)] for project, of in found.items()}

    def lead_group(self, project: str) -> str:
        """Return the group of the hub whose members lead a project, and no other.

        Raises `Refusal` 409 if no role of the configuration gives the lead to a group.
        """
        roles = (role for role in self._roles() if _projects(role) == [project])
        group = next((str(group) for role in roles for group in role.get("groups", ())), "")
        if group:
            return group
        scopes = f'["{PROJECT_ADMIN_SCOPE}!group={project}", "groups!group={project}"]'
        raise Refusal(
            409,
            "no_role",
            f"No role of the hub's configuration lets the members of a group lead {quoted(project)} alone.",
            hint="Add one to c.JupyterHub.load_roles, before configure(c), and restart the hub: "
            f'{{"name": …, "scopes": {scopes}, "groups": [{json.dumps(f"{project}-leads")}]}}.',
        )

    def _roles(self) -> tuple[Mapping[str, Any], ...]:
        """Return the roles of the configuration, and those that rules for groups add."""
        return (*self.configured_roles, *lead_roles(self.rules()))

    def _people(self, role: Mapping[str, Any], members: Members) -> Iterator[Lead]:
        """Yield the people who have a role, each with the reason why that cannot be changed here."""
        name = quoted(str(role.get("name", "")))
        changeable = len(_projects(role)) == 1 and _projects(role) != [""]
        for group in role.get("groups", ()):
            for person in members.get(group, ()):
                locked = self._why_locked(group, person)
                if not changeable:
                    locked = f"The role {name} of the hub's configuration is for several projects."
                yield Lead(name=person, group=group, locked=locked)
        for person in role.get("users", ()):
            yield Lead(name=str(person), locked=f"The role {name} of the hub's configuration names the person.")

    def _why_locked(self, group: str, person: str) -> str:
        try:
            self.check_change(group, person, removed=True)
        except Refusal as refusal:
            return refusal.message
        return ""


def _projects(role: Mapping[str, Any]) -> list[str]:
    """Return the projects that a role lets its holders administer, the empty name for every project."""
    scopes = [str(scope).partition("!") for scope in role.get("scopes", ())]
    filters = [narrowed for scope, _, narrowed in scopes if scope == PROJECT_ADMIN_SCOPE]
    return [each.removeprefix("group=") for each in filters if not each or each.startswith("group=")]
