"""The commands `springtide plan` and `springtide simulate`."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import click
from msgspec import structs

from springtide.scheduler import wording
from springtide.scheduler.forecast import Window, forecast
from springtide.scheduler.model import Order, Settings, Surplus
from springtide.scheduler.process_tuning import uncollected
from springtide.scheduler.scenario import Scenario, ScenarioError, read
from springtide.scheduler.scenario.shape import SettingsPart
from springtide.scheduler.simulate import run
from springtide.scheduler.simulate.load import Load, load_of, settings_of
from springtide.scheduler.simulate.plan_report import planned
from springtide.scheduler.simulate.report import JOB_COLUMNS, job_rows
from springtide.scheduler.simulate.run import Policy, Result
from springtide.scheduler.simulate.settle import opening
from springtide.scheduler.simulate.trace import jobs_of, parse_nodes, read_quotas, read_trace
from springtide.scheduler.simulate.virtual import Costs

BAD_INPUT = 2
COULD_NOT = 1
MOST_SECONDS = 1e12
SHOWN_BREACHES = 10


class Seconds(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A number of seconds, 0 or more; with ``positive``, more than 0."""

    name = "seconds"

    def __init__(self, *, positive: bool = False) -> None:
        self.positive = positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise a usage error for any other value."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= MOST_SECONDS or (self.positive and seconds == 0):
            self.fail(
                f"expected seconds, {'more than 0' if self.positive else '0 or more'}, got {wording.given(value)}",
                param,
                ctx,
            )
        return seconds


PATH = click.Path(path_type=Path)
JSON_OPTION = click.option("--json", "as_json_", is_flag=True, help="Print JSON, which this command always does.")


@click.command("plan")
@click.argument("files", metavar="FILE...", type=PATH, nargs=-1, required=True)
@click.option("--forecast", "forecasting", is_flag=True, help="Add when each waiting job is expected to start.")
@click.option("--placements-only", is_flag=True, help="Leave out reasons and starts_if, which take long.")
@JSON_OPTION
def plan(files: tuple[Path, ...], *, forecasting: bool, placements_only: bool, as_json_: bool) -> None:
    """Show where each scenario FILE comes to rest under the pool's policy, one JSON object per line.

    Exits 2, naming file, field and expected value, if a scenario cannot be used; the others are still shown.
    """
    del as_json_
    failed = False
    for file in files:
        with uncollected():
            try:
                scenario = read(file)
            except ScenarioError as error:
                click.echo(f"springtide plan: {error}", err=True)
                failed = True
                continue
            shown = planned(scenario, str(file), placements_only=placements_only)
        if forecasting:
            shown["forecast"] = _forecast(scenario)
        click.echo(json.dumps(shown, ensure_ascii=False))
    if failed:
        raise SystemExit(BAD_INPUT)


def _forecast(scenario: Scenario) -> dict[str, object]:
    """Return when each waiting job of the scenario starts, in seconds from the scenario's last submission."""
    snapshot = opening(scenario)
    jobs = tuple(structs.replace(job, expected=scenario.durations.get(job.id)) for job in snapshot.jobs)
    outlook = forecast(replace(snapshot, jobs=jobs))
    return {job: _from(window, snapshot.now) for job, window in outlook.starts.items()}


def _from(window: Window, now: float) -> dict[str, float | None]:
    times = {"earliest": window.earliest, "likely": window.likely, "latest": window.latest}
    return {name: None if at is None else round(at - now, 3) for name, at in times.items()}


@click.command("simulate")
@click.argument("scenario", metavar="[SCENARIO]", type=PATH, required=False)
@click.option(
    "--trace",
    type=PATH,
    help="A table submit_s,project,gpus,duration_s instead of a scenario; a column gpu_types is optional.",
)
@click.option(
    "--quotas",
    type=PATH,
    help="With --trace: a table project,quota; with a column gpu_type on a pool with several.",
)
@click.option(
    "--nodes",
    metavar="COUNTxGPUS[:TYPE]",
    help="With --trace: the nodes, such as 88x8, or 44x8:t4,44x8:a100 with the cheapest GPU type first.",
)
@click.option(
    "--order",
    type=click.Choice([order.value for order in Order]),
    help=f"The order of jobs.  [default: as the SCENARIO says, or {Settings().order}]",
)
@click.option(
    "--surplus",
    type=click.Choice([surplus.value for surplus in Surplus]),
    help="Who gets the GPUs that quotas leave.  [default: as the SCENARIO says, or fair]",
)
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in Policy]),
    default=Policy.GUARANTEED.value,
    show_default=True,
)
@click.option(
    "--restart-cost",
    type=Seconds(),
    help="How much longer each resumed attempt runs.  [default: as the SCENARIO says, or 0]",
)
@click.option(
    "--checkpoint-every",
    type=Seconds(positive=True),
    help="A pause loses what ran since the last checkpoint.  [default: jobs save when asked]",
)
@click.option(
    "--min-runtime",
    type=Seconds(),
    help="How long a started job is left alone.  [default: as the SCENARIO says, or 0]",
)
@click.option("--jobs-out", type=PATH, help="Write a table of all jobs to this file.")
@JSON_OPTION
def simulate(
    *,
    scenario: Path | None,
    trace: Path | None,
    quotas: Path | None,
    nodes: str | None,
    order: str | None,
    surplus: str | None,
    policy: str,
    restart_cost: float | None,
    checkpoint_every: float | None,
    min_runtime: float | None,
    jobs_out: Path | None,
    as_json_: bool,
) -> None:
    """Run a SCENARIO, or a trace of jobs, through virtual time and print the outcome as one JSON object."""
    del as_json_
    try:
        load, given = _load(scenario, trace, quotas, nodes)
    except ScenarioError as error:
        _fail(str(error), BAD_INPUT)
    result = run.simulate(
        load,
        Policy(policy),
        settings_of(
            load,
            given,
            order=Order(order) if order else None,
            surplus=Surplus(surplus) if surplus else None,
            min_runtime=min_runtime,
        ),
        Costs(given.restart_cost if restart_cost is None else restart_cost, checkpoint_every),
    )
    if jobs_out is not None:
        _write_jobs(jobs_out, result)
    for breach in result.breaches[:SHOWN_BREACHES]:
        click.echo(f"springtide simulate: broken promise: {breach}", err=True)
    click.echo(json.dumps(result.report.as_json(), ensure_ascii=False))


def _load(
    scenario: Path | None, trace: Path | None, quotas: Path | None, nodes: str | None
) -> tuple[Load, SettingsPart]:
    given = (trace, quotas, nodes)
    if scenario is not None:
        if any(part is not None for part in given):
            raise click.UsageError("expected either a SCENARIO or --trace, --quotas and --nodes, got both")
        return _from_scenario(scenario)
    if trace is None or quotas is None or nodes is None:
        raise click.UsageError("expected a SCENARIO, or all of --trace, --quotas and --nodes")
    try:
        machines = parse_nodes(nodes)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--nodes") from error
    projects = read_quotas(quotas, machines)
    jobs = tuple(jobs_of(read_trace(trace), projects, machines, trace))
    load = Load(machines, projects, jobs, tuple(dict.fromkeys(node.gpu_type for node in machines)))
    return load, SettingsPart()


def _from_scenario(file: Path) -> tuple[Load, SettingsPart]:
    scenario = read(file)
    for at, job in enumerate(scenario.jobs):
        if job.id not in scenario.durations:
            raise ScenarioError(str(file), f"jobs[{at}].duration", "missing, expected seconds to simulate with")
    return load_of(scenario), scenario.settings


def _write_jobs(file: Path, result: Result) -> None:
    try:
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(JOB_COLUMNS)
            writer.writerows(job_rows(result.courses))
    except OSError as error:
        _fail(f"{file}: cannot be written: {error.strerror}", COULD_NOT)


def _fail(message: str, code: int) -> Never:
    click.echo(f"springtide simulate: {message}", err=True)
    raise SystemExit(code)
