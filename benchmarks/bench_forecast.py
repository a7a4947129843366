"""How true forecasts of starts are, over simulated days in which jobs report their progress.

    python benchmarks/bench_forecast.py                # 3 days of 700 jobs on 128 GPUs, 100 forecasts each
    python benchmarks/bench_forecast.py --days 10 --forecasts 200

Each day runs twice. The first run measures the start of each job; the second stops at half of the waiting time of
each sampled job and asks for its window, by the same function and the same estimates as the service: what running
jobs report, and run times of ended jobs like the others. Later jobs are unknown to the forecast.

At least 80 % of the starts are to be inside their window, and the windows no wider than four times the error (mean
width by mean distance of the likely start from the real one). The row "without" is what forecasts know without
reports. The baseline, the last row, is a guess from the waits of others alone: from a tenth
to nine tenths of the waiting times that were longer than this job's so far.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click
from machine import describe
from msgspec import structs

from springtide.scheduler.forecast import Window, forecast
from springtide.scheduler.history.run_times import RunTimes
from springtide.scheduler.model import Job, Node, Phase, Project, Settings, Snapshot
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate.virtual import Course, VirtualPool

DAY = 86_400.0
SHORT_WAIT = 60.0
"""Waiting times below this number of seconds are not sampled."""
PROJECTS = 6
KINDS = 8
"""Kinds of work of each project: jobs of a kind have the same name, size and typical run time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The forecast of a start, and when the job started."""

    window: Window
    started: float

    @property
    def inside(self) -> bool:
        """Whether the job started in its window, to the second."""
        low, high = self.window.earliest, self.window.latest
        return (low is None or low - 1 <= self.started) and (high is None or self.started <= high + 1)


def load(gpus: int, jobs: int, seed: int) -> tuple[Snapshot, list[tuple[Job, float]]]:
    """Return an empty pool, and a day of jobs with their run times in seconds: busy hours, kinds of work."""
    rng = random.Random(seed)
    nodes = tuple(Node(f"node-{at}", 8) for at in range(gpus // 8))
    projects = tuple(Project(f"p{at}", quota=gpus // PROJECTS // 2 * 2, age=at) for at in range(PROJECTS))
    kinds = [
        (project, f"train-{kind}", rng.choice((1, 1, 2, 4, 8)), rng.lognormvariate(8.0, 0.9))
        for project in range(PROJECTS)
        for kind in range(KINDS)
    ]
    made: list[tuple[Job, float]] = []
    for number in range(jobs):
        project, name, size, typical = rng.choice(kinds)
        job = Job(
            id=f"job-{number}",
            project=projects[project].name,
            user=f"user-{project}",
            name=f"{name}-{number}",
            gpus=size,
            submitted=round(DAY * rng.betavariate(2, 3)),
        )
        made.append((job, round(max(30.0, typical * rng.lognormvariate(0, 0.4)))))
    return Snapshot(0.0, nodes, projects, (), Settings(min_runtime=300.0)), made


def pool_of(start: Snapshot, jobs: Sequence[tuple[Job, float]]) -> VirtualPool:
    """Return the pool before the day."""
    pool = VirtualPool(Planner(start), now=start.now)
    for job, duration in jobs:
        pool.submit(job, duration)
    return pool


def samples(
    start: Snapshot, jobs: Sequence[tuple[Job, float]], most: int, seed: int
) -> Iterator[tuple[Sample, Sample, Sample]]:
    """Yield forecasts of the starts of at most ``most`` jobs, each asked for at half of its waiting time.

    With reported progress, without it, and the baseline.
    """
    pool = pool_of(start, jobs)
    pool.run()
    starts = {name: course.first_start for name, course in pool.courses.items() if course.first_start is not None}
    waits = {job.id: starts[job.id] - job.submitted for job, _ in jobs if job.id in starts}
    long = [job for job, _ in jobs if waits.get(job.id, 0.0) > SHORT_WAIT]
    asked = random.Random(seed).sample(long, min(most, len(long)))
    pool = pool_of(start, jobs)
    past, ended = RunTimes(), set[str]()
    for job in sorted(asked, key=lambda job: job.submitted + waits[job.id] / 2):
        at = job.submitted + waits[job.id] / 2
        pool.run(until=at)
        learn(past, pool.courses, ended)
        windows = [window(start, pool.courses, past, job.id, at, progress=progress) for progress in (True, False)]
        seen = [waits[name] for name, begun in starts.items() if begun <= at and waits[name] > at - job.submitted]
        windows.append(guess(job.submitted, sorted(seen)))
        reported, silent, guessed = (Sample(each, starts[job.id]) for each in windows)
        yield reported, silent, guessed


def window(
    start: Snapshot, courses: Mapping[str, Course], past: RunTimes, job_id: str, now: float, *, progress: bool
) -> Window:
    """Return the forecast of a start; with ``progress``, running jobs have reported their run times."""
    known = replace(start, now=now, jobs=tuple(known_jobs(courses, now, progress=progress)))
    similar = {each.id: past.of_similar_jobs(each) for each in known.jobs if each.expected is None}
    return forecast(known, [job_id], past=similar).starts[job_id]


def guess(submitted: float, waits: Sequence[float]) -> Window:
    """Return the window by the waiting times of others."""
    if not waits:
        return Window(None, None, None)
    low, middle, high = (waits[int(share * (len(waits) - 1))] for share in (0.1, 0.5, 0.9))
    return Window(submitted + low, submitted + middle, submitted + high)


def learn(past: RunTimes, courses: Mapping[str, Course], ended: set[str]) -> None:
    """Learn the run times of newly ended jobs."""
    for name, course in courses.items():
        if course.finish is None or name in ended:
            continue
        ended.add(name)
        past.learn(course.job, course.duration)


def known_jobs(courses: Mapping[str, Course], now: float, *, progress: bool) -> Iterator[Job]:
    """Yield the unfinished jobs; of running ones with the run time by their reports."""
    for course in courses.values():
        job = course.job
        if course.finish is None and job.submitted <= now:
            yield (
                structs.replace(job, expected=course.duration) if progress and job.phase is Phase.RUNNING else job
            )


def row(name: str, found: Sequence[Sample]) -> str:
    """Return a line of the table."""
    inside = statistics.mean(each.inside for each in found)
    ends = [(each.window.earliest, each.window.likely, each.window.latest, each.started) for each in found]
    whole = [(low, likely, high, at) for low, likely, high, at in ends if low and likely and high]
    error = statistics.mean(abs(likely - at) for _, likely, _, at in whole)
    width = statistics.mean(high - low for low, _, high, _ in whole)
    unbounded = 1 - len(whole) / len(found)
    return f"{name:26}  {inside:6.1%}  {unbounded:9.1%}  {error:9,.0f} s  {width:9,.0f} s  {width / error:14.2f}"


def table(title: str, found: Sequence[tuple[Sample, Sample, Sample]]) -> None:
    """Print the rows of a day, or of all days."""
    reported, silent, guessed = zip(*found, strict=True)
    print(f"{f'{title}, {len(found)} starts':26}  inside  unbounded   mean error   mean width  width by error")
    print(row("  with reported progress", reported))
    print(row("  without", silent))
    print(row("  others' waiting times", guessed), flush=True)


@click.command()
@click.option("--gpus", type=int, default=128, show_default=True)
@click.option("--jobs", type=int, default=700, show_default=True, help="Number of jobs of a day.")
@click.option("--forecasts", type=int, default=100, show_default=True, help="Number of forecasts of a day.")
@click.option("--days", type=int, default=3, show_default=True, help="Number of days; the day is the seed.")
def main(gpus: int, jobs: int, forecasts: int, days: int) -> None:
    """Print how many starts were inside their window, and how wide the windows were."""
    print(describe())
    print(f"{jobs} jobs a day on {gpus} GPUs; goals with reports: 80 % inside, a width of at most 4 errors")
    every = []
    for day in range(1, days + 1):
        found = list(samples(*load(gpus, jobs, day), forecasts, day))
        table(f"day {day}", found)
        every += found
    table("all days", every)


if __name__ == "__main__":
    main()
