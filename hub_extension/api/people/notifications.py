"""Calls of people about their own notifications."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.routes import Call, Who, route
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


@route("GET", "/notifications", Who.LOGGED_IN)
async def notifications(call: Call) -> Notifications:
    """Return the caller's notifications, and the delivery of the latest messages."""
    user = person(call, "notifications")
    return _view(call, call.pool.engine.outbox.choice(user), await call.pool.engine.outbox.latest(user))


@route("PATCH", "/notifications", Who.LOGGED_IN)
async def edit_notifications(call: Call, body: NotificationsEdit) -> Notifications:
    """Change the caller's notifications. Raises `Refusal` for a webhook that is not allowed."""
    user, edit, outbox = person(call, "notifications"), body, call.pool.engine.outbox
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


@route("POST", "/notifications/{channel}/test", Who.LOGGED_IN)
async def send_trial(call: Call, channel: Literal["email", "webhook"]) -> TrialSent:
    """Send the caller a test message and return whether it was delivered."""
    user, target, pool = person(call, "notifications"), Channel(channel), call.pool
    wait = pool.trials.take(user)
    if wait:
        message = "You have sent several test messages just now."
        raise Busy("too_many_messages", message, retry_after=int(wait) + 1, hint="Try again in a moment.")
    try:
        choice = pool.engine.outbox.choice(user)
        await pool.channels.send(target, choice, [trial_notification(user, target)])
    except NotDelivered as failure:
        return TrialSent(delivered=False, problem=sentences.text(failure.why))
    return TrialSent(delivered=True)


def _view(call: Call, choice: NotificationChoice, latest: dict[Channel, Delivery]) -> Notifications:
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
