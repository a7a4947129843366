"""Answers of the pool as answers of tools: pure, bounded, and with the words of others apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from springtide.hub_extension.commands.agents import answers
from springtide.hub_extension.commands.agents.aliases import Aliases
from springtide.hub_extension.commands.agents.bounds import clipped, clipped_words, thinned
from springtide.hub_extension.commands.agents.questions import MAX_LISTED, ReadMetrics
from springtide.hub_extension.commands.explain import Explanation, changes, said, standing
from springtide.hub_extension.commands.jobs import asked, progress
from springtide.scheduler.arguments import argument_of
from springtide.scheduler.client.descriptions import (
    arguments_words,
    expected_start,
    facts,
    prospect,
    resumes_from,
    start_time,
    state_words,
    typed_command,
)
from springtide.scheduler.model import JobState
from springtide.scheduler.wire import (
    Attempt,
    Forecast,
    Job,
    JobEnvironment,
    Me,
    Metric,
    OutputList,
    Point,
    PoolView,
    ProjectView,
    Reason,
    TrialRow,
)
from springtide.scheduler.wording import iso

WORDS: Final = 160
"""Longest name, in characters."""
SENTENCES: Final = 800
"""Longest explanation, in characters."""
COMMAND: Final = 400
"""Longest command, in characters."""
TEXT: Final = 2_000
"""Longest text of a program, such as its error, in characters."""
SHOWN_ATTEMPTS: Final = 10
SHOWN_METRICS: Final = 30
SHOWN_FACTS: Final = 30
MAX_SERIES: Final = 2_000
"""Maximum number of points in one answer, of all metrics together."""
OURS: Final = ("state", "cause", "change", "ease", "next", "place")
"""Roles of the sentences that are Springtide's own."""
FOREIGN: Final = ("detail",)
"""Roles of the original words of others."""


def line(job: Job, now: float) -> answers.JobSummary:
    """Return a job of a list: with the headline of its reason in place of the sentences."""
    return summary(job, now, headline="" if job.reason is None else job.reason.headline)


def aliases_of(job: Job) -> Aliases:
    """Return the stand-ins for names in sentences about a job."""
    found = Aliases((job.project, job.user), {job.name: job.id})
    found.learn(job.reason)
    return found


def summary(job: Job, now: float, text: int = COMMAND, headline: str = "") -> answers.JobSummary:
    """Return a job in brief; ``text`` is the longest text of others, in characters.

    It says the ``headline`` in place of the sentences, if there is one.
    """
    aliases = aliases_of(job)
    words = clipped(aliases.apart(headline or said(job.reason, *OURS)), SENTENCES)
    return answers.JobSummary(
        job=job.id,
        kind=job.kind if job.trials is None else "sweep",
        state=job.state,
        shown=state_words(job),
        user=clipped(job.user, WORDS),
        project=clipped(job.project, WORDS),
        gpus=asked(job),
        submitted=iso(job.submitted),
        said=words,
        progress=progress(job),
        started=iso(job.started),
        ended=iso(job.ended),
        starts=start_time(job, now),
        sweep=job.sweep or "",
        untrusted=answers.JobTexts(
            names=aliases.names,
            name=clipped(job.name, WORDS),
            command=clipped_words(typed_command(job), text),
            arguments=clipped(arguments_words(job), text),
            tags=clipped_words(job.options.tags, text),
            note=clipped(job.note, text),
            error=clipped(job.error, text),
            detail=clipped(said(job.reason, *FOREIGN), text),
        ),
    )


def details(job: Job, outputs: OutputList | None, now: float) -> answers.JobDetails:
    """Return a job with all that a page shows of it."""
    counts = {} if job.trials is None else msgspec.structs.asdict(job.trials)
    return answers.JobDetails(
        job=summary(job, now, TEXT),
        gpu_type=clipped(job.gpu_type, WORDS),
        attempts=job.attempt,
        gpu_hours=round(job.gpu_seconds / 3600, 3),
        exit_code=job.exit_code,
        failures=job.failures,
        submitted_by=job.submitted_by or "",
        test_run="" if job.test_run is None else clipped(job.test_run.text, SENTENCES),
        trials={name: counts[name] for name in answers.TRIAL_STATES if name in counts},
        untrusted=answers.DetailTexts(
            options={each.label: clipped(each.text, COMMAND) for each in job.chosen[:SHOWN_FACTS]},
            environment=environment_facts(job.environment, job.options.image),
            files=[clipped(file.name, WORDS) for file in outputs.items[:MAX_LISTED]] if outputs else [],
            resumes_from=clipped(resumes_from(job, now), COMMAND),
            values={clipped(n, WORDS): value for n, value in [*job.progress.values.items()][:SHOWN_METRICS]},
        ),
    )


def environment_facts(environment: JobEnvironment | None, image: str | None) -> dict[str, str]:
    """Return the environment of a job in words; of its variables the names alone."""
    if environment is None:
        return {}
    return {head: clipped(words, COMMAND) for head, words in facts(environment, image)[:SHOWN_FACTS]}


def explanation(found: Explanation, now: float) -> answers.Explanation:
    """Return why a job waits, runs or has ended, and what would change it."""
    job = found.job
    when = expected_start(job, now)
    aliases = aliases_of(job)
    aliases.learn(None if found.starts is None else found.starts.why)
    for change in found.starts_if:
        aliases.learn_change(change)

    def words(text: str) -> str:
        return clipped(aliases.apart(text), SENTENCES)

    return answers.Explanation(
        job=summary(job, now, TEXT),
        changes=words(changes(found)),
        when=words(f"{said(job.reason, 'next', 'place')} {when}"),
        project="" if found.project is None or job.ended else clipped(standing(found.project), SENTENCES),
        attempts=[_attempt(job, each) for each in job.attempts[-SHOWN_ATTEMPTS:]],
        alternatives=[
            answers.Alternative(options=each.options, expectation=words(prospect(each.forecast)))
            for each in found.alternatives
        ],
        untrusted=answers.NameTexts(names=aliases.names),
    )


def _attempt(job: Job, attempt: Attempt) -> answers.AttemptSummary:
    why: Reason | None = attempt.ended_why or attempt.why
    aliases = aliases_of(job)
    aliases.learn(why)
    return answers.AttemptSummary(
        number=attempt.number,
        state=attempt.state,
        shown=state_words(attempt),
        workers=attempt.workers,
        gpus=len(attempt.gpus),
        started=iso(attempt.started),
        ended=iso(attempt.ended),
        exit_code=attempt.exit_code,
        exit_signal=attempt.exit_signal,
        said=clipped(aliases.apart(said(why, *OURS)), SENTENCES),
        untrusted=answers.AttemptTexts(names=aliases.names, detail=clipped(said(why, *FOREIGN), COMMAND)),
    )


def metrics(
    job: Job, found: Sequence[Metric], points: Sequence[Point], asked: ReadMetrics, *, complete: bool
) -> answers.Metrics:
    """Return the metrics of a job, with points of each from its reports."""
    wanted = [each for each in found if not asked.names or each.name in asked.names]
    shown = wanted[:SHOWN_METRICS]
    most = max(1, min(asked.points, MAX_SERIES // max(1, len(shown))))
    return answers.Metrics(
        job=job.id,
        state=job.state,
        shown=state_words(job),
        reports=len(points),
        complete=complete,
        step=job.progress.step,
        of=job.progress.of,
        untrusted=answers.MetricTexts(
            metrics=[_metric(each, points, most) for each in shown],
            left_out=_names(each.name for each in found if each not in shown),
        ),
    )


def _metric(metric: Metric, points: Sequence[Point], most: int) -> answers.Metric:
    pairs = [(point.step, point.values[metric.name]) for point in points if metric.name in point.values]
    best = metric.best
    return answers.Metric(
        name=clipped(metric.name, WORDS),
        last=metric.last,
        best=None if best is None else best.value,
        best_step=None if best is None else best.step,
        goal="" if best is None else best.goal,
        points=len(pairs),
        series=thinned(pairs, most),
    )


def outlook(forecast: Forecast) -> answers.Outlook:
    """Return what to expect of an unsent job."""
    at, aliases = forecast.job, Aliases()
    aliases.learn(forecast.estimate)
    return answers.Outlook(
        expectation=clipped(aliases.apart(prospect(forecast)), SENTENCES),
        likely="" if at is None else iso(at.likely),
        earliest="" if at is None else iso(at.earliest),
        latest="" if at is None else iso(at.latest),
        shifts=[
            answers.Shift(
                kind=each.kind,
                user=clipped(each.user, WORDS),
                project=clipped(each.project, WORDS),
                gpus=each.gpus,
                job=each.job,
            )
            for each in forecast.shifts
            if each.kind != "started"
        ][:MAX_LISTED],
        untrusted=answers.NameTexts(names=aliases.names),
    )


def pool(view: PoolView, me: Me) -> answers.Pool:
    """Return the pool at a glance, the caller's own projects first."""
    own = {project.name for project in me.projects}
    projects = sorted(view.projects, key=lambda each: each.name not in own)
    return answers.Pool(
        you=clipped(me.name, WORDS),
        simulated=view.simulated,
        train_gpus=view.train_gpus,
        train_held=view.train_held,
        train_free=view.train_free,
        build_gpus=view.build_gpus,
        build_held=view.build_held,
        default_project=clipped(me.default_project or "", WORDS),
        gpu_types=_names(view.gpu_types),
        datasets=_names(me.datasets),
        secrets=_names(me.secrets),
        images=_names(me.images),
        priorities=me.priorities,
        projects=[_project(each, yours=each.name in own) for each in projects[:MAX_LISTED]],
        nodes=[
            answers.NodeSummary(
                name=clipped(node.name, WORDS),
                environment=node.environment,
                gpus=len(node.gpus),
                held=sum(cell.holder is not None for cell in node.gpus),
                gpu_type=clipped(node.gpu_type, WORDS),
                free=node.free,
            )
            for node in view.nodes[:MAX_LISTED]
        ],
        more_projects=max(0, len(projects) - MAX_LISTED),
        more_nodes=max(0, len(view.nodes) - MAX_LISTED),
    )


def _names(names: Iterable[str]) -> list[str]:
    return [clipped(name, WORDS) for name in names][:MAX_LISTED]


def _project(view: ProjectView, *, yours: bool) -> answers.ProjectSummary:
    return answers.ProjectSummary(
        name=clipped(view.name, WORDS),
        yours=yours,
        under=clipped(view.parent or "", WORDS),
        quota=view.quota,
        limit=view.limit,
        fair_share=view.fair_share,
        held=view.held,
        borrowed=view.borrowed,
        waiting=view.waiting,
        running_jobs=view.running_jobs,
        waiting_jobs=view.waiting_jobs,
        by_type={
            clipped(name, WORDS): f"quota {'none' if of.quota is None else of.quota}, held {of.held} "
            f"({of.borrowed} borrowed), fair share {of.fair_share}, waiting for {of.waiting}"
            for name, of in view.by_type.items()
        },
    )


def trial(row: TrialRow) -> answers.Trial:
    """Return one trial of a sweep."""
    plain = {name: argument_of(value).value for name, value in (row.parameters or {}).items()}
    parameters = "" if row.parameters is None else msgspec.json.encode(plain).decode()
    return answers.Trial(
        trial=row.trial,
        member=row.member,
        generation=row.generation,
        copied_from=row.copied_from,
        state=row.state,
        shown=state_words(row),
        job=row.job or "",
        value=row.value,
        step=row.step,
        of=row.of,
        started=iso(row.started),
        ended=iso(row.ended),
        untrusted=answers.TrialTexts(parameters=clipped(parameters, COMMAND), error=clipped(row.error, COMMAND)),
    )


def has_ended(job: Job) -> bool:
    """Return whether a job has ended for good."""
    return JobState(job.state).final
