"""What earlier runs say about the placement of a job, as rows of a table and in words."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler import wording
from springtide.scheduler.wire import Advice, MeasuredPlacement

HEADS = ("GPUs", "type", "placed", "speed", "runs")
NOTHING = (
    "Nothing is known of it yet: no run of a minute or more has ended that reports steps or ran without a pause. "
    "Runs count for jobs of the same name, project and person."
)
"""What is said if no run was measured."""
ALIKE = "No other GPUs are known to be notably faster, or to be worth more."
"""What is said if runs were measured, and nothing follows."""


def advice_words(told: Advice) -> str:
    """Return what earlier runs say, in sentences."""
    return told.text or (ALIKE if told.placements else NOTHING)


def placement_rows(told: Advice) -> list[Sequence[str]]:
    """Return a row for each placement that was measured, in the order of `HEADS`."""
    return [(_gpus(each), each.gpu_type, each.placed, _speed(each), str(each.runs)) for each in told.placements]


def _gpus(row: MeasuredPlacement) -> str:
    return str(row.gpus) if row.workers == 1 else f"{row.workers} x {row.gpus}"


def _speed(row: MeasuredPlacement) -> str:
    if row.steps_per_second is None:
        return f"{wording.duration(row.run_seconds or 0.0)} for a run"
    if row.steps_per_second >= 1:
        return f"{wording.amount(float(f'{row.steps_per_second:.3g}'))} steps/s"
    return f"{1 / row.steps_per_second:.3g} s for a step"
