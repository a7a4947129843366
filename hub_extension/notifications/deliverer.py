"""Delivery of the outbox: one message at a time for each person and channel, a few at once in all.

All notifications that wait for one person and channel are sent as one message. A delivery is marked before it is
sent and settled after it, so that none is sent twice, whenever the service ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from springtide.hub_extension.notifications.channel import MessageChannel, NotDelivered
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.notifications.message import Message, message_of, report_page
from springtide.hub_extension.notifications.report_message import report_message
from springtide.scheduler.backoff import Backoff, Jitter, equal_jitter
from springtide.scheduler.engine.monthly_reports import MonthlyReports
from springtide.scheduler.engine.notifications.outbox import Lane, Outbox
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import Delivery, DeliveryState, Notification
from springtide.scheduler.store import StoreError

log = logging.getLogger("springtide")

AT_ONCE: Final = 8
"""Maximum number of messages that are sent at a time."""
FIRST_DELAY: Final = 10.0
"""Delay after a message that could not be delivered, in seconds; doubled after each further one."""
MAX_DELAY: Final = 1_800.0
"""Maximum delay after a message that could not be delivered, in seconds."""
GIVE_UP_S: Final = 6 * 3_600.0
"""Age of a notification at which it is not tried again, in seconds."""
GIVE_UP_REPORT_S: Final = 3 * 86_400.0
"""Age of the notification of a report at which it is not tried again, in seconds."""
LEAVE_S: Final = 5.0
"""Time that messages on their way have when the service stops, in seconds."""


def together(waiting: Sequence[Delivery]) -> Sequence[Delivery]:
    """Return the first deliveries that go out as one message: a report alone, others up to the next report."""
    if waiting and waiting[0].notification.month:
        return waiting[:1]
    return list(takewhile(lambda delivery: not delivery.notification.month, waiting))


class Deliverer:
    """Carries out the deliveries of the outbox, and makes the reports among them, until `stop`.

    ``clock`` returns seconds since the epoch; ``first_delay`` is in seconds, and ``pause``, which takes the
    place of the pauses of all channels.
    """

    def __init__(
        self,
        outbox: Outbox,
        reports: MonthlyReports,
        channels: Channels,
        clock: Callable[[], float],
        *,
        first_delay: float = FIRST_DELAY,
        pause: float | None = None,
        jitter: Jitter = equal_jitter,
    ) -> None:
        self._outbox = outbox
        self._reports = reports
        self._channels = channels
        self._clock = clock
        self._first_delay = first_delay
        self._pause = pause
        self._jitter = jitter
        self._backoffs: dict[Lane, Backoff] = {}
        self._not_before: dict[Lane, float] = {}
        self._sending: dict[Lane, asyncio.Task[None]] = {}
        self._task = asyncio.create_task(self._run(), name="notifications")

    async def stop(self) -> None:
        """Stop; messages on their way have `LEAVE_S` to arrive."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        tasks = list(self._sending.values())
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        arrived = self._outbox.arrived
        while True:
            arrived.clear()
            wait = self._start_due()
            try:
                async with asyncio.timeout(wait):
                    await arrived.wait()
            except TimeoutError:
                continue

    def _start_due(self) -> float | None:
        """Start the deliveries that may be sent now; return the seconds until the next, None without one."""
        now = asyncio.get_running_loop().time()
        self._not_before = {lane: at for lane, at in self._not_before.items() if at > now}
        waiting = [lane for lane in self._outbox.lanes() if lane not in self._sending]
        due = [lane for lane in waiting if lane not in self._not_before]
        for lane in due[: AT_ONCE - len(self._sending)]:
            self._sending[lane] = asyncio.create_task(self._deliver(lane), name="notification")
            self._sending[lane].add_done_callback(partial(self._sent, lane))
        later = [self._not_before[lane] - now for lane in waiting if lane in self._not_before]
        return min(later, default=None)

    def _sent(self, lane: Lane, _task: asyncio.Task[None]) -> None:
        self._sending.pop(lane, None)
        self._outbox.arrived.set()

    async def _deliver(self, lane: Lane) -> None:
        user, channel = lane
        wait = 0.0
        try:
            deliveries = together(await self._outbox.waiting(lane))
            if deliveries:
                wait = await self._send(lane, deliveries)
        except StoreError as error:
            log.warning("The outcome of notifications to %r by %s was not written: %s", user, channel, error)
            wait = self._next_delay(lane)
        self._not_before[lane] = asyncio.get_running_loop().time() + wait

    async def _send(self, lane: Lane, deliveries: Sequence[Delivery]) -> float:
        """Send deliveries as one message and settle them; return the seconds until the next message."""
        user, channel = lane
        try:
            message = await self._message([delivery.notification for delivery in deliveries])
            await self._outbox.settle(deliveries, DeliveryState.SENDING)
            await self._channels.send(channel, self._outbox.choice(user), message)
        except NotDelivered as failure:
            log.info("A message to %r by %s: %s, %s", user, channel, failure.state, failure.why.code)
            if await self._settle_failed(deliveries, failure):
                return self._next_delay(lane, failure.wait)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect must not stop all others, and its text may hold a secret
            log.error("A message to %r by %s failed: %s", user, channel, type(error).__name__)  # noqa: TRY400
            await self._outbox.settle(deliveries, DeliveryState.FAILED, Reason("delivery-failed"))
        else:
            await self._outbox.settle(deliveries, DeliveryState.SENT)
        self._backoffs.pop(lane, None)
        if self._pause is not None:
            return self._pause
        kind = self._channels.named(channel)
        return kind.pause if isinstance(kind, MessageChannel) else 0.0

    async def _settle_failed(self, deliveries: Sequence[Delivery], failure: NotDelivered) -> bool:
        """Settle deliveries that did not arrive; return whether some of them are tried again."""
        if failure.state is not DeliveryState.WAITING:
            await self._outbox.settle(deliveries, failure.state, failure.why)
            return False
        most = GIVE_UP_REPORT_S if deliveries[0].notification.month else GIVE_UP_S
        again = await self._outbox.made_after(self._clock() - most, deliveries)
        given_up = [each for each in deliveries if each not in again]
        await self._outbox.settle(given_up, DeliveryState.FAILED, failure.why)
        await self._outbox.settle(again, DeliveryState.WAITING, failure.why)
        return bool(again)

    async def _message(self, notifications: Sequence[Notification]) -> Message:
        """Return the message with notifications; that of a report is made now. Raises `NotDelivered`."""
        pages_url, first = self._channels.pages_url, notifications[0]
        if not first.month:
            return message_of(notifications, pages_url)
        found = await self._reports.of_person(first.user, first.month)
        if found is None:
            raise NotDelivered(DeliveryState.FAILED, "delivery-no-report")
        by_project, by_day = found
        page = report_page(pages_url, by_project.start, by_project.end)
        return report_message(first.title, first.text, by_project, by_day, page)

    def _next_delay(self, lane: Lane, at_least: float = 0.0) -> float:
        if lane not in self._backoffs:
            cap = max(MAX_DELAY, self._first_delay)
            self._backoffs[lane] = Backoff(self._first_delay, cap, jitter=self._jitter)
        return self._backoffs[lane].next_delay(at_least=at_least)
