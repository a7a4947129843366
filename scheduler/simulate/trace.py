"""Traces: tables of jobs that ran in the past, and the pool to simulate them on."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from springtide.scheduler.gpu_types import total
from springtide.scheduler.model import Job, Node, Project
from springtide.scheduler.scenario import ScenarioError
from springtide.scheduler.wire.shapes import MAX_GPUS
from springtide.scheduler.wording import given

TRACE_COLUMNS = ("submit_s", "project", "gpus", "duration_s")
TYPES_COLUMN = "gpu_types"
"""Optional column of a trace: the GPU types that the job accepts, in its order, separated by spaces; none: all."""
QUOTA_COLUMNS = ("project", "quota")
TYPE_COLUMN = "gpu_type"
"""Column of a table of quotas for a pool with several GPU types: the type of the row's quota."""
MAX_SECONDS = 1e12


@dataclass(frozen=True, slots=True)
class Row:
    """One job of a trace: its line, time of submission, project, total number of GPUs and run time, in seconds.

    ``gpu_types`` are those that it accepts, in its order; empty means all.
    """

    line: int
    submit_s: float
    project: str
    gpus: int
    duration_s: float
    gpu_types: tuple[str, ...] = ()


def read_trace(path: Path) -> list[Row]:
    """Return the rows of a trace. Raises `ScenarioError` naming file, line and column."""
    return [
        Row(
            line=line,
            submit_s=_seconds(path, line, "submit_s", cells["submit_s"]),
            project=_name(path, line, cells["project"]),
            gpus=_whole(path, line, "gpus", cells["gpus"], least=1),
            duration_s=_seconds(path, line, "duration_s", cells["duration_s"]),
            gpu_types=tuple(cells.get(TYPES_COLUMN, "").split()),
        )
        for line, cells in _rows(path, TRACE_COLUMNS, TYPES_COLUMN)
    ]


def read_quotas(path: Path, nodes: tuple[Node, ...]) -> tuple[Project, ...]:
    """Return the projects of a table, oldest first. Raises `ScenarioError` naming file, line and column.

    On a pool with several GPU types each row is the quota of a project for one of them.
    """
    types = {node.gpu_type for node in nodes}
    quotas: dict[str, dict[str, int | None]] = {}
    for line, cells in _rows(path, QUOTA_COLUMNS, TYPE_COLUMN):
        name = _name(path, line, cells["project"])
        if len(types) > 1 or TYPE_COLUMN in cells:
            gpu_type = cells.get(TYPE_COLUMN, "").strip()
        else:
            gpu_type = next(iter(types))
        if gpu_type not in types:
            message = f"expected one of {', '.join(map(given, sorted(types)))}, got {given(gpu_type)}"
            raise _bad(path, line, TYPE_COLUMN, message)
        if gpu_type in quotas.setdefault(name, {}):
            raise _bad(path, line, "project", f"{given(name)} is listed twice, expected once")
        quotas[name][gpu_type] = _whole(path, line, "quota", cells["quota"], least=0)
    return tuple(
        Project(name, quota=table if len(types) > 1 else total(table), age=age)
        for age, (name, table) in enumerate(quotas.items())
    )


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Return the nodes of a text such as ``88x8`` or ``10x8:t4,4x4:a100``: number of nodes times GPUs of each.

    Raises `ValueError` naming the expected form.
    """
    nodes: list[Node] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([1-9]\d{0,5})x([1-9]\d{0,3})(?::([\w.-]{1,63}))?\s*", part, re.ASCII)
        if match is None:
            raise ValueError(
                f"expected COUNTxGPUS[:TYPE] such as 88x8 or 44x8:a100, or several with commas, got {given(part)}"
            )
        for _ in range(int(match[1])):
            nodes.append(Node(f"node-{len(nodes) + 1}", int(match[2]), match[3] or ""))
    return tuple(nodes)


def jobs_of(
    rows: list[Row], projects: tuple[Project, ...], nodes: tuple[Node, ...], path: Path
) -> list[tuple[Job, float]]:
    """Return each row as a job with its run time; a job larger than one node gets several equal workers.

    Raises `ScenarioError` for a project that has no quota, and for a GPU type that no node has.
    """
    known = {project.name for project in projects}
    largest_of: dict[str, int] = {}
    for node in nodes:
        largest_of[node.gpu_type] = max(node.gpus, largest_of.get(node.gpu_type, 0))
    jobs = []
    for number, row in enumerate(rows, start=1):
        if row.project not in known:
            raise _bad(path, row.line, "project", f"{given(row.project)} has no quota, expected a row for it")
        unknown = next((gpu_type for gpu_type in row.gpu_types if gpu_type not in largest_of), None)
        if unknown is not None:
            raise _bad(path, row.line, TYPES_COLUMN, f"no node has GPUs of type {given(unknown)}")
        largest = min(largest_of[gpu_type] for gpu_type in row.gpu_types or largest_of)
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
            gpu_types=row.gpu_types,
        )
        jobs.append((job, row.duration_s))
    return jobs


def _rows(path: Path, columns: tuple[str, ...], optional: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if sorted(header) not in (sorted(columns), sorted((*columns, optional))):
                raise _bad(
                    path, 1, "header", f"expected the columns {','.join(columns)}, got {given(','.join(header))}"
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
        raise _bad(path, line, column, f"expected seconds, 0 or more, got {given(cell)}")
    return value


def _whole(path: Path, line: int, column: str, cell: str, *, least: int) -> int:
    if not re.fullmatch(r"\d{1,7}", cell.strip(), re.ASCII) or not least <= int(cell) <= MAX_GPUS:
        raise _bad(
            path, line, column, f"expected a whole number of GPUs, {least} to {MAX_GPUS}, got {given(cell)}"
        )
    return int(cell)
