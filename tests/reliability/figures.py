"""The figures of docs/reliability.md, measured in full: `make reliability`.

``--only NAME`` measures one of them. ``--seeds N`` lives through N random histories, ``--first S`` begins with the
seed S; ``--examples N`` makes N requests of each call and as many files for each reader; ``--load S`` keeps a pool
under load for S seconds; ``--minutes M`` lives M minutes of a day on a cluster, drawn from the seed S. Exits with
1 if anything is lost, runs twice, overlaps, ends otherwise than without faults, or breaks the service, or if the
load is not held; each case is printed.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree as ET

from cluster_day.long_day import live_a_day
from kills.hub_kills import kill_hub_and_proxy
from kills.renumbered_kills import ALL, kill_while_gpus_change, rounds
from kills.service_kills import KillFigures, kill_supervisors_and_reboot, kill_the_service
from simulation.crash_points import differences, points_of
from simulation.faults import CrashPoints
from simulation.history import live_through
from simulation.script import play
from simulation.store import store_bed

SEEDS = (1, 2, 3)
ROOT = Path(__file__).parents[2]
GENERATED = ("tests/api/test_generated_requests.py", "tests/simulate/test_generated_files.py")
BY_HAND = ("tests/api/test_bad_input.py", "tests/api/test_intake.py", "tests/api/test_hostile_requests.py")


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table: an experiment, its size, and its failures."""

    what: str
    tried: str
    problems: list[str]
    seconds: float = 0.0


def crash_points() -> Figure:
    """Crash at every point of the script."""
    with store_bed() as bed:
        expected = play(bed, CrashPoints())
        points = points_of(expected)
        counts = f"{expected.writes} writes, {expected.actions} actions"
        tried = f"{len(points)} points ({counts}) of {len(expected.ends)} jobs"
        return Figure(
            "Crash before and after each write and action", tried, list(differences(bed, expected, points))
        )


def histories(first: int, count: int) -> Figure:
    """Live through random histories."""
    problems, crashes = [], 0
    with store_bed() as bed:
        for seed in range(first, first + count):
            verdict = live_through(seed, bed)
            crashes += verdict.crashes
            problems += [f"--seed {seed}: {problem}" for problem in verdict.problems]
    return Figure("Random histories with faults", f"{count:,} seeds from {first}, {crashes:,} crashes", problems)


def service_kills() -> Figure:
    """Kill the service 30 times under 30 jobs, also while it recovers, with three seeds."""
    figures = [_killed(partial(kill_the_service, jobs=30, kills=30, seed=seed)) for seed in SEEDS]
    kills, at_start = sum(each.kills for each in figures), sum(each.kills_at_start for each in figures)
    tried = f"{kills} kills while up and {at_start} while recovering, {sum(each.jobs for each in figures)} jobs"
    return Figure("SIGKILL of the service", tried, [problem for each in figures for problem in each.problems])


def reboots() -> Figure:
    """Kill supervisors, and everything at once with another boot id."""
    figures = [_killed(partial(kill_supervisors_and_reboot, jobs=12, rounds=3, seed=1))]
    supervisors, count = sum(each.supervisors for each in figures), sum(each.reboots for each in figures)
    tried = f"{supervisors} supervisors and {count} reboots, {sum(each.jobs for each in figures)} jobs"
    return Figure("SIGKILL of supervisors, and reboots", tried, [p for each in figures for p in each.problems])


def hub_kills() -> Figure:
    """Kill `springtide up` and its proxy."""
    with tempfile.TemporaryDirectory() as directory:
        found = kill_hub_and_proxy(Path(directory), jobs=10, rounds=5)
    tried = f"{found.hubs} hubs and {found.proxies} proxies, {found.jobs} jobs"
    return Figure("SIGKILL of hub and proxy", tried, found.problems)


def renumbered_kills() -> Figure:
    """Kill hub, service and proxy at every step of a notebook's start and of a restart with other GPUs."""
    with tempfile.TemporaryDirectory() as directory:
        found = kill_while_gpus_change(Path(directory), list(islice(rounds(), ALL)))
    tried = f"{found.kills} kills in {found.rounds} rounds, {found.looks:,} looks at all processes"
    return Figure("SIGKILL while GPUs change", tried, found.problems)


def bad_inputs(examples: int) -> Figure:
    """Send generated requests and read generated files, right and wrong ones, and those written by hand."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-q", *GENERATED, *BY_HAND, f"--junit-xml={report}"]
        environment = {**os.environ, "SPRINGTIDE_EXAMPLES": str(examples)}
        subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        suites = ET.parse(report).getroot()
    told = {f"{kind} {outcome}" for kind in ("requests", "files") for outcome in ("accepted", "refused")}
    found = [each.attrib for each in suites.iter("property") if each.attrib["name"] in told]
    tried = Counter({each["name"]: int(each["value"]) for each in found})
    cases = list(suites.iter("testcase"))
    failed = [case.attrib["name"] for case in cases if {"failure", "error"} & {part.tag for part in case}]
    by_hand = sum(case.attrib["classname"].removeprefix("tests.api.") in _modules(BY_HAND) for case in cases)
    kinds = [
        f"{tried[f'{kind} refused'] + tried[f'{kind} accepted']:,} {kind} ({tried[f'{kind} refused']:,} refused)"
        for kind in ("requests", "files")
    ]
    return Figure("Bad input", f"{', '.join(kinds)}, {by_hand} tests written by hand", failed)


def _modules(paths: tuple[str, ...]) -> set[str]:
    return {Path(path).stem for path in paths}


def load(seconds: float) -> Figure:
    """Put a pool with 20,000 queued and 100,000 ended jobs under load, and print its figures."""
    command = [sys.executable, str(ROOT / "benchmarks/bench_load.py"), "--seconds", f"{seconds:g}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, file=sys.stderr)
    lines = done.stdout.splitlines() or [""]
    problems = [line.removeprefix("problem: ") for line in lines if line.startswith("problem: ")]
    if done.returncode and not problems:
        problems = [done.stderr[-1000:]]
    return Figure("Load, and start with many jobs", lines[-1].partition(": ")[2], problems)


def cluster_day(seed: int, minutes: float) -> Figure:
    """Live through a day on a cluster."""
    with tempfile.TemporaryDirectory() as directory:
        found = live_a_day(Path(directory), seed, minutes * 60)
    print(f"faults: {dict(found.faults)}; without effect: {dict(found.without_effect)}", file=sys.stderr)
    print(f"something kept all jobs waiting for {found.excused:.0f} of {found.seconds:.0f} s", file=sys.stderr)
    served = found.served_after
    print(f"quotas served after {len(served)} outages within {max(served, default=0):.1f} s", file=sys.stderr)
    print(f"ends that the judge may have missed: {found.unsure}", file=sys.stderr)
    print(f"pods that the API server itself removed at once: {found.cut_short}", file=sys.stderr)
    times = {"the cluster, of a silent node": found.not_ready_after, **found.said_after}
    for who, after in times.items():
        print(f"said by {who}: {len(after)} times, after {max(after, default=0):.1f} s at most", file=sys.stderr)
    print("\n".join(found.stories), file=sys.stderr)
    tried = (
        f"{found.jobs:,} jobs ({found.train_jobs} SpringtideJobs) in {found.attempts:,} attempts under "
        f"{sum(found.faults.values())} faults and {found.kills} kills, {found.events:,} events of pods, "
        f"quotas waited {found.longest:.0f} s at most"
    )
    return Figure("A day on a cluster", tried, found.problems)


def _killed(measure: Callable[[Path], KillFigures]) -> KillFigures:
    with tempfile.TemporaryDirectory() as directory:
        return measure(Path(directory))


def machine() -> str:
    """Return what this machine is."""
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def timed(measure: Callable[[], Figure]) -> Figure:
    """Return a figure with the time that it took."""
    began = time.monotonic()
    figure = measure()
    return Figure(figure.what, figure.tried, figure.problems, time.monotonic() - began)


def table(figures: list[Figure]) -> Iterator[str]:
    """Return the lines of the table."""
    rows = [("What", "Tried", "Problems", "Time")]
    rows += [(f.what, f.tried, str(len(f.problems)), f"{f.seconds:.0f} s") for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def main() -> int:
    """Measure the figures and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--examples", type=int, default=50)
    parser.add_argument("--load", type=float, default=300.0)
    parser.add_argument("--minutes", type=float, default=20.0)
    measures: dict[str, Callable[[argparse.Namespace], Figure]] = {
        "crash-points": lambda _: crash_points(),
        "histories": lambda asked: histories(asked.first, asked.seeds),
        "service-kills": lambda _: service_kills(),
        "reboots": lambda _: reboots(),
        "hub-kills": lambda _: hub_kills(),
        "renumbered-kills": lambda _: renumbered_kills(),
        "bad-input": lambda asked: bad_inputs(asked.examples),
        "load": lambda asked: load(asked.load),
        "cluster-day": lambda asked: cluster_day(asked.first, asked.minutes),
    }
    parser.add_argument("--only", choices=measures, action="append")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    figures = []
    for name in asked.only or measures:
        figures.append(timed(partial(measures[name], asked)))
        print(f"{figures[-1].what}: {figures[-1].tried}", file=sys.stderr, flush=True)
    print(f"Reliability on {machine()}\n")
    print("\n".join(table(figures)))
    for figure in figures:
        for problem in figure.problems:
            print(f"{figure.what}: {problem}")
    return 1 if any(figure.problems for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
