"""What the pool's policy makes of a month of jobs, against static quotas: the table of outcomes.

    python benchmarks/bench_simulate.py                     # every pool, order and restart cost
    python benchmarks/bench_simulate.py --pool 520 --restart-cost 60

Runs on the traces in ../shared/traces where they are present, and otherwise (or with --generated) on a month of
jobs made up by `made_up`. The bound is the mean run time: no scheduler can do better. The rows "undivided" put
all jobs into one project that owns the pool: what they gain is what quotas and a fair share by weight cost.
"""

from __future__ import annotations

import os
import platform
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import click

from springtide.scheduler.model import Job, Order, Project, Settings
from springtide.scheduler.simulate import Costs, Load, Policy, simulate
from springtide.scheduler.simulate.trace import jobs_of, parse_nodes, read_quotas, read_trace

TRACES = Path(__file__).parents[2] / "shared" / "traces"
POOLS = (704, 520, 376)
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    pool: int
    policy: Policy
    order: Order
    costs: Costs
    min_runtime: float
    trace: str | None
    jobs: int
    undivided: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """How a case came out."""

    case: Case
    bound: float
    mean_jct: float
    utilization: float
    pauses: int
    lost: float
    violation: float
    breaches: int
    wall: float


def made_up(gpus: int, jobs: int, seed: int = 1) -> Load:
    """A month for a pool: a few large projects and many small ones, most jobs short, a few very long."""
    rng = random.Random(seed)
    nodes = parse_nodes(f"{gpus // 8}x8")
    parts = [0.18, 0.18, 0.18, 0.09, 0.09, 0.09, 0.05, 0.05, 0.05, 0.02, 0.02]
    quotas = [max(8, int(gpus * part) // 8 * 8) for part in parts]
    projects = tuple(Project(f"p{at}", quota=quota, age=at) for at, quota in enumerate(quotas))
    busy = [rng.paretovariate(1.0) for _ in projects]
    made = []
    for number in range(jobs):
        size = rng.choices([1, 2, 4, 8, 16, 32], [950, 17, 17, 12, 3, 1])[0]
        project = rng.choices(projects, busy)[0]
        workers = max(1, size // 8)
        job = Job(
            id=f"job-{number}",
            project=project.name,
            workers=workers,
            min_workers=workers,
            gpus=size // workers,
            submitted=round(rng.uniform(0, 30 * DAY)),
        )
        made.append((job, round(min(40 * DAY, rng.lognormvariate(6.3, 2.2)))))
    return Load(nodes, projects, tuple(made))


def load_of(case: Case) -> Load:
    """The jobs of a case."""
    load = projects_load_of(case)
    if not case.undivided:
        return load
    jobs = tuple((replace(job, project="all"), duration) for job, duration in load.jobs)
    return Load(load.nodes, (Project("all", quota=case.pool),), jobs)


def projects_load_of(case: Case) -> Load:
    """The jobs of a case, in their projects."""
    if case.trace is None:
        return made_up(case.pool, case.jobs)
    trace = Path(case.trace)
    nodes = parse_nodes(f"{case.pool // 8}x8")
    projects = read_quotas(TRACES / f"philly_quotas_{case.pool}.csv")
    return Load(nodes, projects, tuple(jobs_of(read_trace(trace), projects, nodes, trace)))


def measure(case: Case) -> Row:
    """Run a case."""
    load = load_of(case)
    settings = Settings(order=case.order, min_runtime=case.min_runtime)
    report = simulate(load, case.policy, settings, case.costs).report
    total = report.total
    return Row(
        case=case,
        bound=sum(duration for _, duration in load.jobs) / len(load.jobs),
        mean_jct=total.mean_jct_s or 0.0,
        utilization=total.utilization or 0.0,
        pauses=total.pauses,
        lost=total.lost_gpu_hours / report.gpu_hours if report.gpu_hours else 0.0,
        violation=total.guarantee_violation_s,
        breaches=report.breaches,
        wall=report.wall_s,
    )


HEADER = (
    "pool  policy      order         restart  checkpoint   mean jct    bound  x static  utilization"
    "   pauses   lost  broken  breaches   wall"
)


def line(row: Row, static: float | None) -> str:
    """A row as text."""
    case = row.case
    order = "" if case.policy is Policy.STATIC else case.order.value
    policy = "undivided" if case.undivided else case.policy.value
    every = "asked" if case.costs.checkpoint_every is None else f"{case.costs.checkpoint_every:g} s"
    ratio = f"{static / row.mean_jct:.1f}" if static and row.mean_jct else ""
    return (
        f"{case.pool:4}  {policy:10}  {order:12}  {case.costs.restart:5g} s  {every:>10}  "
        f"{row.mean_jct:9,.0f}  {row.bound:7,.0f}  {ratio:>8}  {row.utilization:11.3f}  {row.pauses:7,}  "
        f"{row.lost:5.2%}  {row.violation:4,.0f} s  {row.breaches:8}  {row.wall:4.0f} s"
    )


@click.command()
@click.option("--pool", "pools", type=int, multiple=True, default=POOLS, help="GPUs of the pool.")
@click.option("--order", "orders", type=click.Choice([order.value for order in Order]), multiple=True)
@click.option("--restart-cost", "restarts", type=float, multiple=True, default=(0.0, 60.0, 300.0))
@click.option("--checkpoint-every", "checkpoints", type=float, multiple=True, default=(1800.0,))
@click.option("--min-runtime", type=float, default=Settings().min_runtime, show_default=True)
@click.option("--generated", is_flag=True, help="Use a made-up month even where the traces are present.")
@click.option("--jobs", type=int, default=47_192, show_default=True, help="Jobs of the made-up month.")
@click.option("--processes", type=int, default=os.cpu_count(), show_default=True)
def main(
    pools: tuple[int, ...],
    orders: tuple[str, ...],
    restarts: tuple[float, ...],
    checkpoints: tuple[float, ...],
    min_runtime: float,
    *,
    generated: bool,
    jobs: int,
    processes: int,
) -> None:
    """Print the table of outcomes."""
    file = TRACES / "philly_2017_10.csv"
    trace = None if generated or not file.is_file() else str(file)
    wanted = [Order(order) for order in orders] or list(Order)
    cases: list[Case] = []
    for pool in pools:
        cases.append(Case(pool, Policy.STATIC, Order.FIRST_COME, Costs(), min_runtime, trace, jobs))
        costs = [Costs(restart) for restart in restarts]
        costs += [Costs(60.0, every) for every in checkpoints]
        cases += [
            Case(pool, Policy.GUARANTEED, order, cost, min_runtime, trace, jobs)
            for order, cost in product(wanted, costs)
        ]
        whole = Case(pool, Policy.GUARANTEED, Order.LEAST_SERVED, Costs(60.0), min_runtime, trace, jobs)
        cases.append(replace(whole, undivided=True))
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    print("made-up month" if trace is None else "philly_2017_10")
    print(HEADER)
    static: dict[int, float] = {}
    with ProcessPoolExecutor(processes) as workers:
        for row in workers.map(measure, cases):
            if row.case.policy is Policy.STATIC:
                static[row.case.pool] = row.mean_jct
            print(line(row, static.get(row.case.pool)), flush=True)


if __name__ == "__main__":
    main()
