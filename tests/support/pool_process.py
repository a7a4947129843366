"""The pool's service of ``pool_service.py`` as a separate process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICE = Path(__file__).with_name("pool_service.py")
STOP_TIMEOUT_S = 60


class ServiceProcess:
    """The same service, which a test may kill: its jobs go on."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> str:
        """Start the service; return its address."""
        with (self._state / "service.log").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVICE), str(self._state)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, (self._state / "service.log").read_text()
        return self.url

    def kill(self) -> None:
        """End the service by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._close()

    def stop(self) -> None:
        """Have the service end all jobs that it knows, and exit."""
        if self._process is not None and self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._close()

    def _close(self) -> None:
        assert self._process is not None
        self._process.wait(STOP_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def running_service(state: Path, *images: str) -> Iterator[str]:
    """Yield the address of a real service: 4 simulated train GPUs; susan and joe in vision, jemma in speech."""
    log = state / "service.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(SERVICE), str(state), *images],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    assert url, log.read_text()
    yield url
    process.stdin.close()
    assert process.wait(STOP_TIMEOUT_S) == 0, log.read_text()
    process.stdout.close()
