"""The present state of jobs that hold GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from springtide.scheduler.model import HomeAccess
from springtide.scheduler.sentences.attempts import OWN_FILES
from springtide.scheduler.sentences.decisions import on_held
from springtide.scheduler.sentences.estimates import spread_words, times_as_fast
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    advice,
    change,
    detail,
    follows,
    names,
    number,
    real,
    state,
)
from springtide.scheduler.wording import (
    LONG_GIVEN,
    amount,
    count,
    given,
    gpus,
    labelled,
    listed,
    plural,
    roughly,
)


def _on(p: Params) -> str:
    return on_held(p) or " without GPUs"


def _starting(p: Params) -> Sentences:
    yield state(f"Starting{_on(p)}.")
    if p.get("packages"):
        required = count(number(p, "packages"), "required package")
        yield state(f"Installing {required}. Progress is in the log.")
    yield from _home(p)


HOMES: Mapping[str, str] = {
    HomeAccess.READ_ONLY: "It can read the home of its user, and not write there.",
    HomeAccess.ONE_NODE: "It does not have the home of its user, whose volume one node only can attach.",
    HomeAccess.LEFT_OUT: "It does not have the home of its user: the admin leaves homes out of jobs.",
}


def _home(p: Params) -> Sentences:
    if said := HOMES.get(str(p.get("home", ""))):
        yield state(said)


def _unused(p: Params) -> str:
    """Return the low utilization of the job's GPUs, and for how long it has lasted."""
    held, used, over = number(p, "gpus"), number(p, "used_percent"), roughly(real(p, "unused_seconds"))
    return f"Its {gpus(held)} {plural(held, 'has', 'have')} been {used} % used for {over}."


def _slow(p: Params) -> Sentences:
    here = spread_words(str(p.get("level")), number(p, "nodes"))
    there = spread_words(str(p.get("faster_level")), number(p, "faster_nodes"))
    if number(p, "works"):
        known = f"({count(number(p, 'works'), 'kind')} of jobs)"
        yield advice(f"It runs {here}: other jobs were {times_as_fast(p)} {there} {known}.")
        return
    known = f"({count(number(p, 'faster_runs'), 'run')} there against {amount(number(p, 'runs'))} like this)"
    yield advice(f"It runs {here}: jobs like it were {times_as_fast(p)} {there} {known}.")
    if real(p, "longer"):
        yield advice(f"The rest of its work takes about {roughly(real(p, 'longer'))} longer here.")


def _running(p: Params) -> Sentences:
    yield state(f"Running{_on(p)}.")
    workers, most = number(p, "workers"), number(p, "most")
    if workers < most:
        yield state(f"It runs with {amount(workers)} of at most {count(most, 'worker')}.")
    yield from _home(p)
    if p.get("unused_seconds"):
        yield state(_unused(p))
    if p.get("never_saved"):
        none = (
            "Its checkpoints were deleted, or are damaged"
            if p.get("deleted")
            else "No checkpoint of it has been seen yet"
        )
        yield state(f"{none}: a pause would start it from the beginning, {OWN_FILES}.")
        if p.get("lost"):
            yield state(f"More than {roughly(real(p, 'lost'))} of work would be lost.")
            if not p.get("deleted"):
                yield advice("Have it save checkpoints, such as with job.save() of springtide.training.")
    if p.get("times"):
        yield from _slow(p)
    if p.get("awaits_room"):
        yield state("The disk is full: its result waits for room.")
        yield follows(f"Without room it fails in {roughly(max(1.0, real(p, 'seconds')))}.")
        yield change("Delete outputs of ended jobs, or have an administrator make room.")
    if p.get("unsaved"):
        yield state("Its newest checkpoint could not be saved: the disk is full. The one before it is kept.")
        yield follows("It continues, and saves again when there is room.")


def _nodes(p: Params) -> str:
    """Return the closed node of a job, and how many of its others are closed."""
    others = number(p, "others")
    also = f" and {count(others, 'other node')} of the job" if others else ""
    return f"The node {labelled(str(p.get('node')))}{also}"


def _node_not_ready(p: Params) -> Sentences:
    since = f" since {p['since']}" if p.get("since") else ""
    verb = "have" if number(p, "others") else "has"
    what = (
        f"{verb} not been ready{since}" if since else f"{plural(number(p, 'others') + 1, 'is', 'are')} not ready"
    )
    yield state(f"{_nodes(p)} {what}: what the job does there is unknown.")
    yield follows("It keeps its GPUs until it certainly runs there no longer, then runs again elsewhere.")


def _node_leaving(p: Params) -> Sentences:
    yield state(f"{_nodes(p)} {plural(number(p, 'others') + 1, 'is', 'are')} about to be removed.")
    yield follows("It is asked to save, and runs again elsewhere.")


def _node_cordoned(p: Params) -> Sentences:
    yield state(f"{_nodes(p)} {plural(number(p, 'others') + 1, 'is', 'are')} cordoned and may be drained.")
    yield follows("It runs on. When the node is drained, it is asked to save, and runs again elsewhere.")


def _gives_back(p: Params) -> str:
    held = number(p, "gpus")
    return f", then giving its {gpus(held)} back" if held else ""


def _pausing(p: Params) -> Sentences:
    if p.get("saved", 1) and not p.get("found"):
        yield state(f"Saving its work{_gives_back(p)}.")
        return
    yield state(f"Stopping for a pause{_gives_back(p)}.")
    if p.get("found"):
        yield follows(f"Its newest checkpoint is {given(str(p['found']), LONG_GIVEN)}.")
        return
    yield follows(f"No checkpoint is known so far: without one it starts again from the beginning, {OWN_FILES}.")


def _stopping(p: Params) -> Sentences:
    yield state(f"Stopping{_gives_back(p)}.")
    if p.get("seconds") is not None:
        rest = roughly(max(1.0, real(p, "seconds")))
        yield follows(f"It is killed in {rest}, if it has not ended by then.")


def _closes(p: Params) -> Sentences:
    nodes = [labelled(name) for name in names(p, "nodes")]
    where = f"The {plural(len(nodes), 'node')} {listed(nodes)} {plural(len(nodes), 'has', 'have')} maintenance"
    yield state(f"{where} from {p.get('starts')} to {p.get('ends')}.")
    yield from detail(p)
    yield follows(
        "If it still runs then, it is asked to save, is paused, and runs again as soon as GPUs are free for it."
    )


def _not_finite(p: Params) -> Sentences:
    name, others = given(str(p.get("name")), LONG_GIVEN), number(p, "others")
    verb = "is not" if p.get("step") is None else "has not been"
    at = "" if p.get("step") is None else f" since step {amount(real(p, 'step'))}"
    yield state(f"The metric {name} {verb} a finite number{at}.")
    if others:
        yield state(f"Neither {plural(others, 'is', 'are')} {count(others, 'other metric')}.")


RUNNING: Table = {
    "starting": _starting,
    "running": _running,
    "pausing": _pausing,
    "stopping": _stopping,
    "not-finite": _not_finite,
    "engine-closes": _closes,
    "node-not-ready": _node_not_ready,
    "node-leaving": _node_leaving,
    "node-cordoned": _node_cordoned,
}
