"""What to expect of a job that is not submitted: when it would start, and what that would mean for others."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import holds_split
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    cause,
    ease,
    follows,
    names,
    number,
    real,
    state,
)
from springtide.scheduler.wording import amount, count, gpus, listed, moment, plural, quoted, workers

NOW, ROOM, LATER, SMALLER = "estimate-now", "estimate-room", "estimate-later", "estimate-smaller"


def _now(p: Params) -> Sentences:
    if not number(p, "gpus"):
        yield state("It would start now, without GPUs.")
        return
    yield state(f"It would start now on {_gpus(p)}.")
    yield from _fewer(p)
    yield from _returned(p)


def _room(p: Params) -> Sentences:
    yield state(f"It would start on {_gpus(p)}, as soon as other jobs have made room.")
    yield from _fewer(p)
    for kind, does in _MADE.items():
        jobs = [_job(*each) for each in zip(*(names(p, f"{kind}_{part}") for part in _PARTS), strict=True)]
        if jobs:
            held = gpus(number(p, f"{kind}_gpus"))
            yield cause(f"For it, {count(len(jobs), 'job')} with {held} would {does}: {listed(jobs)}.")
    yield from _returned(p)


_PARTS = ("names", "users", "projects")
_MADE = {
    "paused": "be paused and resumed later",
    "shrunk": "go on with fewer GPUs",
    "moved": "move to other GPUs",
}


def _job(name: str, user: str, project: str) -> str:
    """Return ``digits of susan in vision``; a job whose name the reader may not see is ``a job``."""
    where = "" if project == user else f" in {quoted(project)}"
    return f"{quoted(name) if name else 'a job'} of {quoted(user)}{where}"


def _gpus(p: Params) -> str:
    return holds_split(number(p, "gpus"), number(p, "borrowed"))


def _fewer(p: Params) -> Sentences:
    begins, most = number(p, "workers"), number(p, "most")
    if begins < most:
        yield follows(
            f"It would begin with {amount(begins)} of {count(most, 'worker')} and grow when GPUs are free."
        )


def _returned(p: Params) -> Sentences:
    borrowed = number(p, "borrowed")
    if borrowed and number(p, "preemptible"):
        them = plural(borrowed, "the borrowed GPU", "the borrowed GPUs")
        yield follows(
            f"When {them} {plural(borrowed, 'is', 'are')} asked back, it is paused and resumes by itself."
        )


def _later(p: Params) -> Sentences:
    last = None if p.get("last") is None else real(p, "last")
    yield state(f"It would likely start {moment(real(p, 'likely'), real(p, 'first'), last)}.")


def _smaller(p: Params) -> Sentences:
    each, many = number(p, "gpus"), number(p, "workers")
    yield ease(f"With {gpus(each) if many == 1 else workers(many, each)} it would start now.")


ESTIMATES: Table = {NOW: _now, ROOM: _room, LATER: _later, SMALLER: _smaller}
