"""Traces: tables of jobs that ran in the past, and the pool to simulate them on."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from springtide.scheduler.model import Job, Node, Project
from springtide.scheduler.scenario import ScenarioError
from springtide.scheduler.wire.shapes import MAX_GPUS

TRACE_COLUMNS = ("submit_s", "project", "gpus", "duration_s")
QUOTA_COLUMNS = ("project", "quota")
MAX_SECONDS = 1e12


@dataclass(frozen=True, slots=True)
class Row:
    """One job of a trace: its line, time of submission, project, total number of GPUs and run time, in seconds."""

    line: int
    submit_s: float
    project: str
    gpus: int
    duration_s: float


def read_trace(path: Path) -> list[Row]:
    """Return the rows of a trace. Raise `ScenarioError` naming file, line and column."""
    return [
        Row(
            line=line,
            submit_s=_seconds(path, line, "submit_s", cells["submit_s"]),
            project=_name(path, line, cells["project"]),
            gpus=_whole(path, line, "gpus", cells["gpus"], least=1),
            duration_s=_seconds(path, line, "duration_s", cells["duration_s"]),
        )
        for line, cells in _rows(path, TRACE_COLUMNS)
    ]


def read_quotas(path: Path) -> tuple[Project, ...]:
    """Return the projects of a table, oldest first. Raise `ScenarioError` naming file, line and column."""
    projects: dict[str, Project] = {}
    for line, cells in _rows(path, QUOTA_COLUMNS):
        name = _name(path, line, cells["project"])
        if name in projects:
            raise _bad(path, line, "project", f"{name!r} is listed twice, expected once")
        quota = _whole(path, line, "quota", cells["quota"], least=0)
        projects[name] = Project(name, quota=quota, age=len(projects))
    return tuple(projects.values())


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Return the nodes of a text such as ``88x8`` or ``10x8,4x4``: number of nodes times GPUs of each node.

    Raise `ValueError` naming the expected form.
    """
    nodes: list[Node] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([1-9]\d{0,5})x([1-9]\d{0,3})\s*", part, re.ASCII)
        if match is None:
            raise ValueError(f"expected COUNTxGPUS such as 88x8, or several separated by commas, got {part!r}")
        for _ in range(int(match[1])):
            nodes.append(Node(f"node-{len(nodes) + 1}", int(match[2])))
    return tuple(nodes)


def jobs_of(
    rows: list[Row], projects: tuple[Project, ...], nodes: tuple[Node, ...], path: Path
) -> list[tuple[Job, float]]:
    """Return each row as a job with its run time; a job larger than one node gets several equal workers.

    Raise `ScenarioError` for a project that has no quota.
    """
    known = {project.name for project in projects}
    largest = max(node.gpus for node in nodes)
    jobs = []
    for number, row in enumerate(rows, start=1):
        if row.project not in known:
            raise _bad(path, row.line, "project", f"{row.project!r} has no quota, expected a row for it")
        workers = next(
            count for count in range(1, row.gpus + 1) if row.gpus % count == 0 and row.gpus // count <= largest
        )
        job = Job(
            id=f"job-{number}",
            name=f"job-{number}",
            project=row.project,
            workers=workers,
            min_workers=workers,
            gpus=row.gpus // workers,
            submitted=row.submit_s,
        )
        jobs.append((job, row.duration_s))
    return jobs


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if sorted(header) != sorted(columns):
                raise _bad(
                    path, 1, "header", f"expected the columns {','.join(columns)}, got {','.join(header)!r}"
                )
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise _bad(path, reader.line_num, "row", f"expected {len(header)} cells, got {len(cells)}")
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except OSError as error:
        raise ScenarioError(str(path), "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(
            str(path), "", f"expected UTF-8 text, got byte 0x{error.object[error.start]:02x}"
        ) from error
    except csv.Error as error:
        raise ScenarioError(
            str(path), f"line {reader.line_num}", f"expected comma-separated cells: {error}"
        ) from error


def _bad(path: Path, line: int, column: str, message: str) -> ScenarioError:
    return ScenarioError(str(path), f"line {line}, column {column}", message)


def _name(path: Path, line: int, cell: str) -> str:
    if not cell.strip():
        raise _bad(path, line, "project", "expected a name, got nothing")
    return cell


def _seconds(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_SECONDS:
        raise _bad(path, line, column, f"expected seconds, 0 or more, got {cell!r}")
    return value


def _whole(path: Path, line: int, column: str, cell: str, *, least: int) -> int:
    if not re.fullmatch(r"\d{1,7}", cell.strip(), re.ASCII) or not least <= int(cell) <= MAX_GPUS:
        raise _bad(path, line, column, f"expected a whole number of GPUs, {least} to {MAX_GPUS}, got {cell!r}")
    return int(cell)
