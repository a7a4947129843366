"""Settings of the engine, and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springtide.scheduler import model
from springtide.scheduler.datasets.dataset import Dataset
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.notifications import NotificationSettings
from springtide.scheduler.store.records import IdleRule, RuleKey
from springtide.scheduler.telemetry.faults import FaultRules
from springtide.scheduler.wire import ImageContents

DAY = 86_400.0
MIB = 1024 * 1024


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
    """Whether idle workspaces may be stopped, and the rules that hold where no admin has set others."""

    stops: bool = False
    rules: Mapping[RuleKey, IdleRule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of planner (``policy``), GPU types, retries, notifications, faults, and bounds of what is kept.

    ``images`` are patterns of the images that jobs may run in, the default first; None where jobs run without one.
    ``image_contents`` is what is declared of images, by patterns. ``datasets`` are those declared, by name.
    ``jobs_without_gpus`` is how many jobs without GPUs run at a time in a project that has no number of its own.
    ``explore_placements`` lets jobs try placements that are rarely known.
    ``max_…_bytes…`` are in bytes; ``max_grace``, ``test_run_time``, after which a test run
    has passed, ``prune_every``, and how long jobs, their files and audit entries
    are kept, in seconds; the others are numbers of jobs, files, events and decisions. ``keep_files`` counts from
    the end of a job, which can be run again as long as its files are kept.
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
    max_unfinished: int = 10_000
    max_unfinished_per_user: int = 1_000
    max_kept_bytes_per_user: int = 1024 * MIB
    max_kept_bytes_per_project: int = 4096 * MIB
    max_ended_bytes_per_user: int = 256 * MIB
    max_files: int = 2_000
    max_files_bytes: int = 64 * MIB
    max_env_bytes: int = 256 * 1024
    max_argv_bytes: int = 256 * 1024
    max_output_bytes: int = 1024 * 1024 * MIB
    max_grace: float = 3_600.0
    test_run_time: float = 120.0
    jobs_without_gpus: int = 4
    explore_placements: bool = False
    keep_jobs: float = 90 * DAY
    keep_files: float = 7 * DAY
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
