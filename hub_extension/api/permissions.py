"""Permissions of callers as one table: the actions of each role in a project, and those of owners alone.

A caller has one role in each project, the highest of those that the caller's groups and scopes give there, and
that the scopes give in the projects above it. `TABLE` says which role an action takes. The table of the docs is
generated from it, and a test tries every cell of it through the API.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

from springtide.hub_extension.web.caller import EVERY, Caller
from springtide.scheduler.wire import Job


class Role(IntEnum):
    """Role of a caller in a project. A higher role may do all that a lower one may."""

    NONE = 0
    VIEWER = 1
    MEMBER = 2
    PROJECT_ADMIN = 3
    POOL_ADMIN = 4

    @property
    def words(self) -> str:
        """The role as the docs name it: ``project admin``."""
        return "others" if self is Role.NONE else self.name.lower().replace("_", " ")


class Action(StrEnum):
    """The actions of callers on jobs, projects and people."""

    SEE = "see a job: its name, command, log, metrics and outputs"
    SUBMIT = "submit a job for the project"
    STOP = "pause or cancel a job"
    RESUME = "resume a job that was paused"
    RERUN = "run a job again, or from a checkpoint, with the files and variables that it was submitted with"
    DELETE_CHECKPOINTS = "delete checkpoints of a job"
    DELETE = "delete a job that has ended, with its files"
    ENTER = "open a terminal in a running job, or run a command in it"
    HOLD = "put a job on hold, with a reason, and release it"
    EDIT = "change priority, time limit and workers of a job while it does not run, and move it to such a project"
    TAG = "change the tags and the note of a job, pin and archive it"
    REPORT = "see in reports which GPUs a person held"
    ASK = "ask for a higher quota, limit or build quota of the project"
    FREEZE = "freeze and unfreeze the project, with those inside it"
    CHANGE_MEMBERS = "add and remove members"
    CHANGE_LEADS = "make a person lead the project, and take that back"
    CHANGE_CHILD = "change quota, limit, weight, priority, build quota and job ranges of a project inside"
    CHANGE_PROJECT = "change these of the project itself, or where it is in the tree"
    MAKE_PROJECT = "make and delete projects"
    PRESETS = "define, change and delete presets of the project, but for their variables"
    PRESET_VARIABLES = "set environment variables in its presets"
    BUDGET = "give a project a budget for each month, change it and take it away"
    CHANGE_PERSON = "give a person a build quota of one's own"
    DRAIN = "drain and undrain nodes"
    BOOK = "book nodes for a maintenance and GPUs for a project, change and cancel bookings"
    FREE_GPUS = "free GPUs of what runs without a place in the pool, or end it"
    SEE_AUDIT = "read the audit trail of the project"
    UNDO = "read the audit trail of the pool, and take changes back"


@dataclass(frozen=True, slots=True)
class Rule:
    """The lowest role that an action takes, and the lowest with which one may do it to one's own job.

    ``role`` None is no role: it is done to one's own jobs only.
    """

    role: Role | None
    own: Role | None = None


TABLE: Final[Mapping[Action, Rule]] = MappingProxyType(
    {
        Action.SEE: Rule(Role.VIEWER, own=Role.NONE),
        Action.SUBMIT: Rule(Role.MEMBER),
        Action.STOP: Rule(Role.PROJECT_ADMIN, own=Role.NONE),
        Action.RESUME: Rule(Role.PROJECT_ADMIN, own=Role.MEMBER),
        Action.RERUN: Rule(None, own=Role.MEMBER),
        Action.DELETE_CHECKPOINTS: Rule(None, own=Role.NONE),
        Action.DELETE: Rule(Role.PROJECT_ADMIN, own=Role.NONE),
        Action.ENTER: Rule(None, own=Role.MEMBER),
        Action.HOLD: Rule(Role.PROJECT_ADMIN),
        Action.EDIT: Rule(Role.PROJECT_ADMIN, own=Role.MEMBER),
        Action.TAG: Rule(Role.PROJECT_ADMIN, own=Role.NONE),
        Action.REPORT: Rule(Role.PROJECT_ADMIN, own=Role.NONE),
        Action.ASK: Rule(Role.MEMBER),
        Action.FREEZE: Rule(Role.PROJECT_ADMIN),
        Action.CHANGE_MEMBERS: Rule(Role.PROJECT_ADMIN),
        Action.CHANGE_LEADS: Rule(Role.POOL_ADMIN),
        Action.CHANGE_CHILD: Rule(Role.PROJECT_ADMIN),
        Action.CHANGE_PROJECT: Rule(Role.POOL_ADMIN),
        Action.MAKE_PROJECT: Rule(Role.POOL_ADMIN),
        Action.PRESETS: Rule(Role.PROJECT_ADMIN),
        Action.PRESET_VARIABLES: Rule(Role.POOL_ADMIN),
        Action.BUDGET: Rule(Role.POOL_ADMIN),
        Action.CHANGE_PERSON: Rule(Role.POOL_ADMIN),
        Action.DRAIN: Rule(Role.POOL_ADMIN),
        Action.BOOK: Rule(Role.POOL_ADMIN),
        Action.FREE_GPUS: Rule(Role.POOL_ADMIN),
        Action.SEE_AUDIT: Rule(Role.PROJECT_ADMIN),
        Action.UNDO: Rule(Role.POOL_ADMIN),
    }
)


def resolved(caller: Caller, parents: Mapping[str, str | None]) -> Caller:
    """Return the caller with the roles that hold for projects extended to the projects inside these.

    ``parents`` maps each project to the one that it is in.
    """
    if not (caller.views or caller.administers):
        return caller
    inside: dict[str, set[str]] = {}
    for name in parents:
        above: set[str] = {EVERY}
        current: str | None = name
        while current is not None and current not in above:
            above.add(current)
            current = parents.get(current)
        inside[name] = above
    return replace(
        caller,
        views=caller.views | {name for name, above in inside.items() if above & caller.views},
        administers=caller.administers | {name for name, above in inside.items() if above & caller.administers},
    )


def role_in(caller: Caller, project: str) -> Role:
    """Return the caller's role in a project. Groups count for people only, scopes for services as well."""
    if caller.spawner:
        return Role.NONE
    if caller.admin:
        return Role.POOL_ADMIN
    if {project, EVERY} & caller.administers:
        return Role.PROJECT_ADMIN
    if project in caller.groups and not caller.service:
        return Role.MEMBER
    return Role.VIEWER if {project, EVERY} & caller.views else Role.NONE


def may(caller: Caller, action: Action, project: str, user: str | None = None) -> bool:
    """Return whether the caller may do this in a project; ``user`` is whose job it is done to.

    A service submits nothing unless it administers the pool: jobs have the name and the rights of a person. A
    program of a job does nothing outside of the job's project.
    """
    if caller.job is not None and caller.job.project != project:
        return False
    rule = TABLE[action]
    role = role_in(caller, project)
    if action is Action.SUBMIT and caller.service and role < Role.POOL_ADMIN:
        return False
    return (rule.role is not None and role >= rule.role) or (
        rule.own is not None and user is not None and owns(caller, user) and role >= rule.own
    )


def visible_projects(caller: Caller) -> frozenset[str] | None:
    """Return the projects whose jobs the caller may see, in addition to the caller's own jobs; None for all."""
    if caller.admin or EVERY in caller.views | caller.administers:
        return None
    return caller.views | caller.administers | (frozenset() if caller.service else caller.groups)


def may_see_jobs_of(caller: Caller, projects: Collection[str]) -> bool:
    """Return whether the caller may see the jobs of all these projects; a program sees its own."""
    if caller.job is not None:
        return {caller.job.project}.issuperset(projects)
    visible = visible_projects(caller)
    return visible is None or visible.issuperset(projects)


def owns(caller: Caller, user: str) -> bool:
    """Return whether the caller is the given person; a service of the same name is not."""
    return not caller.service and caller.name == user


def may_see_of(caller: Caller, user: str, project: str) -> bool:
    """Return whether the caller may see the names of a person's objects in a project."""
    return may(caller, Action.SEE, project, user)


def may_see_job(caller: Caller, job: Job) -> bool:
    """Return whether the caller may see the job at all."""
    return may(caller, Action.SEE, job.project, job.user)


def may_administer(caller: Caller) -> bool:
    """Return whether the caller administers the whole pool."""
    return caller.admin


def may_see_unmatched(caller: Caller) -> bool:
    """Return whether the caller may see what keeps GPUs out of the pool, whoever's it is; `doctor` may."""
    return caller.spawner or visible_projects(caller) is None


def may_see_needs(caller: Caller) -> bool:
    """Return whether the caller may see what needs administrators; `doctor` may."""
    return caller.spawner or caller.admin


def may_see_all_workspaces(caller: Caller) -> bool:
    """Return whether the caller may list everybody's workspaces: an administrator, or the hub itself."""
    return caller.admin or caller.spawner


def may_reserve(caller: Caller) -> bool:
    """Return whether the caller may reserve and release build GPUs."""
    return caller.spawner


def may_see_build_quota(caller: Caller, user: str) -> bool:
    """Return whether the caller may read a person's build quota and its use."""
    return caller.spawner or caller.admin or owns(caller, user)
