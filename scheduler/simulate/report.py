"""The result of a simulation: the figures of the pool and of each project."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from springtide.scheduler.simulate.virtual import Course

JOB_COLUMNS = ("name", "project", "submit_s", "start_s", "finish_s", "pauses")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a pool or of one project.

    Times are seconds; means and percentiles are over finished jobs, and null if none finished. ``finished`` counts
    all ended jobs, ``timed_out`` those of them that their time limits ended. The queue is the time from
    submission to the first start. ``utilization`` counts the GPUs held between the first and the
    last submission of all against all GPUs of the pool over that span, also for one project.
    """

    jobs: int
    finished: int
    timed_out: int
    makespan_s: float | None
    mean_jct_s: float | None
    mean_queue_s: float | None
    p50_queue_s: float | None
    p99_queue_s: float | None
    utilization: float | None
    pauses: int
    lost_gpu_hours: float
    guarantee_violation_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """The output of `springtide simulate`.

    ``left_out`` counts the jobs that could never run and so were not submitted, ``breaches`` the broken promises
    that the checker found, and ``gpu_hours`` is the total time held.
    """

    total: Figures
    projects: Mapping[str, Figures]
    left_out: int
    breaches: int
    gpu_hours: float
    wall_s: float

    def as_json(self) -> dict[str, object]:
        """Return the report as one JSON object."""
        extra = {
            "wall_s": self.wall_s,
            "left_out": self.left_out,
            "breaches": self.breaches,
            "gpu_hours": self.gpu_hours,
        }
        projects = {name: asdict(figures) for name, figures in self.projects.items()}
        return {**asdict(self.total), **extra, "projects": projects}


def summarize(
    courses: Sequence[Course],
    present: Callable[[float, float], float],
    violations: Mapping[str, float],
    *,
    left_out: int,
    breaches: int,
    wall_s: float,
    span: tuple[float, float] | None = None,
) -> Report:
    """Return the report of a run; ``violations`` are seconds of broken guarantee.

    ``present`` returns the GPU-seconds that the pool had between two times, ``span`` is that of the run, the time
    of submissions unless given.
    """
    submits = [course.job.submitted for course in courses]
    if span is None:
        span = (min(submits), max(submits)) if submits else (0.0, 0.0)
    room = present(*span)
    by_project: dict[str, list[Course]] = {name: [] for name in violations}
    for course in courses:
        by_project.setdefault(course.job.project, []).append(course)
    return Report(
        total=_figures(courses, room, span, sum(violations.values())),
        projects={name: _figures(own, room, span, violations.get(name, 0.0)) for name, own in by_project.items()},
        left_out=left_out,
        breaches=breaches,
        gpu_hours=_hours(_held(courses, -math.inf, math.inf)),
        wall_s=round(wall_s, 3),
    )


def _no_formula(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def job_rows(courses: Iterable[Course]) -> list[tuple[str, str, float, float | str, float | str, int]]:
    """Return a row of `JOB_COLUMNS` per job; the start and end of jobs without them are empty."""
    return [
        (
            _no_formula(course.job.name),
            _no_formula(course.job.project),
            course.job.submitted,
            "" if course.first_start is None else course.first_start,
            "" if course.finish is None else course.finish,
            course.pauses,
        )
        for course in courses
    ]


def _figures(courses: Sequence[Course], room: float, span: tuple[float, float], violation: float) -> Figures:
    finished = [
        (course.job.submitted, course.first_start, course.finish)
        for course in courses
        if course.finish is not None and course.first_start is not None
    ]
    queues = sorted(start - submitted for submitted, start, _ in finished)
    return Figures(
        jobs=len(courses),
        finished=len(finished),
        timed_out=sum(course.timed_out for course in courses),
        makespan_s=_rounded(max(finish for _, _, finish in finished) - span[0]) if finished else None,
        mean_jct_s=_mean([finish - submitted for submitted, _, finish in finished]),
        mean_queue_s=_mean(queues),
        p50_queue_s=_percentile(queues, 0.50),
        p99_queue_s=_percentile(queues, 0.99),
        utilization=round(_held(courses, *span) / room, 6) if room > 0 else None,
        pauses=sum(course.pauses for course in courses),
        lost_gpu_hours=_hours(math.fsum(course.lost for course in courses)),
        guarantee_violation_s=_rounded(violation),
    )


def _held(courses: Iterable[Course], start: float, end: float) -> float:
    """Return the GPU-seconds held between two times."""
    return math.fsum(
        max(0.0, min(to, end) - max(since, start)) * gpus
        for course in courses
        for since, to, gpus, _ in course.spans
    )


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(math.fsum(values) / len(values)) if values else None


def _percentile(ordered: Sequence[float], part: float) -> float | None:
    """Return the smallest value that at least this part (0 to 1) of all values does not exceed."""
    return _rounded(ordered[max(0, math.ceil(part * len(ordered)) - 1)]) if ordered else None


def _hours(gpu_seconds: float) -> float:
    return _rounded(gpu_seconds / 3600)


def _rounded(value: float) -> float:
    return round(value, 3)
