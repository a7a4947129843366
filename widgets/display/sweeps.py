"""Sweeps and their trials as text and as HTML tables, for places without widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from springtide.scheduler.wire import Job, TrialCounts, TrialRow
from springtide.scheduler.wording import count
from springtide.widgets.display import phrases
from springtide.widgets.display.plain import MOST_ROWS, html_table, pair_table, text_table

NO_TRIALS = "No trials."
MOST_PARAMETERS = 8
"""Maximum number of parameters with a column of their own."""


def sweep_text(job: Job) -> str:
    """Return a sweep in up to three lines: its state, the best trial, and why it stands so."""
    about = ", ".join(filter(None, [phrases.state(job), phrases.progress(job), _parts(job), phrases.held(job)]))
    first = f"Sweep {phrases.clean(job.name)} ({phrases.clean(job.id)}): {about}"
    best = f"Best {best_words(job.trials)}" if job.trials is not None and job.trials.best is not None else ""
    return "\n".join(filter(None, [first, best, phrases.rerun(job), phrases.why(job)]))


def sweep_html(job: Job) -> str:
    """Return a sweep as a table of two columns."""
    rows = [
        ("sweep", f"{job.name} ({job.id})"),
        ("project", job.project),
        ("tags", " ".join(job.tags)),
        ("first run", phrases.rerun(job)),
        ("state", phrases.state(job)),
        ("trials", ", ".join(filter(None, [phrases.progress(job), _parts(job)]))),
        ("best", best_words(job.trials)),
        ("each asks for", phrases.asked(job)),
        ("holds", phrases.held(job)),
        ("why", phrases.why(job)),
    ]
    return pair_table(rows)


def trials_text(rows: Sequence[TrialRow], metric: str) -> str:
    """Return trials as a table in text: the first ones, and how many more there are."""
    table = text_table(_heads(rows, metric), [_row(row, _names(rows)) for row in rows[:MOST_ROWS]], NO_TRIALS)
    return "\n".join(filter(None, [table, _rest(rows)]))


def trials_html(rows: Sequence[TrialRow], metric: str) -> str:
    """Return trials as a table in HTML: the first ones, and how many more there are."""
    table = html_table(_heads(rows, metric), [_row(row, _names(rows)) for row in rows[:MOST_ROWS]], NO_TRIALS)
    rest = _rest(rows)
    return f"{table}<p>{rest}</p>" if rest else table


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
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    return f"{value:.6g}" if isinstance(value, int | float) else phrases.clean(str(value))


def _parts(job: Job) -> str:
    """Return ``3 pruned, 1 failed, 2 cancelled``, without those that are none."""
    of = job.trials
    if of is None:
        return ""
    parts = {"pruned": of.pruned, "failed": of.failed, "cancelled": of.cancelled, "paused": of.paused}
    return ", ".join(f"{number} {word}" for word, number in parts.items() if number)


def _names(rows: Sequence[TrialRow]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.parameters or {}))[:MOST_PARAMETERS]


def _heads(rows: Sequence[TrialRow], metric: str) -> list[str]:
    return ["trial", "state", *_names(rows), metric or "value", "step", "attempts", "error"]


def _row(row: TrialRow, names: Sequence[str]) -> list[str]:
    parameters: Mapping[str, Any] = row.parameters or {}
    step = "" if row.step is None else f"{row.step:g}" + ("" if row.of is None else f" of {row.of:g}")
    chosen = [shown(parameters.get(name)) for name in names]
    attempts = str(row.attempt) if row.attempt else ""
    state = f"{phrases.GLYPHS.get(row.state, '?')} {phrases.clean(row.state)}"
    return [str(row.trial), state, *chosen, shown(row.value), step, attempts, phrases.clean(row.error)]


def _rest(rows: Sequence[TrialRow]) -> str:
    more = len(rows) - MOST_ROWS
    return f"… and {count(more, 'trial')} more." if more > 0 else ""
