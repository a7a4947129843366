"""Calls of people about their own notifications."""

from __future__ import annotations

from collections.abc import Mapping

from springtide.hub_extension.api.people.person import person
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.hub_extension.notifications.channel import Channel, MessageChannel, NotDelivered
from springtide.hub_extension.notifications.message import message_of, trial_notification
from springtide.hub_extension.web.problems import Busy
from springtide.scheduler import sentences
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import (
    Delivery,
    DeliveryState,
    NotificationChoice,
    NotificationEvent,
)
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import ChannelView, Notifications, NotificationsEdit, TrialSent
from springtide.scheduler.wire.shapes import Word
from springtide.scheduler.wording import given

UNDELIVERED = frozenset({DeliveryState.FAILED, DeliveryState.WAITING})


@route("GET", "/notifications", Who.LOGGED_IN)
async def notifications(call: Call) -> Notifications:
    """Return the caller's choices, and the outcome of the latest messages."""
    user = person(call, "notifications")
    return _view(call, call.pool.engine.outbox.choice(user), await call.pool.engine.outbox.latest(user))


@route("PATCH", "/notifications", Who.LOGGED_IN)
async def edit_notifications(call: Call, body: NotificationsEdit) -> Notifications:
    """Change the caller's choices. Raises `Refusal` for an unknown channel or an address that is not allowed."""
    user, edit, outbox = person(call, "notifications"), body, call.pool.engine.outbox
    before = outbox.choice(user)
    events, addresses = dict(before.events), dict(before.addresses)
    for name, chosen in edit.events.items():
        events[_channel(call, name, "events").name] = frozenset(map(NotificationEvent, chosen))
    for name, address in edit.addresses.items():
        addresses[name] = _checked(_channel(call, name, "addresses"), address)
    choice = NotificationChoice(user, events, {name: address for name, address in addresses.items() if address})
    if choice != before:
        await outbox.choose(choice)
    return _view(call, choice, await outbox.latest(user))


def _checked(channel: Channel, address: str) -> str:
    """Return the address that a person entered for a channel, empty to remove it. Raises `Refusal`."""
    if channel.address_hint is None:
        message = f"The channel {channel.name} takes no address."
        raise Refusal(422, "no_address", message, field="addresses")
    return channel.checked(address) if address else ""


def _channel(call: Call, name: str, field: str) -> Channel:
    """Return a channel. Raises `Refusal` for a name that is none."""
    channel = call.pool.channels.named(name)
    if channel is None:
        known = ", ".join(channel.name for channel in call.pool.channels.channels)
        message = f"There is no channel {given(name)}."
        raise Refusal(422, "unknown_channel", message, field=field, hint=f"Channels are: {known}.")
    return channel


@route("POST", "/notifications/{channel}/test", Who.LOGGED_IN)
async def send_trial(call: Call, channel: Word) -> TrialSent:
    """Send the caller a test message and wait for its outcome."""
    user, pool = person(call, "notifications"), call.pool
    found = _channel(call, channel, "channel")
    name = found.name
    if not isinstance(found, MessageChannel):
        message = f"The channel {name} sends no messages: open pages show its notifications."
        raise Refusal(422, "no_messages", message, field="channel")
    check_trials(call, user)
    try:
        choice = pool.engine.outbox.choice(user)
        await pool.channels.send(
            name, choice, message_of([trial_notification(user, name)], pool.channels.pages_url)
        )
    except NotDelivered as failure:
        return TrialSent(delivered=False, problem=sentences.text(failure.why))
    return TrialSent(delivered=True)


def check_trials(call: Call, user: str) -> None:
    """Raise `Busy` for a person who has had several messages sent to herself just now."""
    wait = call.pool.trials.take(user)
    if wait:
        message = "You have sent several test messages just now."
        raise Busy("too_many_messages", message, retry_after=int(wait) + 1, hint="Try again in a moment.")


def _view(call: Call, choice: NotificationChoice, latest: Mapping[str, Delivery]) -> Notifications:
    outbox = call.pool.engine.outbox

    def view(channel: Channel) -> ChannelView:
        missing, last = channel.missing(choice.user), latest.get(channel.name)
        return ChannelView(
            name=channel.name,
            title=channel.title,
            about=channel.about,
            events=sorted(outbox.settings.events_of(choice, channel.name)),
            sends=isinstance(channel, MessageChannel),
            missing="" if missing is None else sentences.text(missing),
            target=channel.target(choice.user, choice.addresses.get(channel.name, "")),
            address_hint=channel.address_hint,
            waiting=outbox.count_waiting(choice.user, channel.name),
            state="" if last is None else last.state.value,
            at=None if last is None else last.at,
            problem="" if last is None else _problem(last),
        )

    return Notifications(
        channels=[view(channel) for channel in call.pool.channels.channels],
        administers=choice.user in outbox.settings.fault_recipients,
    )


def _problem(delivery: Delivery) -> str:
    """Return why a message did not arrive, empty if it did."""
    if delivery.why is None:
        return ""
    reasons = [delivery.why]
    if delivery.state in UNDELIVERED:
        reasons.insert(0, Reason("notify-undelivered"))
    if delivery.state is DeliveryState.WAITING:
        reasons.append(Reason("notify-again"))
    return " ".join(map(sentences.text, reasons))
