"""What must not matter does not matter."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from histories.living import live_through
from msgspec import structs

from springtide.scheduler.model import Job, Node, Placement, Project, Snapshot, Worker
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate import settle

SEEDS = range(25)


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    """Pools in the middle of their lives, in the order of their seeds."""
    return [live_through(seed, 40).snapshot() for seed in SEEDS]


def outcome(snapshot: Snapshot) -> dict[str, int]:
    """Workers that run once the pool is at rest, by job."""
    rest = settle(snapshot)
    assert rest.stable
    return {job.id: len(job.placement) for job in rest.jobs.values()}


def test_the_order_in_which_things_are_listed_does_not_matter(snapshots):
    for seed, snapshot in enumerate(snapshots):
        rng = random.Random(len(snapshot.jobs))
        shuffled = replace(
            snapshot,
            jobs=tuple(rng.sample(snapshot.jobs, len(snapshot.jobs))),
            projects=tuple(rng.sample(snapshot.projects, len(snapshot.projects))),
            nodes=tuple(rng.sample(snapshot.nodes, len(snapshot.nodes))),
        )

        assert Planner(shuffled).plan(shuffled.now) == Planner(snapshot).plan(snapshot.now), seed


def test_equal_jobs_may_change_places(snapshots):
    """Jobs alike in everything but their names: which of them is called what changes no count."""
    for seed, snapshot in enumerate(snapshots):
        alike = tuple(structs.replace(job, submitted=0.0) for job in snapshot.jobs)
        names = sorted(job.id for job in alike)
        renamed = dict(zip(names, reversed(names), strict=True))
        swapped = tuple(structs.replace(job, id=renamed[job.id], name=renamed[job.id]) for job in alike)
        if len({_nature(job) for job in alike if _waits(job)}) == 1:
            assert _counts(snapshot, alike) == _counts(snapshot, swapped), seed


def test_an_idle_project_changes_nothing(snapshots):
    for seed, snapshot in enumerate(snapshots):
        idle = Project("zz-idle", quota=0, weight=5.0, priority=300, age=1000)
        assert outcome(replace(snapshot, projects=(*snapshot.projects, idle))) == outcome(snapshot), seed


def test_all_numbers_doubled_change_nothing(snapshots):
    """Unless whole GPUs are left over when shares are rounded: those can be shared once everything is doubled."""
    for seed, snapshot in enumerate(snapshots):
        twice = replace(
            snapshot,
            nodes=tuple(_twice_node(node) for node in snapshot.nodes),
            projects=tuple(
                replace(
                    project,
                    quota=None if project.quota is None else 2 * project.quota,
                    limit=None if project.limit is None else 2 * project.limit,
                )
                for project in snapshot.projects
            ),
            jobs=tuple(
                structs.replace(
                    job,
                    gpus=2 * job.gpus,
                    placement=_twice(job.placement),
                    reserved=_twice(job.reserved),
                    served=2 * job.served,
                )
                for job in snapshot.jobs
            ),
        )
        once, doubled = Planner(snapshot).standing(), Planner(twice).standing()

        for name, standing in once.items():
            assert doubled[name].held == 2 * standing.held, seed
            assert doubled[name].request == 2 * standing.request, seed
            assert abs(doubled[name].fair_share - 2 * standing.fair_share) <= 2, seed
        if all(doubled[name].fair_share == 2 * once[name].fair_share for name in once):
            assert sum(outcome(twice).values()) == sum(outcome(snapshot).values()), seed


def _waits(job: Job) -> bool:
    return not job.placement and not job.reserved


def _nature(job: Job) -> str:
    return repr(structs.replace(job, id="", name="", submitted=0.0))


def _counts(snapshot: Snapshot, jobs: tuple[Job, ...]) -> Counter[tuple[str, int]]:
    """Return how many jobs wait of each nature and with each number of workers that run in the end."""
    running = outcome(replace(snapshot, jobs=jobs))
    return Counter((_nature(job), running[job.id]) for job in jobs if _waits(job))


def _twice_node(node: Node) -> Node:
    return structs.replace(node, gpus=2 * node.gpus)


def _twice(placement: Placement) -> Placement:
    return tuple(
        Worker(each.rank, each.node, tuple(2 * gpu + half for gpu in each.gpus for half in (0, 1)))
        for each in placement
    )
