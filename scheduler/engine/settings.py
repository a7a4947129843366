"""Settings of the engine, and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from springtide.scheduler import model
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.notifications import NotificationSettings
from springtide.scheduler.settings import DAY, MIB, MINUTE, setting
from springtide.scheduler.store.tables import IdleRule, RuleKey, RuleScope
from springtide.scheduler.telemetry.faults import FaultRules
from springtide.scheduler.wire import ImageContents


@dataclass(frozen=True, slots=True)
class Retries:
    """Delays of a job before its next attempt, in seconds.

    ``first`` after the first failure, twice as long after each further one, at most ``longest``. A job fails after
    ``fruitless_limit`` attempts in a row that asked to be run again without progress.
    """

    first: float = 2.0
    longest: float = 300.0
    fruitless_limit: int = 20

    def wait(self, times: int) -> float:
        """Return the delay after ``times`` failures in a row, in seconds."""
        return 0.0 if times <= 0 else min(self.longest, self.first * 2.0 ** min(times - 1, 32))


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """Whether idle workspaces may be stopped, and the rules that hold unless an admin has set others."""

    stop_idle_workspaces: bool = setting(
        False,
        "Whether workspaces whose GPUs are not used may be stopped, by the rules of the page of workspaces. "
        "The hub gives the service the scope delete:servers for it. Without it their owners are only notified.",
    )
    idle_tell_minutes: float = setting(
        0.0,
        "The time without use of its GPUs after which the owner of a workspace is notified, unless an admin "
        "has set another rule on the page of workspaces; 0: never.",
        unit="minutes",
        ge=0,
    )
    idle_notice_minutes: float = setting(
        0.0,
        "The time from that notification to the stop of the workspace, unless it is used or kept, or an admin "
        "has set another rule; 0: never.",
        unit="minutes",
        ge=0,
    )
    idle_exempt_projects: tuple[str, ...] = setting(
        (), "The projects whose members' workspaces are neither reported nor stopped."
    )
    idle_exempt_people: tuple[str, ...] = setting(
        (), "The people whose workspaces are neither reported nor stopped."
    )

    @property
    def rules(self) -> Mapping[RuleKey, IdleRule]:
        """Return the rule of the pool, and those of the exempt projects and people."""
        tell_after, notice = (
            minutes * MINUTE if minutes else None for minutes in (self.idle_tell_minutes, self.idle_notice_minutes)
        )
        exempt = [(RuleScope.PROJECT, name) for name in self.idle_exempt_projects]
        exempt += [(RuleScope.PERSON, name) for name in self.idle_exempt_people]
        pool = {(RuleScope.POOL, ""): IdleRule(tell_after, notice)}
        return {**pool, **dict.fromkeys(exempt, IdleRule())}


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the engine: those of admins, of its parts, derived ones, and fixed limits.

    ``images`` are patterns of the images that jobs may run in, the default first; None if jobs run without one.
    ``image_contents`` are the declared contents of images by pattern, ``datasets`` and ``secrets`` those that are
    declared, by name.
    ``max_…_bytes`` are in bytes, ``max_grace``, ``keep_audit`` and ``prune_every`` in seconds; the other limits
    are numbers of files, events and decisions.
    """

    policy: model.Settings = field(default_factory=model.Settings)
    types: DeclaredTypes = DeclaredTypes()  # noqa: RUF009 - frozen
    retries: Retries = field(default_factory=Retries)
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    faults: FaultRules = field(default_factory=FaultRules)
    idle: IdleSettings = field(default_factory=IdleSettings)
    images: tuple[str, ...] | None = None
    image_contents: Mapping[str, ImageContents] = field(default_factory=dict)
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    secrets: Mapping[str, NamedSecret] = field(default_factory=dict)
    queue_cap: int = setting(
        10_000, "Maximum number of unfinished jobs of the pool, running ones too; more are refused.", ge=1
    )
    queue_cap_per_user: int = setting(
        1_000, "Maximum number of unfinished jobs of one person, running ones too; more are refused.", ge=1
    )
    job_depth: int = setting(
        5,
        "How deep jobs may submit jobs: 1 lets a job of a person submit jobs, 2 those as well, and so forth; 0 "
        "refuses all submissions from jobs.",
        ge=0,
        le=20,
    )
    kept_bytes_per_user: int = setting(
        1024 * MIB, "Maximum size of the files sent with one person's unfinished jobs.", unit="bytes", ge=MIB
    )
    kept_bytes_per_project: int = setting(
        4096 * MIB, "Maximum size of the files sent with one project's unfinished jobs.", unit="bytes", ge=MIB
    )
    ended_bytes_per_user: int = setting(
        256 * MIB, "Maximum size of the files of one person's ended jobs; the oldest go first.", unit="bytes", ge=0
    )
    keep_days: float = setting(
        90.0, "The time after which ended jobs are forgotten, with logs and outputs.", unit="days", ge=0.01
    )
    keep_files_days: float = setting(
        7.0,
        "The time for which files sent with a job are kept after its end, so that it can be run again.",
        unit="days",
        ge=0,
    )
    keep_ledger_days: float = setting(
        400.0,
        "The time for which the ledger keeps who held which GPUs of which nodes when. Its sums by hour, day and "
        "month, from which reports are made, are kept for good.",
        unit="days",
        ge=1,
    )
    gpu_hour_prices: Mapping[str, Annotated[float, Meta(ge=0)]] = setting(
        {},
        "The price of a GPU-hour by GPU type, such as {'t4': 0.4, 'a100': 2.5}, in the `currency`, for the costs "
        "in reports and for budgets. A new price counts from the restart with it on.",
    )
    currency: str = setting(
        "", "The currency of the prices, such as € or USD, as reports and budgets show it beside each amount."
    )
    time_zone: str = setting(
        "UTC",
        "The time zone in which the months of budgets begin: a name such as Europe/Berlin. Days and months of "
        "reports are those of UTC.",
    )
    backup_hours: float = setting(
        24.0,
        "The age of the latest backup by `springtide backup` from which the home page and a notification warn "
        "administrators; 0: never, for pools that are saved in another way.",
        unit="hours",
        ge=0,
    )
    test_run_time: float = setting(
        120.0, "A test run that has run for this time without a failure has passed.", unit="seconds", ge=1
    )
    jobs_without_gpus: int = setting(
        4,
        "Number of jobs without GPUs that run at a time in a project that has no number of its own; 0: none.",
        ge=0,
    )
    noted_variables: tuple[str, ...] = setting(
        (),
        "Environment variables of your programs, by name or beginning such as LAB_*. If they are set where a job "
        "is submitted and not sent with it, the submission says so, as for those of well-known tools.",
    )
    explore_placements: bool = setting(
        False,
        "Whether a job prefers, among free GPUs, a placement that its earlier runs had once or twice, until "
        "three runs show how fast it is.",
    )
    max_files: int = 2_000
    max_files_bytes: int = 64 * MIB
    max_env_bytes: int = 256 * 1024
    max_argv_bytes: int = 256 * 1024
    max_output_bytes: int = 1024 * 1024 * MIB
    max_grace: float = 3_600.0
    keep_audit: float = 730 * DAY
    keep_events: int = 20_000
    keep_decisions: int = 5_000
    prune_every: float = 3_600.0


@dataclass(slots=True)
class Stats:
    """Counters since the engine was opened. Seconds are sums; the mean needs the counter before them."""

    ticks: int = 0
    plans: int = 0
    plan_seconds: float = 0.0
    commits: int = 0
    commit_seconds: float = 0.0
    failed_commits: int = 0
    submits: int = 0
    refused: int = 0
    starts: int = 0
    start_seconds: float = 0.0
    """From the decisions to the reports that processes run."""
    pauses: int = 0
    pause_seconds: float = 0.0
    """From the decisions to the reports that all processes are gone."""
    reclaims: int = 0
    ended: dict[str, int] = field(default_factory=lambda: {"succeeded": 0, "failed": 0, "cancelled": 0})
    lost_attempts: int = 0
    blocked_attempts: int = 0
    act_errors: int = 0
    breaches: int = 0
    quarantined: int = 0
    subscribers: int = 0
