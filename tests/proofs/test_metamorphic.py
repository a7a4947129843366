"""What must not matter does not matter."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from histories.living import live_through

from springtide.scheduler.model import Job, Node, Placement, Project, Snapshot, Worker
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate import settle

SEEDS = range(25)


@pytest.fixture(params=SEEDS)
def snapshot(request) -> Snapshot:
    """A pool in the middle of its life."""
    return live_through(request.param, 40).snapshot()


def outcome(snapshot: Snapshot) -> dict[str, int]:
    """Workers that run once the pool is at rest, by job."""
    rest = settle(snapshot)
    assert rest.stable
    return {job.id: len(job.placement) for job in rest.jobs.values()}


def test_the_order_in_which_things_are_listed_does_not_matter(snapshot):
    rng = random.Random(len(snapshot.jobs))
    shuffled = replace(
        snapshot,
        jobs=tuple(rng.sample(snapshot.jobs, len(snapshot.jobs))),
        projects=tuple(rng.sample(snapshot.projects, len(snapshot.projects))),
        nodes=tuple(rng.sample(snapshot.nodes, len(snapshot.nodes))),
    )

    assert Planner(shuffled).plan(shuffled.now) == Planner(snapshot).plan(snapshot.now)


def test_equal_jobs_may_change_places(snapshot):
    """Jobs alike in everything but their names: which of them is called what changes no count."""

    def nature(job: Job) -> Job:
        return replace(job, id="", name="", submitted=0.0)

    alike = tuple(replace(job, submitted=0.0) for job in snapshot.jobs)
    names = sorted(job.id for job in alike)
    renamed = dict(zip(names, reversed(names), strict=True))
    swapped = tuple(replace(job, id=renamed[job.id], name=renamed[job.id]) for job in alike)

    def counts(jobs: tuple[Job, ...]) -> Counter[tuple[str, int]]:
        running = outcome(replace(snapshot, jobs=jobs))
        return Counter(
            (repr(nature(job)), running[job.id]) for job in jobs if not job.placement and not job.reserved
        )

    waiting = {job.id: nature(job) for job in alike if not job.placement and not job.reserved}
    if len(set(map(repr, waiting.values()))) == 1:
        assert counts(alike) == counts(swapped)


def test_an_idle_project_changes_nothing(snapshot):
    idle = Project("zz-idle", quota=0, weight=5.0, priority=300, age=1000)

    assert outcome(replace(snapshot, projects=(*snapshot.projects, idle))) == outcome(snapshot)


def test_all_numbers_doubled_change_nothing(snapshot):
    """Unless whole GPUs are left over when shares are rounded: those can be shared once everything is doubled."""
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
            replace(
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
        assert doubled[name].held == 2 * standing.held
        assert doubled[name].request == 2 * standing.request
        assert abs(doubled[name].fair_share - 2 * standing.fair_share) <= 2
    if all(doubled[name].fair_share == 2 * once[name].fair_share for name in once):
        assert sum(outcome(twice).values()) == sum(outcome(snapshot).values())


def _twice_node(node: Node) -> Node:
    return replace(node, gpus=2 * node.gpus)


def _twice(placement: Placement) -> Placement:
    return tuple(
        Worker(each.rank, each.node, tuple(2 * gpu + half for gpu in each.gpus for half in (0, 1)))
        for each in placement
    )
