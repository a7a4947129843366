"""Names, places in a list, the unit of weights, the hour and a job that can never run decide nothing."""

from __future__ import annotations

import pytest
from judges.random_pools import KINDS, pool_of_seed
from judges.symmetries import differences

SEEDS = range(4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_not_matter_does_not(kind):
    found = {seed: different for seed in SEEDS if (different := differences(pool_of_seed(kind, seed)))}

    assert found == {}
