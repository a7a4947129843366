"""The outbox: deliveries are committed with the change that causes them, and settled by their senders."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from springtide.scheduler.engine.notifications import notices
from springtide.scheduler.engine.state import wanted
from springtide.scheduler.engine.state.lineage import lineage
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import (
    EVENT_KIND,
    ON_PAGES,
    Channel,
    Delivery,
    DeliveryState,
    Events,
    Notification,
    NotificationChoice,
    NotificationSettings,
)
from springtide.scheduler.store import deliveries
from springtide.scheduler.store.records import EventRecord
from springtide.scheduler.store.tables import ChangeRequestRecord, HubStanding
from springtide.scheduler.wire import ANNOUNCED_AS_FAULTS, JobWanted, MembershipWanted

MAX_WAITING = 500
"""Maximum number of deliveries of one person that wait for one channel; further ones are left out."""
PAGE = 1_000
"""Number of deliveries read from the store at once."""

Lane = tuple[str, Channel]
"""The deliveries of one person through one channel, which are carried out in order."""


class Outbox:
    """Choices of people, and deliveries on their way. ``arrived`` is set when one waits that did not before."""

    def __init__(
        self,
        state: State,
        store: StoreThreads,
        settings: NotificationSettings,
        clock: Callable[[], float],
        change: Callable[[Callable[[Transaction], None]], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self.arrived = asyncio.Event()
        self._state = state
        self._threads = store
        self._clock = clock
        self._change = change
        self._waiting: Counter[Lane] = Counter()

    # ---------- choices

    def choice(self, user: str) -> NotificationChoice:
        """Return the choice of a person."""
        return self._state.notification_choices.get(user) or NotificationChoice(user)

    async def choose(self, choice: NotificationChoice) -> None:
        """Set the choice of a person; on disk when this returns. Raises `Refusal`."""
        await self._change(lambda transaction: transaction.notification_choices.put(choice))

    # ---------- written with the change

    def notifications(self, transaction: Transaction) -> list[Notification]:
        """Return the notifications of a transaction: for owners, administrators and leads."""
        found: list[Notification] = []
        for job in transaction.jobs.values():
            before = self._state.jobs.get(job.id)
            if before is not job:
                chosen = self._wanted(job.spec.user)
                if chosen:
                    found += notices.job_notifications(before, job, chosen, transaction.now)
        for record in notices.changed(transaction):
            found += notices.idle_notifications(record, self._wanted(record.user))
        for asked in notices.asked(transaction):
            found += notices.asked_notifications(asked, self._wanted(asked.user))
        found += self._of_faults(transaction) + self._of_needs(transaction) + self._of_budgets(transaction)
        return found + self._of_requests(transaction) + self._of_reports(transaction)

    def _of_needs(self, transaction: Transaction) -> list[Notification]:
        """Return the notifications of new needs of administrators, for the `fault_recipients` alone."""
        arisen = notices.arisen(transaction, ANNOUNCED_AS_FAULTS)
        return [
            notice
            for user in (sorted(self.settings.fault_recipients) if arisen else ())
            for notice in notices.need_notifications(user, arisen, self._wanted(user), transaction.now)
        ]

    def _of_faults(self, transaction: Transaction) -> list[Notification]:
        """Return the notifications of faults, for the `fault_recipients` and all who chose them."""
        faults = notices.faults(transaction)
        if not faults:
            return []
        people = sorted({*self.settings.fault_recipients, *self._state.notification_choices})
        return [
            notice for user in people for notice in notices.fault_notifications(user, faults, self._wanted(user))
        ]

    def _of_budgets(self, transaction: Transaction) -> list[Notification]:
        """Return the notifications of budgets, for the `fault_recipients` and leads of the project."""
        parents = {name: record.project.parent for name, record in transaction.projects.items()}
        found: list[Notification] = []
        for record in notices.told_budgets(transaction):
            leads = leads_of(transaction, lineage(record.project, parents))
            for user in sorted(leads | self.settings.fault_recipients):
                currency = transaction.state.currency
                found += notices.budget_notification(user, record, self._wanted(user), currency)
        return found

    def _of_requests(self, transaction: Transaction) -> list[Notification]:
        """Return the notifications of new requests for leads who may grant them, of ended ones for who asked."""
        found: list[Notification] = []
        for record in notices.ended_requests(transaction):
            found += notices.request_notification(record.user, record, self._wanted(record.user))
        for record in notices.new_requests(transaction):
            for user in sorted(self._leads_for(transaction, record) - {record.user}):
                found += notices.request_notification(user, record, self._wanted(user))
        return found

    @staticmethod
    def _leads_for(transaction: Transaction, record: ChangeRequestRecord) -> set[str]:
        """Return who may grant a request as the lead of a project."""
        job = transaction.job(record.wanted.job) if isinstance(record.wanted, JobWanted) else None
        project = wanted.project_of(record.wanted, job)
        parents = {name: each.project.parent for name, each in transaction.projects.items()}
        above = lineage(project, parents) if project in parents else ()
        led = above if isinstance(record.wanted, MembershipWanted) else above[1:]
        return leads_of(transaction, led)

    def _of_reports(self, transaction: Transaction) -> list[Notification]:
        """Return the notifications of the reports of months, for the `fault_recipients` and all leads."""
        months = notices.reported_months(transaction)
        if not months:
            return []
        leads = {user for _, group in transaction.hub_groups.items() for user in group.leads}
        return [
            notice
            for month in months
            for user in sorted(leads | self.settings.fault_recipients)
            for notice in notices.report_notification(
                user, month, self._wanted(user), whole_pool=user in self.settings.fault_recipients
            )
        ]

    def _wanted(self, user: str) -> dict[Channel, Events]:
        known = self._state.hub_users.get(user)
        if known is not None and known.standing is HubStanding.LEFT:
            return {}
        return self.settings.usable(self.choice(user))

    def deliveries(self, notifications: Sequence[Notification], records: Iterable[EventRecord]) -> list[Delivery]:
        """Return the deliveries of notifications, whose ``records`` are among those of the transaction."""
        ids = [record.id for record in records if record.kind == EVENT_KIND]
        new: Counter[Lane] = Counter()
        found = []
        for event, notification in zip(ids, notifications, strict=True):
            for channel in notification.channels:
                lane = notification.user, channel
                if channel not in ON_PAGES and self._waiting[lane] + new[lane] < MAX_WAITING:
                    new[lane] += 1
                    found.append(Delivery(event, channel, self._clock(), notification))
        return found

    def committed(self, new: Iterable[Delivery]) -> None:
        """Take in deliveries that were committed."""
        for delivery in new:
            self._waiting[delivery.user, delivery.channel] += 1
            self.arrived.set()

    # ---------- carried out

    async def load(self) -> None:
        """Take in the deliveries that a former service left. Raises `StoreError`.

        What it was sending may have arrived, so it is not sent again.
        """
        left = await self._threads.read(deliveries.unfinished)
        self._waiting = Counter((each.user, each.channel) for each in left)
        sending = [each for each in left if each.state is DeliveryState.SENDING]
        await self.settle(sending, DeliveryState.UNKNOWN, Reason("delivery-interrupted"))
        self.arrived.set()

    def lanes(self) -> list[Lane]:
        """Return the lanes in which a delivery waits."""
        return [lane for lane, number in self._waiting.items() if number > 0]

    async def waiting(self, lane: Lane) -> list[Delivery]:
        """Return the deliveries that wait in a lane, oldest first. Raises `StoreError`."""
        found = await self._threads.read(deliveries.waiting, *lane, PAGE)
        if not found:
            self._waiting.pop(lane, None)
        return found

    async def made_after(self, moment: float, among: Sequence[Delivery]) -> list[Delivery]:
        """Return the deliveries whose notification was made after a moment. Raises `StoreError`."""
        young = await self._threads.read(deliveries.made_after, [each.event for each in among], moment)
        return [each for each in among if each.event in young]

    async def settle(self, settled: Sequence[Delivery], state: DeliveryState, why: Reason | None = None) -> None:
        """Write the outcome of deliveries. Raises `StoreError`."""
        if not settled:
            return
        changed = [replace(each, state=state, at=self._clock(), why=why) for each in settled]
        await self._threads.write(self._threads.store.write, deliveries.settle, changed)
        if state.final:
            self._waiting.subtract((each.user, each.channel) for each in changed)

    async def latest(self, user: str) -> dict[Channel, Delivery]:
        """Return the latest delivery of a person through each channel that was tried. Raises `StoreError`."""
        return await self._threads.read(deliveries.latest, user, self.settings.channels)

    def count_waiting(self, user: str, channel: Channel) -> int:
        """Return the number of a person's waiting deliveries through a channel."""
        return self._waiting[user, channel]


def leads_of(transaction: Transaction, projects: Iterable[str]) -> set[str]:
    """Return who leads at least one of these projects itself."""
    groups = (transaction.hub_groups.get(name) for name in projects)
    return {user for group in groups if group is not None for user in group.leads}
