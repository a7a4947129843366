"""The table of runs as text that spreadsheets read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from springtide.scheduler.arguments import argument_of
from springtide.scheduler.metrics import Extremes
from springtide.scheduler.runs import Run
from springtide.scheduler.wire.csv_text import csv_text
from springtide.scheduler.wire.jobs import Job
from springtide.scheduler.wording import iso

LINEAGE: Final = ("forked_from", "fork_step", "generation", "member")
"""The names of the columns of `lineage_of`."""
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
    *LINEAGE,
    "preset",
)


def csv_of(jobs: Sequence[Job], now: float) -> str:
    """Return jobs as CSV: a row each, with the columns of all of them for arguments and for metrics.

    These are ``argument.NAME``, ``last.NAME`` and ``best.NAME``. Texts that begin like a formula get an apostrophe
    before them.
    """
    arguments = dict.fromkeys(name for job in jobs for name in job.arguments)
    metrics = dict.fromkeys(name for job in jobs for name in (*job.progress.values, *_best(job)))
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
        *(iso(job.submitted), iso(job.started), iso(job.ended), duration),
        *(options.gpus * options.workers, round(job.gpu_seconds / 3600, 4), " ".join(options.tags), job.note),
        *(*lineage_of(job).values(), options.preset),
    ]


def run_of(job: Job) -> Run:
    """Return a job as a row whose values have names. Of each metric its best value is the only extreme."""
    fork, lineage = job.rerun and job.rerun.fork, lineage_of(job)
    return Run(
        id=job.id,
        seq=0,
        name=job.name,
        user=job.user,
        project=job.project,
        state=job.shown.partition(",")[0] or job.state,
        submitted=job.submitted,
        started=job.started,
        ended=job.ended,
        gpus=job.options.gpus * job.options.workers,
        tags=tuple(job.options.tags),
        note=job.note,
        preset=job.options.preset,
        step=job.progress.step,
        forked_from=(job.rerun.job, job.rerun.name) if job.rerun and fork else (),
        fork_step=lineage["fork_step"],
        generation=lineage["generation"],
        member=lineage["member"],
        arguments=job.arguments,
        values=job.progress.values,
        extremes={name: Extremes(value, None, value, None) for name, value in _best(job).items()},
    )


def lineage_of(job: Job) -> dict[str, Any]:
    """Return the lineage of a job by the names of its columns: None is what does not apply to it."""
    fork, trial = job.rerun.fork if job.rerun else None, job.outcome
    of = (job.trials and job.trials.population) or trial
    forked_from = job.rerun.job if job.rerun and fork else None
    step = fork.step if fork else None
    if step is not None and step == int(step):
        step = int(step)
    values = (forked_from, step, of and of.generation, trial and trial.member)
    return dict(zip(LINEAGE, values, strict=True))


def _argument(job: Job, name: str) -> str | None:
    """Return an argument as text: that of a trial whole, as the sweep has it."""
    kept = job.arguments.get(name)
    if kept is None or kept.hidden:
        return None if kept is None else kept.shown
    parameters = (job.outcome and job.outcome.parameters) or {}
    return argument_of(parameters[name]).text if name in parameters else kept.text


def _metrics(job: Job, names: Iterable[str]) -> list[object]:
    best = _best(job)
    return [value for name in names for value in (job.progress.values.get(name), best.get(name))]


def _best(job: Job) -> dict[str, float]:
    """Return the best value of each metric; of a sweep's metric that of its best trial."""
    trials = job.trials
    if trials is not None:
        return {} if trials.best is None or not trials.metric else {trials.metric: trials.best.value}
    return {name: best.value for name, best in job.progress.best.items() if name in job.progress.values}
