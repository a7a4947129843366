"""Calls of forecasts: the plan under hypothetical changes."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.choices import project_for
from springtide.hub_extension.api.jobs import take
from springtide.hub_extension.api.presets import brought, naming_preset, with_preset
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.engine.forecasts.questions import Asker
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Advice, Forecast, ForecastAccuracy, WhatIf, Wish

LARGEST = 256 * 1024
"""Maximum size of the body of a forecast request, in bytes."""


@route("POST", "/forecast", Who.LOGGED_IN, most=LARGEST, jobs=True)
async def forecast(call: Call, body: WhatIf) -> Forecast:
    """Return the forecast for an additional job and, for administrators, for other projects and nodes."""
    caller, pool, question = call.caller, call.pool, body
    for field in ("projects", "nodes"):
        if getattr(question, field) and not permissions.may_administer(caller):
            message = f"Only administrators of the pool may ask what other {field} would change."
            raise Refusal(403, "forbidden", message, field=field, hint="Leave it out, and ask about a job.")
    take(pool.forecasts, caller, "You ask what would be faster than this pool answers one person.")
    project, preset, filled_in = None, None, {}
    if question.job is not None:
        project = question.job.project
        if project is None or project not in question.projects:
            project = await project_for(pool, caller, project)
        job = with_preset(pool, question.job, project)
        preset, filled_in = job.preset, brought(pool, question.job, job, project)
        question = replace(question, job=job)
    with naming_preset(preset, filled_in):
        return await pool.engine.forecast(
            question,
            caller.name,
            project,
            sees=partial(permissions.may_see_of, caller),
            members=await pool.groups.members() if question.projects else {},
        )


@route("GET", "/forecasts/accuracy", Who.ADMINS)
async def accuracy(call: Call) -> ForecastAccuracy:
    """Return the accuracy of the shown forecasts, compared with the starts."""
    return await call.pool.engine.forecast_record.accuracy()


@route("POST", "/advice", Who.LOGGED_IN, most=LARGEST, jobs=True)
async def advice(call: Call, body: Wish) -> Advice:
    """Return advice on the GPUs of a job from earlier runs of the caller."""
    caller, pool = call.caller, call.pool
    project = await project_for(pool, caller, body.project)
    return pool.engine.questions.advise(
        with_preset(pool, body, project), Asker(caller.name, project, _sees_none, {})
    )


def _sees_none(_user: str, _project: str | None) -> bool:
    return False
