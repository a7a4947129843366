"""Estimates for a job: its start, the effects on other jobs, the speed of similar jobs."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import holds_split
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    advice,
    cause,
    ease,
    follows,
    names,
    number,
    real,
    state,
    typed_gpus,
)
from springtide.scheduler.wording import (
    amount,
    capital,
    count,
    gpus,
    labelled,
    listed,
    moment,
    plural,
    quoted,
    workers,
)

FASTER_SPREAD, FASTER_TYPE, BETTER_SIZE = "advice-spread", "advice-gpu-type", "advice-size"
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
    "shrunk": "continue with fewer GPUs",
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
            f"When {them} {plural(borrowed, 'is', 'are')} asked back, the job is paused; it runs again by itself."
        )


def _later(p: Params) -> Sentences:
    last = None if p.get("last") is None else real(p, "last")
    yield state(f"It would likely start {moment(real(p, 'likely'), real(p, 'first'), last)}.")


def _smaller(p: Params) -> Sentences:
    each, many = number(p, "gpus"), number(p, "workers")
    yield ease(f"With {gpus(each) if many == 1 else workers(many, each)} it would start now.")


def spread_words(level: str, nodes: int) -> str:
    """Return the placement of a job's workers: ``on one node``, ``on 2 nodes of one rack``."""
    if nodes > 1:
        return f"on {count(nodes, 'node')}{f' of one {labelled(level)}' if level else ''}"
    return {"island": "in one GPU link island", "socket": "on one processor socket"}.get(level, "on one node")


def times_as_fast(p: Params) -> str:
    """Return ``1.7 times as fast``."""
    return f"{real(p, 'times'):.2g} times as fast"


def _faster_spread(p: Params) -> Sentences:
    there, here = (spread_words(str(p.get(level)), number(p, nodes)) for level, nodes in _SPREADS)
    yield advice(f"{capital(there)} jobs like it were {times_as_fast(p)} as {here} {_by(p)}.")


_SPREADS = (("faster_level", "faster_nodes"), ("level", "nodes"))


def _faster_type(p: Params) -> Sentences:
    there, here = labelled(str(p.get("faster_type"))), labelled(str(p.get("gpu_type")))
    yield advice(f"On {there} GPUs jobs like it were {times_as_fast(p)} as on {here} GPUs {_by(p)}.")


def _better_size(p: Params) -> Sentences:
    there, here = _size(p, "better_workers", "better_gpus"), _size(p, "workers", "gpus")
    yield advice(f"With {there} jobs like it were {times_as_fast(p)} as with {here} {_by(p)}.")


def _size(p: Params, many: str, each: str) -> str:
    if number(p, many) == 1:
        return typed_gpus(p, number(p, each))
    return f"{count(number(p, many), 'worker')} with {typed_gpus(p, number(p, each))} each"


def _by(p: Params) -> str:
    return f"({count(number(p, 'faster_runs'), 'run')} against {amount(number(p, 'runs'))})"


ESTIMATES: Table = {
    NOW: _now,
    ROOM: _room,
    LATER: _later,
    SMALLER: _smaller,
    FASTER_SPREAD: _faster_spread,
    FASTER_TYPE: _faster_type,
    BETTER_SIZE: _better_size,
}
