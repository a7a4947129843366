"""The differences between a job that runs again, or is forked, and its first run."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler.wording import quoted

NOT_PASSED = (
    "Nothing passes the checkpoint to its command: it continues if it finds the file by itself, or with the "
    "option resume, such as “--resume {checkpoint}”."
)


def rerun_text(name: str, changes: Sequence[tuple[str, str, str]]) -> str:
    """Return ``Run again of train.py: gpus 1 → 2.`` for an option's name, and its value before and after.

    If the value before is empty, the value after describes the whole change.
    """
    return f"Run again of {quoted(name)}{_changes(changes)}."


def fork_words(name: str, checkpoint: str, step: float | None) -> str:
    """Return which checkpoint a fork continues from: ``step 40 of “train”``."""
    at = f"step {step:g}" if step is not None else f"the checkpoint {quoted(checkpoint)}"
    return f"{at} of {quoted(name)}"


def fork_text(
    name: str, checkpoint: str, step: float | None, changes: Sequence[tuple[str, str, str]], *, advised: bool
) -> str:
    """Return ``Fork of train.py at step 40: lr 0.1 → 0.01.``; differences are as in `rerun_text`.

    With ``advised`` it says that the checkpoint is not passed to the program, which has to find it by itself.
    """
    at = f"at step {step:g}" if step is not None else f"from its checkpoint {quoted(checkpoint)}"
    said = f"Fork of {quoted(name)} {at}{_changes(changes)}."
    return f"{said} {NOT_PASSED}" if advised else said


def fork_mark(checkpoint: str, step: float | None) -> str:
    """Return what follows the name of the first run in that of its fork: ``, from step 40``."""
    return f", from step {step:g}" if step is not None else f", from {checkpoint.rpartition('/')[2]}"


def fork_number(number: int) -> str:
    """Return what follows the name of the second and each further fork from a checkpoint: `` (2)``."""
    return f" ({number})" if number > 1 else ""


def _changes(changes: Sequence[tuple[str, str, str]]) -> str:
    texts = [
        f"{option} {before} → {after}" if before else f"{option} {after}" for option, before, after in changes
    ]
    return f"{': ' if texts else ' with nothing changed'}{', '.join(texts)}"
