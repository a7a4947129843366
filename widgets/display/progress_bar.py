"""The progress bar of ``job.wait()``: one line of text, rewritten in place."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from springtide.scheduler.client.descriptions import state_words
from springtide.scheduler.wire import Job
from springtide.widgets.display import phrases
from springtide.widgets.display.plain import best_words

CELLS = 24
WIDTH = 120


def line(job: Job) -> str:
    """Return the job's state, progress and numbers in one line."""
    step, of = job.progress.step, job.progress.of
    if job.trials is not None:
        step, of = phrases.ended(job.trials), job.trials.number
    bar = f"{draw(step / of)} " if step is not None and of else ""
    values = [f"{phrases.clean(name)} {value:.4g}" for name, value in sorted(job.progress.values.items())]
    best = best_words(job.trials)
    about = [phrases.progress(job), *values, f"best {best}" if best else "", phrases.held(job)]
    waits = phrases.why(job) if job.state in {"queued", "pausing", "paused", "failed"} else ""
    return f"{phrases.state(job)}  {bar}{' · '.join(part for part in [*about, waits] if part)}".rstrip()


def draw(share: float) -> str:
    """Return ``[████░░░░]  50 %``; ``share`` is cut to 0..1."""
    part = min(1.0, max(0.0, share))
    full = int(part * CELLS)
    return f"[{'█' * full}{'░' * (CELLS - full)}] {int(part * 100):3d} %"


def is_rewritten(out: TextIO) -> bool:
    """Return whether a line of a stream can be written again: in terminals and notebooks."""
    return out.isatty() or type(out).__module__.startswith("ipykernel")


class Bar:
    """Writes the line again whenever it changed: in place if that is possible, else on a line of its own
    for each new state.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._in_place = is_rewritten(self._out)
        self._width = shutil.get_terminal_size((WIDTH, 0)).columns - 1
        self._shown = ""
        self._state = ""

    def show(self, job: Job) -> None:
        """Show the state of the job."""
        text, state = line(job)[: self._width], state_words(job)
        if self._in_place and text != self._shown:
            self._out.write(f"\r{text.ljust(len(self._shown))}")
        elif not self._in_place and state != self._state:
            self._out.write(f"{text}\n")
        self._shown, self._state = text, state
        self._out.flush()

    def close(self) -> None:
        """End the line."""
        if self._in_place and self._shown:
            self._out.write("\n")
            self._out.flush()
