"""``springtide hold``, ``release``, ``edit``, ``freeze``, ``unfreeze`` and ``set-project``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
from msgspec import UNSET

from springtide.hub_extension.commands.bulk import on_each
from springtide.hub_extension.commands.jobs import UNFINISHED, act_on, check_choice
from springtide.hub_extension.commands.text import json_option, one_line, print_json
from springtide.hub_extension.commands.times import end_words, until_option
from springtide.scheduler.client import Client
from springtide.scheduler.wire import OPTIONS, OPTIONS_EDITED, BadOption, JobEdit, ProjectEdit
from springtide.scheduler.wire.audit_table import value_words
from springtide.scheduler.wording import given, listed

NO_VALUE = "none"
"""The value of an option that removes it."""

UNBOUNDED: Final = {"quota": "an unlimited quota", "limit": "no limit", "build_quota": "an unlimited build quota"}


_TYPED: Final = re.compile(r"\s*(?P<type>[^\s=]+)\s*=\s*(?P<gpus>[+-]?\d+|none)\s*")
_SHOWN: Final = re.compile(r"\s*(?P<gpus>[+-]?\d+|none)\s+(?P<type>[^\s=]+)\s*")


class Amount(click.ParamType[Any]):
    """A number of GPUs, or a table by GPU type such as ``a100=2,t4=4``; ``none`` for no bound.

    A table may also be written as screens show it: ``2 a100, 4 t4``.
    """

    name = "gpus"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, the table or ``none``, or fail with the given text and examples."""
        if not isinstance(value, str) or value == NO_VALUE:
            return value
        if re.fullmatch(r"\s*[+-]?\d+\s*", value):
            return int(value)
        parts = [_TYPED.fullmatch(part) or _SHOWN.fullmatch(part) for part in value.split(",")]
        table = [(part["type"], None if part["gpus"] == NO_VALUE else int(part["gpus"])) for part in parts if part]
        if len(table) < len(parts):
            self.fail(f"{given(value)} is no number of GPUs such as 4, a100=2,t4=4 or {NO_VALUE}.", param, ctx)
        names = [name for name, _ in table]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            self.fail(
                f"{given(value)} has {given(twice)} more than once; expected one number for each.", param, ctx
            )
        return dict(table)


_SELECTION = (
    click.argument("job_ids", metavar="[JOB...]", nargs=-1),
    click.option(
        "--in", "inside", metavar="PROJECT", help="Instead of names: the unfinished jobs of this project."
    ),
    click.option("--user", help="Instead of names: the unfinished jobs of this person."),
    click.option("--tag", help="Instead of names: the unfinished jobs with this tag."),
    click.option("--where", help="Instead of names: the unfinished jobs like this, as in `springtide jobs`."),
)


def _selects_jobs(command: Callable[..., None]) -> Callable[..., None]:
    """Add the names of jobs, or options that choose unfinished ones, as parameters of `_selected`."""
    for part in reversed(_SELECTION):
        command = part(command)
    return command


def _selected(
    client: Client,
    job_ids: Sequence[str],
    *,
    inside: str | None,
    user: str | None,
    tag: str | None,
    where: str | None,
) -> list[str]:
    """Return the ids of the named or chosen jobs.

    Raises `click.UsageError` for both, or none of them, and `click.ClickException` if no job matches.
    """
    filters = {"project": inside, "user": user, "tag": tag, "where": where}
    check_choice(job_ids, "--in, --user, --tag and --where", chosen=any(filters.values()))
    if job_ids:
        return list(dict.fromkeys(job_ids))
    found = [job.id for job in client.all_jobs(state=UNFINISHED, **filters)]
    if not found:
        raise click.ClickException("No unfinished job matches.")
    return found


@click.command()
@_selects_jobs
@click.option("--reason", required=True, help="Reason, shown to everyone who sees the job.")
@click.option("--finish", is_flag=True, help="Let those that run go on to their end instead of pausing them.")
@json_option
def hold(*, job_ids: tuple[str, ...], reason: str, finish: bool, as_json: bool, **chosen: Any) -> None:
    """Put jobs on hold: they do not start until they are released; those that run are paused first."""
    with Client() as client:
        ids = _selected(client, job_ids, **chosen)
        act_on(ids, lambda job_id: client.hold(job_id, reason, finish=finish), as_json=as_json)


@click.command()
@_selects_jobs
@click.option("--to", "owner", help="Their new owner, a member of their project.")
@json_option
def release(*, job_ids: tuple[str, ...], owner: str | None, as_json: bool, **chosen: Any) -> None:
    """Let jobs that are on hold start again."""
    with Client() as client:
        ids = _selected(client, job_ids, **chosen)
        held = ids if job_ids else [job_id for job_id in ids if client.job(job_id).hold is not None]
        if not held:
            raise click.ClickException("None of the unfinished jobs that match is on hold.")
        act_on(held, lambda job_id: client.release(job_id, owner), as_json=as_json)


def _edited_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the job options that an edit changes."""
    for name in reversed(OPTIONS_EDITED):
        option = OPTIONS[name]
        command = click.option(option.flag, name, help=option.help)(command)
    return command


@click.command()
@_selects_jobs
@_edited_options
@click.option("--project", help="Project that the jobs belong to from now on.")
@click.option("--reason", default="", help="Reason, kept in the audit trail.")
@json_option
def edit(*, job_ids: tuple[str, ...], project: str | None, reason: str, as_json: bool, **options: Any) -> None:
    """Change what jobs ask for, or their project, while they do not run: springtide edit JOB --priority high.

    Their age, checkpoints and outputs stay. `--time-limit none` removes the limit, `--min-workers none` asks for
    all workers.
    """
    chosen = {name: options.pop(name) for name in ("inside", "user", "tag", "where")}
    change = JobEdit(**changed_options(options), project=UNSET if project is None else project, reason=reason)
    with Client() as client:
        act_on(_selected(client, job_ids, **chosen), lambda job_id: client.edit(job_id, change), as_json=as_json)


def changed_options(options: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the given options as requests carry them. Raises `click.BadParameter` for values they do not take."""
    changes = {}
    for name, text in options.items():
        option = OPTIONS[name]
        if text is None:
            continue
        try:
            changes[name] = None if text == NO_VALUE and option.default is None else option.read(text)
        except BadOption as error:
            raise click.BadParameter(str(error), param_hint=option.flag) from None
    return changes


@click.command()
@click.argument("names", metavar="PROJECT...", nargs=-1, required=True)
@click.option("--reason", default="", help="Reason, shown to everyone who sees a job of the project.")
@click.option("--finish", is_flag=True, help="Let jobs that run go on to their end instead of pausing them.")
@until_option
@json_option
def freeze(*, names: tuple[str, ...], reason: str, finish: bool, until: float | None, as_json: bool) -> None:
    """Let no job of projects, and of those inside them, start or resume; those that run are paused."""
    ends = "until you unfreeze it" if until is None else f"until {end_words(until)}"

    def act(name: str) -> None:
        frozen = client.freeze(name, reason, finish=finish, until=until)
        print_json(frozen) if as_json else click.echo(one_line(f"{name} is frozen {ends}."))

    with Client() as client:
        on_each(names, act)


@click.command()
@click.argument("names", metavar="PROJECT...", nargs=-1, required=True)
@json_option
def unfreeze(*, names: tuple[str, ...], as_json: bool) -> None:
    """Let the jobs of projects start again."""

    def act(name: str) -> None:
        view = client.unfreeze(name)
        print_json(view) if as_json else click.echo(one_line(f"{name} is not frozen any more."))

    with Client() as client:
        on_each(names, act)


@click.command("set-project")
@click.argument("name", metavar="PROJECT")
@click.option("--quota", type=Amount(), metavar="GPUS", help="GPUs guaranteed to it: 4, a100=2,t4=4, or none.")
@click.option("--limit", type=Amount(), metavar="GPUS", help="The most GPUs that it may hold: 8, a100=4, or none.")
@click.option("--build-quota", type=Amount(), metavar="GPUS", help="GPUs of each member for notebooks.")
@click.option("--weight", type=click.FloatRange(0), help="Its share of GPUs beyond quotas, beside others.")
@click.option("--priority", type=click.IntRange(0), help="Its priority for GPUs beyond quotas.")
@until_option
@json_option
def set_project(*, name: str, until: float | None, as_json: bool, **values: Any) -> None:
    """Change the numbers of a project, maybe for a time: set-project PROJECT --quota 4 --until friday."""
    changes = project_numbers(values)
    if not changes:
        raise click.UsageError("Give at least one of --quota, --limit, --build-quota, --weight and --priority.")
    with Client() as client:
        view = client.edit_project(name, ProjectEdit(**changes, until=until))
    if as_json:
        print_json(view)
        return
    ends = ""
    if until is not None:
        again = [number_words(field, view.endings[field].before) for field in changes if field in view.endings]
        ends = f" At {end_words(until)} it returns to {listed(again)}."
    numbers = listed([number_words(field, value) for field, value in changes.items()])
    click.echo(one_line(f"{name} now has {numbers}.{ends}"))
    for note in view.notes:
        click.echo(one_line(note))


def number_words(field: str, value: Any) -> str:
    """Return a number of a project in words: ``a build quota of 1``, ``no limit``."""
    return UNBOUNDED[field] if value is None else f"a {field.replace('_', ' ')} of {value_words(value)}"


def project_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given numbers of a project as requests carry them: None for no bound."""
    return {field: None if value == NO_VALUE else value for field, value in values.items() if value is not None}
