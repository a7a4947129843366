"""``springtide presets``: options of jobs under a name, for a project or for the pool."""

from __future__ import annotations

from typing import Any

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table
from springtide.scheduler.client import Client, flags
from springtide.scheduler.wire import PresetRequest, PresetView, Surface
from springtide.scheduler.wire.presets import checked_preset

HEADER = ("PRESET", "OF", "OPTIONS", "ABOUT", "FOR YOUR JOBS IN", "BY")
NONE = "No presets. Administrators and leads define them: springtide presets set NAME --gpus 4"
OF_POOL = "the pool"

_project = click.option(
    "--project", metavar="PROJECT", help="Project whose jobs have it, with those inside it.  [default: the pool]"
)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def presets(context: click.Context, *, as_json: bool) -> None:
    """Show the presets that your jobs may name in --preset, or define and delete some."""
    if context.invoked_subcommand is not None:
        return
    with Client() as client:
        found = client.presets()
    if as_json:
        print_json(found)
        return
    print_table(HEADER, [_row(each) for each in found], empty=NONE)
    for each in found:
        if each.obstacle:
            click.echo(one_line(_obstacle(each)))


def _row(view: PresetView) -> tuple[object, ...]:
    return view.name, view.project or OF_POOL, view.text, view.about, ", ".join(view.projects), view.by


def _obstacle(view: PresetView) -> str:
    of = f" of {view.project}" if view.project else ""
    return f"A job{of} with {view.name} alone would be refused now: {view.obstacle}"


@presets.command("set")
@_project
@click.option("--about", default="", metavar="TEXT", help="A sentence about it, for those who choose it.")
@json_option
@click.argument("name")
def set_preset(*, name: str, project: str | None, about: str, as_json: bool, **options: Any) -> None:
    """Define a preset, or replace it as a whole: presets set small --gpus 1 --time-limit 2h --project vision.

    Jobs that were sent stay as they are.
    """
    chosen = checked_preset(flags.given(options))
    if not chosen:
        raise click.UsageError("Give at least one option, such as --gpus 4.")
    with Client() as client:
        made = client.set_preset(name, PresetRequest(project=project, options=chosen, about=about))
    if as_json:
        print_json(made)
        return
    click.echo(one_line(f"Preset {made.name} of {made.project or OF_POOL}: {made.text}."))
    if made.obstacle:
        click.echo(one_line(_obstacle(made)))


set_preset.params[:0] = flags.flags(Surface.PRESET)


@presets.command("delete")
@_project
@click.argument("name")
def delete_preset(*, name: str, project: str | None) -> None:
    """Delete a preset; jobs that were sent with it stay as they are."""
    with Client() as client:
        client.delete_preset(name, project)
    click.echo(one_line(f"Preset {name} of {project or OF_POOL} is deleted."))
