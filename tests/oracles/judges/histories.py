"""Random histories with submissions that coincide to the second, lived through in virtual time.

Three projects on up to three nodes. The jobs of an owner need one GPU each, or any number on a single node, and
together never more than its quota at a time: whatever others do, each of them starts at once, or after one minimum
run time of a job in its way. Those that are not preemptible wait for no minimum run time.
"""

from __future__ import annotations

from random import Random

from judges.command import Document, simulate
from judges.pool import pool_of

GRACE = 30
"""Seconds within which a paused job makes way."""
MINIMUM_RUN_TIMES = (0, 60, 600)
ORDERS = ("first-come", "least-served")
SURPLUSES = ("fair", "least-served")
OWNER = "owner"
MOST_PAUSES = 3
"""Pauses for each job: arrivals and ends cause pauses, and each of them of few others."""


def history_of_seed(seed: int) -> tuple[Document, tuple[str, ...], int]:
    """Return a scenario, the options to simulate it with, and how long the owner's jobs may wait, in seconds."""
    draw = Random(f"history {seed}")
    nodes: list[Document] = [
        {"name": f"n{at}", "gpus": draw.choice([2, 4, 4, 8])} for at in range(draw.randint(1, 3))
    ]
    total = sum(node["gpus"] for node in nodes)
    quota = draw.randint(1, total // 2)
    rest = total - quota
    projects: list[Document] = [
        {"name": OWNER, "quota": quota},
        {"name": "b", "quota": draw.randint(0, rest // 2), "weight": draw.choice([1, 1, 2])},
        {"name": "c", "quota": draw.randint(0, rest // 2), "priority": draw.choice([100, 100, 200])},
    ]
    if draw.random() < 0.4:
        projects[0]["parent"] = "department"
        if draw.random() < 0.5:
            projects[1].update(parent="department", quota=0)
        projects.append({"name": "department", "quota": quota})
    draw.shuffle(projects)
    jobs = [*_owned(draw, quota, whole=len(nodes) == 1), *_others(draw, total)]
    draw.shuffle(jobs)
    least = draw.choice(MINIMUM_RUN_TIMES)
    options = ("--order", draw.choice(ORDERS), "--surplus", draw.choice(SURPLUSES), "--min-runtime", str(least))
    firm = draw.random() < 0.3
    for job in jobs if firm else ():
        if job["project"] == OWNER:
            job["preemptible"] = False
    return {"nodes": nodes, "projects": projects, "jobs": jobs}, options, GRACE + (0 if firm else least)


def _owned(draw: Random, quota: int, *, whole: bool) -> list[Document]:
    """Return the owner's jobs: one after another in lines that together need no more than its quota.

    On a pool that is one node a line may need several GPUs.
    """
    jobs: list[Document] = []
    left, line = quota, 0
    while left:
        gpus = draw.randint(1, left) if whole else 1
        left -= gpus
        line += 1
        at = draw.choice([0, 0, 60, 120, 600])
        for number in range(draw.randint(0, 3)):
            duration = draw.choice([1, 60, 300, 600])
            job = {"name": f"{OWNER}{line}-{number}", "project": OWNER, "gpus": 1, "workers": gpus}
            jobs.append({**job, "submitted": at, "duration": duration})
            at += duration + draw.choice([1200, 1800, 2400])
    return jobs


def _others(draw: Random, total: int) -> list[Document]:
    jobs = []
    for at in range(draw.randint(4, 24)):
        workers = draw.choice([1, 1, 1, 2, 4])
        jobs.append(
            {
                "name": f"j{at}",
                "project": draw.choice("bc"),
                "gpus": draw.choice([1, 1, 2, 4]),
                "workers": workers,
                "min_workers": draw.choice([workers, draw.randint(1, workers)]),
                "submitted": draw.choice([0, 0, 0, 60, 60, 120, 600, 601, 1200, 2400]),
                "duration": draw.choice([60, 300, 600, 1200, 3600, 10_800]),
            }
        )
    return jobs


def breaches(seed: int) -> list[str]:
    """Return the breaches in the history of a seed, with the name of the promise before each."""
    scenario, options, patience = history_of_seed(seed)
    result, jobs = simulate(scenario, *options)
    pool = pool_of(scenario)
    found = []
    if result["guarantee_violation_s"]:
        found.append(f"guarantee: broken for {result['guarantee_violation_s']} s")
    for name, row in jobs.items():
        waited = None if row["start_s"] is None else row["start_s"] - row["submit_s"]
        if row["project"] == OWNER and (waited is None or waited > patience):
            found.append(f"guarantee: {name} fits the quota of its project, and starts after {waited} s")
        if row["finish_s"] is None and pool.could_run(pool.jobs[name]):
            found.append(f"no starvation: {name} never ends")
        if row["finish_s"] is not None and not pool.could_run(pool.jobs[name]):
            found.append(f"limits: {name} cannot run, and did")
    if result["pauses"] > MOST_PAUSES * len(jobs):
        found.append(f"no thrashing: {result['pauses']} pauses of {len(jobs)} jobs")
    for name, row in jobs.items():
        if row["pauses"] > len(jobs):
            found.append(f"no thrashing: {name} is paused {row['pauses']} times")
    return found
