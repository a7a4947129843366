"""The pool's service of ``pool_service.py`` as a separate process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from patience import PATIENCE_S
from pools import warm_processes

from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18


def _run(boot_id: Path | None, test: Connection, dies: str, given: dict[str, Any]) -> None:
    if boot_id is not None:
        _on_another_boot(boot_id)
    from pools import pool_service  # noqa: PLC0415 - the process of the tests has no use for it

    pool_service.run(pool_service.Given(**given), test, dies)


def _on_another_boot(boot_id: Path) -> None:
    """Put the file in place of the number of the machine's boot, for this process and those that it starts."""
    user, group, libc = os.geteuid(), os.getegid(), ctypes.CDLL(None, use_errno=True)
    done = libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS)
    if done == 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        done = libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    if done == 0:
        place = b"/proc/sys/kernel/random/boot_id"
        done = libc.mount(os.fsencode(boot_id), place, None, ctypes.c_ulong(_MS_BIND), None)
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(boot_id))


class ServiceProcess:
    """A real service: 4 simulated train GPUs; susan and joe in vision, jemma in speech, anna in both.

    A test may kill it, while its jobs keep running, and start it again at the same address on the same state
    directory. Its store is SQLite in there, unless ``database`` is another URL. With ``projects``, quotas and
    members by name, the pool has these and as many GPUs as their quotas add up to; with ``real``, the machine's.
    It runs on what looks like another boot of the machine if there is a file with a ``boot_id``. With a
    ``cluster``, reached by ``kubeconfig``, jobs are pods, and ``train_jobs`` are the namespaces of SpringtideJobs.
    """

    def __init__(
        self,
        state: Path,
        *images: str,
        database: str | None = None,
        projects: Mapping[str, tuple[int, Sequence[str]]] | None = None,
        real: bool = False,
        port: int = 0,
        boot_id: Path | None = None,
        cluster: KubernetesSettings | None = None,
        kubeconfig: Path | None = None,
        train_jobs: tuple[str, ...] = (),
    ) -> None:
        self._port, self._boot_id = port, boot_id
        self._given = {"state": state, "images": images, "database": database, "projects": projects, "real": real}
        self._given |= {"cluster": cluster, "train_jobs": train_jobs}
        self._environment = {**os.environ, **({} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)})}
        self._log = state / "service.log"
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self.url = ""

    def start(self, dies: str = "") -> str:
        """Start the service, which ``dies`` at a call of that function; return its address."""
        self.begin(dies)
        assert self._connection is not None
        try:
            self.url = self._connection.recv()
        except EOFError:
            raise AssertionError(self._log.read_text()) from None
        self._port = urlsplit(self.url).port or 0
        return self.url

    def begin(self, dies: str = "") -> None:
        """Start the service, and do not wait for it."""
        self._connection, other = warm_processes.pipe()
        arguments = (self._boot_id, other, dies, {**self._given, "port": self._port})
        self._process = warm_processes.begin(_run, *arguments, printed=self._log, environment=self._environment)
        other.close()

    @property
    def runs(self) -> bool:
        """Whether the service has been started and has not ended."""
        return self._process is not None and self._process.is_alive()

    def kill(self) -> None:
        """End the service by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self.died()

    def leave(self) -> None:
        """End the service by SIGTERM, as a pod that is replaced; its jobs keep running."""
        assert self._process is not None
        self._process.terminate()
        assert self.died() == 0, self._log.read_text()

    def died(self) -> int | None:
        """Wait until the service has ended by itself; return its exit code, None if it has not ended."""
        assert self._process is not None
        assert self._connection is not None
        self._process.join(PATIENCE_S)
        self._connection.close()
        return self._process.exitcode

    def stop(self) -> None:
        """Have the service end all jobs that it knows, and exit."""
        if self.runs:
            assert self._connection is not None
            self._connection.close()
            assert self.died() == 0, self._log.read_text()


@contextmanager
def running_service(state: Path, *images: str) -> Iterator[str]:
    """Yield the address of a service, and stop it afterwards."""
    service = ServiceProcess(state, *images)
    yield service.start()
    service.stop()
