"""Jobs side by side in a notebook: their differences and their reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from springtide.scheduler import wire
from springtide.widgets.display import phrases
from springtide.widgets.display.plain import html_table, text_table
from springtide.widgets.results import JOB_TIMES, frame, job_rows, with_reported

if TYPE_CHECKING:
    from pandas import DataFrame


class Comparison:
    """Jobs side by side, shown as a table of their differences and their last reports.

    ``jobs`` are the jobs as they were when they were compared, ``differences`` their differences, with a value for
    each job. ``code`` has for each job the difference of its code from that of the first one, as lines of a
    unified diff: empty if it does not differ or one of them is a command, None if it is too long to compare.
    """

    def __init__(self, found: wire.Comparison, points: Sequence[Iterable[wire.Point]]) -> None:
        self.jobs = found.jobs
        self.differences = found.differences
        self.code = found.code
        self._reports = [
            with_reported(
                {
                    "job": job.id,
                    "name": job.name,
                    "attempt": point.attempt,
                    "at": point.at,
                    "step": point.step,
                },
                point.values,
            )
            for job, reported in zip(found.jobs, points, strict=True)
            for point in reported
            if point.step is not None or point.values
        ]

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each job, as `Jobs.to_frame`, and their differences.

        Differences have columns such as ``parameter.lr`` and ``option.gpus``, as text. Raises
        `MissingPackageError`.
        """
        rows = job_rows(self.jobs)
        for different in self.differences:
            for row, value in zip(rows, different.values, strict=True):
                row[f"{different.kind}.{different.name}"] = value
        return frame(rows, times=JOB_TIMES)

    def metrics(self) -> DataFrame:
        """Return a frame of pandas with a row for each report: its job, attempt, time, step and values.

        A value that is called like another column has the column ``reported.NAME``. ``at`` is a time in UTC.
        ``frame.pivot_table("loss", "step", "name").plot()`` draws the curves over each other. Raises
        `MissingPackageError`.
        """
        return frame(self._reports, times=["at"])

    def _heads(self) -> list[str]:
        return ["", *phrases.distinct_names(self.jobs)]

    def _rows(self) -> list[list[str]]:
        reported = dict.fromkeys(name for job in self.jobs for name in job.progress.values)
        values = [[name, *(_last(job.progress.values.get(name)) for job in self.jobs)] for name in reported]
        best = dict.fromkeys(name for job in self.jobs for name in job.progress.best)
        bests = [[f"best {name}", *(_best(job.progress.best.get(name)) for job in self.jobs)] for name in best]
        code = ["code", *map(self._code_words, self.jobs, self.code)]
        return [
            ["id", *(job.id for job in self.jobs)],
            ["state", *map(phrases.state, self.jobs)],
            *([different.name, *different.values] for different in self.differences),
            *([code] if any(change != [] for change in self.code) else []),
            *values,
            *bests,
        ]

    def _code_words(self, job: wire.Job, change: Sequence[str] | None) -> str:
        if "command" in {job.kind, self.jobs[0].kind}:
            return ""
        if change is None:
            return "differs"
        added = sum(line.startswith("+") for line in change)
        removed = sum(line.startswith("-") for line in change)
        return f"+{added} -{removed} lines" if change else "as the first"

    def __repr__(self) -> str:
        return text_table(self._heads(), self._rows(), "")

    def _repr_html_(self) -> str:
        return html_table(self._heads(), self._rows(), "")


def _best(value: wire.BestValue | None) -> str:
    return "" if value is None else f"{value.value:.6g}"


def _last(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
