"""Runs attempts as processes of this machine, one supervisor per attempt."""

from springtide.scheduler.executors.local.executor import LocalExecutor

__all__ = ["LocalExecutor"]
