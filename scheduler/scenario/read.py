"""The reading of a scenario: its shape, then the consistency of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import UNSET

from springtide.scheduler.model import (
    Amount,
    AmountsAtTime,
    Job,
    Node,
    Phase,
    Placement,
    Project,
    Span,
    Surplus,
    Worker,
)
from springtide.scheduler.resources import quantities
from springtide.scheduler.resources.per_gpu import PerGpu, per_gpu_of
from springtide.scheduler.scenario.document import YAML_SUFFIXES, ScenarioError, decode, load
from springtide.scheduler.scenario.past import Circumstances, check_past, circumstances_of
from springtide.scheduler.scenario.shape import (
    ChangePart,
    Document,
    JobPart,
    NodePart,
    ProjectPart,
    SettingsPart,
    shaped,
)
from springtide.scheduler.wire.options import BadOption
from springtide.scheduler.wire.submission import OPTIONS
from springtide.scheduler.wording import count, given


def types_of(document: Document, shown: str) -> tuple[str, ...]:
    """Return the GPU types of the nodes in the pool's order. Raises `ScenarioError` for an invalid order."""
    found = dict.fromkeys(node.gpu_type for node in document.nodes)
    for at, name in enumerate(document.gpu_types):
        if name not in found or name in document.gpu_types[:at]:
            message = f"expected each GPU type of the nodes once ({some(found)}), got {given(name)}"
            raise ScenarioError(shown, f"gpu_types[{at}]", message)
    return tuple(dict.fromkeys([*document.gpu_types, *found]))


def check_amounts(document: Document, types: Sequence[str], shown: str) -> None:
    """Check the numbers of GPUs of projects. Raises `ScenarioError`.

    Tables name types of the pool; if it has several, plain numbers other than 0 are ambiguous.
    """
    for place, amount in _amounts(document):
        if isinstance(amount, Mapping):
            unknown = next((name for name in amount if name not in types), None)
            if unknown is not None:
                message = f"no node has GPUs of type {given(unknown)}, expected one of {some(types)}"
                raise ScenarioError(shown, place, message)
        elif amount and len(types) > 1:
            example = ", ".join(f'"{name}": {amount}' for name in types[:2])
            message = f"expected a table by GPU type ({some(types)}) such as {{{example}}}, got {amount}"
            raise ScenarioError(shown, place, message)


def _amounts(document: Document) -> Iterator[tuple[str, Amount]]:
    for at, project in enumerate(document.projects):
        yield f"projects[{at}].quota", project.quota
        yield f"projects[{at}].limit", project.limit
        for number, part in enumerate(project.at_times):
            for name, value in (("quota", part.quota), ("limit", part.limit)):
                if value is not UNSET:
                    yield f"projects[{at}].at_times[{number}].{name}", value
    for at, change in enumerate(document.changes):
        for place, amounts in (("quota", change.quota), ("limit", change.limit)):
            yield from ((f"changes[{at}].{place}.{name}", amount) for name, amount in amounts.items())


def some(names: Iterable[str]) -> str:
    """Return some of the names, for messages."""
    shown = sorted(names)
    listed = ", ".join(given(name) for name in shown[:8])
    return f"{listed}, … ({len(shown)} in all)" if len(shown) > 8 else listed or "(there are none)"


USUAL_SETTINGS = SettingsPart()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A pool at one moment. ``durations`` are the given run times in seconds, by job id.

    A job's id is its name. Jobs are in the file's order; those with workers in ``placed`` are running.
    ``gpu_types`` are those of the nodes in the pool's order. ``circumstances`` are those of jobs that have some
    of their own, ``changes`` the later ones of the pool, in order; ``span`` is when a simulation begins and ends.
    """

    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    jobs: tuple[Job, ...]
    durations: Mapping[str, float]
    gpu_types: tuple[str, ...] = ("",)
    surplus: Surplus = Surplus.FAIR
    circumstances: Mapping[str, Circumstances] = field(default_factory=dict)
    span: tuple[float, float] | None = None
    changes: tuple[ChangePart, ...] = ()
    settings: SettingsPart = USUAL_SETTINGS
    prices: Mapping[str, float] = field(default_factory=dict)


def read(path: Path) -> Scenario:
    """Return the scenario in a JSON or YAML file. Raises `ScenarioError`."""
    shown = str(path)
    return parse(load(path, shown), shown, as_yaml=path.suffix.lower() in YAML_SUFFIXES)


def parse(raw: bytes, shown: str, *, as_yaml: bool = False) -> Scenario:
    """Return the scenario in a document that messages call ``shown``. Raises `ScenarioError`."""
    return checked(decode(raw, shown, as_yaml=as_yaml), shown)


def checked(data: Any, shown: str) -> Scenario:
    """Return the scenario in plain data. Raises `ScenarioError`."""
    document = shaped(data, shown)
    _check_names(document, shown)
    _check_nodes(document.nodes, shown)
    _check_tree(document.projects, shown)
    types = types_of(document, shown)
    check_amounts(document, types, shown)
    _check_jobs(document, shown)
    check_past(document, shown)
    return Scenario(
        nodes=tuple(_node(part) for part in document.nodes),
        projects=tuple(_project(part, age) for age, part in enumerate(document.projects)),
        jobs=_jobs(document, shown),
        durations={part.name: part.duration for part in document.jobs if part.duration is not None},
        gpu_types=types,
        surplus=document.surplus,
        circumstances={part.name: own for part in document.jobs if (own := circumstances_of(part)) is not None},
        span=document.span,
        changes=tuple(sorted(document.changes, key=lambda change: change.at)),
        settings=document.settings,
        prices=document.prices,
    )


def _node(part: NodePart) -> Node:
    return Node(
        name=part.name,
        gpus=part.gpus,
        gpu_type=part.gpu_type,
        labels=part.labels,
        islands=tuple(tuple(island) for island in part.islands),
        sockets=tuple(tuple(socket) for socket in part.sockets),
        available=part.available,
        per_gpu=_per_gpu(part),
        closed=tuple(Span(*times) for times in part.closed),
    )


def _project(part: ProjectPart, age: int) -> Project:
    return Project(
        name=part.name,
        parent=part.parent,
        quota=part.quota,
        limit=part.limit,
        weight=part.weight,
        priority=part.priority,
        age=age,
        at_times=tuple(
            AmountsAtTime(
                Span(each.start, each.end),
                part.quota if each.quota is UNSET else each.quota,
                part.limit if each.limit is UNSET else each.limit,
            )
            for each in part.at_times
        ),
    )


def _check_names(document: Document, shown: str) -> None:
    kinds: tuple[tuple[str, Sequence[NodePart | ProjectPart | JobPart]], ...] = (
        ("nodes", document.nodes),
        ("projects", document.projects),
        ("jobs", document.jobs),
    )
    for kind, parts in kinds:
        first: dict[str, int] = {}
        for at, part in enumerate(parts):
            before = first.setdefault(part.name, at)
            if before != at:
                message = f"{given(part.name)} is already the name of {kind}[{before}], expected a name of its own"
                raise ScenarioError(shown, f"{kind}[{at}].name", message)


def _check_nodes(nodes: Sequence[NodePart], shown: str) -> None:
    for at, node in enumerate(nodes):
        for level, groups in (("island", node.islands), ("socket", node.sockets)):
            indices = [index for group in groups for index in group]
            repeated = [index for index, count in Counter(indices).items() if count > 1]
            outside = [index for index in indices if index >= node.gpus]
            if repeated or outside:
                message = f"expected each index below {node.gpus} in one {level}, got {(repeated or outside)[0]}"
                raise ScenarioError(shown, f"nodes[{at}].{level}s", message)
        for number, times in enumerate(node.closed):
            _check_times(times, f"nodes[{at}].closed[{number}]", shown)


def _check_times(times: tuple[float, float], field: str, shown: str) -> None:
    if times[0] >= times[1]:
        message = f"expected an end after the start {times[0]:g}, got {times[1]:g}"
        raise ScenarioError(shown, field, message)


def _check_tree(projects: Sequence[ProjectPart], shown: str) -> None:
    parent = {part.name: part.parent for part in projects}
    place = {part.name: at for at, part in enumerate(projects)}
    for at, part in enumerate(projects):
        if part.parent is not None and part.parent not in parent:
            message = f"no project {given(part.parent)}, expected one of {some(parent)} or null"
            raise ScenarioError(shown, f"projects[{at}].parent", message)
        for number, each in enumerate(part.at_times):
            _check_times((each.start, each.end), f"projects[{at}].at_times[{number}]", shown)
    settled: set[str] = set()
    for name in parent:
        path: list[str] = []
        above: str | None = name
        while above is not None and above not in settled:
            if above in path:
                cycle = " > ".join([*path[path.index(above) :], above])
                message = f"the parents form a cycle ({cycle}), expected a tree"
                raise ScenarioError(shown, f"projects[{place[above]}].parent", message)
            path.append(above)
            above = parent[above]
        settled.update(path)


def _check_jobs(document: Document, shown: str) -> None:
    projects = {part.name for part in document.projects}
    gpu_types = {node.gpu_type for node in document.nodes}
    for at, job in enumerate(document.jobs):
        if job.project not in projects:
            message = f"no project {given(job.project)}, expected one of {some(projects)}"
            raise ScenarioError(shown, f"jobs[{at}].project", message)
        for name in job.unread:
            try:
                OPTIONS[name].check(getattr(job, name))
            except BadOption as error:
                raise ScenarioError(shown, f"jobs[{at}].{name}", str(error)) from None
        if job.min_workers is not None and job.min_workers > job.workers:
            message = f"expected at most its {job.workers} workers, got {job.min_workers}"
            raise ScenarioError(shown, f"jobs[{at}].min_workers", message)
        for number, kind in enumerate(job.gpu_types):
            if kind not in gpu_types:
                message = f"no node has GPUs of type {given(kind)}, expected one of {some(gpu_types)}"
                raise ScenarioError(shown, f"jobs[{at}].gpu_types[{number}]", message)


def _jobs(document: Document, shown: str) -> tuple[Job, ...]:
    free = {node.name: iter(range(node.gpus)) for node in document.nodes}
    kinds = {node.name: node.gpu_type for node in document.nodes}
    jobs = []
    for at, part in enumerate(document.jobs):
        place = f"jobs[{at}].placed"
        running = [name for name in part.placed if name is not None]
        least = part.least_workers
        if len(part.placed) > part.workers:
            raise ScenarioError(
                shown, place, f"expected one entry per worker ({part.workers}), got {len(part.placed)}"
            )
        if 0 < len(running) < least:
            raise ScenarioError(
                shown, place, f"expected no worker or at least {least} on nodes, got {len(running)}"
            )
        for name in running:
            if name not in free:
                raise ScenarioError(shown, place, f"no node {given(name)}, expected one of {some(free)} or null")
            if part.gpu_types and kinds[name] not in part.gpu_types:
                wanted = some(part.gpu_types)
                raise ScenarioError(
                    shown, place, f"node {given(name)} is of type {given(kinds[name])}, expected {wanted}"
                )
        mixed = {kinds[name] for name in running}
        if len(mixed) > 1:
            raise ScenarioError(shown, place, f"expected all workers on GPUs of one type, got {some(mixed)}")
        jobs.append(_job(part, _seated(part, running, free, place, shown)))
    return tuple(jobs)


def _seated(
    part: JobPart, nodes: Sequence[str], free: Mapping[str, Iterable[int]], place: str, shown: str
) -> Placement:
    """Return the workers on the lowest free GPUs of their nodes."""
    seats = []
    for rank, name in enumerate(nodes):
        gpus = tuple(islice(free[name], part.gpus))
        if len(gpus) < part.gpus:
            wanted = f"{count(part.gpus, 'GPU')} on node {given(name)} for job {given(part.name)}"
            message = f"{wanted}, but only {len(gpus)} are left there"
            raise ScenarioError(shown, place, f"expected free GPUs: {message}")
        seats.append(Worker(rank, name, gpus))
    return tuple(seats)


def _per_gpu(part: NodePart) -> PerGpu:
    """Return the cores, memory and RDMA for each GPU of a node."""
    cpus = 0.0 if part.cpus is None else quantities.cores(part.cpus)
    memory = 0 if part.memory is None else quantities.memory(part.memory)
    return per_gpu_of(cpus, memory, part.gpus, part.rdma)


def _job(part: JobPart, placement: Placement) -> Job:
    return part.planned(
        id=part.name,
        project=part.project,
        name=part.name,
        user=part.user,
        submitted=part.submitted,
        phase=Phase.RUNNING if placement else Phase.WAITING,
        placement=placement,
        attempts=1 if placement or part.worked else 0,
        served=part.worked * part.workers * part.gpus,
        usual_runtime=part.usual_runtime,
    )
