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


def plans(scenarios: Sequence[Document], *options: str) -> list[Document]:
    """Return what `springtide plan` prints for each scenario."""
    if not scenarios:
        return []
    with tempfile.TemporaryDirectory(prefix="springtide-oracles-") as folder:
        files = [Path(folder, f"{at}.json") for at in range(len(scenarios))]
        for file, scenario in zip(files, scenarios, strict=True):
            file.write_text(json.dumps(scenario))
        printed = _printed(plan_command, [*options, *(str(file) for file in files)])
    return [json.loads(line) for line in printed.splitlines()]


def plan(scenario: Document) -> Document:
    """Return what `springtide plan` prints for a scenario."""
    return plans([scenario])[0]


def placements(scenarios: Sequence[Document]) -> list[Document]:
    """Return what `springtide plan` prints for each scenario without reasons and ``starts_if``."""
    return plans(scenarios, "--placements-only")


def simulate(scenario: Document, *options: str) -> tuple[Document, dict[str, Document]]:
    """Return what `springtide simulate` prints for a scenario, and its row of each job; None is never."""
    with tempfile.TemporaryDirectory(prefix="springtide-oracles-") as folder:
        file, rows = Path(folder, "pool.json"), Path(folder, "jobs.csv")
        file.write_text(json.dumps(scenario))
        printed = _printed(simulate_command, [str(file), "--jobs-out", str(rows), *options])
        with rows.open(newline="") as table:
            jobs = {row["name"]: _numbers(row) for row in csv.DictReader(table)}
    return json.loads(printed), jobs


def _printed(command: Any, arguments: list[str]) -> str:
    """Return what a command prints; fail with its message if it refuses its input."""
    out, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages):
        try:
            command.main(arguments, standalone_mode=False)
        except SystemExit as refused:
            raise ValueError(messages.getvalue()) from refused
    return out.getvalue()


def _numbers(row: dict[str, str]) -> Document:
    times = {key: float(row[key]) if row[key] else None for key in ("submit_s", "start_s", "finish_s")}
    return {**times, "project": row["project"], "pauses": int(row["pauses"])}
