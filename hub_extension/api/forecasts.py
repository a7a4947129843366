"""Calls of forecasts: the plan under hypothetical changes."""

from __future__ import annotations

from functools import partial

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.jobs import take
from springtide.hub_extension.api.project_choice import project_for
from springtide.hub_extension.api.routes import Call, NoQuery, Route, Who
from springtide.scheduler.engine.forecasts.questions import Asker
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Advice, Forecast, ForecastAccuracy, WhatIf, Wish

LARGEST = 256 * 1024
"""Maximum size of the body of a forecast request, in bytes."""


async def forecast(call: Call[NoQuery, WhatIf]) -> Forecast:
    """Return the forecast for an additional job and, for administrators, for other projects and nodes."""
    caller, pool, question = call.caller, call.pool, call.body
    for field in ("projects", "nodes"):
        if getattr(question, field) and not permissions.may_administer(caller):
            message = f"Only administrators of the pool may ask what other {field} would change."
            raise Refusal(403, "forbidden", message, field=field, hint="Leave it out, and ask about a job.")
    take(pool.forecasts, caller, "You ask what would be faster than this pool answers one person.")
    project = None
    if question.job is not None:
        named = question.job.project
        new = named is not None and named in question.projects
        project = named if new else await project_for(pool, caller, named)
    return await pool.engine.forecast(
        question,
        caller.name,
        project,
        sees=partial(permissions.may_see_of, caller),
        members=await pool.groups.members() if question.projects else {},
    )


async def accuracy(call: Call[NoQuery, None]) -> ForecastAccuracy:
    """Return how the starts compare with the forecasts that were shown."""
    return await call.pool.engine.forecast_record.accuracy()


async def advice(call: Call[NoQuery, Wish]) -> Advice:
    """Return what earlier runs of the caller's say about the GPUs of a job."""
    caller, pool = call.caller, call.pool
    project = await project_for(pool, caller, call.body.project)
    return pool.engine.questions.advise(call.body, Asker(caller.name, project, _sees_none, {}))


def _sees_none(_user: str, _project: str | None) -> bool:
    return False


ROUTES = (
    Route(
        "POST",
        "/advice",
        "What earlier runs say about the GPUs of a job",
        Who.LOGGED_IN,
        advice,
        takes=Wish,
        answers=Advice,
        most=LARGEST,
    ),
    Route(
        "POST",
        "/forecast",
        "What would be if",
        Who.LOGGED_IN,
        forecast,
        takes=WhatIf,
        answers=Forecast,
        most=LARGEST,
    ),
    Route(
        "GET",
        "/forecasts/accuracy",
        "How true forecasts were",
        Who.ADMINS,
        accuracy,
        answers=ForecastAccuracy,
    ),
)
