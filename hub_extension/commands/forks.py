"""``springtide checkpoints`` and ``springtide fork``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from springtide.hub_extension.commands.sending import capture
from springtide.hub_extension.commands.submit import arguments_option, as_usage_errors, print_sent, without_option
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, say
from springtide.scheduler.arguments import HIDDEN, BadArgument, Typed
from springtide.scheduler.arguments import changed as with_arguments
from springtide.scheduler.capture import submission, terminal_place, with_carried, working_directory
from springtide.scheduler.client import Client, flags
from springtide.scheduler.client.descriptions import checkpoint_rows
from springtide.scheduler.wire import Job, Program, Surface, program_of
from springtide.scheduler.wording import LONG_GIVEN, count, given, listed, plural

HEADS = ("CHECKPOINT", "STEP", "SIZE", "SAVED", "METRICS", "BY")


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option(
    "--delete", "names", multiple=True, metavar="CHECKPOINT", help="Delete this one; repeat it for several."
)
@click.option("--force", is_flag=True, help="Delete also the one that the unfinished job resumes from.")
@json_option
def checkpoints(*, job_id: str, names: tuple[str, ...], force: bool, as_json: bool) -> None:
    """List the checkpoints of a job, the newest first; with --delete delete some, and say how many are left."""
    if force and not names:
        msg = "--force is about --delete: name the checkpoints to delete."
        raise click.UsageError(msg)
    with Client() as client:
        found = client.delete_checkpoints(job_id, names, force=force) if names else client.checkpoints(job_id)
    if as_json:
        print_json(found)
        return
    if names:
        number = len(found.items)
        left = f"{count(number, 'checkpoint')} {plural(number, 'is', 'are')} left" if number else "none is left"
        click.echo(one_line(f"Deleted {listed([given(name, LONG_GIVEN) for name in names])}; {left}."))
        return
    print_table(HEADS, checkpoint_rows(found.items, time.time()), empty=found.text)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--step", type=float, help="The step of the checkpoint.  [default: the newest]")
@click.option("--checkpoint", metavar="CHECKPOINT", help="The checkpoint, as `springtide checkpoints` names it.")
@arguments_option
@without_option
@click.option(
    "--present-code",
    is_flag=True,
    help="Run with the code that is here now, instead of the first job's.",
)
@click.option("-f", "--follow", is_flag=True, help="Show its log until it has ended.")
@json_option
@click.argument("job_id", metavar="JOB")
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def fork(
    *,
    job_id: str,
    step: float | None,
    checkpoint: str | None,
    arguments: dict[str, str],
    without: tuple[str, ...],
    present_code: bool,
    follow: bool,
    as_json: bool,
    command: tuple[str, ...],
    **options: Any,
) -> None:
    """Continue a job of yours from a checkpoint, as a new job: springtide fork --step 40 --argument rate=0.01 JOB.

    Code, files, arguments, variables and options are those of the first job unless they are given. A command after
    the job replaces its whole command: springtide fork --step 40 JOB -- python train.py --rate 0.01. The first job
    stays as it is. With --follow the exit code is 0 only if the new job succeeded.
    """
    chosen = flags.given(options)
    changed: dict[str, str | None] = {**arguments, **dict.fromkeys(without)}
    _check_order(job_id, command)
    command = command[1:] if command[:1] == ("--",) else command
    with Client() as client:
        first = client.job(job_id)
        _check(changed, command)
        program, packed = None, None
        with as_usage_errors():
            changes = with_carried(chosen, terminal_place(working_directory()))
        if present_code:
            program, packed, variables = _present(command or _own_command(first, changed), changes)
            changes["env"], changed = variables, {}
        elif command:
            program = Program(argv=list(command), source=first.source)
        job = client.fork(
            job_id, changes, step=step, checkpoint=checkpoint, arguments=changed, program=program, packed=packed
        )
        print_sent(client, job, follow=follow, as_json=as_json, about=f"{job.rerun.text} " if job.rerun else "")


fork.params[:0] = flags.flags(Surface.COMMAND)


def _check_order(job_id: str, command: tuple[str, ...]) -> None:
    """Raise `click.UsageError` for options after the job, which would be a command."""
    if command and command[0].startswith("-") and command[0] != "--":
        msg = f"Options come before the job: springtide fork {' '.join(command)} {job_id}"
        raise click.UsageError(msg)


def _check(arguments: Mapping[str, str | None], command: tuple[str, ...]) -> None:
    """Raise `click.UsageError` for arguments that the first job cannot have."""
    if arguments and command:
        msg = "Give a whole command, or --argument and --without for those that differ."
        raise click.UsageError(msg)


def _own_command(first: Job, typed: Typed) -> tuple[str, ...]:
    """Return the command of the first job with typed arguments, to capture it anew.

    Raises `click.UsageError` if that cannot be.
    """
    if first.kind != "command" or any("{" in word for word in first.argv):
        msg = f"The words of job {first.id} are not those of a terminal. Give its command after --."
        raise click.UsageError(msg)
    try:
        words, _ = with_arguments(first.kind, first.argv, first.arguments, typed)
    except BadArgument as error:
        msg = f"{error.message} {error.hint}".strip()
        raise click.UsageError(msg) from error
    if any(HIDDEN in word for word in words):
        msg = f"The command of job {first.id} has hidden values, which are never shown. Give it after --."
        raise click.UsageError(msg)
    return tuple(words)


def _present(command: tuple[str, ...], changes: Mapping[str, Any]) -> tuple[Program, bytes | None, dict[str, str]]:
    """Return the command with the project as it is here now, its packed tree, and the variables it needs."""
    with as_usage_errors():
        here = terminal_place(working_directory()).for_job(changes)
        captured = capture(command, here)
        request = submission(captured, changes, here=here)
    for note in captured.notes:
        say(one_line(note))
    return program_of(request), captured.packed, dict(request.env)
