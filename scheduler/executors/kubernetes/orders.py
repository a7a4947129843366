"""What the service puts on the volume of jobs before a pod is made, and what it remembers there itself.

``jobs/<id>/attempts/<n>/spec.json`` is for the supervisor. The service's own records lie in ``jobs/<id>/orders/``,
which no pod sees: ``<n>.json`` is the order, ``<n>.pause`` and ``<n>.kill`` what was asked of it since,
``<n>.ending`` that it is made to end, and ``<n>.done`` that its end is on record.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from springtide.scheduler.executors import supervisor
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExecutorError
from springtide.scheduler.executors.environment import (
    command,
    contract,
    gang_template,
    job_environment,
    working_directory,
)
from springtide.scheduler.executors.files.layout import JobPlaces, Layout, leave_request, make_places, opened
from springtide.scheduler.executors.files.plain import make_directory, write_tree
from springtide.scheduler.executors.kubernetes import manifests
from springtide.scheduler.executors.kubernetes.manifests import Order
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.supervisor.records import write_record

SOURCE = Path(supervisor.__file__).parent
LOG_CAP = 64 << 20
REQUESTS = ("kill", "pause")


@dataclass(frozen=True, slots=True)
class Notes:
    """What the service remembers of an attempt: see `Orders.notes`."""

    asked: str | None
    ending: bool
    evicted: str


class Orders:
    """The records of attempts on the volume of jobs, which the service sees below ``state_dir``.

    ``owner`` is whom the files of jobs are given to, None where that is the service's own account.
    """

    def __init__(self, settings: KubernetesSettings, owner: tuple[int, int] | None) -> None:
        self.layout = Layout(settings.state_dir.absolute())
        self._settings = settings
        self._owner = owner
        self.program = ""

    def prepare(self) -> None:
        """Make the directory of jobs, and put the supervisor where pods find it. Raises OSError."""
        state = self.layout.state
        state.mkdir(parents=True, exist_ok=True)
        content = {f"supervisor/{path.name}": path.read_bytes() for path in sorted(SOURCE.glob("*.py"))}
        digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]
        for path in (self.layout.jobs, state / "programs"):
            make_directory(path, 0o711)
        write_tree(state / "programs" / digest, content, self._owner)
        self.program = f"programs/{digest}"

    def make(self, spec: AttemptSpec, image: str, home: str | None) -> Order:
        """What is to be done for ``spec``. Raises `ExecutorError` for what can never run."""
        if not spec.placement:
            raise ExecutorError("The job was given no worker to run.")
        inside = f"{spec.cwd or ''}/".startswith(f"{self._settings.home_path.rstrip('/')}/")
        if home is None and inside:
            raise ExecutorError(
                f"The working directory {spec.cwd!r} is in a home, but {spec.user} has none in the cluster: no "
                f"volume claim in the namespace {self._settings.namespace} belongs to that name. Start a notebook "
                f"once, or leave out cwd."
            )
        bare = replace(spec, files={})
        return Order(bare, image, home, self.program, manifests.digest(spec, image, home))

    def write(self, order: Order, files: Mapping[str, bytes]) -> None:
        """Put an order and the job's files on the volume, all before a pod is made of it.

        Raises `ExecutorError` for what can never run, OSError if the volume does not take it.
        """
        record = _spec_record(order)
        places = self.layout.job(order.key.job)
        make_directory(places.root, 0o711)
        make_directory(places.attempts, 0o711)
        make_directory(self._orders(order.key), 0o700)
        make_places(places, files, self._owner)
        directory = self.layout.attempt(order.key)
        make_directory(directory, 0o700, self._owner)
        with opened(directory) as handle:
            write_record(handle, "spec.json", record, durable=False)
            if self._owner is not None:
                os.chown("spec.json", *self._owner, dir_fd=handle, follow_symlinks=False)
        with opened(self._orders(order.key)) as handle:
            write_record(handle, f"{order.key.attempt}.json", msgspec.to_builtins(order), durable=False)

    def read(self, key: AttemptKey) -> Order | None:
        """The order of an attempt, None if there is none."""
        try:
            return msgspec.json.decode(self._path(key, "json").read_bytes(), type=Order)
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None

    # ---------- what became of it

    def ask(self, key: AttemptKey, request: str) -> None:
        """Leave a request for the supervisor, and remember it."""
        directory = self.layout.attempt(key)
        if not directory.exists():
            return
        self._path(key, request).touch()
        leave_request(directory, request)

    def end(self, key: AttemptKey, evicted: str, request: str) -> None:
        """Remember that the attempt is made to end, and why if others want that; tell its supervisors."""
        if self.layout.attempt(key).exists():
            self._path(key, "ending").write_text(evicted, encoding="utf-8")
            leave_request(self.layout.attempt(key), request)

    def notes(self, key: AttemptKey) -> Notes:
        """What was asked of the attempt, the stronger of the two, and whether it is made to end."""
        asked = next((request for request in REQUESTS if self._path(key, request).exists()), None)
        try:
            evicted = self._path(key, "ending").read_text(encoding="utf-8")
        except FileNotFoundError:
            return Notes(asked, ending=False, evicted="")
        return Notes(asked, ending=True, evicted=evicted)

    def finish(self, key: AttemptKey) -> None:
        """Remember that the end of the attempt is on record."""
        if self._orders(key).exists():
            self._path(key, "done").touch()

    def finished(self, key: AttemptKey) -> bool:
        """Whether the end of the attempt is on record."""
        return self._path(key, "done").exists()

    def remove(self, job: str) -> None:
        """Delete all files of a job."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.layout.job(job).root)

    def _orders(self, key: AttemptKey) -> Path:
        return self.layout.job(key.job).root / "orders"

    def _path(self, key: AttemptKey, kind: str) -> Path:
        return self._orders(key) / f"{key.attempt}.{kind}"


def _spec_record(order: Order) -> dict[str, Any]:
    """What the supervisors of an attempt go by; paths are as pods see them."""
    spec = order.spec
    places = JobPlaces(Path(manifests.JOB_ROOT))
    directory = places.attempts / str(spec.key.attempt)
    hosts = order.hosts
    addresses = [f"{host}:{manifests.WORKER_PORT}" for host in hosts]
    return {
        "job": spec.key.job,
        "attempt": spec.key.attempt,
        "epoch": spec.epoch,
        "argv": command(spec, places.code),
        "cwd": working_directory(spec, places),
        "env": job_environment(spec, {}, places.code, contract(spec, places, directory)),
        "gang": gang_template(hosts[0], manifests.PORT, addresses) if order.gang else {},
        "workers": [{"rank": worker.rank, "place": place} for place, worker in enumerate(spec.placement)],
        "account": None,
        "grace": spec.grace,
        "limits": {},
        "log_cap": LOG_CAP,
        "cgroup": None,
        "message": manifests.MESSAGE,
    }
