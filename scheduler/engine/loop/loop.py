"""The engine's main task: wait for input, decide, commit, answer, act."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass

from springtide.scheduler.backoff import Backoff, Jitter
from springtide.scheduler.clock import Clock
from springtide.scheduler.engine.forecasts.run_history import RunHistory
from springtide.scheduler.engine.job_times import JobTimes
from springtide.scheduler.engine.loop.actuator import Actuator
from springtide.scheduler.engine.loop.inventory import InventoryReader
from springtide.scheduler.engine.loop.ledger_sums import LedgerSums
from springtide.scheduler.engine.loop.mailbox import (
    EngineObservation,
    Mailbox,
    NodesObserved,
    OwnershipLost,
    Request,
)
from springtide.scheduler.engine.loop.pace import Pace
from springtide.scheduler.engine.loop.tick import Tick, TickBuilder, TimeLimits
from springtide.scheduler.engine.notifications.outbox import Outbox
from springtide.scheduler.engine.populations import Populations
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.state import ledger, lifecycle
from springtide.scheduler.engine.state.endings import next_end
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.state.write_batch import write_batch
from springtide.scheduler.engine.store_threads import StoreThreads, store_refusal
from springtide.scheduler.engine.views.broadcast import Broadcast
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, InventoryChanged, Reported
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError, StoreMovedError, StoreTakenError, StoreUnsureError
from springtide.scheduler.store.records import EventRecord, JobRecord

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.5
"""Delay after a failed commit, in seconds; doubled after each further one."""
MAX_DELAY = 10.0
"""Maximum delay after a failed commit, in seconds."""
REPLAN_DELAY = 5.0
"""Delay after a plan that failed or did not settle, in seconds."""
CLOCK_CHECK_INTERVAL = 30.0
"""Maximum interval between two checks of whether the system clock was set, in seconds."""
MAX_ROUNDS = 100
"""Number of plans in a row that change something without new input, after which planning waits."""
MIN_SLEEP = 0.02
"""Minimum delay before a plan that asks to be made again, in seconds."""
FAILED = "The pool's service failed; its log says how. Jobs continue."
STOPPING = "The pool's service is stopping."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """The parts that the loop connects. ``jitter`` randomises the delays after failed commits."""

    settings: EngineSettings
    clock: Clock
    stats: Stats
    job_times: JobTimes
    store: StoreThreads
    mailbox: Mailbox
    ticks: TickBuilder
    inventory: InventoryReader
    actuator: Actuator
    read_model: ReadModel
    run_history: RunHistory
    broadcast: Broadcast
    outbox: Outbox
    populations: Populations
    ledger_sums: LedgerSums
    jitter: Jitter


class Loop:
    """Runs ticks until it is stopped, another service takes the store over, or it fails.

    ``failure`` says why it has stopped by itself, None otherwise.
    """

    def __init__(self, parts: LoopParts) -> None:
        self._parts = parts
        self._mailbox = parts.mailbox
        self._clock = parts.clock.wall
        self._state = parts.ticks.state
        self._limits = TimeLimits()
        self._wake_at: float | None = None
        self._replan = True
        self._rounds = 0
        self._backoff = Backoff(FIRST_DELAY, MAX_DELAY, jitter=parts.jitter)
        self._delay = 0.0
        self._pace = Pace(asyncio.get_running_loop().time)
        self._asleep = False
        self._stopping = False
        self._ended = False
        self._rested = asyncio.Event()
        self.failure: str | None = None
        parts.store.when_moved = self._store_moved
        for job in self._state.jobs.values():
            self._limits.watch(job.id, job)

    # ---------- the task

    async def run(self) -> None:
        """Run ticks until stopped."""
        try:
            while not self._stopping:
                await self._sleep()
                await self._pace.rest(self._mailbox.urgent, self._until_due)
                if not self._stopping:
                    await self._tick()
        except Exception:
            logger.exception("The engine failed.")
            self.failure = FAILED
        finally:
            self._mailbox.close(self._closed())
            self._parts.inventory.stop()
            self._parts.broadcast.close()
            self._ended = True
            self._rested.set()

    async def commit_reports(self) -> None:
        """Commit the progress reports that are in memory only; once the task has ended."""
        ticks = self._parts.ticks
        transaction = Transaction(self._state, ticks.nodes, self._clock())
        for observation in self._mailbox.observations:
            if isinstance(observation, Reported) and (job := transaction.job(observation.key.job)) is not None:
                transaction.put_report(lifecycle.reported(job, observation))
        batch = write_batch(transaction)
        if batch and self.failure is None:
            try:
                await self._parts.store.write(self._parts.store.store.commit, batch)
            except StoreError as error:
                logger.warning("The latest progress reports were not written: %s", error)

    def stop(self) -> None:
        """End after the current tick."""
        self._stopping = True
        self._mailbox.wake()

    def _closed(self) -> Refusal:
        return Refusal(503, "stopping", self.failure or STOPPING, hint="Try again in a moment.")

    def _give_up(self, why: str) -> None:
        """Stop deciding, because another service decides."""
        logger.critical("%s", why)
        self.failure = why
        self.stop()

    @property
    def resting(self) -> bool:
        """Whether all input is decided and committed, and nothing is planned before time passes."""
        if self._ended:
            return True
        pending = self._replan or self._delay or self._mailbox.arrived.is_set() or not self._mailbox.empty
        return self._asleep and not pending and self._parts.inventory.idle

    async def rested(self) -> None:
        """Wait until `resting` is true."""
        while not self.resting:
            await self._rested.wait()

    async def _sleep(self) -> None:
        if self._replan and not self._delay:
            return
        self._asleep = True
        if self.resting:
            self._rested.set()
            self._rested.clear()
        try:
            await self._arrival(self._delay or self._until_due())
        finally:
            self._asleep = False

    async def _arrival(self, seconds: float | None) -> None:
        """Wait until something arrives, the system clock is set, or the time has passed."""
        running = asyncio.get_running_loop()
        until = math.inf if seconds is None else running.time() + seconds
        while not self._wakes() and running.time() < until:
            try:
                async with asyncio.timeout(min(CLOCK_CHECK_INTERVAL, until - running.time())):
                    await self._mailbox.arrived.wait()
            except TimeoutError:
                if self._clock_was_set():
                    return

    def _wakes(self) -> bool:
        """Return whether something calls for a tick; after a failed commit observations wait for the next try."""
        if self._delay and not self._mailbox.requests and not self._stopping:
            self._mailbox.arrived.clear()
        return self._mailbox.arrived.is_set()

    def _until_due(self) -> float | None:
        """Return the seconds until a plan, a time limit or an end is due, None if none is."""
        if self._replan:
            return 0.0
        due = (self._wake_at, self._limits.next_at(), next_end(self._state))
        times = [at for at in due if at is not None]
        return max(0.0, min(times) - self._clock()) if times else None

    # ---------- the system clock

    def _clock_was_set(self) -> bool:
        """Return whether the state's times refer to another setting of the clock, or another boot."""
        known, anchor = self._state.clock, self._parts.clock.anchor()
        return known is None or known.boot != anchor.boot or bool(known.step_to(anchor))

    async def _follow_clock(self) -> None:
        """Shift the times of unfinished jobs if the system clock was set. Raises `StoreError`."""
        if not self._clock_was_set():
            return
        tick = Tick(Transaction(self._state, self._parts.ticks.nodes, self._clock()))
        step = tick.transaction.shift_times(self._parts.clock.anchor())
        ledger.follow(tick.transaction)
        await self._commit(tick, [])
        self._apply_to_state(tick, [])
        if step:
            logger.warning("The system clock was set by %+.1f s; times of unfinished jobs follow it.", step)
        self._restart_planner()
        self._replan, self._wake_at = True, None

    # ---------- one tick

    async def _tick(self) -> None:
        requests, observations = self._mailbox.drain()
        try:
            await self._decide(requests, observations)
        except Exception:
            _refuse(requests, Refusal(503, "failed", FAILED, hint="Look at the job again before you repeat this."))
            raise

    async def _decide(self, requests: list[Request], observations: list[EngineObservation]) -> None:
        lost = next((item for item in observations if isinstance(item, OwnershipLost)), None)
        if lost is not None:
            self._give_up(f"Another service runs the attempts: {lost.detail}")
            _refuse(requests, self._closed())
            return
        try:
            await self._follow_clock()
            ended = await self._ended_jobs(observations)
        except StoreError as error:
            self._store_failed(error)
            _refuse(requests, store_refusal(error))
            self._retry_later(observations)
            return
        with self._pace:
            now = self._clock()
            self._rounds = 0 if requests or observations else self._rounds + 1
            tick = self._parts.ticks.collect(requests, observations, self._limits.take_due(now), now, ended=ended)
            self._parts.stats.ticks += 1
            if tick.read_inventory:
                self._parts.inventory.request()
            planned = self._plan(tick)
            self._rounds = 0 if tick.new_trials else self._rounds
            records = self._event_records(tick)
        try:
            if tick.transaction.must_commit:
                await self._commit(tick, records)
        except StoreError as error:
            self._commit_failed(tick, observations, error)
            return
        with self._pace:
            self._finish(tick, records, planned=planned)

    async def _ended_jobs(self, observations: list[EngineObservation]) -> dict[str, JobRecord]:
        """Return the ended jobs of which an attempt runs. Raises `StoreError`."""
        ids = {
            item.key.job
            for item in observations
            if isinstance(item, AttemptStatus)
            and item.phase is not AttemptPhase.GONE
            and item.key.job not in self._state.jobs
        }
        found = [await self._parts.read_model.jobs.look_up(job_id) for job_id in ids]
        return {job.id: job for job in found if job is not None}

    # ---------- planning

    def _plan(self, tick: Tick) -> bool:
        """Plan if something calls for it; return False if the planner failed, which then has to be restarted."""
        now = tick.transaction.now
        due = self._wake_at is not None and self._wake_at <= now
        try:
            self._parts.ticks.update_planner(tick)
            if self._replan or tick.replan or due:
                self._replan = False
                self._wake_at = None
                self._parts.ticks.plan(tick)
                if tick.wake_at is not None:
                    self._wake_at = max(tick.wake_at, now + MIN_SLEEP)
        except Exception:  # a defect in the planner must not prevent requests such as a cancellation
            logger.exception("Planning failed; it is tried again in %g s.", REPLAN_DELAY)
            self._wake_at = now + REPLAN_DELAY
            return False
        return True

    def _restart_planner(self) -> None:
        """Plan from the committed state again: something was planned that was not committed."""
        self._parts.ticks.restart(self._clock())

    # ---------- commit

    def _event_records(self, tick: Tick) -> list[EventRecord]:
        """Return the events to be written with the tick, and add its notifications and their deliveries to it.

        What the tick changes of held GPUs joins the ledger before: events show what ended attempts borrowed.
        """
        if not tick.transaction.must_commit:
            return []
        ledger.follow(tick.transaction)
        tick.notifications = self._parts.outbox.notifications(tick.transaction)
        records = self._parts.broadcast.event_records(tick.transaction, tick.notifications)
        tick.deliveries = self._parts.outbox.deliveries(tick.notifications, records)
        return records

    def _finish(self, tick: Tick, records: list[EventRecord], *, planned: bool) -> None:
        """Answer, act and publish, after the commit."""
        transaction = tick.transaction
        self._delay = 0.0
        self._backoff.reset()
        self._apply_to_state(tick, records)
        if not planned:
            self._restart_planner()
        self._replan = self._replan or tick.decided or self._parts.run_history.due
        if self._replan and self._rounds >= MAX_ROUNDS:
            logger.error("The plan did not settle in %d rounds; planning waits %g s.", MAX_ROUNDS, REPLAN_DELAY)
            self._replan, self._rounds, self._wake_at = False, 0, transaction.now + REPLAN_DELAY
        self._parts.outbox.committed(tick.deliveries)
        for reply in tick.replies:
            reply.give()
        for effect in transaction.effects:
            self._parts.actuator.enqueue(effect)
        self._parts.populations.follow(transaction.jobs.values())
        self._parts.broadcast.publish(
            transaction, records, reported=tick.reported, logs=tick.logs, nodes_changed=tick.nodes_changed
        )

    async def _commit(self, tick: Tick, records: list[EventRecord]) -> None:
        batch = write_batch(tick.transaction)
        batch.events, batch.deliveries = records, tick.deliveries
        if tick.decision is not None:
            batch.decisions.append(tick.decision)
        store, began = self._parts.store, time.perf_counter()
        try:
            await store.write(store.store.commit, batch)
        except StoreUnsureError as error:
            if not await self._is_committed(error):
                self._parts.stats.failed_commits += 1
                raise
        except StoreError:
            self._parts.stats.failed_commits += 1
            raise
        if batch.entries:
            self._parts.ledger_sums.due.set()
        self._parts.stats.commits += 1
        self._parts.stats.commit_seconds += time.perf_counter() - began

    async def _is_committed(self, error: StoreError) -> bool:
        """Return whether the last commit is on disk, once the store answers; requests are refused until then.

        Raises ``error`` when the engine is to stop before that, and `StoreTakenError`.
        """
        backoff = Backoff(FIRST_DELAY, MAX_DELAY, jitter=self._parts.jitter)
        store = self._parts.store
        while not self._stopping:
            try:
                return await store.write(store.store.is_committed)
            except StoreTakenError:
                raise
            except StoreError as failed:
                logger.warning("%s Nothing is decided until the store says whether it is on disk.", failed)
                self._mailbox.refuse(store_refusal(failed))
                await asyncio.sleep(backoff.next_delay())
        raise error

    def _apply_to_state(self, tick: Tick, records: list[EventRecord]) -> None:
        transaction, read_model = tick.transaction, self._parts.read_model
        changed = transaction.respecified
        expected_otherwise = [
            job for job in transaction.jobs.values() if job.id in changed or self._is_expected_otherwise(job)
        ]
        for job_id in (*changed, *(transaction.jobs if transaction.renamed else ())):
            self._parts.run_history.forget(self._state.jobs.get(job_id))
        for job in transaction.jobs.values():
            before = self._state.jobs.get(job.id)
            self._parts.job_times.follow(before, job)
            if before is not None and before.standing.reserved and job.standing.attempt > before.standing.attempt:
                self._mailbox.awaited.add(AttemptKey(job.id, job.standing.attempt))
        transaction.apply_to_state()
        if transaction.renamed:
            read_model.jobs.forget_ended()
        for job in expected_otherwise:
            self._parts.run_history.expect(job)
        for job in transaction.jobs.values():
            if job.state.final:
                read_model.jobs.remember_ended(job)
                self._parts.run_history.learn(job)
            if transaction.must_commit:
                self._limits.watch(job.id, self._state.jobs.get(job.id))
        for job in transaction.marked.values():
            read_model.jobs.remember_ended(job)
        read_model.jobs.forget(transaction.deleted_ids)
        self._state.last_event += len(records)
        if tick.decision is not None:
            self._state.last_decision = tick.decision.id
        if transaction.must_commit or tick.nodes_changed:
            read_model.invalidate()

    def _is_expected_otherwise(self, job: JobRecord) -> bool:
        """Return whether an unfinished job is new, another person's, or expected to run for another time."""
        before = self._state.jobs.get(job.id)
        known = None if before is None else (before.spec.user, before.standing.usual_runtime)
        return known != (job.spec.user, job.standing.usual_runtime) and not job.state.final

    def _commit_failed(self, tick: Tick, observations: list[EngineObservation], error: StoreError) -> None:
        """Refuse all requests of the tick, which was not written, and keep its observations for the next one.

        Those of nodes are taken in already, and need no store unless the pool's GPU types or numbers follow them.
        """
        self._store_failed(error)
        refusal = store_refusal(error)
        for reply in tick.replies:
            reply.give_error(refusal)
        for job_id in tick.due:
            self._limits.watch(job_id, self._state.jobs.get(job_id))
        self._restart_planner()
        self._parts.read_model.invalidate()
        kept: list[EngineObservation] = [
            item for item in observations if not isinstance(item, InventoryChanged | NodesObserved)
        ]
        if tick.transaction.new_types is not None or tick.transaction.pool_facts.changes:
            kept.append(NodesObserved(self._parts.ticks.nodes.all))
        self._retry_later(kept)

    def _store_failed(self, error: StoreError) -> None:
        """Log that a tick could not be committed; stop if another service has taken the store over."""
        if isinstance(error, StoreTakenError):
            self._give_up(str(error))
        else:
            logger.error("%s Nothing of this tick was committed; running jobs continue.", error)

    def _store_moved(self, error: StoreMovedError) -> None:
        """Stop if all that was committed is in the store's own files, which a new start opens again."""
        if error.log_only and error.saved and not self._stopping:
            self._give_up(str(error))

    def _retry_later(self, observations: list[EngineObservation]) -> None:
        self._mailbox.put_back(observations)
        self._replan = True
        self._delay = self._backoff.next_delay()


def _refuse(requests: list[Request], refusal: Refusal) -> None:
    for request in requests:
        if not request.future.done():
            request.future.set_exception(refusal)
