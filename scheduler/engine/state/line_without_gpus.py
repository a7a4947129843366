"""The lines of each project's jobs without GPUs: a limited number run at a time, the others wait in order; pure.

Such a job holds no GPU, so it takes no part in shares, plans, forecasts and promises of GPUs, and is never
preempted. A project has its own limit, else that of the nearest project above, else that of the pool. The jobs
that jobs submit have lines of their own, one for each step of a chain: a job that waits for those that it has
submitted never keeps them waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import merge
from itertools import islice
from math import ceil

from sortedcontainers import SortedKeyList

from springtide.scheduler.engine import messages
from springtide.scheduler.model import Node, Reason
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import ProjectRecord
from springtide.scheduler.workload import Line

FindProject = Callable[[str], ProjectRecord | None]
Key = tuple[int, float, int]
LineName = tuple[str, int]
"""A project, and the number of jobs whose programs led to those in the line, each submitted by the one before."""


def line_order(job: JobRecord) -> Key:
    """Return the sort key of a waiting job: higher priority first, then older."""
    return (-job.spec.options.priority, job.spec.submitted, job.spec.seq)


def line_of(job: JobRecord) -> LineName:
    """Return the line of a job without GPUs."""
    return job.spec.project, len(job.spec.submitters)


def most_at_a_time(project: str, find: FindProject, default: int) -> int:
    """Return how many jobs without GPUs of a project may run at a time; ``default`` is the pool's number."""
    record, seen = find(project), set[str]()
    while record is not None and record.name not in seen:
        if record.ranges.jobs_without_gpus is not None:
            return record.ranges.jobs_without_gpus
        seen.add(record.name)
        record = None if record.project.parent is None else find(record.project.parent)
    return default


def out_of_service(nodes: Collection[Node], drained: Collection[str]) -> bool:
    """Return whether the machine that jobs without GPUs run on is drained: all train nodes of one machine are.

    On a cluster they run on any node, so that draining nodes with GPUs does not concern them.
    """
    return bool(nodes) and all(not node.resource and node.name in drained for node in nodes)


class LineWithoutGpus:
    """The committed jobs without GPUs by line: those with a live attempt, and those that wait, in order."""

    def __init__(self) -> None:
        self._live: dict[LineName, set[str]] = {}
        self._waiting: dict[LineName, SortedKeyList] = {}

    @property
    def lines(self) -> Collection[LineName]:
        """The lines in which jobs wait."""
        return [line for line, waiting in self._waiting.items() if waiting]

    def replace(self, before: JobRecord | None, after: JobRecord) -> None:
        """Take in another record of a job; ``before`` is None for a new one."""
        line = line_of(after)
        if before is not None and _runs(before):
            self._live[line_of(before)].discard(before.id)
        if before is not None and _waits(before):
            self._waiting[line_of(before)].remove(before)
        if _runs(after):
            self._live.setdefault(line, set()).add(after.id)
        if _waits(after):
            self._waiting.setdefault(line, SortedKeyList(key=line_order)).add(after)

    def live(self, line: LineName) -> Collection[str]:
        """Return the ids of a line's jobs that have a live attempt."""
        return self._live.get(line, ())

    def waiting(self, line: LineName) -> Collection[JobRecord]:
        """Return a line's jobs that wait, in their order."""
        waiting: Collection[JobRecord] = self._waiting.get(line, ())
        return waiting

    def before(self, job: JobRecord) -> int:
        """Return how many jobs of its line wait before a job."""
        waiting = self._waiting.get(line_of(job))
        return 0 if waiting is None else waiting.bisect_key_left(line_order(job))


class LineView:
    """The lines after changes that are not committed yet.

    ``changed`` are changed jobs by id, of whatever kind; ``find`` looks up a project, ``default`` is the pool's
    number of jobs without GPUs at a time, ``closed`` says that none starts now.
    """

    def __init__(
        self,
        line: LineWithoutGpus,
        changed: Mapping[str, JobRecord],
        find: FindProject,
        default: int,
        *,
        closed: bool,
    ) -> None:
        self._line = line
        self._all_changed = changed
        self._find = find
        self._default = default
        self._closed = closed

    def next_starts(self, line: LineName, now: float) -> list[JobRecord]:
        """Return a line's jobs to start now."""
        room = 0 if self._closed else self._most(line) - self._running(line)
        ready = (job for job in self._waiting(line) if job.standing.not_before <= now)
        return list(islice(ready, max(0, room)))

    def place(self, job: JobRecord) -> int | None:
        """Return the place in line of a job, counted from 1; None of one that does not wait."""
        if not _waits(job):
            return None
        key = line_order(job)
        committed = (each for each in self._line.waiting(line_of(job)) if each.id in self._all_changed)
        moved = sum(line_order(each) < key for each in committed) if self._all_changed else 0
        added = sum(_waits(each) and line_order(each) < key for each in self._changed(line_of(job)))
        return self._line.before(job) - moved + added + 1

    def reason(self, job: JobRecord, now: float) -> Reason | None:
        """Return why a job waits; None of one that does not."""
        if not _waits(job):
            return None
        line, until = line_of(job), job.standing.not_before
        if until > now:
            return Reason("back-off", {"seconds": ceil(until - now), "until": until})
        if self._closed:
            return messages.out_of_service()
        running, most = self._running(line), self._most(line)
        if running >= most:
            return messages.enough_without_gpus(line, running, most, self.place(job) or 1)
        return messages.next_without_gpus()

    def _most(self, line: LineName) -> int:
        return most_at_a_time(line[0], self._find, self._default)

    def _running(self, line: LineName) -> int:
        same = sum(job_id not in self._all_changed for job_id in self._line.live(line))
        return same + sum(map(_runs, self._changed(line)))

    def _waiting(self, line: LineName) -> Iterator[JobRecord]:
        same = (job for job in self._line.waiting(line) if job.id not in self._all_changed)
        own = sorted(filter(_waits, self._changed(line)), key=line_order)
        return merge(same, own, key=line_order)

    def _changed(self, line: LineName) -> Iterator[JobRecord]:
        return (job for job in self._all_changed.values() if line_of(job) == line)


def _takes_part(job: JobRecord) -> bool:
    return job.line is Line.WITHOUT_GPUS


def _runs(job: JobRecord) -> bool:
    return _takes_part(job) and job.live is not None


def _waits(job: JobRecord) -> bool:
    return _takes_part(job) and job.live is None and not (job.state.final or job.is_idle)
