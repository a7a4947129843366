"""An executor on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("benches.executor_contract", "benches.executor_bench")

from benches.local_bench import LocalBench  # noqa: E402 - what it imports is to be rewritten
from patience import PATIENCE_S  # noqa: E402

from springtide.scheduler.executors.local import executor, launch  # noqa: E402


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Supervisors that kill half a second after SIGTERM what ignores it."""
    monkeypatch.setattr(launch, "KILL_AFTER", 0.5)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to end a supervisor that has recorded the end of its job."""
    monkeypatch.setattr(executor, "ENDS_WITHIN", PATIENCE_S)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[LocalBench]:
    """Simulated GPUs and short logs, and the executor at work."""
    bench = LocalBench(tmp_path / "state", log_cap=64 * 1024)
    await bench.open()
    yield bench
    await bench.close()
