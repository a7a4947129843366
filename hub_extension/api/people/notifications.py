"""Calls of people about their own notifications."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.routes import Call, NoQuery, Route, Who
from springtide.hub_extension.notifications import webhook
from springtide.hub_extension.notifications.failure import NotDelivered
from springtide.hub_extension.notifications.message import trial_notification
from springtide.hub_extension.web.problems import Busy
from springtide.scheduler import sentences
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import (
    Channel,
    Delivery,
    DeliveryState,
    NotificationChoice,
    NotificationEvent,
)
from springtide.scheduler.wire import ChannelView, Notifications, NotificationsEdit, TrialSent

UNDELIVERED = frozenset({DeliveryState.FAILED, DeliveryState.WAITING})


async def notifications(call: Call[NoQuery, None]) -> Notifications:
    """Return what the caller is told, and what became of the latest messages."""
    user = person(call, "notifications")
    return _view(call, call.pool.engine.outbox.choice(user), await call.pool.engine.outbox.latest(user))


async def edit_notifications(call: Call[NoQuery, NotificationsEdit]) -> Notifications:
    """Change what the caller is told. Raises `Refusal` for a webhook that is not allowed."""
    user, edit, outbox = person(call, "notifications"), call.body, call.pool.engine.outbox
    before = outbox.choice(user)
    events = dict(before.events)
    for channel, chosen in (
        (Channel.BROWSER, edit.browser),
        (Channel.EMAIL, edit.email),
        (Channel.WEBHOOK, edit.webhook),
    ):
        if chosen is not UNSET:
            events[channel] = frozenset(map(NotificationEvent, chosen))
    address = before.webhook
    if edit.webhook_url is not UNSET:
        address = str(webhook.checked(edit.webhook_url, call.pool.channels.webhooks)) if edit.webhook_url else ""
    choice = NotificationChoice(user, events, address)
    if choice != before:
        await outbox.choose(choice)
    return _view(call, choice, await outbox.latest(user))


async def send_trial(call: Call[NoQuery, None]) -> TrialSent:
    """Send the caller a test message and wait for what becomes of it."""
    user, channel, pool = person(call, "notifications"), Channel(call.path["channel"]), call.pool
    wait = pool.trials.take(user)
    if wait:
        message = "You have sent several test messages just now."
        raise Busy("too_many_messages", message, retry_after=int(wait) + 1, hint="Try again in a moment.")
    try:
        choice = pool.engine.outbox.choice(user)
        await pool.channels.send(channel, choice, [trial_notification(user, channel)])
    except NotDelivered as failure:
        return TrialSent(delivered=False, problem=sentences.text(failure.why))
    return TrialSent(delivered=True)


def _view(
    call: Call[NoQuery, object], choice: NotificationChoice, latest: dict[Channel, Delivery]
) -> Notifications:
    channels, outbox = call.pool.channels, call.pool.engine.outbox
    target = {
        Channel.EMAIL: channels.address_of(choice.user) or "",
        Channel.WEBHOOK: webhook.host_of_address(choice.webhook),
    }

    def view(channel: Channel) -> ChannelView:
        missing, last = channels.missing(channel, choice.user), latest.get(channel)
        return ChannelView(
            events=sorted(choice.events.get(channel, ())),
            missing="" if missing is None else sentences.text(missing),
            target=target.get(channel, ""),
            waiting=outbox.count_waiting(choice.user, channel),
            state="" if last is None else last.state.value,
            at=None if last is None else last.at,
            problem="" if last is None else _problem(last),
        )

    return Notifications(
        browser=view(Channel.BROWSER),
        email=view(Channel.EMAIL),
        webhook=view(Channel.WEBHOOK),
        webhook_hosts=list(channels.webhooks.hosts),
    )


def _problem(delivery: Delivery) -> str:
    """Return why a message did not arrive, empty if it did."""
    if delivery.why is None:
        return ""
    told = [delivery.why]
    if delivery.state in UNDELIVERED:
        told.insert(0, Reason("notify-undelivered"))
    if delivery.state is DeliveryState.WAITING:
        told.append(Reason("notify-again"))
    return " ".join(map(sentences.text, told))


ROUTES = (
    Route("GET", "/notifications", "What the caller is told", Who.LOGGED_IN, notifications, answers=Notifications),
    Route(
        "PATCH",
        "/notifications",
        "Change what the caller is told",
        Who.LOGGED_IN,
        edit_notifications,
        takes=NotificationsEdit,
        answers=Notifications,
    ),
    Route(
        "POST",
        "/notifications/{channel}/test",
        "Send a test message",
        Who.LOGGED_IN,
        send_trial,
        answers=TrialSent,
        parts={"channel": Literal["email", "webhook"]},
    ),
)
