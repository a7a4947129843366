"""Quantities, times and other people's text as sentences, where no picture can be drawn."""

from __future__ import annotations

import html
import re
import unicodedata

from springtide.scheduler.client.times import expectation
from springtide.scheduler.wire import Job

GLYPHS = {
    "queued": "◷",
    "starting": "◌",
    "running": "▶",
    "pausing": "◍",
    "paused": "⏸",
    "succeeded": "✔",
    "failed": "✘",
    "cancelled": "⊘",
}
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
KEPT = frozenset("\n\r\t\x1b")


def clean(text: str) -> str:
    """One line that shows what it says: no control, direction or terminal escape characters."""
    visible = (" " if char.isspace() else char for char in ESCAPES.sub("", text))
    return " ".join("".join(char for char in visible if unicodedata.category(char) not in {"Cc", "Cf"}).split())


def clean_lines(text: str) -> str:
    """The same for a log: line ends, tabs and colours stay."""
    coloured = ESCAPES.sub(lambda found: found[0] if COLOUR.fullmatch(found[0]) else "", text)
    return "".join(char for char in coloured if char in KEPT or unicodedata.category(char) not in {"Cc", "Cf"})


def escape(text: str) -> str:
    """The same, fit to stand inside HTML."""
    return html.escape(clean(text))


def sentence(text: str) -> str:
    """One line that ends as a sentence does."""
    words = clean(text)
    return words if not words or words[-1] in ".!?" else f"{words}."


def count(number: int, one: str) -> str:
    """``1 GPU``, ``4 GPUs``."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def state(job: Job) -> str:
    """The state as a glyph and a word."""
    return f"{GLYPHS.get(job.state, '?')} {clean(job.state)}"


def progress(job: Job) -> str:
    """``step 41 of 60``, empty if the job reported none."""
    step, of = job.progress.step, job.progress.of
    if step is None:
        return ""
    return f"step {step:g}" if of is None else f"step {step:g} of {of:g}"


def held(job: Job) -> str:
    """``8 GPUs, 6 of them borrowed``, empty if it holds none."""
    borrowed = sum(gpu.borrowed for gpu in job.held)
    if not job.held:
        return ""
    if not borrowed:
        return count(len(job.held), "GPU")
    part = "borrowed" if borrowed == len(job.held) else f"{borrowed} of them borrowed"
    return f"{count(len(job.held), 'GPU')}, {part}"


def why(job: Job) -> str:
    """Why the job stands as it does: its error, or the pool's reason with its place in line."""
    if job.error:
        return sentence(job.error)
    line = "" if not job.place else "Next in line." if job.place == 1 else f"Number {job.place} in line."
    return " ".join(part for part in (sentence(job.reason.text) if job.reason else "", line) if part)


def starts(job: Job, now: float) -> str:
    """When a waiting job is expected to start or resume, empty where nothing is known of it."""
    return (
        "" if job.starts is None else clean(expectation(job.starts, now, "resumes" if job.attempt else "starts"))
    )


def asked(job: Job) -> str:
    """``4 GPUs``, ``2 workers with 4 GPUs each``."""
    gpus = count(job.gpus, "GPU")
    return gpus if job.workers == 1 else f"{count(job.workers, 'worker')} with {gpus} each"
