"""``springtide submit``, ``springtide advise`` and ``springtide rerun``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from springtide.hub_extension.commands.jobs import show_log, why
from springtide.hub_extension.commands.text import json_option, one_line, print_json, say, table
from springtide.scheduler import wording
from springtide.scheduler.capture import (
    Captured,
    CaptureError,
    Here,
    capture_words,
    check_kernel,
    environment_shown,
    names_notebook,
    notes_of,
    pause_words,
    submission,
    terminal_place,
    uncarried_words,
    unsent,
    with_carried,
    with_training,
)
from springtide.scheduler.client import Client, flags
from springtide.scheduler.client.descriptions import (
    HEADS,
    advice_words,
    facts,
    image_of,
    missing_words,
    placement_rows,
    prospect,
)
from springtide.scheduler.wire import Job, Submission, Surface, Wish, missing_program


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--dry-run",
    is_flag=True,
    help="Do not send it: show when it would start, what would be paused, and its environment.",
)
@click.option("-f", "--follow", is_flag=True, help="Show its log until it has ended.")
@json_option
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(*, dry_run: bool, follow: bool, as_json: bool, command: tuple[str, ...], **options: Any) -> None:
    """Send a command to the pool, such as: springtide submit --gpus 4 -- python train.py.

    Code and settings of the project are sent as they are now; data is read in place. A notebook is run from top to
    bottom; its parameters follow it: springtide submit study.ipynb -p lr 0.1.
    With --follow the exit code is 0 only if the job succeeded.
    """
    given = flags.given(options)
    here = terminal_place(Path.cwd()).for_job(given)
    captured = capture(command, here)
    with _as_usage_errors():
        request = submission(captured, given, here=here)
    if captured.kind == "notebook":
        require_kernel(captured, request)
    if dry_run:
        _say_all(notes_of(captured, request))
        print_prospect(request, captured, here, as_json=as_json)
        return
    with Client() as client:
        left = unsent(request, here, client.me().noted_variables)
        job = client.submit(request, captured.packed)
        _say_all(notes_of(captured, request))
        if left:
            say(_uncarried(left))
        if job.environment is not None and (missing := missing_words(job.environment, job.options.image)):
            say(missing)
        _print_sent(client, job, follow=follow, as_json=as_json)


submit.params[:0] = flags.flags(Surface.COMMAND)


def _say_all(notes: Sequence[str]) -> None:
    for note in notes:
        say(note)


@click.command()
@json_option
def advise(*, as_json: bool, **options: Any) -> None:
    """Compare the speed of your earlier runs of a job by GPU type, number of GPUs and nodes, and advise what pays.

    --name names the job; the other options are those of the next run. Nothing is submitted.
    """
    with Client() as client:
        advice = client.advise(Wish.of(flags.given(options)))
    if as_json:
        print_json(advice)
        return
    click.echo(one_line(advice_words(advice)))
    for line in table(tuple(head.upper() for head in HEADS), placement_rows(advice)):
        click.echo(line)


advise.params[:0] = [each for each in flags.flags(Surface.COMMAND) if each.name in Wish.__struct_fields__]


def print_prospect(request: Submission, captured: Captured, here: Here, *, as_json: bool) -> None:
    """Print when the job would start if it were sent now, and its environment.

    Raises `click.UsageError` if its program is not there.
    """
    with Client() as client:
        forecast, me = client.when(request), client.me()
        image = image_of(request.image, me.images)
        contents = None if image is None else client.image_contents(image)
    if missing := missing_program(request.environment, request.argv[0], image, request.requirements):
        raise click.UsageError(" ".join(missing))
    left = unsent(request, here, me.noted_variables)
    environment = environment_shown(request, image, contents, left)
    if left:
        say(_uncarried(left))
    pauses = pause_words(request, captured)
    if as_json:
        print_json({**msgspec.to_builtins(forecast), "environment": environment, "image": image, "pause": pauses})
        return
    click.echo(one_line(f"{prospect(forecast)} Nothing was sent."))
    click.echo(one_line(f"Pause: {pauses}"))
    for head, words in facts(environment, image):
        click.echo(one_line(f"{head}: {words}"))


def capture(command: tuple[str, ...], here: Here) -> Captured:
    """Capture the command. Raises `click.UsageError` if it cannot be sent."""
    notes: tuple[str, ...] = ()
    if names_notebook(command[0]):
        here, notes = with_training(here)
    with _as_usage_errors():
        captured = capture_words(command, here)
    return replace(captured, notes=(*captured.notes, *notes))


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    try:
        yield
    except CaptureError as error:
        raise click.UsageError(str(error)) from error


def require_kernel(captured: Captured, request: Submission) -> None:
    """Raise `click.UsageError` if the Python that runs a notebook does not have its kernel."""
    with Client() as client:
        image = image_of(request.image, client.me().images)
    with _as_usage_errors():
        check_kernel(captured, image)


def _uncarried(names: Sequence[str]) -> str:
    return uncarried_words(names, f"--carry {','.join(names)}")


def watch(client: Client, job: Job, *, as_json: bool) -> Job:
    """Show the job's log until it has ended. Ctrl-C leaves the job running."""
    if not as_json:
        say(f"{job.id} {job.name}: {job.state}. {why(job)} Ctrl-C leaves it running.")
    show_log(client, job.id, follow=True, as_json=as_json)
    return client.job(job.id)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Show its log until it has ended.")
@click.option(
    "--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="Another argument; repeat it for several."
)
@json_option
@click.argument("job_id", metavar="JOB")
def rerun(*, job_id: str, follow: bool, arguments: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Run a job of yours again, such as: springtide rerun JOB --gpus 2 --argument lr=0.1.

    Code, files and variables are those of the first run; so are the options and arguments that are not given. With
    --follow the exit code is 0 only if the job succeeded.
    """
    typed = dict(map(_pair, arguments))
    with Client() as client:
        with _as_usage_errors():
            changes = with_carried(flags.given(options), terminal_place(Path.cwd()))
        job = client.rerun(job_id, changes, typed)
        rerun_of = f"{job.rerun.text} " if job.rerun else ""
        _print_sent(client, job, follow=follow, as_json=as_json, about=rerun_of)


def _pair(text: str) -> tuple[str, str]:
    """Return the name and the value in ``NAME=VALUE``. Raises `click.UsageError`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        msg = f"--argument {wording.given(text)} has no name or no value. Write it as --argument lr=0.1."
        raise click.UsageError(msg)
    return name, value


rerun.params[:0] = flags.flags(Surface.COMMAND)


def _print_sent(client: Client, job: Job, *, follow: bool, as_json: bool, about: str = "") -> None:
    """Print a sent job; with ``follow`` wait for its end first, and exit with 1 unless it succeeded."""
    if follow:
        job = watch(client, job, as_json=as_json)
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {job.state}. {about}{why(job)}"), err=follow)
    if follow and job.state != "succeeded":
        raise click.exceptions.Exit(1)
