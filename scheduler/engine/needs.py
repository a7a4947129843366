"""Needs of administrators: found at intervals, announced once, passed on to owners, left for a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from springtide.scheduler import wire
from springtide.scheduler.engine.idle import IdleWorkspaces
from springtide.scheduler.engine.requests import fitting
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.usage import GpuUsage
from springtide.scheduler.engine.views import needs_view
from springtide.scheduler.engine.views.needs_view import Backup, Facts
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.settings import DAY
from springtide.scheduler.store import StoreError, deliveries
from springtide.scheduler.store.tables import IdleWhileWaiting, NeedRecord
from springtide.scheduler.wire import Need
from springtide.scheduler.wording import given

logger = logging.getLogger(__name__)

LOOK_EVERY: Final = 60.0
"""Interval of looks, in seconds."""
IDLE_FOR: Final = 3_600.0
"""Time without use from which held GPUs need attention, in seconds."""
GONE_FOR: Final = 3_600.0
"""Time after which an entry that is seen no more is forgotten, in seconds."""
TOLD_FOR: Final = DAY
"""Time for which an entry is left once its owner was notified, in seconds."""
KEEP_DAYS: Final = 400
"""Number of days of which idle GPUs are kept."""
OWN_CAUSES: Final = frozenset({"delivery-no-address", "delivery-address-removed", "delivery-not-allowed"})
"""Reasons why a message did not arrive that are those of one person, not of a channel."""

Change = Callable[[Callable[[Transaction], Any]], Awaitable[Any]]


class Needs:
    """What needs administrators of a running pool.

    ``backup`` returns when the state was saved last, None unless that is watched; ``backup_after`` is in seconds.
    """

    def __init__(
        self,
        read_model: ReadModel,
        usage: GpuUsage,
        idle: IdleWorkspaces,
        store: StoreThreads,
        *,
        request: Change,
        clock: Callable[[], float],
        settings: EngineSettings,
        backup: Callable[[], Backup | None],
        backup_after: float,
    ) -> None:
        self._read_model = read_model
        self._usage = usage
        self._idle = idle
        self._store = store
        self._request = request
        self._clock = clock
        self._settings = settings
        self._backup = backup
        self._backup_after = backup_after
        self._looked: float | None = None

    # ---------- looks

    async def run(self) -> None:
        """Look at intervals, until cancelled."""
        while True:
            try:
                await self.look()
            except (StoreError, Refusal) as error:
                logger.info("What needs administrators was not recorded: %s", error)
            except Exception:
                logger.exception("What needs administrators was not recorded.")
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Record new and ended entries, which announces the new ones, and the GPUs that are idle meanwhile."""
        state, now = self._read_model.state, self._clock()
        found = await self._found()
        seconds = 0.0 if self._looked is None else max(0.0, min(now - self._looked, 2 * LOOK_EVERY))
        self._looked = now
        idle = needs_view.idle_while_waiting(self._read_model.pool()) if seconds else {}
        changes = changed(state.needs, found, now)
        days = idle_days(state.idle_while_waiting, idle, seconds, now)
        if changes or days:

            def follow(transaction: Transaction) -> None:
                for key, record in changes.items():
                    if record is None:
                        transaction.needs.remove(key)
                    else:
                        transaction.needs.put(record)
                for day, of in days.items():
                    if of is None:
                        transaction.idle_while_waiting.remove(day)
                    else:
                        transaction.idle_while_waiting.put(of)

            await self._request(follow)

    async def listed(self) -> wire.NeedList:
        """Return what needs administrators now."""
        return needs_view.listed(await self._found(), self._clock())

    async def _found(self) -> list[Need]:
        model, now = self._read_model, self._clock()
        state = model.state
        channels: Mapping[str, Any] = {}
        with suppress(StoreError):
            channels = await self._store.read(deliveries.failing, now - DAY, OWN_CAUSES)
        members = {group.project: group.members for group in state.hub_groups.values()}
        facts = Facts(
            pool=model.pool(),
            trouble=self._store.known_trouble,
            unrecorded=self._usage.unrecorded,
            backup=await asyncio.to_thread(self._backup),
            backup_after=self._backup_after,
            channels=channels,
            idle_jobs=self._usage.unused(IDLE_FOR),
            idle_workspaces=self._idle.unused(IDLE_FOR, members),
        )
        return needs_view.found(state, model.nodes, facts, self._settings, now)

    # ---------- actions of administrators

    async def leave(self, need: str, days: float, by: str) -> None:
        """Leave an entry as it is for a number of days. Raises `Refusal` 404 for one that is not there."""
        found, until = await self._one(need), self._clock() + days * DAY
        await self._put(found, by, "need.leave", {"until": until}, left_until=until, left_by=by)

    async def take_back(self, need: str, by: str) -> None:
        """Show an entry again that was left as it is. Raises `Refusal` 404 for one that is not there."""
        found = await self._one(need)
        if found.left_until is not None:
            await self._put(found, by, "need.show", {}, left_until=None, left_by="")

    async def tell(self, need: str, by: str) -> None:
        """Notify the owner of unused GPUs, and leave the entry as it is for a day.

        Raises `Refusal`: 404 for an entry that is not there, 422 for one without an owner.
        """
        found, now = await self._one(need), self._clock()
        if not any(action.name == "tell" for action in found.actions):
            message = f"No one is notified of {given(found.object)}: it has no owner."
            raise Refusal(422, "invalid", message, field="id", hint="Jobs and workspaces have owners.")
        until = {"left_until": now + TOLD_FOR, "left_by": by}
        await self._put(found, by, "need.tell", {"user": found.user}, told=now, told_by=by, **until)

    async def fit(self, gpu_type: str, by: str) -> int:
        """Scale the quotas of a type until they fit into the pool; return how many projects have others now.

        Raises `Refusal` for an unknown type, and if they fit already.
        """
        changed_projects: int = await self._request(
            lambda transaction: fitting.fit_quotas(transaction, gpu_type, by)
        )
        return changed_projects

    async def _one(self, need: str) -> Need:
        found = next((each for each in await self._found() if each.id == need), None)
        if found is None:
            message = f"Nothing with the id {given(need)} needs an administrator now."
            raise Refusal(404, "not_found", message, field="id", hint="It may be done: look at the list again.")
        return found

    async def _put(self, found: Need, by: str, what: str, after: Mapping[str, Any], **fields: Any) -> None:
        def put(transaction: Transaction) -> None:
            known = transaction.needs.get(found.id)
            transaction.needs.put(replace(known or record_of(found), **fields))
            transaction.add_audit_entry(
                by, what, found.object or found.kind.value, {}, after, project=found.project
            )

        await self._request(put)


def record_of(need: Need) -> NeedRecord:
    """Return the record of an entry that was first seen since its time."""
    return NeedRecord(need.id, need.kind.value, need.since, need.said, need.user, need.job)


def changed(known: Mapping[str, NeedRecord], found: Sequence[Need], now: float) -> dict[str, NeedRecord | None]:
    """Return the records that differ once these entries are found, None for those that are forgotten."""
    changes: dict[str, NeedRecord | None] = {}
    for need in found:
        record = known.get(need.id)
        if record is None:
            changes[need.id] = record_of(need)
        elif record.gone is not None:
            changes[need.id] = replace(record, gone=None)
    present = {need.id for need in found}
    for key, record in known.items():
        if key in present:
            continue
        if record.gone is None:
            changes[key] = replace(record, gone=now)
        elif not record.gone <= now < record.gone + GONE_FOR:
            changes[key] = None
    return changes


def idle_days(
    known: Mapping[tuple[int, str], IdleWhileWaiting], idle: Mapping[str, int], seconds: float, now: float
) -> dict[tuple[int, str], IdleWhileWaiting | None]:
    """Return the days that differ once GPUs of types were idle for some seconds, None for those too long ago.

    A day of which nothing is known yet begins with 0, so that it differs from one that was not watched.
    """
    today = int(now // DAY * DAY)
    changes: dict[tuple[int, str], IdleWhileWaiting | None] = {}
    for gpu_type, gpus in idle.items():
        key = today, gpu_type
        before = known.get(key)
        if gpus or before is None:
            sum_before = 0.0 if before is None else before.gpu_seconds
            changes[key] = IdleWhileWaiting(*key, sum_before + gpus * seconds)
    for key in known:
        if key[0] < today - KEEP_DAYS * DAY:
            changes[key] = None
    return changes
