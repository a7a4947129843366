"""The parts of a scenario about its past: what befell its jobs, and changes of its pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from springtide.scheduler.scenario.document import ScenarioError
from springtide.scheduler.scenario.shape import Document, JobPart
from springtide.scheduler.wording import given


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What befalls a job beside the decisions of the pool, in seconds; see `JobPart`."""

    worked: float = 0.0
    started: float | None = None
    away: tuple[tuple[float, float], ...] = ()
    cancelled: float | None = None
    saves: bool = True
    checkpoint_every: float | None = None
    stopped: bool = False


USUAL = Circumstances()
"""Circumstances of a job in one run from submission to end, which saves when it is asked to pause."""


def circumstances_of(part: JobPart) -> Circumstances | None:
    """Return the circumstances of a job, None for the usual ones."""
    own = Circumstances(
        part.worked, part.started, part.away, part.cancelled, part.saves, part.checkpoint_every, part.stopped
    )
    return None if own == USUAL else own


def check_past(document: Document, shown: str) -> None:
    """Check spans of time, and that changes are about known nodes and projects. Raises `ScenarioError`."""
    for field, (start, end) in _stretches(document):
        if end < start:
            raise ScenarioError(shown, field, f"expected an end that is not before {start:g}, got {end:g}")
    nodes, projects = ({part.name for part in parts} for parts in (document.nodes, document.projects))
    for at, change in enumerate(document.changes):
        about: tuple[tuple[str, Iterable[str], set[str]], ...] = (
            ("quota", change.quota, projects),
            ("limit", change.limit, projects),
            ("gpus", change.gpus, nodes),
            ("available", change.available, nodes),
            ("taken", change.taken, nodes),
            ("empties", change.empties, nodes),
        )
        for field, names, known in about:
            unknown = next((name for name in names if name not in known), None)
            if unknown is not None:
                kind = "project" if known is projects else "node"
                message = f"no {kind} {given(unknown)} in the scenario"
                raise ScenarioError(shown, f"changes[{at}].{field}", message)


def _stretches(document: Document) -> Iterator[tuple[str, tuple[float, float]]]:
    if document.span is not None:
        yield "span", document.span
    for at, job in enumerate(document.jobs):
        yield from ((f"jobs[{at}].away[{number}]", stretch) for number, stretch in enumerate(job.away))
