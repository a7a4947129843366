"""Messages on their way, to a real mail server and a real server for webhooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S
from pools.all_channels import EMAIL, WEBHOOK
from servers.message_servers import MailServer, Tls, WebhookServer, mail_server, until, webhook_server

from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.notifications.deliverer import GIVE_UP_S, Deliverer
from springtide.hub_extension.notifications.mail import Mail
from springtide.hub_extension.notifications.webhook import Webhook
from springtide.hub_extension.service.logs import log_to_stderr
from springtide.scheduler.backoff import no_jitter
from springtide.scheduler.notifications import NotificationChoice, NotificationEvent

HERE = ("127.0.0.0/8", "::1/128")


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls.at(tmp_path)


@pytest.fixture
async def mail(tls: Tls) -> AsyncIterator[MailServer]:
    async with mail_server(tls) as server:
        yield server


@pytest.fixture
async def webhook(tls: Tls) -> AsyncIterator[WebhookServer]:
    async with webhook_server(tls) as server:
        yield server


@pytest.fixture
def channels(tls: Tls, mail: MailServer, webhook: WebhookServer) -> Channels:
    by_mail = Mail(
        smtp_server=f"localhost:{mail.port}",
        email_from="pool@example.org",
        email_address="{user}@example.org",
        smtp_user="pool",
        password="wave-in-the-pool",
        tls=tls.client,
    )
    by_webhook = Webhook((f"localhost:{webhook.port}",), HERE, tls.client)
    return Channels((by_mail, by_webhook), pages_url="https://hub.example.org/services/springtide/")


class Delivering:
    """A service whose susan gets all events by e-mail and webhook, and its deliverers."""

    def __init__(self, running: Any, channels: Channels, webhook: WebhookServer) -> None:
        self.running = running
        self.channels = channels
        self.outbox = running.pool.engine.outbox
        self.url = webhook.url
        self.deliverer: Deliverer | None = None

    async def choose(self, *channels: str) -> None:
        events = dict.fromkeys(channels, frozenset(NotificationEvent))
        await self.outbox.choose(NotificationChoice("susan", events, {WEBHOOK: self.url}))

    def start(self, first_delay: float = 0.05, clock: Callable[[], float] | None = None) -> None:
        self.deliverer = Deliverer(
            self.outbox,
            self.running.pool.engine.monthly_reports,
            self.channels,
            clock or self.running.pool.clock,
            first_delay=first_delay,
            pause=0.0,
            jitter=no_jitter,
        )

    async def stop(self) -> None:
        if self.deliverer is not None:
            await self.deliverer.stop()
            self.deliverer = None

    async def ended(self, name: str, *argv: str) -> None:
        job = await self.running.submit("susan", *(argv or ("true",)), name=name)
        await self.running.until("susan", job["id"], lambda found: found["state"] in {"succeeded", "failed"})
        await self.running.pool.engine.idle()

    async def view(self, channel: str) -> dict[str, Any]:
        views = (await self.running.as_("susan").get("/notifications")).json()["channels"]
        return next(view for view in views if view["name"] == channel)

    async def state(self, channel: str, state: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while (view := await self.view(channel))["state"] != state:
                await asyncio.sleep(0.01)
        return view


@pytest.fixture
async def pool(start: Any, channels: Channels, webhook: WebhookServer) -> AsyncIterator[Delivering]:
    pool = Delivering(await start(channels=channels), channels, webhook)
    await pool.choose(EMAIL, WEBHOOK)
    yield pool
    await pool.stop()


async def test_a_message_arrives_by_mail_and_at_the_webhook(
    pool: Delivering, mail: MailServer, webhook: WebhookServer, capfd: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(logging.DEBUG, "text")
    pool.start()
    await pool.ended("digits", "sh", "-c", "exit 3")
    await until(lambda: mail.taken and webhook.taken)
    (letter,) = mail.taken
    assert (letter["From"], letter["To"], mail.recipients) == (
        "pool@example.org",
        "susan@example.org",
        ["susan@example.org"],
    )
    assert (letter["Subject"], letter["Auto-Submitted"]) == ("The job “digits” failed.", "auto-generated")
    content = letter.get_content()
    assert "It ended with exit code 3." in content
    assert "https://hub.example.org/services/springtide/jobs/" in content
    assert webhook.taken[0].startswith("The job “digits” failed.\nIt ended with exit code 3.")
    assert webhook.hosts == [f"localhost:{webhook.port}"]
    for channel in ("email", "webhook"):
        view = await pool.state(channel, "sent")
        assert (view["waiting"], view["problem"]) == (0, "")
    logged = capfd.readouterr().err
    assert "/api/v1/notifications" in logged
    for secret in ("secret-of-susan", "wave-in-the-pool"):
        assert secret not in logged


async def test_what_waited_goes_out_as_one_message(pool: Delivering, mail: MailServer) -> None:
    await pool.choose(EMAIL)
    for name in ("first", "second", "third"):
        await pool.ended(name)
    assert (await pool.view("email"))["waiting"] == 3
    pool.start()
    await until(lambda: mail.taken)
    await pool.state("email", "sent")
    (letter,) = mail.taken
    assert letter["Subject"] == "There are 3 notifications of the pool: 3 ended."
    assert [name in letter.get_content() for name in ("first", "second", "third")] == [True] * 3


async def test_an_outage_is_shown_and_the_message_arrives_once_after_it(
    pool: Delivering, mail: MailServer, webhook: WebhookServer
) -> None:
    mail.answer = "451 try again later"
    webhook.statuses = [503, 429, 503]
    pool.start(first_delay=0.2)
    await pool.ended("digits")
    view = await pool.state("email", "waiting")
    why = "The mail server refused the message with code 451."
    assert view["problem"] == f"The last message could not be delivered. {why} It is tried again."
    mail.answer = "250 OK"
    await pool.state("email", "sent")
    await pool.state("webhook", "sent")
    assert (len(mail.taken), len(webhook.taken), webhook.asked) == (1, 1, 4)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (
            404,
            "The server localhost answered with status 404. Make a new webhook address there, and put it in here.",
        ),
        (302, "The server localhost answered with a redirect, which is not followed."),
    ],
)
async def test_a_refusal_is_shown_and_not_tried_again(
    pool: Delivering, webhook: WebhookServer, status: int, problem: str
) -> None:
    await pool.choose(WEBHOOK)
    webhook.statuses = [status]
    pool.start(first_delay=0.01)
    await pool.ended("digits")
    view = await pool.state("webhook", "failed")
    assert view["problem"] == f"The last message could not be delivered. {problem}"
    await pool.ended("again")
    await pool.state("webhook", "sent")
    assert (webhook.asked, [text.partition("\n")[0] for text in webhook.taken]) == (
        2,
        ["The job “again” succeeded."],
    )


async def test_a_message_is_given_up_after_hours_of_tries_and_the_next_arrives(
    pool: Delivering, mail: MailServer
) -> None:
    ahead, wall = 0.0, pool.running.pool.clock

    def clock() -> float:
        return float(wall()) + ahead

    async def tried_again() -> None:
        tried = mail.asked
        await until(lambda: mail.asked >= tried + 2)

    await pool.choose(EMAIL)
    mail.answer = "451 try again later"
    await pool.ended("old")
    pool.outbox._clock = clock
    pool.start(first_delay=0.01, clock=clock)
    await tried_again()
    ahead = GIVE_UP_S / 2
    await tried_again()
    ahead = GIVE_UP_S
    view = await pool.state("email", "failed")
    assert view["problem"].endswith("The mail server refused the message with code 451.")
    ahead, mail.answer = 0.0, "250 OK"
    await pool.ended("late")
    await until(lambda: mail.taken)
    (letter,) = mail.taken
    assert letter["Subject"] == "The job “late” succeeded."


async def test_a_message_that_may_have_arrived_is_not_sent_again(pool: Delivering, webhook: WebhookServer) -> None:
    await pool.choose(WEBHOOK)
    webhook.silent = True
    pool.start(first_delay=0.01)
    await pool.ended("digits")
    view = await pool.state("webhook", "unknown")
    assert view["problem"].endswith("It may have arrived, so it is not sent again.")
    assert (webhook.asked, len(webhook.taken)) == (1, 1)


async def test_a_server_that_is_away_delays_no_job_and_no_other_person(
    pool: Delivering, mail: MailServer, webhook: WebhookServer
) -> None:
    mail.answer = "451 try again later"
    pool.start(first_delay=60.0)
    for name in ("first", "second"):
        await pool.ended(name)
    await until(lambda: "second" in "".join(webhook.taken))
    assert not mail.taken
    assert mail.asked <= 1


async def test_a_certificate_of_nobody_is_refused(start: Any, webhook: WebhookServer) -> None:
    strict = Channels((Webhook((f"localhost:{webhook.port}",), HERE),))
    pool = Delivering(await start(channels=strict), strict, webhook)
    await pool.choose(WEBHOOK)
    told = (await pool.running.as_("susan").post("/notifications/webhook/test")).json()
    assert told == {"delivered": False, "problem": "The server localhost has no valid certificate."}
    assert webhook.asked == 0


async def test_a_webhook_inside_a_private_network_is_not_asked(
    start: Any, tls: Tls, webhook: WebhookServer
) -> None:
    strict = Channels((Webhook((f"localhost:{webhook.port}",), tls=tls.client),))
    pool = Delivering(await start(channels=strict), strict, webhook)
    await pool.choose(WEBHOOK)
    told = (await pool.running.as_("susan").post("/notifications/webhook/test")).json()
    assert told["delivered"] is False
    assert "private network" in told["problem"]
    assert webhook.asked == 0


async def test_a_test_message_is_delivered(pool: Delivering, mail: MailServer, webhook: WebhookServer) -> None:
    susan = pool.running.as_("susan")
    for channel in ("email", "webhook"):
        assert (await susan.post(f"/notifications/{channel}/test")).json() == {"delivered": True, "problem": ""}
    assert (mail.taken[0]["Subject"], webhook.taken[0].splitlines()[0]) == (
        "This is a test message of the pool.",
        "This is a test message of the pool.",
    )


async def test_a_wrong_password_of_the_pool_is_told_without_it(
    start: Any, channels: Channels, webhook: WebhookServer
) -> None:
    by_mail, *others = channels.channels
    assert isinstance(by_mail, Mail)
    wrong = Channels((replace(by_mail, password="wrong-secret"), *others))
    pool = Delivering(await start(channels=wrong), wrong, webhook)
    told = (await pool.running.as_("susan").post("/notifications/email/test")).text
    assert "does not accept the log-in of the pool" in told
    assert "wrong-secret" not in told
