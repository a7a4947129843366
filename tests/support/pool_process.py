"""The pool's service of ``pool_service.py`` as a separate process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICE = Path(__file__).with_name("pool_service.py")
STOP_TIMEOUT_S = 60


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
