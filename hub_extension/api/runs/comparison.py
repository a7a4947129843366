"""The call that compares jobs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from springtide.hub_extension.api.jobs import seen
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import MAX_COMPARED, Comparison


class CompareQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the ids of the jobs to compare, with commas between."""

    jobs: Annotated[str, Meta(min_length=1, max_length=130 * MAX_COMPARED)]


@route("GET", "/comparison", Who.LOGGED_IN)
async def compare(call: Call, query: CompareQuery) -> Comparison:
    """Return jobs side by side, with their differences.

    Raises `Refusal` for too few or too many, and for one the caller may not see.
    """
    ids = list(dict.fromkeys(filter(None, query.jobs.split(","))))
    if not 2 <= len(ids) <= MAX_COMPARED:
        given = f"{len(ids)} job{'' if len(ids) == 1 else 's'} cannot be compared."
        raise Refusal(422, "invalid", given, field="jobs", hint=f"Name 2 to {MAX_COMPARED} different jobs.")
    found = [await seen(call, job_id) for job_id in ids]
    return await call.pool.engine.reruns.compared(found)
