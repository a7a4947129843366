"""The start of a waiting job as card, `explain` and forecasts report it; pure."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.engine.state.blocks import kept_by
from springtide.scheduler.model import Reason, StartsIf
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.workload import Line

TOO_SMALL: Final = frozenset(
    {"too-large", "per-gpu-too-large", "gang-too-large", "no-rdma", "no-level", "domain-too-small"}
)
"""Codes of the reasons of jobs that the nodes as they are cannot hold."""
CLOSES: Final = "node-closes-first"
"""Code of the reason why a job does not start on a node before its maintenance."""


def is_planned(job: JobRecord) -> bool:
    """Return whether the planner decides when a job starts.

    It does not where a person holds the job or its project, and where something outside refused its last start.
    """
    return not job.is_idle and (job.line is not Line.GPUS or kept_by(job) is None)


def start_now(known: wire.Starts | None, why: Reason | None) -> wire.Starts | None:
    """Return the forecast of a start unless it is older than ``why`` the job waits: no node can hold it now."""
    if known is None or known.likely is None or why is None:
        return known
    return None if why.code in TOO_SMALL and not why.params.get("drained") else known


def changes_now(found: StartsIf, why: Reason | None) -> StartsIf:
    """Return what lets a job start, without further nodes if those that it waits for are closed or drained."""
    if why is None or not (why.code == CLOSES or why.params.get("drained") or why.params.get("undrain")):
        return found
    possible = tuple(each for each in found.alternatives if not each.add_nodes)
    return structs.replace(found, alternatives=possible, impossible=False)
