"""Months of generated jobs, for simulations without traces and with other mixes of jobs.

They are deterministic: the same arguments give the same jobs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler.model import Job, Node, Project
from springtide.scheduler.simulate import Load
from springtide.scheduler.simulate.trace import parse_nodes

DAY = 86_400.0
GPUS_OF_NODE = 8


@dataclass(frozen=True, slots=True)
class Mix:
    """A mix of jobs.

    ``sizes`` are the relative numbers of jobs by their GPUs. Run times are log-normal with this median and longest
    time, in seconds. ``gpu_types`` share the nodes equally; ``accepted`` are the relative numbers of jobs by the
    types that they accept.
    """

    sizes: Mapping[int, int]
    median: float
    sigma: float
    longest: float
    gpu_types: Sequence[str] = ("",)
    accepted: Mapping[tuple[str, ...], int] | None = None


MOSTLY_SHORT = Mix({1: 950, 2: 17, 4: 17, 8: 12, 16: 3, 32: 1}, median=545.0, sigma=2.2, longest=40 * DAY)
"""Nearly all jobs have one GPU and end soon; a few run for weeks."""

GANGS = Mix({1: 300, 2: 150, 4: 150, 8: 200, 16: 120, 32: 60, 64: 20}, median=1_800.0, sigma=1.2, longest=2 * DAY)
"""Few long jobs, and many gangs of several nodes."""

GANGS_ON_TWO_TYPES = Mix(
    GANGS.sizes,
    GANGS.median,
    GANGS.sigma,
    GANGS.longest,
    gpu_types=("t4", "a100"),
    accepted={(): 60, ("t4",): 20, ("a100",): 20},
)
"""The same on GPUs of two types; most jobs accept both."""

MIXES = {"mostly-short": MOSTLY_SHORT, "gangs": GANGS, "gangs-on-two-types": GANGS_ON_TWO_TYPES}

PARTS = (0.18, 0.18, 0.18, 0.09, 0.09, 0.09, 0.05, 0.05, 0.05, 0.02, 0.02)
"""Quotas of the projects as parts of the pool: a few large projects and many small ones."""


def made_up(mix: Mix, gpus: int, jobs: int, seed: int = 1) -> Load:
    """Return a month of ``jobs`` jobs for a pool with ``gpus`` GPUs."""
    rng = random.Random(seed)
    count = gpus // GPUS_OF_NODE // len(mix.gpu_types)
    shape = f"{count}x{GPUS_OF_NODE}"
    nodes = parse_nodes(",".join(f"{shape}:{gpu_type}" if gpu_type else shape for gpu_type in mix.gpu_types))
    projects = tuple(Project(f"p{at}", quota=_quota(mix, nodes, part), age=at) for at, part in enumerate(PARTS))
    busy = [rng.paretovariate(1.0) for _ in projects]
    made = []
    for number in range(jobs):
        size = rng.choices(list(mix.sizes), list(mix.sizes.values()))[0]
        project = rng.choices(projects, busy)[0]
        workers = max(1, size // GPUS_OF_NODE)
        job = Job(
            id=f"job-{number}",
            project=project.name,
            workers=workers,
            min_workers=workers,
            gpus=size // workers,
            submitted=round(rng.uniform(0, 30 * DAY)),
            gpu_types=_accepted(mix, rng),
        )
        duration = round(min(mix.longest, mix.median * rng.lognormvariate(0.0, mix.sigma)))
        made.append((job, float(max(1, duration))))
    return Load(nodes, projects, tuple(made), tuple(mix.gpu_types))


def _quota(mix: Mix, nodes: Sequence[Node], part: float) -> int | dict[str, int]:
    """Return this part of the GPUs of each type, in whole nodes."""
    held = Counter[str]()
    for node in nodes:
        held[node.gpu_type] += node.gpus
    quotas = {each: max(1, int(part * held[each] / GPUS_OF_NODE)) * GPUS_OF_NODE for each in mix.gpu_types}
    return quotas if len(quotas) > 1 else quotas[mix.gpu_types[0]]


def _accepted(mix: Mix, rng: random.Random) -> tuple[str, ...]:
    if mix.accepted is None:
        return ()
    return rng.choices(list(mix.accepted), list(mix.accepted.values()))[0]
