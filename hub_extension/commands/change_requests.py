"""``springtide request``: requests for changes that others decide."""

from __future__ import annotations

from typing import Any

import click
from msgspec import UNSET
from msgspec.structs import replace

from springtide.hub_extension.commands.interventions import NO_VALUE, Amount, changed_options, project_numbers
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table
from springtide.hub_extension.commands.times import until_option
from springtide.scheduler.client import Client
from springtide.scheduler.wire import (
    BuildWanted,
    ChangeRequestView,
    JobEdit,
    JobWanted,
    MembershipWanted,
    PersonEdit,
    ProjectEdit,
    ProjectWanted,
    WantedChange,
)
from springtide.scheduler.wording import given, with_offset

HEADER = ("REQUEST", "WHO", "STATE", "WHAT", "EXPIRES", "REASON", "BY", "ANSWER")
NONE = "No requests. Make one: springtide request quota PROJECT GPUS --reason WHY"

_reason = click.option("--reason", required=True, help="Reason, shown to those who decide.")


@click.group()
def request() -> None:
    """Ask for more than you have: administrators, and leads for what they may change, decide."""


def _ask(wanted: WantedChange, reason: str, *, as_json: bool) -> None:
    with Client() as client:
        made = client.request_change(wanted, reason)
    if as_json:
        print_json(made)
        return
    click.echo(
        one_line(f"Request {made.number}: {made.what}. It waits for a decision until {with_offset(made.expires)}.")
    )
    if made.obstacle:
        click.echo(one_line(f"It cannot be granted as it is now: {made.obstacle}"))


@request.command()
@click.argument("project")
@click.argument("gpus", type=Amount(), required=False)
@click.option("--limit", type=Amount(), metavar="GPUS", help="The most GPUs that it may hold: 8, a100=4, or none.")
@click.option("--build-quota", type=Amount(), metavar="GPUS", help="GPUs of each member for notebooks.")
@until_option
@_reason
@json_option
def quota(
    *, project: str, gpus: Any, limit: Any, build_quota: Any, until: float | None, reason: str, as_json: bool
) -> None:
    """Ask for another quota or limit of a project: request quota vision a100=4 --until friday --reason WHY."""
    values = project_numbers({"quota": gpus, "limit": limit, "build_quota": build_quota})
    if not values:
        raise click.UsageError("Give a number of GPUs, such as 4 or a100=4, --limit or --build-quota.")
    edit = ProjectEdit(**values, until=until)
    _ask(ProjectWanted(project=project, edit=edit), reason, as_json=as_json)


@request.command()
@click.argument("gpus", type=Amount())
@until_option
@_reason
@json_option
def build(*, gpus: Any, until: float | None, reason: str, as_json: bool) -> None:
    """Ask for a build quota of your own, for notebooks: request build 2 --until friday --reason WHY."""
    edit = PersonEdit(build_quota=None if gpus == NO_VALUE else gpus, until=until)
    _ask(BuildWanted(edit=edit), reason, as_json=as_json)


@request.command()
@click.argument("project")
@_reason
@json_option
def join(*, project: str, reason: str, as_json: bool) -> None:
    """Ask for membership in a project."""
    _ask(MembershipWanted(project=project), reason, as_json=as_json)


@request.command()
@click.argument("job_id", metavar="JOB")
@click.option("--priority", help="Priority: a number, or a name such as high.")
@click.option("--time-limit", help="Longest run time, such as 2d, or none.")
@_reason
@json_option
def job(*, job_id: str, priority: str | None, time_limit: str | None, reason: str, as_json: bool) -> None:
    """Ask for a higher priority or a longer time limit of a waiting job than its project allows."""
    edit = JobEdit(**changed_options({"priority": priority, "time_limit": time_limit}))
    if not edit.options:
        raise click.UsageError("Give --priority or --time-limit.")
    _ask(JobWanted(job=job_id, edit=edit), reason, as_json=as_json)


@request.command("list")
@click.option("--all", "everything", is_flag=True, help="List those that have ended, too.")
@json_option
def list_requests(*, everything: bool, as_json: bool) -> None:
    """List your requests, and those that you may decide."""
    with Client() as client:
        found = client.change_requests().items
    shown = [each for each in found if everything or each.state == "pending"]
    if as_json:
        print_json(shown)
        return
    hidden = len(found) - len(shown)
    empty = f"No pending requests; --all lists {hidden} that have ended." if hidden else NONE
    print_table(HEADER, map(_row, shown), empty=empty)
    for view in shown:
        if view.obstacle:
            click.echo(one_line(f"Request {view.number} cannot be granted as it is now: {view.obstacle}"))


def _row(view: ChangeRequestView) -> tuple[object, ...]:
    ends = with_offset(view.expires) if view.state == "pending" else ""
    said = " ".join(filter(None, (view.given and f"Granted: {view.given}.", view.answer)))
    return view.number, view.user, view.state, view.what, ends, view.why, view.by, said


@request.command()
@click.argument("numbers", metavar="REQUEST...", nargs=-1, required=True, type=click.IntRange(1))
def withdraw(*, numbers: tuple[int, ...]) -> None:
    """Take requests of your own back."""
    with Client() as client:
        for number in numbers:
            client.withdraw_request(number)
            click.echo(f"Request {number} is withdrawn.")


@request.command()
@click.argument("number", metavar="REQUEST", type=click.IntRange(1))
@click.option("--gpus", type=Amount(), metavar="GPUS", help="Other GPUs than asked for: 4, or a100=2,t4=4.")
@until_option
@click.option("--reason", default="", help="Reason, shown to the person who asked.")
@json_option
def approve(*, number: int, gpus: Any, until: float | None, reason: str, as_json: bool) -> None:
    """Make the change of a request, maybe with other GPUs or another end: request approve 12 --gpus 2."""
    with Client() as client:
        granted = None
        if gpus is not None or until is not None:
            granted = _granted(_find(client, number), None if gpus == NO_VALUE else gpus, until)
        view = client.approve_request(number, reason, granted=granted)
    print_json(view) if as_json else click.echo(
        one_line(f"Request {number} is approved: {view.given or view.what}.")
    )


def _find(client: Client, number: int) -> ChangeRequestView:
    found = next((each for each in client.change_requests().items if each.number == number), None)
    if found is None:
        raise click.ClickException(
            f"There is no request {number}. `springtide request list` shows those there are."
        )
    return found


def _granted(view: ChangeRequestView, gpus: Any, until: float | None) -> WantedChange:
    """Return the wanted change with other GPUs or another end. Raises `click.UsageError` if it has none."""
    match view.wanted:
        case ProjectWanted(edit=edit):
            named = [name for name in ("quota", "limit", "build_quota") if getattr(edit, name) is not UNSET]
            if gpus is not None and len(named) != 1:
                raise click.UsageError(
                    f"Request {view.number} asks for several numbers. Refuse it, or approve all."
                )
            other = {} if gpus is None else {named[0]: gpus}
            return replace(view.wanted, edit=replace(edit, **other, until=edit.until if until is None else until))
        case BuildWanted(edit=edit):
            quota_of = edit.build_quota if gpus is None else gpus
            ends = edit.until if until is None else until
            return replace(view.wanted, edit=PersonEdit(build_quota=quota_of, until=ends))
        case _:
            raise click.UsageError(f"{given(view.what)} has no GPUs and no end to change.")


@request.command()
@click.argument("number", metavar="REQUEST", type=click.IntRange(1))
@click.option("--reason", required=True, help="Reason, shown to the person who asked.")
@json_option
def refuse(*, number: int, reason: str, as_json: bool) -> None:
    """Refuse a request, with a reason."""
    with Client() as client:
        view = client.refuse_request(number, reason)
    print_json(view) if as_json else click.echo(one_line(f"Request {number} is refused: {view.what}."))
