"""``springtide history``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from springtide.hub_extension.commands.text import json_option, print_json, say
from springtide.hub_extension.commands.times import LastMoment, Moment
from springtide.scheduler.client import Client
from springtide.scheduler.wording import count


@click.group()
def history() -> None:
    """Use what the pool recorded of its past."""


@history.command()
@click.option("--from", "start", type=Moment(), metavar="TIME", help="The beginning, such as 2026-01-31.")
@click.option(
    "--to", "end", type=LastMoment(), metavar="TIME", help="The end; a day is part of it.  [default: now]"
)
@click.option("--anonymous", is_flag=True, help="Make up all names of people, jobs, projects and nodes.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@json_option
def export(*, start: float | None, end: float | None, anonymous: bool, output: Path | None, as_json: bool) -> None:
    """Export the past as a scenario for `springtide simulate`, the last day by default.

    For admins of the pool; admins of projects get other projects and their people under made-up names.
    """
    with Client() as client:
        content = client.past_scenario(start, end, anonymous=anonymous)
    found = json.loads(content)
    if output is None:
        click.echo(content, nl=False)
    else:
        try:
            output.write_bytes(content)
        except OSError as error:
            raise click.ClickException(f"{output}: cannot be written: {error.strerror}.") from error
        numbers = {part: len(found[part]) for part in ("nodes", "projects", "jobs") if part in found}
        if as_json:
            print_json({"file": str(output), **numbers, "notes": found.get("notes", [])})
        else:
            named = ", ".join(count(number, part[:-1]) for part, number in numbers.items())
            click.echo(f"{output}: {named}.")
    for note in found.get("notes", []):
        say(note)
