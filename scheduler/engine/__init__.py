"""The engine: observe, plan, persist, act."""

from springtide.scheduler.engine.core import new_job_id
from springtide.scheduler.engine.engine import Engine, JobFilter
from springtide.scheduler.engine.seeding import ConfigurationError
from springtide.scheduler.engine.settings import EngineSettings, Retries, Stats

__all__ = ["ConfigurationError", "Engine", "EngineSettings", "JobFilter", "Retries", "Stats", "new_job_id"]
