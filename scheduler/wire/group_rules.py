"""Rules that make members and leads of projects out of an identity provider's groups, and what they do."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from springtide.scheduler.wire.pool_file import PoolFile
from springtide.scheduler.wire.shapes import Answer, ProjectName, Request

MAX_RULES = 1000
GroupName = Annotated[str, Meta(max_length=255)]
GroupRole = Literal["member", "lead"]


class GroupRule(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A rule for one ``group``, or for the groups that begin with ``prefix``.

    Without ``project`` the rest of a group's name is the project. With ``departments`` a “/” in the rest separates
    a department from its projects.
    """

    group: GroupName = ""
    prefix: GroupName = ""
    project: ProjectName | None = None
    role: GroupRole = "member"
    departments: bool = False


class GroupRulesPreview(Request, frozen=True, kw_only=True):
    """Rules to look at: nothing changes."""

    rules: Annotated[list[GroupRule], Meta(max_length=MAX_RULES)]


class GroupEffect(Answer, frozen=True, kw_only=True):
    """What a rule does with a group that the hub knows.

    ``people`` are those in the group, ``joins`` those of them who are in the project only from their next log-in
    on. ``exists``: the pool has the project. ``problem`` is a sentence about its bad name or place.
    """

    group: str
    project: str
    department: str | None = None
    people: list[str]
    joins: list[str]
    exists: bool
    problem: str = ""


class GroupRuleView(Answer, frozen=True, kw_only=True):
    """A rule, in words too, and what it does with the groups that the hub knows."""

    rule: GroupRule
    text: str
    effects: list[GroupEffect]


class GroupRulesView(Answer, frozen=True, kw_only=True):
    """Rules and what they do.

    ``managed``: the hub's authenticator decides who is in which group; without that the rules do nothing.
    ``loses`` are the people who are in a project no more from their next log-in on, by project. ``missing`` has
    the projects that the pool lacks, as a file. ``python`` and ``chart`` are the lines of the configuration.
    """

    managed: bool
    rules: list[GroupRuleView]
    loses: dict[str, list[str]]
    missing: PoolFile
    python: str
    chart: str
