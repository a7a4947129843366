"""Calls about the pool's past: as a scenario."""

from __future__ import annotations

from datetime import UTC, datetime

from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, File, Who, route
from springtide.hub_extension.api.status import HistoryQuery, span
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.refusal import Refusal


class ScenarioQuery(HistoryQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Query parameters: a span as in `HistoryQuery`, and whether all names are made up."""

    anonymous: bool = False


@route("GET", "/history/scenario", Who.PROJECT_ADMINS)
async def scenario(call: Call, query: ScenarioQuery) -> File:
    """Return the past as a scenario of `springtide simulate`; to project admins without the names of others.

    Raises `Refusal`: 403 for others, 404 if nothing was recorded, 422 for an invalid time span.
    """
    start, end = span(query, call.pool.clock())
    known = known_projects(call.caller, [project.name for project in call.pool.engine.pool().projects])
    found = await call.pool.engine.past.file(start, end, hide_names=query.anonymous, known=known)
    days = "-".join(f"{datetime.fromtimestamp(at, UTC):%Y%m%d}" for at in (start, end))
    return File.of_text(f"history-{days}.json", found.decode())


def known_projects(caller: Caller, projects: list[str]) -> list[str] | None:
    """Return the projects whose past the caller may see with all names, None for all of the pool.

    Raises `Refusal` 403 for a caller who administers none.
    """
    if caller.admin:
        return None
    found = [name for name in projects if may(caller, Action.REPORT, name)]
    if not found:
        raise Refusal(
            403,
            "forbidden",
            "Only administrators of the pool or of a project may see how all jobs of the pool ran.",
            hint="Ask for a report: it has what you held yourself.",
        )
    return found
