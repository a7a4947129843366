"""Every tiny pool: up to three projects, up to three jobs each, four GPUs.

The projects' jobs arrive one project after the other, then every other job ends; each time the pool must come to
rest with all promises kept. The suite takes an even sample of all cases; `--soak` looks at every one.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest
from histories.world import World

from springtide.scheduler.model import Node, Order, Project, Settings

BATCHES = 4
SAMPLE = 750
LAYOUTS = ((4,), (2, 2))
QUOTAS = [quotas for quotas in product(range(5), repeat=3) if sum(quotas) <= 4]
SHAPES = (0, 2, 4)
"""Numbers of shapes of the random histories: 1 GPU, 2 GPUs, a gang of 2 by 2."""
JOBS = [jobs for count in range(4) for jobs in combinations_with_replacement(SHAPES, count)]
CASES = len(LAYOUTS) * len(QUOTAS) * len(JOBS) ** 3


def case(number: int):
    """The case with a number: a layout, quotas, and the jobs of each project."""
    number, layout = divmod(number, len(LAYOUTS))
    number, quotas = divmod(number, len(QUOTAS))
    jobs = []
    for _ in range(3):
        number, chosen = divmod(number, len(JOBS))
        jobs.append(JOBS[chosen])
    return LAYOUTS[layout], QUOTAS[quotas], jobs


def live(world, jobs):
    """The projects' jobs arrive one project after the other, then every other job ends."""
    for project, kinds in enumerate(jobs):
        for kind in kinds:
            world.arrive(project, *(kind if isinstance(kind, tuple) else (kind,)))
        world.settle()
    for job_id in list(world.jobs)[::2]:
        world.cancel_now(job_id)
    world.settle()
    world.act("wait", 0, 0)


def prove(number: int) -> None:
    """Live through a case: no promise is broken."""
    layout, quotas, jobs = case(number)
    world = World(
        tuple(Node(f"n{at}", gpus) for at, gpus in enumerate(layout)),
        tuple(
            Project(name, quota=quota, age=age)
            for age, (name, quota) in enumerate(zip("abc", quotas, strict=True))
        ),
        Settings(Order.FIRST_COME, min_runtime=0.0, grace=0.0),
        instant=True,
    )

    live(world, jobs)

    assert not world.watch.breaches, (
        number,
        layout,
        quotas,
        jobs,
        [str(each) for each in world.watch.breaches],
    )


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_tiny_pool_comes_to_rest_with_all_promises_kept(batch, soak):
    step = 1 if soak else CASES // SAMPLE | 1
    for number in range(batch * step, CASES, BATCHES * step):
        prove(number)


def test_no_borrowed_job_resumes_before_the_owner_has_its_quota():
    prove(436248)


TABLES = list(product(range(3), repeat=2))
"""Quotas of one project: of two GPUs of each of two types."""
KINDS = tuple(product((0, 2), (("t4",), ("t4", "a100"), ("a100", "t4"))))
"""Shapes of 1 and 2 GPUs, and the types that the job accepts."""
JOBS_OF_KINDS = [jobs for count in range(3) for jobs in combinations_with_replacement(KINDS, count)]
TYPED_SAMPLE = 240
TYPED_CASES = len(TABLES) ** 2 * len(JOBS_OF_KINDS) ** 2


@pytest.mark.parametrize("batch", range(2))
def test_every_tiny_pool_with_two_gpu_types_keeps_all_promises(batch, soak):
    step = 1 if soak else TYPED_CASES // TYPED_SAMPLE | 1
    for number in range(batch * step, TYPED_CASES, 2 * step):
        rest, first = divmod(number, len(TABLES))
        rest, second = divmod(rest, len(TABLES))
        others, mine = divmod(rest, len(JOBS_OF_KINDS))
        jobs = [JOBS_OF_KINDS[mine], JOBS_OF_KINDS[others]]
        world = World(
            (Node("n0", 2, "t4"), Node("n1", 2, "a100")),
            tuple(
                Project(name, quota=dict(zip(("t4", "a100"), TABLES[table], strict=True)), age=age)
                for age, (name, table) in enumerate((("a", first), ("b", second)))
            ),
            Settings(Order.FIRST_COME, min_runtime=0.0, grace=0.0, gpu_types=("t4", "a100")),
            instant=True,
        )

        live(world, jobs)

        assert not world.watch.breaches, (number, jobs, [str(each) for each in world.watch.breaches])
