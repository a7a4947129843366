"""The tables of the newest schema version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from springtide.scheduler.gpu_reading import METRICS

_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""Type of the numbers of rows; in SQLite that of the row's own number, which takes no room beside it."""
MOST_INTEGER: Final = (1 << 31) - 1
"""Highest value of a column of 32 bits."""

metadata = MetaData()

meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", BigInteger, nullable=False)
)

gpu_types = Table(
    "gpu_types",
    metadata,
    Column("environment", String(16), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("position", Integer, nullable=False),
)

bundles = Table(
    "bundles",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=True),
)

trees = Table(
    "trees",
    metadata,
    Column("user", String(255), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("at", Double, nullable=False),
)
Index("ix_trees_digest", trees.c.digest)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("seq", BigInteger, nullable=False, unique=True),
    Column("user", String(255), nullable=False),
    Column("project", String(64), nullable=False),
    Column("key", String(128), nullable=True),
    Column("bundle", String(64), nullable=True),
    Column("tree", String(64), nullable=True),
    Column("state", String(16), nullable=False),
    Column("ended", Double, nullable=True),
    Column("spec", Text, nullable=False),
    Column("standing", Text, nullable=False),
    Column("name", String(128), nullable=False, server_default=""),
    Column("gpus", Integer, nullable=False, server_default="0"),
    Column("submitted", Double, nullable=False, server_default="0"),
    Column("tags", Text, nullable=False, server_default=""),
    Column("sweep", String(64), nullable=True),
    Column("trial", Integer, nullable=True),
    Column("value", Double, nullable=True),
    Column("pruned", Boolean, nullable=False, server_default=false()),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    Column("archived", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("user", "key", name="uq_jobs_user_key"),
)
_JOBS: Any = {f"{database}_where": jobs.c.sweep.is_(None) for database in ("sqlite", "postgresql")}
_TRIALS: Any = {f"{database}_where": jobs.c.sweep.is_not(None) for database in ("sqlite", "postgresql")}
"""Indexes of lists have no trials, which are in none; that of trials has no other jobs."""

Index("ix_jobs_ended", jobs.c.ended)
Index("ix_jobs_project_seq", jobs.c.project, jobs.c.seq)
Index("ix_jobs_user_seq", jobs.c.user, jobs.c.seq)
Index("ix_jobs_bundle", jobs.c.bundle, jobs.c.ended, jobs.c.user)
Index("ix_jobs_tree", jobs.c.tree, jobs.c.ended, jobs.c.user)
Index(
    "ix_jobs_list",
    jobs.c.user,
    jobs.c.project,
    jobs.c.state,
    jobs.c.name,
    jobs.c.gpus,
    jobs.c.submitted,
    jobs.c.seq,
    jobs.c.ended,
    jobs.c.id,
    jobs.c.sweep,
    jobs.c.tags,
    jobs.c.pinned,
    jobs.c.archived,
    **_JOBS,
)
Index("ix_jobs_newest", jobs.c.seq, **_JOBS)
Index("ix_jobs_trial", jobs.c.sweep, jobs.c.trial, unique=True, **_TRIALS)

sweep_parameters = Table(
    "sweep_parameters",
    metadata,
    Column("sweep", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job", String(64), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("project", String(64), nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("ended", Double, nullable=True),
    Column("body", Text, nullable=False),
)
Index("ix_attempts_ended", attempts.c.ended)

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("data", Text, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("event", BigInteger, primary_key=True, autoincrement=False),
    Column("channel", String(16), primary_key=True),
    Column("user", String(255), nullable=False),
    Column("state", String(16), nullable=False),
    Column("at", Double, nullable=False),
    Column("notification", Text, nullable=False),
    Column("why", Text, nullable=True),
)
Index("ix_deliveries_state", deliveries.c.state, deliveries.c.user)
Index("ix_deliveries_user", deliveries.c.user, deliveries.c.at)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("who", String(255), nullable=False),
    Column("what", String(64), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("undone", Boolean, nullable=False),
    Column("project", String(64), nullable=False, server_default=""),
    Column("other_project", String(64), nullable=False, server_default=""),
)
Index("ix_audit_project", audit.c.project, audit.c.id)


def _reading_columns() -> Iterator[Column[Any]]:
    """Yield a column for each value of a GPU's reading."""
    for name, metric in METRICS.items():
        if metric.most is None:
            yield Column(name, Double)
        else:
            yield Column(name, Integer if metric.most <= MOST_INTEGER else BigInteger)


gpu_usage = Table(
    "gpu_usage",
    metadata,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("gpu", String(128), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("job", String(64), primary_key=True),
    Column("user", String(255), primary_key=True),
    Column("server", String(255), primary_key=True),
    Column("project", String(64), primary_key=True),
    Column("simulated", Boolean, nullable=False),
    Column("seconds", Integer, nullable=False),
    Column("memory_peak", BigInteger),
    *_reading_columns(),
)
Index("ix_gpu_usage_job", gpu_usage.c.job, gpu_usage.c.step, gpu_usage.c.at)

ledger = Table(
    "ledger",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),
    Column("job", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("user", String(255), nullable=False),
    Column("server", String(255), nullable=False),
    Column("project", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("gpu_type", String(128), nullable=False),
    Column("nodes", Text, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("borrowed", Integer, nullable=False),
    Column("price", Double, nullable=True),
    Column("start", Double, nullable=False),
    Column("end", Double, nullable=False),
    Column("wait", Double, nullable=True),
    Column("ended", String(16), nullable=False),
    Column("lost", Double, nullable=False),
)
Index("ix_ledger_end", ledger.c.end)

ledger_facts = Table(
    "ledger_facts",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("project", String(64), nullable=False),
    Column("gpu_type", String(128), nullable=False),
    Column("value", Double, nullable=True),
    Column("start", Double, nullable=False),
    Column("end", Double, nullable=False),
)

ledger_groups = Table(
    "ledger_groups",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("project", String(64), nullable=False),
    Column("user", String(255), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("gpu_type", String(128), nullable=False),
)


def _sums() -> list[Column[Any]]:
    """Return the columns of sums, those of `springtide.scheduler.store.ledger.Sums`."""
    return [
        Column("held", Double, nullable=False),
        Column("borrowed", Double, nullable=False),
        Column("priced", Double, nullable=False),
        Column("cost", Double, nullable=False),
        Column("measured", Double, nullable=False),
        Column("used", Double, nullable=False),
        Column("idle", Double, nullable=False),
        Column("jobs", Integer, nullable=False),
        Column("pauses", Integer, nullable=False),
        Column("lost", Double, nullable=False),
    ]


ledger_sums = Table(
    "ledger_sums",
    metadata,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("group", Integer, primary_key=True, autoincrement=False),
    *_sums(),
    sqlite_with_rowid=False,
)

ledger_people = Table(
    "ledger_people",
    metadata,
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("group", Integer, primary_key=True, autoincrement=False),
    *_sums(),
    sqlite_with_rowid=False,
)
"""Sums by day of each person in each project, in place of which any group of theirs stands."""

ledger_waits = Table(
    "ledger_waits",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("groups", LargeBinary, nullable=False),
    Column("seconds", LargeBinary, nullable=False),
    Column("waits", LargeBinary, nullable=False),
)

ledger_lots = Table(
    "ledger_lots",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("project", String(64), primary_key=True),
    Column("gpu_type", String(128), primary_key=True),
    Column("held", Double, nullable=False),
    Column("borrowed", Double, nullable=False),
    sqlite_with_rowid=False,
)

forecasts = Table(
    "forecasts",
    metadata,
    Column("job", String(64), primary_key=True),
    Column("at", Double, primary_key=True),
    Column("earliest", Double, nullable=True),
    Column("likely", Double, nullable=False),
    Column("latest", Double, nullable=True),
)
Index("ix_forecasts_at", forecasts.c.at)

decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    Column("snapshot", Text, nullable=True),
    Column("changes", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("digest", String(64), nullable=False),
)
