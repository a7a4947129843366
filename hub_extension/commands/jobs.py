"""``springtide jobs``, ``logs``, ``pause``, ``resume`` and ``cancel``."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, printable
from springtide.scheduler.client import Client
from springtide.scheduler.client.times import moment
from springtide.scheduler.wire import Job
from springtide.scheduler.wording import ago

FOLLOW_WAIT_S = 20.0


@click.command()
@click.option("--state", help="Only jobs in this state; several with commas between, such as running,queued.")
@click.option("--project", help="Only jobs of this project.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--user", help="Only jobs of this person.")
@click.option("--mine", is_flag=True, help="Only your own.")
@click.option("--sweep", help="The trials of this sweep, which are left out otherwise.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of jobs.")
@click.option("--cursor", help="Go on where a page ended (`next` of --json).")
@json_option
def jobs(
    *,
    state: str | None,
    project: str | None,
    tag: str | None,
    user: str | None,
    mine: bool,
    sweep: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List jobs, newest first."""
    with Client() as client:
        page = client.jobs(
            state=state, project=project, tag=tag, user=user, mine=mine, sweep=sweep, cursor=cursor, limit=limit
        )
    if as_json:
        print_json(page)
        return
    now = time.time()
    print_table(
        ("JOB", "NAME", "USER", "PROJECT", "STATE", "GPUS", "PROGRESS", "SENT", "STARTS", "WHY"),
        [
            (
                j.id,
                j.name,
                j.user,
                j.project,
                j.state,
                asked(j),
                progress(j),
                ago(j.submitted, now),
                starts(j, now),
                why(j),
            )
            for j in page.items
        ],
        empty="No jobs. Send one: springtide submit --gpus 1 -- python train.py",
    )
    if page.next:
        click.echo(f"There are more: --cursor {one_line(page.next)}")


def asked(job: Job) -> str:
    """Return the GPUs a job wants: ``2``, or ``4x2`` for four workers with two each."""
    return str(job.gpus) if job.workers == 1 else f"{job.workers}x{job.gpus}"


def progress(job: Job) -> str:
    """Return the progress of a job, in steps, or of a sweep, in trials that have ended: ``12/60``."""
    if (trials := job.trials) is not None:
        return f"{trials.number - trials.queued - trials.running - trials.paused}/{trials.number}"
    if job.progress.step is None:
        return ""
    return f"{job.progress.step:g}/{job.progress.of:g}" if job.progress.of else f"{job.progress.step:g}"


def starts(job: Job, now: float) -> str:
    """Return when a waiting job is expected to start; empty if that is not known."""
    return "" if job.starts is None or job.starts.likely is None else moment(job.starts, now)


def why(job: Job) -> str:
    """Return the sentences that go with a job's state."""
    return job.error or (job.reason.text if job.reason else "")


@click.command()
@click.argument("job_id", metavar="JOB")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Which worker's.")
@json_option
def logs(*, job_id: str, follow: bool, rank: int, as_json: bool) -> None:
    """Show what a job wrote, over all its attempts."""
    with Client() as client:
        show_log(client, job_id, rank=rank, follow=follow, as_json=as_json)


def show_log(client: Client, job_id: str, *, rank: int = 0, follow: bool, as_json: bool = False) -> None:
    """Print a worker's log from its start; with ``follow``, until the job has ended."""
    offset = 0
    while True:
        chunk = client.log(job_id, rank=rank, offset=offset, wait=FOLLOW_WAIT_S if follow else 0)
        if as_json:
            print_json(chunk)
        else:
            click.echo(printable(chunk.text), nl=False)
        if chunk.ended or not (follow or chunk.text):
            return
        offset = chunk.next


def _act(name: str, does: str, act: Callable[[Client, str], Job]) -> click.Command:
    @click.command(name, help=does)
    @click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
    @json_option
    def command(*, job_ids: tuple[str, ...], as_json: bool) -> None:
        with Client() as client:
            for job_id in job_ids:
                job = act(client, job_id)
                if as_json:
                    print_json(job)
                else:
                    click.echo(one_line(f"{job.id} {job.name}: {job.state}. {why(job)}"))

    return command


pause = _act("pause", "Pause jobs at their next checkpoint until you resume them.", Client.pause)
resume = _act("resume", "Let jobs that you paused run again.", Client.resume)
cancel = _act("cancel", "End jobs for good.", Client.cancel)
