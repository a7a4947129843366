"""``springtide replay``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from springtide.hub_extension.commands.text import json_option, one_line, print_json
from springtide.scheduler import sentences
from springtide.scheduler.engine.state import journal
from springtide.scheduler.model import Decision, JobChanged, Move, Placement, Plan, Reserve, Snapshot, Start
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import compare_plans
from springtide.scheduler.store import StoreError, read_decision
from springtide.scheduler.store.records import DecisionRecord
from springtide.scheduler.wording import exact, given

NEWEST = "newest"
DATABASE = "springtide.sqlite"


class Replayed(msgspec.Struct, frozen=True):
    """A stored decision and its replay; ``difference`` is empty when both plans are the same."""

    decision: int
    at: float
    epoch: int
    base: int
    plan: Plan
    replayed: Plan
    same: bool
    difference: str


@click.command()
@click.argument("decision", metavar="DECISION")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("springtide-state"),
    show_default=True,
    help="State directory of the pool.",
)
@click.option("--database", help="Database URL of the pool, if it is not SQLite in the state directory.")
@json_option
def replay(*, decision: str, state_dir: Path, database: str | None, as_json: bool) -> None:
    """Plan DECISION again from its record in the pool's store, and compare the plans.

    DECISION is a number, or `newest`. The pool may be running meanwhile; nothing is changed. The exit code is 1
    if the plans differ.
    """
    wanted = _number(decision)
    try:
        records = read_decision(database or f"sqlite:///{state_dir / DATABASE}", wanted)
        replayed = replay_last(records)
    except (StoreError, ValueError) as error:
        raise click.ClickException(one_line(str(error))) from error
    if as_json:
        print_json(replayed)
    else:
        for line in lines_of(replayed, names_in(records)):
            click.echo(one_line(line) if not line.startswith(" ") else f"  {one_line(line)}")
    if not replayed.same:
        raise SystemExit(1)


def _number(decision: str) -> int | None:
    if decision == NEWEST:
        return None
    if not decision.isdecimal():
        raise click.BadParameter(f"expected a number, or {NEWEST}, got {given(decision)}", param_hint="DECISION")
    return int(decision)


def replay_last(records: list[DecisionRecord]) -> Replayed:
    """Return the last of these decisions and its replay. Raises `ValueError` for changed records."""
    record = records[-1]
    plan = journal.decode_plan(record.plan)
    again = journal.replay(records, Planner)
    differences = compare_plans(plan, again)
    said = "; ".join(breach.message for breach in differences)
    return Replayed(record.id, record.at, record.epoch, record.base, plan, again, not differences, said)


def names_in(records: list[DecisionRecord]) -> dict[str, str]:
    """Return the names of the jobs in the decisions, by id."""
    names: dict[str, str] = {}
    for record in records:
        if record.snapshot is not None:
            snapshot = msgspec.json.decode(record.snapshot, type=Snapshot)
            names |= {job.id: job.name for job in snapshot.jobs}
        changes = journal.decode_changes(record.changes)
        names |= {change.job.id: change.job.name for change in changes if isinstance(change, JobChanged)}
    return names


def lines_of(replayed: Replayed, names: dict[str, str]) -> Iterator[str]:
    """Yield the printed lines."""
    when = exact(replayed.at)
    yield f"Decision {replayed.decision} of {when}, made on the snapshot of decision {replayed.base}:"
    for decision in replayed.plan.decisions:
        yield f"  {_one(decision, names)}"
    if not replayed.plan.decisions:
        yield "  nothing to do"
    yield (
        f"The replay differs: {replayed.difference}." if replayed.difference else "The replay makes the same plan."
    )


def _one(decision: Decision, names: dict[str, str]) -> str:
    where = _where(decision.placement) if isinstance(decision, Start | Move | Reserve) else ""
    name = names.get(decision.job) or decision.job
    return f"{type(decision).__name__.lower()} {name}{where}: {sentences.text(decision.reason)}"


def _where(placement: Placement) -> str:
    gpus = sum(len(worker.gpus) for worker in placement)
    return (
        f" on {gpus} GPU{'' if gpus == 1 else 's'} of {', '.join(sorted({worker.node for worker in placement}))}"
    )
