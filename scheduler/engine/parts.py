"""The parts of a running engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springtide.scheduler.engine.budgets import Budgets
from springtide.scheduler.engine.change_requests import ChangeRequests
from springtide.scheduler.engine.copies import Copies
from springtide.scheduler.engine.deletions import Deletions
from springtide.scheduler.engine.forecasts.accuracy import ForecastRecord
from springtide.scheduler.engine.forecasts.cache import ForecastCache
from springtide.scheduler.engine.forecasts.questions import Questions
from springtide.scheduler.engine.forecasts.run_history import RunHistory
from springtide.scheduler.engine.forks import ForkCalls
from springtide.scheduler.engine.home import Home
from springtide.scheduler.engine.idle import IdleWorkspaces
from springtide.scheduler.engine.job_times import JobTimes
from springtide.scheduler.engine.loop.actuator import Actuator
from springtide.scheduler.engine.loop.launch_stops import LaunchProbes
from springtide.scheduler.engine.loop.ledger_sums import LedgerSums
from springtide.scheduler.engine.loop.loop import Loop
from springtide.scheduler.engine.loop.mailbox import Mailbox
from springtide.scheduler.engine.loop.start_checks import StartChecks
from springtide.scheduler.engine.monthly_reports import MonthlyReports
from springtide.scheduler.engine.needs import Needs
from springtide.scheduler.engine.node_groups import NodeRequests
from springtide.scheduler.engine.notifications.outbox import Outbox
from springtide.scheduler.engine.past.calls import PastCalls
from springtide.scheduler.engine.placements.placements import Placements
from springtide.scheduler.engine.populations import Populations
from springtide.scheduler.engine.presets import Presets
from springtide.scheduler.engine.reports import Reports
from springtide.scheduler.engine.requests.control import IdempotencyLookup
from springtide.scheduler.engine.requests.launch_specs import LaunchSpecs
from springtide.scheduler.engine.requests.outputs import Outputs
from springtide.scheduler.engine.requests.sessions import JobSessions
from springtide.scheduler.engine.reruns import RerunCalls
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.journal import JournaledPlanner
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.sweeps.requests import SweepCalls
from springtide.scheduler.engine.tags import TagCalls
from springtide.scheduler.engine.usage import GpuUsage
from springtide.scheduler.engine.views.broadcast import Broadcast
from springtide.scheduler.engine.views.events import EventSource
from springtide.scheduler.engine.views.read_model import ReadModel
from springtide.scheduler.executors.base import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """The parts of a running engine; `open_engine` composes them."""

    settings: EngineSettings
    clock: Callable[[], float]
    new_id: Callable[[], str]
    stats: Stats
    job_times: JobTimes
    store: StoreThreads
    executor: Executor
    mailbox: Mailbox
    state: State
    nodes: ObservedNodes
    planner: JournaledPlanner
    read_model: ReadModel
    jobs: JobLookup
    keys: IdempotencyLookup
    sweeps: SweepCalls
    reruns: RerunCalls
    copies: Copies
    deletions: Deletions
    forks: ForkCalls
    tags: TagCalls
    launch_specs: LaunchSpecs
    run_history: RunHistory
    placements: Placements
    broadcast: Broadcast
    node_requests: NodeRequests
    forecasts: ForecastCache
    forecast_record: ForecastRecord
    questions: Questions
    outputs: Outputs
    sessions: JobSessions
    events: EventSource
    usage: GpuUsage
    reports: Reports
    monthly_reports: MonthlyReports
    needs: Needs
    home: Home
    past: PastCalls
    budgets: Budgets
    change_requests: ChangeRequests
    presets: Presets
    ledger_sums: LedgerSums
    outbox: Outbox
    idle_workspaces: IdleWorkspaces
    actuator: Actuator
    populations: Populations
    start_checks: StartChecks
    launch_probes: LaunchProbes
    loop: Loop
