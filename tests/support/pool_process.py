"""The pool's service of ``pool_service.py`` as a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from patience import PATIENCE_S

SERVICE = Path(__file__).with_name("pool_service.py")


class ServiceProcess:
    """A real service: 4 simulated train GPUs; susan and joe in vision, jemma in speech, anna in both.

    A test may kill it, while its jobs keep running, and start it again at the same address on the same state
    directory. Its store is SQLite in there, unless ``database`` is another URL. With ``projects``, quotas and
    members by name, the pool has these and as many GPUs as their quotas add up to; with ``real``, the machine's.
    """

    def __init__(
        self,
        state: Path,
        *images: str,
        database: str | None = None,
        projects: Mapping[str, tuple[int, Sequence[str]]] | None = None,
        real: bool = False,
    ) -> None:
        self._state = state
        given = {"POOL_DATABASE": database, "POOL_PROJECTS": projects and json.dumps(projects)}
        given["POOL_GPUS"] = "real" if real else None
        self._environment = {**os.environ, **{name: value for name, value in given.items() if value}}
        self._images = images
        self._log = state / "service.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self, dies: str = "") -> str:
        """Start the service, which ``dies`` at a call of that function; return its address."""
        port = str(urlsplit(self.url).port or 0)
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVICE), str(self._state), port, *self._images],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**self._environment, "POOL_DIES": dies} if dies else self._environment,
            )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, self._log.read_text()
        return self.url

    def kill(self) -> None:
        """End the service by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._close()

    def died(self) -> int:
        """Wait until the service has ended by itself; return its exit code."""
        return self._close()

    def stop(self) -> None:
        """Have the service end all jobs that it knows, and exit."""
        if self._process is not None and self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            assert self._close() == 0, self._log.read_text()

    def _close(self) -> int:
        assert self._process is not None
        code = self._process.wait(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return code


@contextmanager
def running_service(state: Path, *images: str) -> Iterator[str]:
    """Yield the address of a service, and stop it afterwards."""
    service = ServiceProcess(state, *images)
    yield service.start()
    service.stop()
