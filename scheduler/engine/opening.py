"""Construction of a running engine from a store and an executor."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.backoff import Jitter, equal_jitter
from springtide.scheduler.clock import Clock
from springtide.scheduler.engine.budgets import Budgets
from springtide.scheduler.engine.change_requests import ChangeRequests
from springtide.scheduler.engine.copies import Copies
from springtide.scheduler.engine.deletions import Deletions
from springtide.scheduler.engine.engine import Engine
from springtide.scheduler.engine.forecasts.accuracy import ForecastRecord
from springtide.scheduler.engine.forecasts.cache import ForecastCache
from springtide.scheduler.engine.forecasts.questions import Questions
from springtide.scheduler.engine.forecasts.run_history import RunHistory
from springtide.scheduler.engine.forks import ForkCalls
from springtide.scheduler.engine.gpu_faults import GpuFaults
from springtide.scheduler.engine.home import Home
from springtide.scheduler.engine.idle import IdleWorkspaces
from springtide.scheduler.engine.job_times import JobTimes
from springtide.scheduler.engine.loop import reconcile
from springtide.scheduler.engine.loop.actuator import Actuator
from springtide.scheduler.engine.loop.inventory import InventoryReader
from springtide.scheduler.engine.loop.launch_stops import LaunchProbes
from springtide.scheduler.engine.loop.ledger_sums import LedgerSums
from springtide.scheduler.engine.loop.loop import Loop, LoopParts
from springtide.scheduler.engine.loop.mailbox import Mailbox
from springtide.scheduler.engine.loop.pruning import Pruner
from springtide.scheduler.engine.loop.reconcile import match_gpus
from springtide.scheduler.engine.loop.start_checks import StartChecks
from springtide.scheduler.engine.loop.tick import TickBuilder
from springtide.scheduler.engine.monthly_reports import MonthlyReports
from springtide.scheduler.engine.needs import Needs
from springtide.scheduler.engine.node_groups import NodeRequests
from springtide.scheduler.engine.notifications.outbox import Outbox
from springtide.scheduler.engine.parts import EngineParts
from springtide.scheduler.engine.past.calls import PastCalls
from springtide.scheduler.engine.placements.placements import Placements
from springtide.scheduler.engine.placements.slow import NodeSpeeds
from springtide.scheduler.engine.populations import Populations
from springtide.scheduler.engine.presets import Presets
from springtide.scheduler.engine.reports import Reports
from springtide.scheduler.engine.requests import project_admin
from springtide.scheduler.engine.requests.control import IdempotencyLookup
from springtide.scheduler.engine.requests.drains import drain_slow
from springtide.scheduler.engine.requests.launch_specs import LaunchSpecs
from springtide.scheduler.engine.requests.outputs import Outputs
from springtide.scheduler.engine.requests.sessions import JobSessions
from springtide.scheduler.engine.reruns import RerunCalls
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.state import ledger
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.journal import JournaledPlanner, MakePlanner
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.state.write_batch import write_batch
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.sweeps.requests import SweepCalls
from springtide.scheduler.engine.tags import TagCalls
from springtide.scheduler.engine.usage import GpuUsage
from springtide.scheduler.engine.views.broadcast import Broadcast
from springtide.scheduler.engine.views.diagnoses import Diagnoses
from springtide.scheduler.engine.views.events import EventHub, EventSource
from springtide.scheduler.engine.views.needs_view import Backup
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.executors.base import AttemptKey, AttemptStatus, Executor
from springtide.scheduler.model import FINAL
from springtide.scheduler.policy.planner import Planner
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError
from springtide.scheduler.store.ledger import HOUR
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import JobQuery, JobRecord
from springtide.scheduler.store.tables import WorkspaceKey
from springtide.scheduler.time_zones import pool_zone
from springtide.scheduler.wire.wrong_values import wrong
from springtide.scheduler.wording import given

logger = logging.getLogger(__name__)

BY = "configuration"
"""Author of the projects in the audit trail."""


ENDED = frozenset(state.value for state in FINAL)
ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"


class ConfigurationError(Exception):
    """The configured projects are invalid; the message names project, field and the expected value."""


def create_configured_projects(transaction: Transaction, projects: Mapping[str, Mapping[str, Any]]) -> None:
    """Create the configured projects, parents first. Raises `ConfigurationError`.

    ``projects`` maps names to fields of `wire.ProjectEdit`. The store is no longer fresh afterwards, even without
    projects.
    """
    transaction.next_project_age = transaction.state.next_project_age
    transaction.require_commit()
    remaining = dict(projects)
    while remaining:
        ready = [name for name, fields in remaining.items() if fields.get("parent") not in remaining]
        if not ready:
            raise ConfigurationError(f"The projects {', '.join(sorted(remaining))} are in each other in a circle.")
        for name in ready:
            _create(transaction, name, remaining.pop(name))


def _create(transaction: Transaction, name: str, fields: Mapping[str, Any]) -> None:
    try:
        project_admin.create_project(transaction, name, _edit_of(dict(fields)), BY, {})
    except Refusal as refusal:
        raise ConfigurationError(
            f"The configured project {given(name)}: {refusal.message} {refusal.hint}".strip()
        ) from None


def _edit_of(fields: dict[str, Any]) -> wire.ProjectEdit:
    try:
        return msgspec.convert(fields, wire.ProjectEdit)
    except msgspec.ValidationError as error:
        raise wrong(str(error), wire.ProjectEdit, fields) from None


def new_job_id() -> str:
    """Return a random job id of 12 letters and digits, valid in names of hosts and directories."""
    return "".join(ID_CHARACTERS[byte % len(ID_CHARACTERS)] for byte in secrets.token_bytes(12))


async def open_engine(
    store: Store,
    executor: Executor,
    settings: EngineSettings | None = None,
    *,
    projects: Mapping[str, Mapping[str, Any]] | None = None,
    clock: Clock | None = None,
    new_id: Callable[[], str] = new_job_id,
    planner: MakePlanner = Planner,
    jitter: Jitter = equal_jitter,
    backup: Callable[[], Backup | None] = lambda: None,
) -> Engine:
    """Load the state, start the executor, settle every open intent, and return the running engine.

    ``projects`` maps names to fields of `wire.ProjectEdit`; a fresh store begins with them. ``clock``
    is the machine's unless given; ``jitter`` randomises the delays after failures. ``backup`` returns when the
    state was saved last, None unless that is watched. Close the engine with `Engine.stop`; the store stays open.

    Raises `ConfigurationError`, `ExecutorError` or `StoreError`.
    """
    settings, clock = settings or EngineSettings(), clock or Clock()
    threads = StoreThreads(store)
    try:
        mailbox = Mailbox(clock)
        loaded = await threads.read(reading.load)
        state = State.from_store(loaded, settings.types, settings.gpu_hour_prices, settings.currency)
        await executor.start(mailbox.post)
        newest = await executor.newest_epoch()
        if loaded.fresh:
            _check_new(newest, store.url)
        if newest >= store.epoch:
            logger.warning("The store is a copy from before epoch %d: its epoch is raised above that.", newest)
            await threads.write(store.raise_epoch, newest)
        nodes = ObservedNodes(
            await executor.inventory(state.workspace_places()), groups=await executor.node_groups()
        )
        statuses = await _attempts(executor, state)
        await _follow_inventory(state, nodes, statuses, threads, clock.wall())
        if loaded.fresh:
            await _create_projects(state, nodes, threads, projects or {}, clock.wall())
        await executor.take_over(store.epoch)  # a crash before this leaves a new store that is known to be new
        await executor.follow_users(state.names_by_identity())
        snapshot = state.snapshot(nodes, clock.wall(), settings.policy)
        parts = _compose(
            state=state,
            nodes=nodes,
            planner=JournaledPlanner(planner, snapshot, store.epoch, state.last_decision),
            store=threads,
            executor=executor,
            settings=settings,
            mailbox=mailbox,
            clock=clock,
            new_id=new_id,
            jitter=jitter,
            backup=backup,
        )
        _settle_intents(parts, statuses)
        await parts.outbox.load()
        return _run(parts)
    except BaseException:
        await executor.stop()
        threads.shutdown()
        raise


def _check_new(newest: int, store: str) -> None:
    """Raise `StoreError` if the store is empty although a pool has run here, up to the epoch ``newest``."""
    if newest:
        raise StoreError(
            f"The store {store} is empty, but this state directory is that of a pool: its store was removed, or "
            "is somewhere else. Put it back: the file beside it whose name ends in .rescued-N, if there is one, "
            "or a backup (springtide restore). To begin with an empty pool all the same, remove jobs/.epoch "
            "in the state directory; attempts that still run keep their GPUs until they end."
        )


async def _follow_inventory(
    state: State, nodes: ObservedNodes, statuses: Sequence[AttemptStatus], threads: StoreThreads, now: float
) -> None:
    """Add the nodes' GPU types, and the present places of the held GPUs, which ``statuses`` report.

    The ledger follows the holdings and the facts of the pool, such as prices, which may differ from before.
    """
    transaction = Transaction(state, nodes, now)
    transaction.follow_types()
    match_gpus(transaction, {each.key: each.placement for each in statuses})
    ledger.follow_all(transaction)
    ledger.follow(transaction)
    if transaction.must_commit:
        await threads.write(threads.store.commit, write_batch(transaction))
        transaction.apply_to_state()


async def _attempts(executor: Executor, state: State) -> list[AttemptStatus]:
    """Return what the executor follows, and the ends of attempts that a restored store takes to be live."""
    statuses = list(await executor.attempts())
    live = {AttemptKey(job.id, job.live.number) for job in state.jobs.values() if job.live is not None}
    for key in sorted(live - {status.key for status in statuses}):
        recalled = await executor.recall(key)
        if recalled is not None:
            statuses.append(recalled)
    return statuses


async def _create_projects(
    state: State,
    nodes: ObservedNodes,
    threads: StoreThreads,
    projects: Mapping[str, Mapping[str, Any]],
    now: float,
) -> None:
    transaction = Transaction(state, nodes, now)
    create_configured_projects(transaction, projects)
    ledger.follow(transaction)
    await threads.write(threads.store.commit, write_batch(transaction))
    transaction.apply_to_state()


def _compose(
    *,
    state: State,
    nodes: ObservedNodes,
    planner: JournaledPlanner,
    store: StoreThreads,
    executor: Executor,
    settings: EngineSettings,
    mailbox: Mailbox,
    clock: Clock,
    new_id: Callable[[], str],
    jitter: Jitter,
    backup: Callable[[], Backup | None],
) -> EngineParts:
    stats, job_times = Stats(), JobTimes()
    starts: dict[str, wire.Starts] = {}
    diagnoses = Diagnoses(planner)
    usage: dict[str, wire.JobUsage] = {}
    workspaces: dict[WorkspaceKey, float] = {}
    jobs = JobLookup(state, store)
    reruns = RerunCalls(store, jobs, settings)
    node_speeds = NodeSpeeds(settings.faults.slow_node_ratio if settings.faults.drain_faulty_gpus else None)
    placements = Placements(nodes, explores=settings.explore_placements, node_speeds=node_speeds)
    node_requests = NodeRequests(executor, state, nodes, planner, stats=stats, clock=clock.wall)
    read_model = ReadModel(
        state,
        nodes,
        planner,
        jobs,
        starts=starts,
        diagnoses=diagnoses,
        usage=usage,
        clock=clock.wall,
        jobs_without_gpus=settings.jobs_without_gpus,
        min_runtime=settings.policy.min_runtime,
        grace=settings.policy.grace,
        slow_placement=placements.slow,
        node_requests=node_requests,
        takes_sessions=executor.takes_sessions,
        store_trouble=lambda: store.known_trouble,
    )
    hub = EventHub()
    broadcast = Broadcast(read_model, hub, clock.wall)
    store.when_trouble_changes = broadcast.publish_waiting
    outbox = Outbox(state, store, settings.notifications, clock.wall, mailbox.request)
    run_history = RunHistory(state, placements, settings.policy.grace)
    launch_specs = LaunchSpecs(state, store, settings)
    actuator = Actuator(
        executor,
        launch_specs.make,
        mailbox.post,
        borrows=launch_specs.borrows,
        stats=stats,
        clock=clock.wall,
        jitter=jitter,
    )
    copies = Copies(executor, state, jobs)
    ledger_sums = LedgerSums(store, clock.wall)
    zone = pool_zone(settings.time_zone)
    reports = Reports(state, store, nodes, clock.wall, currency=settings.currency, zone=zone)
    populations = Populations(
        executor,
        state,
        store,
        launch_specs=launch_specs,
        request=mailbox.request,
        copies=copies,
        jitter=jitter,
    )
    checks = StartChecks(
        executor, launch_specs.preview, nodes.type_of, mailbox.post, asyncio.get_running_loop().time
    )

    def follow_what_is_learnt(transaction: Transaction) -> None:
        drain_slow(transaction, node_speeds)
        run_history.follow(transaction)

    loop = Loop(
        LoopParts(
            settings=settings,
            clock=clock,
            stats=stats,
            job_times=job_times,
            store=store,
            ledger_sums=ledger_sums,
            mailbox=mailbox,
            ticks=TickBuilder(
                state,
                nodes,
                planner,
                settings,
                stats,
                checks=checks,
                first=follow_what_is_learnt,
                accept=run_history.accept,
            ),
            inventory=InventoryReader(
                lambda: executor.inventory(state.workspace_places()), mailbox.post, jitter=jitter
            ),
            actuator=actuator,
            read_model=read_model,
            run_history=run_history,
            broadcast=broadcast,
            outbox=outbox,
            populations=populations,
            jitter=jitter,
        )
    )
    gpu_usage = GpuUsage(
        executor,
        store,
        read_model,
        broadcast,
        faults=GpuFaults(settings.faults, mailbox.request),
        jobs=usage,
        workspaces=workspaces,
        clock=clock.wall,
    )
    idle_workspaces = IdleWorkspaces(state, settings.idle, workspaces, clock.wall, mailbox.request)
    record = ForecastRecord(store, clock.wall)
    forecasts = ForecastCache(
        read_model, run_history, starts, diagnoses, clock.wall, publish=broadcast.publish_jobs, record=record
    )
    return EngineParts(
        settings=settings,
        clock=clock.wall,
        new_id=new_id,
        stats=stats,
        job_times=job_times,
        store=store,
        executor=executor,
        mailbox=mailbox,
        state=state,
        nodes=nodes,
        planner=planner,
        read_model=read_model,
        jobs=jobs,
        keys=IdempotencyLookup(lambda keys: store.read(reading.jobs_by_key, keys)),
        sweeps=SweepCalls(state, store, jobs, request=mailbox.request, row=read_model.trial_row),
        reruns=reruns,
        deletions=Deletions(executor, state, store, jobs, mailbox.request),
        copies=copies,
        forks=ForkCalls(executor, jobs, launch_specs, reruns, request=mailbox.request, copies=copies),
        tags=TagCalls(jobs, mailbox.request),
        launch_specs=launch_specs,
        run_history=run_history,
        placements=placements,
        broadcast=broadcast,
        node_requests=node_requests,
        forecasts=forecasts,
        forecast_record=record,
        questions=Questions(
            state=state,
            nodes=nodes,
            settings=settings,
            planner=planner,
            forecasts=forecasts,
            placements=placements,
            line=read_model.line_without_gpus,
            waits=read_model.waiting_reason,
            clock=clock.wall,
        ),
        outputs=Outputs(executor, jobs, broadcast.wait_for_log, settings.max_output_bytes),
        sessions=JobSessions(executor, jobs, clock.wall),
        events=EventSource(
            hub,
            newest=lambda: state.last_event,
            read=lambda after, limit: store.read(reading.events, after, limit),
            first=broadcast.first_event,
            stats=stats,
        ),
        usage=gpu_usage,
        past=PastCalls(store, state, nodes, settings, clock.wall),
        reports=reports,
        monthly_reports=MonthlyReports(
            state,
            reports,
            mailbox.request,
            clock.wall,
            zone=zone,
            administrators=settings.notifications.fault_recipients,
        ),
        budgets=Budgets(
            state,
            store,
            mailbox.request,
            clock.wall,
            zone=zone,
            surplus=settings.policy.surplus,
        ),
        change_requests=ChangeRequests(state, nodes, mailbox.request, clock.wall, settings),
        presets=Presets(state, nodes, mailbox.request, settings),
        ledger_sums=ledger_sums,
        outbox=outbox,
        idle_workspaces=idle_workspaces,
        needs=Needs(
            read_model,
            gpu_usage,
            idle_workspaces,
            store,
            request=mailbox.request,
            clock=clock.wall,
            settings=settings,
            backup=backup,
            backup_after=settings.backup_hours * HOUR,
        ),
        home=Home(read_model, gpu_usage, store, clock.wall),
        actuator=actuator,
        populations=populations,
        start_checks=checks,
        launch_probes=LaunchProbes(executor, state, nodes, launch_specs.preview, mailbox.request, jitter=jitter),
        loop=loop,
    )


def _settle_intents(parts: EngineParts, statuses: Sequence[AttemptStatus]) -> None:
    observations, effects = reconcile.settle_intents(parts.state.jobs.values(), statuses, parts.clock())
    for observation in observations:
        parts.mailbox.post(observation)
    for effect in effects:
        parts.actuator.enqueue(effect)
    parts.populations.take_over(list(parts.state.jobs.values()))


def _run(parts: EngineParts) -> Engine:
    store = parts.store

    async def ended_jobs(limit: int) -> Sequence[JobRecord]:
        return await store.read(reading.jobs, JobQuery(states=ENDED, trials=True), None, limit)

    async def load_history() -> None:
        await parts.run_history.load(ended_jobs)
        parts.mailbox.wake()

    settle, deletions = parts.copies.settle, parts.deletions
    pruner = Pruner(store, parts.executor, parts.settings, parts.clock, settle=settle, deletions=deletions)
    running = asyncio.get_running_loop()
    return Engine(
        parts,
        loop_task=running.create_task(parts.loop.run(), name="engine"),
        background_tasks=(
            running.create_task(pruner.run(), name="pruner"),
            running.create_task(parts.ledger_sums.run(), name="sums of the ledger"),
            running.create_task(parts.budgets.run(), name="budgets"),
            running.create_task(parts.monthly_reports.run(), name="monthly reports"),
            running.create_task(load_history(), name="run history"),
            running.create_task(parts.usage.run(), name="use of GPUs"),
            running.create_task(parts.needs.run(), name="needs of administrators"),
            running.create_task(parts.launch_probes.run(), name="launch stops"),
            running.create_task(
                parts.node_requests.run(parts.broadcast.publish_jobs, parts.broadcast.publish_pool),
                name="requests for nodes",
            ),
        ),
    )
