"""The value of known run times, and the sources of a month's waits.

    python benchmarks/bench_estimates.py                # all pools, about 9 minutes on two cores
    python benchmarks/bench_estimates.py --pool 704
    python benchmarks/bench_estimates.py --pool 520 --estimate usual --leave-out 1

Each row is the month of `bench_simulate.py` on one pool, with the default settings and one estimate of run times:

    none      no estimate: jobs are ranked by the service that they have had
    usual     the pool's own: the median of the latest ended jobs of the same kind
    together  the true median of the jobs that a project submits within a minute of each other, known in advance
    true      the true run time, known in advance: the bound of all estimates under these rules

The columns are seconds per job, averaged over all jobs of the month: the completion time, the run time (the best
possible completion time of any scheduler), the wait before the first start, and the part of this wait that belongs
to the jobs that one project submits within six hours: to the project and the hours with the largest sum of waits.
With ``--leave-out K`` the month lacks every 23rd job, from the K-th one on: a similar month, which shows whether
a difference between two rules is one of this month only.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, median

import click
from bench_simulate import POOLS, TRACE, Case, projects_load_of
from machine import describe

from springtide.scheduler.history.run_times import Described, ExpectedRunTimes, RunTimes
from springtide.scheduler.model import Job, Order, Settings
from springtide.scheduler.simulate import Costs, Policy, simulate
from springtide.scheduler.simulate.virtual import Course

ESTIMATES = ("none", "usual", "together", "true")
TOGETHER = 60.0
"""Longest time between two submissions that count as made together, in seconds."""
EACH = 23
"""A similar month lacks every 23rd job."""
EPISODE = 6 * 3600.0
"""Length of the intervals of submission whose waits are added up, in seconds."""

Timed = Sequence[tuple[Job, float]]


class KnownRunTimes(ExpectedRunTimes):
    """Estimates that are given in advance, by the id of the job, in seconds; none for other jobs."""

    def __init__(self, estimates: dict[str, float]) -> None:
        super().__init__(RunTimes())
        self._estimates = estimates

    def of(self, job: Described) -> float | None:
        """Return the estimate given for the job."""
        return self._estimates.get(job.id) if isinstance(job, Job) else None

    def learn(self, job: Described, seconds: float) -> None:
        """Learn nothing."""


def submitted_together(jobs: Timed) -> Iterable[list[tuple[Job, float]]]:
    """Group the jobs of equal project and size that were submitted one shortly after the other."""
    groups: defaultdict[tuple[str, int], list[list[tuple[Job, float]]]] = defaultdict(list)
    for job, duration in sorted(jobs, key=lambda each: each[0].submitted):
        of_kind = groups[job.project, job.workers * job.gpus]
        if not of_kind or job.submitted - of_kind[-1][-1][0].submitted > TOGETHER:
            of_kind.append([])
        of_kind[-1].append((job, duration))
    return (group for of_kind in groups.values() for group in of_kind)


def expected_of(estimate: str, jobs: Timed) -> ExpectedRunTimes:
    """Return the expected run times that a simulation with this estimate goes by."""
    if estimate == "usual":
        return ExpectedRunTimes(RunTimes())
    known: dict[str, float] = {}
    if estimate == "true":
        known = {job.id: duration for job, duration in jobs}
    if estimate == "together":
        for group in submitted_together(jobs):
            known |= dict.fromkeys((job.id for job, _ in group), median(duration for _, duration in group))
    return KnownRunTimes(known)


def first_wait(course: Course) -> float:
    """Return the seconds between submission and first start."""
    return 0.0 if course.first_start is None else course.first_start - course.job.submitted


def largest_episode(courses: Sequence[Course]) -> tuple[float, int, str]:
    """Return the largest sum of waits of one project's jobs within an interval, their number, the project."""
    waits: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for course in courses:
        waits[course.job.project, int(course.job.submitted // EPISODE)].append(first_wait(course))
    (project, _), largest = max(waits.items(), key=lambda each: sum(each[1]))
    return sum(largest), len(largest), project


def measure(pool: int, estimate: str, source: str, jobs: int, left_out: int | None) -> str:
    """Run one row, and return it as text."""
    case = Case(pool, Policy.GUARANTEED, Order.LEAST_SERVED, Costs(60.0), Settings().min_runtime, source, jobs)
    load = projects_load_of(case)
    load = replace(load, jobs=tuple(each for at, each in enumerate(load.jobs) if at % EACH != left_out))
    result = simulate(load, costs=case.costs, expected=expected_of(estimate, load.jobs))
    count = len(result.courses)
    mean, waited = result.report.total.mean_jct_s or 0.0, fmean(map(first_wait, result.courses))
    best = fmean(duration for _, duration in load.jobs)
    largest, submitted, project = largest_episode(result.courses)
    return (
        f"{pool:4}  {estimate:8}  {mean:10,.0f}  {best:8,.0f}  {waited:10,.0f}  "
        f"{largest / count:15,.0f}  {submitted:5,} of {project}  {result.report.breaches:8}"
    )


@click.command()
@click.option("--pool", "pools", type=int, multiple=True, default=POOLS, help="GPUs of the pool.")
@click.option("--estimate", "estimates", type=click.Choice(ESTIMATES), multiple=True, default=ESTIMATES)
@click.option(
    "--leave-out", "left_out", type=click.IntRange(0, EACH - 1), help="Leave out each 23rd job from it on."
)
@click.option("--jobs", type=int, default=47_192, show_default=True, help="Jobs of the made-up month.")
@click.option("--processes", type=int, default=os.cpu_count(), show_default=True)
def main(
    pools: tuple[int, ...], estimates: tuple[str, ...], left_out: int | None, jobs: int, processes: int
) -> None:
    """Print the table."""
    source = str(TRACE) if TRACE.is_file() else "mostly-short"
    print(describe())
    print(Path(source).stem)
    print("pool  estimate  completion  run time  first wait  largest episode  jobs of it     breaches")
    with ProcessPoolExecutor(processes) as workers:
        rows = [workers.submit(measure, *each, source, jobs, left_out) for each in product(pools, estimates)]
        for row in rows:
            print(row.result(), flush=True)


if __name__ == "__main__":
    main()
