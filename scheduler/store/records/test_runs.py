"""The test run of a job, as part of the job's record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TestStage(StrEnum):
    """How far a test run is."""

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether the test run has ended."""
        return self not in {TestStage.WAITING, TestStage.RUNNING}


@dataclass(frozen=True, slots=True)
class TestRun:
    """The test run of a job: a job of its own, its stage, and how long it ran, in seconds."""

    job: str
    stage: TestStage = TestStage.WAITING
    ran: float = 0.0
