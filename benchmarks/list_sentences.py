"""The headlines and sentences of a busy pool, with their lengths, for reading them as a new user would.

A generated pool with two GPU types, gangs, racks, limits and jobs that never fit is planned to rest. Each reason
is printed once, the longest headline first.

    python benchmarks/list_sentences.py
    python benchmarks/list_sentences.py --seed 7
"""

from __future__ import annotations

import random
from typing import Any

import click
from machine import describe

from springtide.scheduler import sentences
from springtide.scheduler.model import Reason
from springtide.scheduler.scenario.read import checked
from springtide.scheduler.simulate.settle import opening, settle
from springtide.scheduler.wording import count

TYPES = ("t4", "a100")
PROJECTS = ("vision", "speech", "large language models", "nlp", "robots")
NAMES = ("digits", "bert-base", "resnet50 lr=0.1", "sweep of learning rates for the paper", "eval")
JOBS = 120


def document(seed: int) -> dict[str, Any]:
    """Return a pool of 12 nodes that cannot run all that is submitted, as a scenario."""
    rng = random.Random(seed)
    return {
        "nodes": [
            {
                "name": f"n{place}",
                "gpus": 8,
                "gpu_type": TYPES[place % 2],
                "labels": {"rack": f"r{place // 4}"},
            }
            for place in range(12)
        ],
        "projects": [
            {
                "name": name,
                "quota": {"t4": 8, "a100": 4 * place},
                **({"limit": {"t4": 12, "a100": 8}} if place % 2 else {}),
            }
            for place, name in enumerate(PROJECTS)
        ],
        "jobs": [_job(number, rng) for number in range(JOBS)],
    }


def _job(number: int, rng: random.Random) -> dict[str, Any]:
    workers = rng.choice((1, 1, 1, 2, 4, 16))
    job: dict[str, Any] = {
        "name": f"{rng.choice(NAMES)} {number}",
        "project": rng.choice(PROJECTS),
        "gpus": rng.choice((1, 1, 2, 4, 8, 16)),
        "workers": workers,
        "submitted": float(number),
        "gpu_types": rng.choice(([], ["t4"], ["a100"])),
        "preemptible": rng.random() < 0.8,
    }
    return job | ({"require": "rack"} if workers > 1 and rng.random() < 0.5 else {})


@click.command()
@click.option("--seed", default=1, show_default=True, help="Seed of the pool.")
def main(seed: int) -> None:
    """Print each reason of the pool once."""
    rest = settle(opening(checked(document(seed), "busy pool")))
    found: dict[str, tuple[Reason, int]] = {}
    for job in rest.jobs:
        why = rest.planner.reason(job, rest.now)
        line = sentences.headline(why)
        found[line] = (why, found[line][1] + 1 if line in found else 1)
    print(describe())
    for line in sorted(found, key=len, reverse=True):
        why, jobs = found[line]
        whole = sentences.text(why)
        print(f"{len(line):>3} {line}   ({count(jobs, 'job')}, {why.code})\n    {len(whole):>3} {whole}")
    reasons = [sentences.text(why) for why, _ in found.values()]
    for what, texts, most in (
        ("headline", list(found), sentences.LONGEST_HEADLINE),
        ("reason", reasons, sentences.LONGEST_REASON),
    ):
        longest = max(map(len, texts))
        verdict = "ok" if longest <= most else "TOO LONG"
        print(f"{count(len(texts), what)}; the longest has {longest} of {most} characters   {verdict}")


if __name__ == "__main__":
    main()
