"""What an admin may choose about the engine, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from springtide.scheduler import model

DAY = 86_400.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a job waits before its next attempt, in seconds: ``first`` after the first failure, twice as long
    after each further one, at most ``longest``. After ``fruitless_limit`` attempts in a row that asked to be run
    again without having got anywhere, the job has failed.
    """

    first: float = 2.0
    longest: float = 300.0
    fruitless_limit: int = 20

    def wait(self, times: int) -> float:
        """Seconds to wait after something went wrong ``times`` times in a row."""
        return 0.0 if times <= 0 else min(self.longest, self.first * 2.0 ** min(times - 1, 32))


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """``policy`` is the planner's. ``images`` are patterns of the images a job may run in, the default first; None
    where jobs run without one. The rest bounds what may be asked for and kept, in bytes and seconds.
    """

    policy: model.Settings = field(default_factory=model.Settings)
    retries: Retries = field(default_factory=Retries)
    images: tuple[str, ...] | None = None
    max_unfinished: int = 10_000
    max_unfinished_per_user: int = 1_000
    max_files: int = 2_000
    max_files_bytes: int = 64 * MIB
    max_env_bytes: int = 256 * 1024
    max_argv_bytes: int = 256 * 1024
    max_output_bytes: int = 256 * MIB
    max_grace: float = 3_600.0
    keep_jobs: float = 90 * DAY
    keep_audit: float = 730 * DAY
    keep_events: int = 20_000
    keep_decisions: int = 5_000
    prune_every: float = 3_600.0


@dataclass(slots=True)
class Stats:
    """What the engine counts since it started. Seconds are sums; divide by the counter beside them."""

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
    """From the decision to the report that processes run."""
    pauses: int = 0
    pause_seconds: float = 0.0
    """From the decision to the report that all is gone."""
    reclaims: int = 0
    ended: dict[str, int] = field(default_factory=lambda: {"succeeded": 0, "failed": 0, "cancelled": 0})
    lost_attempts: int = 0
    act_errors: int = 0
    breaches: int = 0
    quarantined: int = 0
    subscribers: int = 0
