"""``springtide join`` and ``springtide leave``: people come and go in one step."""

from __future__ import annotations

import time
from typing import Any

import click
from msgspec import UNSET

from springtide.hub_extension.commands.interventions import NO_VALUE, Amount
from springtide.hub_extension.commands.pool_file import applied
from springtide.hub_extension.commands.text import json_option, one_line, print_json, say
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Departure, PoolFileView
from springtide.scheduler.wording import count, given

LOOK_S = 2.0
"""Time between two looks at jobs that are being paused, in seconds."""
MOST_LOOKS = 900
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_option = click.option("--dry-run", is_flag=True, help="Only show what would happen.")


@click.command()
@click.argument("name", metavar="PERSON")
@click.option("--project", "projects", multiple=True, help="A project to join; may be given several times.")
@click.option("--build", "build", type=Amount(), metavar="GPUS", help="Her own build quota: 1, t4=1, or none.")
@click.option("--like", metavar="OTHER", help="The projects and the own build quota of this person as well.")
@dry_option
@yes_option
@json_option
def join(
    *,
    name: str,
    projects: tuple[str, ...],
    build: Any,
    like: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Put a person into projects, with a build quota of her own: join anna --project vision --like joe.

    All of it is checked first. If the hub then refuses a project, the command names it, and may be repeated.
    """
    if not (projects or like or build is not None):
        raise click.UsageError("Give at least one of --project, --build and --like.")
    with Client() as client:
        view = client.pool_file()
        file = membership_file(view, name, projects, build, like)
        title = f"“join {name}”"
        applied(client, file, title, dry_run=dry_run, yes=yes, as_json=as_json, version=view.version, partial=True)


def membership_file(
    view: PoolFileView, name: str, projects: tuple[str, ...], build: Any, like: str | None
) -> dict[str, dict[str, Any]]:
    """Return the file that makes a person a member. Raises `click.UsageError` for projects that are not there."""
    known = view.file.projects
    unknown = [project for project in projects if project not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise click.UsageError(f"There is no project {given(unknown[0])}. Those that are there: {there}.")
    members = {project: () if part.members is UNSET else part.members for project, part in known.items()}
    of_other = [project for project, people in members.items() if like in people]
    joined = dict.fromkeys([*projects, *of_other])
    managed = [project for project in joined if known[project].members is UNSET]
    if managed:
        message = (
            f"{given(name)} cannot be put into {given(managed[0])}: the hub's authenticator decides who is in "
            "which project. Change the group where people log in, and leave --project out to set a build quota "
            "alone."
        )
        raise click.ClickException(message)
    if like is not None and not of_other and like not in view.file.people:
        raise click.UsageError(f"{given(like)} is in no project and has no build quota of one's own.")
    file: dict[str, dict[str, Any]] = {
        "projects": {project: {"members": sorted({*members[project], name})} for project in joined}
    }
    quota = None if build is None and like is None else _quota(view, build, like)
    if quota is not None or build == NO_VALUE:
        file["people"] = {name: {"build_quota": quota}}
    return file


def _quota(view: PoolFileView, build: Any, like: str | None) -> Any:
    if build is not None:
        return None if build == NO_VALUE else build
    part = view.file.people.get(like or "")
    return None if part is None or part.build_quota is UNSET else part.build_quota


@click.command()
@click.argument("name", metavar="PERSON")
@click.option("--to", metavar="OTHER", help="Who gets her unfinished jobs; without it they are cancelled.")
@dry_option
@yes_option
@json_option
def leave(*, name: str, to: str | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """End what a person has in the pool: jobs, workspaces, projects, build quota and notifications.

    Jobs that run are paused before they are handed over, and this waits for them. Doing it again continues.
    """
    with Client() as client:
        found = client.leave(name, to=to, dry_run=True)
        if not as_json:
            _show(found, name)
        if found.steps and not dry_run:
            if not yes:
                click.confirm(f"Let {name} leave?", abort=True, err=as_json)
            found = client.leave(name, to=to)
            found = _waited(client, found, name, to)
            if not as_json:
                click.echo(one_line(f"{name} has left. Delete the user in JupyterHub, if nobody else has."))
    if as_json:
        print_json(found)


def _waited(client: Client, found: Departure, name: str, to: str | None) -> Departure:
    """Return the departure once all jobs are handed over. Raises `click.ClickException` if it takes too long."""
    for _ in range(MOST_LOOKS):
        if not found.pending:
            return found
        say(f"{count(len(found.pending), 'job')} still being paused; Ctrl-C ends only the waiting.")
        time.sleep(LOOK_S)
        found = client.leave(name, to=to)
    raise click.ClickException(f"{count(len(found.pending), 'job')} still being paused. Repeat the command later.")


def _show(found: Departure, name: str) -> None:
    for step in found.steps:
        click.echo(one_line(step))
    if not found.steps:
        click.echo(one_line(f"{name} has nothing in the pool that could end."))
    for sentence in found.kept:
        say(one_line(sentence))
