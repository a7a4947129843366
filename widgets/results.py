"""Output files and metrics of a job, as tables and as frames of pandas."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.arguments import Parameter, argument_of
from springtide.scheduler.client.descriptions import HEADS, advice_words, checkpoint_rows, placement_rows
from springtide.scheduler.file_names import listed_name
from springtide.scheduler.metrics import MAX_METRICS, Best, Value, goal_of, values_at
from springtide.scheduler.user_environments import how_to_install
from springtide.scheduler.wire.run_table import LINEAGE, lineage_of
from springtide.scheduler.wording import ago, count, given, listed, size
from springtide.widgets.display import plain
from springtide.widgets.display.phrases import clean, escape
from springtide.widgets.display.plain import html_table, text_table
from springtide.widgets.errors import MissingPackageError, NoResultError, OptionError

if TYPE_CHECKING:
    from pandas import DataFrame

NO_FILES = "The job has left no files. A job writes them to the directory that SPRINGTIDE_OUTPUT_DIR names."
NO_METRICS = "The job has reported nothing. A training does so with job.report(step=…, of=…, loss=…)."
NO_PRESETS = "There are no presets for your jobs. Administrators and leads define them."
PRESET_HEADS = ("preset", "of", "options", "about", "for your jobs in")
CHECKPOINT_HEADS = ("checkpoint", "step", "size", "saved", "metrics", "by")
FILE_HEADS = ("file", "size", "written")
JOB_TIMES = ("submitted", "started", "ended")
"""The columns of jobs that are times."""
SHOWN = 10
"""Maximum number of rows of metrics that are shown, the last ones."""


class Outputs(list[wire.OutputFile]):
    """The files of a job's output directory, shown as a table.

    Sizes are in bytes, times in seconds since 1970; ``more`` is true if there are others.
    """

    def __init__(self, listed: wire.OutputList) -> None:
        super().__init__(listed.items)
        self.more = listed.more

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with the columns name, size in bytes and written, a time in UTC.

        Raises `MissingPackageError`.
        """
        rows = [{"name": file.name, "size": file.size, "written": file.written} for file in self]
        return frame(rows, times=["written"])

    def _rows(self) -> list[Sequence[str]]:
        now = time.time()
        return [(listed_name(file.name), size(file.size), ago(file.written, now)) for file in self]

    def __repr__(self) -> str:
        return text_table(FILE_HEADS, self._rows(), NO_FILES)

    def _repr_html_(self) -> str:
        return html_table(FILE_HEADS, self._rows(), NO_FILES)


class Checkpoints(list[wire.Checkpoint]):
    """The checkpoints of a job, the newest first, shown as a table.

    Sizes are in bytes, times in seconds since 1970.
    """

    def __init__(self, listed: wire.CheckpointList) -> None:
        super().__init__(listed.items)
        self._empty = listed.text

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each checkpoint. Raises `MissingPackageError`.

        A reported value that is called like a column has the column ``reported.NAME``. ``written`` is a time in
        UTC.
        """
        return frame(
            [
                with_reported(
                    {
                        "name": each.name,
                        "step": each.step,
                        "size": each.size,
                        "written": each.written,
                        "by": each.by,
                    },
                    each.values,
                )
                for each in self
            ],
            times=["written"],
            heads=("name", "step", "size", "written", "by"),
        )

    def __repr__(self) -> str:
        return text_table(CHECKPOINT_HEADS, checkpoint_rows(self, time.time()), self._empty)

    def _repr_html_(self) -> str:
        return html_table(CHECKPOINT_HEADS, checkpoint_rows(self, time.time()), self._empty)


class Presets(list[wire.PresetView]):
    """Presets of jobs, those of the pool first, shown as a table."""

    def _rows(self) -> list[Sequence[str]]:
        return [
            (each.name, each.project or "the pool", each.text, each.about, ", ".join(each.projects))
            for each in self
        ]

    def __repr__(self) -> str:
        return text_table(PRESET_HEADS, self._rows(), NO_PRESETS)

    def _repr_html_(self) -> str:
        return html_table(PRESET_HEADS, self._rows(), NO_PRESETS)


REPORT_COLUMNS: Final = ("attempt", "at", "step")
"""The columns that every report has in a frame."""


class Metrics(list[dict[str, Any]]):
    """The reports of a job in their order, over all attempts, shown as a table.

    Each is a dictionary with ``attempt``, ``at`` (seconds since 1970), ``step`` (None if the report has none) and
    the reported values; one that is called like these three has the name ``reported.NAME``. ``left_out`` is the
    number of reports that came too fast to be kept; the last and the best value of each metric are kept.
    """

    def __init__(self, points: Iterable[wire.Point]) -> None:
        known = list(points)
        shown = [point for point in known if point.has_numbers]
        super().__init__(
            with_reported({"attempt": point.attempt, "at": point.at, "step": point.step}, point.values)
            for point in shown
        )
        self._values = [point.values for point in shown]
        self.left_out = sum(point.left_out for point in known)

    @property
    def names(self) -> list[str]:
        """The names of the reported values."""
        return list(dict.fromkeys(name for values in self._values for name in values))

    def series(self, name: str) -> list[tuple[float | None, float]]:
        """Return the pairs of step and value of a metric, in the order of the reports.

        Raises `NoResultError` for a name that was not reported, as do `last`, `best` and `at`.
        """
        known = [
            (row["step"], values[name]) for row, values in zip(self, self._values, strict=True) if name in values
        ]
        if not known:
            names = f"It has reported {listed(self.names)}." if self else NO_METRICS
            msg = f"The job has reported no {given(name)}. {names}"
            raise NoResultError(msg)
        return known

    def last(self, name: str) -> float:
        """Return the last value of a metric: ``job.metrics().last("loss")``."""
        return self.series(name)[-1][1]

    def best(self, name: str, goal: str | None = None) -> Best:
        """Return the best value of a metric and its step: ``job.metrics().best("val_loss").value``.

        ``goal`` is ``min`` or ``max``; without it the name says that: the largest accuracy, the smallest loss. A
        value that is not finite is never the best.
        """
        if goal not in {None, "min", "max"}:
            msg = f"goal is {given(goal)}; expected {given('min')} or {given('max')}."
            raise OptionError(msg)
        series = [pair for pair in self.series(name) if isfinite(pair[1])]
        if not series:
            msg = f"No value of {given(name)} that the job has reported is finite."
            raise NoResultError(msg)
        choose = max if (goal or goal_of(name)) == "max" else min
        step, value = choose(series, key=itemgetter(1))
        return Best(value, step)

    def at(self, step: float, name: str) -> float | None:
        """Return the value of a metric at a step, else at the last step before it; None if there is none."""
        return values_at(((at, {name: value}) for at, value in self.series(name)), step).get(name)

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each report; ``at`` is a time in UTC.

        Raises `MissingPackageError`.
        """
        return frame(self, times=["at"], heads=REPORT_COLUMNS)

    def _heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self for name in row if name != "at"))

    def _rows(self) -> list[Sequence[str]]:
        heads = self._heads()
        return [[_shown(row.get(head)) for head in heads] for row in self[-SHOWN:]]

    def _rest(self) -> str:
        shown = f"The last {SHOWN} of {count(len(self), 'report')}." if len(self) > SHOWN else ""
        return " ".join(filter(None, [shown, self._thinned(), self._beyond()]))

    def _thinned(self) -> str:
        """Return how many reports came too fast to be kept, empty if none."""
        if not self.left_out:
            return ""
        made = count(len(self) + self.left_out, "report")
        return f"The job made {made} in all; {len(self):,} are kept, with the last and the best of each metric."

    def _beyond(self) -> str:
        """Return which metrics have no last and best value in the pool, empty if all have."""
        beyond = self.names[MAX_METRICS:]
        if not beyond:
            return ""
        return (
            f"Tables and searches have the last and the best value of the first {MAX_METRICS:,} metrics alone, "
            f"without {listed([clean(name) for name in beyond])}."
        )

    def __repr__(self) -> str:
        table = text_table(self._heads(), self._rows(), NO_METRICS)
        return "\n".join(filter(None, [table, self._rest()]))

    def _repr_html_(self) -> str:
        return html_table(self._heads(), self._rows(), NO_METRICS) + self._rest()


class Advised:
    """Advice on the GPUs of a job from its earlier runs, as sentences and a table; ``advice`` has the numbers."""

    def __init__(self, advice: wire.Advice) -> None:
        self.advice = advice

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each placement that was measured. Raises `MissingPackageError`.

        The columns are those of `wire.MeasuredPlacement`.
        """
        return frame([msgspec.structs.asdict(row) for row in self.advice.placements])

    def __repr__(self) -> str:
        table = text_table(HEADS, placement_rows(self.advice), "")
        return "\n".join(filter(None, [clean(advice_words(self.advice)), table]))

    def _repr_html_(self) -> str:
        rows = placement_rows(self.advice)
        return f"<p>{escape(advice_words(self.advice))}</p>{html_table(HEADS, rows, '') if rows else ''}"


def frame(rows: Iterable[Mapping[str, Any]], times: Iterable[str] = (), heads: Iterable[str] = ()) -> DataFrame:
    """Return a frame of pandas with a row for each mapping. Raises `MissingPackageError`.

    Without rows it has the columns ``heads``. The columns ``times``, in seconds since 1970, become times in UTC
    (``datetime64[ns, UTC]``).
    """
    try:
        import pandas as pd  # noqa: PLC0415 - not needed for anything else
    except ModuleNotFoundError:
        msg = f"A frame needs pandas, which is not installed here: {how_to_install('pandas')}"
        raise MissingPackageError(msg) from None
    kept = [dict(row) for row in rows]
    made = pd.DataFrame(kept, columns=None if kept else list(heads))
    for name in times:
        if name in made:
            seconds = made[name].astype(float)
            made[name] = pd.to_datetime(seconds, unit="s", utc=True).astype("datetime64[ns, UTC]")
    return made


class Schedule(list[dict[str, Any]]):
    """The parameters of a trial of a population from its first generation on, one row for each, shown as a table.

    A row has the ``generation``, the ``member`` that trained then, the steps from ``begin`` to ``end``, the
    parameters and the ``value`` at the end; a parameter that is called like these has the name ``parameter.NAME``.
    """

    def __init__(self, line: Iterable[wire.TrialRow], every: float) -> None:
        super().__init__(_scheduled(row, every) for row in line)

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each generation. Raises `MissingPackageError`."""
        return frame(self)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        heads = list(dict.fromkeys(name for row in self for name in row))
        return heads, [[plain.shown(row.get(head)) for head in heads] for row in self]

    def __repr__(self) -> str:
        return text_table(*self._table(), "")

    def _repr_html_(self) -> str:
        return html_table(*self._table(), "")


def _scheduled(row: wire.TrialRow, every: float) -> dict[str, Any]:
    generation = row.generation or 1
    own = {"generation": generation, "member": row.member, "begin": every * (generation - 1)}
    own |= {"end": every * generation}
    taken = {*own, "value"}
    parameters = {_apart(name, [taken], "parameter"): value for name, value in (row.parameters or {}).items()}
    return {**own, **parameters, "value": row.value}


class Trials(list[wire.TrialRow]):
    """The trials of a sweep, shown as a table. ``metric`` names the compared value."""

    def __init__(self, rows: Iterable[wire.TrialRow], metric: str) -> None:
        super().__init__(map(_with_parameters, rows))
        self.metric = metric

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each trial. Raises `MissingPackageError`.

        The compared value has the name of the sweep's metric, or ``value``. A parameter or a reported value that
        is called like a column has the column ``parameter.NAME`` or ``reported.NAME``. ``started`` and ``ended``
        are times in UTC, ``gpu_hours`` are GPU-hours over all attempts.
        """
        return frame(trial_rows(self, self.metric), times=["started", "ended"])

    def __repr__(self) -> str:
        return plain.trials_text(self, self.metric)

    def _repr_html_(self) -> str:
        return plain.trials_html(self, self.metric)


def restored(parameters: Mapping[str, Parameter] | None) -> dict[str, Any]:
    """Return the parameters of a trial as they were given, as far as that is known."""
    return {name: argument_of(value).restored for name, value in (parameters or {}).items()}


def _with_parameters(row: wire.TrialRow) -> wire.TrialRow:
    return row if row.parameters is None else structs.replace(row, parameters=restored(row.parameters))


def trial_rows(rows: Iterable[wire.TrialRow], metric: str) -> list[dict[str, Any]]:
    """Return a row for each trial: its parameters, outcome and times.

    Its value has the name of the metric, of which it is the number returned by the function, else the last report.
    """
    records = []
    for row in rows:
        own = {
            "trial": row.trial,
            "state": row.state,
            "step": row.step,
            "attempts": row.attempt,
            "started": row.started,
            "ended": row.ended,
            "gpu_hours": row.gpu_seconds / 3600,
            "job": row.job,
            "error": row.error,
        }
        lineage = {"generation": row.generation, "member": row.member, "copied_from": row.copied_from}
        lineage = {} if row.member is None else {**lineage, "parent": row.parent}
        own = {**lineage, **own}
        parameters = {_apart(name, [own], "parameter"): value for name, value in (row.parameters or {}).items()}
        values = {metric or "value": row.value} | {
            name: value for name, value in row.values.items() if name != metric or row.value is None
        }
        row_so_far = {"trial": row.trial, **lineage, "state": row.state, **parameters, **own}
        records.append(with_reported(row_so_far, values))
    return records


def with_reported(
    row: Mapping[str, Any], values: Mapping[str, Value | None], taken: Container[str] = ()
) -> dict[str, Any]:
    """Return the row with reported values; one that is called like a column has the column ``reported.NAME``.

    ``taken`` are the columns of other rows.
    """
    names = {name: _apart(name, (row, taken), "reported", values) for name in values}
    return {**row, **{names[name]: value for name, value in values.items()}}


def _apart(name: str, columns: Iterable[Container[str]], kind: str, beside: Container[str] = ()) -> str:
    """Return the column of a value: its name, or ``kind.NAME`` if that is a column already.

    No value in ``beside`` has that name.
    """
    if not any(name in taken for taken in columns):
        return name
    apart = f"{kind}.{name}"
    while any(apart in taken for taken in (*columns, beside)):
        apart = f"{kind}.{apart}"
    return apart


def job_rows(jobs: Iterable[wire.Job]) -> list[dict[str, Any]]:
    """Return a row for each job: its request, its arguments, its times, its lineage and its last report.

    An argument that is called like a column has the column ``argument.NAME``; a reported value that is called like
    a column, or like an argument of any of the jobs, ``reported.NAME``. `JOB_TIMES` are in seconds since 1970,
    ``gpu_hours`` are GPU-hours over all attempts.
    """
    listed_jobs = list(jobs)
    rows = [_with_arguments({name: of(job) for name, of in JOB_COLUMNS.items()}, job) for job in listed_jobs]
    taken = {name for row in rows for name in row}
    return [with_reported(row, job.progress.values, taken) for row, job in zip(rows, listed_jobs, strict=True)]


def arguments_of(job: wire.Job) -> dict[str, Any]:
    """Return the arguments of a job by name, with the values that a trial was given."""
    values = {name: each.restored for name, each in job.arguments.items()}
    own = restored(None if job.outcome is None else job.outcome.parameters)
    shown = {name for name, each in job.arguments.items() if not each.hidden}
    return values | {name: value for name, value in own.items() if name in shown}


def _with_arguments(row: Mapping[str, Any], job: wire.Job) -> dict[str, Any]:
    values = arguments_of(job)
    return {**row, **{_apart(name, [row], "argument", values): value for name, value in values.items()}}


def _lineage(name: str, job: wire.Job) -> Any:
    return lineage_of(job)[name]


JOB_COLUMNS: Final[Mapping[str, Callable[[wire.Job], Any]]] = {
    "id": lambda job: job.id,
    "name": lambda job: job.name,
    "state": lambda job: job.state,
    "user": lambda job: job.user,
    "project": lambda job: job.project,
    "tags": lambda job: list(job.options.tags),
    "gpus": lambda job: job.options.gpus,
    "workers": lambda job: job.options.workers,
    "gpu_type": lambda job: job.gpu_type,
    "priority": lambda job: job.options.priority,
    "preset": lambda job: job.options.preset,
    "submitted": lambda job: job.submitted,
    "started": lambda job: job.started,
    "ended": lambda job: job.ended,
    "attempts": lambda job: job.attempt,
    "gpu_hours": lambda job: job.gpu_seconds / 3600,
    "exit_code": lambda job: job.exit_code,
    "step": lambda job: job.progress.step,
    **{name: partial(_lineage, name) for name in LINEAGE},
}
"""The columns that every job has in a frame."""


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
