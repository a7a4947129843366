"""The judges on as many random pools and histories as one likes.

    python tests/oracles/soak.py --pools 2000 --histories 500 --seed 1 --seconds 600

Prints each failure with its kind and seed, the promise that is broken, and the smallest scenario found that breaks
it, for `springtide plan`. Pools of all kinds take turns; with ``--types`` all of them have two GPU types. Pools
and histories take turns as well, in proportion to their numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from judges import counterfactuals, histories, rest, streams, symmetries
from judges.command import Document, placements
from judges.minimise import minimised
from judges.random_pools import KINDS, pool_of_seed

MINIMISED_FOR = 20.0
Judge = Callable[[Document], list[str]]
Work = tuple[str, Callable[[], list[str]]]

JUDGES: dict[str, Judge] = {
    "at rest": lambda scenario: rest.breaches(scenario, placements([scenario])[0]),
    "counterfactuals": counterfactuals.untrue,
    "symmetries": symmetries.differences,
}


def main() -> int:
    """Judge, print what fails and how much was judged; return 1 if anything failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pools", type=int, default=100)
    options.add_argument("--histories", type=int, default=100, help="histories and streams")
    options.add_argument("--seed", type=int, default=0, help="the first seed")
    options.add_argument("--seconds", type=float, default=600.0, help="when to stop")
    options.add_argument("--types", action="store_true", help="only pools with two GPU types")
    options.add_argument("--judge", choices=JUDGES, action="append", help="only these judges of pools")
    given = options.parse_args()
    until = time.monotonic() + given.seconds
    judged, broken = Counter[str](), Counter[str]()
    kinds = ["typed"] if given.types else list(KINDS)
    pools = [
        (
            f"{judge}, {kinds[seed % len(kinds)]} {seed}",
            partial(_judged, kinds[seed % len(kinds)], seed, JUDGES[judge]),
        )
        for seed in range(given.seed, given.seed + given.pools)
        for judge in given.judge or JUDGES
    ]
    lives = [
        (f"{what}, {seed}", partial(lived, seed))
        for seed in range(given.seed, given.seed + given.histories)
        for what, lived in (("history", _lived), ("symmetry", _mirrored), ("stream", _streamed))
    ]
    works = _in_proportion(pools, lives)
    for what, work in works:
        if time.monotonic() > until:
            print(f"stopped after {given.seconds:g} s", flush=True)
            break
        judged[what.partition(",")[0]] += 1
        for failure in work():
            broken[failure.partition(":")[0]] += 1
            print(f"{what}: {failure}", flush=True)
    print("judged:", dict(judged))
    print("broken:", dict(broken))
    return bool(broken)


def _in_proportion(*parts: Sequence[Work]) -> list[Work]:
    """Return the works of all parts, so that each is done to the same part whenever time is over."""
    placed = [(at / len(part), number, work) for number, part in enumerate(parts) for at, work in enumerate(part)]
    return [work for *_, work in sorted(placed, key=lambda each: each[:2])]


def _judged(kind: str, seed: int, judge: Judge) -> list[str]:
    """Return what fails in a pool, each promise once, with the smallest scenario that breaks it."""
    scenario = pool_of_seed(kind, seed)
    failures = {failure.partition(":")[0]: failure for failure in judge(scenario)}
    return [
        f"{failure}\n    {json.dumps(_smallest(judge, scenario, promise))}"
        for promise, failure in failures.items()
    ]


def _smallest(judge: Judge, scenario: Document, promise: str) -> Document:
    """Return the smallest scenario found in `MINIMISED_FOR` seconds."""
    until = time.monotonic() + MINIMISED_FOR
    return minimised(scenario, lambda smaller: time.monotonic() < until and _breaks(judge, promise, smaller))


def _breaks(judge: Judge, promise: str, scenario: Document) -> bool:
    """Return whether a smaller scenario, which the command may refuse, still breaks the promise."""
    try:
        return any(failure.startswith(f"{promise}:") for failure in judge(scenario))
    except ValueError:
        return False


def _lived(seed: int) -> list[str]:
    scenario, options, _ = histories.history_of_seed(seed)
    replay = f"simulate {' '.join(options)} {json.dumps(scenario)}"
    return [f"{failure}\n    {replay}" for failure in histories.breaches(seed)]


def _mirrored(seed: int) -> list[str]:
    scenario, options, _ = histories.history_of_seed(seed)
    replay = f"simulate {' '.join(options)} {json.dumps(scenario)}"
    return [f"{failure}\n    {replay}" for failure in symmetries.differences_over_time(scenario, options)]


def _streamed(seed: int) -> list[str]:
    scenario, options, _ = streams.stream_of_seed(seed)
    replay = f"simulate {' '.join(options)} {json.dumps(scenario)}"
    return [f"{failure}\n    {replay}" for failure in streams.late(seed)]


if __name__ == "__main__":
    sys.exit(main())
