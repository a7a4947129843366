"""Whatever goes wrong, no promise is broken: random histories of engine, store and executor on virtual time.

`pytest tests/reliability --soak N` lives through N times as many, from fresh seeds; `--seed S` begins at seed S.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.history import live_through

HISTORIES = 150
BATCHES = 4


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_promise_is_broken_whatever_goes_wrong(batch, bed, first_seed, soak):
    for seed in range(first_seed + batch, first_seed + HISTORIES * (soak or 1), BATCHES):
        verdict = live_through(seed, bed)
        assert not verdict.problems, "\n".join([f"--seed {seed}:", *verdict.problems, *verdict.log])


DIGESTS = """
from simulation.history import live_through
from simulation.store import store_bed
with store_bed() as bed:
    print([live_through(seed, bed).digest for seed in range(4)])
"""


def test_a_seed_repeats_its_history_exactly():
    """Also in another process, where texts have other hashes."""
    told = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split(","))) == 4
