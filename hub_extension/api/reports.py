"""Reports of the use of the pool: as an answer, as files, and by mail to their caller."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from springtide.hub_extension.api.people.notifications import check_trials
from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.permissions import Action, may
from springtide.hub_extension.api.routes import Call, File, Who, route
from springtide.hub_extension.notifications.channel import NotDelivered
from springtide.hub_extension.notifications.mail import Mail
from springtide.hub_extension.notifications.message import report_page
from springtide.hub_extension.notifications.report_message import report_message
from springtide.scheduler import sentences
from springtide.scheduler.engine.reports import Sight
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Report, ReportBy, ReportMail, TrialSent
from springtide.scheduler.wire.report_parquet import report_parquet
from springtide.scheduler.wire.reports import report_csv


class ReportQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the first and the last day, the present month by default, and what the report is by.

    Days are such as 2026-01-31, in UTC; ``by`` is a list with commas of the values of `ReportBy`.
    """

    start: str | None = None
    end: str | None = None
    by: str = "project"


@route("GET", "/report", Who.LOGGED_IN)
async def report(call: Call, query: ReportQuery) -> Report:
    """Return GPU-hours, waits and costs: admins see all, project admins their projects, others their own.

    Raises `Refusal` 422 for an invalid day or column.
    """
    return await _report(call, query.start, query.end, query.by)


@route("GET", "/report.csv", Who.LOGGED_IN)
async def report_as_csv(call: Call, query: ReportQuery) -> File:
    """Return the rows of the same report as CSV. Raises `Refusal` 422 for an invalid day or column."""
    found = await _report(call, query.start, query.end, query.by)
    return File.of_text(_name(found, "csv"), await asyncio.to_thread(report_csv, found))


@route("GET", "/report.parquet", Who.LOGGED_IN)
async def report_as_parquet(call: Call, query: ReportQuery) -> File:
    """Return the rows of the same report as a Parquet file, with typed columns.

    Raises `Refusal` 422 for an invalid day or column, and 501 if the service has no pyarrow.
    """
    found = await _report(call, query.start, query.end, query.by)
    try:
        return File.of_bytes(_name(found, "parquet"), await asyncio.to_thread(report_parquet, found))
    except ImportError:
        raise Refusal(
            501,
            "no_parquet",
            "The pool's service has no package pyarrow, which makes Parquet files.",
            hint="An administrator can install it: pip install 'springtide[parquet]'. CSV and JSON need nothing.",
        ) from None


@route("POST", "/report/mail", Who.LOGGED_IN)
async def mail_report(call: Call, body: ReportMail) -> TrialSent:
    """Send the caller a report by e-mail, by default that of the last month, and wait for its outcome.

    Raises `Refusal` 422 for an invalid day or column.
    """
    user, pool = person(call, "e-mail"), call.pool
    start, end = body.start, body.end
    if start is None and end is None:
        start, end = (day.isoformat() for day in pool.engine.reports.last_month())
    found = await _report(call, start, end, body.by)
    by_day = await _report(call, found.start, found.end, ReportBy.DAY)
    check_trials(call, user)
    days = found.start if found.start == found.end else f"{found.start} to {found.end}"
    page = report_page(pool.channels.pages_url, found.start, found.end)
    about = "It is about what you may see of the pool."
    message = report_message(f"The report of {days}", about, found, by_day, page)
    try:
        await pool.channels.send(Mail.name, pool.engine.outbox.choice(user), message)
    except NotDelivered as failure:
        return TrialSent(delivered=False, problem=sentences.text(failure.why))
    return TrialSent(delivered=True)


def _name(found: Report, ending: str) -> str:
    return f"report-{found.start}-{found.end}.{ending}"


async def _report(call: Call, start: str | None, end: str | None, by: str) -> Report:
    caller = call.caller
    sight = Sight(
        use=lambda user, project: may(caller, Action.REPORT, project, user or None),
        quota=lambda project: may(caller, Action.REPORT, project),
    )
    return await call.pool.engine.reports.report(start, end, by, sight)
