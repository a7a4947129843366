"""MIME types of outputs that a page draws without the kernel, and what they carry: enough for a first drawing.

JupyterLab and Notebook with the extension ``@springtide/lab`` prefer these to the widget of the same output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from springtide.scheduler.wire import Job, PoolView
from springtide.widgets.display.plain import MOST_ROWS

JOB_TYPE: Final = "application/vnd.springtide.job+json"
JOBS_TYPE: Final = "application/vnd.springtide.jobs+json"
POOL_TYPE: Final = "application/vnd.springtide.pool+json"
FORM_TYPE: Final = "application/vnd.springtide.form+json"


def job_output(job: Job, now: float, notice: str = "") -> dict[str, Any]:
    """Return the output of a job as it is now, in seconds since the epoch."""
    return {JOB_TYPE: {"job": job_data(job), "at": now, "notice": notice}}


def jobs_output(jobs: Sequence[Job], now: float) -> dict[str, Any]:
    """Return the output of a list of jobs: the first ones, and how many more there are."""
    shown = [job_data(job) for job in jobs[:MOST_ROWS]]
    return {JOBS_TYPE: {"jobs": shown, "more": len(jobs) - len(shown), "at": now}}


def pool_output(pool: PoolView, now: float) -> dict[str, Any]:
    """Return the output of the pool at a glance."""
    return {POOL_TYPE: {"pool": msgspec.to_builtins(pool), "at": now, "mine": []}}


def form_output() -> dict[str, Any]:
    """Return the output of a form: nothing of it is in the notebook, all that is drawn is asked for."""
    return {FORM_TYPE: {}}


def job_data(job: Job) -> dict[str, Any]:
    """Return the job as cards show it: without its source and its command."""
    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(job, source="", argv=[]))
    return data
