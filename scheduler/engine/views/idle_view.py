"""Why train GPUs are idle, in sentences; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from springtide.scheduler import wire
from springtide.scheduler.engine.state.drain_ends import TOO_LARGE
from springtide.scheduler.engine.views.node_views import free_as
from springtide.scheduler.model import Node, Reason
from springtide.scheduler.sentences.budgets import is_limit
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.wording import amount, count, gpus, labelled, listed, plural, quoted

MAX_JOBS = 500
"""Maximum number of waiting jobs whose reasons are counted."""
_WAITS = {
    "back-off": "run again in a moment",
    "on-hold": "are on hold, by themselves or with their project",
    "withheld": "are withheld, because launching has stopped",
    "over-limit": "wait for the limit of their project",
    "limit-held": "wait for jobs that stop, within the limit of their project",
    "over-budget": "wait for the budget of their project",
    "drained": "need nodes that are drained",
    "none-usable": "need a node, and no node for them can be used now",
    "bound": "wait for other jobs of their project, which can hold no more with them",
    "beyond-quota": "are not preemptible and wait for the quota of their project",
    "too-large": "need more GPUs on one node than any node for them has",
    "gang-too-large": "need more GPUs together than the nodes for them have",
    "per-gpu-too-large": "need more cores or memory for each GPU than any node has",
    "no-rdma": "need RDMA, which no node has",
    "awaits-node": "wait for a new node of the cluster",
    "no-level": "require a label that no node has",
    "domain-too-small": "require a larger part of the pool than there is",
    "awaits-pause": "have a reservation and wait for jobs that stop or end",
    "next": "start next",
    "share-used": "wait for the share of their project",
    "too-soon": "wait for jobs that have only just started",
    "no-room": "need more GPUs together than the pool has free",
    "node-closes-first": "would not leave their nodes before a maintenance",
    "unknown-project": "belong to a project that does not exist",
}
_ONE = {
    "run": "runs",
    "wait": "waits",
    "are": "is",
    "need": "needs",
    "have": "has",
    "start": "starts",
    "belong": "belongs",
    "require": "requires",
    "their": "its",
    "themselves": "itself",
    "them": "it",
}


def idle(
    nodes: Sequence[Node],
    occupied: Collection[tuple[str, int]],
    reserved: Mapping[tuple[str, int], str],
    waiting: Iterable[JobRecord],
    reason_of: Callable[[str], Reason | None],
    *,
    drained: Collection[str],
) -> wire.Idle:
    """Return the idle GPUs of the train ``nodes`` and why they are idle.

    ``occupied`` are nodes and indices of GPUs that something holds, ``reserved`` the project that gets a GPU next,
    ``drained`` the names of nodes. A GPU that nothing holds and that is taken is drained on its own. Reasons
    are counted of the first `MAX_JOBS` waiting jobs.
    """
    free = [(node, index) for node in nodes for index in range(node.gpus) if (node.name, index) not in occupied]
    single = [(node.name, index) for node, index in free if node.name not in drained and index in node.taken]
    of = {what: Counter[str]() for what in wire.FREE}
    for node, index in free:
        if (node.name, index) not in single:
            of[free_as(node, drained=node.name in drained)][node.name] += 1
    idle_gpus, away = of[wire.IDLE], of[wire.AWAY]
    aside = Counter(
        reserved[node.name, index]
        for node, index in free
        if node.name in idle_gpus and (node.name, index) in reserved
    )
    reasons = [*_away(of[wire.DRAINED], wire.DRAINED), *_drained(single), *_away(away, wire.AWAY), *_aside(aside)]
    if idle_gpus:
        some = list(islice(waiting, MAX_JOBS + 1))
        reasons += _waits(some[:MAX_JOBS], reason_of, more=len(some) > MAX_JOBS)
    unavailable = of[wire.DRAINED].total() + len(single) + away.total()
    return wire.Idle(gpus=idle_gpus.total(), reserved=aside.total(), unavailable=unavailable, why=reasons)


def _away(away: Counter[str], what: str) -> list[str]:
    if not away:
        return []
    names = listed([labelled(name) for name in sorted(away)])
    are = plural(away.total(), "is", "are")
    node = plural(len(away), "a node that is", "nodes that are")
    return [f"{gpus(away.total())} {are} on {node} {what}: {names}."]


def _drained(drained: Sequence[tuple[str, int]]) -> list[str]:
    if not drained:
        return []
    names = listed([f"GPU {index} of {labelled(name)}" for name, index in drained])
    return [f"{gpus(len(drained))} {plural(len(drained), 'is', 'are')} drained: {names}."]


def _aside(aside: Counter[str]) -> list[str]:
    if not aside:
        return []
    are = plural(aside.total(), "is", "are")
    projects = listed([quoted(name) for name in sorted(aside)])
    return [f"{gpus(aside.total())} {are} reserved for jobs of {projects}."]


def _waits(waiting: Sequence[JobRecord], reason_of: Callable[[str], Reason | None], *, more: bool) -> list[str]:
    if not waiting:
        return ["No job waits."]
    codes = Counter(_code(job, reason_of) for job in waiting)
    codes.pop("", None)
    first = f"Of the first {amount(len(waiting))} jobs that wait, " if more else ""
    found = [_said(code, number) for code, number in codes.most_common()]
    return [f"{first}{words}." for words in found]


def _code(job: JobRecord, reason_of: Callable[[str], Reason | None]) -> str:
    if job.awaits_person:
        return "held" if job.standing.hold is None else "on-hold"
    return "withheld" if job.is_idle else _cause(reason_of(job.id))


def _cause(reason: Reason | None) -> str:
    """Return why a job leaves the idle GPUs idle: that they are too few matters more than whose share they are.

    Nodes that are drained or lost matter more than how large the others are, a budget more than the limit it sets.
    """
    if reason is None:
        return ""
    about = reason.params
    if reason.code in TOO_LARGE and (about.get("drained") or about.get("undrain")):
        return "drained"
    if reason.code == "too-large" and not about.get("largest", True):
        return "none-usable"
    if is_limit(reason.params):
        return "over-budget"
    room, workers = about.get("room"), about.get("workers")
    too_few = isinstance(room, int) and isinstance(workers, int) and room < workers
    return "no-room" if reason.code == "share-used" and too_few else reason.code


def _said(code: str, number: int) -> str:
    jobs = count(number, "job")
    if code == "held":
        return f"{jobs} {plural(number, 'is', 'are')} paused by {plural(number, 'its user', 'their users')}"
    words = _WAITS.get(code, "wait")
    if number == 1:
        words = " ".join(_ONE.get(word, word) for word in words.split())
    return f"{jobs} {words}"
