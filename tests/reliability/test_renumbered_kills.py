"""Hub, service and proxy are killed while notebooks start and GPUs change: no GPU is held by two at a time.

`--soak N` kills each of them at every step, N times.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from kills.renumbered_kills import ALL, kill_while_gpus_change, rounds


def test_no_gpu_is_held_twice_whoever_is_killed_while_gpus_change(tmp_path: Path, soak: int) -> None:
    chosen = list(islice(rounds(), soak * ALL)) if soak else [next(rounds(10))]
    figures = kill_while_gpus_change(tmp_path, chosen)
    assert figures.problems == []
    assert figures.rounds == len(chosen)
    assert figures.looks > 0
