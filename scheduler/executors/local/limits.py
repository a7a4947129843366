"""Limits of a job's use of this machine besides GPUs."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.supervisor.disk import CHECKPOINTS, CODE, OUTPUTS, REPORTS, WORK
from springtide.scheduler.settings import GIB, SettingError, setting

PERIOD_US = 100_000
"""Period of a cgroup's share of the cores, in microseconds."""
ASKED = ("cpu", "memory")
"""Controllers of requested resources, used if they are delegated."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """The limits of jobs on this machine, as admins set them."""

    job_memory: float = setting(
        0.0,
        "The memory that each worker of a job may take here unless it asks for another; 0: no limit.",
        unit="GiB",
        ge=0,
        le=1 << 20,
    )
    job_processes: int = setting(
        0, "Processes and threads that each worker of a job may have on this machine; 0: no limit.", ge=0
    )
    job_cores: float = setting(
        0.0,
        "The cores that each worker of a job may use here unless it asks for others, with job_cgroup; 0: no "
        "limit.",
        ge=0,
    )
    job_disk: float = setting(
        0.0,
        "The size up to which a job may keep checkpoints, outputs, working directory, submitted files and "
        "reports on this machine, and deleted files that it has open. A job that keeps more is ended, and "
        "says what to delete. 0: no limit.",
        unit="GiB",
        ge=0,
        le=1 << 20,
    )
    job_cgroup: str = setting(
        "",
        "A directory of cgroup v2 that was delegated to the service and enforces the limits of jobs. Without "
        "it the kernel's rlimits do: memory for each process, processes for each user, cores not at all.",
    )

    def limits(self) -> Limits:
        """Return the limits. Raises `SettingError` for one that would not be enforced."""
        if self.job_cores and not self.job_cgroup:
            raise SettingError("Springtide.job_cores needs Springtide.job_cgroup: only a cgroup limits cores.")
        cgroup = Path(self.job_cgroup) if self.job_cgroup else None
        memory, disk = round(self.job_memory * GIB), round(self.job_disk * GIB)
        return Limits(memory, self.job_processes, self.job_cores, cgroup, disk)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each worker: ``memory`` in bytes, ``processes`` with their threads, ``cores``; 0 is none.

    ``disk`` is the most that the folders and reports of a job take together, in bytes, over all its attempts, and
    deleted files that its processes have open; they are measured every ``disk_interval`` seconds.

    ``cgroup`` is a directory of cgroup v2 that was delegated to the service: all limits hold there for an attempt
    as a whole, multiplied by its workers. Without it they are rlimits: memory for each process, processes for all
    that the user runs on this machine, cores not at all. ``process_memory`` is an rlimit in any case.

    A job that asks for cores or memory has these in place of the limits' own.
    """

    memory: int = 0
    processes: int = 0
    cores: float = 0.0
    cgroup: Path | None = None
    disk: int = 0
    disk_interval: float = 30.0
    process_memory: int = 0

    def of_job(self, cpus: float, memory: int) -> Limits:
        """Return the limits of a job with this request of cores and memory, 0 for these limits' own.

        Only a cgroup limits cores. If the cgroup does not limit memory, the memory is that of each process.
        """
        there = _enabled(self.cgroup)
        found = replace(self, cores=cpus) if cpus and "cpu" in there else self
        if not memory or self.cgroup is None or "memory" in there:
            return replace(found, memory=memory or self.memory)
        return replace(found, process_memory=memory)

    def prepare(self) -> None:
        """Make the cgroup ready for attempts. Raises `ExecutorError` if it cannot enforce the limits."""
        if self.cgroup is None:
            return
        try:
            self.cgroup.mkdir(exist_ok=True)
            self.check()
            there = (self.cgroup / "cgroup.controllers").read_text(encoding="ascii").split()
            for name in dict.fromkeys((*self._controllers(), *(name for name in ASKED if name in there))):
                (self.cgroup / "cgroup.subtree_control").write_text(f"+{name}", encoding="ascii")
        except OSError as error:
            raise self._unusable(error) from error

    def check(self) -> None:
        """Raise `ExecutorError` if the cgroup, which may not exist yet, cannot enforce the limits."""
        if self.cgroup is None:
            return
        there = self.cgroup.is_dir()
        place = self.cgroup / "cgroup.controllers" if there else self.cgroup.parent / "cgroup.subtree_control"
        try:
            found = place.read_text(encoding="ascii").split()
        except OSError as error:
            raise self._unusable(error) from error
        missing = [name for name in self._controllers() if name not in found]
        if missing:
            raise ExecutorError(
                f"The cgroup {self.cgroup} lacks the controllers {', '.join(missing)}. Delegate them "
                f"(cgroup.subtree_control of {self.cgroup.parent}), or leave out Springtide.job_cgroup."
            )

    def _controllers(self) -> list[str]:
        return list(dict.fromkeys(file.partition(".")[0] for file in self.files(1)))

    def _unusable(self, error: OSError) -> ExecutorError:
        return ExecutorError(
            f"Springtide.job_cgroup: {self.cgroup} is not a cgroup (version 2) that the service may use: "
            f"{error.strerror}."
        )

    def rlimits(self) -> dict[str, tuple[int, int]]:
        """Return names of `resource` with soft and hard limit; core dumps stay off unless a job asks for them."""
        found = {"RLIMIT_CORE": (0, resource.getrlimit(resource.RLIMIT_CORE)[1])}
        memory = self.process_memory or (0 if self.cgroup else self.memory)
        if memory:
            found["RLIMIT_DATA"] = (memory, memory)
        if self.cgroup is None and self.processes:
            found["RLIMIT_NPROC"] = (self.processes, self.processes)
        return found

    def disk_cap(self, places: JobPlaces) -> dict[str, Any] | None:
        """Return the disk limit of a job for its supervisor, as `supervisor.disk.DiskCap` reads it."""
        if not self.disk:
            return None
        folders = {
            CHECKPOINTS: places.checkpoints,
            OUTPUTS: places.output,
            WORK: places.work,
            CODE: places.code,
            REPORTS: places.reports,
        }
        return {
            "limit": self.disk,
            "every": self.disk_interval,
            "folders": {name: str(path) for name, path in folders.items()},
        }

    def files(self, workers: int) -> dict[str, str]:
        """Return the contents of the files of an attempt's cgroup."""
        found = {}
        if self.memory:
            found["memory.max"] = str(self.memory * workers)
            found["memory.oom.group"] = "1"
        if self.processes:
            found["pids.max"] = str(self.processes * workers)
        if self.cores:
            found["cpu.max"] = f"{round(self.cores * workers * PERIOD_US)} {PERIOD_US}"
        return found

    def described(self, *, as_root: bool) -> str:
        """Return a description of the limits and their enforcement; ``as_root`` if jobs run as root."""
        group = self.cgroup is not None
        parts = []
        if self.memory:
            parts.append(f"{self.memory / GIB:g} GiB of memory per {'worker' if group else 'process'}")
        if self.processes and (group or not as_root):
            parts.append(f"{self.processes} processes per {'worker' if group else 'user'}")
        if self.cores and group:
            parts.append(f"{self.cores:g} cores per worker")
        enforced = [f"{', '.join(parts)} ({'cgroup' if group else 'rlimits'})"] if parts else []
        if self.disk:
            enforced.append(f"{self.disk / GIB:g} GiB on the disk per job")
        return ", ".join(enforced) or "none"


def _enabled(cgroup: Path | None) -> list[str]:
    """Return the controllers that a cgroup enables for its children, none without one."""
    try:
        return [] if cgroup is None else (cgroup / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []
