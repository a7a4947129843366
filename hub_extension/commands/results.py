"""``springtide wait``, ``outputs`` and ``download``: what became of jobs, for people, scripts and CI."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import click

from springtide.hub_extension.commands.jobs import why
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.model import JobState
from springtide.scheduler.wire import Job, durations
from springtide.scheduler.wording import ago, exactly, size

LOOK_EVERY_S = 30.0
"""Time after which a job is looked at although no event tells of it, in seconds: streams may not get through."""
TIME_IS_OVER = 124
"""Exit code of a wait whose time is over, as that of ``timeout`` of the coreutils."""


class Duration(click.ParamType[float]):
    """A duration: seconds, or text such as ``10m``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        try:
            return durations.seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.option("--timeout", type=Duration(), help="Longest time to wait for all of them, such as 90 or 10m.")
@json_option
def wait(*, job_ids: tuple[str, ...], timeout: float | None, as_json: bool) -> None:
    """Wait until jobs have ended.

    Exits with 0 if all succeeded, with 1 if one failed or was cancelled, and with 124 if the time was over first.
    Interrupting it ends the waiting only.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with Client() as client:
        jobs = [_ended(client, job_id, deadline) for job_id in job_ids]
    for job in jobs:
        if as_json:
            print_json(job)
        else:
            click.echo(one_line(f"{job.id} {job.name}: {job.state}. {why(job)}"))
    if not all(JobState(job.state).final for job in jobs):
        click.echo(f"After {exactly(timeout or 0.0)} not all have ended. They go on.", err=True)
        sys.exit(TIME_IS_OVER)
    sys.exit(0 if all(job.state == JobState.SUCCEEDED for job in jobs) else 1)


def _ended(client: Client, job_id: str, deadline: float | None) -> Job:
    """Return a job once it has ended, or as it is when the deadline, of the monotonic clock, has come."""
    job = client.job(job_id)
    if JobState(job.state).final:
        return job
    with _told_of(job_id) as told:
        while True:
            left = LOOK_EVERY_S if deadline is None else min(LOOK_EVERY_S, deadline - time.monotonic())
            if JobState(job.state).final or left <= 0:
                return job
            told.wait(left)
            told.clear()
            job = client.job(job_id)


@contextmanager
def _told_of(job_id: str) -> Iterator[threading.Event]:
    """Have an event that is set when the pool's stream tells of a job, how it is at first and then each change."""
    told, stop = threading.Event(), threading.Event()

    def follow() -> None:
        with suppress(PoolError), Client() as client:  # what is refused, the next look is refused as well
            for event in client.events(job_id, stop=stop):
                if event.kind in {"job", "refetch"}:
                    told.set()

    threading.Thread(target=follow, name="events", daemon=True).start()
    try:
        yield told
    finally:
        stop.set()


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
def outputs(*, job_id: str, as_json: bool) -> None:
    """List the files that a job left."""
    with Client() as client:
        listed = client.outputs(job_id)
    if as_json:
        print_json(listed)
        return
    now = time.time()
    rows = [(file.name, size(file.size), ago(file.written, now)) for file in listed.items]
    print_table(("FILE", "SIZE", "WRITTEN"), rows, empty="The job has left no files.")
    if listed.more:
        click.echo("There are more, which are not listed.")


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("names", metavar="[FILE...]", nargs=-1)
@click.option(
    "--to",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=Path(),
    help="Directory for the files.  [default: the present one]",
)
def download(*, job_id: str, names: tuple[str, ...], to: Path) -> None:
    """Save files that a job left, all of them unless some are named, in the directories that they had there."""
    with Client() as client:
        for name in names or _all_names(client, job_id):
            click.echo(one_line(str(_saved(client, job_id, name, to))))


def _all_names(client: Client, job_id: str) -> Sequence[str]:
    listed = client.outputs(job_id)
    if listed.more:
        click.echo("There are more files than are listed: name those that are missing.", err=True)
    return [file.name for file in listed.items]


def _inside(name: str) -> PurePosixPath:
    """Return a path that stays in the directory it is put into. Raises `click.UsageError`."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        msg = f"{name!r} is no file of a job: expected a path in its output directory, such as model.pt."
        raise click.UsageError(msg)
    return path


def _saved(client: Client, job_id: str, name: str, to: Path) -> Path:
    """Save a file below ``to`` and return its path. Raises `click.ClickException` if that is not possible."""
    target = to / _inside(name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return client.download(job_id, name, target)
    except OSError as error:
        msg = f"{name!r} could not be saved in {str(to)!r}: {error.strerror}. Name another directory with --to."
        raise click.ClickException(msg) from error
