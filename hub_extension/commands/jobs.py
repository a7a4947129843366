"""``springtide jobs``, ``show``, ``logs``, ``pause``, ``resume``, ``finish``, ``cancel``, ``delete``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from springtide.hub_extension.commands.bulk import on_each, refused
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, say, terminal
from springtide.scheduler import model
from springtide.scheduler.arguments import HIDDEN, shown_words
from springtide.scheduler.client import Client, PoolError, descriptions
from springtide.scheduler.client.descriptions import filter_words, none_matches, start_time, state_words
from springtide.scheduler.client.log_text import LogText, attempt_mark
from springtide.scheduler.file_names import listed_name
from springtide.scheduler.runs import FIELDS, Secret, names_of, parse, value_of
from springtide.scheduler.time_zones import own_zone
from springtide.scheduler.wire import LONGEST_LOG_PIECE, Deletion, Hold, Job, JobActed, Outcome, TagsEdit
from springtide.scheduler.wire.run_table import csv_of, run_of
from springtide.scheduler.wording import ago, amount, count, duration, exactly, given, size, with_offset

FOLLOW_WAIT_S = 20.0
UNFINISHED = ",".join(model.UNFINISHED)
ENDED = 409
"""Status of the refusal to cancel a job that has just ended."""


_FILTERS = (
    click.option("--state", help="Only jobs in this state; several with commas between, such as running,queued."),
    click.option("--project", help="Only jobs of this project."),
    click.option("--tag", help="Only jobs with this tag."),
    click.option("--user", help="Only jobs of this person."),
    click.option("--mine", is_flag=True, help="Only your own."),
    click.option("--sweep", help="The trials of this sweep, which are left out otherwise."),
    click.option(
        "--where",
        help="Only jobs whose arguments, metrics and columns are like this: 'lr > 0.1 and val_loss < 0.3'.",
    ),
    click.option(
        "--order", help="Value that sorts the jobs, such as best.val_loss; a minus before it reverses that."
    ),
    click.option(
        "--archived",
        type=click.Choice(["no", "yes", "all"]),
        default="no",
        show_default=True,
        help="Archived jobs.",
    ),
)


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose jobs, as parameters of `Client.jobs`."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def is_filtered(filters: Mapping[str, Any]) -> bool:
    """Return whether one of the options chooses jobs, rather than their order."""
    return bool(filter_words(filters))


def check_choice(job_ids: Sequence[str], options: str, *, chosen: bool) -> None:
    """Raise `click.UsageError` unless jobs are either named, or ``chosen`` by options."""
    if not job_ids and not chosen:
        raise click.UsageError(f"Name the jobs, or choose them by {options}.")
    if job_ids and chosen:
        named = given(" ".join(job_ids), 60)
        raise click.UsageError(
            f"Give either jobs, here {named}, or options that choose them ({options}), not both."
        )


@click.command()
@filter_options
@click.option("--format", "layout", type=click.Choice(["table", "csv"]), default="table", show_default=True)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of jobs.")
@click.option("--cursor", help="Continue where a page ended (`next` of --json).")
@json_option
def jobs(*, layout: str, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:
    """List jobs, newest first: springtide jobs --mine --where 'lr > 0.1' --order best.val_loss."""
    with Client() as client:
        page = client.jobs(**filters, cursor=cursor, limit=limit)
    if as_json:
        print_json(page)
        return
    if page.note:
        say(page.note)
    if layout == "csv":
        click.echo(csv_of(page.items, time.time()), nl=False)
        return
    now = time.time()
    columns = [*OPTIONAL, *named_columns(filters["where"], filters["order"], now)]
    others = [column for column in columns if any(column.text(j) for j in page.items)]
    print_table(
        (
            *("JOB", "NAME", "USER", "PROJECT", "STATE", "GPUS", "PROGRESS"),
            *(column.head for column in others),
            *("SUBMITTED", "STARTS", "WHY"),
        ),
        [
            (
                j.id,
                j.name,
                j.user,
                j.project,
                state_words(j),
                asked(j),
                progress(j),
                *(column.text(j) for column in others),
                ago(j.submitted, now),
                start_time(j, now),
                headline(j),
            )
            for j in page.items
        ],
        empty="There are no more jobs."
        if cursor
        else none_matches(filters) or "No jobs. Send one: springtide submit --gpus 1 -- python train.py",
    )
    if page.next:
        click.echo(f"There are more: --cursor {one_line(page.next)}")
    if page.looked_at is not None:
        say(f"Only the newest {amount(page.looked_at)} jobs were looked at. Narrow it by --project or --mine.")


def asked(job: Job, gpu_types: str = "") -> str:
    """Return the GPUs a job wants: ``2``, ``4x2`` for four workers with two each; of a sweep ``2 each``."""
    gpus, workers = job.options.gpus, job.options.workers
    number = str(gpus) if workers == 1 else f"{workers}x{gpus}"
    return " ".join(filter(None, (number, gpu_types, "each" if job.trials is not None and gpus else "")))


def progress(job: Job) -> str:
    """Return the progress of a job, in steps, or of a sweep, in trials that ran to their end: ``12/60``."""
    if (trials := job.trials) is not None:
        return f"{trials.succeeded + trials.pruned + trials.failed}/{trials.number}"
    if job.progress.step is None:
        return ""
    return f"{job.progress.step:g}/{job.progress.of:g}" if job.progress.of else f"{job.progress.step:g}"


def forked_from(job: Job) -> str:
    """Return the job and the step of the checkpoint that a fork began with: ``train at step 3``; else empty."""
    if job.rerun is None or (fork := job.rerun.fork) is None:
        return ""
    return job.rerun.name if fork.step is None else f"{job.rerun.name} at step {fork.step:g}"


def generation(job: Job) -> str:
    """Return the generation of a trial of a population, or of the population: ``3 of 10``; else empty."""
    if job.trials is not None and (population := job.trials.population) is not None:
        return f"{population.generation} of {population.generations}"
    return _of_trial(job, lambda outcome: outcome.generation)


def _of_trial(job: Job, read: Callable[[Outcome], int | None]) -> str:
    """Return a number of a trial; empty if the job is none, or has no such number."""
    value = None if job.outcome is None else read(job.outcome)
    return "" if value is None else str(value)


def member(job: Job) -> str:
    """Return the member of a population that a trial is of; else empty."""
    return _of_trial(job, lambda outcome: outcome.member)


def copy_of(job: Job) -> str:
    """Return the member of a population whose copy a trial is; else empty."""
    return _of_trial(job, lambda outcome: outcome.copied_from)


class OptionalColumn(NamedTuple):
    """A column that is there if one of the jobs has a text for it."""

    head: str
    text: Callable[[Job], str]


OPTIONAL = (
    OptionalColumn("PRESET", lambda job: job.options.preset or ""),
    OptionalColumn("FORKED FROM", forked_from),
    OptionalColumn("GENERATION", generation),
    OptionalColumn("MEMBER", member),
    OptionalColumn("COPY OF", copy_of),
)


ALREADY_SHOWN = frozenset(FIELDS) - {"tag", "note", "started", "duration"}
"""Names in conditions and orders that the table has columns for."""


def named_columns(where: str | None, order: str | None, now: float) -> list[OptionalColumn]:
    """Return the columns of the values that a condition and an order name, and the table does not have."""
    named = [*(names_of(parse(where, own_zone())) if where else ()), *([order.removeprefix("-")] if order else ())]
    return [
        OptionalColumn(name, partial(named_value, name, now))
        for name in dict.fromkeys(named)
        if name not in ALREADY_SHOWN
    ]


def named_value(name: str, now: float, job: Job) -> str:
    """Return a value of a job by its name in conditions, as text; empty if it has none."""
    value = value_of(run_of(job), name, now)
    match value:
        case None:
            return ""
        case Secret():
            return HIDDEN
        case tuple():
            return " ".join(value)
        case float() if name == "started":
            return ago(value, now)
        case float() if name == "duration":
            return duration(value)
        case float():
            return f"{value:.6g}"
        case _:
            return str(value)


def headline(job: Job) -> str:
    """Return why a job is in its state, in one line; `springtide explain` has the whole."""
    return job.error or (job.reason.headline or job.reason.text if job.reason else "")


def why(job: Job) -> str:
    """Return the sentences that go with a job's state."""
    return job.error or (job.reason.text if job.reason else "")


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
def show(*, job_id: str, as_json: bool) -> None:
    """Show a job: its state, request, environment, reports and outputs."""
    with Client() as client:
        job = client.job(job_id)
        left = [] if job.trials is not None else client.outputs(job.id).items
    if as_json:
        print_json(job)
        return
    click.echo(one_line(f"{job.id} {job.name}: {state_words(job)}. {why(job)}"))
    facts = {**facts_of(job, time.time()), "files": ", ".join(listed_name(file.name) for file in left)}
    for name, value in facts.items():
        if value:
            click.echo(f"  {name:<12} {one_line(value)}")
    if job.environment is not None:
        click.echo("It runs with")
        for head, words in descriptions.facts(job.environment, job.options.image):
            click.echo(one_line(f"{head}: {words}"))


def facts_of(job: Job, now: float) -> dict[str, str]:
    """Return the facts about a job, by label; a fact that it does not have is empty."""
    values = ", ".join(f"{name}={value:g}" for name, value in job.progress.values.items())
    best = None if job.trials is None else job.trials.best
    return {
        "project": job.project,
        "user": job.user,
        "preset": job.options.preset or "",
        "GPUs": asked(job, job.gpu_type or " ".join(job.options.gpu_types)),
        "runs": " ".join(shown_words(job.kind, descriptions.typed_command(job), job.source)),
        "first run": job.rerun.text if job.rerun else "",
        "arguments": descriptions.arguments_words(job),
        "datasets": ", ".join(job.options.datasets),
        "secrets": ", ".join(job.options.secrets),
        "priority": "" if job.options.priority is None else str(job.options.priority),
        "time limit": "" if job.options.time_limit is None else exactly(job.options.time_limit),
        "on hold": "" if job.hold is None else _held(job.hold),
        "tags": " ".join(job.options.tags),
        "submitted": ago(job.submitted, now),
        "started": "" if job.started is None else ago(job.started, now),
        "starts": start_time(job, now),
        "ended": "" if job.ended is None else ago(job.ended, now),
        "exit code": "" if job.exit_code is None else str(job.exit_code),
        "progress": progress(job),
        "reported": values,
        "resumes from": descriptions.resumes_from(job, now),
        "generation": generation(job),
        "member": member(job),
        "copy of": copy_of(job),
        "best": "" if best is None else f"trial {best.trial}: {best.value:g}",
        "attempts": str(job.attempt or ""),
        "submitted by": "" if job.submitted_by is None else f"job {job.submitted_by}",
        "GPU-hours": f"{job.gpu_seconds / 3600:.2f}",
    }


def _held(hold: Hold) -> str:
    """Return who holds a job since when, and why."""
    frozen = f", as “{hold.project}” is frozen" if hold.project else ""
    until = "" if hold.until is None else f", until {with_offset(hold.until)}"
    return f"by {hold.by} since {with_offset(hold.at)}{until}{frozen}{f': {hold.reason}' if hold.reason else ''}"


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the job has ended.")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Which worker's.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only its last lines.  [default: all]")
@json_option
def logs(*, job_id: str, follow: bool, rank: int, tail: int | None, as_json: bool) -> None:
    """Show the log of a job, over all its attempts."""
    with Client() as client:
        show_log(client, job_id, rank=rank, follow=follow, tail=tail, as_json=as_json)


def show_log(
    client: Client,
    job_id: str,
    *,
    rank: int = 0,
    follow: bool,
    tail: int | None = None,
    as_json: bool = False,
) -> None:
    """Print a worker's log, or its last ``tail`` lines; with ``follow``, until the job has ended."""
    width, colours = terminal()
    text, wait = LogText(colours=colours, width=width if follow else None), FOLLOW_WAIT_S if follow else 0
    first = [] if tail is None else client.log_tail(job_id, tail, rank=rank)
    offset, attempt = 0, first[0].attempt if first else 1
    while True:
        if first:
            chunk = first.pop(0)
        else:
            chunk = client.log(job_id, rank=rank, offset=offset, limit=LONGEST_LOG_PIECE, wait=wait)
        if as_json:
            print_json(chunk)
        else:
            if chunk.text and chunk.attempt != attempt:
                attempt = chunk.attempt
                mark = attempt_mark(client.job(job_id), attempt, time.time())
                click.echo(f"{text.finish()}{mark}")
            click.echo(text.feed(chunk.text), nl=False)
        if not first and (chunk.ended or not (follow or chunk.text)):
            if not as_json:
                click.echo(text.finish(), nl=False)
            return
        offset = chunk.next


def _print(job: Job, *, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {state_words(job)}. {why(job)}"))


def act_on(job_ids: Sequence[str], act: Callable[[str], Job], *, as_json: bool) -> None:
    """Act on each job, and print it afterwards; see `on_each`."""
    on_each(job_ids, lambda job_id: _print(act(job_id), as_json=as_json))


def _act(name: str, does: str, act: Callable[[Client, str], Job]) -> click.Command:
    @click.command(name, help=does)
    @click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
    @json_option
    def command(*, job_ids: tuple[str, ...], as_json: bool) -> None:
        with Client() as client:
            act_on(job_ids, lambda job_id: act(client, job_id), as_json=as_json)

    return command


pause = _act("pause", "Ask jobs to save and stop, until you resume them.", Client.pause)
resume = _act("resume", "Let jobs that you paused run again.", Client.resume)
finish = _act("finish", "Mark waiting jobs as finished: they succeed, and are not run again.", Client.finish)


@click.command()
@click.argument("job_ids", metavar="[JOB...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of your own jobs that have not ended.")
@click.option("--project", help="With --all: only those of this project.")
@click.option("--tag", help="With --all: only those with this tag.")
@click.option("--children", is_flag=True, help="Also the unfinished jobs that programs of these have submitted.")
@click.option("--now", is_flag=True, help="Leave them no time to save; also jobs that are being cancelled.")
@json_option
def cancel(
    *,
    job_ids: tuple[str, ...],
    everything: bool,
    project: str | None,
    tag: str | None,
    children: bool,
    now: bool,
    as_json: bool,
) -> None:
    """End jobs for good.

    A job has its grace period to end, then it is killed. With --now it has 5 seconds; one that is being cancelled
    is killed at once. A job that cannot be ended does not keep the others; then the exit code is 1.
    """
    if bool(job_ids) == everything or ((project or tag) and not everything):
        msg = "Name the jobs, or give --all, optionally with --project and --tag."
        raise click.UsageError(msg)
    problems = []
    with Client() as client:
        found = client.all_jobs(state=UNFINISHED, mine=True, project=project, tag=tag) if everything else ()
        for job_id in job_ids or [job.id for job in found]:
            try:
                acted = (
                    client.cancel_with_children(job_id, now=now)
                    if children
                    else [_cancel(client, job_id, now=now)]
                )
            except PoolError as error:
                acted = [JobActed(id=job_id, problem=error.problem)]
            quiet = everything or len(acted) > 1
            for each in acted:
                if each.job is not None:
                    _print(each.job, as_json=as_json)
                elif each.problem is not None and not (quiet and each.problem.status == ENDED):
                    problems.append(refused(each.id, PoolError(each.problem)))
    if problems:
        raise click.ClickException("\n".join(problems))


def _cancel(client: Client, job_id: str, *, now: bool) -> JobActed:
    return JobActed(id=job_id, job=(client.end if now else client.cancel)(job_id))


@click.command()
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(*, job_ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete ended jobs for good: their files, logs, checkpoints, outputs and arguments.

    A sweep is deleted with its trials. Forks keep their checkpoints. Asks first, with the number of jobs and the
    size of their files, unless --yes is given. One that cannot be deleted does not keep the others; then the exit
    code is 1.
    """
    problems: list[str] = []
    with Client() as client:
        if not yes:
            found = _each(job_ids, lambda job_id: client.delete(job_id, dry_run=True), problems)
            total = sum(each.jobs for each in found)
            files = size(sum(each.bytes or 0 for each in found))
            question = f"Delete {count(total, 'job')} with {files} of files? This cannot be undone."
            if found and not click.confirm(question, err=True):
                raise click.Abort
            job_ids = tuple(each.job for each in found)
        for each in _each(job_ids, client.delete, problems):
            if as_json:
                print_json(each)
            else:
                click.echo(one_line(f"{each.job} {each.name}: deleted"))
    if problems:
        raise click.ClickException("\n".join(problems))


def _each(job_ids: Sequence[str], ask: Callable[[str], Deletion], problems: list[str]) -> list[Deletion]:
    """Return the answers for each job; refusals are added to ``problems``."""
    found = []
    for job_id in dict.fromkeys(job_ids):
        try:
            found.append(ask(job_id))
        except PoolError as error:
            problems.append(refused(job_id, error))
    return found


@click.command()
@click.option(
    "--remove", multiple=True, metavar="TAG", help="Remove this tag from the job; repeat it for several."
)
@json_option
@click.argument("job_id", metavar="JOB")
@click.argument("tags", metavar="[TAG]...", nargs=-1)
def tag(*, job_id: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Add tags to a job, also to one that has ended, and print its tags: springtide tag JOB best."""
    with Client() as client:
        edit = TagsEdit(add=list(tags), remove=list(remove))
        job = client.edit_tags(job_id, edit) if tags or remove else client.job(job_id)
    if as_json:
        print_json(job)
    else:
        click.echo(one_line(f"{job.id} {job.name}: {' '.join(job.options.tags) or 'no tags'}"))
