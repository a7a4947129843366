"""Choices for a submission: its project, datasets, secrets, and the images that administrators described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, Pool, Who, route
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import refusal
from springtide.scheduler.declared import Declared
from springtide.scheduler.engine import JobFilter, default_projects
from springtide.scheduler.engine.requests.acceptance import declared_contents
from springtide.scheduler.engine.requests.grants import usable_by
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import DatasetList, DatasetView, DeclaredContents
from springtide.scheduler.wire.shapes import MAX_IMAGE
from springtide.scheduler.wording import given

D = TypeVar("D", bound=Declared)


async def project_for(pool: Pool, caller: Caller, named: str | None) -> str:
    """Return the project to submit for: the named one, else the caller's default, only, or latest job's one.

    A program of a job submits for the project of the job.

    Raises `Refusal` if the project does not exist, is not permitted, or cannot be determined. A default project
    that the caller may not submit for any more is refused, too: nothing is submitted for another one in its place.
    """
    if named is None and caller.job is not None:
        named = caller.job.project
    if named is not None:
        if not permissions.may(caller, Action.SUBMIT, named):
            check_may_submit(pool, caller, named)
        return named
    own = own_projects(pool, caller)
    chosen = default_of(pool, caller)
    if chosen is not None:
        if not may_submit(pool, caller, chosen):
            raise _lost_default(pool, chosen, own)
        return chosen
    found = own if len(own) == 1 else await _latest_project(pool, caller, own)
    if found:
        return found[0]
    hint = (
        f'Name it: project="{own[0]}", or --project {own[0]} in a terminal. {_yours(own)}' if own else _yours(own)
    )
    raise Refusal(422, "missing", "The job does not say for which project it is.", field="project", hint=hint)


def default_of(pool: Pool, caller: Caller) -> str | None:
    """Return the project that the caller chose as the default, that of its job for a program; None if none is."""
    if caller.job is not None:
        return caller.job.project
    return None if caller.service else default_projects.chosen(pool.engine.state, caller.name)


def may_submit(pool: Pool, caller: Caller, project: str) -> bool:
    """Return whether there is such a project, and the caller may submit for it."""
    return pool.engine.has_project(project) and permissions.may(caller, Action.SUBMIT, project)


def check_may_submit(pool: Pool, caller: Caller, project: str, *, field: str = "project") -> None:
    """Raise `Refusal` because of ``field`` if the caller may not submit for the project, or there is none."""
    own = own_projects(pool, caller)
    if not pool.engine.has_project(project):
        raise unknown_project(project, own, field=field)
    if caller.job is not None and caller.job.project != project:
        message = f"A program of a job submits for the project of its job, {given(caller.job.project)}."
        hint = f"Leave out the project, or submit for {given(project)} from a notebook."
        raise Refusal(403, "forbidden", message, field=field, hint=hint)
    if not permissions.may(caller, Action.SUBMIT, project):
        raise Refusal(403, "forbidden", f"You are not in project {given(project)}.", field=field, hint=_yours(own))


def own_projects(pool: Pool, caller: Caller) -> list[str]:
    """Return the projects that the caller is a member of, by name."""
    return sorted(filter(pool.engine.has_project, caller.groups))


def unknown_project(name: str, own: Sequence[str], *, field: str = "project") -> Refusal:
    """Return the refusal of an unknown project, with the caller's own as a hint."""
    return refusal.unknown_project(name, field, status=422, hint=_yours(own))


async def _latest_project(pool: Pool, caller: Caller, own: Sequence[str]) -> list[str]:
    """Return the project of the caller's latest job if she is in it still: joining another changes nothing."""
    latest = await pool.engine.jobs(JobFilter(user=caller.name), None, 1)
    return [job.project for job in latest.items if job.project in own]


def _lost_default(pool: Pool, project: str, own: Sequence[str]) -> Refusal:
    there = pool.engine.has_project(project)
    why = "you are not in it any more" if there else "there is no such project any more"
    message = f"Your default project is {given(project)}, and {why}. Nothing was submitted."
    hint = _yours(own)
    if own:
        hint = (
            f'Choose another: pool.default_project = "{own[0]}", `springtide default-project {own[0]}` in a '
            f"terminal, or the page of the pool. Or name the project of the job. {hint}"
        )
    return Refusal(403 if there else 422, "default_project", message, field="project", hint=hint)


def _yours(own: Sequence[str]) -> str:
    return f"Yours: {', '.join(own)}." if own else "You are in no project; an administrator can change that."


def usable(pool: Pool, caller: Caller) -> list[DatasetView]:
    """Return the datasets that jobs of the caller may use, by name."""
    found = _usable(pool, caller, pool.engine.settings.datasets)
    return [DatasetView(name=each.name, path=each.place, projects=mine) for each, mine in found.values()]


def usable_secrets(pool: Pool, caller: Caller) -> list[str]:
    """Return the names of the secrets that jobs of the caller may use."""
    return list(_usable(pool, caller, pool.engine.settings.secrets))


def _usable(pool: Pool, caller: Caller, declared: Mapping[str, D]) -> dict[str, tuple[D, list[str]]]:
    return usable_by(submittable(pool, caller), pool.engine.project_parents(), declared)


def submittable(pool: Pool, caller: Caller) -> list[str]:
    """Return the projects that the caller may submit for."""
    return [name for name in pool.engine.project_parents() if may(caller, Action.SUBMIT, name)]


@route("GET", "/datasets", Who.LOGGED_IN, jobs=True)
async def datasets(call: Call) -> DatasetList:
    """Return the datasets that the caller may use."""
    return DatasetList(items=usable(call.pool, call.caller))


class ImageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: an image by its name."""

    image: Annotated[str, Meta(max_length=MAX_IMAGE)] = ""


@route("GET", "/images/contents", Who.LOGGED_IN, jobs=True)
async def contents(call: Call, query: ImageQuery) -> DeclaredContents:
    """Return the contents of an image, as administrators declared them."""
    declared = call.pool.engine.settings.image_contents
    return DeclaredContents(contents=declared_contents(query.image, declared))
