"""The export of a month that the real engine lived through, simulated: what was recorded comes out again.

The oracle reads the rows of the store and the output of `springtide simulate`, and imports nothing of either.
*What if* is to name what it finds.
`--soak N` lives through further months.
"""

from __future__ import annotations

import csv
import json
import math
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulation import month
from simulation.store import StoreBed, store_bed

GPUS = 16
HOUR = 3_600.0
WITHIN = 0.02
AT_ONCE = 1.0
"""Seconds that a start takes in the real pool, and none in the simulation."""
USUAL = (1,)
ALL = (1, 5, 6)
"""Seeds of months in the suite, and with `--soak`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", ALL if metafunc.config.getoption("--soak") else USUAL)


@pytest.fixture(scope="module")
def bed() -> Iterator[StoreBed]:
    with store_bed() as bed:
        yield bed


def rows(store: sqlite3.Connection, query: str) -> list[Any]:
    return [[json.loads(cell) for cell in row] for row in store.execute(query)]


def recorded(lived: month.Month) -> dict[str, float]:
    """The figures of the month by its rows alone; GPU-hours by project."""
    ended, waits = [], []
    for spec, standing in rows(lived.store, "SELECT spec, standing FROM jobs"):
        if standing.get("started") and standing.get("ended"):
            waits.append(standing["started"] - spec["submitted"])
            ended.append(standing["ended"])
    held: dict[str, float] = defaultdict(float)
    for project, gpus, created, end in lived.store.execute("SELECT project, gpus, created, ended FROM attempts"):
        held[project] += gpus * max(0.0, min(end or lived.end, lived.end) - created) / HOUR
    return {
        "finished": len(ended),
        "makespan": max(ended) - lived.start,
        "mean wait": sum(waits) / len(waits),
        "median wait": percentile(waits, 50),
        "95 % wait": percentile(waits, 95),
        "utilisation": sum(held.values()) * HOUR / GPUS / (lived.end - lived.start),
        **held,
    }


def simulated(lived: month.Month, folder: Path) -> dict[str, float]:
    """The same figures by `springtide simulate` on the exported file."""
    file, table = folder / "month.json", folder / "jobs.csv"
    file.write_bytes(lived.scenario)
    program = Path(sys.executable).with_name("springtide")
    done = subprocess.run(
        [program, "simulate", file, "--jobs-out", table], capture_output=True, text=True, check=True, timeout=300
    )
    assert not done.stderr
    found = json.loads(done.stdout)
    with table.open() as lines:
        jobs = [row for row in csv.DictReader(lines) if row["start_s"] and row["finish_s"]]
    waits = [float(row["start_s"]) - float(row["submit_s"]) for row in jobs]
    room = GPUS * (lived.end - lived.start) / HOUR
    return {
        "finished": found["finished"],
        "makespan": found["makespan_s"],
        "mean wait": sum(waits) / len(waits),
        "median wait": percentile(waits, 50),
        "95 % wait": percentile(waits, 95),
        "utilisation": found["utilization"],
        **{name: own["utilization"] * room for name, own in found["projects"].items()},
    }


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


@pytest.mark.slow
def test_the_simulation_of_the_exported_month_equals_what_was_recorded(
    bed: StoreBed, seed: int, tmp_path: Path
) -> None:
    lived = month.live(bed, seed, jobs=250)
    before, after = recorded(lived), simulated(lived, tmp_path)
    assert before.keys() == after.keys()
    different = {
        name: (value, after[name])
        for name, value in before.items()
        if not math.isclose(value, after[name], rel_tol=WITHIN, abs_tol=AT_ONCE if "wait" in name else 0.0)
    }
    assert not different
    assert lived.deviation == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_in_a_short_time_the_projects_that_the_simulation_does_not_repeat_are_named(
    bed: StoreBed, number: int, tmp_path: Path
) -> None:
    lived = month.live(bed, number, jobs=80, length=2 * month.DAY)
    before, after = recorded(lived), simulated(lived, tmp_path)
    for name, figures in lived.recorded.projects.items():
        assert figures.gpu_hours == pytest.approx(before[name], abs=0.002), "as the sum of the attempts"
        differs = abs(after[name] - before[name])
        if not math.isclose(differs, max(0.05, WITHIN * before[name]), abs_tol=0.005):
            assert (f"“{name}”" in lived.deviation) == (differs > max(0.05, WITHIN * before[name]))
    ended = lived.store.execute("SELECT body FROM attempts WHERE ended <= ?", [lived.end])
    assert lived.recorded.total.pauses == sum(json.loads(body)["state"] == "paused" for (body,) in ended)
    assert lived.recorded.total.gpu_hours == pytest.approx(sum(before[name] for name in month.PROJECTS), abs=0.002)


@pytest.mark.slow
def test_the_exported_month_tells_of_all_that_changed(bed: StoreBed) -> None:
    lived = month.live(bed, 1, jobs=60, length=month.LENGTH / 6)
    found = json.loads(lived.scenario)
    quotas = [change["quota"] for change in found["changes"] if "quota" in change]
    assert quotas == [{"vision": 4}, {"vision": 8}]
    drains = [change for change in found["changes"] if "available" in change]
    assert [change["available"] for change in drains] == [{"two": False}, {"two": True}]
    assert drains[0]["empties"] == ["two"]
    frozen = [job["away"] for job in found["jobs"] if job["project"] == "speech" and "away" in job]
    assert frozen, "jobs of the frozen project were kept from running"
    assert any("cancelled" in job for job in found["jobs"]) or any("never ran" in note for note in found["notes"])
