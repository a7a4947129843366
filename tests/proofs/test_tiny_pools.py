"""Every tiny pool: up to three projects, up to three jobs each, four GPUs.

The projects' jobs arrive one project after the other, then every other job ends; each time the pool must come to
rest with all promises kept. The suite takes an even sample of all cases; `--soak` looks at every one.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest

from springtide.scheduler.model import Node, Order, Project, Settings

BATCHES = 8
SAMPLE = 6_000
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


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_tiny_pool_comes_to_rest_with_all_promises_kept(batch, new_world, soak):
    step = 1 if soak else CASES // SAMPLE | 1
    for number in range(batch * step, CASES, BATCHES * step):
        layout, quotas, jobs = case(number)
        world = new_world(
            tuple(Node(f"n{at}", gpus) for at, gpus in enumerate(layout)),
            tuple(
                Project(name, quota=quota, age=age)
                for age, (name, quota) in enumerate(zip("abc", quotas, strict=True))
            ),
            Settings(Order.FIRST_COME, min_runtime=0.0, grace=0.0),
            instant=True,
        )

        for project, shapes in enumerate(jobs):
            for shape in shapes:
                world.arrive(project, shape)
            world.settle()
        for job_id in list(world.jobs)[::2]:
            world.cancel_now(job_id)
        world.settle()
        world.act("wait", 0, 0)

        assert not world.watch.breaches, (
            number,
            layout,
            quotas,
            jobs,
            [str(each) for each in world.watch.breaches],
        )
