"""``springtide what-if``."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from springtide.hub_extension.commands.interventions import NO_VALUE as NO_BOUND
from springtide.hub_extension.commands.interventions import Amount
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, say
from springtide.hub_extension.commands.times import LastMoment, Moment
from springtide.scheduler.client import Client
from springtide.scheduler.model import Order, Surplus
from springtide.scheduler.wire import (
    MoreNodes,
    PastChanges,
    PastComparison,
    PastFigures,
    PastOutcome,
    PastRun,
    PastWhatIf,
)
from springtide.scheduler.wire.durations import EXAMPLES, seconds
from springtide.scheduler.wording import amount, duration, given, money, with_offset

INTERVAL = 0.5
"""Seconds between two questions about how far it is."""
DAY = 86_400.0
LONGEST_DAYS = 400
"""Longest past that can be asked about, in days."""
NODES = re.compile(r"^(?P<type>.*)=(?P<count>[+-]?\d+)(?:x(?P<gpus>\d+))?$")
OTHERS = "(others)"


class Duration(click.ParamType[float]):
    """A duration as people write it, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds, or fail with the given text and examples."""
        try:
            return seconds(value)
        except ValueError:
            self.fail(f"{given(value)} is no duration such as {EXAMPLES}.", param, ctx)


class NodesOfType(click.ParamType[tuple[str, MoreNodes]]):
    """Nodes of a GPU type, such as ``a100=+2``, ``t4=-1``, or ``h100=+2x8`` with the GPUs of each."""

    name = "nodes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, MoreNodes]:
        """Return the type and the nodes, or fail with the given text and examples."""
        match = NODES.match(value) if isinstance(value, str) else None
        if match is None:
            self.fail(f"{given(value)} is not like a100=+2, t4=-1 or h100=+2x8.", param, ctx)
        gpus = match["gpus"]
        return match["type"], MoreNodes(count=int(match["count"]), gpus=int(gpus) if gpus else None)


class AmountOfProject(click.ParamType[tuple[str, Any]]):
    """GPUs of a project, such as ``vision=12`` or ``vision=a100=4,t4=8``."""

    name = "quota"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Return the project and the amount, or fail with the given text and examples."""
        project, sign, text = str(value).partition("=")
        if not sign:
            self.fail(f"{given(value)} is not like vision=12 or vision=a100=4,t4=8.", param, ctx)
        found = Amount().convert(text, param, ctx)
        return project, None if found == NO_BOUND else found


@click.command("what-if")
@click.option("--last", type=Duration(), metavar="TIME", help="How long a past, such as 30d.  [default: 30d]")
@click.option("--from", "start", type=Moment(), metavar="TIME", help="Its beginning, such as 2026-01-31.")
@click.option(
    "--to",
    "end",
    type=LastMoment(),
    metavar="TIME",
    help="Its end; a day is part of it.  [default: the last full ten minutes]",
)
@click.option(
    "--nodes",
    type=NodesOfType(),
    multiple=True,
    metavar="TYPE=+N",
    help="More or fewer nodes; of a new type +NxGPUS.",
)
@click.option("--quota", type=AmountOfProject(), multiple=True, metavar="PROJECT=N", help="Another quota.")
@click.option("--limit", type=AmountOfProject(), multiple=True, metavar="PROJECT=N", help="Another limit.")
@click.option("--order", type=click.Choice([order.value for order in Order]), help="Another order of jobs.")
@click.option("--surplus", type=click.Choice([each.value for each in Surplus]), help="Another rule for idle GPUs.")
@click.option("--min-runtime", type=Duration(), metavar="TIME", help="Another minimum run time of started jobs.")
@json_option
def what_if(
    *,
    last: float | None,
    start: float | None,
    end: float | None,
    nodes: tuple[tuple[str, MoreNodes], ...],
    quota: tuple[tuple[str, Any], ...],
    limit: tuple[tuple[str, Any], ...],
    order: str | None,
    surplus: str | None,
    min_runtime: float | None,
    as_json: bool,
) -> None:
    """Simulate the recorded past with another pool, beside the pool as it was.

    For admins of the pool; admins of projects ask about quotas and limits of theirs. Ctrl+C cancels.
    """
    if last is not None and start is not None:
        raise click.UsageError("expected --last or --from, got both")
    if last is not None and not 0 < last <= LONGEST_DAYS * DAY:
        message = f"expected more than 0 s and at most {LONGEST_DAYS} days, got {duration(last)}"
        raise click.BadParameter(message, param_hint="--last")
    changes = PastChanges(
        nodes=dict(nodes),
        quota=dict(quota),
        limit=dict(limit),
        order=None if order is None else Order(order),
        surplus=None if surplus is None else Surplus(surplus),
        min_runtime=min_runtime,
    )
    question = PastWhatIf(changes=changes, days=30.0 if last is None else last / DAY, start=start, end=end)
    with Client() as client:
        run = _followed(client, client.past_what_if(question), quiet=as_json)
    if run.comparison is None:
        raise click.ClickException(run.why or "The calculation was cancelled by another question of yours.")
    if as_json:
        print_json(run)
    else:
        _show(run.comparison)


def _followed(client: Client, run: PastRun, *, quiet: bool) -> PastRun:
    """Return the calculation once it has ended, and show how far it is; cancel it on an interruption."""
    shows = not quiet and sys.stderr.isatty()
    try:
        while run.state in {"waiting", "running"}:
            time.sleep(INTERVAL)
            run = client.past_run(run.id)
            if shows:
                click.echo(f"\rSimulating the past: {run.progress:4.0%}", nl=False, err=True)
    except KeyboardInterrupt:
        client.cancel_past_run(run.id)
        raise
    finally:
        if shows:
            click.echo(err=True)
    return run


def _show(found: PastComparison) -> None:
    click.echo(
        f"From {with_offset(found.start)} to {with_offset(found.end)}, simulated: the pool as it was →"
        " as it would have been."
    )
    if found.difference:
        click.echo(one_line(f"The other pool: {'; '.join(found.difference)}."))
    click.echo(found.headline)
    click.echo("")
    cost = f"COST {found.currency}".strip()
    header = ("PROJECT", "WAIT 50 %", "WAIT 95 %", "FINISHED", "GPU h", "UTILISATION", "PAUSES", "LOST h", cost)
    print_table(header, _rows(found.unchanged, found.changed), empty="No jobs.")
    click.echo("")
    click.echo("The record → the pool as it was, simulated:")
    print_table(header, _rows(found.recorded, found.unchanged), empty="No jobs.")
    for note in filter(None, (found.deviation, *found.notes)):
        say(note)
    if found.simulated:
        say("GPUs are simulated.")


def _rows(before: PastOutcome, after: PastOutcome) -> Iterator[tuple[str, ...]]:
    for name in after.projects:
        yield _row(name, before.projects[name], after.projects[name])
    if before.others is not None and after.others is not None:
        yield _row(OTHERS, before.others, after.others)
    yield _row("POOL", before.total, after.total)


def _row(name: str, before: PastFigures, after: PastFigures) -> tuple[str, ...]:
    def pair(field: str, words: Any = amount) -> str:
        was, now = getattr(before, field), getattr(after, field)
        shown = ["-" if each is None else words(each) for each in (was, now)]
        return shown[0] if shown[0] == shown[1] else " → ".join(shown)

    return (
        name,
        pair("wait_p50_s", duration),
        pair("wait_p95_s", duration),
        pair("finished"),
        pair("gpu_hours", lambda hours: amount(round(hours, 1))),
        pair("utilization", lambda part: f"{part:.1%}"),
        pair("pauses"),
        pair("lost_gpu_hours", lambda hours: amount(round(hours, 1))),
        pair("cost", money),
    )
