"""Hub, service and proxy are killed while notebooks start and GPUs change: no GPU is held by two at a time.

`--soak N` kills each of them at every step, N times.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kills.renumbered_kills import ALL, kill_while_gpus_change, rounds

USUAL = 8
"""The round of the usual suite: the service is killed while the hub stores a notebook, and the proxy while the
next service learns where the GPUs are, of which one is lost and one less is for notebooks than before."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    soak = metafunc.config.getoption("--soak") or 0
    metafunc.parametrize("number", range(soak * ALL) if soak else [USUAL])


def test_no_gpu_is_held_twice_whoever_is_killed_while_gpus_change(tmp_path: Path, number: int) -> None:
    figures = kill_while_gpus_change(tmp_path, [next(rounds(number))])
    assert figures.problems == []
    assert figures.kills == 2
    assert figures.looks > 0
