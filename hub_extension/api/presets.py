"""Calls about presets of jobs, and requests with the options of their presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.choices import submittable
from springtide.hub_extension.api.people.me import me
from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, Pool, Who, route
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.engine.requests.presets import wrong_option
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import BadOption, PresetList, PresetRequest, PresetView, Wish
from springtide.scheduler.wire.form_fields import PresetForm, preset_fields
from springtide.scheduler.wire.presets import PRESET_OPTIONS, VARIABLES, PresetName, filled, preset_words, supplied
from springtide.scheduler.wire.shapes import ProjectName
from springtide.scheduler.wire.submission import OPTIONS
from springtide.scheduler.wording import given

W = TypeVar("W", bound=Wish)


def with_preset(pool: Pool, wish: W, project: str) -> W:
    """Return a request with the options of its preset. Raises `Refusal` if the project has no such preset."""
    return wish if wish.preset is None else filled(wish, pool.engine.presets.named(wish.preset, project).options)


def changes_with_preset(pool: Pool, changes: Mapping[str, Any], project: str) -> dict[str, Any]:
    """Return the changes of a run again, with the options of a preset among them. Raises `Refusal`."""
    if changes.get("preset") is None:
        return dict(changes)
    options = pool.engine.presets.named(changes["preset"], project).options
    return {**changes, **supplied(options, changes.keys(), changes.get(VARIABLES, {}))}


def brought(pool: Pool, asked: Wish, made: Wish, project: str) -> dict[str, Any]:
    """Return the options of a request that are as its preset has them, by name.

    The preset has changed them, or a form sends what it filled in.
    """
    options = {} if asked.preset is None else pool.engine.presets.named(asked.preset, project).options
    values = {name: getattr(made, name) for name in PRESET_OPTIONS if name in options}
    return {
        name: value for name, value in values.items() if value == options[name] or value != getattr(asked, name)
    }


@contextmanager
def naming_preset(preset: str | None, options: Mapping[str, Any]) -> Iterator[None]:
    """Name the preset, with the ``options`` that it has filled in, in a refusal about an option of a job."""
    try:
        yield
    except Refusal as refusal:
        shown = {name: value for name, value in options.items() if name != VARIABLES}
        if preset is None or not shown or type(refusal) is not Refusal or refusal.field not in OPTIONS:
            raise
        message = f"{refusal.message} The preset {given(preset)} has filled in: {preset_words(shown)}."
        raise Refusal(refusal.status, refusal.code, message, field=refusal.field, hint=refusal.hint) from None


@route("GET", "/presets", Who.LOGGED_IN, jobs=True)
async def presets(call: Call) -> PresetList:
    """Return the presets that jobs of the caller may name, and those that the caller may change."""
    caller, engine = call.caller, call.pool.engine
    led = [name for name in engine.project_parents() if may(caller, Action.PRESETS, name)]
    everything = permissions.may_administer(caller)
    return PresetList(items=engine.presets.listed(submittable(call.pool, caller), None if everything else led))


@route("GET", "/preset-form", Who.PROJECT_ADMINS)
async def preset_form(call: Call) -> PresetForm:
    """Return the fields in which a preset is defined; those of variables only for administrators of the pool."""
    fields = preset_fields(await me(call))
    admin = permissions.may_administer(call.caller)
    return PresetForm(fields=[field for field in fields if admin or field.name != VARIABLES])


@route("PUT", "/presets/{name}", Who.PROJECT_ADMINS)
async def set_preset(call: Call, name: PresetName, body: PresetRequest) -> PresetView:
    """Define a preset of a project or of the pool, or replace it as a whole; sent jobs stay as they are."""
    caller, engine = call.caller, call.pool.engine
    _check(caller, body.project)
    before = engine.presets.of(body.project, name)
    had = {} if before is None else before.options.get(VARIABLES, {})
    try:
        part = body.part
    except BadOption as error:
        raise wrong_option(error) from None
    if (part.options.get(VARIABLES) or {}) != had and not _may_set_variables(caller, body.project):
        message = "Only administrators of the pool may set environment variables in presets."
        hint = "Leave env out: whoever submits a job gives its variables, or keeps those of the pool's presets."
        raise Refusal(403, "forbidden", message, field=f"options.{VARIABLES}", hint=hint)
    await engine.presets.set(body.project, name, part, caller.name)
    found = engine.presets.listed(submittable(call.pool, caller), None)
    return next(each for each in found if (each.project, each.name) == (body.project, name))


class PresetQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the ``project`` of the preset, without it that of the pool."""

    project: ProjectName | None = None


@route("DELETE", "/presets/{name}", Who.PROJECT_ADMINS)
async def delete_preset(call: Call, name: PresetName, query: PresetQuery) -> None:
    """Delete a preset; sent jobs stay as they are."""
    _check(call.caller, query.project)
    await call.pool.engine.presets.remove(query.project, name, call.caller.name)


def _check(caller: Caller, project: str | None) -> None:
    """Raise `Refusal` unless the caller may change the presets of a project, or with None those of the pool."""
    if project is None:
        if not permissions.may_administer(caller):
            message = "Only administrators of the pool may change presets of the whole pool."
            raise Refusal(403, "forbidden", message, field="project", hint="Name the project that you lead.")
    elif not may(caller, Action.PRESETS, project):
        message = f"Only administrators of {given(project)} or of the pool may change its presets."
        raise Refusal(403, "forbidden", message, field="project")


def _may_set_variables(caller: Caller, project: str | None) -> bool:
    if project is None:
        return permissions.may_administer(caller)
    return may(caller, Action.PRESET_VARIABLES, project)
