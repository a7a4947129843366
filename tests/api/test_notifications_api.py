"""A person's own notifications through the API: choices, secrets, hostile addresses, and who sees what."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from httpx import Response
from patience import PATIENCE_S

from springtide.hub_extension.notifications.channel import NotDelivered
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.notifications.mail import Mail, mail_of
from springtide.hub_extension.notifications.message import Message, message_of
from springtide.hub_extension.notifications.pages import Browser, JupyterLab
from springtide.hub_extension.notifications.webhook import Webhook, body_of, is_public, resolved
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import Notification, NotificationEvent
from springtide.scheduler.refusal import Refusal

SLACK = "https://hooks.slack.com/services/T0/B0/very-secret"
MAIL = Mail(
    smtp_server="127.0.0.1:9",
    email_from="pool@example.org",
    email_address="{user}@example.org",
    email_events=frozenset({NotificationEvent.FAILED}),
)
CHANNELS = Channels((Browser(), JupyterLab(), MAIL, Webhook()))


@pytest.fixture
async def service(start: Any) -> Any:
    return await start(channels=CHANNELS)


def by_name(answer: Response) -> dict[str, dict[str, Any]]:
    return {view["name"]: view for view in answer.json()["channels"]}


async def test_a_person_sees_and_changes_her_choices(service: Any) -> None:
    susan = service.as_("susan")
    before = by_name(await susan.get("/notifications"))
    assert {name: view["events"] for name, view in before.items()} == {
        "browser": ["budget", "edited", "ended", "failed", "paused", "request"],
        "jupyterlab": ["budget", "edited", "ended", "failed", "paused", "request", "resumed"],
        "email": ["failed"],
        "webhook": [],
    }
    assert before["email"]["target"] == "susan@example.org"
    assert [view["address_hint"] for view in before.values()] == [
        None,
        None,
        None,
        "Allowed: https://hooks.slack.com",
    ]
    events = {"browser": ["paused", "ended"], "email": [], "webhook": ["failed"]}
    after = await susan.patch("/notifications", json={"events": events, "addresses": {"webhook": SLACK}})
    assert after.status_code == 200
    view = by_name(await susan.get("/notifications"))
    assert view == by_name(after)
    assert (view["browser"]["events"], view["webhook"]["target"]) == (["ended", "paused"], "hooks.slack.com")
    assert by_name(await service.as_("joe").get("/notifications")) == {
        **before,
        "email": {**before["email"], "target": "joe@example.org"},
    }
    gone = by_name(await susan.patch("/notifications", json={"addresses": {"webhook": ""}}))
    assert (gone["webhook"]["target"], gone["browser"]) == ("", view["browser"])


async def test_all_events_of_a_channel_can_be_chosen(service: Any) -> None:
    everything = sorted(NotificationEvent)
    answer = await service.as_("susan").patch("/notifications", json={"events": {"email": everything}})
    assert by_name(answer)["email"]["events"] == everything


@pytest.mark.parametrize(
    ("edit", "hint"),
    [
        ({"events": {"pigeon": ["ended"]}}, "Channels are: browser, jupyterlab, email, webhook."),
        ({"addresses": {"pigeon": "x"}}, "Channels are: browser, jupyterlab, email, webhook."),
        ({"addresses": {"email": "joe@example.org"}}, ""),
    ],
)
async def test_unknown_channels_and_needless_addresses_are_refused(service: Any, edit: Any, hint: str) -> None:
    answer = await service.as_("susan").patch("/notifications", json=edit)
    assert (answer.status_code, answer.json()["hint"]) == (422, hint)


async def test_the_address_of_a_webhook_is_in_no_answer_event_or_log(
    service: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    susan = service.as_("susan")
    answers = [
        await susan.patch(
            "/notifications", json={"events": {"webhook": ["ended"]}, "addresses": {"webhook": SLACK}}
        ),
        await susan.get("/notifications"),
        await susan.patch("/notifications", json={"addresses": {"webhook": "https://evil.example/very-secret"}}),
        await susan.patch("/notifications", json={"addresses": {"webhook": "http://very-secret"}}),
        await service.as_("admin").get("/audit"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 403, 422, 200]
    assert "very-secret" not in "".join(answer.text for answer in answers) + caplog.text
    assert "very-secret" not in repr(service.pool.engine.outbox.choice("susan"))


@pytest.mark.parametrize(
    "address",
    [
        "http://hooks.slack.com/services/x",
        "https://hooks.slack.com:8443/x",
        "https://hooks.slack.com@evil.example/x",
        "https://evil.example/hooks.slack.com",
        "https://hooks.slack.com.evil.example/x",
        "https://hooks.slack.com\\@evil.example/x",
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://xhooks.slack.com/x",
        "https:///x",
        "file:///etc/passwd",
        "https://hooks.slack.com/x\r\nHost: evil",
        "https://hooks.slack.com/#x",
        "javascript:alert(1)",
        "x" * 2000,
    ],
)
def test_a_webhook_leads_by_https_to_an_allowed_host_or_is_refused(address: str) -> None:
    with pytest.raises(Refusal) as refused:
        Webhook().checked(address)
    assert refused.value.status in {403, 422}
    assert refused.value.hint


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
    ],
)
def test_addresses_inside_private_networks_are_no_public_ones(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["3.68.170.153", "2606:4700::6810:1", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(ip_address(address))


async def test_a_name_that_leads_to_this_machine_is_refused_when_it_is_looked_up() -> None:
    with pytest.raises(NotDelivered) as refused:
        await resolved("localhost", 443, ())
    assert refused.value.why.code == "delivery-private"


def test_an_admin_allows_domains_and_ports() -> None:
    webhook = Webhook((".chat.example.org", "mattermost.example.org:8065"))
    assert webhook.allows("chat.example.org", 443)
    assert webhook.allows("A.chat.example.org", 443)
    assert webhook.allows("mattermost.example.org", 8065)
    assert not webhook.allows("mattermost.example.org", 443)
    assert not webhook.allows("notchat.example.org", 443)
    assert not Webhook(()).allows("hooks.slack.com", 443)


@pytest.mark.parametrize(
    "user", ["joe@evil.example", "a\nBcc: b@x.org", "a b", "joe,eve", "ü", "<joe>", "", "x" * 80, 'a"b']
)
def test_a_user_name_that_makes_no_address_gets_no_mail(user: str) -> None:
    assert MAIL.target(user, "") == ""


def test_user_names_that_are_addresses_are_written_to_where_the_admin_says_so() -> None:
    mail = replace(MAIL, email_address="{user}")
    assert mail.target("susan@example.org", "") == "susan@example.org"
    assert (mail.target("susan", ""), mail.missing("susan")) == ("", Reason("delivery-no-address"))


def notification(name: str) -> Notification:
    return Notification(
        id="a.1.failed",
        user="susan",
        job="a",
        event=NotificationEvent.FAILED,
        title=f"The job “{name}” failed.",
        text="It ended with exit code 1.",
        channels=("email",),
    )


def test_no_name_of_a_job_makes_a_header_or_a_mention() -> None:
    hostile = "x\r\nBcc: eve@example.org\x00\x1b[31m\u202e <!channel> @here <https://evil|ok>"
    message = message_of([notification(hostile)])
    mail = mail_of(message, "pool@example.org", "susan@example.org")
    assert (mail["Bcc"], mail["To"]) == (None, "susan@example.org")
    assert "\n" not in mail["Subject"]
    assert "\u202e" not in message.title
    body = body_of(message).decode()
    assert "<" not in body
    assert "@here" not in body
    with pytest.raises(ValueError, match="line"):
        mail_of(Message("a\nBcc: b", ()), "pool@example.org", "susan@example.org")


def test_many_notifications_are_one_message_that_ends() -> None:
    message = message_of([notification(f"sweep {number}") for number in range(500)], "https://hub/pool/")
    assert message.title == "There are 500 notifications of the pool: 500 failed."
    assert len(message.lines) == 22
    first = "The job “sweep 0” failed. It ended with exit code 1. https://hub/pool/jobs/a"
    assert message.lines[0] == first
    assert message.lines[-2].startswith("Besides these there are 480 more")
    alone = message_of([notification("digits")], "https://hub/pool/")
    assert alone.lines == ("It ended with exit code 1.", "https://hub/pool/jobs/a")


def test_a_message_of_a_fault_leads_to_the_page_of_the_pool() -> None:
    fault = replace(notification("x"), job="", event=NotificationEvent.FAULT)
    assert (
        message_of([fault], "https://hub/services/springtide/").lines[-1] == "https://hub/services/springtide/pool"
    )
    assert len(message_of([fault]).lines) == 1
    needs = replace(fault, event=NotificationEvent.NEEDS)
    assert message_of([needs], "https://hub/springtide/").lines[-1] == "https://hub/springtide/home"


async def test_services_and_strangers_have_no_notifications(service: Any) -> None:
    for name, status in (("bot", 403), ("springtide", 403), (None, 401), ("stranger", 401)):
        client = service.as_(name)
        assert (await client.get("/notifications")).status_code == status
        assert (await client.patch("/notifications", json={"events": {"email": []}})).status_code == status
        assert (await client.post("/notifications/webhook/test")).status_code == status


async def test_test_messages_are_few_and_tell_what_became_of_them(service: Any) -> None:
    susan = service.as_("susan")
    answers = [await susan.post("/notifications/email/test") for _ in range(6)]
    assert answers[0].json() == {"delivered": False, "problem": "The server 127.0.0.1 could not be reached."}
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert (await susan.post("/notifications/pigeon/test")).status_code == 422
    shown = await susan.post("/notifications/jupyterlab/test")
    assert (shown.status_code, shown.json()["code"]) == (422, "no_messages")


@pytest.mark.parametrize("channel", ["browser", "jupyterlab"])
async def test_only_the_person_sees_a_notification_on_the_event_stream(service: Any, channel: str) -> None:
    for name in ("susan", "admin"):
        await service.as_(name).patch(
            "/notifications", json={"events": {channel: ["succeeded-soon"], "email": []}}
        )

    async def first(name: str, kind: str) -> tuple[list[str], str]:
        kinds: list[str] = []
        async with service.as_(name).stream("GET", "/events", timeout=PATIENCE_S) as stream:
            opened.release()
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                wanted = kind != "job" or '"succeeded"' in line
                if kinds[-1:] == [kind] and line.startswith("data: ") and wanted:
                    return kinds, line
        raise AssertionError(kinds)

    opened = asyncio.Semaphore(0)
    hers = asyncio.create_task(first("susan", "notification"))
    others = [asyncio.create_task(first(name, "job")) for name in ("joe", "admin")]
    for _ in range(3):
        await opened.acquire()
    job = await service.submit("susan", "true", name="digits")
    _, line = await hers
    assert '"The job “digits” succeeded."' in line
    assert job["id"] in line
    for task in others:
        assert "notification" not in (await task)[0]
