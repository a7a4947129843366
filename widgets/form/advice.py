"""What a request for GPUs would mean right now, in words, before it is sent."""

from __future__ import annotations

from springtide.scheduler import wording
from springtide.scheduler.wire import ProjectChoice, ProjectView
from springtide.widgets.display import phrases


def problem(
    choice: ProjectChoice, gpus: int, workers: int, *, priority: int, time_limit: float | None = None
) -> str:
    """Return why the request can never be granted; empty if it can. ``time_limit`` is in seconds."""
    name = phrases.clean(choice.name)
    if gpus > choice.max_gpus:
        return f"One worker may have up to {wording.gpus(choice.max_gpus)} in {name}, not {wording.amount(gpus)}."
    if gpus * workers > choice.max_total:
        most, asked = wording.gpus(choice.max_total), wording.workers(workers, gpus)
        return f"A job of {name} may have up to {most}, not {asked}."
    lowest, highest, longest = choice.ranges.min_priority, choice.ranges.max_priority, choice.ranges.max_time_limit
    if not lowest <= priority <= highest:
        return f"Jobs of {name} may have the priorities {lowest} to {highest}, not {priority}."
    if time_limit is not None and longest is not None and time_limit > longest:
        return f"A job of {name} may run for up to {wording.exactly(longest)}, not {wording.exactly(time_limit)}."
    return ""


def advice(choice: ProjectChoice, view: ProjectView | None, gpus: int, workers: int) -> str:
    """Return what the project holds, and how much of the request its quota covers."""
    total = gpus * workers
    held = view.held if view else 0
    own = total if choice.quota is None else min(total, max(0, choice.quota - held))
    quota = "an unlimited quota" if choice.quota is None else f"a quota of {wording.gpus(choice.quota)}"
    are = wording.plural(choice.free_now, "is", "are")
    free = f"{wording.amount(choice.free_now) if choice.free_now else 'none'} {are} free"
    standing = f"{phrases.clean(choice.name)} has {quota} and holds {wording.amount(held)}; {free}."
    return f"{standing} {_coverage(total, own)} {_start(total, own, choice.free_now)}"


def _coverage(total: int, own: int) -> str:
    gpus = wording.gpus(total)
    if own == total:
        return f"The quota covers this job's {gpus}."
    if total == 1:
        borrowed = "The GPU would be borrowed: when its owner asks for it"
    else:
        share = f"{total - own} of this job's" if own else "All"
        borrowed = f"{share} {gpus} would be borrowed: when their owner asks for them"
    return f"{borrowed}, the job pauses at its checkpoint and resumes by itself."


def _start(total: int, own: int, free: int) -> str:
    if total <= free:
        return "It can start at once."
    if own == total:
        return "It waits only until borrowed GPUs have come back."
    return "It starts once enough GPUs are free."
