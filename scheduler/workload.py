"""Kinds of work, and the rules that differ between them.

A new kind is a member here, and a case of `JobSpec.workload`, which says what submissions are of that kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Line(Enum):
    """The line that a job waits in."""

    GPUS = "gpus"
    """The policy plans the job on GPUs."""
    WITHOUT_GPUS = "without-gpus"
    """It starts in the order of its project's jobs without GPUs."""
    NONE = "none"
    """It waits in no line: it has no attempts, or another job has to end first."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between kinds of work.

    ``runs``: a job has attempts of its own. ``announced``: its user gets notifications of it, and lists of jobs on
    hold name it; otherwise they name the job that it belongs to. ``learnt``: its run time and placement count for
    the estimates of similar jobs. ``saves``: its work is worth a checkpoint. ``passes_at_limit``: it has succeeded
    once its time limit has passed.
    """

    runs: bool = True
    announced: bool = True
    learnt: bool = True
    saves: bool = True
    passes_at_limit: bool = False


class Workload(Enum):
    """The kind of work of a job."""

    TRAINING = Rules()
    SWEEP = Rules(runs=False, learnt=False)
    """Many trials, each a job; the sweep represents them."""
    TRIAL = Rules(announced=False)
    TEST_RUN = Rules(announced=False, learnt=False, saves=False, passes_at_limit=True)
    """A short run of another job's code, which waits for it."""

    @property
    def rules(self) -> Rules:
        """The rules of the kind."""
        return self.value
