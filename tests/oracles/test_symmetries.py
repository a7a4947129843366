"""Names, places in a list, the unit of weights, the hour and a job that can never run decide nothing."""

from __future__ import annotations

import pytest
from judges.histories import history_of_seed
from judges.random_pools import KINDS, pool_of_seed
from judges.symmetries import differences, differences_over_time

SEEDS = range(4)
HISTORIES = (*range(6), 402287, 420549)
"""Seeds; those beyond the range have broken a symmetry once."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_not_matter_does_not(kind):
    found = {seed: different for seed in SEEDS if (different := differences(pool_of_seed(kind, seed)))}

    assert found == {}


def test_what_must_not_matter_does_not_over_time():
    histories = {seed: history_of_seed(seed) for seed in HISTORIES}

    found = {
        seed: different
        for seed, (scenario, options, _) in histories.items()
        if (different := differences_over_time(scenario, options))
    }

    assert found == {}
