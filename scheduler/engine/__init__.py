"""The engine: observe, plan, commit, act."""

from springtide.scheduler.engine.engine import Engine, JobFilter
from springtide.scheduler.engine.opening import ConfigurationError, new_job_id, open_engine
from springtide.scheduler.engine.settings import EngineSettings, Retries, Stats
from springtide.scheduler.store.records import UNDO, AuditQuery

__all__ = [
    "UNDO",
    "AuditQuery",
    "ConfigurationError",
    "Engine",
    "EngineSettings",
    "JobFilter",
    "Retries",
    "Stats",
    "new_job_id",
    "open_engine",
]
