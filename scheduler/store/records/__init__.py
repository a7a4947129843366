"""Records of the store, frozen. The engine keeps the same records in memory.

Times are seconds since the epoch, durations seconds, service GPU-seconds.
"""

from __future__ import annotations

from springtide.scheduler.store.records.jobs import (
    KEPT_ATTEMPTS,
    LIVE_ATTEMPT,
    Act,
    Asked,
    AttemptRecord,
    AttemptState,
    CountedSteps,
    Edited,
    EnvironmentRecord,
    ForkRef,
    Hold,
    JobRecord,
    JobSpec,
    JobStanding,
    Marks,
    OptionDifference,
    RerunRef,
    TestRun,
    TestStage,
    Withheld,
)
from springtide.scheduler.store.records.journals import UNDO, AuditRecord, DecisionRecord, EventRecord
from springtide.scheduler.store.records.queries import AuditQuery, GpuUse, JobQuery
from springtide.scheduler.store.records.sweeps import (
    BestTrial,
    Copied,
    FinishedTrial,
    Generation,
    Outcome,
    Parameters,
    SweepParameters,
    SweepStanding,
    TrialQuery,
    TrialRef,
    TrialsSpec,
)
from springtide.scheduler.store.records.writes import Bundle, Loaded, WriteBatch

__all__ = [
    "KEPT_ATTEMPTS",
    "LIVE_ATTEMPT",
    "UNDO",
    "Act",
    "Asked",
    "AttemptRecord",
    "AttemptState",
    "AuditQuery",
    "AuditRecord",
    "BestTrial",
    "Bundle",
    "Copied",
    "CountedSteps",
    "DecisionRecord",
    "Edited",
    "EnvironmentRecord",
    "EventRecord",
    "FinishedTrial",
    "ForkRef",
    "Generation",
    "GpuUse",
    "Hold",
    "JobQuery",
    "JobRecord",
    "JobSpec",
    "JobStanding",
    "Loaded",
    "Marks",
    "OptionDifference",
    "Outcome",
    "Parameters",
    "RerunRef",
    "SweepParameters",
    "SweepStanding",
    "TestRun",
    "TestStage",
    "TrialQuery",
    "TrialRef",
    "TrialsSpec",
    "Withheld",
    "WriteBatch",
]
