"""Advice from earlier runs of a work on GPU type, number of GPUs and spread of the next one; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from springtide.scheduler.engine.placements.comparison import MIN_RUNS, best_size, times_as_fast
from springtide.scheduler.engine.placements.slow import Known, spreads_by_speed
from springtide.scheduler.engine.placements.statistics import Speeds
from springtide.scheduler.gpu_types import accepted_types
from springtide.scheduler.model import Reason
from springtide.scheduler.sentences.estimates import BETTER_SIZE, FASTER_SPREAD, FASTER_TYPE
from springtide.scheduler.sentences.sentence import Param
from springtide.scheduler.store.records import JobSpec


def advice(known: Known, job: JobSpec, types: Sequence[str]) -> Iterator[Reason]:
    """Yield what would make a job faster, or as fast with fewer GPUs; ``types`` are the pool's GPU types.

    It is compared with the first GPU type that the job accepts and of which runs of its size are known.
    """
    size = (job.workers, job.gpus)
    by_type = {each: _fastest(known, size, each) for each in types}
    here = next((each for each in accepted_types(job.options.gpu_types, types) if by_type[each] is not None), None)
    if here is None or (present := by_type[here]) is None:
        return
    yield from _faster_type(here, present, by_type)
    yield from _better_size(known, size, here, several=len(types) > 1)
    yield from _faster_spread(known, size, here)


def _fastest(known: Known, size: tuple[int, int], gpu_type: str) -> Speeds | None:
    """Return the speeds of a size on a GPU type with the spread with which they are highest."""
    return next((speeds for _, speeds in spreads_by_speed(known, size, gpu_type)), None)


def _faster_type(here: str, present: Speeds, by_type: Mapping[str, Speeds | None]) -> Iterator[Reason]:
    found = [
        (times, each, len(speeds.per_second))
        for each, speeds in by_type.items()
        if speeds is not None and (times := times_as_fast(speeds.per_second, present.per_second)) is not None
    ]
    if found:
        times, faster, runs = max(found)
        params: dict[str, Param] = {"faster_type": faster, "gpu_type": here, "times": round(times, 2)}
        yield Reason(FASTER_TYPE, {**params, "faster_runs": runs, "runs": len(present.per_second)})


def _better_size(known: Known, size: tuple[int, int], gpu_type: str, *, several: bool) -> Iterator[Reason]:
    """Yield the number of GPUs that pays, by the part of the whole job that is done per second.

    Steps themselves do not compare: with more GPUs a step may be larger.
    """
    speeds: dict[tuple[int, int], Sequence[float]] = {}
    for placed, _ in known:
        other = (placed.workers, placed.gpus)
        fastest = _fastest(known, other, gpu_type)
        if fastest is not None and len(fastest.whole_per_second) >= MIN_RUNS:
            speeds[other] = fastest.whole_per_second
    if size not in speeds:
        return
    usual = {each: median(of) for each, of in speeds.items()}
    better = best_size(usual, {each: each[0] * each[1] for each in usual})
    more = better[0] * better[1] > size[0] * size[1]
    if better == size or (more and times_as_fast(speeds[better], speeds[size]) is None):
        return
    params = {"better_workers": better[0], "better_gpus": better[1], "workers": size[0], "gpus": size[1]}
    runs = {"faster_runs": len(speeds[better]), "runs": len(speeds[size])}
    times = round(usual[better] / usual[size], 2)
    yield Reason(BETTER_SIZE, {**params, **runs, "times": times, **({"of_type": gpu_type} if several else {})})


def _faster_spread(known: Known, size: tuple[int, int], gpu_type: str) -> Iterator[Reason]:
    measured = spreads_by_speed(known, size, gpu_type)
    if len(measured) < 2:
        return
    (spread, first), (other, second), *_ = measured
    times = times_as_fast(first.per_second, second.per_second)
    if times is not None:
        params: dict[str, Param] = {"faster_level": spread.level, "faster_nodes": spread.nodes}
        params |= {"level": other.level, "nodes": other.nodes}
        runs = {"faster_runs": len(first.per_second), "runs": len(second.per_second)}
        yield Reason(FASTER_SPREAD, {**params, **runs, "times": round(times, 2)})
