"""The two commands that are judged, `springtide plan` and `springtide simulate`.

No other module of the oracles imports the product.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from springtide.scheduler.plan_commands import plan as plan_command
from springtide.scheduler.plan_commands import simulate as simulate_command

Document = dict[str, Any]
"""A scenario, as its file says it."""


def plans(scenarios: Sequence[Document]) -> list[Document]:
    """Return what `springtide plan` prints for each scenario."""
    if not scenarios:
        return []
    with tempfile.TemporaryDirectory(prefix="springtide-oracles-") as folder:
        files = [Path(folder, f"{at}.json") for at in range(len(scenarios))]
        for file, scenario in zip(files, scenarios, strict=True):
            file.write_text(json.dumps(scenario))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            plan_command.main([str(file) for file in files], standalone_mode=False)
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def plan(scenario: Document) -> Document:
    """Return what `springtide plan` prints for a scenario."""
    return plans([scenario])[0]


def simulate(scenario: Document, *options: str) -> tuple[Document, dict[str, Document]]:
    """Return what `springtide simulate` prints for a scenario, and its row of each job; None is never."""
    with tempfile.TemporaryDirectory(prefix="springtide-oracles-") as folder:
        file, rows = Path(folder, "pool.json"), Path(folder, "jobs.csv")
        file.write_text(json.dumps(scenario))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            simulate_command.main([str(file), "--jobs-out", str(rows), *options], standalone_mode=False)
        with rows.open(newline="") as table:
            jobs = {row["name"]: _numbers(row) for row in csv.DictReader(table)}
    return json.loads(printed.getvalue()), jobs


def _numbers(row: dict[str, str]) -> Document:
    times = {key: float(row[key]) if row[key] else None for key in ("submit_s", "start_s", "finish_s")}
    return {**times, "project": row["project"], "pauses": int(row["pauses"])}
