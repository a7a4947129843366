"""A team of 30 engineers: a machine for each of them, against build GPUs of their own and one shared train pool.

    python benchmarks/bench_study.py                 # four weeks
    python benchmarks/bench_study.py --days 7 --seed 2

The same people, with the same experiments in the same order, work under both. Virtual time, the pool's own policy,
simulated GPUs. What the people do is described by `Team`; a part of it, how often they train, is chosen so that a
machine for each of them is used as much as the papers say (28 %). The rest is the result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import click
from machine import describe, percentile

from springtide.scheduler.model import Job, JobRemoved, Node, Project, Settings, Snapshot
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import Watch
from springtide.scheduler.simulate.static import StaticPlanner
from springtide.scheduler.simulate.virtual import Costs, Course, VirtualPool

HOUR, DAY = 3600.0, 86_400.0
NODE_GPUS = 8
STEP = 300.0
"""Interval at which people look after their experiments, in seconds."""


@dataclass(frozen=True, slots=True)
class Team:
    """What the people do. Times in seconds, shares from 0 to 1.

    Each alternates between weeks in which she writes and tries code in a notebook, which uses one GPU for
    ``build_use`` of her ``workday`` (five days a week), and weeks in which she trains: there she always has
    ``experiments`` that wait or run, as a sweep does, and drops those that never began when the time is over. An
    experiment uses its GPUs for ``train_use`` of its run time, and a resume costs ``restart``.
    """

    people: int = 30
    build_gpus: int = 1
    builds: float = 11 * DAY
    trains: float = 5 * DAY
    experiments: int = 24
    sizes: tuple[tuple[int, float], ...] = ((1, 0.6), (2, 0.2), (4, 0.15), (8, 0.05))
    median: float = 2 * HOUR
    longest: float = DAY
    build_use: float = 0.15
    workday: float = 8 * HOUR
    train_use: float = 0.9
    restart: float = 60.0

    @property
    def gpus(self) -> int:
        """All GPUs: a machine for each person."""
        return self.people * NODE_GPUS

    @property
    def build_nodes(self) -> int:
        """Machines that hold the build GPUs."""
        return -(-self.people * self.build_gpus // NODE_GPUS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. Times in seconds; ``held`` and ``used`` are parts of all GPUs, from 0 to 1.

    ``first_waits`` are the waiting times of the first experiment of each time of training, ``waiting`` is the mean
    number of experiments that wait, and ``broken`` is the time for which a guarantee was broken.
    """

    held: float
    used: float
    finished: int
    first_waits: Sequence[float]
    pauses: int
    lost_gpu_hours: float
    waiting: float = 0.0
    broken: float = 0.0


@dataclass(slots=True)
class Person:
    """An engineer, her project, and what she has submitted. ``until`` is the end of the present phase."""

    name: str
    team: Team
    phases: Random
    draws: Random
    training: bool = False
    until: float = 0.0
    trained: float = 0.0
    """Time spent training, in seconds."""
    count: int = 0
    unfinished: list[Course] = field(default_factory=list)
    firsts: list[Course] = field(default_factory=list)

    def begin(self) -> None:
        """Begin with a phase at random, in the middle of it."""
        self.training = self.phases.random() < self.team.trains / (self.team.trains + self.team.builds)
        self.until = self.phases.expovariate(1 / self._mean)

    @property
    def _mean(self) -> float:
        return self.team.trains if self.training else self.team.builds

    def live(self, pool: VirtualPool, now: float) -> None:
        """Do the due steps: change the phase, submit missing experiments, or drop those that never began."""
        self.unfinished = [course for course in self.unfinished if course.finish is None]
        if now >= self.until:
            self.training = not self.training
            self.until = now + self.phases.expovariate(1 / self._mean)
            if not self.training:
                self._drop(pool, now)
        if self.training:
            self.trained += STEP
            fresh = not self.unfinished
            while len(self.unfinished) < self.team.experiments:
                self.unfinished.append(self._submit(pool, now))
            if fresh:
                self.firsts.append(self.unfinished[0])

    def _submit(self, pool: VirtualPool, now: float) -> Course:
        self.count += 1
        sizes, weights = zip(*self.team.sizes, strict=True)
        gpus = self.draws.choices(sizes, weights)[0]
        duration = min(self.team.longest, self.team.median * self.draws.lognormvariate(0.0, 1.0))
        job = Job(f"{self.name}-{self.count:05}", self.name, gpus=gpus, submitted=now)
        pool.submit(job, duration)
        return pool.courses[job.id]

    def _drop(self, pool: VirtualPool, now: float) -> None:
        for course in [each for each in self.unfinished if each.first_start is None]:
            pool.change(now, JobRemoved(course.job.id))
            self.unfinished.remove(course)


def people_of(team: Team, seed: int) -> Iterator[Person]:
    """Yield the people; each draws her phases and her experiments from a seed of her own."""
    for number in range(team.people):
        name = f"person{number:02}"
        yield Person(name, team, Random(f"{seed} {name} phases"), Random(f"{seed} {name} experiments"))


def live_through(team: Team, days: float, seed: int, *, shared: bool) -> Outcome:
    """Let the team work for some days under a shared pool, or else with a machine for each."""
    machines = team.people - (team.build_nodes if shared else 0)
    nodes = tuple(Node(f"node{number:02}", NODE_GPUS) for number in range(machines))
    people = list(people_of(team, seed))
    quota = machines * NODE_GPUS // team.people
    projects = tuple(Project(person.name, quota=quota, age=age) for age, person in enumerate(people))
    snapshot = Snapshot(0.0, nodes, projects, (), Settings())
    planner = Planner(snapshot) if shared else StaticPlanner(snapshot)
    watch = Watch(snapshot, standing=planner.standing) if isinstance(planner, Planner) else None
    pool = VirtualPool(planner, now=0.0, costs=Costs(restart=team.restart), witness=watch)
    for person in people:
        person.begin()
    waiting = steps = 0
    while (now := steps * STEP) < days * DAY:
        for person in people:
            person.live(pool, now)
        pool.run(until=now + STEP / 2)
        waiting += sum(not each.job.placement for person in people for each in person.unfinished)
        pool.run(until=now + STEP)
        steps += 1
    if watch is not None:
        watch.finish(pool.now)
    broken = sum(watch.meter.violations.values()) if watch is not None else 0.0
    return replace(outcome(team, people, pool, steps * STEP), waiting=waiting / steps, broken=broken)


def outcome(team: Team, people: Sequence[Person], pool: VirtualPool, end: float) -> Outcome:
    """Return what came of the experiments and the notebooks until the end, in seconds."""
    courses = list(pool.courses.values())
    held = sum(_held(course, end) for course in courses)
    lost = sum(course.lost for course in courses)
    workdays = team.workday / DAY * 5 / 7
    building = sum(end - person.trained for person in people) * workdays
    whole = team.gpus * end
    firsts = [
        course.first_start - course.job.submitted
        for person in people
        for course in person.firsts
        if course.first_start is not None
    ]
    return Outcome(
        held=held / whole,
        used=((held - lost) * team.train_use + building * team.build_use) / whole,
        finished=sum(course.finish is not None for course in courses),
        first_waits=firsts,
        pauses=sum(course.pauses for course in courses),
        lost_gpu_hours=lost / HOUR,
    )


def _held(course: Course, end: float) -> float:
    """Return the GPU-seconds that the experiment held until the end."""
    ended = sum((until - since) * gpus for since, until, gpus, _ in course.spans)
    started = course.job.started
    live = course.job.held_gpus * (end - started) if course.finish is None and started is not None else 0.0
    return ended + live


def lines(team: Team, days: float, static: Outcome, shared: Outcome) -> Iterator[str]:
    """Yield a table of both outcomes."""
    a_day = team.gpus * days
    rows = [
        ("GPUs used, %", 100 * static.used, 100 * shared.used),
        ("GPUs held by experiments, %", 100 * static.held, 100 * shared.held),
        ("experiments finished", static.finished, shared.finished),
        ("experiments for each GPU and day", static.finished / a_day, shared.finished / a_day),
        ("experiments that wait, mean", static.waiting, shared.waiting),
        (
            "first experiment after a break waits, median, s",
            *(percentile(list(o.first_waits), 0.5) for o in (static, shared)),
        ),
        ("the same, 99th percentile, s", *(percentile(list(o.first_waits), 0.99) for o in (static, shared))),
        ("pauses for each 100 experiments", 0.0, 100 * shared.pauses / max(1, shared.finished)),
        ("GPU-hours lost by resuming", static.lost_gpu_hours, shared.lost_gpu_hours),
        ("guarantee broken, s", static.broken, shared.broken),
    ]
    yield f"  {'':50} {'a machine each':>15} {'build and train':>16}"
    for what, one, other in rows:
        yield f"  {what:50} {one:15,.2f} {other:16,.2f}   {f'{other / one:.1f} times' if one else '-'}"


@click.command()
@click.option("--days", type=click.FloatRange(min=1), default=28.0, show_default=True, help="How long they work.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of what people do.")
def main(days: float, seed: int) -> None:
    """Print what comes of the same people under both."""
    team = Team()
    print(describe())
    print(f"{team.people} people, {team.gpus} simulated GPUs, {days:g} days, seed {seed}, virtual time:")
    began = time.perf_counter()
    static, shared = (live_through(team, days, seed, shared=each) for each in (False, True))
    print("\n".join(lines(team, days, static, shared)))
    print(f"  took {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
