"""The report by mail: to a real mail server, with a page for mail programs, a text and a file of CSV."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from patience import PATIENCE_S
from servers.message_servers import MailServer, Tls, mail_server, until

from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.notifications.deliverer import Deliverer
from springtide.hub_extension.notifications.mail import Mail
from springtide.hub_extension.notifications.pages import Browser
from springtide.hub_extension.notifications.report_message import report_message
from springtide.scheduler.backoff import no_jitter
from springtide.scheduler.engine.monthly_reports import announce
from springtide.scheduler.notifications import NotificationChoice, NotificationEvent
from springtide.scheduler.wire import Report, ReportBy, ReportRow, report_words

PAGES_URL = "https://hub.example.org/services/springtide/"


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[tuple[MailServer, Channels]]:
    tls = Tls.at(tmp_path)
    async with mail_server(tls) as server:
        by_mail = Mail(
            smtp_server=f"localhost:{server.port}",
            email_from="pool@example.org",
            email_address="{user}@example.org",
            tls=tls.client,
        )
        yield server, Channels((Browser(), by_mail), frozenset({"admin"}), PAGES_URL)


@pytest.fixture
async def pool(start: Any, mail: tuple[MailServer, Channels]) -> Any:
    running = await start(channels=mail[1])
    for name in ("susan", "jemma"):
        job = await running.submit(name, name=f"{name}s job")
        await running.until(name, job["id"], lambda job: job["state"] == "running")
    return running


class Outside(HTMLParser):
    """Collects what a page would load or run, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        names = dict(attrs)
        if tag in {"script", "link", "img", "iframe", "object", "form"} or "src" in names:
            self.found.append(tag)
        self.found += [name for name in names if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def parts(letter: EmailMessage) -> tuple[str, str, str]:
    """The text, the page and the file of a letter."""
    text, page = letter.get_body(("plain",)), letter.get_body(("html",))
    (file,) = letter.iter_attachments()
    assert text is not None
    assert page is not None
    assert (file.get_content_type(), file.get_content_disposition()) == ("text/csv", "attachment")
    return text.get_content(), page.get_content(), file.get_content()


async def test_anyone_may_send_herself_the_report_that_she_may_see(pool: Any, mail: Any) -> None:
    server, _ = mail
    seen = (await pool.as_("admin").get("/report")).json()
    days = {"start": seen["start"], "end": seen["end"]}
    for name in ("admin", "susan"):
        assert (await pool.as_(name).post("/report/mail", json=days)).json() == {"delivered": True, "problem": ""}
    assert server.recipients == ["admin@example.org", "susan@example.org"]
    letter = server.taken[0]
    assert letter["Subject"].startswith("The report of ")
    text, page, file = parts(letter)
    assert {row["project"] for row in csv.DictReader(io.StringIO(file))} == {"vision", "speech"}
    for shown in (text, page):
        assert "GPU-hours held" in shown
        assert "of them borrowed" in shown
        assert "GPUs are simulated" in shown
        assert f"{PAGES_URL}report?start=" in shown
    reader = Outside()
    reader.feed(page)
    assert reader.found == []
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "speech" not in "".join(parts(server.taken[1]))


async def test_the_trial_is_that_of_the_last_month_by_default_and_of_people_only(pool: Any, mail: Any) -> None:
    assert (await pool.as_("admin").post("/report/mail", json={})).json()["delivered"]
    first, last = pool.pool.engine.reports.last_month()
    assert mail[0].taken[0]["Subject"] == f"The report of {first} to {last}"
    wrong = await pool.as_("admin").post("/report/mail", json={"start": "yesterday"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "start")
    answers = [await pool.as_("admin").post("/report/mail", json={}) for _ in range(20)]
    assert 429 in {answer.status_code for answer in answers}, "a person cannot fill her mailbox with them"


async def test_a_mail_server_that_refuses_is_said_in_the_answer(pool: Any, mail: Any) -> None:
    mail[0].answer = "554 no"
    answer = (await pool.as_("admin").post("/report/mail", json={})).json()
    assert answer == {"delivered": False, "problem": "The mail server refused the message with code 554."}


async def test_the_monthly_report_is_tried_again_and_arrives_apart_from_other_messages(
    pool: Any, mail: Any
) -> None:
    server, channels = mail
    engine = pool.pool.engine
    chosen = frozenset({NotificationEvent.REPORT, NotificationEvent.SUCCEEDED_SOON, NotificationEvent.ENDED})
    await engine.outbox.choose(NotificationChoice("admin", {"email": chosen}))
    await engine.outbox.choose(NotificationChoice("joe", {"email": chosen}))
    this_month = (await pool.as_("admin").get("/report")).json()["start"][:7]
    server.answer = "451 later"
    for _ in range(2):
        await engine.outbox._change(lambda transaction: announce(transaction, this_month, empty=False))
    deliverer = Deliverer(
        engine.outbox,
        engine.monthly_reports,
        channels,
        pool.pool.clock,
        first_delay=0.05,
        pause=0.0,
        jitter=no_jitter,
    )
    try:
        await until(lambda: server.asked >= 2)

        async def view() -> dict[str, Any]:
            views = (await pool.as_("admin").get("/notifications")).json()["channels"]
            return next(view for view in views if view["name"] == "email")

        refused = "The mail server refused the message with code 451."
        async with asyncio.timeout(PATIENCE_S):
            while refused not in (await view())["problem"]:
                await asyncio.sleep(0.01)
        server.answer = "250 OK"
        await until(lambda: server.taken)
        async with asyncio.timeout(PATIENCE_S):
            while (await view())["state"] != "sent":
                await asyncio.sleep(0.01)
    finally:
        await deliverer.stop()
    (letter,) = server.taken
    assert server.recipients == ["admin@example.org"]
    assert letter["Subject"].startswith("There is a report of ")
    assert "It is about the whole pool." in parts(letter)[0]


async def test_who_leads_nothing_any_more_gets_no_report(pool: Any, mail: Any) -> None:
    assert await pool.pool.engine.monthly_reports.of_person("susan", "2026-10") is None


def test_names_of_others_are_text_in_the_message() -> None:
    evil = "<script>alert(1)</script>\n\u202e"
    row = ReportRow(by={"project": evil}, gpu_hours_held=0.04, gpu_hours_borrowed=0.00004, jobs=1)
    found = Report(
        start="2026-10-01",
        end="2026-10-31",
        by=[ReportBy.PROJECT],
        rows=[row, row],
        total=row,
        columns=report_words.columns([row], ""),
        numbers=report_words.numbers(row, ""),
        notable=[f"{evil} held nothing."],
        notes=[],
        simulated=False,
    )
    message = report_message("The report", "", found, found.__class__(**{**_fields(found), "rows": []}))
    assert "<script" not in message.html
    assert "\u202e" not in message.html + "".join(message.lines)
    assert "held h 0.04" in "".join(message.lines)
    assert "< 0.001" in "".join(message.lines)
    assert "&lt; 0.001" in message.html


def _fields(found: Report) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


async def test_a_parquet_file_has_the_numbers_of_the_csv_with_types(pool: Any) -> None:
    admin = pool.as_("admin")
    by = {"by": "project,hour,day,week,month,year"}
    table = pq.read_table(io.BytesIO((await admin.get("/report.parquet", params=by)).content))
    rows = list(csv.DictReader(io.StringIO((await admin.get("/report.csv", params=by)).text)))
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "project": "string",
        "hour": "timestamp[ms, tz=UTC]",
        **dict.fromkeys(("day", "week", "month"), "date32[day]"),
        "year": "int32",
        **{name: "double" for name in types if "hours" in name or "wait" in name or name == "cost"},
        **dict.fromkeys(("jobs", "people", "pauses"), "int64"),
    }
    found = table.to_pylist()
    assert len(found) == len(rows) > 0
    for one, other in zip(found, rows, strict=True):
        assert f"{one['hour']:%Y-%m-%d %H:00}" == other["hour"]
        assert f"{one['day']}" == other["day"]
        assert f"{one['week']:%G-W%V}" == other["week"]
        assert one["week"].isoweekday() == 1
        assert (f"{one['month']:%Y-%m}", one["month"].day) == (other["month"], 1)
        assert f"{one['year']}" == other["year"]
        assert one["jobs"] == int(other["jobs"])
        for name, kind in types.items():
            if kind == "double" and name != "gpu_hours_held":  # what is held grows between the two
                assert (one[name] is None) == (other[name] == "")
    assert table.schema.metadata[b"start"].decode() == (await admin.get("/report")).json()["start"]
