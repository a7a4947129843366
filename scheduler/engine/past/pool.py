"""The nodes and projects of a past: what they were when it began, and what changed; pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from springtide.scheduler.engine.past.jobs import Stops
from springtide.scheduler.engine.past.period import Period
from springtide.scheduler.model import Node, Project
from springtide.scheduler.scenario.shape import ChangePart, NodePart, ProjectPart
from springtide.scheduler.store.ledger import EndedFact, FactKind
from springtide.scheduler.store.records import AuditRecord, JobRecord

GPU = re.compile(r"^GPU (?P<index>\d+) of (?P<node>.+) \([^()]*\)$")
"""The subject of an entry about the drain of one GPU."""
DRAIN = "drain"
PAUSE = "pause"
STOPS = {"release": "hold", "unfreeze": "freeze", "resume": PAUSE}
"""Entries of the trail that end what others have begun."""
T = TypeVar("T")


@dataclass(slots=True)
class _Seen:
    """A node as attempts used it: its type, the number of GPUs that it had at least, and when."""

    gpu_type: str
    gpus: int
    first: float
    last: float


def seen_nodes(jobs: Iterable[JobRecord], period: Period) -> dict[str, _Seen]:
    """Return the nodes that attempts ran on, by name."""
    found: dict[str, _Seen] = {}
    for job in jobs:
        for attempt in job.attempts:
            ended = period.end if attempt.ended is None else attempt.ended
            for worker in attempt.placement:
                most = max(worker.gpus, default=-1) + 1
                seen = found.setdefault(worker.node, _Seen(attempt.gpu_type, most, attempt.created, ended))
                seen.gpus = max(seen.gpus, most)
                seen.first, seen.last = min(seen.first, attempt.created), max(seen.last, ended)
    return found


@dataclass(frozen=True, slots=True)
class PastNodes:
    """The nodes at the beginning, those that came later with 0 GPUs, and the changes by time."""

    parts: list[NodePart]
    changes: list[ChangePart]


def past_nodes(
    present: Sequence[Node], seen: Mapping[str, _Seen], facts: Iterable[EndedFact], period: Period
) -> PastNodes:
    """Return the nodes of a period: the ``present`` ones, and how they became so by the recorded numbers of GPUs.

    Going back from the present, nodes that no attempt had used before leave when a type had fewer GPUs, and nodes
    that are gone return when it had more. What fits no node is a node of its own.
    """
    nodes = {node.name: node for node in present}
    gpus: dict[str, int] = {node.name: node.gpus for node in present}
    types: dict[str, str] = {node.name: node.gpu_type for node in present}
    gone = {name: each for name, each in seen.items() if name not in nodes}
    types.update({name: each.gpu_type for name, each in gone.items()})
    steps = sorted(_steps(facts, period), reverse=True)
    later: list[tuple[float, dict[str, int]]] = []
    for at, gpu_type, missing in steps:
        before = dict(gpus)
        if missing > 0:
            _take(gpus, types, gpu_type, missing, seen=seen, at=at)
        else:
            _return(gpus, types, gpu_type, -missing, gone=gone, at=at)
        changed = {name: before.get(name, 0) for name in gpus if gpus[name] != before.get(name, 0)}
        if changed:
            later.append((at, changed))
    for name, each in gone.items():
        if name not in gpus and each.last > period.start:
            gpus[name] = each.gpus
    parts = [_node_part(name, number, types[name], nodes.get(name)) for name, number in gpus.items()]
    changes = [ChangePart(at=period.time(at), gpus=changed) for at, changed in reversed(later)]
    return PastNodes(parts, changes)


def _steps(facts: Iterable[EndedFact], period: Period) -> Iterator[tuple[float, str, int]]:
    """Yield when a type got more GPUs within the period, or fewer, and how many; the first number is no change."""
    by_type: dict[str, list[EndedFact]] = defaultdict(list)
    for fact in facts:
        if fact.kind is FactKind.GPUS and fact.end > period.start:
            by_type[fact.gpu_type].append(fact)
    for gpu_type, own in by_type.items():
        own.sort(key=lambda fact: fact.start)
        for before, after in pairwise(own):
            difference = int((after.value or 0) - (before.value or 0))
            if difference and after.start > period.start:
                yield after.start, gpu_type, difference


def _take(
    gpus: dict[str, int],
    types: Mapping[str, str],
    gpu_type: str,
    missing: int,
    *,
    seen: Mapping[str, _Seen],
    at: float,
) -> None:
    """Take GPUs from the nodes that no attempt used before, those first whose first use was the latest."""
    unused = [
        name
        for name, number in gpus.items()
        if number and types[name] == gpu_type and (name not in seen or seen[name].first >= at)
    ]
    for name in sorted(unused, key=lambda name: (-seen[name].first if name in seen else 0.0, name)):
        taken = min(missing, gpus[name])
        gpus[name] -= taken
        missing -= taken


def _return(
    gpus: dict[str, int],
    types: dict[str, str],
    gpu_type: str,
    number: int,
    *,
    gone: Mapping[str, _Seen],
    at: float,
) -> None:
    """Give GPUs back to nodes that are gone, those first that were used last; the rest to a node of its own."""
    known = [
        name for name, each in gone.items() if name not in gpus and each.gpu_type == gpu_type and each.last <= at
    ]
    for name in sorted(known, key=lambda name: -gone[name].last):
        given = min(number, gone[name].gpus)
        if given:
            gpus[name] = given
            number -= given
    if number:
        name = f"gone-{sum(each.startswith('gone-') for each in gpus) + 1}"
        gpus[name], types[name] = number, gpu_type


def _node_part(name: str, gpus: int, gpu_type: str, node: Node | None) -> NodePart:
    if node is None:
        return NodePart(name=name, gpus=gpus, gpu_type=gpu_type)
    alike = gpus == node.gpus
    return NodePart(
        name=name,
        gpus=gpus,
        gpu_type=gpu_type,
        labels=dict(node.labels),
        islands=[list(each) for each in node.islands] if alike else [],
        sockets=[list(each) for each in node.sockets] if alike else [],
        cpus=node.per_gpu.cpus * node.gpus or None,
        memory=int(node.per_gpu.memory * node.gpus) or None,
        rdma=node.per_gpu.rdma_workers(node.gpus),
    )


# ---------- drains


def drain_changes(audit: Iterable[AuditRecord], nodes: Iterable[NodePart], period: Period) -> list[ChangePart]:
    """Return the drains of nodes and GPUs as changes; those from before the span come when it begins."""
    known = {node.name for node in nodes}
    open_before: dict[str, bool] = {}
    taken: dict[str, set[int]] = defaultdict(set)
    taken_before: dict[str, list[int]] = {}
    changes: list[ChangePart] = []
    for entry in audit:
        what, _, how = entry.what.partition(".")
        match = GPU.match(entry.subject) if what == "gpu" else None
        name = match["node"] if match is not None else entry.subject
        if what not in {"node", "gpu"} or name not in known:
            continue
        if match is not None:
            (taken[name].add if how == DRAIN else taken[name].discard)(int(match["index"]))
        if entry.at <= period.start:
            if match is None:
                open_before[name] = how != DRAIN
            else:
                taken_before[name] = sorted(taken[name])
            continue
        empties = (name,) if match is None and how == DRAIN and not entry.after.get("finish") else ()
        available = {name: how != DRAIN} if match is None else {}
        indices = {} if match is None else {name: sorted(taken[name])}
        changes.append(ChangePart(at=period.time(entry.at), available=available, taken=indices, empties=empties))
    if open_before or taken_before:
        at = period.time(period.start)
        changes.insert(0, ChangePart(at=at, available=open_before, taken=taken_before))
    return changes


# ---------- projects


def past_projects(
    present: Sequence[Project],
    facts: Iterable[EndedFact],
    types: Sequence[str],
    named: Iterable[str],
    period: Period,
) -> tuple[list[ProjectPart], list[ChangePart]]:
    """Return the projects with their quotas and limits at the beginning, and how these changed.

    ``named`` are the projects of jobs: one that is gone is there with what it had.
    """
    history: dict[tuple[FactKind, str], dict[str, list[EndedFact]]] = defaultdict(lambda: defaultdict(list))
    for fact in sorted(facts, key=lambda fact: fact.start):
        if fact.kind in {FactKind.QUOTA, FactKind.LIMIT} and fact.end > period.start and fact.start < period.end:
            history[fact.kind, fact.project][fact.gpu_type].append(fact)
    now = {project.name: project for project in sorted(present, key=lambda project: project.age)}
    names = dict.fromkeys([*now, *(name for _, name in history), *named])
    parts = []
    changes: dict[float, dict[str, dict[str, Any]]] = defaultdict(lambda: {"quota": {}, "limit": {}})
    for name in names:
        project = now.get(name, Project(name))
        amounts: dict[str, Any] = {}
        for kind, field, missing in ((FactKind.QUOTA, "quota", 0), (FactKind.LIMIT, "limit", None)):
            known = history.get((kind, name), {})
            kept = getattr(project, field)
            amounts[field] = _amount(known, period.start, types, missing) if known else kept
            times = {fact.start for own in known.values() for fact in own if fact.start > period.start}
            times |= {fact.end for own in known.values() for fact in own if fact.end < period.end}
            for at in sorted(times):
                changes[at][field][name] = _amount(known, at, types, missing)
        parent = project.parent if project.parent in names else None
        parts.append(
            ProjectPart(name=name, parent=parent, weight=project.weight, priority=project.priority, **amounts)
        )
    found = sorted(changes.items())
    return parts, [ChangePart(at=period.time(at), quota=each["quota"], limit=each["limit"]) for at, each in found]


def _amount(
    known: Mapping[str, Sequence[EndedFact]], at: float, types: Sequence[str], missing: int | None
) -> int | dict[str, int | None] | None:
    """Return a quota or a limit at a time, as a scenario has it.

    Before the first record it is the first recorded amount.
    """
    found: dict[str, int | None] = {}
    for gpu_type in types:
        facts = known.get(gpu_type, ())
        fact = next((each for each in reversed(facts) if each.start <= at), facts[0] if facts else None)
        if fact is None or (fact.end <= at and fact is facts[-1]):
            found[gpu_type] = missing
        else:
            found[gpu_type] = None if fact.value is None else int(fact.value)
    if len(types) == 1:
        return found[types[0]]
    return found


# ---------- holds


def stops_of(
    audit: Iterable[AuditRecord], projects: Sequence[ProjectPart], jobs: Iterable[JobRecord], period: Period
) -> Stops:
    """Return when jobs were on hold or paused, and projects frozen; a hold of a sweep holds its trials.

    Of pauses and resumptions the trail has those by others than the owner.
    """
    begun: dict[tuple[str, str, str], float] = {}
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for entry in audit:
        what, _, how = entry.what.partition(".")
        if how in STOPS.values():
            begun.setdefault((what, entry.subject, how), entry.at)
        elif (key := (what, entry.subject, STOPS.get(how, ""))) in begun:
            found[what, entry.subject].append((begun.pop(key), entry.at))
    pauses: dict[str, list[float]] = defaultdict(list)
    for (what, subject, how), at in begun.items():
        if how == PAUSE:
            pauses[subject].append(at)
        else:
            found[what, subject].append((at, period.end))
    held = {subject: stretches for (what, subject), stretches in found.items() if what == "job"}
    frozen = {subject: stretches for (what, subject), stretches in found.items() if what == "project"}
    parents = {part.name: part.parent for part in projects}
    subjects = {job.id: (job.id, job.spec.trial.sweep if job.spec.trial else "") for job in jobs}

    def of_jobs(known: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
        by_job = ((job, [one for name in names for one in known.get(name, ())]) for job, names in subjects.items())
        return {job: own for job, own in by_job if own}

    return Stops(
        of_jobs(held),
        {name: stretches for name in parents if (stretches := _of_lineage(name, parents, frozen))},
        of_jobs(pauses),
    )


def _of_lineage(
    name: str, parents: Mapping[str, str | None], frozen: Mapping[str, list[tuple[float, float]]]
) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    above: str | None = name
    while above is not None:
        found += frozen.get(above, ())
        above = parents[above]
    return found
