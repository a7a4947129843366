"""Calls about the pool's past: as a scenario, and what would have been if the pool had been another."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from springtide.hub_extension.api.jobs import take
from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, File, Reply, Who, route
from springtide.hub_extension.api.status import HistoryQuery, span
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import PastRun, PastWhatIf, PoolPast
from springtide.scheduler.wording import given

LARGEST = 64 * 1024
"""Maximum size of a question, in bytes."""
POOL_ONLY = ("nodes", "order", "surplus", "min_runtime")
"""Changes that only administrators of the pool may ask about."""


class ScenarioQuery(HistoryQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Query parameters: a span as in `HistoryQuery`, and whether all names are made up."""

    anonymous: bool = False


@route("GET", "/history/scenario", Who.PROJECT_ADMINS)
async def scenario(call: Call, query: ScenarioQuery) -> File:
    """Return the past as a scenario of `springtide simulate`; to project admins without the names of others.

    Raises `Refusal`: 403 for others, 404 if nothing was recorded, 422 for an invalid time span.
    """
    start, end = span(query, call.pool.clock())
    known = _known(call)
    found = await call.pool.engine.past.file(start, end, hide_names=query.anonymous, known=known)
    days = "-".join(f"{datetime.fromtimestamp(at, UTC):%Y%m%d}" for at in (start, end))
    return File.of_text(f"history-{days}.json", found.decode())


@route("GET", "/history/what-if", Who.PROJECT_ADMINS)
async def available(call: Call) -> PoolPast:
    """Return since when the pool is recorded, and what may be asked about. Raises `Refusal` 403 for others."""
    return await call.pool.engine.past.available(_known(call))


@route("POST", "/history/what-if", Who.PROJECT_ADMINS, also=(202,), most=LARGEST)
async def begin(call: Call, body: PastWhatIf) -> Reply[PastRun]:
    """Begin to calculate what would have been if the pool had been another; 202 until the answer is known.

    A further question of the same caller ends the one before. Project admins may change quotas and limits of
    their projects, and get figures of these and of all others together. Of a time in which nothing was recorded it
    fails. Raises `Refusal`: 403 for others, 422 for an invalid time.
    """
    caller, pool = call.caller, call.pool
    known = _known(call)
    if known is not None:
        _check_changes(body, known)
    take(pool.forecasts, caller, "You ask what would have been faster than this pool answers one person.")
    run = await pool.engine.past.begin(_person(caller), body, known)
    return Reply(run, 202 if run.comparison is None else 200)


@route("GET", "/history/what-if/{id}", Who.PROJECT_ADMINS)
async def calculation(call: Call, id: str) -> PastRun:
    """Return how far a calculation of the caller is, and its answer. Raises `Refusal` 404 for another."""
    return call.pool.engine.past.runs.of(_person(call.caller), id)


@route("DELETE", "/history/what-if/{id}", Who.PROJECT_ADMINS)
async def end(call: Call, id: str) -> PastRun:
    """Cancel a calculation of the caller. Raises `Refusal` 404 for another."""
    return call.pool.engine.past.runs.end(_person(call.caller), id)


def _person(caller: Caller) -> str:
    """Return whose calculation it is: a service of the same name as a person is another."""
    return f"{'service' if caller.service else 'user'} {caller.name}"


def _known(call: Call) -> list[str] | None:
    """Return the projects whose past the caller may see with all names, None for all of the pool.

    Raises `Refusal` 403 for a caller who administers none.
    """
    if call.caller.admin:
        return None
    projects = call.pool.engine.pool().projects
    found = [project.name for project in projects if may(call.caller, Action.REPORT, project.name)]
    if not found:
        raise Refusal(
            403,
            "forbidden",
            "Only administrators of the pool or of a project may see how all jobs of the pool ran.",
            hint="Ask for a report: it has what you held yourself.",
        )
    return found


def _check_changes(question: PastWhatIf, known: Collection[str]) -> None:
    """Raise `Refusal` 403 for changes that are about more than the projects that the caller administers."""
    changes = question.changes
    for field in POOL_ONLY:
        if getattr(changes, field) not in (None, {}):
            message = f"Only administrators of the pool may ask what other {field.replace('_', ' ')} would change."
            raise Refusal(403, "forbidden", message, field=field, hint="Ask about quotas of your projects.")
    for field, asked in (("quota", changes.quota), ("limit", changes.limit)):
        other = next((name for name in asked if name not in known), None)
        if other is not None:
            message = f"You do not administer a project {given(other)}."
            raise Refusal(403, "forbidden", message, field=field, hint=f"Yours: {', '.join(known)}.")
