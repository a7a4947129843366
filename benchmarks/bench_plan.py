"""Speed of the policy on a pool of the largest size that it is made for, in processor time on one core.

10,000 nodes with 8 GPUs, 1,000 projects in 10 departments, 20,000 running jobs that fill the pool, and 20,000
queued ones, all of 1 to 8 GPUs. Garbage is collected as in the service.

    python benchmarks/bench_plan.py                    # one GPU type
    python benchmarks/bench_plan.py --types 2          # half of the nodes are of another type
    python benchmarks/bench_plan.py --profile FILE     # write a profile of the plans after events
"""

from __future__ import annotations

import cProfile
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import click
from bench_policy import carry_out, settle
from machine import describe, percentile
from msgspec import structs

from springtide.scheduler.model import Change, Job, JobChanged, JobRemoved, Phase, Settings, Snapshot
from springtide.scheduler.policy import Planner
from springtide.scheduler.process_tuning import loading, short_collections
from springtide.scheduler.scenario import read
from springtide.scheduler.simulate.settle import opening

NODES, GPUS = 10_000, 8
DEPARTMENTS, PROJECTS = 10, 1_000
QUEUED = 20_000
EVENTS = 1_000
MIN_RUNTIME = 60.0
AGE = 1800.0
"""Longest time for which jobs have run, in seconds."""
CLOCK = time.process_time


def document(types: int, seed: int = 1) -> dict[str, Any]:
    """Return the pool as a scenario. Each job accepts one type, or both, if there are two."""
    rng = random.Random(seed)
    names = [f"t{number}" for number in range(types)]
    share = GPUS * NODES // types

    def quota(gpus: int) -> Any:
        return gpus if types == 1 else dict.fromkeys(names, gpus)

    departments = [f"d{number}" for number in range(DEPARTMENTS)]
    leaves = [f"{departments[number % DEPARTMENTS]}p{number}" for number in range(PROJECTS)]
    jobs: list[dict[str, Any]] = []
    for node in range(NODES):
        for gpus in parts_of(GPUS, rng.choice((1, 2, 2, 2, 3)), rng):
            jobs.append(
                {
                    "name": f"r{len(jobs):05}",
                    "project": rng.choice(leaves),
                    "gpus": gpus,
                    "submitted": rng.uniform(0, 90_000),
                    "placed": [f"n{node:05}"],
                }
            )
    for number in range(QUEUED):
        job = {
            "name": f"q{number:05}",
            "project": rng.choice(leaves),
            "gpus": rng.randint(1, GPUS),
            "submitted": rng.uniform(50_000, 100_000),
        }
        jobs.append(job if types == 1 else job | {"gpu_types": rng.choice(([], names[:1], names[-1:]))})
    return {
        "nodes": [
            {
                "name": f"n{number:05}",
                "gpus": GPUS,
                "gpu_type": names[number % types],
                "labels": {"rack": f"r{number // 16:04}"},
            }
            for number in range(NODES)
        ],
        "projects": [
            *({"name": name, "quota": quota(share // DEPARTMENTS)} for name in departments),
            *(
                {"name": name, "parent": name.partition("p")[0], "quota": quota(share // PROJECTS)}
                for name in leaves
            ),
        ],
        "jobs": jobs,
    }


def parts_of(whole: int, count: int, rng: random.Random) -> Sequence[int]:
    """Return ``count`` numbers from 1 on that add up to ``whole``."""
    cuts = [0, *sorted(rng.sample(range(1, whole), count - 1)), whole]
    return [after - before for before, after in pairwise(cuts)]


def bench_command(file: Path) -> None:
    """Measure `springtide plan`, as a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [Path(sys.executable).with_name("springtide"), "plan", file], check=True, stdout=subprocess.PIPE
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = json.loads(done.stdout)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    jobs = shown["jobs"].values()
    running = sum(job["running"] > 0 for job in jobs)
    print(f"   stable: {shown['stable']} after {shown['rounds']} plans; {running:,} of {len(jobs):,} jobs run")
    report("`springtide plan` to a stable state, with all reasons and starts_if", took, 10.0)


def report(what: str, seconds: float, goal: float) -> None:
    """Print a figure beside its goal."""
    unit, factor = ("s", 1) if goal >= 1 else ("ms", 1000)
    verdict = "ok" if seconds < goal else "TOO SLOW"
    print(f"{what:<64} {seconds * factor:>8.3f} {unit:<2}   goal {goal * factor:g} {unit}   {verdict}", flush=True)


def an_hour_later(snapshot: Snapshot, jobs: Iterable[Job], seed: int = 2) -> Snapshot:
    """Return the pool as it is on an ordinary day: jobs have run for some time, and some were paused before."""
    rng = random.Random(seed)
    later = []
    for job in jobs:
        if job.placement:
            later.append(structs.replace(job, started=snapshot.now - rng.uniform(0, AGE), attempts=1))
        else:
            later.append(structs.replace(job, served=rng.choice((0.0, 0.0, 5_000.0, 50_000.0))))
    settings = replace(snapshot.settings, min_runtime=MIN_RUNTIME, grace=Settings().grace)
    return replace(snapshot, jobs=tuple(later), settings=settings)


def bench_plans(snapshot: Snapshot, profile: Path | None) -> None:
    """Measure reasons, and the plan after one event."""
    start = CLOCK()
    planner = Planner(snapshot)
    print(f"   planner built in {CLOCK() - start:.2f} s")
    jobs = {job.id: job for job in snapshot.jobs}
    start = CLOCK()
    plans = settle(planner, jobs, snapshot.now)
    print(f"   stable after {plans} plans in {CLOCK() - start:.2f} s")
    snapshot = an_hour_later(snapshot, jobs.values())
    planner, jobs = Planner(snapshot), {job.id: job for job in snapshot.jobs}
    plans = settle(planner, jobs, snapshot.now)
    print(f"   later, stable after {plans} more plans")
    waiting = [job.id for job in jobs.values() if job.phase is Phase.WAITING]
    start = CLOCK()
    for job_id in waiting:
        planner.reason(job_id, snapshot.now)
        planner.position(job_id)
    report(
        f"reason and position of a waiting job, mean of {len(waiting):,}", (CLOCK() - start) / len(waiting), 0.0002
    )
    profiler = cProfile.Profile(CLOCK) if profile else None
    times = after_events(planner, jobs, snapshot.now, profiler)
    for what, values in times.items():
        print(
            f"   {what}: median {percentile(values, 0.5) * 1000:.2f} ms, {percentile(values, 0.99) * 1000:.2f} ms"
        )
    report(
        "plan after one event, 99th percentile", percentile(list(chain.from_iterable(times.values())), 0.99), 0.005
    )
    if profiler is not None and profile is not None:
        profiler.dump_stats(profile)


def after_events(
    planner: Planner, jobs: dict[str, Job], now: float, profiler: cProfile.Profile | None
) -> dict[str, list[float]]:
    """Return the times of the plans after events of each kind, in seconds. After each the pool comes to rest."""
    rng = random.Random(3)
    projects = sorted({job.project for job in jobs.values()})
    times: dict[str, list[float]] = {"submission": [], "end": [], "withdrawal": []}

    def measure(what: str, act: Callable[[], Change]) -> None:
        change = act()
        if profiler is not None:
            profiler.enable()
        start = CLOCK()
        planner.apply(change)
        plan = planner.plan(now)
        times[what].append(CLOCK() - start)
        if profiler is not None:
            profiler.disable()
        carry_out(planner, plan, jobs, now)
        settle(planner, jobs, now)

    def submission() -> Change:
        job = Job(f"s{now}", rng.choice(projects), gpus=rng.randint(1, GPUS), submitted=now)
        jobs[job.id] = job
        return JobChanged(job)

    def removal(phase: Phase) -> Change:
        gone = rng.choice([job.id for job in jobs.values() if job.phase is phase])
        del jobs[gone]
        return JobRemoved(gone)

    for _ in range(EVENTS):
        now += 0.5
        measure("submission", submission)
        measure("end", lambda: removal(Phase.RUNNING))
        measure("withdrawal", lambda: removal(Phase.WAITING))
    return times


@click.command()
@click.option("--types", type=click.IntRange(1, 8), default=1, show_default=True, help="GPU types of the pool.")
@click.option("--profile", type=click.Path(path_type=Path), help="Write a profile of the plans after events here.")
@click.option("--plans-only", is_flag=True, help="Leave the command `springtide plan` out.")
def main(types: int, profile: Path | None, *, plans_only: bool) -> None:
    """Print the figures, each beside its goal."""
    print(describe())
    print(
        f"-- {NODES:,} nodes, {PROJECTS:,} projects, {2 * NODES:,} running, {QUEUED:,} queued, GPU types: {types}"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pool.json"
        file.write_text(json.dumps(document(types)), encoding="utf-8")
        if not plans_only:
            bench_command(file)
        with loading():
            snapshot = opening(read(file))
        with short_collections(time.monotonic):
            bench_plans(snapshot, profile)


if __name__ == "__main__":
    main()
