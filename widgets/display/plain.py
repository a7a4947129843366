"""Jobs, sweeps and the pool as text and HTML tables, for places without widgets; texts are escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from springtide.scheduler.arguments import WHOLE, Argument
from springtide.scheduler.client.descriptions import arguments_words, facts, resumes_from
from springtide.scheduler.model import JobState
from springtide.scheduler.wire import (
    Job,
    JobEnvironment,
    PoolView,
    ProjectView,
    TrialCounts,
    TrialRow,
    TypeNumbers,
)
from springtide.scheduler.wording import count, free
from springtide.widgets.display import phrases

JOB_HEADS = ("id", "job", "project", "state", "progress", "GPUs", "why")
NAME = ' style="text-align: left; white-space: nowrap"'
LEFT = ' style="text-align: left"'
SHORT = 24
"""Characters up to which no entry of a column is broken into lines."""
MOST_ROWS = 100
"""Maximum number of jobs in a table."""
NO_JOBS = "No jobs yet. Send one with pool.submit(…)."
PROJECT_HEADS = ("project", "quota", "held", "borrowed", "waiting")
NO_TRIALS = "No trials."
ENDED = frozenset(state for state in JobState if state.final)
MOST_PARAMETERS = 8
"""Maximum number of parameters with a column of their own."""


class Environment:
    """The environment of a job, as a table; ``told`` has the parts. ``image`` is None on one machine."""

    def __init__(self, told: JobEnvironment, image: str | None) -> None:
        self.told = told
        self.image = image

    def __repr__(self) -> str:
        return "\n".join(phrases.clean(f"{head}: {words}") for head, words in facts(self.told, self.image))

    def _repr_html_(self) -> str:
        return pair_table([(head, phrases.clean(words)) for head, words in facts(self.told, self.image)])


def job_text(job: Job, now: float) -> str:
    """Return one job in one or two lines."""
    asked = f"{_asks(job)} {phrases.asked(job)}"
    about = [phrases.state(job), phrases.progress(job), phrases.held(job) or asked]
    first = f"Job {phrases.clean(job.name)} ({phrases.clean(job.id)}): {', '.join(part for part in about if part)}"
    why = " ".join(part for part in (phrases.why(job), phrases.starts(job, now)) if part)
    return "\n".join(filter(None, [first, phrases.rerun(job), phrases.test_run(job), why]))


def _asks(job: Job) -> str:
    return "asked for" if job.state in ENDED else "asks for"


def job_html(job: Job, now: float) -> str:
    """Return one job as a table of two columns."""
    rows = [
        ("job", f"{job.name} ({job.id})"),
        ("project", job.project),
        ("arguments", arguments_words(job)),
        ("tags", " ".join(job.options.tags)),
        ("first run", phrases.rerun(job)),
        ("test run", phrases.test_run(job)),
        ("state", phrases.state(job)),
        ("progress", phrases.progress(job)),
        ("resumes from", phrases.clean(resumes_from(job, now))),
        (_asks(job), phrases.asked(job)),
        ("holds", phrases.held(job)),
        ("use of GPUs", phrases.used(job)),
        ("why", phrases.why(job)),
        ("starts", phrases.starts(job, now)),
    ]
    return pair_table(rows)


def pair_table(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of heads and their values; heads without a value are left out."""
    lines = (
        f"<tr><th{NAME}>{head}</th><td{LEFT}>{phrases.escape(value)}</td></tr>" for head, value in rows if value
    )
    return f"<table>{''.join(lines)}</table>"


def jobs_text(jobs: Sequence[Job], none: str = "") -> str:
    """Return jobs as a table in text: the first ones, and how many more there are; ``none`` if there are none."""
    table = text_table(JOB_HEADS, [_job_row(job) for job in jobs[:MOST_ROWS]], none or NO_JOBS)
    return "\n".join(filter(None, [table, _more_jobs(jobs)]))


def jobs_html(jobs: Sequence[Job], none: str = "") -> str:
    """Return jobs as a table in HTML: the first ones, and how many more there are; ``none`` if there are none."""
    table = html_table(JOB_HEADS, [_job_row(job) for job in jobs[:MOST_ROWS]], none or NO_JOBS)
    rest = _more_jobs(jobs)
    return f"{table}<p>{rest}</p>" if rest else table


def pool_text(pool: PoolView) -> str:
    """Return the pool at a glance."""
    rows = _project_rows(pool)
    return f"{_totals(pool)}\n{text_table(_project_heads(pool), rows, 'There are no projects yet.')}"


def pool_html(pool: PoolView) -> str:
    """Return the pool at a glance, as a table."""
    rows = _project_rows(pool)
    table = html_table(_project_heads(pool), rows, "There are no projects yet.")
    return f"<p>{phrases.escape(_totals(pool))}</p>{table}"


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    """Return a table with columns as wide as their widest entry."""
    if not rows:
        return empty
    cleaned = [[phrases.clean(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[place]) for row in cleaned) for place in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cleaned
    )


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    """Return a table with a line of heads, numbers to the right and words to the left."""
    if not rows:
        return f"<p>{phrases.escape(empty)}</p>"
    styles = [_style([row[place] for row in rows]) for place in range(len(heads))]
    top = "".join(f"<th{style}>{phrases.escape(head)}</th>" for head, style in zip(heads, styles, strict=True))
    body = "".join(f"<tr>{_cells(row, styles)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], styles: Sequence[str]) -> str:
    cells = zip(row, styles, strict=True)
    return "".join(f"<td{style}>{phrases.escape(cell)}</td>" for cell, style in cells)


def _style(column: Sequence[str]) -> str:
    if all(cell.isdecimal() for cell in column):
        return ' style="text-align: right"'
    short = max(map(len, column)) <= SHORT
    return f' style="text-align: left{"; white-space: nowrap" if short else ""}"'


def _totals(pool: PoolView) -> str:
    simulated = " (simulated)" if pool.simulated else ""
    types = [
        f"{of.train_held} of {count(of.train_gpus, f'train {each} GPU')}" for each, of in pool.by_type.items()
    ]
    held = ", ".join(types) or f"{pool.train_held} of {count(pool.train_gpus, 'train GPU')}"
    return f"{held}{simulated} held, {free(pool.train_free)}"


def _more_jobs(jobs: Sequence[Job]) -> str:
    more = len(jobs) - MOST_ROWS
    return f"… and {count(more, 'job')} more." if more > 0 else ""


def _job_row(job: Job) -> tuple[str, ...]:
    gpus = phrases.held(job) or phrases.asked(job)
    return (job.id, job.name, job.project, phrases.state(job), phrases.progress(job), gpus, phrases.headline(job))


def _project_heads(pool: PoolView) -> tuple[str, ...]:
    """Return the heads of the table of projects, with one for the GPU type if the pool has several."""
    return (PROJECT_HEADS[0], "type", *PROJECT_HEADS[1:]) if pool.by_type else PROJECT_HEADS


def _project_rows(pool: PoolView) -> list[tuple[str, ...]]:
    """Return the rows of the table of projects: one per project, or one for each of its GPU types."""
    rows: list[tuple[str, ...]] = []
    for project in pool.projects:
        if not pool.by_type:
            rows.append((project.name, *_numbers(project)))
        rows += [(project.name, gpu_type, *_numbers(of)) for gpu_type, of in project.by_type.items()]
    return rows


def _numbers(of: ProjectView | TypeNumbers) -> tuple[str, ...]:
    quota = "unlimited" if of.quota is None else str(of.quota)
    return (quota, str(of.held), str(of.borrowed), str(of.waiting))


def sweep_text(job: Job) -> str:
    """Return a sweep in up to three lines: its state, the best trial, and the reason of its state."""
    about = ", ".join(filter(None, [phrases.state(job), phrases.progress(job), _parts(job), phrases.held(job)]))
    about = ", ".join(filter(None, [population_words(job.trials), about]))
    first = f"Sweep {phrases.clean(job.name)} ({phrases.clean(job.id)}): {about}"
    best = f"Best {best_words(job.trials)}" if job.trials is not None and job.trials.best is not None else ""
    return "\n".join(filter(None, [first, best, phrases.rerun(job), phrases.why(job)]))


def sweep_html(job: Job) -> str:
    """Return a sweep as a table of two columns."""
    rows = [
        ("sweep", f"{job.name} ({job.id})"),
        ("project", job.project),
        ("tags", " ".join(job.options.tags)),
        ("first run", phrases.rerun(job)),
        ("state", phrases.state(job)),
        ("population", population_words(job.trials)),
        ("trials", ", ".join(filter(None, [phrases.progress(job), _parts(job)]))),
        ("best", best_words(job.trials)),
        (f"each {_asks(job)}", phrases.asked(job)),
        ("holds", phrases.held(job)),
        ("why", phrases.why(job)),
    ]
    return pair_table(rows)


def trials_text(rows: Sequence[TrialRow], metric: str) -> str:
    """Return trials as a table in text: the first ones, and how many more there are."""
    table = text_table(_heads(rows, metric), [_row(row, _names(rows)) for row in rows[:MOST_ROWS]], NO_TRIALS)
    return "\n".join(filter(None, [table, _more_trials(rows)]))


def trials_html(rows: Sequence[TrialRow], metric: str) -> str:
    """Return trials as a table in HTML: the first ones, and how many more there are."""
    table = html_table(_heads(rows, metric), [_row(row, _names(rows)) for row in rows[:MOST_ROWS]], NO_TRIALS)
    rest = _more_trials(rows)
    return f"{table}<p>{rest}</p>" if rest else table


def population_words(trials: TrialCounts | None) -> str:
    """Return ``generation 3 of 10 of 8 members``; empty for any other sweep."""
    of = None if trials is None else trials.population
    return "" if of is None else f"generation {of.generation} of {of.generations} of {of.members} members"


def best_words(trials: TrialCounts | None) -> str:
    """Return ``loss 0.031 in trial 7 (lr 0.01, layers 2)``; empty if there is no best trial."""
    if trials is None or trials.best is None:
        return ""
    best = trials.best
    chosen = ", ".join(f"{phrases.clean(name)} {shown(value)}" for name, value in (best.parameters or {}).items())
    where = f"in trial {best.trial}{f' ({chosen})' if chosen else ''}"
    return f"{phrases.clean(trials.metric) or 'value'} {shown(best.value)} {where}"


def shown(value: Any) -> str:
    """Return a value of a parameter or of a metric in short."""
    if isinstance(value, Argument):
        value = value.value
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    is_short = isinstance(value, float) or (isinstance(value, int) and abs(value) < WHOLE)
    return f"{value:.6g}" if is_short else phrases.clean(str(value))


def _parts(job: Job) -> str:
    """Return ``3 pruned, 1 failed, 2 cancelled``, without zero counts."""
    of = job.trials
    if of is None:
        return ""
    parts = {"pruned": of.pruned, "failed": of.failed, "cancelled": of.cancelled, "paused": of.paused}
    return ", ".join(f"{number} {word}" for word, number in parts.items() if number)


def _names(rows: Sequence[TrialRow]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.parameters or {}))[:MOST_PARAMETERS]


def _heads(rows: Sequence[TrialRow], metric: str) -> list[str]:
    lineage = ["generation", "member", "copy of member"] if _of_population(rows) else []
    return ["trial", *lineage, "state", *_names(rows), metric or "value", "step", "attempts", "error"]


def _of_population(rows: Sequence[TrialRow]) -> bool:
    return any(row.member is not None for row in rows)


def _row(row: TrialRow, names: Sequence[str]) -> list[str]:
    parameters: Mapping[str, Any] = row.parameters or {}
    step = "" if row.step is None else f"{row.step:g}" + ("" if row.of is None else f" of {row.of:g}")
    chosen = [shown(parameters.get(name)) for name in names]
    attempts = str(row.attempt) if row.attempt else ""
    state = f"{phrases.GLYPHS.get(row.state, '?')} {phrases.clean(row.state)}"
    lineage = [] if row.member is None else [shown(row.generation), shown(row.member), shown(row.copied_from)]
    outcome = [shown(row.value), step, attempts, phrases.clean(row.error)]
    return [str(row.trial), *lineage, state, *chosen, *outcome]


def _more_trials(rows: Sequence[TrialRow]) -> str:
    more = len(rows) - MOST_ROWS
    return f"… and {count(more, 'trial')} more." if more > 0 else ""
