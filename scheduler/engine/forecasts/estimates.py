"""Estimates for a job before its submission, from the forecast that includes it; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.placements.slow import Known
from springtide.scheduler.engine.placements.speed import RUNS, STEPS
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.forecast import Outlook, Shift
from springtide.scheduler.gpu_types import accepted_types, pool_types, quota_of
from springtide.scheduler.model import Job, Phase, Placement, Project, Reason, Snapshot
from springtide.scheduler.sentences.estimates import LATER, NOW, ROOM, SMALLER, spread_words
from springtide.scheduler.store.records import JobRecord

MAX_SMALLER = 3
"""Maximum number of smaller jobs that are tried."""

Named = Callable[[str], tuple[str, str, str]]
"""Return the name of a job, empty if the caller may not see it, its user and its project."""


def estimate(outlook: Outlook, job: JobRecord, snapshot: Snapshot, starts: wire.Starts, named: Named) -> Reason:
    """Return what to expect of the job; ``snapshot`` has it, ``starts`` is its forecast."""
    start = start_of(outlook, job.id)
    if start is None:
        return _waiting(starts)
    made = [shift for shift in outlook.shifts if shift.beneficiary == job.id]
    params: dict[str, int | str | tuple[str, ...] | None] = {
        "gpus": _gpus(start.after),
        "borrowed": _borrowed(outlook, job, snapshot, start.after),
        "workers": len(start.after),
        "most": job.spec.options.workers,
        "preemptible": int(job.spec.options.is_preemptible),
    }
    if starts_now(outlook, start, snapshot):
        return Reason(NOW, params)
    return Reason(ROOM, {**params, **_made_room(made, named)})


def start_of(outlook: Outlook, job_id: str) -> Shift | None:
    """Return the start of the job by the next decisions; None if they do not start it."""
    return next((shift for shift in outlook.shifts if shift.job == job_id and shift.kind == "started"), None)


def starts_now(outlook: Outlook, start: Shift, snapshot: Snapshot) -> bool:
    """Return whether the job starts on free GPUs, so that nothing has to stop for it."""
    if not start.at_once or any(shift.beneficiary == start.job for shift in outlook.shifts):
        return False
    pausing = _cells(job.placement for job in snapshot.jobs if job.phase is Phase.PAUSING)
    return not pausing & _cells([start.after])


def smaller(wish: wire.Wish, job: JobRecord, snapshot: Snapshot) -> Iterator[wire.Wish]:
    """Yield smaller jobs that may start at once, the largest first: fewer workers, or fewer GPUs of the only one.

    As much as is free, as much as is left of the quota, and the smallest.
    """
    gpus, workers = job.spec.options.gpus, job.spec.options.workers
    unit, whole = (gpus, workers) if workers > 1 else (1, gpus)
    free = _free_by_node(snapshot, job)
    room = sum(each // gpus for each in free) if workers > 1 else max(free, default=0)
    sizes = {room, _left_of_quota(job, snapshot) // unit, 1}
    for size in sorted((size for size in sizes if 0 < size < whole), reverse=True)[:MAX_SMALLER]:
        less = {"workers": size, "min_workers": None} if workers > 1 else {"gpus": size}
        yield msgspec.structs.replace(wish, **less)


def now_without_gpus() -> Reason:
    """Return that a job without GPUs would start at once."""
    return Reason(NOW, {"gpus": 0, "borrowed": 0, "workers": 1, "most": 1, "preemptible": 1})


def would_start_smaller(job: JobRecord) -> Reason:
    """Return that a smaller job would start at once."""
    return Reason(SMALLER, {"gpus": job.spec.options.gpus, "workers": job.spec.options.workers})


def estimate_view(reasons: Sequence[Reason]) -> wire.Reason:
    """Return the view of an estimate: the first reason, with the sentences of all."""
    first, *more = [view for each in reasons if (view := job_view.reason(each)) is not None]
    sentences = [sentence for view in (first, *more) for sentence in view.sentences]
    text = " ".join(view.text for view in (first, *more))
    return msgspec.structs.replace(first, sentences=sentences, text=text)


def _waiting(starts: wire.Starts) -> Reason:
    if starts.likely is None:
        return messages.starts_unknown("working") if starts.why is None else _reason(starts.why)
    return Reason(
        LATER,
        {
            "likely": starts.likely - starts.at,
            "first": 0.0 if starts.earliest is None else starts.earliest - starts.at,
            "last": None if starts.latest is None else starts.latest - starts.at,
        },
    )


def _reason(view: wire.Reason) -> Reason:
    return Reason(view.code, view.params)


def _made_room(made: Iterable[Shift], named: Named) -> dict[str, int | tuple[str, ...]]:
    """Return how jobs make room: by a pause, with fewer GPUs, or by a move."""
    params: dict[str, int | tuple[str, ...]] = {}
    by_kind: dict[str, list[Shift]] = {}
    for shift in made:
        by_kind.setdefault(_kind(shift), []).append(shift)
    for kind, shifts in by_kind.items():
        names, users, projects = zip(*(named(shift.job) for shift in shifts), strict=True)
        params |= {f"{kind}_names": names, f"{kind}_users": users, f"{kind}_projects": projects}
        params[f"{kind}_gpus"] = sum(_gpus(shift.before) for shift in shifts)
    return params


def _kind(shift: Shift) -> str:
    return "shrunk" if shift.after and _gpus(shift.after) < _gpus(shift.before) else shift.kind


def _gpus(placement: Placement) -> int:
    return sum(len(worker.gpus) for worker in placement)


def _cells(placements: Iterable[Placement]) -> set[tuple[str, int]]:
    return {(worker.node, gpu) for placement in placements for worker in placement for gpu in worker.gpus}


def _borrowed(outlook: Outlook, job: JobRecord, snapshot: Snapshot, placement: Placement) -> int:
    """Return how many of the GPUs would be beyond the quota, which older and non-preemptible jobs fill first."""
    if not job.spec.options.is_preemptible:
        return 0
    gpu_type = next(node.gpu_type for node in snapshot.nodes if node.name == placement[0].node)
    standing = outlook.standing[job.spec.project]
    standing = standing.by_type.get(gpu_type, standing)
    return min(_gpus(placement), standing.borrowed)


def _left_of_quota(job: JobRecord, snapshot: Snapshot) -> int:
    types = _types(snapshot)
    project = next((each for each in snapshot.projects if each.name == job.spec.project), None)
    wanted = accepted_types(job.spec.options.gpu_types, types)
    return 0 if project is None else max((_left(project, each, snapshot) for each in wanted), default=0)


def _left(project: Project, gpu_type: str, snapshot: Snapshot) -> int:
    quota = quota_of(project, gpu_type, _types(snapshot))
    of_type = {node.name for node in snapshot.nodes if node.gpu_type == gpu_type}
    held = sum(
        len(worker.gpus)
        for job in _live(snapshot)
        if job.project == project.name
        for worker in job.placement
        if worker.node in of_type
    )
    return 0 if quota is None else max(0, quota - held)


def _free_by_node(snapshot: Snapshot, job: JobRecord) -> list[int]:
    """Return how many GPUs are free on each node that the job can use."""
    held = Counter(node for node, _ in _cells(job.placement for job in _live(snapshot)))
    wanted, per_gpu = accepted_types(job.spec.options.gpu_types, _types(snapshot)), job.spec.options.per_gpu
    return [
        max(0, node.gpus - len(node.taken) - held[node.name])
        for node in snapshot.nodes
        if node.available and node.gpu_type in wanted and node.per_gpu.holds(per_gpu)
    ]


def _types(snapshot: Snapshot) -> tuple[str, ...]:
    return pool_types(snapshot.nodes, snapshot.settings.gpu_types)


def _live(snapshot: Snapshot) -> Iterator[Job]:
    return (job for job in snapshot.jobs if job.placement)


def advice_view(known: Known, reasons: Iterable[Reason]) -> wire.Advice:
    """Return the advice of ``reasons`` with the measurements of each placement, the fastest first."""
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
    views = [view for each in reasons if (view := job_view.reason(each)) is not None]
    return wire.Advice(reasons=views, text=" ".join(view.text for view in views), placements=rows)
