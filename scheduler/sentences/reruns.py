"""What a job that is run again has in common with the first run, and what not."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler.wording import quoted


def rerun_text(name: str, changes: Sequence[tuple[str, str, str]]) -> str:
    """Return ``Run again of train.py: gpus 1 → 2.`` for an option's name, and its value before and after.

    An empty value before means that the change is told as a whole.
    """
    told = [f"{option} {before} → {after}" if before else f"{option} {after}" for option, before, after in changes]
    return f"Run again of {quoted(name)}{': ' if told else ' with nothing changed'}{', '.join(told)}."
