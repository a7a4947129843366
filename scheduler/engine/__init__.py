"""The engine: observe, plan, commit, act."""

from springtide.scheduler.engine.engine import Engine, JobFilter
from springtide.scheduler.engine.opening import ConfigurationError, new_job_id, open_engine
from springtide.scheduler.engine.requests.project_admin import UNDO
from springtide.scheduler.engine.settings import EngineSettings, Retries, Stats

__all__ = [
    "UNDO",
    "ConfigurationError",
    "Engine",
    "EngineSettings",
    "JobFilter",
    "Retries",
    "Stats",
    "new_job_id",
    "open_engine",
]
