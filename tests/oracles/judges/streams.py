"""A job against an endless stream of later jobs: it has to start within a bound, whatever others submit.

The pool has two nodes of four GPUs. The stream asks for half as much again as the pool has, for much longer than
the bound, with jobs that run for `RUN_TIME` each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

from judges.command import Document, simulate
from judges.histories import ORDERS, SURPLUSES

RUN_TIME = 1200
"""Seconds that a job of a stream runs."""
BOUND = 7200 + RUN_TIME
"""Seconds within which every job that can run has started: two hours beyond the longest job of the stream."""
ARRIVES = 1800
"""When the job arrives; the stream has filled the pool by then."""
LASTS = ARRIVES + BOUND + 2 * 3600
DAY = 86_400
EARLIER = 3
"""Run times of a random stream within the bound: of those that run, and of few that wait already and go first."""
GPUS = 8
JOB = "waits"

Stream = Callable[[], tuple[list[Document], list[Document]]]


def _stream(project: str, gpus: int = 1, run_time: int = RUN_TIME, **more: object) -> list[Document]:
    every = run_time * gpus * 2 // (GPUS * 3)
    return [
        {
            "name": f"{project}-{at}",
            "project": project,
            "gpus": gpus,
            "submitted": at,
            "duration": run_time,
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


def _lighter_of_two_projects() -> tuple[list[Document], list[Document]]:
    """The jobs of both need most of the pool: one runs at a time."""
    return [{"name": "a", "weight": 3}, {"name": "b"}], [_job("b", 3, 2), *_stream("a", 3, workers=2)]


def _second_of_two_gangs() -> tuple[list[Document], list[Document]]:
    first = {**_job("a", 4, 2), "name": "first", "submitted": ARRIVES - 60}
    return [{"name": "a"}, {"name": "b"}, {"name": "c"}], [first, _job("b", 4, 2), *_stream("c")]


def _behind_a_job_of_many_turns() -> tuple[list[Document], list[Document]]:
    """Both are above their shares. The first one waits for longer, and needs ten turns of an hour."""
    projects = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    first = {**_job("a", 4, 2), "name": "first", "submitted": 1, "duration": 36_000}
    return projects, [first, {**_job("b", 4, 2), "submitted": 3700}, *_stream("c")]


def _low_project_priority() -> tuple[list[Document], list[Document]]:
    """Its two GPUs of quota are all that it is entitled to; the job needs four."""
    projects = [{"name": "a", "quota": 2, "priority": 50}, {"name": "b", "priority": 200}]
    return projects, [_job("a", 4), *_stream("b")]


def _wide_gang_among_jobs_with_time_limits() -> tuple[list[Document], list[Document]]:
    """Short ones run on the GPUs reserved for the gang, as they end before the longer ones."""
    longer, short = RUN_TIME, RUN_TIME // 8
    streams = [*_stream("b", time_limit=longer), *_stream("c", run_time=short, time_limit=short)]
    return [{"name": "a"}, {"name": "b"}, {"name": "c"}], [_job("a", 4, 2), *streams]


STREAMS: Mapping[str, Stream] = {
    "a gang as wide as the pool, of the project that owns it": _wide_gang_of_a_project_with_all,
    "a gang as wide as the pool, within its quota": _wide_gang_within_its_quota,
    "a gang as wide as the pool, above its share": _wide_gang_above_its_share,
    "a job above the share of its project": _job_above_its_share,
    "the younger of two equal projects": _younger_of_two_equal_projects,
    "the older of two equal projects": _older_of_two_equal_projects,
    "the lighter of two projects": _lighter_of_two_projects,
    "the second of two gangs as wide as the pool": _second_of_two_gangs,
    "a job of many turns that waits for longer": _behind_a_job_of_many_turns,
    "a large job among small ones of its project": _last_in_its_project,
    "a project of low priority with a quota": _low_project_priority,
    "a gang as wide as the pool, among jobs with time limits": _wide_gang_among_jobs_with_time_limits,
}


def waited(stream: str, order: str, surplus: str) -> float:
    """Return how long the job waits for its start against a stream, in seconds."""
    projects, jobs = STREAMS[stream]()
    scenario = {
        "nodes": [{"name": f"n{at}", "gpus": GPUS // 2} for at in range(2)],
        "projects": projects,
        "jobs": jobs,
    }
    return _wait(scenario, ("--order", order, "--surplus", surplus))


def _wait(scenario: Document, options: Sequence[str]) -> float:
    result, rows = simulate(scenario, *options)
    assert result["guarantee_violation_s"] == 0
    start = rows[JOB]["start_s"]
    return math.inf if start is None else start - rows[JOB]["submit_s"]


def gpu_hours_of_equals(order: str, surplus: str) -> tuple[float, float]:
    """Return the GPU-hours that two equal projects have in a day in which both ask for more than the pool.

    Each job needs three of four GPUs, so that one runs at a time.
    """
    jobs = [
        {
            "name": f"{project}-{at}",
            "project": project,
            "gpus": 3,
            "submitted": at,
            "duration": RUN_TIME,
            "time_limit": RUN_TIME,
        }
        for at in range(0, DAY, RUN_TIME)
        for project in "ab"
    ]
    scenario = {"nodes": [{"name": "n0", "gpus": 4}], "projects": [{"name": "a"}, {"name": "b"}], "jobs": jobs}
    result, _ = simulate(scenario, "--order", order, "--surplus", surplus)
    a, b = (result["projects"][project]["utilization"] * 4 * DAY / 3600 for project in "ab")
    return a, b


def stream_of_seed(seed: int) -> tuple[Document, tuple[str, ...], int]:
    """Return a random job against random streams, the options to simulate it with, and its bound.

    The quotas of the other projects leave room for the job: no guarantee prevents its start, and none do on
    several nodes, where a job within a quota may be in the way. Its project has a quota where others have a higher
    priority. It arrives when the pool is full.
    """
    draw = Random(f"stream {seed}")
    nodes: list[Document] = [
        {"name": f"n{at}", "gpus": draw.choice([2, 4, 4])} for at in range(draw.randint(1, 3))
    ]
    gpus = draw.randint(1, max(node["gpus"] for node in nodes))
    workers = draw.randint(1, sum(node["gpus"] // gpus for node in nodes))
    total = sum(node["gpus"] for node in nodes)
    left = total - gpus * workers
    projects: list[Document] = [{"name": "mine", "quota": draw.choice([0, draw.randint(0, gpus * workers)])}]
    for at in range(draw.randint(1, 2)):
        quota = draw.choice([0, draw.randint(0, left)]) if len(nodes) == 1 else 0
        left -= quota
        weight, priority = draw.choice([1, 1, 2]), draw.choice([100, 200]) if projects[0]["quota"] else 100
        projects.append({"name": f"other{at}", "quota": quota, "weight": weight, "priority": priority})
    draw.shuffle(projects)
    longest = draw.choice([300, 1200, 3600])
    bound = 7200 + EARLIER * longest
    job = {**_job("mine", gpus, workers), "min_workers": draw.choice([workers, draw.randint(1, workers)])}
    streaming = [each["name"] for each in projects if each["name"] != "mine" or draw.random() < 0.5]
    stream: list[Document] = []
    now, asked = 0.0, 0
    job["submitted"] = 0
    while now < job["submitted"] + bound + 3600:
        one = {
            "name": f"s{len(stream)}",
            "project": draw.choice(streaming),
            "submitted": int(now),
            "gpus": draw.randint(1, max(node["gpus"] for node in nodes)),
            "duration": longest * draw.choice([1, 1, 2]) // 2,
        }
        stream.append(one)
        if asked < total <= asked + one["gpus"]:
            job["submitted"] = int(now) + 1
        asked += one["gpus"]
        now += one["gpus"] * one["duration"] / total * 2 / 3
    options = ("--order", draw.choice(ORDERS), "--surplus", draw.choice(SURPLUSES))
    return {"nodes": nodes, "projects": projects, "jobs": [job, *stream]}, options, bound


def late(seed: int) -> list[str]:
    """Return whether the job of a seed waits longer than its bound."""
    scenario, options, bound = stream_of_seed(seed)
    waited = _wait(scenario, options)
    return [f"no starvation: it waits for {waited:g} s, the bound is {bound} s"] if waited > bound else []
