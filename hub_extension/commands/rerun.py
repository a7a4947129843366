"""``springtide rerun``."""

from __future__ import annotations

from typing import Any

import click

from springtide.hub_extension.commands.jobs import why
from springtide.hub_extension.commands.submit import watch
from springtide.hub_extension.commands.text import json_option, one_line, print_json
from springtide.scheduler.client import Client, flags
from springtide.scheduler.wire import Surface


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Show its log until it has ended.")
@json_option
@click.argument("job_id", metavar="JOB")
def rerun(*, job_id: str, follow: bool, as_json: bool, **options: Any) -> None:
    """Run a job of yours again, such as: springtide rerun JOB --gpus 2.

    Code, files, arguments and variables are those of the first run; so are the options that are not given. With
    --follow the exit code is 0 only if the job succeeded.
    """
    with Client() as client:
        job = client.rerun(job_id, flags.given(options))
        told = job.rerun.text if job.rerun else ""
        if follow:
            job = watch(client, job, as_json=as_json)
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {job.state}. {told} {why(job)}"), err=follow)
    if follow and job.state != "succeeded":
        raise click.exceptions.Exit(1)


rerun.params[:0] = flags.flags(Surface.COMMAND)
