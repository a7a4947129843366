"""Tiny pools at rest, by brute force: nothing waits that could run, no quota is kept from its owner.

`python tests/oracles/soak.py` looks at as many as one likes.
"""

from __future__ import annotations

import pytest
from judges.command import plans
from judges.random_pools import KINDS, pool_of_seed
from judges.rest import breaches

SEEDS = range(30)


@pytest.mark.parametrize("kind", KINDS)
def test_tiny_pools_come_to_rest_with_all_promises_kept(kind):
    pools = [pool_of_seed(kind, seed) for seed in SEEDS]

    found = {
        seed: broken
        for seed, pool, shown in zip(SEEDS, pools, plans(pools), strict=True)
        if (broken := breaches(pool, shown))
    }

    assert found == {}
