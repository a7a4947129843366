"""``springtide submit``."""

from __future__ import annotations

from pathlib import Path

import click

from springtide.hub_extension.commands.jobs import show_log, why
from springtide.hub_extension.commands.text import json_option, one_line, print_json, say
from springtide.scheduler.capture import Captured, CaptureError, Here, capture_words
from springtide.scheduler.client import Client
from springtide.scheduler.client.times import prospect
from springtide.scheduler.wire import Job, Submission


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpus", type=int, default=1, show_default=True, help="GPUs of each worker.")
@click.option("--workers", type=int, default=1, show_default=True, help="Processes that run together.")
@click.option("--min-workers", type=int, help="It may start with so many, and grow.  [default: all]")
@click.option("--name", help="What to call it.  [default: the script's name]")
@click.option("--project", help="On whose quota.  [default: your only project]")
@click.option("--priority", default="train", show_default=True, help="A name such as high, or a number.")
@click.option("--gpu-type", "gpu_types", multiple=True, help="A GPU type it may run on; may be repeated.")
@click.option(
    "--require", help="All workers within one of these: island, socket, node, or a label of nodes such as rack."
)
@click.option("--prefer", help="The same, where it can be had.")
@click.option("--time-limit", type=float, help="The longest it may run in all, in seconds.")
@click.option("--retries", type=int, default=0, show_default=True, help="How often to try again after a failure.")
@click.option("--grace", type=float, help="Seconds to save in when paused.")
@click.option("--image", help="The container image it runs in, on a cluster.  [default: this notebook's]")
@click.option("-e", "--env", "settings", multiple=True, metavar="NAME=VALUE", help="Set in its environment.")
@click.option(
    "--dry-run", is_flag=True, help="Do not send it: tell when it would start, and what would be paused."
)
@click.option("-f", "--follow", is_flag=True, help="Show its log until it has ended.")
@json_option
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(
    *,
    gpus: int,
    workers: int,
    min_workers: int | None,
    name: str | None,
    project: str | None,
    priority: str,
    gpu_types: tuple[str, ...],
    require: str | None,
    prefer: str | None,
    time_limit: float | None,
    retries: int,
    grace: float | None,
    image: str | None,
    settings: tuple[str, ...],
    dry_run: bool,
    follow: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Send a command to the pool, such as: springtide submit --gpus 4 -- python train.py.

    The script and the Python files beside it are sent as they are now. A notebook is run from top to bottom.
    With --follow the exit code is 0 only if the job succeeded.
    """
    captured = capture(command)
    submission = Submission(
        argv=list(captured.argv),
        name=name or captured.name,
        kind=captured.kind,
        project=project,
        gpus=gpus,
        workers=workers,
        min_workers=min_workers,
        priority=int(priority) if priority.lstrip("-").isdigit() else priority,
        gpu_types=list(gpu_types),
        require=require,
        prefer=prefer,
        time_limit=time_limit,
        retries=retries,
        grace=grace,
        env={**captured.env, **environment(settings)},
        cwd=captured.cwd,
        image=image,
        files=dict(captured.files),
        source=captured.source,
    )
    for note in captured.notes:
        say(note)
    if dry_run:
        tell_when(submission, as_json=as_json)
        return
    with Client() as client:
        job = client.submit(submission)
        if follow:
            job = watch(client, job, as_json=as_json)
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {job.state}. {why(job)}"), err=follow)
    if follow and job.state != "succeeded":
        raise click.exceptions.Exit(1)


def tell_when(submission: Submission, *, as_json: bool) -> None:
    """Say when the job would start if it were sent now."""
    with Client() as client:
        told = client.when(submission)
    if as_json:
        print_json(told)
    else:
        click.echo(one_line(f"{prospect(told)} Nothing was sent."))


def capture(command: tuple[str, ...]) -> Captured:
    """Catch the command. Raises `click.UsageError` in words if it cannot be sent."""
    try:
        return capture_words(command, Here(Path.cwd()))
    except CaptureError as error:
        raise click.UsageError(str(error)) from error


def environment(settings: tuple[str, ...]) -> dict[str, str]:
    """The variables of ``NAME=VALUE`` texts."""
    found = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not (name and sign):
            raise click.BadParameter(f"{setting!r} is not NAME=VALUE.", param_hint="--env")
        found[name] = value
    return found


def watch(client: Client, job: Job, *, as_json: bool) -> Job:
    """Show the job's log until it has ended. Ctrl-C leaves the job running."""
    if not as_json:
        say(f"{job.id} {job.name}: {job.state}. {why(job)} Ctrl-C leaves it running.")
    show_log(client, job.id, follow=True, as_json=as_json)
    return client.job(job.id)
