"""What would have been: a scenario of the past with another pool, and the figures of both."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct, structs

from springtide.scheduler.gpu_types import amount_words
from springtide.scheduler.model import Amount, Job, Node, Phase
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.scenario.shape import ChangePart
from springtide.scheduler.simulate.changes import presence
from springtide.scheduler.simulate.load import Load, load_of, settings_of
from springtide.scheduler.simulate.run import simulate
from springtide.scheduler.simulate.virtual import Costs, Course
from springtide.scheduler.wire.past import MoreNodes, PastChanges, PastFigures, PastOutcome
from springtide.scheduler.wording import count, duration, given, plural

HOUR = 3_600.0


class ImpossibleError(ValueError):
    """A change that the scenario cannot have; the message says why."""


def changed(scenario: Scenario, changes: PastChanges) -> Scenario:
    """Return the scenario with another pool. Raises `ImpossibleError`."""
    for gpu_type, more in changes.nodes.items():
        scenario = _with_nodes(scenario, gpu_type, more)
    known = {project.name for project in scenario.projects}
    for name in (*changes.quota, *changes.limit):
        if name not in known:
            raise ImpossibleError(f"The project {given(name)} was not there in this time.")
    types = scenario.gpu_types
    projects = tuple(
        replace(
            project,
            quota=_amount(project.quota, changes.quota, project.name, types, 0),
            limit=_amount(project.limit, changes.limit, project.name, types, None),
        )
        for project in scenario.projects
    )
    later = tuple(
        structs.replace(
            change,
            quota={name: _amount(was, changes.quota, name, types, 0) for name, was in change.quota.items()},
            limit={name: _amount(was, changes.limit, name, types, None) for name, was in change.limit.items()},
        )
        for change in scenario.changes
    )
    settings = structs.replace(
        scenario.settings,
        order=changes.order or scenario.settings.order,
        min_runtime=scenario.settings.min_runtime if changes.min_runtime is None else changes.min_runtime,
    )
    surplus = changes.surplus or scenario.surplus
    return replace(scenario, projects=projects, changes=later, settings=settings, surplus=surplus)


def difference(scenario: Scenario, other: Scenario, changes: PastChanges) -> list[str]:
    """Return in words the differences of the ``other`` scenario, which the changes have made of it."""
    before, after = ({node.name: node for node in each.nodes} for each in (scenario, other))
    said = []
    for gpu_type, more in changes.nodes.items():
        here, there = (before, after) if more.count < 0 else (after, before)
        nodes = [node for name, node in here.items() if name not in there and node.gpu_type == gpu_type]
        gpus = count(sum(node.gpus for node in nodes), f"{gpu_type} GPU")
        said.append(f"{count(len(nodes), 'node')} with {gpus} {'fewer' if more.count < 0 else 'more'}")
    said += [f"quota of {given(name)} {amount_words(amount)}" for name, amount in changes.quota.items()]
    said += [f"limit of {given(name)} {amount_words(amount)}" for name, amount in changes.limit.items()]
    said += [] if changes.order is None else [f"order {changes.order.value}"]
    said += [] if changes.surplus is None else [f"surplus {changes.surplus.value}"]
    said += [] if changes.min_runtime is None else [f"minimum run time {duration(changes.min_runtime)}"]
    return said


def _amount(
    was: Amount, asked: Mapping[str, Amount], name: str, types: Sequence[str], missing: int | None
) -> Amount:
    """Return the quota or limit of a project: that asked for, of a table only the types that it names."""
    if name not in asked:
        return was
    wanted = asked[name]
    if isinstance(wanted, Mapping):
        unknown = next((each for each in wanted if each not in types), None)
        if unknown is not None:
            raise ImpossibleError(f"The pool had no GPUs of the type {given(unknown)} in this time.")
        before = was if isinstance(was, Mapping) else dict.fromkeys(types, was if was is None else missing)
        return {**before, **wanted} if len(types) > 1 else wanted[types[0]]
    if wanted and len(types) > 1:
        example = ", ".join(types)
        raise ImpossibleError(
            f"The pool had several GPU types ({example}); say of which {given(name)} has {wanted}."
        )
    return wanted


def _with_nodes(scenario: Scenario, gpu_type: str, more: MoreNodes) -> Scenario:
    """Return the scenario with more nodes of a type, or fewer: those go first that are listed last."""
    most = Counter({node.name: node.gpus for node in scenario.nodes})
    for change in scenario.changes:
        for name, gpus in change.gpus.items():
            most[name] = max(most[name], gpus)
    own = [node for node in scenario.nodes if node.gpu_type == gpu_type]
    if more.count >= 0:
        return _with_more(scenario, gpu_type, more, own, most)
    if -more.count > len(own):
        were = f"There {plural(len(own), 'was', 'were')} {count(len(own), 'node') if own else 'no nodes'}"
        raise ImpossibleError(f"{were} of {given(gpu_type)}; {-more.count} cannot be taken away.")
    gone = {node.name for node in own[len(own) + more.count :]}
    return replace(
        scenario,
        nodes=tuple(node for node in scenario.nodes if node.name not in gone),
        jobs=tuple(_unseated(job, gone) for job in scenario.jobs),
        changes=tuple(_without(change, gone) for change in scenario.changes),
    )


def _with_more(
    scenario: Scenario, gpu_type: str, more: MoreNodes, own: Sequence[Node], most: Mapping[str, int]
) -> Scenario:
    like = max(own, key=lambda node: most[node.name], default=None)
    if more.gpus is None and like is None:
        raise ImpossibleError(f"The pool had no nodes of {given(gpu_type)}: say how many GPUs each has.")
    gpus = most[like.name] if more.gpus is None and like is not None else more.gpus or 0
    alike = like is not None and like.gpus == gpus
    pattern = like if alike and like is not None else Node("", gpus, gpu_type)
    names = {node.name for node in scenario.nodes}
    free = (f"more-{gpu_type or 'nodes'}-{number}" for number in range(1, len(names) + more.count + 1))
    new = [name for name in free if name not in names][: more.count]
    nodes = tuple(structs.replace(pattern, name=name, available=True, taken=frozenset()) for name in new)
    types = scenario.gpu_types if gpu_type in scenario.gpu_types else (*scenario.gpu_types, gpu_type)
    return replace(scenario, nodes=(*scenario.nodes, *nodes), gpu_types=types)


def _unseated(job: Job, gone: Collection[str]) -> Job:
    if not any(worker.node in gone for worker in job.placement):
        return job
    return structs.replace(job, phase=Phase.WAITING, placement=())


def _without(change: ChangePart, gone: Collection[str]) -> ChangePart:
    return structs.replace(
        change,
        gpus={name: gpus for name, gpus in change.gpus.items() if name not in gone},
        available={name: available for name, available in change.available.items() if name not in gone},
        taken={name: indices for name, indices in change.taken.items() if name not in gone},
        empties=tuple(name for name in change.empties if name not in gone),
    )


# ---------- figures


def outcome(
    scenario: Scenario, known: Collection[str] | None = None, passed: Callable[[float], None] | None = None
) -> PastOutcome:
    """Simulate the span of a scenario, and return its figures.

    Of projects that are not ``known`` (None: all are) there are only those of all together. ``passed`` hears now
    and then which part of the time has passed.
    """
    load = load_of(scenario)
    assert load.span is not None
    result = simulate(
        load,
        settings=settings_of(load, scenario.settings),
        costs=Costs(scenario.settings.restart_cost),
        checked=False,
        passed=passed,
    )
    of = {node.name: node.gpu_type for node in load.nodes}
    stopped = frozenset(job for job, own in load.circumstances.items() if own.stopped)
    figures = _Figures(load, scenario.prices, of.__getitem__, stopped)
    return figures.outcome(result.courses, known)


class RecordedJob(Struct, frozen=True):
    """What a job did within a span by its records, in seconds of the scenario.

    ``first_start`` and ``finish`` are None if they came later; ``stopped``: it did not end by itself. ``lost`` are
    GPU-seconds, ``spans`` its attempts: start, end, number of GPUs, and their type.
    """

    project: str
    submitted: float
    first_start: float | None
    finish: float | None
    stopped: bool
    pauses: int
    lost: float
    spans: list[tuple[float, float, int, str]]


def recorded_outcome(
    scenario: Scenario, jobs: Sequence[RecordedJob], known: Collection[str] | None = None
) -> PastOutcome:
    """Return the figures of the span of a scenario as they were recorded, counted as those of `outcome`."""
    courses = [
        Course(
            Job(str(number), job.project, submitted=job.submitted),
            0.0,
            first_start=job.first_start,
            finish=job.finish,
            pauses=job.pauses,
            lost=job.lost,
            cancelled=job.stopped,
            spans=job.spans,
        )
        for number, job in enumerate(jobs)
    ]
    return _Figures(load_of(scenario), scenario.prices, str).outcome(courses, known)


class _Figures:
    """Counts courses within the span of a load.

    ``type_of`` returns the GPU type of what the spans of courses name. ``stopped`` are ids of jobs that do not end
    by themselves.
    """

    def __init__(
        self,
        load: Load,
        prices: Mapping[str, float],
        type_of: Callable[[str], str],
        stopped: Collection[str] = (),
    ) -> None:
        assert load.span is not None
        self._start, self._end = load.span
        self._present = presence(load, *load.span)
        self._room = sum(self._present.values())
        self._projects = [project.name for project in load.projects]
        self._prices = prices
        self._type_of = type_of
        self._stopped = stopped

    def outcome(self, courses: Sequence[Course], known: Collection[str] | None) -> PastOutcome:
        """Return the figures of all courses, and by project; of projects that are not ``known`` together."""
        shown = [name for name in self._projects if known is None or name in known]
        by_project: dict[str, list[Course]] = {name: [] for name in shown}
        others: list[Course] = []
        for course in courses:
            by_project.get(course.job.project, others).append(course)
        return PastOutcome(
            total=self.of(courses, cost=_cost(self._present, self._prices)),
            projects={name: self.of(own) for name, own in by_project.items()},
            others=None if known is None else self.of(others),
        )

    def of(self, courses: Iterable[Course], cost: float | None = None) -> PastFigures:
        """Return the figures of courses; without a given ``cost`` it is that of what they held."""
        courses = list(courses)
        sent = [course for course in courses if course.job.submitted >= self._start]
        waits = sorted(wait for course in sent if (wait := self._wait(course)) is not None)
        held: dict[str, float] = defaultdict(float)
        for course in courses:
            for since, to, gpus, name in course.spans:
                held[self._type_of(name)] += max(0.0, min(to, self._end) - max(since, self._start)) * gpus
        total_held = math.fsum(held.values())
        return PastFigures(
            jobs=len(sent),
            finished=sum(map(self._ended_by_itself, courses)),
            wait_p50_s=_percentile(waits, 50),
            wait_p95_s=_percentile(waits, 95),
            utilization=round(total_held / self._room, 6) if self._room else None,
            gpu_hours=round(total_held / HOUR, 3),
            pauses=sum(course.pauses for course in courses),
            lost_gpu_hours=round(math.fsum(course.lost for course in courses) / HOUR, 3),
            cost=_cost(held, self._prices) if cost is None else cost,
        )

    def _ended_by_itself(self, course: Course) -> bool:
        ended = course.finish is not None and course.finish <= self._end
        return ended and not (course.cancelled or course.timed_out or course.job.id in self._stopped)

    def _wait(self, course: Course) -> float | None:
        """Return how long a job waited for its first start, up to the end; None if it was cancelled before."""
        if course.first_start is None and course.cancelled:
            return None
        start = self._end if course.first_start is None else course.first_start
        return round(start - course.job.submitted, 3)


def _cost(gpu_seconds: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """Return the cost of GPU-seconds by type; None without prices."""
    if not prices:
        return None
    return round(math.fsum(seconds / HOUR * prices.get(name, 0.0) for name, seconds in gpu_seconds.items()), 2)


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else None
