"""The files that the executor writes to the volume of jobs before pods are created, and its own records there.

``jobs/<id>/attempts/<n>/spec.json`` is for the supervisor. The executor's own records are in
``jobs/<id>/launches/``, which no pod mounts: ``<n>.json`` is the launch record, of which pods may be
missing after a crash of the service, ``<n>.pause`` and ``<n>.kill`` are requests, ``<n>.ending`` marks its pods
for deletion, and ``<n>.done`` its end as recorded in the store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from springtide.scheduler.executors import supervisor
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, AttemptStatus, ExecutorError, FoundProgram
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.environment import (
    check_declared,
    command,
    contract,
    job_environment,
    search,
    tree_step,
    working_directory,
)
from springtide.scheduler.executors.files.layout import (
    ATTEMPTS,
    JobPlaces,
    Layout,
    leave_request,
    make_places,
    opened,
    write_packed,
)
from springtide.scheduler.executors.files.plain import make_directory
from springtide.scheduler.executors.files.programs import write_programs
from springtide.scheduler.executors.kubernetes.homes import Home
from springtide.scheduler.executors.kubernetes.objects import manifests
from springtide.scheduler.executors.kubernetes.objects.manifests import LaunchRecord
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.library import LIBRARY
from springtide.scheduler.executors.rendezvous import Rendezvous, template
from springtide.scheduler.executors.supervisor.records import REQUESTS, write_record
from springtide.scheduler.model import HomeAccess, Node
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu
from springtide.scheduler.wording import LONG_GIVEN, given

SUPERVISOR_SOURCE = Path(supervisor.__file__).parent
LOG_CAP = 64 << 20
"""Size at which a supervisor cuts the log of a worker, in bytes."""

FORMER_FIELDS = ("env", "image", "requirements", "cpus", "memory", "rdma")
"""The options in launch records of earlier versions."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The durable state of an attempt: the request for it, and whether and why it is ended."""

    requested: str | None
    ending: bool
    eviction: str


class LaunchRecords:
    """The records of attempts on the volume of jobs, which is mounted at ``state_dir``.

    ``owner`` is the user and group that the files of jobs are given to, None if these are the service's own. With
    ``credentials`` jobs can use the pool's API.
    """

    def __init__(
        self, settings: KubernetesSettings, owner: tuple[int, int] | None, credentials: Credentials | None = None
    ) -> None:
        self.layout = Layout(settings.state_dir.absolute())
        self._settings = settings
        self._owner = owner
        self._credentials = credentials
        self.program = ""

    def prepare_volume(self) -> None:
        """Create the directory of jobs, and copy the programs of the pool to the mount of pods. Raises `OSError`.

        Launch records of earlier versions are brought up to date.
        """
        state = self.layout.state
        state.mkdir(parents=True, exist_ok=True)
        others = {f"supervisor/{path.name}": path.read_bytes() for path in SUPERVISOR_SOURCE.glob("*.py")}
        make_directory(self.layout.jobs, 0o711)
        self.program = write_programs(state, others, self._owner)
        for path in self.layout.jobs.glob("*/launches/*.json"):
            self._migrate(AttemptKey(path.parent.parent.name, int(path.stem)))

    def _migrate(self, key: AttemptKey) -> None:
        """Put the options of an earlier version's launch record into an object of its spec."""
        with suppress(FileNotFoundError, msgspec.DecodeError):
            record = msgspec.json.decode(self._path(key, "json").read_bytes())
            if "options" not in record["spec"]:
                spec = record["spec"]
                options = {name: spec.pop(name) for name in FORMER_FIELDS if spec.get(name)}
                self._write(key, "json", {**record, "spec": {**spec, "options": options}})

    def make_record(
        self,
        spec: AttemptSpec,
        image: str,
        home: Home,
        nodes: Sequence[Node | None],
        part_without_gpus: PerGpu = UNSPECIFIED,
    ) -> LaunchRecord:
        """Return the launch record of an attempt; ``nodes`` are those of its workers, None without GPUs.

        ``part_without_gpus`` is the most that a worker without GPUs gets by default.
        The environment of the submission counts in its own image, with the home; other images have their own.
        Raises `ExecutorError` if the attempt can never run.
        """
        if not spec.placement:
            raise ExecutorError("The job was given no worker to run.")
        check_declared(spec)
        in_home = f"{spec.cwd or ''}/".startswith(f"{self._settings.home_path.rstrip('/')}/")
        if home.claim is None and in_home and not spec.copies_tree:
            raise ExecutorError(
                f"The working directory {given(spec.cwd, LONG_GIVEN)} is in a home. "
                f"{_without_home(home, spec.user, self._settings.namespace)}"
            )
        found = spec.found if home.claim is not None and spec.found.image == image else FoundProgram()
        without_files = replace(spec, files={}, history=None, packed=b"", found=found)
        digest = manifests.digest(spec, image, home)
        resources = tuple("" if node is None else node.resource for node in nodes)
        per_gpu = tuple(part_without_gpus if node is None else node.per_gpu for node in nodes)
        return LaunchRecord(
            without_files, image, home.claim, self.program, digest, resources, per_gpu, access=home.access
        )

    def save_record(
        self, record: LaunchRecord, files: Mapping[str, bytes], history: bytes | None = None, packed: bytes = b""
    ) -> None:
        """Write a launch record, the job's files and its packed project tree, before any pod of it is created.

        Raises `ExecutorError` if the attempt can never run, `OSError` if the volume cannot be written to.
        """
        key = record.key
        spec_json = _supervisor_spec(record, self._credentials, manifests.cores(record, self._settings))
        places = self.layout.job(key.job)
        make_directory(places.root, 0o711)
        make_places(places, files, self._owner, history)
        if record.spec.tree is not None:
            write_packed(places, record.spec.tree.root, packed, self._owner)
        directory = f"{ATTEMPTS}/{key.attempt}"
        with opened(places.root) as root:
            make_directory(ATTEMPTS, 0o711, within=root)
            make_directory(directory, 0o700, self._owner, within=root)
        with opened(self.layout.attempt(key)) as handle:
            places.write_beginning(handle)
            write_record(handle, "spec.json", spec_json, durable=False)
            if self._owner is not None:
                os.chown("spec.json", *self._owner, dir_fd=handle, follow_symlinks=False)
        if self._credentials is not None:
            self._credentials.write(key, self.layout.attempt(key), self._owner)
        self._write(key, "json", msgspec.to_builtins(record))

    def load_record(self, key: AttemptKey) -> LaunchRecord | None:
        """Return the launch record of an attempt, None if there is none."""
        try:
            return msgspec.json.decode(self._path(key, "json").read_bytes(), type=LaunchRecord)
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None

    # ---------- flags

    def record_request(self, key: AttemptKey, request: str) -> None:
        """Record a request for the attempt, and pass it to the supervisors."""
        directory = self.layout.attempt(key)
        if not directory.exists():
            return
        make_directory(self._directory(key), 0o700)
        self._path(key, request).touch()
        leave_request(directory, request)

    def record_ending(self, key: AttemptKey, eviction: str, request: str) -> None:
        """Record that the attempt is to end, and why it is evicted; pass ``request`` to the supervisors."""
        if self.layout.attempt(key).exists():
            make_directory(self._directory(key), 0o700)
            self._path(key, "ending").write_text(eviction, encoding="utf-8")
            leave_request(self.layout.attempt(key), request)

    def read_flags(self, key: AttemptKey) -> Flags:
        """Return the flags of an attempt, with the stronger request of two."""
        requested = next((request for request in REQUESTS if self._path(key, request).exists()), None)
        try:
            eviction = self._path(key, "ending").read_text(encoding="utf-8")
        except FileNotFoundError:
            return Flags(requested, ending=False, eviction="")
        return Flags(requested, ending=True, eviction=eviction)

    def mark_done(self, status: AttemptStatus) -> None:
        """Record the end of the attempt, and that it is in the store."""
        if self.layout.job(status.key.job).root.exists():
            self._write(status.key, "done", msgspec.to_builtins(status))

    def is_done(self, key: AttemptKey) -> bool:
        """Return whether the end of the attempt is in the store."""
        return self._path(key, "done").exists()

    def recorded_end(self, key: AttemptKey) -> AttemptStatus | None:
        """Return the status with which an attempt was marked as done, None if it was not.

        Raises `msgspec.DecodeError` if the record cannot be read.
        """
        try:
            recorded = self._path(key, "done").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return msgspec.json.decode(recorded, type=AttemptStatus)

    def _write(self, key: AttemptKey, kind: str, record: dict[str, Any]) -> None:
        make_directory(self._directory(key), 0o700)
        with opened(self._directory(key)) as handle:
            write_record(handle, f"{key.attempt}.{kind}", record, durable=False)

    def _directory(self, key: AttemptKey) -> Path:
        return self.layout.job(key.job).root / "launches"

    def _path(self, key: AttemptKey, kind: str) -> Path:
        return self._directory(key) / f"{key.attempt}.{kind}"


def _without_home(home: Home, user: str, namespace: str) -> str:
    """Return why the pods of a job have no home, and what helps."""
    if home.access is HomeAccess.USUAL:
        return (
            f"{user} has none in the cluster: no volume claim in the namespace {namespace} belongs to that name. "
            "Start a notebook once, or leave out cwd."
        )
    why = (
        f"That of {user} is not mounted in jobs, because one node only can attach its volume."
        if home.access is HomeAccess.ONE_NODE
        else "Jobs of this pool have none: the admin has set so."
    )
    return f"{why} Have the project copied (in_place: false), or leave out cwd."


def _supervisor_spec(record: LaunchRecord, credentials: Credentials | None, cores: float) -> dict[str, Any]:
    """Return the spec for the supervisors of an attempt; paths are those within pods."""
    spec = record.spec
    places = JobPlaces(Path(manifests.JOB_ROOT))
    directory = places.attempts / str(spec.key.attempt)
    base = {**spec.found.variables, **({} if credentials is None else credentials.variables(directory))}
    hosts = record.hosts if record.gang else ["localhost"]
    addresses = tuple(f"{host}:{manifests.WORKER_PORT}" for host in hosts)
    meeting = Rendezvous(hosts[0], manifests.RENDEZVOUS_PORT, addresses, len(spec.placement[0].gpus))
    return {
        "job": spec.key.job,
        "attempt": spec.key.attempt,
        "epoch": spec.epoch,
        "argv": command(spec, places, spec.found.path),
        "tree": tree_step(spec, places),
        "cwd": working_directory(spec, places),
        "env": job_environment(
            spec, base, places, contract(spec, places, directory), manifests.PROGRAM / LIBRARY, cores=cores
        ),
        "gang": template(meeting, gang=record.gang),
        "workers": [{"rank": worker.rank, "place": place} for place, worker in enumerate(spec.placement)],
        "account": None,
        "grace": spec.grace,
        "limits": {},
        "log_cap": LOG_CAP,
        "search": search(spec, places),
        "cgroup": None,
        "cgroup_files": {},
        "message": manifests.TERMINATION_LOG,
    }
