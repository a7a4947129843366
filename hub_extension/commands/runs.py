"""``springtide runs export``: jobs with their arguments and metrics for other tools."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from springtide.hub_extension.commands.jobs import check_choice, filter_options, is_filtered
from springtide.hub_extension.commands.missing_extras import remedy
from springtide.hub_extension.commands.text import json_option, one_line, print_json, say
from springtide.hub_extension.tracking.tracker import (
    NotTakenError,
    Tracker,
    TrackerDownError,
    record,
    server_address,
)
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.client.descriptions import none_matches
from springtide.scheduler.wire import Job, Point
from springtide.scheduler.wire.run_table import csv_of
from springtide.scheduler.wording import amount, count, given

MLFLOW_URI: Final = "MLFLOW_TRACKING_URI"
NOT_FOUND: Final = 404
"""Status of the refusal of an unknown or deleted job."""


class Exported(Struct, frozen=True, kw_only=True):
    """A job that was exported: the number of its reports that were added, or why it was not."""

    id: str
    name: str
    reports: int = 0
    problem: str = ""

    @property
    def text(self) -> str:
        """Return the result in words."""
        if self.problem:
            named = "" if given(self.id) in self.problem else f"{f'{self.id} {self.name}'.strip()}: "
            return f"{named}left out: {self.problem}."
        return f"{self.id} {self.name}: {count(self.reports, 'report')} added."


@click.group()
def runs() -> None:
    """Export runs: jobs with their arguments and metrics."""


@runs.command()
@click.argument("job_ids", metavar="[JOB...]", nargs=-1)
@filter_options
@click.option(
    "--to", "tool", type=click.Choice(["csv", "mlflow", "wandb"]), required=True, help="What they are for."
)
@click.option(
    "--into",
    help="The file of CSV, the address of the MLflow server, or the folder for W&B.  "
    "[default: standard output, MLFLOW_TRACKING_URI, the working directory]",
)
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Maximum number of jobs.")
@json_option
def export(
    *, job_ids: tuple[str, ...], tool: str, into: str | None, limit: int, as_json: bool, **filters: Any
) -> None:
    """Export jobs for other tools: springtide runs export --mine --tag paper --to mlflow.

    For MLflow and W&B a sweep means its trials, and each job is exported once: a second export adds only the
    reports that are new. An MLflow server that asks for credentials gets those of MLFLOW_TRACKING_USERNAME and
    MLFLOW_TRACKING_PASSWORD, or of MLFLOW_TRACKING_TOKEN. Later `wandb sync` sends the runs of the folder.
    """
    check_choice(job_ids, "--mine, --project, --tag, --where and the other options", chosen=is_filtered(filters))
    if tool == "csv" and as_json:
        msg = "--json is for MLflow and W&B; programs read CSV, or `springtide jobs --json`."
        raise click.UsageError(msg)
    if tool == "csv":
        with Client() as client:
            text = csv_of(list(_chosen(client, job_ids, filters, limit)), time.time())
        _write(text, into)
        return
    with Client() as client:
        tracker = _mlflow(into, os.environ) if tool == "mlflow" else _wandb(into)
        found = asyncio.run(_export(client, tracker, _wanted(client, job_ids, filters, limit), as_json=as_json))
    if not found and not as_json:
        click.echo(none_matches(filters) or "No job matches.")
    if left := sum(bool(each.problem) for each in found):
        raise click.ClickException(f"{amount(left)} of {count(len(found), 'job')} left out.")


def _chosen(client: Client, job_ids: Sequence[str], filters: Mapping[str, Any], limit: int) -> Iterator[Job]:
    """Yield the jobs that are named, or those that the options choose."""
    if job_ids:
        for job_id in dict.fromkeys(job_ids):
            yield client.job(job_id)
    else:
        yield from islice(client.all_jobs(**filters), limit)


def _write(text: str, file: str | None) -> None:
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        msg = f"--into {one_line(file)} cannot be written: {error.strerror}."
        raise click.ClickException(msg) from error


def _mlflow(into: str | None, environment: Mapping[str, str]) -> Tracker:
    """Return the MLflow server. Its address is in no message: it may have a password."""
    from springtide.hub_extension.tracking.mlflow import Mlflow  # noqa: PLC0415 - only if it is asked for

    source, text = (MLFLOW_URI, environment.get(MLFLOW_URI, "")) if into is None else ("--into", into)
    if not text:
        msg = f"Name the MLflow server: --into https://mlflow.example.org:5000, or set {MLFLOW_URI}."
        raise click.UsageError(msg)
    if server_address(text) is None:
        msg = (
            f"{source} is no address of an MLflow server, such as https://mlflow.example.org:5000. For a database "
            "or a folder start a server: mlflow server --backend-store-uri sqlite:///mlflow.db"
        )
        raise click.UsageError(msg)
    address = text.rstrip("/")
    user, password = (environment.get(f"MLFLOW_TRACKING_{name}", "") for name in ("USERNAME", "PASSWORD"))
    credentials = f"{user}:{password}" if user else environment.get("MLFLOW_TRACKING_TOKEN", "")
    return Mlflow(address, address, credentials, trust_env=True)


def _wandb(into: str | None) -> Tracker:
    """Return the folder of offline runs."""
    try:
        from springtide.hub_extension.tracking.wandb import WandbFolder  # noqa: PLC0415 - its extra
    except ModuleNotFoundError as error:
        if error.name != "wandb":
            raise
        how = remedy("runs export --to wandb …", "wandb")
        msg = f"--to wandb needs wandb, which is not installed: {how}"
        raise click.ClickException(msg) from error
    folder = Path(into or ".")
    try:
        return WandbFolder(folder)
    except OSError as error:
        msg = f"--into {one_line(str(folder))} is no folder that can be written to: {error.strerror}."
        raise click.ClickException(msg) from error


async def _export(
    client: Client, tracker: Tracker, wanted: Iterator[Job | Exported], *, as_json: bool
) -> list[Exported]:
    """Export jobs one after another, and print each result. A job that is left out does not keep the others."""
    found = []
    try:
        for each in wanted:
            done = each if isinstance(each, Exported) else await _exported(client, tracker, each)
            if as_json:
                print_json(done)
            else:
                (say if done.problem else click.echo)(one_line(done.text))
            found.append(done)
    except TrackerDownError as error:
        msg = f"{tracker.name} takes nothing: {error}. Run the command again later: nothing is exported twice."
        raise click.ClickException(msg) from error
    finally:
        await tracker.close()
    return found


def _wanted(
    client: Client, job_ids: Sequence[str], filters: Mapping[str, Any], limit: int
) -> Iterator[Job | Exported]:
    """Yield the jobs that are named or chosen, trials for a sweep; for one that is gone why it is left out."""
    if not job_ids:
        for job in _chosen(client, job_ids, filters, limit):
            yield from _with_trials(client, job)
        return
    for job_id in dict.fromkeys(job_ids):
        try:
            job = client.job(job_id)
        except PoolError as error:
            yield _gone(job_id, "", error)
        else:
            yield from _with_trials(client, job)


def _with_trials(client: Client, job: Job) -> Iterator[Job | Exported]:
    if job.trials is None:
        yield job
        return
    try:
        yield from client.all_jobs(sweep=job.id)
    except PoolError as error:
        yield _gone(job.id, job.name, error)


def _gone(job_id: str, name: str, error: PoolError) -> Exported:
    """Return that a job was left out since the pool has it no more. Raises any other refusal."""
    if error.status != NOT_FOUND:
        raise error
    return Exported(id=job_id, name=name, problem=error.problem.message.rstrip("."))


async def _exported(client: Client, tracker: Tracker, job: Job) -> Exported:
    """Export a job; raises `TrackerDownError`."""

    async def reports(after: int) -> Sequence[Point]:
        return client.points(job.id, after=after).items

    try:
        written = await record(await tracker.open(job), job, reports)
    except NotTakenError as error:
        return Exported(id=job.id, name=job.name, problem=str(error).rstrip("."))
    except PoolError as error:
        return _gone(job.id, job.name, error)
    return Exported(id=job.id, name=job.name, reports=written)
