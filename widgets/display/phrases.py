"""Quantities, times and other people's text as sentences, where no picture can be drawn."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Sequence

from springtide.scheduler.client.descriptions import expected_start, state_words
from springtide.scheduler.client.log_text import ESCAPES
from springtide.scheduler.wire import Job, TrialCounts
from springtide.scheduler.wording import amount, count, gpus, workers

GLYPHS = {
    "queued": "◷",
    "starting": "◌",
    "running": "▶",
    "pausing": "◍",
    "cancelling": "⊖",
    "ending": "⊖",
    "paused": "⏸",
    "succeeded": "✔",
    "failed": "✘",
    "cancelled": "⊘",
    "pruned": "✂",
}


def clean(text: str) -> str:
    """Return text as one line without control, direction and terminal escape characters."""
    visible = (" " if char.isspace() else char for char in ESCAPES.sub("", text))
    return " ".join("".join(char for char in visible if unicodedata.category(char) not in {"Cc", "Cf"}).split())


def escape(text: str) -> str:
    """Return text as one line, escaped for HTML."""
    return html.escape(clean(text))


def state(job: Job) -> str:
    """Return the state as a glyph and a word."""
    words = clean(state_words(job))
    return f"{GLYPHS.get(words) or GLYPHS.get(job.state, '?')} {words}"


def distinct_names(jobs: Sequence[Job]) -> list[str]:
    """Return the names of jobs that stand side by side: with their ids where names are equal."""
    names = [job.name or job.id for job in jobs]
    known = Counter(names)
    return [name if known[name] == 1 else f"{name} ({job.id})" for name, job in zip(names, jobs, strict=True)]


def rerun(job: Job) -> str:
    """Return the run that the job repeats, and the differences; empty if it is not a rerun."""
    return "" if job.rerun is None else clean(job.rerun.text)


def test_run(job: Job) -> str:
    """Return the outcome of the job's test run; empty if it has none."""
    return "" if job.test_run is None else clean(job.test_run.text)


def progress(job: Job) -> str:
    """Return ``step 41 of 60``, for a sweep ``12 of 60 trials ended``; empty if the job reported none."""
    if job.trials is not None:
        return f"{ended(job.trials)} of {count(job.trials.number, 'trial')} ended"
    step, of = job.progress.step, job.progress.of
    if step is None:
        return ""
    return f"step {amount(step)}" if of is None else f"step {amount(step)} of {amount(of)}"


def ended(trials: TrialCounts) -> int:
    """Return the number of ended trials, in any final state."""
    return trials.succeeded + trials.pruned + trials.failed + trials.cancelled


def held(job: Job) -> str:
    """Return ``8 GPUs, 6 of them borrowed``, empty if it holds none."""
    borrowed = sum(gpu.borrowed for gpu in job.held) if job.trials is None else job.trials.borrowed
    number = len(job.held) if job.trials is None else job.trials.gpus
    if not number:
        return ""
    held = count(number, f"{job.gpu_type} GPU" if job.gpu_type else "GPU")
    if not borrowed:
        return held
    part = "borrowed" if borrowed == number else f"{borrowed} of them borrowed"
    return f"{held}, {part}"


def used(job: Job) -> str:
    """Return ``87 % used, 24 GiB of memory (simulated)``, empty if neither was measured."""
    usage = job.usage
    if usage is None:
        return ""
    parts = [
        "" if usage.utilization is None else f"{round(100 * usage.utilization)} % used",
        "" if usage.memory_used is None else f"{usage.memory_used / 2**30:.3g} GiB of memory",
    ]
    words = ", ".join(filter(None, parts))
    return f"{words} (simulated)" if words and usage.simulated else words


def headline(job: Job) -> str:
    """Return why the job is in its state, in one line."""
    return clean(job.error or (job.reason.headline or job.reason.text if job.reason else ""))


def why(job: Job) -> str:
    """Return why the job is in its state: its error, or the pool's reason."""
    return clean(job.error or (job.reason.text if job.reason else ""))


def starts(job: Job, now: float) -> str:
    """Return when a waiting job is expected to start or resume; empty if unknown."""
    return clean(expected_start(job, now))


def asked(job: Job) -> str:
    """Return the job's request: ``4 GPUs``, ``2 workers with 4 GPUs each``, ``no GPU``; of a sweep its trials'."""
    many, each = job.options.workers, job.options.gpus
    if not each:
        return "no GPU"
    request = gpus(each) if many == 1 else workers(many, each)
    return request if job.trials is None else f"{request} for each of its trials"
