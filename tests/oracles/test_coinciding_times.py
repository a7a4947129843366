"""Submissions that coincide to the second: guarantees hold, nothing thrashes, all that can run ends."""

from __future__ import annotations

from judges.histories import breaches

SEEDS = range(40)


def test_histories_of_coinciding_times_keep_all_promises():
    found = {seed: broken for seed in SEEDS if (broken := breaches(seed))}

    assert found == {}
