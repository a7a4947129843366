"""Checks of this machine and of the state directory."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from springtide.hub_extension.backup.contents import HUB_DATABASE, SECRETS
from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.epoch import EpochGate
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.settings import GIB
from springtide.scheduler.store import StoreDamagedError, StoreError, StoreTooNewError
from springtide.scheduler.store.copying import check_copy, is_unused
from springtide.scheduler.store.opening import LOCK_SUFFIX
from springtide.scheduler.store.place import removed_files
from springtide.scheduler.store.rescue import rescued_copies
from springtide.scheduler.telemetry import TelemetryError, discover
from springtide.scheduler.telemetry.machine import GpuCount
from springtide.scheduler.wording import amount, count, listed

NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre", "beegfs")
"""File systems whose locks and shared memory SQLite cannot rely on."""
FREE = GIB
"""Free space below which a disk is too full, in bytes."""
FREE_PART = 0.05
DESCRIPTORS = 4096
"""Open files that a service with hundreds of event streams needs."""
STA_UNSYNC = 0x40
"""Bit of the kernel's clock status: no time service sets the clock."""
EXTRAS = ("", "hub", "kubernetes", "postgres", "gpu")


def versions() -> Iterator[Finding]:
    """Check the versions of Springtide's dependencies."""
    lacking = list(_unfit())
    if lacking:
        yield problem(
            "packages",
            f"Other versions are needed: {', '.join(lacking)}.",
            "pip install --upgrade 'springtide[hub]'",
        )
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        yield ok("packages", f"Springtide {version('springtide')} on Python {python}; all versions fit.")


def _unfit() -> Iterator[str]:
    for line in requires("springtide") or ():
        needed = Requirement(line)
        if needed.marker is not None and not any(needed.marker.evaluate({"extra": extra}) for extra in EXTRAS):
            continue
        optional = needed.marker is not None and not needed.marker.evaluate({"extra": "hub"})
        try:
            found = version(needed.name)
        except PackageNotFoundError:
            if not optional:
                yield f"{needed.name} is missing"
            continue
        if needed.specifier and not needed.specifier.contains(found, prereleases=True):
            yield f"{needed.name} {found} ({needed.specifier})"


def state_directory(state: Path) -> Iterator[Finding]:
    """Check owner, permissions and file system of the state directory."""
    if not state.is_dir():
        yield problem(
            "state directory", f"There is no state directory {state}.", "Name that of the pool with --state-dir."
        )
        return
    found = state.stat()
    if found.st_uid != os.geteuid():
        yield problem(
            "state directory",
            f"{state} belongs to uid {found.st_uid}; this is uid {os.geteuid()}.",
            "Run this as the account that runs the hub, or give the directory to it (chown -R).",
        )
    if found.st_mode & 0o066:
        yield problem(
            "state directory",
            f"Other accounts may list or change {state} (mode {found.st_mode & 0o777:o}).",
            f"chmod go-rw {state}",
        )
    readable = [name for name in SECRETS if (state / name).exists() and (state / name).stat().st_mode & 0o077]
    if readable:
        yield problem(
            "secrets",
            f"Other accounts may read {listed(readable)}.",
            f"chmod 600 {state}/{{{','.join(readable)}}}",
        )
    kind = _file_system(state)
    if kind in NETWORK_FILE_SYSTEMS:
        yield problem(
            "state directory",
            f"{state} is on a network file system ({kind}), where SQLite may lose what it has written.",
            "Put the store on a local disk, or into PostgreSQL (c.Springtide.database_url).",
        )
    elif found.st_uid == os.geteuid() and not found.st_mode & 0o066:
        yield ok("state directory", f"{state} is closed to other accounts, on {kind or 'a local file system'}.")


def _file_system(path: Path) -> str:
    """Return the type of the file system that holds a path, empty if it is unknown."""
    best, kind = "", ""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        _, place, found, *_ = line.split(" ")
        place = place.replace("\\040", " ")
        if path.resolve().is_relative_to(place) and len(place) >= len(best):
            best, kind = place, found
    return kind


def disk(state: Path) -> Iterator[Finding]:
    """Check the free space of the disk with the state directory."""
    found = os.statvfs(state)
    free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    said = f"{amount(round(free / GIB, 1))} of {amount(round(whole / GIB, 1))} GiB are free where {state} is"
    files_left = found.f_favail / found.f_files if found.f_files else 1.0
    if free < min(FREE, whole * FREE_PART) or files_left < FREE_PART:
        many = "" if files_left >= FREE_PART else f", and room for {count(found.f_favail, 'file')}"
        yield problem(
            "disk",
            f"{said}{many}: submissions and checkpoints will be refused.",
            "Make room, for example by a shorter c.Springtide.keep_days, or enlarge the disk.",
        )
    elif free < FREE or free < whole * FREE_PART:
        yield note("disk", f"{said}.", "Make room before checkpoints find none.")
    else:
        yield ok("disk", f"{said}.")


def store(database: Path, state: Path) -> Iterator[Finding]:
    """Check an SQLite store of the pool in a state directory, also while the service runs."""
    removed = removed_files(database, _locked_by(database))
    if removed:
        yield problem(
            "store",
            f"{listed([str(file) for file in removed])} was removed while the service runs; it accepts nothing.",
            "Do what the service says under /ready and in its log; it saves what it had accepted.",
        )
        return
    there = database.is_file()
    if EpochGate(Layout(state)).newest() and not (there and not is_unused(database)):
        copies = rescued_copies(database)
        yield problem(
            "store",
            f"The store {database} is missing or empty, but {state} is a pool's. The service does not start.",
            f"mv {copies[-1]} {database}"
            if copies
            else "springtide restore FILE, with a backup (docs/operations.md)",
        )
        return
    if not there:
        yield note("store", f"There is no store {database} yet.", "The first start of the service makes it.")
        return
    try:
        check_copy(database)
    except StoreDamagedError as error:
        yield problem("store", str(error), "springtide restore FILE, with a backup")
    except StoreTooNewError as error:
        yield problem("store", str(error), "pip install the newer version, or restore an older backup")
    except StoreError as error:
        yield problem("store", str(error), "Name the state directory of the pool with --state-dir.")
    else:
        yield ok("store", f"{database} is sound ({amount(round(database.stat().st_size / 1e6, 1))} MB).")


def hub_database(state: Path) -> Iterator[Finding]:
    """Check the hub's database under `springtide up`, if there is one; also while the hub runs."""
    database = state / HUB_DATABASE
    if not database.is_file():
        return
    try:
        check_copy(database, versioned=False)
    except StoreDamagedError as error:
        yield problem("hub", f"The hub's database is damaged: {error}", "springtide restore FILE, with a backup")
    else:
        yield ok("hub", f"{database} is sound.")


def _locked_by(database: Path) -> int:
    """Return the pid of the service with the store open, 0 if there is none."""
    lock = database.with_name(database.name + LOCK_SUFFIX)
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
    except (OSError, ValueError):
        pass
    return 0


def gpus(simulated: GpuCount | None, build: GpuCount, types: DeclaredTypes | None) -> Iterator[Finding]:
    """Check which GPUs the pool has."""
    try:
        machine = discover(simulated, build, types)
    except TelemetryError as error:
        yield problem("GPUs", str(error), "Correct c.Springtide.build_gpus or c.Springtide.simulated_gpus.")
        return
    kinds = [
        f"{count(node.gpus, 'GPU')} {node.gpu_type} ({node.environment.value})"
        for node in machine.nodes
        if node.gpus
    ]
    if any(gpu.simulated for node in machine.nodes for gpu in node.devices):
        chosen = simulated is not None
        remedy = (
            "" if chosen else "Install the NVIDIA driver and `pip install 'springtide[gpu]'`, and start again."
        )
        yield note("GPUs", f"All GPUs are simulated: {listed(kinds)}.", remedy or "They were asked for.")
    else:
        yield ok("GPUs", f"Found {listed(kinds)}.")


def limits(settings: Limits) -> Iterator[Finding]:
    """Check whether limits of jobs can be enforced, without changing anything."""
    cgroup = settings.cgroup
    if cgroup is None:
        yield note(
            "limits of jobs",
            "No cgroup is delegated: memory is limited for each process, cores not at all, and a job's process "
            "that hides from its supervisor is found by its session and environment only.",
            "Set c.Springtide.job_cgroup to a directory of cgroup v2 (docs/admin.md, Limits).",
        )
        return
    try:
        settings.check()
    except ExecutorError as error:
        yield problem(
            "limits of jobs", str(error), "Delegate the controllers, or leave out c.Springtide.job_cgroup."
        )
    else:
        yield ok("limits of jobs", f"The cgroup {cgroup} can enforce them.")


def descriptors() -> Iterator[Finding]:
    """Check how many files the service may open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        yield problem(
            "open files",
            f"A process may open {amount(hard)} files; each notebook, page and event stream takes one.",
            "Raise the hard limit (LimitNOFILE= of the systemd unit, or ulimit -Hn) to 65536.",
        )
    else:
        yield ok("open files", "A process may open enough files.")


class _Timex(ctypes.Structure):
    """The beginning of the kernel's ``struct timex``; the rest is padding."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock() -> Iterator[Finding]:
    """Check whether a time service keeps the clock."""
    state = _Timex()
    if ctypes.CDLL(None).adjtimex(ctypes.byref(state)) < 0 or not state.status & STA_UNSYNC:
        yield ok("clock", "The clock is kept by a time service, or by the machine that holds this container.")
    else:
        yield note(
            "clock",
            "No time service keeps the clock: the times that pages show may be wrong. Durations are not affected.",
            "Start chrony or systemd-timesyncd.",
        )
