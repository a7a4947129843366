"""What a pause costs the training: `should_pause()` in every step, and the time until a whole gang has paused.

The processes of a gang are real and share a directory, as on one machine and in pods; each step sleeps for 1 ms.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from machine import describe

STEPS = 200_000
ROUNDS = 5
WORKER = """
import sys, time
from springtide.training import current_job
job = current_job()
job.should_pause(0)
began = time.perf_counter()
for step in range(1, int(sys.argv[1]) + 1):
    job.should_pause(step)
took = time.perf_counter() - began
print(took / max(1, int(sys.argv[1])), flush=True)
step = int(sys.argv[1])
while int(sys.argv[2]):
    step += 1
    time.sleep(0.001)
    if job.should_pause(step):
        print(time.time(), step, flush=True)
        job.exit_for_pause()
"""


def environment(directory: Path, rank: int, world: int) -> Mapping[str, str]:
    """Return the environment of one process of a gang."""
    return {
        **os.environ,
        "SPRINGTIDE_JOB_ID": "bench",
        "SPRINGTIDE_CHECKPOINT_DIR": str(directory),
        "SPRINGTIDE_PAUSE_FILE": str(directory / "pause"),
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
    }


def run(world: int, steps: int, *, pause: bool) -> tuple[list[float], float]:
    """Run a gang; return the seconds for each call, and the seconds from the request until the last one pauses."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        words = [sys.executable, "-c", WORKER, str(steps), str(int(pause))]
        gang = [
            subprocess.Popen(words, env=environment(directory, rank, world), stdout=subprocess.PIPE, text=True)
            for rank in range(world)
        ]
        outputs = [process.stdout for process in gang if process.stdout is not None]
        costs = [float(output.readline()) for output in outputs]
        asked = time.time()
        (directory / "pause").touch()
        reports = [output.readline().split() for output in outputs]
        for process in gang:
            process.communicate()
        if not pause:
            return costs, 0.0
        assert len({step for _, step in reports}) == 1, reports
        return costs, max(float(at) for at, _ in reports) - asked


def main() -> None:
    """Print the figures as one JSON object."""
    alone, _ = run(1, STEPS, pause=False)
    gang, _ = run(2, STEPS, pause=False)
    figures = {
        "machine": describe(),
        "should_pause_alone_us": round(max(alone) * 1e6, 2),
        "should_pause_in_a_gang_us": round(max(gang) * 1e6, 2),
        "until_all_paused_s": {
            f"gang of {world}": round(statistics.median(run(world, 0, pause=True)[1] for _ in range(ROUNDS)), 3)
            for world in (1, 4, 16)
        },
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
