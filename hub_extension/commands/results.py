"""``springtide wait``, ``result``, ``outputs``, ``download``: the outcome of jobs, for people, scripts and CI."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import click
import msgspec

from springtide.hub_extension.commands.jobs import why
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, printable
from springtide.scheduler.arguments import file_run
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.client.descriptions import ended_without_return, state_words
from springtide.scheduler.file_names import listed_name, name_among, real_name, shown_name
from springtide.scheduler.model import JobState
from springtide.scheduler.wire import Job, durations
from springtide.scheduler.wire.jobs import RESULT_FILE
from springtide.scheduler.wording import LONG_GIVEN, ago, exactly, given, size

LOOK_EVERY_S = 30.0
"""Interval of polling a job without events, in seconds: an event stream may not get through."""
TIME_IS_OVER = 124
"""Exit code of a wait that timed out, as that of ``timeout`` of the coreutils."""


PATIENCE_S = 60.0
"""Maximum time to wait for a pool that does not answer, in seconds: its service may restart."""
NOT_FOUND = 404
MAX_DIGITS = 100_000
"""Maximum number of digits of a number in a result that is printed."""
MAX_SHOWN = 40
"""Maximum length of a number in a message, in characters."""
NO_JSON = "what it returned is no JSON value. In Python pool.job(…).result() returns it."
NO_FILE = f"it has left no {RESULT_FILE}. `springtide outputs` lists what it left."


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
    jobs = _wait(job_ids, timeout)
    for job in jobs:
        if as_json:
            print_json(job)
        else:
            click.echo(one_line(f"{job.id} {job.name}: {state_words(job)}. {why(job)}"))
    _check_time(jobs, timeout)
    sys.exit(0 if all(job.state == JobState.SUCCEEDED for job in jobs) else 1)


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("--timeout", type=Duration(), help="Longest time to wait for its end, such as 90 or 10m.")
@json_option
def result(*, job_id: str, timeout: float | None, as_json: bool) -> None:
    """Print the result of a job, once it has ended, as JSON; text as it is, unless --json is given.

    The result is the return value of a function, the executed notebook, the best trial of a sweep, or the file
    result.json that a command wrote to its output directory. Exits with 1 if the job failed, was cancelled or
    has no result, and with 124 if the time was over first.
    """
    (job,) = jobs = _wait([job_id], timeout)
    _check_time(jobs, timeout)
    if job.state != JobState.SUCCEEDED:
        msg = one_line(f"{job.id} {job.name}: {state_words(job)}. {why(job)}")
        raise click.ClickException(msg)
    value = _result(job)
    click.echo(printed(value, as_json=as_json))


def printed(value: Any, *, as_json: bool) -> str:
    """Return a result as it is printed: JSON, or a text as it is unless it has parts of characters."""
    is_plain = isinstance(value, str) and not as_json and _is_text(value)
    if is_plain:
        return printable(value)
    with _long_numbers():
        return json.dumps(value)


def _result(job: Job) -> Any:
    """Return a succeeded job's result as plain data. Raises `click.ClickException` if it has none."""
    if job.trials is not None:
        if job.trials.best is None:
            lacks = "has a value" if job.trials.goal else "is compared with others"
            msg = f"No trial of {job.id} {lacks}, so none is the best: `springtide jobs --sweep {job.id}`."
            raise click.ClickException(msg)
        return msgspec.to_builtins(job.trials.best)
    name = file_run(job.argv) if job.kind == "notebook" else RESULT_FILE
    try:
        with Client() as client:
            return read(client.output(job.id, name))
    except NumberError as error:
        msg = (
            f"{name} of {job.id} has {error}, which is not printed: `springtide download {job.id} {name}` saves "
            "it as it is."
        )
        raise click.ClickException(msg) from None
    except ValueError:
        msg = f"{name} of {job.id} is no JSON: `springtide download {job.id} {name}` saves it as it is."
        raise click.ClickException(msg) from None
    except PoolError as error:
        if error.status != NOT_FOUND:
            raise
        missing = NO_FILE if job.kind == "command" else why(job) if ended_without_return(job) else NO_JSON
        raise click.ClickException(one_line(f"{job.id} {job.name}: {missing}")) from None


def _is_text(value: str) -> bool:
    """Return whether a text has whole characters alone; JSON writes parts of characters too."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class NumberError(ValueError):
    """A number that is not printed; the message says which."""


def read(content: bytes) -> Any:
    """Return the value of a text of JSON. Raises `ValueError` for another text, and `NumberError`."""
    with _long_numbers():
        return json.loads(content, parse_int=_whole, parse_float=_finite)


@contextmanager
def _long_numbers() -> Iterator[None]:
    """Read and write whole numbers of up to `MAX_DIGITS` digits, more than Python does by itself."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise NumberError(f"a number of {len(digits):,} digits")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NumberError(f"the number {given(text, MAX_SHOWN)}, which is larger than all floats")
    return number


def _wait(job_ids: Sequence[str], timeout: float | None) -> list[Job]:
    """Return the jobs as they are once all have ended, or after ``timeout`` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with Client(patience=PATIENCE_S if timeout is None else min(PATIENCE_S, timeout)) as client:
        return [ended(client, job_id, deadline) for job_id in job_ids]


def _check_time(jobs: Sequence[Job], timeout: float | None) -> None:
    """Exit with `TIME_IS_OVER` if not all jobs have ended."""
    if not all(JobState(job.state).final for job in jobs):
        click.echo(f"After {exactly(timeout or 0.0)} not all have ended. They continue.", err=True)
        sys.exit(TIME_IS_OVER)


def ended(client: Client, job_id: str, deadline: float | None) -> Job:
    """Return a job once it has ended, or as it is when the deadline, of the monotonic clock, has come."""
    return awaited(client, job_id, deadline, lambda job: JobState(job.state).final)


def awaited(client: Client, job_id: str, deadline: float | None, is_there: Callable[[Job], bool]) -> Job:
    """Return a job once it ``is_there``, or as it is when the deadline, of the monotonic clock, has come."""
    job = client.job(job_id)
    if is_there(job):
        return job
    with _changes_of(job_id) as changed:
        while True:
            left = LOOK_EVERY_S if deadline is None else min(LOOK_EVERY_S, deadline - time.monotonic())
            if is_there(job) or left <= 0:
                return job
            changed.wait(left)
            changed.clear()
            job = client.job(job_id)


@contextmanager
def _changes_of(job_id: str) -> Iterator[threading.Event]:
    """Yield an event that the pool's stream sets, with a job's first state and at each change."""
    changed, stop = threading.Event(), threading.Event()

    def follow() -> None:
        with suppress(PoolError), Client() as client:  # the next request is refused as well
            for event in client.events(job_id, stop=stop):
                if event.kind in {"job", "refetch"}:
                    changed.set()

    threading.Thread(target=follow, name="events", daemon=True).start()
    try:
        yield changed
    finally:
        stop.set()


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
def outputs(*, job_id: str, as_json: bool) -> None:
    """List the output files of a job."""
    with Client() as client:
        listed = client.outputs(job_id)
    if as_json:
        print_json(listed)
        return
    now = time.time()
    rows = [(listed_name(file.name), size(file.size), ago(file.written, now)) for file in listed.items]
    print_table(("FILE", "SIZE", "WRITTEN"), rows, empty="The job has left no files.")
    if listed.more:
        click.echo("There are more, which are not listed.")
    for opener in listed.openers:
        words = f"{opener.tool}, in {opener.folder}: springtide download {job_id}, then {opener.command}"
        click.echo(one_line(words))


@click.command()
@click.argument("job_id", metavar="JOB")
@click.argument("names", metavar="[FILE...]", nargs=-1)
@click.option(
    "--to",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    default=Path(),
    help="Directory for the files, which is made if it is not there.  [default: the current one]",
)
@json_option
def download(*, job_id: str, names: tuple[str, ...], to: Path, as_json: bool) -> None:
    """Save the output files of a job, all unless some are named, by their paths in its output directory.

    Of a folder all files are saved. Names in quotes, as the list of outputs shows odd ones, are understood.
    """
    with Client() as client:
        saved = []
        for name in _files(client, job_id, names):
            saved.append(shown_name(str(_saved(client, job_id, name, to))))
            if not as_json:
                click.echo(listed_name(saved[-1]))
    if as_json:
        print_json({"files": saved})


def _files(client: Client, job_id: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the names of all files, or of those that are named and those in folders that are named."""
    listed = client.outputs(job_id)
    files = [file.name for file in listed.items]
    names = [name_among(name, files) for name in names]
    for name in names:
        _inside(name)
    folders = {name: [file for file in files if file.startswith(f"{name.rstrip('/')}/")] for name in names}
    if listed.more and (not names or any(folders.values())):
        click.echo("There are more files than are listed: name those that are missing.", err=True)
    if not names:
        yield from files
    for name in names:
        yield from folders[name] or [name]


def _inside(name: str) -> PurePosixPath:
    """Return a path that stays in the directory it is put into. Raises `click.UsageError`."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        msg = (
            f"{given(name, LONG_GIVEN)} is no file of a job: expected a path in its output directory, such as "
            "model.pt. The option --to names the directory to save it in."
        )
        raise click.UsageError(msg)
    return path


def _saved(client: Client, job_id: str, name: str, to: Path) -> Path:
    """Save a file below ``to`` and return its path. Raises `click.ClickException` if that is not possible."""
    target = to / real_name(str(_inside(name)))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return client.download(job_id, name, target)
    except OSError as error:
        msg = (
            f"{given(name, LONG_GIVEN)} could not be saved in {given(str(to), LONG_GIVEN)}: {error.strerror}. "
            "Name another directory with --to."
        )
        raise click.ClickException(msg) from error
