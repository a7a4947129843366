"""Runs attempts as pods of a cluster, one pod per worker."""

from springtide.scheduler.executors.kubernetes.executor import KubernetesExecutor
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings

__all__ = ["KubernetesExecutor", "KubernetesSettings"]
