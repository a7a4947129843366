from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.executor_contract import ExecutorContract
from benches.local_bench import LocalBench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[LocalBench]:
    bench = LocalBench(tmp_path / "state")
    await bench.open()
    yield bench
    await bench.close()


class TestLocalExecutor(ExecutorContract):
    """On one machine."""
