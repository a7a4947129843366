"""``springtide explain``."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
import msgspec

from springtide.hub_extension.commands.jobs import asked
from springtide.hub_extension.commands.text import json_option, one_line, print_json
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.client.descriptions import expected_start, prospect, reason_at, state_words
from springtide.scheduler.wire import Alternative as Change
from springtide.scheduler.wire import Attempt, Forecast, Job, ProjectView, Reason, Starts, WhatIf, Wish
from springtide.scheduler.wording import ago, amount, duration, gpus

WAITING = frozenset({"queued", "paused"})
HIGH_PRIORITY = 75
BACK_OFF = "back-off"
"""Reason code of a job whose back-off before the next attempt has not ended."""
WHY = ("state", "cause", "detail")
"""Roles of a reason's sentences that explain it."""
IN_FIRST_LINE = frozenset({"gpus", "workers"})
"""Options that the first line has."""
LATEST_EVENTS = 40
"""Maximum number of events that are shown, the latest ones."""


class Alternative(msgspec.Struct, frozen=True):
    """The forecast for the job, sent again with other options."""

    options: str
    forecast: Forecast


class Explanation(msgspec.Struct, frozen=True):
    """The data that `springtide explain` prints.

    A waiting job has ``starts`` and ``starts_if``, for its sender also the ``alternatives`` that may start sooner.
    """

    job: Job
    project: ProjectView | None
    starts: Starts | None
    alternatives: list[Alternative]
    starts_if: list[Change] = []


@click.command()
@click.argument("job_id", metavar="JOB")
@json_option
def explain(job_id: str, *, as_json: bool) -> None:
    """Explain why a job waits, runs or has ended, and what would change it.

    For a waiting job of your own this also asks the pool whether the job would start sooner if it were sent again
    with fewer GPUs, as an elastic job, or with a higher priority, unless it runs again by itself at a known time.
    """
    with Client() as client:
        explanation = explained(client, job_id)
    if as_json:
        print_json(explanation)
        return
    for line in lines_of(explanation, time.time()):
        click.echo(one_line(line) if not line.startswith(" ") else f"  {one_line(line)}")


def explained(client: Client, job_id: str) -> Explanation:
    """Return the explanation of a job. Raises `PoolError` for a job that the caller may not see."""
    job = client.job(job_id)
    project = next((each for each in client.pool().projects if each.name == job.project), None)
    if job.state not in WAITING or job.held_by_user or job.hold is not None:
        return Explanation(job, project, None, [])
    client.forecast(WhatIf(starts=[job.id]))  # the job has the start from then on, wherever it is shown
    job = client.job(job_id)
    mine = client.me().name == job.user
    alternatives = [*_alternatives(client, job)] if mine and not waits_by_clock(job) else []
    return Explanation(job, project, job.starts, alternatives, job.starts_if or [])


def waits_by_clock(job: Job) -> bool:
    """Return whether a job waits for the end of its back-off, which no other option shortens."""
    return job.reason is not None and BACK_OFF in {job.reason.code, job.reason.params.get("waits")}


def _alternatives(client: Client, job: Job) -> Iterator[Alternative]:
    for options, wish in variants(job):
        try:
            forecast = client.when(wish)
        except PoolError:
            continue  # the project may not ask for this
        if is_sooner(forecast.job, job.starts):
            yield Alternative(options, forecast)


def is_sooner(one: Starts | None, other: Starts | None) -> bool:
    """Return whether the first start is expected before the other, or it is not known which of them comes first.

    One without a likely time comes first if it may come earlier.
    """
    if one is None or other is None or other.likely is None:
        return True
    if one.likely is None:
        return one.earliest is None or other.earliest is None or one.earliest < other.earliest
    return one.likely < other.likely


def variants(job: Job) -> Iterator[tuple[str, Wish]]:
    """Yield smaller, elastic and more urgent requests of the job, by their options of `springtide submit`."""
    wish = Wish(project=job.project, **{**msgspec.structs.asdict(job.options), "preset": None})
    if wish.gpus > 1:
        yield f"--gpus {wish.gpus // 2}", msgspec.structs.replace(wish, gpus=wish.gpus // 2)
    if wish.least_workers > 1:
        yield "--min-workers 1", msgspec.structs.replace(wish, min_workers=1)
    if wish.priority < HIGH_PRIORITY:
        yield "--priority high", msgspec.structs.replace(wish, priority="high")


def lines_of(explanation: Explanation, now: float) -> Iterator[str]:
    """Yield the printed lines."""
    job = explanation.job
    why = None if job.reason is None else reason_at(job.reason, now)
    yield f"{job.name or job.id} ({job.id}) of {job.user} in {job.project}, GPUs {asked(job)}: {state_words(job)}"
    sections = {
        "Reason": job.error or said(why, *WHY),
        "What would change it": changes(explanation),
        "When": " ".join(
            [
                said(why, "next", "place"),
                expected_start(job, now),
            ]
        ).strip(),
        "First run": job.rerun.text if job.rerun else "",
        "Options": ", ".join(f"{each.label} {each.text}" for each in job.chosen if each.name not in IN_FIRST_LINE),
        "Attempt": _attempt(job.attempts[-1], now) if job.attempts else "",
        "Project": "" if explanation.project is None or job.ended else standing(explanation.project),
    }
    for title, text in sections.items():
        if text:
            yield f"  {title}: {text}"
    left_out = len(job.timeline) - LATEST_EVENTS
    if job.timeline:
        yield "What happened:" if left_out <= 0 else f"What happened, without the first {amount(left_out)} events:"
        yield from (f"  {ago(each.at, now)}: {each.text}" for each in job.timeline[-LATEST_EVENTS:])
    if explanation.alternatives:
        yield "Submitted again with other options:"
        for each in explanation.alternatives:
            yield f"  {each.options}: {prospect(each.forecast)}"


def changes(explanation: Explanation) -> str:
    """Return the changes that let the job start; if none is known, those that its reason names."""
    job = explanation.job
    if job.hold is not None and job.hold.project and not job.ended:
        return f"springtide unfreeze {job.hold.project}, by an administrator of it or of the pool"
    if job.hold is not None and not job.ended:
        return f"springtide release {job.id}, by an administrator of {job.project} or of the pool"
    if job.held_by_user:
        return f"springtide resume {job.id}"
    return " ".join(change.text for change in explanation.starts_if) or said(job.reason, "change", "ease")


def said(reason: Reason | None, *roles: str) -> str:
    """Return the sentences of a reason that have these roles."""
    sentences = [] if reason is None else reason.sentences
    return " ".join(sentence.text for sentence in sentences if sentence.role in roles)


def _attempt(last: Attempt, now: float) -> str:
    if last.ended is None:
        return f"{last.number}, for {duration(now - (last.started or last.created))}"
    return f"{last.number}, {state_words(last)} {ago(last.ended, now)}"


def standing(project: ProjectView) -> str:
    """Return the quota of a project and what it holds, in sentences."""
    quota = "an unlimited quota" if project.quota is None else f"a quota of {gpus(project.quota)}"
    limit = "" if project.limit is None else f" and a limit of {project.limit}"
    borrowed = f" ({project.borrowed} borrowed)" if project.borrowed else ""
    waits = f" Its waiting jobs ask for {gpus(project.waiting)}." if project.waiting else ""
    share = f" Its fair share is {gpus(project.fair_share)} now." if project.held or project.waiting else ""
    held = gpus(project.held) if project.held else "no GPU"
    return f"{project.name} has {quota}{limit}, and holds {held}{borrowed}.{share}{waits}"
