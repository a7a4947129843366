"""Faults of GPUs and of nodes, and the messages about them to administrators."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import label
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    cause,
    change,
    follows,
    number,
    real,
    state,
)
from springtide.scheduler.wording import amount, count


def _xid(p: Params) -> Sentences:
    what = str(p.get("what") or "")
    yield cause(f"It reported the Xid error {number(p, 'xid')}{f': {what}' if what else ''}.")


def _ecc(p: Params) -> Sentences:
    new, errors = number(p, "new"), number(p, "errors")
    before = f", {errors} since its driver was loaded" if errors > new else ""
    yield cause(f"It reported {count(new, 'uncorrected ECC error')}{before}.")


def _lost(_: Params) -> Sentences:
    yield cause("Its driver cannot reach it any more.")


def _drained(p: Params) -> Sentences:
    yield state(f"The GPU {number(p, 'gpu')} of {label(p, 'node')} has a fault and was drained.")


def _faulty(p: Params) -> Sentences:
    yield state(f"Its GPU {number(p, 'gpu')}, {label(p, 'uuid')}, has a fault.")


def _node_drained(p: Params) -> Sentences:
    yield state(f"The node {label(p, 'node')} was drained.")


def _slow_node(p: Params) -> Sentences:
    known = (
        f"({count(number(p, 'works'), 'kind')} of jobs)"
        if p.get("works")
        else f"({count(number(p, 'runs'), 'run')} on it against {number(p, 'other_runs')} elsewhere)"
    )
    times = amount(round(real(p, "times"), 2))
    yield cause(f"The same jobs took {times} times as long on it as on other nodes with the same GPUs {known}.")


def _node_what_to_do(p: Params) -> Sentences:
    if p.get("finish"):
        yield follows(
            "Nothing new starts on it; a job that held the GPU runs again elsewhere, others run to their end."
        )
        yield change("Reset or replace the GPU, then undrain the node on the page of the pool.")
    else:
        yield follows("Nothing new starts on it; its jobs run again elsewhere.")
        yield change(
            "Find what slows it, such as heat or other programs, then undrain it on the page of the pool."
        )


def _what_to_do(_: Params) -> Sentences:
    yield follows("Nothing new starts on it; a job that held it runs again elsewhere.")
    yield change("Reset or replace it, then undrain it on the page of the pool.")


FAULTS: Table = {
    "gpu-xid": _xid,
    "gpu-ecc": _ecc,
    "gpu-lost": _lost,
    "faulty-gpu": _faulty,
    "slow-node": _slow_node,
    "notify-gpu-drained": _drained,
    "notify-node-drained": _node_drained,
    "notify-node-drained-next": _node_what_to_do,
    "notify-gpu-drained-next": _what_to_do,
}
