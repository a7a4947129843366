"""One store for all simulated pools of a test run, emptied for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulation.store import StoreBed, store_bed


@pytest.fixture(scope="session")
def bed() -> Iterator[StoreBed]:
    """The store of simulated pools."""
    with store_bed() as one:
        yield one
