from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S


@dataclass
class Place:
    """A job's directories and environment, as an executor makes them; its processes are real."""

    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @staticmethod
    def until(condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)
        return value

    @property
    def pause_file(self) -> Path:
        return self.root / "pause"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def output(self) -> Path:
        return self.root / "output"

    def environment(self, attempt: int = 1, rank: int = 0, world: int = 1, **more: str) -> dict[str, str]:
        gang = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1"} if world > 1 else {}
        return {
            "SPRINGTIDE_JOB_ID": "job",
            "SPRINGTIDE_JOB_NAME": "digits",
            "SPRINGTIDE_PROJECT": "vision",
            "SPRINGTIDE_ATTEMPT": str(attempt),
            "SPRINGTIDE_CHECKPOINT_DIR": str(self.checkpoints),
            "SPRINGTIDE_OUTPUT_DIR": str(self.output),
            "SPRINGTIDE_GRACE_SECONDS": "30",
            "SPRINGTIDE_PAUSE_FILE": str(self.pause_file),
            "SPRINGTIDE_REPORT": str(self.root / "reports.jsonl"),
            **gang,
            **more,
        }

    def start(
        self, *words: str, attempt: int = 1, rank: int = 0, world: int = 1, **more: str
    ) -> subprocess.Popen[str]:
        env = {**os.environ, **self.environment(attempt, rank, world, **more)}
        argv = [sys.executable, *words]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            argv, env=env, cwd=self.root, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        self.started.append(process)
        return process

    def run(self, *words: str, **more: Any) -> tuple[int, str, str]:
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def reports(self) -> list[dict[str, Any]]:
        """What was reported, in whole lines."""
        try:
            whole, _, _ = (self.root / "reports.jsonl").read_text().rpartition("\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in whole.splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    place.output.mkdir()
    place.checkpoints.mkdir()
    yield place
    for process in place.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
