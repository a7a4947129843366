"""The view of what earlier runs say about the placement of a job."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler import wire
from springtide.scheduler.engine.placements.slow import Known
from springtide.scheduler.engine.placements.speed import RUNS, STEPS
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.model import Reason
from springtide.scheduler.sentences.estimates import spread_words


def advice_view(known: Known, reasons: Iterable[Reason]) -> wire.Advice:
    """Return the advice of ``reasons`` with what is known of each placement, the fastest first."""
    rows = [
        wire.MeasuredPlacement(
            gpu_type=placed.gpu_type,
            workers=placed.workers,
            gpus=placed.gpus,
            level=placed.spread.level,
            nodes=placed.spread.nodes,
            placed=spread_words(placed.spread.level, placed.spread.nodes),
            runs=len(speeds.per_second),
            steps_per_second=speeds.usual if measure == STEPS else None,
            run_seconds=1 / speeds.usual if measure == RUNS else None,
        )
        for (placed, measure), speeds in sorted(known.items(), key=lambda each: -each[1].usual)
    ]
    told = [view for each in reasons if (view := job_view.reason(each)) is not None]
    return wire.Advice(reasons=told, text=" ".join(view.text for view in told), placements=rows)
