"""``springtide submit``, ``springtide advise`` and ``springtide rerun``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from springtide.hub_extension.commands.jobs import show_log, why
from springtide.hub_extension.commands.sending import Prepared, prepared
from springtide.hub_extension.commands.text import json_option, one_line, print_json, say, table
from springtide.scheduler import wording
from springtide.scheduler.capture import (
    CaptureError,
    terminal_place,
    uncarried_words,
    with_carried,
    working_directory,
)
from springtide.scheduler.client import Client, flags
from springtide.scheduler.client.descriptions import (
    HEADS,
    advice_words,
    facts,
    placement_rows,
    prospect,
    state_words,
)
from springtide.scheduler.wire import Job, Surface, Wish


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
    with as_usage_errors():
        work = prepared(command, flags.given(options), working_directory())
    if dry_run:
        _say_all(work.notes_beside_prospect)
        print_prospect(work, as_json=as_json)
        return
    with Client() as client:
        sent = work.send(client)
        _say_all([*work.notes, _uncarried(sent.unsent), sent.missing])
        print_sent(client, sent.job, follow=follow, as_json=as_json)


submit.params[:0] = flags.flags(Surface.COMMAND)


def _say_all(notes: Iterable[str]) -> None:
    for note in filter(None, notes):
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


def print_prospect(work: Prepared, *, as_json: bool) -> None:
    """Print when the job would start if it were sent now, and its environment.

    Raises `click.UsageError` if its program is not there.
    """
    with as_usage_errors(), Client() as client:
        found = work.prospect(client)
    _say_all([_uncarried(found.unsent)])
    environment, image = found.environment, found.image
    if as_json:
        shown = {"environment": environment, "image": image, "pause": found.pause}
        print_json({**msgspec.to_builtins(found.forecast), **shown})
        return
    click.echo(one_line(f"{prospect(found.forecast)} Nothing was sent."))
    click.echo(one_line(f"Pause: {found.pause}"))
    for head, words in facts(msgspec.structs.replace(environment, unsent=[]), image):
        click.echo(one_line(f"{head}: {words}"))


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Raise `click.UsageError` for work that cannot be captured."""
    try:
        yield
    except CaptureError as error:
        raise click.UsageError(str(error)) from error


def _uncarried(names: Sequence[str]) -> str:
    return uncarried_words(names, f"--carry {','.join(names)}")


def watch(client: Client, job: Job, *, as_json: bool) -> Job:
    """Show the job's log until it has ended. Ctrl-C leaves the job running."""
    if not as_json:
        say(f"{job.id} {job.name}: {state_words(job)}. {why(job)} Ctrl-C leaves it running.")
    show_log(client, job.id, follow=True, as_json=as_json)
    return client.job(job.id)


def _pairs(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Return the values of ``--argument`` by name. Raises `click.UsageError`."""
    pairs = [word.partition("=") for word in words]
    for word, (name, equals, _value) in zip(words, pairs, strict=True):
        if not (name and equals):
            msg = f"--argument {wording.given(word)} has no name or no value. Write it as --argument lr=0.1."
            raise click.UsageError(msg)
    return {name: value for name, _equals, value in pairs}


without_option = click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="An option of its command that is left out; repeat it for several.",
)
arguments_option = click.option(
    "--argument",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_pairs,
    help="Another argument; repeat it for several. One that a command does not have yet is --NAME=VALUE.",
)
"""A job's arguments that differ from those of its first run."""


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Show its log until it has ended.")
@arguments_option
@without_option
@click.option(
    "--from-start",
    is_flag=True,
    help="Begin a fork from the start, rather than from the checkpoint it began from.",
)
@json_option
@click.argument("job_id", metavar="JOB")
def rerun(
    *,
    job_id: str,
    follow: bool,
    arguments: dict[str, str],
    without: tuple[str, ...],
    from_start: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a job of yours again, such as: springtide rerun JOB --gpus 2 --argument lr=0.1.

    Code, files and variables are those of the first run; so are the options and arguments that are not given. A
    fork continues from the same checkpoint again. With --follow the exit code is 0 only if the job succeeded.
    """
    with Client() as client:
        with as_usage_errors():
            changes = with_carried(flags.given(options), terminal_place(working_directory()))
        job = client.rerun(job_id, changes, {**arguments, **dict.fromkeys(without)}, from_start=from_start)
        rerun_of = f"{job.rerun.text} " if job.rerun else ""
        print_sent(client, job, follow=follow, as_json=as_json, about=rerun_of)


rerun.params[:0] = flags.flags(Surface.COMMAND)


def print_sent(client: Client, job: Job, *, follow: bool, as_json: bool, about: str = "") -> None:
    """Print a sent job; with ``follow`` wait for its end first, and exit with 1 unless it succeeded."""
    if follow:
        job = watch(client, job, as_json=as_json)
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {state_words(job)}. {about}{why(job)}"), err=follow)
    if follow and job.state != "succeeded":
        raise click.exceptions.Exit(1)
