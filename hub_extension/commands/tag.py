"""``springtide tag``."""

from __future__ import annotations

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json
from springtide.scheduler.client import Client
from springtide.scheduler.wire import TagsEdit


@click.command()
@click.option("--remove", multiple=True, metavar="TAG", help="Take this tag from the job; repeat it for several.")
@json_option
@click.argument("job_id", metavar="JOB")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
def tag(*, job_id: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Add tags to a job, also to one that has ended, and tell which it has: springtide tag JOB best."""
    with Client() as client:
        edit = TagsEdit(add=list(tags), remove=list(remove))
        job = client.edit_tags(job_id, edit) if tags or remove else client.job(job_id)
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {' '.join(job.tags) or 'no tags'}"))
