"""Jobs and the pool as text and as HTML tables, for places without widgets. Everything from others is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from springtide.scheduler.wire import Job, PoolView, ProjectView
from springtide.widgets import words

JOB_HEADS = ("id", "job", "project", "state", "progress", "GPUs", "why")
NAME = ' style="text-align: left; white-space: nowrap"'
LEFT = ' style="text-align: left"'
SHORT = 24
"""Characters up to which no entry of a column is broken into lines."""
PROJECT_HEADS = ("project", "quota", "held", "borrowed", "waiting")


def job_text(job: Job, now: float) -> str:
    """One job in a line or two."""
    about = [words.state(job), words.progress(job), words.held(job) or f"asks for {words.asked(job)}"]
    first = f"Job {words.clean(job.name)} ({words.clean(job.id)}): {', '.join(part for part in about if part)}"
    why = " ".join(part for part in (words.why(job), words.starts(job, now)) if part)
    return f"{first}\n{why}" if why else first


def job_html(job: Job, now: float) -> str:
    """One job as a table of two columns."""
    rows = [
        ("job", f"{job.name} ({job.id})"),
        ("project", job.project),
        ("state", words.state(job)),
        ("progress", words.progress(job)),
        ("asks for", words.asked(job)),
        ("holds", words.held(job)),
        ("why", words.why(job)),
        ("starts", words.starts(job, now)),
    ]
    lines = (
        f"<tr><th{NAME}>{head}</th><td{LEFT}>{words.escape(value)}</td></tr>" for head, value in rows if value
    )
    return f"<table>{''.join(lines)}</table>"


def jobs_text(jobs: Iterable[Job]) -> str:
    """Jobs as a table in text."""
    return text_table(JOB_HEADS, [_job_row(job) for job in jobs], "No jobs yet. Send one with pool.submit(…).")


def jobs_html(jobs: Iterable[Job]) -> str:
    """Jobs as a table in HTML."""
    return html_table(JOB_HEADS, [_job_row(job) for job in jobs], "No jobs yet. Send one with pool.submit(…).")


def pool_text(pool: PoolView) -> str:
    """The pool at a glance."""
    rows = [_project_row(project) for project in pool.projects]
    return f"{_totals(pool)}\n{text_table(PROJECT_HEADS, rows, 'There are no projects yet.')}"


def pool_html(pool: PoolView) -> str:
    """The pool at a glance, as a table."""
    rows = [_project_row(project) for project in pool.projects]
    return f"<p>{words.escape(_totals(pool))}</p>{html_table(PROJECT_HEADS, rows, 'There are no projects yet.')}"


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    """Columns padded to their widest entry."""
    if not rows:
        return empty
    cleaned = [heads, *([words.clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in cleaned) for place in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cleaned
    )


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    """A table with a line of heads, numbers to the right and words to the left."""
    if not rows:
        return f"<p>{words.escape(empty)}</p>"
    styles = [_style([row[place] for row in rows]) for place in range(len(heads))]
    top = "".join(f"<th{style}>{words.escape(head)}</th>" for head, style in zip(heads, styles, strict=True))
    body = "".join(f"<tr>{_cells(row, styles)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], styles: Sequence[str]) -> str:
    cells = zip(row, styles, strict=True)
    return "".join(f"<td{style}>{words.escape(cell)}</td>" for cell, style in cells)


def _style(column: Sequence[str]) -> str:
    if all(cell.isdecimal() for cell in column):
        return ' style="text-align: right"'
    short = max(map(len, column)) <= SHORT
    return f' style="text-align: left{"; white-space: nowrap" if short else ""}"'


def _totals(pool: PoolView) -> str:
    simulated = " (simulated)" if pool.simulated else ""
    return f"{pool.train_held} of {words.count(pool.train_gpus, 'train GPU')}{simulated} held"


def _job_row(job: Job) -> tuple[str, ...]:
    gpus = words.held(job) or words.asked(job)
    return (job.id, job.name, job.project, words.state(job), words.progress(job), gpus, words.why(job))


def _project_row(project: ProjectView) -> tuple[str, ...]:
    quota = "unlimited" if project.quota is None else str(project.quota)
    return (project.name, quota, str(project.held), str(project.borrowed), str(project.waiting))
