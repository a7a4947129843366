"""The table of runs as text that spreadsheets read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from springtide.scheduler.arguments import argument_of
from springtide.scheduler.wire.csv_text import csv_text, moment
from springtide.scheduler.wire.jobs import Job

COLUMNS: Final = (
    "id",
    "name",
    "state",
    "user",
    "project",
    "submitted",
    "started",
    "ended",
    "duration_s",
    "gpus",
    "gpu_hours",
    "tags",
    "note",
    "forked_from",
    "fork_step",
    "generation",
    "member",
)


def csv_of(jobs: Sequence[Job], now: float) -> str:
    """Return jobs as CSV: a row each, with the columns of all of them for arguments and for metrics.

    These are ``argument.NAME``, ``last.NAME`` and ``best.NAME``. Texts that begin like a formula get an apostrophe
    before them.
    """
    arguments = dict.fromkeys(name for job in jobs for name in job.arguments)
    metrics = dict.fromkeys(name for job in jobs for name in job.progress.values)
    heads = [*COLUMNS, *(f"argument.{name}" for name in arguments)]
    heads += [f"{kind}.{name}" for name in metrics for kind in ("last", "best")]
    given = ([_argument(job, name) for name in arguments] for job in jobs)
    rows = ([*_own(job, now), *own, *_metrics(job, metrics)] for job, own in zip(jobs, given, strict=True))
    return csv_text(heads, rows)


def _own(job: Job, now: float) -> list[object]:
    options = job.options
    duration = None if job.started is None else round((job.ended or now) - job.started, 1)
    return [
        *(job.id, job.name, job.state, job.user, job.project),
        *(moment(job.submitted), moment(job.started), moment(job.ended), duration),
        *(options.gpus * options.workers, round(job.gpu_seconds / 3600, 4), " ".join(options.tags), job.note),
        *lineage_of(job).values(),
    ]


def lineage_of(job: Job) -> dict[str, object]:
    """Return the lineage of a job by the names of its columns: None is what does not apply to it."""
    fork, trial = job.rerun and job.rerun.fork, job.outcome
    return {
        "forked_from": job.rerun.job if job.rerun and fork else None,
        "fork_step": fork and fork.step,
        "generation": trial and trial.generation,
        "member": trial and trial.member,
    }


def _argument(job: Job, name: str) -> str | None:
    """Return an argument as text: that of a trial whole, as the sweep has it."""
    kept = job.arguments.get(name)
    if kept is None or kept.hidden:
        return None if kept is None else kept.shown
    parameters = (job.outcome and job.outcome.parameters) or {}
    return argument_of(parameters[name]).text if name in parameters else kept.text


def _metrics(job: Job, names: Iterable[str]) -> list[object]:
    progress = job.progress
    return [
        value
        for name in names
        for value in (progress.values.get(name), progress.best[name].value if name in progress.best else None)
    ]
