"""Calls about the audit trail: pages of it, and all that is chosen as CSV."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Annotated, BinaryIO

from msgspec import Meta, Struct
from msgspec.structs import replace

from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, File, Who, route
from springtide.scheduler.engine import AuditQuery
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import AuditEntry, AuditPage
from springtide.scheduler.wire.audit_table import csv_of
from springtide.scheduler.wording import given

MOST_IN_PAGE = 200
MOST_EXPORTED = 100_000
"""Maximum number of entries in one table of CSV."""

Text = Annotated[str, Meta(min_length=1, max_length=255)]
Time = Annotated[float, Meta(ge=0, le=1e11)]


class AuditChoice(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: which entries of the audit trail.

    ``what`` is a kind, such as ``job.hold``, or a part of kinds, such as ``job`` or ``hold``. Entries are from
    ``start`` on and before ``end``, in seconds since the epoch.
    """

    who: Text | None = None
    what: Text | None = None
    project: Text | None = None
    start: Time | None = None
    end: Time | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_IN_PAGE)] = 50


@route("GET", "/audit", Who.PROJECT_ADMINS)
async def audit(call: Call, query: AuditChoice) -> AuditPage:
    """Return a page of the audit trail, newest first; administrators of projects see that of their projects."""
    engine, chosen = call.pool.engine, _chosen(call, query)
    page = await engine.audit(query.cursor, query.limit, chosen)
    if may(call.caller, Action.UNDO, ""):
        return page
    return replace(page, items=[replace(entry, undo=False) for entry in page.items])


@route("GET", "/audit.csv", Who.PROJECT_ADMINS)
async def audit_as_csv(call: Call, query: AuditChoice) -> File:
    """Return all chosen entries of the audit trail as CSV, newest first, at most `MOST_EXPORTED`."""
    found: list[AuditEntry] = []
    cursor: str | None = None
    while len(found) < MOST_EXPORTED:
        page = await audit(call, replace(query, cursor=cursor, limit=MOST_IN_PAGE))
        found += page.items
        cursor = page.next
        if cursor is None:
            break
    return File("audit.csv", await asyncio.to_thread(_csv_file, found))


def _chosen(call: Call, query: AuditChoice) -> AuditQuery:
    """Return the query of what the caller may see. Raises `Refusal` 403 for a project whose trail she may not."""
    caller, engine = call.caller, call.pool.engine
    if query.project is not None and not may(caller, Action.SEE_AUDIT, query.project):
        message = f"Only administrators of {given(query.project)} and of the pool may read its audit trail."
        raise Refusal(403, "forbidden", message, field="project")
    visible = None
    if not caller.admin:
        visible = tuple(name for name in engine.project_parents() if may(caller, Action.SEE_AUDIT, name))
    return AuditQuery(query.who, query.what, query.project, visible, query.start, query.end)


def _csv_file(entries: list[AuditEntry]) -> BinaryIO:
    """Return an open file without a name that has the entries as CSV."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it has been sent
    file.write(csv_of(entries).encode())
    file.seek(0)
    return file
