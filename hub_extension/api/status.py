"""Calls about the whole pool."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, Encoded, Who, route
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import History, Idle, PoolUsage, PoolView, UsageReport

DAY_S = 86_400.0
LONGEST_HISTORY_S = 400 * DAY_S

Time = Annotated[float, Meta(ge=0, le=1e11)]


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: a time span, in seconds since the epoch; the last day by default."""

    start: Time | None = None
    end: Time | None = None


class UsageQuery(HistoryQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Query parameters: what use is summed up by, and a time span as in `HistoryQuery`."""

    by: Literal["gpu", "job", "workspace", "person", "project"] = "project"


class Health(Struct, frozen=True, omit_defaults=True):
    """Answer that the service is running; ``unrecorded`` says why the use of GPUs is not recorded, if so."""

    status: str
    unrecorded: str = ""


@route("GET", "/pool", Who.LOGGED_IN, jobs=True)
async def pool(call: Call) -> Encoded[PoolView]:
    """Return the current state of the pool: which job or notebook holds which GPU."""
    view = call.pool.engine.pool()
    return Encoded(msgspec.json.encode(call.pool.nodes.pool(call.caller, msgspec.structs.asdict(view))))


@route("GET", "/pool/idle", Who.LOGGED_IN, jobs=True)
async def idle(call: Call) -> Idle:
    """Return how many train GPUs are idle, and why."""
    return call.pool.engine.idle_gpus()


@route("GET", "/history", Who.LOGGED_IN)
async def history(call: Call, query: HistoryQuery) -> History:
    """Return the GPUs held over time by project. Raises `Refusal` 422 for an invalid time span."""
    return await call.pool.engine.history(*span(query, call.pool.clock()))


@route("GET", "/pool/gpus", Who.LOGGED_IN, jobs=True)
async def gpus(call: Call) -> PoolUsage:
    """Return the latest reading of each GPU."""
    return call.pool.engine.usage.pool()


@route("GET", "/usage", Who.LOGGED_IN)
async def usage(call: Call, query: UsageQuery) -> UsageReport:
    """Return the measured use of GPUs over a span: of jobs and workspaces those that the caller may see.

    Of people there are those whose GPU-hours the caller sees in reports.
    Raises `Refusal` 422 for an invalid time span.
    """
    report = await call.pool.engine.usage.report(query.by, *span(query, call.pool.clock()))
    if query.by in {"gpu", "project"}:
        return report
    action = Action.REPORT if query.by == "person" else Action.SEE
    seen = [each for each in report.items if may(call.caller, action, each.project, each.user)]
    return replace(report, items=seen)


def span(query: HistoryQuery, now: float) -> tuple[float, float]:
    """Return begin and end of a query's span. Raises `Refusal` 422 for an invalid one."""
    end = now if query.end is None else query.end
    start = max(0.0, end - DAY_S) if query.start is None else query.start
    if not start < end:
        raise Refusal(
            422, "invalid", "The span ends before it starts.", field="start", hint="start must be before end."
        )
    if end - start > LONGEST_HISTORY_S:
        raise Refusal(
            422, "invalid", "The span is longer than 400 days.", field="start", hint="Ask for a part of it."
        )
    return start, end


@route("GET", "/health", Who.ANYONE)
async def health(_call: Call) -> Health:
    """Return that the service is running."""
    return Health("ok")


@route("GET", "/ready", Who.ANYONE)
async def ready(call: Call) -> Health:
    """Return that the pool accepts jobs and decides. Raises `Refusal` 503 while its store takes no writes.

    ``unrecorded`` says that the use of GPUs is not recorded, which does not make the pool unready.
    """
    trouble = await call.pool.engine.health.trouble()
    if trouble is not None:
        raise Refusal(
            503, "not_ready", trouble, hint="Jobs keep running. Nothing new is accepted until this ends."
        )
    return Health("ok", unrecorded=call.pool.engine.usage.unrecorded)
