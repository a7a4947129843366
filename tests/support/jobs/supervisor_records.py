"""What the supervisors of pods record on the volume of jobs, for pods on fake nodes, which run nothing."""

from __future__ import annotations

import json
from typing import Any

from benches.kube_bench import KubeBench

from springtide.scheduler.executors.base import AttemptKey


def leave_start(bench: KubeBench, key: AttemptKey, rank: int = 0, *, started: float = 1.0) -> None:
    """Leave the record of a supervisor whose worker has started."""
    _leave(bench, key, f"supervisor.{rank}.json", {"pid": 1, "start": 1, "boot": "b", "started": started})


def leave_exit(bench: KubeBench, key: AttemptKey, rank: int = 0, **ended: Any) -> None:
    """Leave the records of a supervisor whose worker has started and ended."""
    leave_start(bench, key, rank)
    usual = {"kind": "exited", "at": 2.0, "ran": 1.0, "code": 0, "signal": None, "killed": False, "detail": ""}
    _leave(bench, key, f"exit.{rank}.json", {**usual, "paused": False, **ended})


def _leave(bench: KubeBench, key: AttemptKey, name: str, record: dict[str, Any]) -> None:
    (bench.state / "jobs" / key.job / "attempts" / str(key.attempt) / name).write_text(json.dumps(record))
