"""The pool's running attempts by the process table, independent of its files.

A supervisor is found by its command line, which has the attempt's directory, and by its account, which is the
service's. What it supervises is in its environment. Other processes of an attempt have the attempt's pause file in
theirs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from springtide.scheduler.executors import supervisor
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.files.layout import ATTEMPTS, JobPlaces, Layout, opened, read_record
from springtide.scheduler.executors.files.plain import make_directory
from springtide.scheduler.executors.supervisor.records import write_record
from springtide.scheduler.executors.supervisor.table import (
    ENDED,
    Process,
    boot_id,
    descendants,
    processes,
    seconds_since_boot,
)
from springtide.scheduler.model import Placement

PROGRAM = Path(supervisor.__file__).parent
SUPERVISED = "SPRINGTIDE_SUPERVISED"
"""Variable of a supervisor with its attempt, as JSON, from which `restore` makes missing files again."""
MARK = "SPRINGTIDE_PAUSE_FILE"
"""Variable of all processes of an attempt: its pause file."""
NO_PROCESS = 0
_PLACE = re.compile(rf"([A-Za-z0-9][A-Za-z0-9_.-]{{0,127}})/{ATTEMPTS}/([1-9][0-9]{{0,8}})(/pause)?")


@dataclass(slots=True)
class Running:
    """The live processes of an attempt: its ``supervisor`` if that lives, and those that have its ``mark``."""

    supervisor: Process | None = None
    marked: list[Process] = field(default_factory=list)


def running_attempts(layout: Layout) -> dict[AttemptKey, Running]:
    """Return the attempts of this state directory that have live processes."""
    roots = tuple(dict.fromkeys(f"{path}/" for path in (layout.jobs, layout.jobs.resolve())))
    found: dict[AttemptKey, Running] = {}
    for each in processes():
        if each.state in ENDED:
            continue
        supervised = _supervised(each, roots)
        if supervised is not None:
            found.setdefault(supervised, Running()).supervisor = each
            continue
        marked = _attempt_of(_variable(each.pid, MARK), roots, pause_file=True)
        if marked is not None:
            found.setdefault(marked, Running()).marked.append(each)
    return found


def _supervised(process: Process, roots: Sequence[str]) -> AttemptKey | None:
    """Return the attempt that a process supervises, None if it is no supervisor of the service's account."""
    try:
        line = _content(process.pid, "cmdline").split(b"\0")[:-1]
        if owner(process) != os.geteuid():
            return None
    except OSError:
        return None
    words = [os.fsdecode(word) for word in line]
    if len(words) < 3 or words[-3:-2] != ["-S"] or Path(words[-2]).name != PROGRAM.name:
        return None
    return _attempt_of(words[-1], roots)


def _attempt_of(path: str, roots: Sequence[str], *, pause_file: bool = False) -> AttemptKey | None:
    """Return the attempt whose directory, or pause file, this is."""
    for root in roots:
        found = _PLACE.fullmatch(path.removeprefix(root)) if path.startswith(root) else None
        if found is not None and bool(found[3]) is pause_file:
            return AttemptKey(found[1], int(found[2]))
    return None


def environment(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; empty if it has ended, or is another account's."""
    pairs = (os.fsdecode(variable).partition("=") for variable in _variables(pid) if variable)
    return {name: value for name, _, value in pairs}


def _variable(pid: int, name: str) -> str:
    """Return a variable of the environment of a process, empty if it has none."""
    start = os.fsencode(f"{name}=")
    return next((os.fsdecode(each[len(start) :]) for each in _variables(pid) if each.startswith(start)), "")


def _variables(pid: int) -> list[bytes]:
    try:
        return _content(pid, "environ").split(b"\0")
    except OSError:
        return []


def _content(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - thousands of these
        return file.read()


def owner(process: Process) -> int:
    """Return the uid of a process. Raises `OSError` if it has ended."""
    return os.stat(f"/proc/{process.pid}").st_uid  # noqa: PTH116 - thousands of these


def described(uid: int, placement: Placement, cgroup: Path | None, grace: float) -> dict[str, str]:
    """Return the variable with the description of a supervisor's attempt."""
    workers = [
        {"rank": worker.rank, "node": worker.node, "gpus": list(worker.gpus), "uuids": list(worker.uuids)}
        for worker in placement
    ]
    about: dict[str, Any] = {"uid": uid, "workers": workers, "cgroup": None if cgroup is None else str(cgroup)}
    about["grace"] = grace
    return {SUPERVISED: json.dumps(about)}


def restore(layout: Layout, key: AttemptKey, running: Running, *, mode: int, now: float) -> None:
    """Write the records of an attempt with live processes, as far as they are missing or not its own.

    ``mode`` is that of the job's directories, ``now`` the time in seconds since the epoch. Raises `OSError`.
    """
    directory = layout.attempt(key)
    places = layout.job(key.job)
    make_places(places, directory, mode)
    if read_record(directory, "spec.json") is None:
        with opened(directory) as handle:
            write_record(handle, "spec.json", {**_about(running), "job": key.job, "attempt": key.attempt})
    record = _record(running, now)
    known = read_record(directory, "supervisor.json")
    if known is not None and running.supervisor is None:
        return
    if known is not None and all(known.get(name) == record[name] for name in ("pid", "start", "boot")):
        return
    if running.supervisor is not None and not record["workers"] and _has_open(running.supervisor, directory):
        return  # it has not started the workers, and writes its own record before that
    with opened(directory) as handle:
        write_record(handle, "supervisor.json", record)


def make_places(places: JobPlaces, directory: Path, mode: int) -> None:
    """Make the directory of an attempt and its parents, if they are missing."""
    for path in (places.root.parent, places.root, places.attempts, directory):
        make_directory(path, mode)


def _about(running: Running) -> dict[str, Any]:
    """Return the required part of the attempt's ``spec.json``, from its processes."""
    if running.supervisor is not None:
        try:
            about = json.loads(environment(running.supervisor.pid).get(SUPERVISED, ""))
        except ValueError:
            about = None
        if isinstance(about, dict):
            return {**about, "uuids": [uuid for worker in about["workers"] for uuid in worker["uuids"]]}
    workers = _workers(running)
    uids = sorted(
        {uid for process in (*workers, *running.marked) if (uid := _owner_if_alive(process)) is not None}
    )
    jobs = [uid for uid in uids if uid != os.geteuid()] or uids or [os.geteuid()]
    shown = [_shown(environment(process.pid)) for process in workers or running.marked]
    uuids = list(dict.fromkeys(uuid for uuids_shown in shown for uuid in uuids_shown))
    placed = dict(enumerate(shown)) if workers else {0: uuids}
    return {
        "uid": jobs[0],
        "uids": jobs,
        "uuids": uuids,
        "workers": [
            {"rank": rank, "node": "", "gpus": list(range(len(each))), "uuids": list(each)}
            for rank, each in placed.items()
        ],
    }


def _workers(running: Running) -> list[Process]:
    """Return the workers of a live supervisor: its children that lead a session."""
    if running.supervisor is None:
        return []
    below = descendants(running.supervisor.pid)
    return [
        descendant
        for descendant in below
        if descendant.parent == running.supervisor.pid
        and descendant.session == descendant.pid
        and descendant.state not in ENDED
    ]


def _owner_if_alive(process: Process) -> int | None:
    try:
        return owner(process)
    except OSError:
        return None


def _shown(values: Mapping[str, str]) -> list[str]:
    return [uuid for uuid in values.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]


def _record(running: Running, now: float) -> dict[str, Any]:
    """Return the supervisor's own record; without a process if it has ended."""
    supervisor_process = running.supervisor
    if supervisor_process is None:
        return {"pid": NO_PROCESS, "start": 0, "boot": boot_id(), "workers": []}
    workers = _workers(running)
    record: dict[str, Any] = {"pid": supervisor_process.pid, "start": supervisor_process.start, "boot": boot_id()}
    record["restored"] = True
    record["workers"] = [[worker.pid, worker.start] for worker in workers]
    if workers:
        since_boot = min(worker.start for worker in workers) / os.sysconf("SC_CLK_TCK")
        record["since_boot"] = since_boot
        record["started"] = now - (seconds_since_boot() - since_boot)
    return record


def _has_open(process: Process, directory: Path) -> bool:
    """Return whether a process has this very directory open, and not one that was there before."""
    wanted = directory.stat()
    return any((found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) for found in _open_files(process))


def _open_files(process: Process) -> Iterator[os.stat_result]:
    try:
        files = list(Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:
        return
    for file in files:
        try:
            yield file.stat()
        except OSError:
            continue
