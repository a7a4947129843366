"""The tools that change nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from springtide.hub_extension.commands.agents import answers, questions, views
from springtide.hub_extension.commands.explain import explained
from springtide.hub_extension.commands.results import ended
from springtide.scheduler.client import Client
from springtide.scheduler.client.log_text import attempt_mark, whole_text
from springtide.scheduler.wire import Job, Point, Wish
from springtide.scheduler.wording import count, given

LOG_BYTES: Final = 24_000
"""Maximum number of bytes of a log in one answer."""
NEWLINE: Final = "\n"
MAX_REPORTS: Final = 100_000
"""Maximum number of reports read for a job's metrics."""


class UnknownMetricError(Exception):
    """A name of no metric of the job."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        has = f"It has reported {count(len(known), 'metric')}: read_metrics without names has them."
        hint = has if known else "It has reported none."
        super().__init__(f"The job has no metric {given(name, views.WORDS)}. {hint}")


def list_jobs(client: Client, asked: questions.ListJobs) -> answers.JobPage:
    """List jobs, newest first."""
    page = client.jobs(
        state=asked.state,
        project=asked.project,
        user=asked.user,
        mine=not asked.everyone and asked.user is None,
        tag=asked.tag,
        search=asked.search,
        where=asked.where,
        order=asked.order,
        cursor=asked.cursor,
        limit=asked.limit,
    )
    now = time.time()
    return answers.JobPage(jobs=[views.line(job, now) for job in page.items], next=page.next or "")


def show_job(client: Client, asked: questions.OfJob) -> answers.JobDetails:
    """Show one job."""
    job = client.job(asked.job)
    outputs = None if job.trials is not None else client.outputs(job.id)
    return views.details(job, outputs, time.time())


def wait_for_job(client: Client, asked: questions.WaitForJob) -> answers.Waited:
    """Wait until a job has ended, for some seconds."""
    job = ended(client, asked.job, time.monotonic() + asked.seconds)
    return answers.Waited(final=views.has_ended(job), job=views.summary(job, time.time()))


def explain_job(client: Client, asked: questions.OfJob) -> answers.Explanation:
    """Explain why a job waits, runs or has ended."""
    return views.explanation(explained(client, asked.job), time.time())


def read_log(client: Client, asked: questions.ReadLog) -> answers.Log:
    """Read a part of a job's log: its end, or what comes after a byte."""
    first = client.log(asked.job, rank=asked.rank, offset=_first(asked), limit=LOG_BYTES)
    chunk, text = first, first.text
    while chunk.text and not chunk.ended and chunk.next - first.offset < LOG_BYTES:
        left = LOG_BYTES - (chunk.next - first.offset)
        attempt, chunk = chunk.attempt, client.log(asked.job, rank=asked.rank, offset=chunk.next, limit=left)
        if chunk.text and chunk.attempt != attempt:
            mark = attempt_mark(client.job(asked.job), chunk.attempt, time.time())
            text = f"{text}{'' if text.endswith(NEWLINE) else NEWLINE}{mark}{NEWLINE}"
        text += chunk.text
    lines = text.splitlines(keepends=True)
    skipped = 0 if asked.offset is not None else max(0, len(lines) - asked.lines)
    return answers.Log(
        job=asked.job,
        rank=asked.rank,
        attempt=chunk.attempt,
        next=chunk.next,
        ended=chunk.ended,
        more_before=skipped > 0 or first.offset > 0,
        untrusted=answers.LogText(text=whole_text("".join(lines[skipped:]), colours=False)),
    )


def _first(asked: questions.ReadLog) -> int:
    """Return the byte to read from; a negative one counts from the end."""
    return -LOG_BYTES if asked.offset is None else asked.offset


def read_metrics(client: Client, asked: questions.ReadMetrics) -> answers.Metrics:
    """Read the metrics that a job has reported."""
    job = client.job(asked.job)
    found = client.metrics(job.id, goal=asked.goal)
    known = [each.name for each in found]
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        raise UnknownMetricError(unknown[0], known)
    points, complete = _reports(client, job)
    return views.metrics(job, found, points, asked, complete=complete)


def _reports(client: Client, job: Job) -> tuple[list[Point], bool]:
    """Return the reports of a job from the first on, and whether these are all."""
    found = list(islice(client.all_points(job.id), MAX_REPORTS + 1))
    return found[:MAX_REPORTS], len(found) <= MAX_REPORTS


def forecast_start(client: Client, asked: questions.ForecastStart) -> answers.Outlook:
    """Forecast when a job would start if it were sent now."""
    return views.outlook(client.when(Wish.of(questions.checked_options(asked.options))))


def show_pool(client: Client, _asked: questions.Nothing) -> answers.Pool:
    """Show the pool, its projects and their quotas."""
    return views.pool(client.pool(), client.me())


def list_trials(client: Client, asked: questions.ListTrials) -> answers.TrialPage:
    """List trials of a sweep."""
    page = client.trials(asked.job, sort=asked.sort, state=asked.state, cursor=asked.cursor, limit=asked.limit)
    return answers.TrialPage(sweep=asked.job, trials=[*map(views.trial, page.items)], next=page.next or "")
