"""A job against an endless stream of later jobs: it has to start within a bound, whatever others submit.

The pool has two nodes of four GPUs. The stream asks for half as much again as the pool has, for much longer than
the bound, with jobs that run for `RUN_TIME` each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from judges.command import Document, simulate

RUN_TIME = 1200
"""Seconds that a job of a stream runs."""
BOUND = 7200 + RUN_TIME
"""Seconds within which every job that can run has started: two hours beyond the longest job of the stream."""
ARRIVES = 1800
"""When the job arrives; the stream has filled the pool by then."""
LASTS = ARRIVES + BOUND + 2 * 3600
GPUS = 8
JOB = "waits"

Stream = Callable[[], tuple[list[Document], list[Document]]]


def _stream(project: str, gpus: int = 1, **more: object) -> list[Document]:
    every = RUN_TIME * gpus * 2 // (GPUS * 3)
    return [
        {
            "name": f"{project}-{at}",
            "project": project,
            "gpus": gpus,
            "submitted": at,
            "duration": RUN_TIME,
            **more,
        }
        for at in range(0, LASTS, every)
    ]


def _job(project: str, gpus: int, workers: int = 1, **more: object) -> Document:
    return {
        "name": JOB,
        "project": project,
        "gpus": gpus,
        "workers": workers,
        "submitted": ARRIVES,
        "duration": RUN_TIME,
        **more,
    }


def _wide_gang_of_a_project_with_all() -> tuple[list[Document], list[Document]]:
    return [{"name": "a", "quota": GPUS}], [_job("a", 4, 2), *_stream("a")]


def _wide_gang_within_its_quota() -> tuple[list[Document], list[Document]]:
    return [{"name": "a", "quota": GPUS}, {"name": "b"}], [_job("a", 4, 2), *_stream("b")]


def _wide_gang_above_its_share() -> tuple[list[Document], list[Document]]:
    return [{"name": "a"}, {"name": "b"}], [_job("a", 4, 2), *_stream("b")]


def _job_above_its_share() -> tuple[list[Document], list[Document]]:
    """Its share is half of the four GPUs that the quota of the other project leaves; the job needs all four."""
    return [{"name": "b", "quota": 4}, {"name": "a"}], [_job("a", 4), *_stream("b")]


def _younger_of_two_equal_projects() -> tuple[list[Document], list[Document]]:
    """The jobs of both are larger than the share of one."""
    return [{"name": "a", "quota": 4}, {"name": "b", "quota": 4}], [_job("b", 3, 2), *_stream("a", 3, workers=2)]


def _older_of_two_equal_projects() -> tuple[list[Document], list[Document]]:
    return [{"name": "a", "quota": 4}, {"name": "b", "quota": 4}], [_job("a", 3, 2), *_stream("b", 3, workers=2)]


def _last_in_its_project() -> tuple[list[Document], list[Document]]:
    """A large job among small ones of the same project, beside a project that has its quota."""
    projects = [{"name": "a", "quota": 4}, {"name": "b", "quota": 4}]
    return projects, [_job("a", 4), *_stream("a"), *_stream("b")]


def _low_project_priority() -> tuple[list[Document], list[Document]]:
    """Its two GPUs of quota are all that it is entitled to; the job needs four."""
    projects = [{"name": "a", "quota": 2, "priority": 50}, {"name": "b", "priority": 200}]
    return projects, [_job("a", 4), *_stream("b")]


STREAMS: Mapping[str, Stream] = {
    "a gang as wide as the pool, of the project that owns it": _wide_gang_of_a_project_with_all,
    "a gang as wide as the pool, within its quota": _wide_gang_within_its_quota,
    "a gang as wide as the pool, above its share": _wide_gang_above_its_share,
    "a job above the share of its project": _job_above_its_share,
    "the younger of two equal projects": _younger_of_two_equal_projects,
    "the older of two equal projects": _older_of_two_equal_projects,
    "a large job among small ones of its project": _last_in_its_project,
    "a project of low priority with a quota": _low_project_priority,
}


def waited(stream: str, order: str, surplus: str) -> float:
    """Return how long the job waits for its start against a stream, in seconds."""
    projects, jobs = STREAMS[stream]()
    scenario = {
        "nodes": [{"name": f"n{at}", "gpus": GPUS // 2} for at in range(2)],
        "projects": projects,
        "jobs": jobs,
    }
    _, rows = simulate(scenario, "--order", order, "--surplus", surplus)
    start = rows[JOB]["start_s"]
    assert start is not None
    return start - ARRIVES
