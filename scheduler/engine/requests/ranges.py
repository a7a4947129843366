"""Ranges of the requests of a project's jobs: its own together with those of the projects above it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias, TypeVar

from msgspec import UNSET, structs

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.requests import acceptance
from springtide.scheduler.model import PRIORITIES
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources import quantities
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.store.tables import JobRanges, ProjectRecord

Lineage: TypeAlias = Sequence[tuple[str, JobRanges]]
"""A project and its ancestors, nearest first, with their ranges."""

N = TypeVar("N", int, float)

ASK = "or ask an administrator of the project for a wider range"


def stored(ranges: wire.JobRanges) -> JobRanges:
    """Return ranges as the store keeps them. Raises `Refusal` for ranges that no job could meet."""
    check(ranges)
    allowed = None if ranges.images is None else tuple(ranges.images)
    memory = None if ranges.max_memory is None else quantities.memory(ranges.max_memory)
    return JobRanges(**{**structs.asdict(ranges), "images": allowed, "max_memory": memory})


def shown(ranges: JobRanges) -> wire.JobRanges:
    """Return stored ranges as the API shows them."""
    allowed = None if ranges.images is None else list(ranges.images)
    return wire.JobRanges(**{**asdict(ranges), "images": allowed})


def lineage(name: str, projects: Mapping[str, ProjectRecord]) -> Lineage:
    """Return the ranges of a project and its ancestors, nearest first; nothing for an unknown project."""
    found: list[tuple[str, JobRanges]] = []
    current = projects.get(name)
    while current is not None and len(found) < len(projects):
        found.append((current.name, current.ranges))
        current = projects.get(current.project.parent or "")
    return found


def merged(ranges: Lineage, pool_images: Sequence[str] | None) -> JobRanges:
    """Return the ranges that all of a lineage allow; ``images`` are the patterns of any that all others match."""
    bounds = [of for _, of in ranges]
    return JobRanges(
        min_priority=max((of.min_priority for of in bounds), default=0),
        max_priority=min((of.max_priority for of in bounds), default=0),
        max_gpus=min((of.max_gpus for of in bounds if of.max_gpus is not None), default=None),
        max_cpus=min((of.max_cpus for of in bounds if of.max_cpus is not None), default=None),
        max_memory=min((of.max_memory for of in bounds if of.max_memory is not None), default=None),
        max_time_limit=min((of.max_time_limit for of in bounds if of.max_time_limit is not None), default=None),
        images=None if pool_images is None else _common_images(ranges, pool_images),
        jobs_without_gpus=next((of.jobs_without_gpus for of in bounds if of.jobs_without_gpus is not None), None),
    )


def within(spec: JobSpec, ranges: Lineage, kept: Collection[str] = ()) -> JobSpec:
    """Return the spec with the longest time limit allowed if it names none.

    A priority and a time limit that are ``kept``, by name, may be outside the ranges. Raises `Refusal` for others,
    and for a number of GPUs or of cores and an amount of memory outside the ranges.
    """
    for name, of in ranges:
        _check_bounds(spec, name, of, kept)
    longest = merged(ranges, None).max_time_limit
    unlimited = spec.options.time_limit is None and longest is not None and "time_limit" not in kept
    return spec.with_options(time_limit=longest) if unlimited else spec


def choose_image(asked: str | None, ranges: Lineage, pool_images: Sequence[str] | None) -> str | None:
    """Return the image a job runs in: ``asked``, or the first one that pool and projects allow.

    None on one machine. Raises `Refusal` for an image that the pool or one of the projects does not allow.
    """
    limited = [(name, of.images) for name, of in ranges if of.images is not None]
    if pool_images is None or not limited:
        return acceptance.choose_image(asked, pool_images)
    if asked is None:
        allowed = [image for image in _common_images(ranges, pool_images) if "*" not in image]
        if not allowed:
            name = limited[0][0]
            raise _refused(
                "image", f"The project {wording.given(name)} has no default image.", "Name the image of the job."
            )
        asked = allowed[0]
    image = acceptance.choose_image(asked, pool_images)
    for name, patterns in limited:
        if not any(acceptance.matches(asked, pattern) for pattern in patterns):
            some = ", ".join(patterns[: acceptance.MAX_SHOWN])
            raise _refused(
                "image",
                f"The image {wording.given(asked, wording.LONG_GIVEN)} is not one of project "
                f"{wording.given(name)}, whose jobs run in {some}.",
                f"Name one of these, {ASK}.",
            )
    return image


def check(ranges: wire.JobRanges) -> None:
    """Raise `Refusal` for ranges that no job could meet."""
    if ranges.min_priority > ranges.max_priority:
        message = f"The lowest priority is {ranges.min_priority}, above the highest, {ranges.max_priority}."
        raise _refused("ranges", message, "Swap them, or make the range wider.")
    if ranges.images is not None and not ranges.images:
        raise _refused("ranges", "No image is named, so no job could run.", "Name images, or set none for any.")
    wrong = acceptance.wrong_pattern(ranges.images or ())
    if wrong is not None:
        hint = "Write images like registry/name:tag, with * for any characters."
        raise _refused(
            "ranges", f"{wording.given(wrong, wording.LONG_GIVEN)} is no name or pattern of images.", hint
        )


def check_use(edit: wire.ProjectEdit, pool_images: Sequence[str] | None) -> None:
    """Raise `Refusal` for an edit that limits images in a pool that runs jobs without them."""
    if edit.ranges is UNSET:
        return
    check(edit.ranges)
    if edit.ranges.images is not None and pool_images is None:
        message = "This pool runs jobs on one machine, without container images, so images cannot be limited."
        raise _refused("ranges", message, "Leave the images out.")


def _check_bounds(spec: JobSpec, name: str, of: JobRanges, kept: Collection[str]) -> None:
    """Raise `Refusal` for a job outside the ranges of the project ``name``, as in `within`."""
    if "priority" not in kept and not _in(spec.options.priority, of):
        raise _wrong_priority(spec.options.priority, name, of)
    workers = spec.options.workers
    _check_most("gpus", workers * spec.options.gpus, of.max_gpus, wording.gpus, name)
    _check_most("cpus", workers * (spec.options.cpus or 0.0), of.max_cpus, wording.cores, name)
    _check_most("memory", workers * (spec.options.memory or 0), of.max_memory, wording.memory_size, name)
    limit, longest = spec.options.time_limit, of.max_time_limit
    if "time_limit" not in kept and longest is not None and limit is not None and limit > longest:
        raise _refused(
            "time_limit",
            f"The time limit is {wording.exactly(limit)}; a job of project {wording.given(name)} may run for up "
            f"to {wording.exactly(longest)}.",
            f"Choose a shorter time, {ASK}.",
        )


def _wrong_priority(priority: int, name: str, of: JobRanges) -> Refusal:
    named = [f"{word} ({number})" for word, number in PRIORITIES.items() if _in(number, of)]
    names = f" The names within it: {wording.listed(named)}." if named else ""
    return _refused(
        "priority",
        f"The priority is {priority}; jobs of project {wording.given(name)} may have {of.min_priority} to "
        f"{of.max_priority}.",
        f"Choose a number within the range, {ASK}.{names}",
    )


def _check_most(field: str, asked: N, most: N | None, words: Callable[[N], str], name: str) -> None:
    """Raise `Refusal` for a job that asks for more than one job of the project ``name`` may have."""
    if most is not None and asked > most:
        raise _refused(
            field,
            f"The job asks for {words(asked)}; one job of project {wording.given(name)} may have up to "
            f"{words(most)}.",
            f"Ask for less, {ASK}.",
        )


def _in(priority: int, of: JobRanges) -> bool:
    return of.min_priority <= priority <= of.max_priority


def _common_images(ranges: Lineage, pool_images: Sequence[str]) -> tuple[str, ...]:
    lists = [pool_images, *(of.images for _, of in ranges if of.images is not None)]
    every = dict.fromkeys(image for patterns in lists for image in patterns)
    return tuple(
        image
        for image in every
        if all(any(acceptance.matches(image, pattern) for pattern in patterns) for patterns in lists)
    )


def _refused(field: str, message: str, hint: str) -> Refusal:
    return Refusal(422, "out_of_range", message, field=field, hint=hint)
