"""What a request for GPUs would mean right now, in words, before it is sent."""

from __future__ import annotations

from springtide.scheduler.wire import ProjectChoice, ProjectView
from springtide.widgets import words


def problem(choice: ProjectChoice, gpus: int, workers: int) -> str:
    """Why the request can never be granted, empty if it can."""
    name = words.clean(choice.name)
    if gpus > choice.max_gpus:
        return f"One worker may have up to {words.count(choice.max_gpus, 'GPU')} in {name}; {gpus} were asked for."
    if gpus * workers > choice.max_total:
        most = words.count(choice.max_total, "GPU")
        return f"A job of {name} may have up to {most}; {workers} with {gpus} each were asked for."
    return ""


def advice(choice: ProjectChoice, view: ProjectView | None, gpus: int, workers: int) -> str:
    """What the project holds, and how much of the request its quota covers."""
    total = gpus * workers
    held = view.held if view else 0
    own = total if choice.quota is None else min(total, max(0, choice.quota - held))
    quota = "an unlimited quota" if choice.quota is None else f"a quota of {words.count(choice.quota, 'GPU')}"
    standing = f"{words.clean(choice.name)} has {quota} and holds {held}; {choice.free_now} are free."
    return f"{standing} {_coverage(total, own)} {_start(total, own, choice.free_now)}"


def _coverage(total: int, own: int) -> str:
    gpus = words.count(total, "GPU")
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
    return "It waits in line until enough are free."
