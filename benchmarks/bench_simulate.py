"""Comparison of the pool's policy with static quotas on a month of jobs: the table of outcomes.

    python benchmarks/bench_simulate.py                     # every pool, order and restart cost
    python benchmarks/bench_simulate.py --pool 520 --restart-cost 60
    python benchmarks/bench_simulate.py --pool 520 --made-up gangs --jobs 40000

It uses the traces in ../shared/traces if they are present, and otherwise a month of jobs of `made_up_months`.
The bound is the mean run time, which is the best possible result of any scheduler. The rows "undivided" put all
jobs into one project that owns the pool: the difference is the cost of quotas and of a fair share by weight.
"""

from __future__ import annotations

import os
import platform
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import click
from made_up_months import MIXES, made_up
from msgspec import structs

from springtide.scheduler.model import Order, Project, Settings
from springtide.scheduler.simulate import Costs, Load, Policy, simulate
from springtide.scheduler.simulate.trace import jobs_of, parse_nodes, read_quotas, read_trace

TRACES = Path(__file__).parents[2] / "shared" / "traces"
TRACE = TRACES / "philly_2017_10.csv"
POOLS = (704, 520, 376)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table. ``source`` is the file of a trace, or the name of a made-up mix of ``jobs`` jobs."""

    pool: int
    policy: Policy
    order: Order
    costs: Costs
    min_runtime: float
    source: str
    jobs: int
    undivided: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a case."""

    case: Case
    bound: float
    mean_jct: float
    utilization: float
    pauses: int
    lost: float
    violation: float
    breaches: int
    wall: float


def load_of(case: Case) -> Load:
    """Return the jobs of a case."""
    load = projects_load_of(case)
    if not case.undivided:
        return load
    jobs = tuple((structs.replace(job, project="all"), duration) for job, duration in load.jobs)
    return Load(load.nodes, (Project("all", quota=case.pool),), jobs)


def projects_load_of(case: Case) -> Load:
    """Return the jobs of a case, in their projects."""
    if case.source in MIXES:
        return made_up(MIXES[case.source], case.pool, case.jobs)
    trace = Path(case.source)
    nodes = parse_nodes(f"{case.pool // 8}x8")
    projects = read_quotas(TRACES / f"philly_quotas_{case.pool}.csv", nodes)
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
    """Return a row as text."""
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
@click.option(
    "--made-up", "mix", type=click.Choice(list(MIXES)), help="Use a made-up month with this mix of jobs."
)
@click.option("--jobs", type=int, default=47_192, show_default=True, help="Jobs of the made-up month.")
@click.option("--processes", type=int, default=os.cpu_count(), show_default=True)
def main(
    pools: tuple[int, ...],
    orders: tuple[str, ...],
    restarts: tuple[float, ...],
    checkpoints: tuple[float, ...],
    min_runtime: float,
    *,
    mix: str | None,
    jobs: int,
    processes: int,
) -> None:
    """Print the table of outcomes."""
    source = mix or (str(TRACE) if TRACE.is_file() else "mostly-short")
    wanted = [Order(order) for order in orders] or list(Order)
    cases: list[Case] = []
    for pool in pools:
        cases.append(Case(pool, Policy.STATIC, Order.FIRST_COME, Costs(), min_runtime, source, jobs))
        costs = [Costs(restart) for restart in restarts]
        costs += [Costs(60.0, every) for every in checkpoints]
        cases += [
            Case(pool, Policy.GUARANTEED, order, cost, min_runtime, source, jobs)
            for order, cost in product(wanted, costs)
        ]
        if source != "gangs-on-two-types":
            whole = Case(pool, Policy.GUARANTEED, Order.LEAST_SERVED, Costs(60.0), min_runtime, source, jobs)
            cases.append(replace(whole, undivided=True))
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    print(Path(source).stem)
    print(HEADER)
    static: dict[int, float] = {}
    with ProcessPoolExecutor(processes) as workers:
        for row in workers.map(measure, cases):
            if row.case.policy is Policy.STATIC:
                static[row.case.pool] = row.mean_jct
            print(line(row, static.get(row.case.pool)), flush=True)


if __name__ == "__main__":
    main()
