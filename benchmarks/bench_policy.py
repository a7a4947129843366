"""Speed of the policy: prints a table of figures with the machine on which they were measured.

python benchmarks/bench_policy.py            # all
python benchmarks/bench_policy.py small      # the pool of 500 nodes only
"""

from __future__ import annotations

import os
import platform
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import quantiles

from msgspec.structs import replace

from springtide.scheduler.model import (
    Job,
    JobChanged,
    JobRemoved,
    Node,
    Phase,
    Plan,
    Project,
    Snapshot,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate.carry_out import carried_out

NOW = 100_000.0
CLOCK = time.process_time
SIZES = (1, 1, 1, 1, 2, 2, 4, 8)
MOST_ROUNDS = 2_000
EVENTS = 300


def report(what: str, seconds: float, target: float) -> None:
    verdict = "ok" if seconds < target else "TOO SLOW"
    print(f"{what:<64} {seconds * 1000:>10.1f} ms   target {target * 1000:>7.0f} ms   {verdict}")


def timed(act: Callable[[], Plan]) -> tuple[float, Plan]:
    start = CLOCK()
    plan = act()
    return CLOCK() - start, plan


def big_pool(queued: int, running: int = 60_000) -> Snapshot:
    rng = random.Random(7)
    nodes = tuple(Node(f"n{i:05}", 8, labels={"rack": f"r{i // 16:04}"}) for i in range(10_000))
    projects = [Project(f"d{d}", None, 8_000, None, 1.0, 100, d) for d in range(10)]
    for d in range(10):
        for t in range(9):
            projects.append(Project(f"d{d}t{t}", f"d{d}", 880, None, 1.0 + t % 3, 100, len(projects)))
            projects += [
                Project(f"d{d}t{t}p{p}", f"d{d}t{t}", 80, None, 1.0, 100, 1000 + len(projects)) for p in range(10)
            ]
    leaves = [project.name for project in projects if "p" in project.name]
    jobs: list[Job] = []
    node, used = 0, 0
    while len(jobs) < running and node < len(nodes):
        # About one job per GPU at first, then fewer and larger ones, so that the pool is exactly full.
        left_jobs, left_gpus = running - len(jobs), (len(nodes) - node) * 8 - used
        gpus = 1 if left_gpus <= left_jobs else rng.choice((1, 1, 2))
        gpus = min(gpus, 8 - used)
        started = NOW - rng.uniform(0, 90_000)
        jobs.append(
            Job(
                f"r{len(jobs):06}",
                rng.choice(leaves),
                gpus=gpus,
                submitted=started - 100,
                phase=Phase.RUNNING,
                placement=(Worker(0, nodes[node].name, tuple(range(used, used + gpus))),),
                started=started,
            )
        )
        used += gpus
        if used == 8:
            node, used = node + 1, 0
    for i in range(queued):
        gpus = rng.choice(SIZES)
        workers = rng.choice((1, 1, 1, 1, 1, 2, 4)) if gpus == 8 else 1
        jobs.append(
            Job(
                f"q{i:06}",
                rng.choice(leaves),
                gpus=gpus,
                workers=workers,
                min_workers=workers,
                submitted=NOW - rng.uniform(0, 50_000),
                served=rng.choice((0.0, 0.0, 5000.0, 50_000.0)),
            )
        )
    return Snapshot(NOW, nodes, tuple(projects), tuple(jobs))


def settle(planner: Planner, jobs: dict[str, Job], now: float) -> int:
    """Carry out plans until a plan is empty; pauses take effect at once."""
    rounds = 0
    while rounds < MOST_ROUNDS:
        plan = planner.plan(now)
        if not plan.decisions:
            break
        rounds += 1
        carry_out(planner, plan, jobs, now)
    return rounds


def carry_out(planner: Planner, plan: Plan, jobs: dict[str, Job], now: float) -> None:
    for decision in plan.decisions:
        job = jobs[decision.job] = carried_out(jobs[decision.job], decision, now)
        planner.apply(JobChanged(job))


def bench_big(queued: int, *, targets: bool) -> None:
    snapshot = big_pool(queued)
    running = sum(job.phase is Phase.RUNNING for job in snapshot.jobs)
    start = CLOCK()
    planner = Planner(snapshot)
    built = CLOCK() - start
    took, plan = timed(lambda: planner.plan(NOW))
    name = f"10,000 nodes, 1,000 projects, {running:,} running, {queued:,} queued"
    print(f"-- {name}: built in {built:.2f} s, first plan {took:.2f} s with {len(plan.decisions)} decisions")
    report("first plan", took, 2.0)
    jobs = {job.id: job for job in snapshot.jobs}
    now = NOW
    start = CLOCK()
    rounds = settle(planner, jobs, now)
    print(f"   settled after {rounds} rounds in {CLOCK() - start:.0f} s")
    waiting = [job.id for job in jobs.values() if job.phase is Phase.WAITING][:1000]
    start = CLOCK()
    for job_id in waiting:
        planner.reason(job_id, now)
        planner.position(job_id)
    mean = (CLOCK() - start) / max(1, len(waiting))
    print(f"   reason and position of a waiting job: {mean * 1000:.3f} ms, target 0.2 ms")
    rng = random.Random(3)
    live = sorted(job.id for job in jobs.values() if job.phase is Phase.RUNNING)
    leaves = sorted({job.project for job in jobs.values()})
    submits, finishes = [], []
    for i in range(EVENTS):
        now += 0.5
        job = Job(f"s{i:05}", rng.choice(leaves), gpus=rng.choice(SIZES), submitted=now)
        jobs[job.id] = job

        def submit(job: Job = job, now: float = now) -> Plan:
            planner.apply(JobChanged(job))
            return planner.plan(now)

        took, plan = timed(submit)
        submits.append(took)
        carry_out(planner, plan, jobs, now)
        settle(planner, jobs, now)
        gone = live.pop(rng.randrange(len(live)))
        while jobs[gone].phase is not Phase.RUNNING:
            gone = live.pop(rng.randrange(len(live)))

        def finish(gone: str = gone, now: float = now) -> Plan:
            planner.apply(JobRemoved(gone))
            return planner.plan(now)

        took, plan = timed(finish)
        finishes.append(took)
        del jobs[gone]
        carry_out(planner, plan, jobs, now)
        settle(planner, jobs, now)
    for what, times in (("submit", submits), ("finish", finishes)):
        cut = quantiles(times, n=100)
        print(f"   {what}: median {cut[49] * 1000:.2f} ms")
        report(f"one {what} re-planned, 99th percentile", cut[98], 0.010)
    if targets:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"   memory {memory:.0f} MiB, target 1,500 MiB  {'ok' if memory < 1500 else 'TOO MUCH'}")


def small_pool(*, firm: bool = False) -> Snapshot:
    """Return a pool of 4,000 jobs on borrowed GPUs; with ``firm``, one on each node is not preemptible."""
    nodes = tuple(Node(f"n{i:03}", 8, labels={"rack": f"r{i // 16}"}) for i in range(500))
    projects = (Project("lender", quota=3500, age=0), Project("borrower", quota=500, age=1))
    running = tuple(
        Job(
            f"r{i:04}",
            "borrower",
            submitted=float(i),
            preemptible=not firm or i % 8 != 3,
            phase=Phase.RUNNING,
            placement=(Worker(0, f"n{i // 8:03}", (i % 8,)),),
            started=float(i),
        )
        for i in range(4000)
    )
    return Snapshot(NOW, nodes, projects, running)


def bench_small() -> None:
    print("-- 500 nodes x 8 GPUs, 4,000 one-GPU jobs")
    one = Job("one", "lender", submitted=NOW)
    no = Job("no", "lender", gpus=8, workers=10, min_workers=10, submitted=NOW)
    gang = Job("gang", "lender", workers=512, min_workers=512, submitted=NOW)
    nodes = Job("nodes", "lender", gpus=8, workers=64, min_workers=64, submitted=NOW)
    every = tuple(Job(f"w{i:04}", "lender", submitted=NOW + i) for i in range(4000))
    for what, waiting, target, decisions, firm in (
        ("reclaim one GPU", (one,), 0.020, 2, False),
        ('"no" to an 80-GPU gang: no node can be emptied', (no,), 0.050, 0, True),
        (
            '"no" to an 80-GPU gang of one worker',
            (replace(no, gpus=80, workers=1, min_workers=1),),
            0.050,
            0,
            False,
        ),
        ("a gang of 512 workers", (gang,), 0.200, 513, False),
        ("a gang of 64 whole nodes", (nodes,), 0.200, 513, False),
        ("reclaim 3,500 of 4,000 for as many jobs", every, 2.0, 7000, False),
    ):
        planner = Planner(small_pool(firm=firm))
        planner.plan(NOW)
        for job in waiting:
            planner.apply(JobChanged(job))
        took, plan = timed(partial(planner.plan, NOW))
        assert len(plan.decisions) == decisions, (what, len(plan.decisions))
        report(what, took, target)


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


if __name__ == "__main__":
    print(machine())
    bench_small()
    if "small" not in sys.argv[1:]:
        for queued in (1_000, 10_000, 100_000):
            bench_big(queued, targets=queued == 100_000)
